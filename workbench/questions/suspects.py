"""Which line of a slice is likeliest to be wrong: the one where a small change makes all right.

Each op of the slice is changed a little (another comparison, swapped operands, a number one off,
another argument of the same type, no mask), the program is run again, and what it stores is
compared with the reference. A line where a change helps comes first; the others stay in the order
of the slice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from workbench.ir import Block, Module, Op, Scalar, Value, element_of, shape_of
from workbench.ir.build import Builder
from workbench.ir.rebuild import Replacement, rebuild
from workbench.ops import (
    AddPointer,
    Cast,
    Constant,
    Dot,
    Elementwise,
    Iota,
    Load,
    ProgramId,
    Reduce,
    Scan,
    Select,
    Splat,
    Store,
    Transpose,
)
from workbench.ops.control import For
from workbench.questions.replay import Replay, UnknownError
from workbench.questions.running import Bench, Program, Run, clock
from workbench.questions.slicing import Line
from workbench.source import KernelError

#: Of the processor, that changes are tried for.
SECONDS = 5.0
#: After one was found, so long for others: there may be several ways to mend it.
SECONDS_MORE = 1.5
#: Lines where a change helps that are looked for.
MOST_FOUND = 3

SIGNS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "eq": "==", "ne": "!=", "and": "&", "or": "|", "xor": "^", "rem": "%", "shl": "<<", "shr": ">>",
}  # fmt: skip
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_ARITHMETIC = ("add", "sub", "mul", "div", "max", "min")
_BITS = ("and", "or", "xor")
_ALONE = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "neg", "abs")

#: What a change makes of an op, and what it is called.
Change = tuple[str, Callable[[Any, Builder], Replacement]]
Attempt = tuple[Line, Op, Change]


def ranked(
    bench: Bench,
    module: Module,
    grid: Sequence[int],
    program: Program,
    lines: list[Line],
    run: Run,
    judge: Callable[[Run], bool],
    numbers: Sequence[int] = (),
    seconds: float = SECONDS,
) -> tuple[list[Line], dict[int, str], list[str]]:
    """Return the lines, the likeliest first, remarks by line (its `id`), and sentences."""
    helped: dict[int, str] = {}
    end = clock() + seconds
    replay = Replay(bench, module, grid, program, run)
    for line, op, (words, change) in _attempts(module, lines, numbers):
        if clock() > end or len(helped) >= MOST_FOUND:
            break
        if id(line) in helped:
            continue
        if _helps(bench, module, grid, program, op, change, judge, replay, end):
            helped[id(line)] = words
            end = min(end, clock() + SECONDS_MORE)
    remarks = {key: f"with {words} here, all that the program stores would be right"
               for key, words in helped.items()}  # fmt: skip
    first = [line for key in helped for line in lines if id(line) == key]
    rest = [line for line in lines if id(line) not in helped]
    sentences = [
        f"line {line.span.line} is likely wrong: with {helped[id(line)]} all that the program "
        f"stores would be right"
        for line in first[:1]
    ]
    return [*first, *rest], remarks, sentences


def _helps(
    bench: Bench, module: Module, grid: Sequence[int], program: Program, op: Op,
    change: Callable[[Op, Builder], Replacement], judge: Callable[[Run], bool],
    replay: Replay, end: float,
) -> bool:  # fmt: skip
    def rewrite(current: Op, builder: Builder) -> Replacement:
        return change(current, builder) if current.id == op.id else None

    try:
        try:
            outputs = replay.changed(op, change)
            if not judge(Run(module, program, outputs=outputs)):
                return False
        except UnknownError:
            pass
        return judge(bench.run(rebuild(module, rewrite), grid, program, end=end))
    except (KernelError, ValueError, TypeError, LookupError, ArithmeticError, AssertionError):
        return False


def _attempts(module: Module, lines: list[Line], numbers: Sequence[int]) -> list[Attempt]:
    """Return changes, the likeliest first: of all ops the likeliest ones, then their next ones."""
    ops = [
        (line, op) for line in lines for op in dict.fromkeys(step.event.op for step in line.steps)
    ]
    # A line's ops that the slice did not meet (a loop's bounds, a mask) are its ops, too.
    known = {op.id for _, op in ops}
    by_place = {(line.span.file, line.span.line): line for line in lines}
    for op in module.walk():
        if op.id not in known and op.span is not None and not op.regions:
            line = by_place.get((op.span.file, op.span.line))
            if line is not None:
                ops.append((line, op))
    found: list[tuple[int, Attempt]] = []
    for line, op in ops:
        near = _Nearby(module, op, numbers)
        for rank, kind in _KINDS:
            for place, change in enumerate(kind(near, op)):
                found.append((rank + place // 4, (line, op, change)))
    found.sort(key=lambda each: each[0])
    return [attempt for _, attempt in found]


class _Nearby:
    """What an op may read: arguments of the kernel, and values before it, named ones first."""

    def __init__(self, module: Module, op: Op, numbers: Sequence[int]) -> None:
        self.module, self.numbers = module, numbers
        self.parameters = [p.value for p in module.parameters]
        self.names = {p.value: p.name for p in module.parameters}
        before = _values_before(module, op)
        carried = [v for v in before if v.op is None and v not in self.names]
        named = [v for v in before[::-1] if v.hint and v not in carried]
        self.values = [*carried[::-1], *named]

    def name(self, value: Value) -> str:
        """Return what a value is called."""
        return self.names.get(value) or value.hint or "its operand"

    def like(self, value: Value, most: int) -> list[Value]:
        """Return other values of its type; of a number's, the kernel's arguments first."""
        among = self.values if shape_of(value.type) else [*self.parameters, *self.values]
        found = dict.fromkeys(v for v in among if v.type == value.type and v is not value)
        return list(found)[:most]


def _nearest(near: _Nearby, op: Op) -> Iterator[Change]:
    """Another function of the same kind, a number that is a little off, swapped operands."""
    if isinstance(op, Elementwise):
        yield from _functions(op)
    elif isinstance(op, Constant):
        yield from _constants(op, near.numbers)
    elif isinstance(op, Reduce | Scan):
        yield from _combined(op)
    elif isinstance(op, Select):
        yield "its two values swapped", lambda o, _: o.changed(then=o.otherwise, otherwise=o.then)
    elif isinstance(op, Iota):
        for start in (op.start + 1, op.start - 1):
            yield f"{start} as first number", lambda o, _, s=start: o.changed(start=s)
    elif isinstance(op, ProgramId):
        for axis in {0, 1, 2} - {op.axis}:
            yield f"axis {axis}", lambda o, _, a=axis: o.changed(axis=a)
    elif isinstance(op, Transpose):
        yield "no transposition", lambda o, _: o.operands[0]


def _functions(op: Elementwise) -> Iterator[Change]:
    for family in (_COMPARISONS, _ARITHMETIC, _BITS, _ALONE):
        if op.function in family:
            yield from (_function(op, other) for other in family if other != op.function)
    if len(op.inputs) == 2 and not op.row.commutes:
        yield "its operands swapped", lambda o, _: o.changed(inputs=o.inputs[::-1])


def _function(op: Elementwise, function: str) -> Change:
    said = SIGNS.get(function, function)
    was = SIGNS.get(op.function, op.function)
    return f"'{said}' in place of '{was}'", lambda o, _: o.changed(function=function)


def _constants(op: Constant, numbers: Sequence[int]) -> Iterator[Change]:
    value = op.value
    element = element_of(op.type)
    if isinstance(value, bool) or not isinstance(element, Scalar):
        return
    if element.is_float:
        tried = [-value, 0.0, 1.0, float("-inf"), float("inf"), value * 2, value / 2]
        tried += [value * 10, value / 10, value * value, value**0.5 if value > 0 else 0.0]
        tried += [1 / value] if value else []
    else:
        tried = [value + 1, value - 1, *numbers, 0, 1, 2 * value, value // 2, -value]
    for new in dict.fromkeys(t for t in tried if t != value):
        yield f"{new:g} in place of {value:g}", lambda o, _, n=new: o.changed(value=n)


def _combined(op: Op) -> Iterator[Change]:
    inner = op.regions[0].ops
    if len(inner) == 2 and isinstance(inner[0], Elementwise):
        for function in ("add", "max", "min", "mul"):
            if function != inner[0].function:
                new = inner[0].changed(function=function)
                new.__dict__["results"] = inner[0].results
                block = Block(op.regions[0].arguments, (new, inner[1]))
                yield f"'{function}' in place of '{inner[0].function}'", (
                    lambda o, _, b=block: o.noted(combine=b))  # fmt: skip
    axis: int = op.axis  # type: ignore[attr-defined]
    for other in range(len(shape_of(op.operands[0].type))):
        if other != axis:
            yield f"axis {other}", lambda o, _, a=other: o.changed(axis=a)


def _operands(near: _Nearby, op: Op) -> Iterator[Change]:
    """Another argument of the kernel, or another value of the same type that is nearby."""
    if isinstance(op, Constant | Iota | ProgramId | Cast):
        return
    for place, value in enumerate(op.operands):
        for other in near.like(value, 8):
            yield f"{near.name(other)} in place of {near.name(value)}", (
                lambda o, _, p=place, v=other: _with(o, p, v))  # fmt: skip


def _with(op: Op, place: int, value: Value) -> Op:
    return op.with_operands([value if n == place else v for n, v in enumerate(op.operands)])


def _values_before(module: Module, op: Op) -> list[Value]:
    """Return the values that an op may read, in order."""

    def search(block: Block, outside: list[Value]) -> list[Value] | None:
        known = [*outside, *block.arguments]
        for inner in block.ops:
            if inner.id == op.id:
                return known
            for region in inner.regions:
                found = search(region, known)
                if found is not None:
                    return found
            known += inner.results
        return None

    return search(module.body, []) or []


def _dropped(near: _Nearby, op: Op) -> Iterator[Change]:
    """The op left out: its first operand, or its second, in its place."""
    del near
    if isinstance(op, Load | Store) and op.mask is not None:
        if isinstance(op, Load):
            yield "no mask", lambda o, _: o.changed(mask=None, other=None)
        else:
            yield "no mask", lambda o, _: o.changed(mask=None)
    if isinstance(op, Load) and op.mask is not None:
        element = element_of(op.result.type)
        if isinstance(element, Scalar) and element.is_float:
            for other in (0.0, float("-inf"), float("inf"), 1.0):
                yield f"other={other:g}", lambda o, b, v=other: o.changed(
                    other=b.add(Constant(v, o.results[0].type)))  # fmt: skip
    if isinstance(op, Elementwise | Select | Dot) and op.results:
        for place, value in enumerate(op.operands):
            if value.type == op.results[0].type:
                words = f"'{SIGNS.get(getattr(op, 'function', ''), op.name.partition('.')[2])}'"
                yield f"no {words}", lambda o, _, p=place: o.operands[p]


def _bounds(near: _Nearby, op: Op) -> Iterator[Change]:
    """A loop whose bounds are one off."""
    loops = [outer for outer in near.module.walk() if isinstance(outer, For)]
    for loop in loops:
        for value in loop.operands[:2]:
            if value in op.results and not shape_of(value.type):
                for more in (1, -1):
                    yield f"a bound {more:+d}", lambda o, b, m=more: _plus(o, b, m)


def _plus(op: Op, builder: Builder, more: int) -> Value:
    value = builder.insert(op).results[0]
    number = builder.add(Constant(more, value.type))
    return builder.add(Elementwise("add", (value, number)))


def _wrapped(near: _Nearby, op: Op) -> Iterator[Change]:
    """One more op before it, on one of its operands: what was left out."""
    if not isinstance(op, Elementwise | Dot | Reduce | Store | Select):
        return
    operands = [
        (place, value, element)
        for place, value in enumerate(op.operands)
        if isinstance(element := element_of(value.type), Scalar) and element.bits > 1
    ]
    for place, value, _ in operands:
        yield _with_factor(near, place, value, value, "mul")
    for place, value, _ in operands:
        for other in near.like(value, 2):
            yield _with_factor(near, place, value, other, "mul")
    for place, value, element in operands:
        for function in _ALONE if element.is_float else ():
            yield _with_function(near, place, value, function)
    for place, value, element in operands:
        others = near.like(value, 4)
        if element.is_float and shape_of(value.type):
            others += [p for p in near.parameters if p.type == element]
        for other, function in itertools.product(others, ("mul", "add", "sub", "div")):
            yield _with_factor(near, place, value, other, function)


def _with_function(near: _Nearby, place: int, value: Value, function: str) -> Change:
    return f"'{function}({near.name(value)})'", (
        lambda o, b: _with(o, place, b.add(Elementwise(function, (o.operands[place],))))
    )


def _with_factor(near: _Nearby, place: int, value: Value, other: Value, function: str) -> Change:
    return f"'{near.name(value)} {SIGNS[function]} {near.name(other)}'", (
        lambda o, b: _with(o, place, _combined_with(o.operands[place], b, other, function))
    )


def _advanced(near: _Nearby, op: Op) -> Iterator[Change]:
    """Pointers that a loop moves on by a step, where it should be by so many of them."""
    if not isinstance(op, AddPointer) or op.pointer.op is not None:
        return
    step = op.offset.op
    said = near.name(step.source if isinstance(step, Splat) else op.offset)
    if isinstance(step, Constant):
        said = str(step.value)
    for number in dict.fromkeys(n for n in near.numbers if n > 1):
        yield f"'{said} * {number}'", lambda o, b, n=number: _with(o, 1, _times(o.offset, n, b))


def _times(value: Value, number: int, builder: Builder) -> Value:
    return builder.add(Elementwise("mul", (value, builder.add(Constant(number, value.type)))))


def _carried(near: _Nearby, op: Op) -> Iterator[Change]:
    """A sum over rounds that does not add to what the rounds before gave."""
    if not isinstance(op, Reduce | Load | Elementwise | Dot) or len(op.results) != 1:
        return
    for other in near.values[:4]:
        if other.op is None and other.type == op.results[0].type and other not in op.operands:
            for function in ("add", "mul", "max"):
                yield f"'{SIGNS.get(function, function)} {near.name(other)}' added", (
                    lambda o, b, v=other, f=function: _combined_with(
                        b.insert(o).results[0], b, v, f))  # fmt: skip


def _combined_with(value: Value, builder: Builder, other: Value, function: str) -> Value:
    if shape_of(value.type) and not shape_of(other.type):
        other = builder.add(Splat(other, shape_of(value.type)))
    return builder.add(Elementwise(function, (value, other)))


#: Kinds of changes, and how much less likely each is than the nearest; few are tried before those.
_KINDS = (
    (-1, _advanced), (0, _nearest), (1, _dropped), (1, _carried), (1, _operands), (1, _wrapped),
    (1, _bounds),
)  # fmt: skip
