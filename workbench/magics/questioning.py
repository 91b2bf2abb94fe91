"""What `%bisect`, `%diff`, `%follow` and `%step` ask, in functions that need no IPython."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.bench.binding import Binder
from workbench.bench.plan import Plan
from workbench.bench.subject import Subject
from workbench.launch.options import SHORT_FORMS, check_options
from workbench.magics import registry
from workbench.magics.options import Request
from workbench.magics.planning import make_plan
from workbench.magics.texts import Shown
from workbench.magics.values import TARGETS
from workbench.questions.answers import Answer
from workbench.questions.comparing import Difference, difference, label, stage_diff
from workbench.questions.first_wrong import find_first_wrong
from workbench.questions.following import Way
from workbench.questions.following import follow as way_of
from workbench.questions.stepping import Steps, step_through
from workbench.runtime.compiling import obtain
from workbench.source import OptionError
from workbench.targets.nvidia.control import live_by_address
from workbench.targets.nvidia.toolchain import live_registers
from workbench.trace import STAGE_IDS, Trace
from workbench.tuning.tune import without_search

Namespace = Mapping[str, Any]


def bisect(
    kernel: Any = None,
    request: Request | None = None,
    namespace: Namespace | None = None,
    other: Any = None,
) -> Answer:
    """Return where the first wrong op of a kernel's launch is.

    Args:
        kernel: a name, a result or a kernel object; the latest result if None.
        request: options; what is not given is as it was in the kernel's latest run.
        namespace: where names are looked up first.
        other: a right version of the kernel, which takes the same arguments in the same order.

    Raises:
        OptionError: K129 for an unknown kernel, K110 where nobody knows the arguments.
        CheckError: K602 or K603 for a reference that does not fit or fails.
    """
    request = request or Request()
    names = dict(namespace or {})
    entry, known = kernel_of(kernel, names)
    plan = _plan(entry, known, request, names, ", and --check for what is right")
    subject = _subject(entry, plan)
    beside = None
    if other is not None:
        right, right_known = kernel_of(other, names)
        beside = _subject(right, _same_launch(plan, right_known, entry, right))
    reference = plan.reference
    return find_first_wrong(
        subject, reference, plan.reference_text, other=beside, rtol=plan.rtol, atol=plan.atol
    )


def kernel_of(what: Any, names: Mapping[str, Any]) -> tuple[Any, Plan | None]:
    """Return a kernel object, and the plan of its latest run if there is one."""
    found: Any = names.get(what) if isinstance(what, str) else what
    if hasattr(found, "kernel_source"):
        latest = registry.latest(found.kernel_source.name)
        fits = latest is not None and latest.kernel is found
        return found, latest.plan if latest is not None and fits else None
    result = registry.find(what, names)
    return result.kernel, result.plan


def _plan(
    entry: Any, known: Plan | None, request: Request, names: Mapping[str, Any], more: str = ""
) -> Plan:
    """Return the launch that is asked about; `more` is what else the hint asks for."""
    source = entry.kernel_source
    if request.args is not None or request.make is not None:
        asked = make_plan(request, source, names)
        return asked if known is None else replace(asked, **merged(asked, known, request))
    if known is None or (known.arguments is None and known.make is None):
        raise OptionError(
            f"what are the arguments of {source.name}?", code="K110",
            hint=f"add --args x,y,… or --make f{more}",
        )  # fmt: skip
    return replace(known, **merged(make_plan(request, source, names), known, request))


def merged(asked: Plan, known: Plan, request: Request) -> dict[str, Any]:
    """Return what a line says, and for what it does not say what the kernel's latest run said."""
    own = asked if asked.reference is not None else known
    return {
        "reference": own.reference,
        "reference_text": own.reference_text,
        "grid": asked.grid or known.grid,
        "settings": {**known.settings, **asked.settings},
        "target": asked.target if asked.target != "auto" else known.target,
        "points": asked.points if request.axes else known.points,
        "rtol": asked.rtol if asked.rtol is not None else known.rtol,
        "atol": asked.atol if asked.atol is not None else known.atol,
    }


