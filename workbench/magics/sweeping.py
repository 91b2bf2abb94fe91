"""What `%whatif` asks: from an option line to the squares of a map. Works without IPython."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from workbench.analysis.memory import parameter_roles
from workbench.bench.binding import Binder, chip, defaults
from workbench.bench.device import has_gpu
from workbench.bench.plan import Plan
from workbench.bench.work import bytes_moved
from workbench.interrupts import may_stop
from workbench.launch.facts import Signature
from workbench.launch.options import DEFAULTS, SHORT_FORMS, check_options, long_names
from workbench.launch.signature import read_signature
from workbench.magics import registry, swept
from workbench.magics.comparisons import ShownComparison
from workbench.magics.drawing import heat_svg
from workbench.magics.options import Request
from workbench.magics.plain import plain
from workbench.magics.planning import make_plan
from workbench.magics.questioning import kernel_of, merged
from workbench.magics.texts import Shown
from workbench.magics.values import closest
from workbench.questions.whatif import (
    MEASURES,
    Measure,
    Progress,
    Square,
    WhatIf,
    failed,
    fill,
    table,
    word,
)
from workbench.runtime.compiled import CompiledKernel
from workbench.runtime.jit import Plan as Compiling
from workbench.source import KernelError, OptionError
from workbench.source.arguments import constant
from workbench.source.captures import captures
from workbench.tuning.tune import aligned, without_search
from workbench.viewer.styles import SENTENCES

Namespace = Mapping[str, Any]
#: More squares than that are no map.
MOST_SQUARES = 1024


def whatif(
    kernel: Any = None,
    request: Request | None = None,
    namespace: Namespace | None = None,
    progress: Progress | None = None,
) -> WhatIf:
    """Return what a kernel would be with other values of constexprs or options; nothing runs.

    Args:
        kernel: a name, a result or a kernel object; the latest result if None.
        request: the axes (`--axis`), and options; what is not given is as in the latest run.
        namespace: where names are looked up first.
        progress: called with the map whenever a square was filled.

    Raises:
        OptionError: K121 for axes that are missing, unknown or too many; K129 for an unknown
            kernel; K110 where nobody knows the types of its arguments; K114 for a target that is
            no GPU.
    """
    with may_stop():
        found, squares, plans = _map(kernel, request or Request(), dict(namespace or {}))
    fill(found, plans, moved=squares.moved(), progress=progress)
    return found


def _map(
    kernel: Any, request: Request, names: Namespace
) -> tuple[WhatIf, _Squares, list[Compiling | None]]:
    """Return a map with empty squares, and what each of them compiles."""
    entry, known = kernel_of(kernel, names)
    plan = make_plan(request, entry.kernel_source, names)
    if known is not None:
        own = request.args is not None or request.make is not None or request.sig is not None
        plan = replace(plan if own else known, **merged(plan, known, request))
    compiled = _compiled(entry)
    target = _target(request, compiled)
    axes = _axes(entry, request, names)
    found = WhatIf(
        entry.kernel_source.name, target, tuple(axes), tuple(tuple(v) for v in axes.values()),
        tuple(make_plan(request, entry.kernel_source, names).settings.items()),
    )  # fmt: skip
    squares = _Squares(entry, replace(plan, target=target), compiled, request)
    plans: list[Compiling | None] = []
    for values in itertools.product(*axes.values()):
        square, made = Square(values), None
        try:
            made = squares.plan(dict(zip(axes, values, strict=True)))
            square.grid = made.grid
        except KernelError as error:
            failed(square, error)
        found.squares.append(square)
        plans.append(made)
    if not any(plans) and squares.error is not None:
        if isinstance(squares.error, OptionError):  # what it points to is an earlier cell's line
            squares.error.span = request.place("tune")
        raise squares.error
    return found, squares, plans


def _axes(entry: Any, request: Request, names: Namespace) -> dict[str, tuple[Any, ...]]:
    axes: dict[str, tuple[Any, ...]] = {}
    source = entry.kernel_source
    constants = [p.name for p in source.parameters if p.is_constexpr]
    for axis in request.tune:
        name = SHORT_FORMS.get(axis.name, axis.name)
        if axis.name not in constants and name not in DEFAULTS:
            options = {name: short for short, name in SHORT_FORMS.items()}
            known = [*constants, *(options.get(option, option) for option in DEFAULTS)]
            raise OptionError(
                f"no axis '{axis.name}'{closest(axis.name, known)}",
                request.place(f"tune.{axis.name}") or request.place("tune"), code="K121",
                hint=f"axes: {', '.join(known)}",
            )  # fmt: skip
        axes[axis.name if axis.name in constants else name] = axis.values(names)
    count = 1
    for name, values in axes.items():
        if not values:
            raise OptionError(f"axis {name} has no values", request.place("tune"), code="K121")
        count *= len(values)
    if not 1 <= len(axes) <= 2 or count > MOST_SQUARES:
        said = f"{count:,} squares" if count > MOST_SQUARES else f"{len(axes)} axes"
        raise OptionError(
            f"a map has one axis or two and at most {MOST_SQUARES:,} squares, this has {said}",
            request.place("tune"), code="K121",
            hint="e.g. --axis BM=64,128 --axis warps=4,8; what is the same in all goes to --set",
        )  # fmt: skip
    return axes


def _compiled(entry: Any) -> list[CompiledKernel]:
    """Return what was compiled of a kernel, the latest result first."""
    latest = registry.latest(entry.kernel_source.name)
    if latest is None or latest.kernel is not entry:
        return list(reversed(getattr(entry, "results", ())))
    return [record.compiled for record in latest.records if record.compiled is not None]


def _target(request: Request, compiled: Sequence[CompiledKernel]) -> str:
    if request.target.startswith("sm_"):
        return request.target
    if request.target != "auto":
        raise OptionError(
            f"there is no model of the target {request.target}", request.place("target"),
            code="K114",
            hint="%whatif asks about a GPU, which need not be there: --target sm_90a",
        )  # fmt: skip
    found = (kernel.target for kernel in compiled if kernel.target.startswith("sm_"))
    return next(found, chip() if has_gpu() else "sm_90a")


@dataclass(slots=True)
class _Squares:
    """Says what each square compiles: by the launch, by `--sig`, or as the latest compilation."""

    entry: Any
    asked: Plan
    compiled: Sequence[CompiledKernel]
    request: Request
    error: KernelError | None = None
    _arguments: dict[str, Any] | None = None
    _given: dict[str, Any] | None = None

    def plan(self, values: Mapping[str, Any]) -> Compiling:
        try:
            return self._plan(values)
        except KernelError as error:
            self.error = self.error or error
            raise

    def _plan(self, values: Mapping[str, Any]) -> Compiling:
        asked = replace(self.asked, settings={**self.asked.settings, **values})
        if asked.signature is None and (asked.arguments is not None or asked.make is not None):
            return self._launched(asked)
        return self._stated(asked, values)

    def _launched(self, asked: Plan) -> Compiling:
        entry = without_search(self.entry)
        binder = Binder(entry, entry.kernel_source, asked)
        if self._arguments is None:
            self._arguments, self._given = binder.arguments(asked.points[-1])
        given = {**(self._given or {}), **binder.constants}
        names = {**defaults(entry.kernel_source), **given, **self._arguments}
        names |= {w: self._arguments[n] for w, n in asked.words.items() if n in self._arguments}
        return entry.plan_elsewhere(
            **self._arguments, **given, **binder.options, target=asked.target,
            grid=lambda meta: binder.grid({**names, **meta}),
        )  # fmt: skip

    def _stated(self, asked: Plan, values: Mapping[str, Any]) -> Compiling:
        """Return what is compiled where nobody knows a launch: nothing is told of its time."""
        source = self.entry.kernel_source
        constants = {p.name for p in source.parameters if p.is_constexpr}
        given = {n: v for n, v in asked.settings.items() if n in constants}
        options = long_names({n: v for n, v in asked.settings.items() if n not in given})
        if asked.signature is not None:
            arguments = read_signature(source, asked.signature, given, asked.assume)
            signature = Signature(arguments, check_options(options, source))
        elif self.compiled:
            before = self.compiled[0].signature
            arguments = tuple(
                (n, constant(given[n]) if n in given else known) for n, known in before.arguments
            )
            check_options(options, source)
            everything = {**dict(before.options), **options}
            signature = Signature(arguments, tuple(sorted(everything.items())))
        else:
            raise OptionError(
                f"what are the arguments of {source.name}?", code="K110",
                hint="add --args x,y,… or --make f; or --sig, for a map without times",
            )  # fmt: skip
        captured = getattr(self.entry, "captures", None) or captures(source)
        return Compiling(source, signature, asked.target, captured, {}, None, -1)

    def moved(self) -> float:
        """Return the bytes that the launch must move at the least, 0 where nobody knows."""
        for kernel in self.compiled if self._arguments else ():
            roles = parameter_roles(kernel.compiled.module)
            return float(bytes_moved(self._arguments or {}, roles))
        return 0.0


# -- what is shown ----------------------------------------------------------------------------
def text_of(found: WhatIf) -> str:
    """Return a map as text: a table for each number, the best square, what to compare it with."""
    ready = sum(square.state in ("ok", "failed") for square in found.squares)
    stopped = ", stopped" if found.stopped else ""
    parts = [
        f"{found.kernel} for {found.target}: {ready} of {len(found.squares)} squares in "
        f"{found.seconds:.1f} s{stopped}"
    ]
    for measure in _measures(found):
        parts += [f"\n{measure.title}{f' ({measure.unit})' if measure.unit else ''}",
                  aligned(_first_to_the_right(table(found, measure)))]  # fmt: skip
    return "\n".join([*parts, "", *notes(found)])


def _first_to_the_right(rows: list[list[str]]) -> list[list[str]]:
    """`aligned` writes the last column to the left; an empty one behind it keeps numbers right."""
    return [[*row, ""] for row in rows]


def _measures(found: WhatIf) -> list[Measure]:
    """Return the numbers that some square has."""
    having = [m for m in MEASURES if any(s.number(m) is not None for s in found.squares)]
    return having or list(MEASURES[:1])


def notes(found: WhatIf) -> list[str]:
    """Return the sentences below a map."""
    lines: list[str] = []
    best = found.best
    if best is not None and best.prediction is not None:
        said = _settings(found, best)
        lines.append(
            f"best predicted: {said} with {best.prediction.microseconds:.3g} µs, bound by "
            f"{best.prediction.bound}; --set {said.replace(' ', ' --set ')}"
        )
        lines.append(
            f"times are predicted for an {found.product} from cycles of each unit, waits and waves "
            "(workbench/questions/predicting.py): they rank squares, measure before you believe one"
        )
        compared = found.comparison(best)
        lines += [f"compare: {compared}"] if compared else []
    elif any(square.facts for square in found.squares):
        lines.append("no time is predicted without the launch: add --args x,y,… and --grid")
    if any(s.facts and s.facts.work and s.facts.work.unknown for s in found.squares):
        lines.append("loops whose length depends on data were taken to run once")
    reasons: dict[str, list[str]] = {}
    for square in found.squares:
        if square.state == "failed":
            reasons.setdefault(square.reason, []).append(_settings(found, square))
    lines += [f"✗ {', '.join(where[:4])}{' …' * (len(where) > 4)}: {why}"
              for why, where in reasons.items()]  # fmt: skip
    return lines


def _settings(found: WhatIf, square: Square) -> str:
    return " ".join(f"{n}={v}" for n, v in zip(found.axes, square.values, strict=True))


class ShownMap(Shown):
    """A map: text everywhere, heat maps in a notebook. `.found` has the squares."""

    found: WhatIf
    __slots__ = ("found",)

    def __new__(cls, found: WhatIf) -> ShownMap:
        """Return the map as text that draws itself."""
        shown: Any = super().__new__(cls, text_of(found))
        shown.found = found
        return shown

    def compare(self, **values: Any) -> ShownComparison:
        """Return the square with these values of the axes beside the best one, as `%diff` does.

        Raises OptionError K103 for values that no square has.
        """
        given = long_names(values)
        wanted = tuple(given.get(n) for n in self.found.axes)
        number = next((n for n, s in enumerate(self.found.squares) if s.values == wanted), None)
        if number is None:
            axes = zip(self.found.axes, self.found.values, strict=True)
            known = "; ".join(f"{name} of {', '.join(map(str, own))}" for name, own in axes)
            raise OptionError("no square has these values", code="K103", hint=known)
        return swept.compare_squares(self.found, number)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return bundle(self.found)


def bundle(found: WhatIf) -> dict[str, Any]:
    """Return a map as text, as HTML (one heat map large, the others beside each other) and as data.

    The extension shows the data: there a click on a square compares it with the best one.
    """
    first, *others = [picture(found, m, large=n == 0) for n, m in enumerate(_measures(found))]
    small = "".join(f'<div style="margin:0 12px 8px 0">{svg}</div>' for svg in others)
    ready = sum(square.state in ("ok", "failed") for square in found.squares)
    going = ready < len(found.squares) and not found.stopped
    said = [f"{ready} of {len(found.squares)} squares in {found.seconds:.1f} s"]
    said += ["Stop (interrupt the kernel) keeps what is there"] if going else []
    said += ["stopped"] if found.stopped else []
    lines = "\n".join(["; ".join(said), *notes(found)])
    html = (
        f'<div style="background:#ffffff;padding:4px;overflow:auto"><div>{first}</div>'
        f'<div style="display:flex;flex-wrap:wrap">{small}</div></div>'
        f'<pre style="{SENTENCES}">{escape(lines)}</pre>'
    )
    data = swept.sweep_of(found, _measures(found), [*said, *notes(found)])
    return {"text/plain": text_of(found), "text/html": html, swept.MIME: data}


def picture(found: WhatIf, measure: Measure, *, large: bool) -> str:
    """Return one number of all squares as SVG; a square's tooltip has all of them."""
    rows, columns = found.values if len(found.values) == 2 else (("",), found.values[0])
    names = found.axes if len(found.axes) == 2 else ("", found.axes[0])
    unit = f" ({measure.unit})" if measure.unit else ""
    best, tip = found.best, _tip if large else _settings
    cells = [
        (word(square, measure), square.number(measure), tip(found, square), square is best)
        for square in found.squares
    ]
    return heat_svg(
        f"{found.kernel} for {found.target}: {measure.title}{unit}" if large
        else f"{measure.title}{unit}",
        names, (list(map(str, rows)), list(map(str, columns))), cells, less=measure.less,
        large=large,
    )  # fmt: skip


def _tip(found: WhatIf, square: Square) -> str:
    lines = [_settings(found, square)]
    lines += [
        f"{m.title}: {word(square, m)} {m.unit}".rstrip()
        for m in MEASURES
        if square.number(m) is not None
    ]
    if square.prediction is not None:
        lines.append(f"bound by {square.prediction.bound}")
    if square.reason:
        lines.append(square.reason)
    if square.facts is not None and found.comparison(square):
        lines.append(found.comparison(square))
    return "\n".join(lines)


def as_json(found: WhatIf) -> Shown:
    """Return a map as `--json` prints it."""
    return plain(ok=not found.failed, **found.data())
