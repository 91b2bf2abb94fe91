"""Loops and branches: structured ops become blocks with phis."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.ir import Block, Pointer, Scalar, Shared, Token, Value, element_of, shape_of
from workbench.ops import Constant, For, If, Map, Return, While, Yield, count_rounds
from workbench.passes.rules import constant_of
from workbench.targets.simt.arithmetic import compare_integers
from workbench.targets.simt.lowering import Lowering, Meeting, element_scalar, llvm_type
from workbench.targets.simt.ops import EachProgram
from workbench.targets.simt.placing import place_of
from workbench.targets.simt.rules import SAME, Flow, Layouts, Setting, as_they_are, same
from workbench.targets.simt.table import SIMT

#: How often a loop runs whose bounds are not known.
_TRIPS = 32.0

SIMT.layouts(Yield, Return)(as_they_are)


@SIMT.layouts(For)
def for_layouts(op: For, on: Setting) -> Layouts:
    """A loop carries each value in one layout."""
    bounds = [constant_of(value) for value in (op.lower, op.upper, op.step)]
    trips = float(max(1, count_rounds(*bounds))) if None not in bounds and bounds[2] else _TRIPS
    return Layouts(flow=Flow(
        together=tuple(zip(op.results, op.body.arguments[1:], strict=True)),
        operands=(None, None, None, *op.results),
        yields=(op.results,),
        trips=trips,
    ))  # fmt: skip


@SIMT.layouts(While)
def while_layouts(op: While, on: Setting) -> Layouts:
    """A loop carries each value in one layout, through its condition as well."""
    return Layouts(flow=Flow(
        together=tuple(zip(op.results, op.body.arguments, op.condition.arguments, strict=True)),
        operands=op.results,
        yields=((None,) * len(op.condition.yields), op.results),
        trips=_TRIPS,
    ))  # fmt: skip


@SIMT.layouts(If)
def if_layouts(op: If, on: Setting) -> Layouts:
    """Both branches give a value in one layout."""
    return Layouts(flow=Flow(
        together=tuple((result,) for result in op.results),
        operands=(None,),
        yields=(op.results, op.results),
        trips=1.0,
    ))  # fmt: skip


#: The registers of several values; None where dead.
Registers = list[list[str | None]]


#: No places: those of what is carried in words, elsewhere.
_NONE: frozenset[int] = frozenset()


def _in_words(low: Lowering, op: For) -> frozenset[int]:
    """Return the places of the narrow tiles that a loop carries in 32-bit words.

    Those that come round as they were loaded: nobody has taken the words apart. One value may stand
    in several places, where another one begins with it or comes after it.
    """
    found: set[int] = set()
    for place, value in enumerate(op.body.yields):
        if not shape_of(value.type) or value.op is None:
            continue
        element = element_of(value.type)
        narrow = isinstance(element, Scalar) and 1 < element.bits < 32
        if narrow and low.chip.rules.access_of(value.op) is not None:
            each = low.pack_of(value)[1]
            if low.layout(value).registers() % each == 0:
                found.add(place)
    return frozenset(found)


def _operands(low: Lowering, values: Sequence[Value], words: frozenset[int] = _NONE) -> Registers:
    """Return each value's registers, fully written out."""
    return [[*low.words(v)] if i in words else _written(low, v) for i, v in enumerate(values)]


def _starts(low: Lowering, values: Sequence[Value], words: frozenset[int] = _NONE) -> Registers:
    """Return the registers of what a loop begins with; constants come from their ops."""
    return [[*low.words(v)] if i in words else _begun(low, v) for i, v in enumerate(values)]


def _begun(low: Lowering, value: Value) -> list[str | None]:
    registers = _written(low, value)
    held = [register for register in registers if register is not None]
    if not isinstance(value.op, Constant) or len(set(held)) != 1 or not shape_of(value.type):
        return registers
    emit = low.emit
    before = emit.current
    emit.at(value.op)
    begun = iter(low.chip.begin(emit, _type(low, value), held[0], len(held)))
    emit.current = before
    return [None if register is None else next(begun) for register in registers]


def _written(low: Lowering, value: Value) -> list[str | None]:
    if isinstance(value.type, Shared | Token) or not shape_of(value.type):
        return [low.scalar(value)]
    return low.registers(value)