def step(
    kernel: Any = None,
    request: Request | None = None,
    namespace: Namespace | None = None,
    program: str | None = None,
) -> Steps:
    """Return one program of a kernel's launch, run by the interpreter over copies, step by step.

    Args:
        kernel: a name, a result or a kernel object; the latest result if None.
        request: options; what is not given is as it was in the kernel's latest run.
        namespace: where names are looked up first.
        program: its number, or its place along each axis ("1,0"); the first one if None.

    Raises:
        OptionError: K129 for an unknown kernel, K110 where nobody knows the arguments, K103 for a
            program, a step, a line or an element that there is not.
    """
    request = request or Request()
    names = dict(namespace or {})
    entry, known = kernel_of(kernel, names)
    plan = replace(_plan(entry, known, request, names), target="interpreter")
    chosen = {**_latest_constants(entry), **plan.settings}
    subject = _subject(without_search(entry), replace(plan, settings=chosen))
    found = step_through(subject, _program(program))
    if request.watch is not None:
        found = found.watching(request.watch)
    found = found.to(request.at) if request.at is not None else found
    return found.stopping(request.breaks) if request.breaks else found


def _latest_constants(entry: Any) -> dict[str, Any]:
    """Return the constexprs of a kernel's latest compilation: those that a search chose, too."""
    constants = {p.name for p in entry.kernel_source.parameters if p.is_constexpr}
    known: list[Any] = list(getattr(without_search(entry), "results", ()))
    if not known:
        return {}
    facts: Mapping[str, Any] = dict(known[-1].signature.arguments)
    return {name: fact.value for name, fact in facts.items() if name in constants}


def _program(word: str | None) -> int | list[int]:
    if word is None:
        return 0
    try:
        places = [int(part) for part in word.split(",")]
    except ValueError:
        raise OptionError(
            f"'{word}' is no program", code="K103", hint="%step add 3, or %step add 1,0"
        ) from None
    return places[0] if len(places) == 1 else places


def _same_launch(plan: Plan, own: Plan | None, entry: Any, other: Any) -> Plan:
    """Return the plan of the same launch for another version: arguments go by their places."""
    mine, theirs = (
        [p.name for p in kernel.kernel_source.parameters if not p.is_constexpr]
        for kernel in (entry, other)
    )
    if len(mine) != len(theirs):
        raise OptionError(
            f"{other.kernel_source.name} takes {len(theirs)} arguments, "
            f"{entry.kernel_source.name} {len(mine)}", code="K110",
            hint="a right version takes the same arguments in the same order",
        )  # fmt: skip
    arguments = plan.arguments
    if arguments is not None and mine != theirs:
        arguments = {theirs[mine.index(n)]: v for n, v in arguments.items() if n in mine}
    constants = {p.name for p in other.kernel_source.parameters if p.is_constexpr}
    theirs_too = {p.name for p in entry.kernel_source.parameters if p.is_constexpr} - constants
    settings = {name: v for name, v in plan.settings.items() if name not in theirs_too}
    if own is not None:
        settings = {**settings, **own.settings}
    grid = own.grid if own is not None and own.grid is not None else plan.grid
    return replace(plan, arguments=arguments, settings=settings, grid=grid, words={})


def _subject(kernel: Any, plan: Plan) -> Subject:
    binder = Binder(kernel, kernel.kernel_source, plan)
    return binder.bind(plan.points[-1])


def diff(
    one: Any = None,
    other: Any = None,
    *,
    stage: str | None = None,
    namespace: Namespace | None = None,
) -> Difference | Shown:
    """Return what differs between two compilations, or the whole diff of one stage.

    Args:
        one: a name, `K@SPEC`, `K@NAME=VALUE,…` (compiled now with these settings), `K@TARGET`,
            `K~1` (the result before the latest), a file (.wbt, .json, .html, .ipynb), a result or
            a trace; the result before the latest one if `other` is None.
        other: the same; the latest result of `one`'s kernel if None.
        stage: show the unified diff of this stage instead.
        namespace: where names are looked up first.

    Raises:
        OptionError: K129 for what there is not, K801 for a file that cannot be read.
    """
    names = dict(namespace or {})
    if other is None:
        latest = registry.find(one, names)
        one, other = f"{latest.name}~1", latest
    a, b = _sides(one, other, names)
    labels = (label(a), label(b))
    if labels[0] == labels[1]:
        words = [each if isinstance(each, str) else f"the {order}" for each, order in
                 ((one, "earlier"), (other, "latest"))]  # fmt: skip
        labels = (f"{labels[0]} ({words[0]})", f"{labels[1]} ({words[1]})")
    if stage is None:
        return difference(a, b, labels, [_most_live(trace) for trace in (a, b)])
    if not (a.text(stage) and b.text(stage)):
        both = [s.id for s in a.stages if a.text(s.id) and b.text(s.id)]
        raise OptionError(
            f"not both sides have the stage '{stage}'",
            code="K129",
            hint=f"both have {' '.join(both)}",
        )
    return Shown(stage_diff(a, b, stage, labels), "diff")


