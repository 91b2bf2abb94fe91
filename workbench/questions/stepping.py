"""One program of a launch, step by step: every op that the interpreter executed, and its value.

The whole program is run once, with every tile kept (`running.py`), so that going back is as cheap
as going on. A `Step` is one execution of one op of the tile IR; `Steps` stands at one of them. Ops
that only make constants, shapes and addresses are steps like all others, which listings leave out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from math import prod
from typing import Any

import numpy as np

from workbench.bench.arrays import is_array
from workbench.bench.subject import Subject
from workbench.interpreter.outside import pointers_of
from workbench.ir import Op, Pointer, element_of
from workbench.ir.printer import base_name, print_rows
from workbench.ops import (
    AddPointer,
    Broadcast,
    Constant,
    ExpandDims,
    For,
    Reshape,
    Splat,
    Yield,
)
from workbench.questions.choosing import address_of, addresses_of, live_addresses
from workbench.questions.running import Bench, Event, Program, Run, coordinates
from workbench.source import KernelError, OptionError
from workbench.source.spans import line_of

#: Steps listed around the one that is shown, elements of a table, cells of a picture.
AROUND, ROWS, COLUMNS, CELLS = 6, 8, 8, 64
#: Steps whose values stand behind their rows in a notebook.
MOST_OPEN = 120
#: Bytes of pictures of those values; beside them stand the steps as data.
MOST_DRAWN = 120_000
#: Steps as plain data, around the one that is shown.
MOST_PLAIN = 20_000
_PLUMBING = (Constant, Splat, Broadcast, ExpandDims, Reshape, AddPointer, Yield)


@dataclass(frozen=True, slots=True)
class Step:
    """One execution of an op.

    Attributes:
        number: from 0, in the order of execution.
        event: what the interpreter kept of it.
        names: of its results, as the tile IR prints them.
        text: the op as the tile IR prints it.
        line: the source line, None for an op without a place.
    """

    number: int
    event: Event
    names: tuple[str, ...]
    text: str
    line: int | None

    @property
    def op(self) -> Op:
        """The op."""
        return self.event.op

    @property
    def is_plumbing(self) -> bool:
        """Whether it only makes a constant, an address, or another shape of a value."""
        return isinstance(self.op, _PLUMBING)

    @property
    def value(self) -> np.ndarray[Any, Any] | None:
        """Its (first) result; what it stores, for a store; None for an op without either."""
        if self.event.results:
            return np.asarray(self.event.results[0])
        stored = getattr(self.op, "value", None)
        if stored is None or not self.op.writes_memory:
            return None
        return np.asarray(dict(zip(self.op.operands, self.event.inputs, strict=True))[stored])


@dataclass(frozen=True, slots=True)
class Watched:
    """A step at which a watched element got a value, or was read: what happened, and the value."""

    step: int
    line: int | None
    what: str
    value: Any


@dataclass(frozen=True, slots=True)
class Steps:
    """A program that was run, standing at a step.

    Attributes:
        kernel: its name.
        program: its place in the grid.
        grid: programs along each axis.
        steps: all of them.
        at: the number of the step that is shown.
        stops: lines at which `go` and `back` stop; all steps but plumbing if there are none.
        watched: the element that is followed, as it was asked for.
        seen: where it got a value.
        error: what ended the program early, and in which line.
        compiled: the compilation whose tile IR was run.
    """

    kernel: str
    program: Program
    grid: tuple[int, ...]
    steps: tuple[Step, ...]
    at: int = 0
    stops: tuple[int, ...] = ()
    watched: str = ""
    seen: tuple[Watched, ...] = ()
    error: str = ""
    complete: bool = True
    bench: Bench | None = field(default=None, repr=False, compare=False)
    compiled: Any = field(default=None, repr=False, compare=False)

    # -- moving ---------------------------------------------------------------------------
    def go(self, steps: int = 1) -> Steps:
        """Return the program so many stops further on; at the last one it stays."""
        places = self._places()
        ahead = [n for n in places if n > self.at] if steps > 0 else [
            n for n in reversed(places) if n < self.at
        ]  # fmt: skip
        if not ahead or not steps:
            return self
        return replace(self, at=ahead[min(abs(steps), len(ahead)) - 1])

    def back(self, steps: int = 1) -> Steps:
        """Return the program so many stops before."""
        return self.go(-steps)

    def to(self, number: int) -> Steps:
        """Return the program at a step; negative numbers count from the end.

        Raises OptionError K103 where there is no such step.
        """
        count = len(self.steps)
        if not -count <= number < count:
            raise OptionError(
                f"{self.kernel} has {count} steps here, there is no step {number}", code="K103",
                hint=f"--at 0 to --at {count - 1}, or --at -1 for the last",
            )  # fmt: skip
        return replace(self, at=number % count)

    def stopping(self, lines: Sequence[int]) -> Steps:
        """Return the program with breakpoints, at the first of them from where it stands.

        Raises OptionError K103 for a line that it does not come to.
        """
        known = {step.line for step in self.steps}
        for line in lines:
            if line not in known:
                places = ", ".join(str(n) for n in sorted(n for n in known if n is not None))
                raise OptionError(
                    f"the program does not come to line {line}", code="K103",
                    hint=f"it comes to {places}",
                )  # fmt: skip
        found = replace(self, stops=tuple(lines))
        here = next((number for number in found._places() if number >= self.at), None)
        return found if here is None else replace(found, at=here)

    def _places(self) -> list[int]:
        """Return the steps at which it stops: where one of the lines begins, or all but plumbing.

        A line begins with its first op that is no plumbing, once each time that it is come to.
        """
        if not self.stops:
            return [step.number for step in self.steps if not step.is_plumbing]
        found: list[int] = []
        line, first = None, None
        telling = {step.line for step in self.steps if not step.is_plumbing}
        for step in self.steps:
            if step.is_plumbing and step.line in telling:
                continue
            if step.line != line or step.op is first:
                line, first = step.line, step.op
                found += [step.number] if line in self.stops else []
        return found

    # -- watching -------------------------------------------------------------------------
    def watching(self, what: str) -> Steps:
        """Return the program with an element followed: `acc[0, 3]`, `total`, or `out[17]`.

        Raises OptionError K103 for a name that is no value and no array, or a place outside.
        """
        found = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*(?:\[([\d\s,]*)\])?\s*", what)
        if found is None:
            raise OptionError(
                f"'{what}' is no element", code="K103", hint="e.g. acc[0, 3] or total"
            )
        name = found[1]
        place = tuple(int(word) for word in (found[2] or "").replace(",", " ").split())
        assert self.bench is not None
        arguments = self.bench.arguments
        if name in arguments and is_array(arguments[name]):
            seen = list(self._in_memory(name, place))
        else:
            seen = list(self._in_values(name, place))
        return replace(self, watched=what.strip(), seen=tuple(seen))

    def _in_values(self, name: str, place: tuple[int, ...]) -> Iterator[Watched]:
        known: set[str] = set()
        shapes: set[tuple[int, ...]] = set()
        there = False
        for step in self.steps:
            for own, array in zip(step.names, step.event.results, strict=False):
                known.add(base_name(own))
                if name not in (own, base_name(own)):
                    continue
                held = np.asarray(array)
                shapes.add(held.shape)
                if len(place) != held.ndim or any(
                    i >= n for i, n in zip(place, held.shape, strict=True)
                ):
                    continue
                there = True
                yield Watched(step.number, step.line, f"%{own}", held[place].item())
        if not there:
            names = ", ".join(sorted(n for n in known if not n.isdigit()))
            raise OptionError(
                f"no step gives {name} {f'an element {list(place)}' if place else 'a value'}"
                + "".join(f"; its shape is {list(shape)}" for shape in sorted(shapes)),
                code="K103",
                hint=f"values: {names}; arrays: {', '.join(self.arrays())}",
            )  # fmt: skip

    def arrays(self) -> list[str]:
        """Return the parameters that are arrays."""
        assert self.bench is not None
        return [name for name, held in self.bench.arguments.items() if is_array(held)]

    def _in_memory(self, name: str, place: tuple[int, ...]) -> Iterator[Watched]:
        assert self.bench is not None
        addresses = addresses_of(self.bench, name)
        if len(place) == 1 and addresses.ndim != 1 and place[0] < addresses.size:
            place = tuple(int(i) for i in np.unravel_index(place[0], addresses.shape))
        if len(place) != addresses.ndim or any(
            i >= n for i, n in zip(place, addresses.shape, strict=True)
        ):
            raise OptionError(
                f"{name} has no element {list(place)}, its shape is {list(addresses.shape)}",
                code="K103",
            )
        address = int(addresses[place])
        for step in self.steps:
            if pointers_of(step.op) is None:
                continue
            held = dict(zip(step.op.operands, step.event.inputs, strict=True))
            lanes = np.flatnonzero(live_addresses(step.op, held) == address)
            value = step.value
            for lane in lanes:
                word = "stores" if step.op.writes_memory else "loads"
                number = None if value is None else np.broadcast_to(
                    value, np.shape(held[pointers_of(step.op)])  # type: ignore[index]
                ).reshape(-1)[lane].item()  # fmt: skip
                yield Watched(step.number, step.line, f"{word} it as element {lane}", number)

    # -- what is shown --------------------------------------------------------------------
    @property
    def now(self) -> Step | None:
        """The step that is shown; None where the program did nothing."""
        return self.steps[self.at] if self.steps else None

    @property
    def text(self) -> str:
        """The step with its value, those around it, and what was watched."""
        count = prod(self.grid)
        where = ", ".join(map(str, self.program[: max(1, len(self.grid))]))
        parts = [f"{self.kernel}, program ({where}) of {count:,}: {len(self.steps)} steps"]
        if self.stops:
            parts[0] += f", stops at line {', '.join(map(str, self.stops))}"
        if not self.complete:
            parts.append(
                "the values take too much memory: the program was ended at the last of these steps"
                + (f", in line {self.steps[-1].line}" if self.steps else "")
            )
        if self.error:
            parts.append(f"it ended early: {self.error}")
        now = self.now
        if now is None:
            return "\n".join(parts)
        parts += ["", *self._listing(now), "", *self.shown(now)]
        if self.watched:
            parts += ["", f"{self.watched}:", *(self._seen_row(one) for one in self.seen)]
            parts += [] if self.seen else ["  this program neither reads nor writes it"]
        return "\n".join(parts)

    def _seen_row(self, one: Watched) -> str:
        mark = ">" if one.step == self.at else " "
        line = "" if one.line is None else f"line {one.line}"
        return f"{mark} step {one.step:<5} {line:<9} {one.what} = {number(one.value)}"

    def _listing(self, now: Step) -> list[str]:
        shown = [step for step in self.steps if step is now or not step.is_plumbing]
        place = shown.index(now)
        rows = shown[max(0, place - AROUND) : place + AROUND + 1]
        return [
            f"{'>' if step is now else ' '} {step.number:>5}  "
            f"{'' if step.line is None else step.line:>4}  {_name(step):<16} {summary(step)}"
            for step in rows
        ]

    def shown(self, step: Step) -> list[str]:
        """Return one step in full: its line, its op, and its value as a table."""
        parts = [f"step {step.number}, round {step.event.round}: {step.text}"]
        if step.op.span is not None:
            parts.append(f"  {step.line} | {line_of(step.op.span).strip()}")
        where = touched(self, step)
        parts += [f"  {where}"] if where else []
        value = step.value
        if value is not None and not is_address(step):
            parts += table(value)
        return parts

    def data(self) -> dict[str, Any]:
        """Return it as plain data: the steps in short, the one that is shown in full.

        Of more than `MOST_PLAIN` those around the one that is shown; `count` counts all.
        """
        now = self.now
        first = max(0, min(self.at - MOST_PLAIN // 2, len(self.steps) - MOST_PLAIN))
        value = None if now is None or is_address(now) else now.value
        return {
            "kernel": self.kernel, "program": list(self.program), "grid": list(self.grid),
            "at": self.at, "stops": list(self.stops), "complete": self.complete,
            "error": self.error or None, "count": len(self.steps), "first": first,
            "steps": [
                {"number": s.number, "line": s.line, "op": s.op.id, "name": s.op.name,
                 "results": list(s.names), "round": s.event.round, "summary": summary(s)}
                for s in self.steps[first : first + MOST_PLAIN]
            ],
            "now": None if now is None else {
                "text": now.text, "access": touched(self, now) or None,
                "shape": None if value is None else list(value.shape),
                "value": None if value is None else _plain(value),
            },
            "watched": self.watched or None,
            "seen": [
                {"step": w.step, "line": w.line, "what": w.what,
                 "value": _plain(np.asarray(w.value))}
                for w in self.seen
            ],
        }  # fmt: skip

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from workbench.viewer.styles import MONOSPACE, TEXT

        now, rows, opened = self.now, list[str](), self._opened()
        pictures, left_out = self._pictures(opened)
        for step in opened:
            drawn = pictures.get(step.number, "")
            body = escape("\n".join(self.shown(step)))
            mark = " open" if step is now else ""
            head = f"{step.number:>5}  {step.line or '':>4}  {_name(step):<16} {summary(step)}"
            rows.append(
                f'<details{mark}><summary style="{MONOSPACE}">'
                f'{escape(head)}</summary><pre style="{TEXT}">{body}</pre>{drawn}</details>'
            )
        head = escape(self.text.partition("\n\n")[0])
        tail = [f"{self.watched}:", *(self._seen_row(w) for w in self.seen)] if self.watched else []
        if left_out:
            tail.append(f"{left_out} pictures further off are left out: .to({opened[-1].number})")
        html = (
            f'<div style="background:#ffffff;color:#24292f"><pre style="{TEXT}">{head}</pre>'
            f'{"".join(rows)}<pre style="{TEXT}">{escape(chr(10).join(tail))}</pre></div>'
        )
        return {"text/plain": self.text, "text/html": html}

    def _pictures(self, opened: Sequence[Step]) -> tuple[dict[int, str], int]:
        """Return pictures of steps by number, those nearest to now first, and how many are not."""
        found, left, left_out = dict[int, str](), MOST_DRAWN, 0
        here = 0 if self.now is None else self.now.number
        for step in sorted(opened, key=lambda step: abs(step.number - here)):
            if step.value is None or is_address(step):
                continue
            drawn = picture(step.value, _name(step))
            left -= len(drawn)
            if left > 0:
                found[step.number] = drawn
            else:
                left_out += bool(drawn)
        return found, left_out

    def _opened(self) -> list[Step]:
        """Return the steps that a notebook lists: those around the one that is shown."""
        lines = self.stops or {step.line for step in self.steps}
        shown = [
            step for step in self.steps
            if step is self.now or (step.line in lines and not step.is_plumbing)
        ]  # fmt: skip
        place = shown.index(self.now) if self.now in shown else 0
        first = max(0, min(place - MOST_OPEN // 2, len(shown) - MOST_OPEN))
        return shown[first : first + MOST_OPEN]


def step_through(subject: Subject, program: int | Sequence[int] = 0) -> Steps:
    """Run one program of a launch in the interpreter, over copies, and return all its steps.

    Args:
        subject: the launch.
        program: its number, axis 0 counting fastest, or its place along each axis.

    Raises:
        OptionError: K103 for a program that the grid does not have.
    """
    grid = subject.grid
    place = _place(program, grid)
    bench = Bench(subject.arguments, subject.outputs)
    run: Run = bench.run(subject.module, grid, place, keep=True, whole=False)
    texts = {number: text.strip() for text, number in reversed(print_rows(subject.module))}
    steps = tuple(_step(event, texts.get(event.op.id, event.op.name)) for event in run.events)
    error = "" if run.error is None else _ended_by(run.error)
    return Steps(
        subject.name, place, tuple(grid), steps, error=error, complete=run.complete, bench=bench,
        compiled=subject.compiled,
    )  # fmt: skip


def _ended_by(error: KernelError) -> str:
    """Return what ended a program, in which line, and what was known there, in one sentence."""
    where = f" (line {error.span.line})" if error.span is not None else ""
    seen = [note.text for note in error.notes if note.span is not None and error.code == "K406"]
    return "; ".join([f"{error.code}: {error.message}{where}", *seen])


def _place(program: int | Sequence[int], grid: Sequence[int]) -> Program:
    full = (*grid, 1, 1, 1)[:3]
    count = prod(full)
    if not count:
        raise OptionError(
            f"the grid is {' × '.join(map(str, grid))}: no program runs", code="K103",
            hint="give the launch to step through a --grid with programs",
        )  # fmt: skip
    place: tuple[int, ...]
    if isinstance(program, int):
        place = coordinates(program, grid) if 0 <= program < count else (-1,)
    else:
        place = (*program, 0, 0, 0)[:3]
    if len(place) != 3 or any(not 0 <= i < n for i, n in zip(place, full, strict=True)):
        raise OptionError(
            f"there is no program {program}, the grid is {' × '.join(map(str, grid))}",
            code="K103", hint=f"0 to {count - 1}, or its place along each axis: 1,0",
        )  # fmt: skip
    return place[0], place[1], place[2]


def _step(event: Event, text: str) -> Step:
    head = re.match(r"((?:%[\w.]+(?:, )?)+) = ", text)
    names = tuple(n.removeprefix("%") for n in head[1].split(", ")) if head is not None else ()
    line = event.op.span.line if event.op.span is not None else None
    return Step(event.number, event, names, text[:140], line)


def _name(step: Step) -> str:
    own = [name for name in step.names if not name.isdigit()]
    return own[0] if own else step.op.name.partition(".")[2]


def is_address(step: Step) -> bool:
    """Whether a step's value is an address, whose number says nothing."""
    return any(isinstance(element_of(v.type), Pointer) for v in step.op.results)