def _type(low: Lowering, value: Value, *, in_words: bool = False) -> str:
    if in_words:
        return "i32"
    if isinstance(value.type, Shared):
        return low.shared_pointer
    return llvm_type(element_of(value.type))


def _bind(
    low: Lowering, value: Value, registers: list[str | None], *, in_words: bool = False
) -> None:
    if in_words:
        low.set_words(value, [word or "0" for word in registers])
    elif isinstance(value.type, Shared | Token) or not shape_of(value.type):
        operand = registers[0]
        assert operand is not None
        low.set_scalar(value, operand)
    elif isinstance(element_of(value.type), Pointer):
        low.set_pointers(value, registers)
    else:
        low.set_registers(value, registers)


def _phis(
    low: Lowering, values: Sequence[Value], incoming: list[tuple[Registers, str]],
    words: frozenset[int] = _NONE,
) -> Registers:  # fmt: skip
    """Write a phi per live register; registers that agree on all edges need none."""
    found: Registers = []
    for i, value in enumerate(values):
        type = _type(low, value, in_words=i in words)
        registers: list[str | None] = []
        for r in range(len(incoming[0][0][i])):
            # A register that is dead is dead on all edges.
            edges = [(held, block) for edge, block in incoming if (held := edge[i][r]) is not None]
            registers.append(low.emit.phi(type, edges) if edges else None)
        found.append(registers)
    return found


def _open_phis(
    low: Lowering, values: Sequence[Value], start: Registers, entry: str,
    words: frozenset[int] = _NONE,
) -> Registers:  # fmt: skip
    """Write the phis of what a loop carries; what comes round is not known yet."""
    types = [_type(low, value, in_words=i in words) for i, value in enumerate(values)]
    return [
        [
            None if held is None else low.emit.effect(f"phi {type} [ {held}, %{entry} ], [ ?, ? ]")
            for held in registers
        ]
        for type, registers in zip(types, start, strict=True)
    ]


def _close_phis(
    low: Lowering, values: Sequence[Value], carried: Registers, *edges: tuple[Registers, str],
    words: frozenset[int] = _NONE,
) -> None:  # fmt: skip
    """Complete the phis of a loop: into it, and round."""
    (start, entry), (after, latch) = edges
    rows: dict[str, str] = {}
    types = [_type(low, value, in_words=i in words) for i, value in enumerate(values)]
    for type, first, phis, last in zip(types, start, carried, after, strict=True):
        for held, name, new in zip(first, phis, last, strict=True):
            if name is not None:
                rows[name] = f"phi {type} [ {held}, %{entry} ], [ {new}, %{latch} ]"
    low.emit.patch_all(rows)


@SIMT.lower(For)
def lower_for(low: Lowering, op: For) -> None:
    """Test once before the loop, then at the end of every round.

    What LLVM puts in front of the loop takes the place of the jump into it. That has none, so who
    reads such a row is asked (nvidia/unplaced.py).
    """
    emit, counter = low.emit, op.body.arguments[0]
    element = element_scalar(counter)
    type = llvm_type(element)
    lower, upper, step = (low.scalar(v) for v in (op.lower, op.upper, op.step))
    words = _in_words(low, op)
    start = _starts(low, op.inits, words)
    before, body, end = emit.fresh("before"), emit.fresh("loop"), emit.fresh("after")
    runs = _more(low, op, lower, upper, step)
    entry = emit.block
    with emit.loop(hoists=not op.keeps_invariants):
        emit.branch(runs, before, end)
        emit.label(before)
        emit.at(None)
        emit.jump(body)
        emit.at(op)
        emit.label(body)
        current = emit.effect(f"phi {type} [ {lower}, %{before} ], [ ?, ? ]")
        low.set_scalar(counter, current)
        carried = _open_phis(low, op.inits, start, before, words)
        for i, value in enumerate(op.body.arguments[1:]):
            _bind(low, value, carried[i], in_words=i in words)
        low.block(op.body)
        after = _operands(low, op.body.yields, words)
        again, flags = None, "nsw " if element.bits >= 32 else ""
        if op.may_wrap:  # nobody may look at what follows the last round
            again, flags = _follows(low, op, current, upper, step), ""
        following = emit.add(type, current, step, flags)
        if again is None:
            again = _more(low, op, following, upper, step)
        latch = emit.block
        emit.patch(current, f"phi {type} [ {lower}, %{before} ], [ {following}, %{latch} ]")
        _close_phis(low, op.inits, carried, (start, before), (after, latch), words=words)
        emit.branch(again, body, end)
    emit.label(end)
    results = _phis(low, op.results, [(start, entry), (after, latch)], words)
    for i, value in enumerate(op.results):
        _bind(low, value, results[i], in_words=i in words)


