"""`K@SPEC`: a compilation there is, or one that is made now: another target, other settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workbench.bench.results import KernelResult, Record
from workbench.bench.subject import Subject
from workbench.launch.grids import resolve_grid
from workbench.launch.options import DEFAULTS, SHORT_FORMS, check_options
from workbench.magics import registry
from workbench.magics.values import TARGETS
from workbench.runtime.compiled import CompiledKernel
from workbench.runtime.compiling import obtain
from workbench.source import OptionError, literal


def find(what: Any = None, namespace: Mapping[str, Any] | None = None) -> KernelResult:
    """Return the result that a name, `K@SPEC`, a result or a kernel object stands for.

    Where none has a SPEC of targets and settings (`sm_80`, `BLOCK=64,num_warps=8`), the kernel is
    compiled for it now; nothing runs. Raises OptionError K129 for what there is not, K112 for
    settings that the kernel does not take, and what compiling raises.
    """
    if not isinstance(what, str) or "@" not in what:
        return registry.find(what, namespace)
    name, _, spec = what.partition("@")
    try:
        return registry.find(what, namespace)
    except OptionError:
        words = spec.split(",")
        if not all("=" in word or word in TARGETS for word in words):
            raise
    return made(registry.find(name or None, namespace), words)


def made(
    result: KernelResult, words: list[str], settings: Mapping[str, Any] | None = None
) -> KernelResult:
    """Return a result's kernel compiled anew; words are targets and `NAME=VALUE`.

    `settings`: values of other names, as they are.
    """
    found = compiled_as(result, words, settings)
    made = KernelResult(result.kernel, result.name, [Record(lambda: found.trace, found)])
    made.example, made.plan = _example(result, found), result.plan
    return made


def _example(result: KernelResult, found: CompiledKernel) -> Subject | None:
    """Return a result's launch as it would be of another compilation, None if nobody knows."""
    subject, plan = result.subject or result.example, result.plan
    if subject is None:
        return None
    constants = {n: known.value for n, known in found.signature.arguments if known.is_constant}
    own = subject.constants
    changed = {n: v for n, v in constants.items() if n in own and own[n] != v}
    options = {n: v for n, v in found.signature.options if n in DEFAULTS}
    grid = subject.grid
    if changed:
        if plan is None or plan.grid is None:
            return None
        names = {**subject.names(), **changed}
        grid = resolve_grid(plan.grid(names), lambda: names)
    settings = {**subject.settings, **options, **changed}
    return replace(subject, constants={**own, **changed}, settings=settings, grid=grid)


def compiled_as(
    result: KernelResult, words: list[str], settings: Mapping[str, Any] | None = None
) -> CompiledKernel:
    """Return a result's kernel compiled for another target, or with other constexprs or options."""
    compiled = result.compiled
    if compiled is None:
        raise OptionError(
            f"{result.name} did not compile, so it has no variants", code="K129",
            hint="mend what its cell says first",
        )  # fmt: skip
    target, signature = compiled.target, compiled.signature
    given = {SHORT_FORMS.get(name, name): value for name, value in (settings or {}).items()}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            target = word
            continue
        try:
            given[SHORT_FORMS.get(key, key)] = literal(value)
        except ValueError:
            given[SHORT_FORMS.get(key, key)] = value
    parameters = {p.name for p in compiled.source.parameters if p.is_constexpr}
    constants = {n: v for n, v in given.items() if n in parameters}
    options = {n: v for n, v in given.items() if n not in parameters}
    check_options(options, compiled.source)
    arguments = tuple(
        (n, replace(fact, value=constants[n]) if n in constants else fact)
        for n, fact in signature.arguments
    )
    everything = tuple(sorted({**dict(signature.options), **options}.items()))
    wanted = replace(signature, arguments=arguments, options=everything)
    return obtain(compiled.source, wanted, target)