def touched(steps: Steps, step: Step) -> str:
    """Say which elements of which array an access touches."""
    if pointers_of(step.op) is None or steps.bench is None:
        return ""
    held = dict(zip(step.op.operands, step.event.inputs, strict=True))
    addresses = live_addresses(step.op, held)
    live = addresses[addresses != -1]
    if not live.size:
        return f"none of {addresses.size} elements is on"
    for name in steps.arrays():
        extent = steps.bench.extent(name)
        if extent is None or not extent[0] <= int(live.min()) < extent[1]:
            continue
        first, last = (int(n - address_of(steps.bench, name, 0)) // extent[2]
                       for n in (live.min(), live.max()))  # fmt: skip
        word = "stores to" if step.op.writes_memory else "reads"
        return f"{word} {name}, elements {first} to {last}: {live.size} of {addresses.size} are on"
    return ""


def summary(step: Step) -> str:
    """Return a step's value in few words."""
    value = step.value
    if value is None:
        return "the loop is over" if isinstance(step.op, For) else step.op.name
    shape = "×".join(map(str, value.shape))
    if is_address(step):
        return f"addresses {shape}".rstrip()
    if not value.ndim:
        return number(value.item())
    if value.dtype.kind == "b":
        return f"{shape}  {int(value.sum())} of {value.size} true"
    finite = value[np.isfinite(value)] if value.dtype.kind == "f" else value
    wrong = value.size - finite.size
    span = f"{number(finite.min())} … {number(finite.max())}" if finite.size else "nothing finite"
    return f"{shape}  {span}" + (f", {wrong} NaN or infinite" if wrong else "")