def _more(low: Lowering, op: For, counter: str, upper: str, step: str) -> str:
    """Return whether a round with this counter still runs."""
    emit, element = low.emit, element_scalar(op.body.arguments[0])
    up = compare_integers(emit, "lt", element, counter, upper)
    if not element.is_signed:
        return up
    if step.lstrip("-").isdigit():
        return up if int(step) > 0 else compare_integers(emit, "gt", element, counter, upper)
    down = compare_integers(emit, "gt", element, counter, upper)
    rises = compare_integers(emit, "gt", element, step, "0")
    return emit.pure(f"select i1 {rises}, i1 {up}, i1 {down}")


def _follows(low: Lowering, op: For, counter: str, upper: str, step: str) -> str:
    """Return whether a round follows that with this counter, which is the loop's.

    The distance to the end fits without a sign, and is compared with the step: the next counter
    may not fit.
    """
    emit, element = low.emit, element_scalar(op.body.arguments[0])
    type = llvm_type(element)

    def far(last: str, first: str, size: str) -> str:
        return emit.pure(f"icmp ugt {type} {emit.sub(type, last, first)}, {size}")

    if not element.is_signed:
        return far(upper, counter, step)
    if step.lstrip("-").isdigit():
        ends = (upper, counter) if int(step) > 0 else (counter, upper)
        return far(*ends, str(abs(int(step))))
    up, down = far(upper, counter, step), far(counter, upper, emit.sub(type, "0", step))
    rises = compare_integers(emit, "gt", element, step, "0")
    return emit.pure(f"select i1 {rises}, i1 {up}, i1 {down}")


@SIMT.layouts(EachProgram)
def each_program_layouts(op: EachProgram, on: Setting) -> Layouts:
    """What is carried are numbers: programs hand no tiles on."""
    return Layouts(flow=Flow(
        together=tuple(zip(op.results, op.body.arguments, strict=True)),
        operands=op.results,
        yields=(op.results,),
        trips=1.0,
    ))  # fmt: skip


@SIMT.lower(EachProgram)
def lower_each_program(low: Lowering, op: EachProgram) -> None:
    """Number programs back and forth over the blocks, below 2^31; a number is a place in the grid.

    Steps of 2 (blocks - block) - 1 and 2 block + 1 take turns. Numbers that are drawn may be below
    twice as many.
    Nothing is moved in front: what depends on the thread alone would be kept for all programs.
    Whoever is to meet others does so in the first program, or without one.
    """
    emit, chip = low.emit, low.chip
    meeting, low.meeting, low.ahead = low.meeting, Meeting(), []
    block, blocks = chip.program(emit, 0), chip.programs(emit, 0)
    x, y, z = (low.programs(axis) for axis in range(3))
    total = emit.mul("i32", emit.mul("i32", x, y), z)
    both, twice = (emit.shift("shl", "i32", held, 1) for held in (blocks, block))
    away = emit.sub("i32", emit.sub("i32", both, twice), "1")
    start = _starts(low, op.inits)
    body, end = emit.fresh("program"), emit.fresh("after")
    some = emit.pure(f"icmp ult i32 {block}, {total}")
    entry = without = emit.block
    with emit.loop(hoists=False):
        if meeting.ops:
            without = emit.fresh("without")
        emit.branch(some, body, without if meeting.ops else end)
        if meeting.ops:
            emit.label(without)
            low.meeting = meeting
            low.meet()
            emit.jump(end)
        emit.label(body)
        number = emit.effect(f"phi i32 [ {block}, %{entry} ], [ ?, ? ]")
        step = emit.effect(f"phi i32 [ {away}, %{entry} ], [ ?, ? ]")
        carried = _open_phis(low, op.inits, start, entry)
        for value, registers in zip(op.body.arguments, carried, strict=True):
            _bind(low, value, registers)
        if meeting.ops:
            low.meeting = Meeting(meeting.ops, emit.pure(f"icmp eq i32 {number}, {block}"))
        with low.as_program(place_of(low, number), number):
            low.block(op.body)
            low.meet()
        after = _operands(low, op.body.yields)
        following = (
            low.scalar(op.body.yields[0]) if op.drawn else emit.add("i32", number, step, "nuw ")
        )
        other = emit.sub("i32", both, step)
        again = emit.pure(f"icmp ult i32 {following}, {total}")
        latch = emit.block
        emit.patch(number, f"phi i32 [ {block}, %{entry} ], [ {following}, %{latch} ]")
        emit.patch(step, f"phi i32 [ {away}, %{entry} ], [ {other}, %{latch} ]")
        _close_phis(low, op.inits, carried, (start, entry), (after, latch))
        emit.branch(again, body, end)
    emit.label(end)
    results = _phis(low, op.results, [(start, without), (after, latch)])
    for value, registers in zip(op.results, results, strict=True):
        _bind(low, value, registers)


