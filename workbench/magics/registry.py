"""The results of this process, by kernel name: for line magics and `--baseline self`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from workbench.bench.results import KernelResult, Record
from workbench.magics import compiled_by_torch
from workbench.source import OptionError, limit_of

KEPT = 20  # results of one kernel
IN_ALL = limit_of("results")
#: Targets that are no GPUs.
_HOST = ("cpu", "interpreter")

_results: dict[str, list[KernelResult]] = {}
_order: list[KernelResult] = []
_latest: list[KernelResult] = []


def add(result: KernelResult) -> None:
    """Remember a result as the latest of its kernel, and of all.

    What ended earlier runs stays as an error, without the frames of the compiler.
    """
    for before in _latest:
        before.forget_frames()
    _latest[:] = [result]
    known = _results.setdefault(result.name, [])
    known.append(result)
    _order.append(result)
    if len(known) > KEPT:
        _forget(known[0])
    while len(_order) > IN_ALL:
        _forget(next((old for old in _order if _results[old.name][-1] is not old), _order[0]))


def _forget(result: KernelResult) -> None:
    """Remove a result, and the name that nothing is left of."""
    known = _results[result.name]
    known[:] = [other for other in known if other is not result]
    _order[:] = [other for other in _order if other is not result]
    if not known:
        del _results[result.name]


def clear() -> None:
    """Forget all results."""
    _results.clear()
    _order.clear()
    _latest.clear()


def names() -> list[str]:
    """Return the kernels that have results, in the order of their first one; torch's last."""
    return list(dict.fromkeys([*_results, *(found.name for found in compiled_by_torch.results())]))


def results() -> Iterator[KernelResult]:
    """Yield the results of each kernel, the oldest first; those that torch made come last."""
    for known in _results.values():
        yield from (_of_kernel(one.kernel) if _launched_since(one) else one for one in known)
    yield from compiled_by_torch.results()


def latest(name: str) -> KernelResult | None:
    """Return a kernel's latest result, None if it has none."""
    known = _results.get(name)
    return known[-1] if known else None


def find(what: Any = None, namespace: Mapping[str, Any] | None = None) -> KernelResult:
    """Return the result that a name, `K@SPEC`, a result or a kernel object stands for.

    None stands for the latest result. SPEC is a target, or a part of what the specialisation is
    called: the result has that compilation alone. Raises OptionError K129.
    """
    if isinstance(what, KernelResult):
        return what
    if what is None:
        if not _latest:
            raise OptionError(
                "there is no result yet", code="K129", hint="run a %%kernel cell first"
            )
        return _latest[0]
    if hasattr(what, "kernel_source"):
        return _of_kernel(what)
    name, _, spec = str(what).partition("@")
    bound = (namespace or {}).get(name)
    if isinstance(bound, KernelResult):
        return _with_spec(bound, [bound], spec)
    known = _results.get(name) or compiled_by_torch.find(name)
    if known and _launched_since(known[-1]):
        newer = _of_kernel(known[-1].kernel)
        return _with_spec(newer, [newer], spec)
    if known:
        return _with_spec(known[-1], known, spec)
    if bound is not None and hasattr(bound, "kernel_source"):
        return _of_kernel(bound)
    raise OptionError(
        f"no kernel or result named '{name}'",
        code="K129",
        hint=f"known: {', '.join(names()) or 'none'}",
    )


def refuse_spec(what: Any) -> None:
    """Raise OptionError K103 for `K@SPEC` where options say what is compiled and launched."""
    if isinstance(what, str) and "@" in what:
        name, _, spec = what.partition("@")
        words = [word.strip() for word in spec.replace("·", ",").split(",")]
        settings = [f"--set {word}" for word in words if "=" in word]
        # What is left are the arguments' types, which no option of a launch says.
        targets = [f"--target {w}" for w in words if w in _HOST or w.startswith("sm_")]
        options = " ".join([*targets, *settings]) or "--target T --set NAME=VALUE"
        raise OptionError(
            f"'{what}' names a compilation; here options say what is compiled and run",
            code="K103",
            hint=f"say it by options: {name} {options}",
        )  # fmt: skip


def _launched_since(result: KernelResult) -> bool:
    """Whether a cell that knew no types is followed by launches, which told them."""
    nothing = all(record.compiled is None and record.error is None for record in result.records)
    return nothing and bool(getattr(result.kernel, "results", ()))


def before(
    name: str | None, steps: int, namespace: Mapping[str, Any] | None = None
) -> KernelResult:
    """Return the result so many steps before a kernel's latest one; raises OptionError K129."""
    known = _results.get(name or find(None).name, [])
    if name is not None and not known:
        find(name, namespace)
    if steps >= len(known):
        raise OptionError(
            f"{name or 'the latest kernel'} has {len(known)} result"
            f"{'s' * (len(known) != 1)}, there is none {steps} before the latest",
            code="K129",
            hint="run its cell once more after a change, or name the other side",
        )
    return known[-1 - steps]


def _with_spec(newest: KernelResult, known: list[KernelResult], spec: str) -> KernelResult:
    if not spec:
        return newest
    for result in reversed(known):
        for record in result.records:
            kernel = record.trace.kernel
            if kernel.target == spec or spec in kernel.spec:
                return KernelResult(result.kernel, result.name, [record], plan=result.plan)
    found = ", ".join(
        dict.fromkeys(
            f"{record.trace.kernel.target} {record.trace.kernel.spec}".strip()
            for result in known
            for record in result.records
        )
    )
    raise OptionError(
        f"{newest.name} has no specialisation '{spec}'; there are: {found}", code="K129",
        hint=f"{newest.name}@sm_90a or {newest.name}@NAME=VALUE is compiled where it is asked for",
    )  # fmt: skip


def _of_kernel(kernel: Any) -> KernelResult:
    """Return what direct launches of a kernel object compiled, the latest in front."""
    compiled = list(getattr(kernel, "results", ()))
    known = latest(kernel.kernel_source.name)
    if known is not None and known.kernel is kernel and not compiled:
        return known
    if not compiled:
        raise OptionError(
            f"{kernel.kernel_source.name} has not been compiled yet", code="K129",
            hint="launch it, or give %%kernel --args or --sig",
        )  # fmt: skip
    records = [Record(lambda one=one: one.trace, one) for one in reversed(compiled)]
    return KernelResult(kernel, kernel.kernel_source.name, records)