def table(value: np.ndarray[Any, Any]) -> list[str]:
    """Return the first elements of a tile as rows."""
    flat = value.reshape(-1, value.shape[-1]) if value.ndim else value.reshape(1, 1)
    cells = [[number(n) for n in row[:COLUMNS]] for row in flat[:ROWS]]
    width = max((len(word) for row in cells for word in row), default=1)
    rows = ["  " + "  ".join(f"{word:>{width}}" for word in row) for row in cells]
    if flat.shape[0] > ROWS or flat.shape[1] > COLUMNS:
        shape = "×".join(map(str, value.shape))
        rows.append(f"  (the first {len(cells)} × {len(cells[0])} of {shape})")
    return rows


def picture(value: np.ndarray[Any, Any], name: str) -> str:
    """Return a tile as SVG: the larger an element the darker; what is not finite is marked."""
    flat = np.asarray(value.reshape(-1, value.shape[-1]) if value.ndim else value.reshape(1, 1))
    if flat.size < 2:
        return ""
    steps = [max(1, -(-n // CELLS)) for n in flat.shape]
    cells = flat[:: steps[0], :: steps[1]].astype(np.float64)
    finite = cells[np.isfinite(cells)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    size = 8
    rows, columns = cells.shape
    paths: dict[str, str] = {}
    for (row, column), element in np.ndenumerate(cells):
        share = (element - low) / (high - low) if high > low and np.isfinite(element) else 0.0
        level = round(12 * share) / 12
        colour = "#D55E00"  # what is not finite
        if np.isfinite(element):
            ends = zip((0xEE, 0xF6, 0xFF), (0x0A, 0x30, 0x69), strict=True)
            colour = "#" + "".join(f"{round(a + (b - a) * level):02x}" for a, b in ends)
        paths[colour] = paths.get(colour, "") + f"M{column * size} {row * size}h8v8h-8z"
    every = f", every {steps[0]} × {steps[1]}" if max(steps) > 1 else ""
    title = f"{name}: {number(low)} (pale) to {number(high)} (dark){every}"
    marks = "".join(f'<path fill="{c}" d="{d}"/>' for c, d in paths.items())
    return (
        f'<svg role="img" width="{columns * size}" height="{rows * size}" '
        f'style="margin:0 0 6px 24px"><title>{escape(title)}</title>{marks}</svg>'
    )


def number(value: Any) -> str:
    """Return a number as text."""
    kind = np.asarray(value).dtype.kind
    if kind == "b":
        return "1" if value else "0"
    return f"{value:.5g}" if kind == "f" else str(value)


def _plain(value: np.ndarray[Any, Any]) -> Any:
    """Return numbers for JSON, which has no NaN."""
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        return np.where(np.isfinite(value), value.astype(object), value.astype(str)).tolist()
    return value.tolist()