@SIMT.lower(While)
def lower_while(low: Lowering, op: While) -> None:
    emit = low.emit
    start = _starts(low, op.inits)
    entry = emit.block
    head, body, end = emit.fresh("while"), emit.fresh("do"), emit.fresh("after")
    with emit.loop(hoists=not op.keeps_invariants):
        emit.jump(head)
        emit.label(head)
        carried = _open_phis(low, op.inits, start, entry)
        for value, registers in zip(op.condition.arguments, carried, strict=True):
            _bind(low, value, registers)
        low.block(op.condition)
        go = low.scalar(op.condition.yields[0])
        emit.branch(go, body, end)
        emit.label(body)
        with emit.scope():
            for value, registers in zip(op.body.arguments, carried, strict=True):
                _bind(low, value, registers)
            low.block(op.body)
            after = _operands(low, op.body.yields)
        latch = emit.block
        _close_phis(low, op.inits, carried, (start, entry), (after, latch))
        emit.jump(head)
    emit.label(end)
    for value, registers in zip(op.results, carried, strict=True):
        _bind(low, value, registers)


@SIMT.lower(If)
def lower_if(low: Lowering, op: If) -> None:
    emit = low.emit
    then, otherwise, end = emit.fresh("then"), emit.fresh("else"), emit.fresh("end")
    emit.branch(low.scalar(op.condition), then, otherwise)
    edges: list[tuple[Registers, str]] = []
    for name, region in ((then, op.then), (otherwise, op.otherwise)):
        emit.label(name)
        edges.append(_branch(low, region))
        emit.jump(end)
    emit.label(end)
    results = _phis(low, op.results, edges)
    for value, registers in zip(op.results, results, strict=True):
        _bind(low, value, registers)


def _branch(low: Lowering, region: Block) -> tuple[Registers, str]:
    with low.emit.scope():
        low.block(region)
        values = _operands(low, region.yields)
    return values, low.emit.block


@SIMT.layouts(Map)
def map_layouts(op: Map, on: Setting) -> Layouts:
    """Inputs and results in one layout; what each element costs is not known."""
    shape = shape_of(op.inputs[0].type)
    return Layouts(own=shape, operands=(SAME,) * len(op.inputs), results=(same,) * len(op.results))


@SIMT.lower(Map)
def lower_map(low: Lowering, op: Map) -> None:
    """Write the body once per register; threads part where their elements do."""
    found: Registers = [[None] * low.layout(value).registers() for value in op.results]
    for r in low.live(op.results[0]):
        for argument, value in zip(op.body.arguments, op.inputs, strict=True):
            low.set_scalar(argument, low.register(value, r))
        with low.emit.scope():
            low.block(op.body)
            for registers, value in zip(found, op.body.yields, strict=True):
                registers[r] = low.scalar(value)
    for value, registers in zip(op.results, found, strict=True):
        _bind(low, value, registers)


@SIMT.lower(Yield)
def lower_yield(low: Lowering, op: Yield) -> None:
    """The op that owns the region reads the yielded values itself."""


@SIMT.lower(Return)
def lower_return(low: Lowering, op: Return) -> None:
    low.emit.do("ret void")