def _sides(one: Any, other: Any, names: Mapping[str, Any]) -> tuple[Trace, Trace]:
    """Return the two traces; where results have several, those for the same target."""
    sides = [_traces(each, names) for each in (one, other)]
    for a in sides[0]:
        for b in sides[1]:
            if a.kernel.target == b.kernel.target:
                return a, b
    return sides[0][0], sides[1][0]


def _most_live(trace: Trace) -> int | None:
    """Return how many registers nvdisasm counts where most are live; None without the code."""
    own, rows = trace.kernel, trace.text("sass")
    for result in registry.results() if rows else ():
        for record in result.records if result.name == own.name else ():
            compiled = record.compiled
            if compiled is None or compiled.target != own.target:
                continue
            if record.trace.text("sass") == rows:
                counts = live_by_address(live_registers(compiled.code))
                return max(counts.values(), default=None)
    return None


def _traces(what: Any, names: Mapping[str, Any]) -> Sequence[Trace]:
    if isinstance(what, Trace):
        return [what]
    if isinstance(what, str):
        if Path(what.partition("::")[0]).suffix in (".wbt", ".json", ".html", ".ipynb"):
            from workbench.viewer.reading import read_traces

            return read_traces(what)
        name, wave, steps = what.partition("~")
        if wave and steps.isdecimal():
            return registry.before(name or None, int(steps), names).traces
        name, at, spec = what.partition("@")
        if at:
            try:
                found = registry.find(what, names)
            except OptionError:
                if "=" not in spec and spec not in TARGETS:
                    raise
                return [_compiled_as(name, spec, names)]
            return found.traces[:1]
    return registry.find(what, names).traces


def _compiled_as(name: str, spec: str, names: Mapping[str, Any]) -> Trace:
    """Return the trace of a kernel compiled for another target, or with other options."""
    result = registry.find(name or None, names)
    compiled = result.compiled
    if compiled is None:
        raise OptionError(f"{result.name} did not compile, so it has no variants", code="K129")
    target, signature = compiled.target, compiled.signature
    given: dict[str, Any] = {}
    for word in spec.split(","):
        key, equals, value = word.partition("=")
        if not equals and word in TARGETS:
            target = word
            continue
        try:
            given[SHORT_FORMS.get(key, key)] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
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
    return obtain(compiled.source, wanted, target).trace


def follow(
    kernel: Any = None, what: str | None = None, *, namespace: Namespace | None = None
) -> Way:
    """Return the way of a line, a value or a row through all passes and stages.

    Args:
        kernel: a name, K@SPEC, a result or a kernel object; the latest result if None.
        what: a source line, a value's name, or `stage:row` such as `sass:123`.
        namespace: where names are looked up first.

    Raises:
        OptionError: K129 for what there is not, K103 where nothing is asked.
    """
    if what is None:
        raise OptionError(
            "what is to be followed?", code="K103",
            hint="%follow add 5, %follow add offsets or %follow add sass:12",
        )  # fmt: skip
    traces = _traces(kernel, dict(namespace or {}))
    stage = what.partition(":")[0] if ":" in what else ""
    having = (trace for trace in traces if stage in STAGE_IDS and trace.text(stage))
    return way_of(next(having, traces[0]), what)


def as_json(answer: Answer | Difference | Way | Steps | Shown) -> Shown:
    """Return an answer as `--json` prints it."""
    data = {"text": str(answer)} if isinstance(answer, Shown) else answer.data()
    return Shown(json.dumps({"ok": True, **data}, indent=1), "json")
