"""What `%bisect`, `%diff`, `%follow` and `%step` ask, in functions that need no IPython."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workbench.bench.binding import Binder
from workbench.bench.plan import Plan
from workbench.bench.results import KernelResult
from workbench.bench.subject import Subject
from workbench.interrupts import imported
from workbench.magics import registry, variants
from workbench.magics.options import Request
from workbench.magics.plain import plain
from workbench.magics.planning import make_plan
from workbench.magics.texts import Shown
from workbench.questions.answers import Answer
from workbench.questions.beside import beside
from workbench.questions.comparing import Difference, difference, label, stage_diff
from workbench.questions.following import Way
from workbench.questions.following import follow as way_of
from workbench.questions.live import live_where_most
from workbench.questions.stepping import Steps, step_through
from workbench.runtime.compiled import CompiledKernel
from workbench.source import OptionError
from workbench.targets.nvidia.toolchain import live_registers
from workbench.trace import STAGE_IDS, Trace
from workbench.trace.answers import Comparison
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
    first_wrong = imported("workbench.questions.first_wrong")  # nobody else needs it
    return first_wrong.find_first_wrong(
        subject, reference, plan.reference_text, other=beside, rtol=plan.rtol, atol=plan.atol
    )


def kernel_of(what: Any, names: Mapping[str, Any]) -> tuple[Any, Plan | None]:
    """Return a kernel object, and the plan of its latest run if there is one."""
    registry.refuse_spec(what)
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


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: its trace, and its code where that is at hand."""

    trace: Trace
    code: bytes = b""


@dataclass(frozen=True, slots=True)
class Compared:
    """Two traces and what differs between them."""

    traces: tuple[Trace, Trace]
    difference: Difference

    def comparison(self) -> Comparison:
        """Return both beside each other, as a viewer shows it."""
        return beside(*self.traces, self.difference)


def compare(
    one: Any = None,
    other: Any = None,
    *,
    labels: tuple[str, str] | None = None,
    namespace: Namespace | None = None,
) -> Compared:
    """Return two compilations and what differs between them; arguments and errors as of `diff`."""
    a, b, told = _labelled(one, other, dict(namespace or {}))
    labels = labels or told
    live = (_live(a), _live(b))
    return Compared((a.trace, b.trace), difference(a.trace, b.trace, labels, live))


def diff(
    one: Any = None,
    other: Any = None,
    *,
    stage: str | None = None,
    labels: tuple[str, str] | None = None,
    namespace: Namespace | None = None,
) -> Difference | Shown:
    """Return what differs between two compilations, or the whole diff of one stage.

    Args:
        one: a name, `K@SPEC`, `K@NAME=VALUE,…` (compiled now with these settings), `K@TARGET`,
            `K~1` (the result before the latest), a file (.wbt, .json, .html, .ipynb), a result or
            a trace; the result before the latest one if `other` is None.
        other: the same; the latest result of `one`'s kernel if None.
        stage: show the unified diff of this stage instead.
        labels: what the two sides are called; None: kernel, target and specialisation.
        namespace: where names are looked up first.

    Raises:
        OptionError: K129 for what there is not, K801 for a file that cannot be read.
    """
    if stage is None:
        return compare(one, other, labels=labels, namespace=namespace).difference
    one_side, other_side, told = _labelled(one, other, dict(namespace or {}))
    a, b = one_side.trace, other_side.trace
    if not (a.text(stage) and b.text(stage)):
        both = [s.id for s in a.stages if a.text(s.id) and b.text(s.id)]
        raise OptionError(
            f"not both sides have the stage '{stage}'",
            code="K129",
            hint=f"both have {' '.join(both)}",
        )
    return Shown(stage_diff(a, b, stage, labels or told), "diff")


def _labelled(
    one: Any, other: Any, names: Mapping[str, Any]
) -> tuple[Side, Side, tuple[str, str]]:  # fmt: skip
    """Return both sides and what they are called; where results have several, of one target."""
    if other is None:
        latest = registry.find(one, names)
        one, other = f"{latest.name}~1", latest
    a, b = _same_target(_sides(one, names), _sides(other, names))
    labels = (label(a.trace), label(b.trace))
    if labels[0] == labels[1]:
        words = [each if isinstance(each, str) else f"the {order}" for each, order in
                 ((one, "earlier"), (other, "latest"))]  # fmt: skip
        labels = (f"{labels[0]} ({words[0]})", f"{labels[1]} ({words[1]})")
    return a, b, labels


def _same_target(one: Sequence[Side], other: Sequence[Side]) -> tuple[Side, Side]:
    for a in one:
        for b in other:
            if a.trace.kernel.target == b.trace.kernel.target:
                return a, b
    return one[0], other[0]


def _live(side: Side) -> Sequence[int]:
    """Return which instructions wrote the registers that are live where most are."""
    return live_where_most(live_registers(side.code)) if side.code else ()


def _traces(what: Any, names: Mapping[str, Any]) -> Sequence[Trace]:
    return [side.trace for side in _sides(what, names)]


def _sides(what: Any, names: Mapping[str, Any]) -> Sequence[Side]:
    if isinstance(what, Trace):
        return [Side(what)]
    if isinstance(what, str):
        if Path(what.partition("::")[0]).suffix in (".wbt", ".json", ".html", ".ipynb"):
            from workbench.viewer.reading import read_traces

            return [Side(trace) for trace in read_traces(what)]
        name, wave, steps = what.partition("~")
        if wave and steps.isdecimal():
            return _of_result(registry.before(name or None, int(steps), names))
        if "@" in what:
            return _of_result(variants.find(what, names))[:1]
    return _of_result(registry.find(what, names))


def _of_result(result: KernelResult) -> list[Side]:
    return [_side(record.trace, record.compiled) for record in result.records]


def _side(trace: Trace, compiled: CompiledKernel | None) -> Side:
    gpu = compiled is not None and trace.text("sass") != ""
    return Side(trace, compiled.code if compiled is not None and gpu else b"")


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
    return followed(kernel, what, namespace=namespace)[1]


def followed(
    kernel: Any = None, what: str | None = None, *, namespace: Namespace | None = None
) -> tuple[Trace, Way]:
    """Return the trace that is asked, and the way in it; arguments and errors as of `follow`."""
    if what is None:
        raise _nothing_to_follow()
    traces = _traces(kernel, dict(namespace or {}))
    stage = what.partition(":")[0] if ":" in what else ""
    having = (trace for trace in traces if stage in STAGE_IDS and trace.text(stage))
    trace = next(having, traces[0])
    try:
        return trace, way_of(trace, what)
    except OptionError:
        if kernel is None and what in registry.names():
            raise _nothing_to_follow(what) from None
        raise


def _nothing_to_follow(name: str = "add") -> OptionError:
    return OptionError(
        "what is to be followed?", code="K103",
        hint=f"%follow {name} 5, %follow {name} offsets or %follow {name} sass:12",
    )  # fmt: skip


def as_json(answer: Answer | Difference | Way | Steps | Shown) -> Shown:
    """Return an answer as `--json` prints it."""
    data = {"text": str(answer)} if isinstance(answer, Shown) else answer.data()
    # As the command's exit code has it: what is wrong is an answer, and not ok.
    return plain(ok=not isinstance(answer, Answer) or answer.verdict == "right", **data)
