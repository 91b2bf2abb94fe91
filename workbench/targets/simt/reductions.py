"""Reductions: in the thread, then across lanes by shuffles, then across warps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

from workbench.ir import Block, Scalar, Value, layout_of, shape_of
from workbench.layouts import LinearLayout, ReducePlan, blocked, f2, reduce_plan
from workbench.layouts.coordinates import axis_bits
from workbench.ops import Elementwise, Reduce, combine_function
from workbench.targets.llvm.emit import Emitter
from workbench.targets.simt.arithmetic import float_rule, literal
from workbench.targets.simt.hardware import Costs
from workbench.targets.simt.layout import shuffle
from workbench.targets.simt.lowering import Lowering, at, element_scalar, llvm_type
from workbench.targets.simt.parts import registers_of
from workbench.targets.simt.program import barrier
from workbench.targets.simt.rules import (
    NO_SCRATCH,
    SAME,
    Device,
    Layouts,
    Parts,
    Scratch,
    Setting,
)
from workbench.targets.simt.table import SIMT

#: One value per reduced input: what a thread holds of one row.
State = Sequence[str]


@SIMT.layouts(Reduce)
def reduce_layouts(op: Reduce, on: Setting) -> Layouts:
    """All inputs in one layout, which says what layout the results are left in."""
    shape, axis, count = shape_of(op.inputs[0].type), op.axis, len(op.inputs)

    def left_in(layout: LinearLayout) -> LinearLayout:
        return reduce_plan(layout, axis).result

    return Layouts(
        own=shape,
        operands=(SAME,) * count,
        results=(left_in,) * len(op.results),
        cost=lambda layout: _cost(layout, axis, count, on.chip.costs),
        offers=lambda: _in_threads(shape, axis, on.num_warps, on.lanes),
    )


def _in_threads(
    shape: tuple[int, ...], axis: int, num_warps: int, lanes: int
) -> list[LinearLayout]:
    """Return layouts whose lanes and warps go along the other axes, where there are enough.

    What is left of these for each thread is one axis, or a square: a tile that is made of smaller
    ones by broadcasting needs fewest registers of them so. Of a tile with up to two axes a layout
    for its loads does about as well.
    """
    if len(shape) < 3:
        return []
    others = [d for d in range(len(shape) - 1, -1, -1) if d != axis]
    found = [blocked(shape, 1, (*others, axis), num_warps, lanes)]
    bits = axis_bits(shape)
    left = sum(bits) - bits[axis] - (num_warps * lanes).bit_length() + 1
    first, second = others[:2]
    if left > 1 and min(bits[first], bits[second]) > left // 2:
        steps = {
            d: [1 << sum(bits[d + 1 :]) + bit for bit in range(bits[d])] for d in (*others, axis)
        }
        across = (left + 1) // 2
        square = [*steps[first][:across], *steps[second][: left - across]]
        walk = [s for d in others for s in steps[d] if s not in square]
        lane = lanes.bit_length() - 1
        dims = (*square, *steps[axis]), tuple(walk[:lane]), tuple(walk[lane:]), ()
        found.append(LinearLayout.from_flat(dims, shape, "blocked"))
    return found


def _cost(layout: LinearLayout, axis: int, inputs: int, costs: Costs) -> float:
    """Return the estimated cycles of a reduction in a layout (hardware.py has the unit)."""
    plan = reduce_plan(layout, axis)
    warps, rows = layout.size("warp"), len(plan.groups)
    shuffles = rows * len(plan.lane_masks) * inputs * warps
    work = sum(len(g) for g in plan.groups) * inputs * warps * costs.reduced
    if not plan.warp_masks:
        return shuffles + work
    return shuffles + work + (costs.crossing + rows * (1 << len(plan.warp_masks)) * inputs)


@SIMT.lower(Reduce)
def lower_reduce(low: Lowering, op: Reduce) -> None:
    layout = low.layout(op.inputs[0])
    plan = reduce_plan(layout, op.axis)
    parts = parts_of_rows(op) if low.comes_in_parts(op) else None
    own = in_threads(low, op, layout, plan) if parts is None else _by_parts(low, op, plan, parts)
    states = across_lanes(low, op, plan, own)
    if plan.warp_masks:
        states = _across_warps(low, op, plan, states)
    _finish(low, op, plan, states)


@dataclass(frozen=True, slots=True)
class Row:
    """A state with the condition under which it holds anything (None: always)."""

    values: State
    present: str | None

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)


class Combining(Protocol):
    """An op that combines tiles by a region."""

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The tiles."""
        ...

    @property
    def axis(self) -> int:
        """Along which they are combined."""
        ...

    @property
    def combine(self) -> Block:
        """What becomes of two elements of each."""
        ...


def elements_of(op: Combining) -> list[Scalar]:
    """Return the element types of what is combined."""
    return [element_scalar(v) for v in op.inputs]


def in_threads(low: Lowering, op: Combining, layout: LinearLayout, plan: ReducePlan) -> list[Row]:
    """Return what a thread's own elements of each row combine to."""
    return [_in_thread(low, op, layout, group) for group in plan.groups]


#: How many are added up one after the other: more would be rounded more often.
_IN_ORDER = 16
#: About how many registers of a tile that is broadcast are there at once for a reduction of it.
_TOGETHER = 32


@SIMT.parts(Reduce)
def parts_of_rows(op: Reduce) -> Parts | None:
    """What is broadcast from fewer registers is combined where it is made, some rows at a time."""
    (operand, *others) = op.inputs
    layout = layout_of(operand.type)
    if others or layout is None:
        return None
    groups = reduce_plan(layout, op.axis).groups
    room = registers_of(operand) - len(groups)
    if len(groups) < 2 or _registers_behind(operand, room) >= room:
        return None
    each = max(1, _TOGETHER // max(map(len, groups)))
    parts = (groups[first : first + each] for first in range(0, len(groups), each))
    registers = tuple(tuple(r for group in part for r in group) for part in parts)
    return Parts(operand, registers, loads=False, once=True)


def _registers_behind(value: Value, enough: int) -> int:
    """Return the registers of the smaller tiles of which a tile is made, element by element.

    Beyond so many as are enough nothing is counted.
    """
    most, found, seen = registers_of(value), 0, set[Value]()
    work = [value]
    while work and found < enough:
        value = work.pop()
        if value in seen or not shape_of(value.type):
            continue
        seen.add(value)
        made = value.op
        if made is not None and (made.pointwise or made.moves) and registers_of(value) >= most:
            work += made.operands
        else:
            found += registers_of(value)
    return found


def _by_parts(low: Lowering, op: Reduce, plan: ReducePlan, parts: Parts) -> list[Row]:
    """Return what a thread's own elements of each row combine to, of an operand in parts.

    An `exact` kernel has its elements combined as if they were there at once. Rows that lie wholly
    outside the tile have no registers: the last of them follow no part.
    """
    layout, found = low.layout(parts.operand), list[Row]()
    in_order = not low.module.attributes.get("exact")
    for registers in parts.registers:
        low.write_part(op, parts.operand, registers)
        left = len(registers)
        while left > 0:
            group = plan.groups[len(found)]
            found.append(_in_thread(low, op, layout, group, in_order=in_order))
            left -= len(group)
    return found + [_in_thread(low, op, layout, group) for group in plan.groups[len(found) :]]


def across_lanes(low: Lowering, op: Combining, plan: ReducePlan, states: list[Row]) -> list[Row]:
    """Combine what the lanes of a warp have of each row."""
    for mask in plan.lane_masks:
        moved = [
            _from_lane(low, op, states[r ^ mask.register], mask.lane) for r in range(len(states))
        ]
        states = [combine_present(low, op, a, b) for a, b in zip(states, moved, strict=True)]
    return states


def _in_thread(
    low: Lowering, op: Combining, layout: LinearLayout, group: Sequence[int], *,
    in_order: bool = False,
) -> Row:  # fmt: skip
    """Combine a thread's registers of one row, neighbours first (a tree keeps latency low).

    `in_order`: runs of them one after the other, beside other rows: products become multiply-adds.

    Where the row has holes, a combine with a neutral element replaces them by it; any other
    carries along whether there is a value at all.
    """
    neutral = _neutral(op)
    elements = elements_of(op)
    rows: list[Row] = []
    for r in group:
        inside = low.inside(layout, r, [op.axis])
        if inside == "false":
            continue
        values = [low.register(v, r) for v in op.inputs]
        if inside is not None and neutral is not None:
            type = llvm_type(elements[0])
            values = [low.emit.pure(f"select i1 {inside}, {type} {values[0]}, {type} {neutral}")]
            inside = None
        rows.append(Row(values, inside))
    if in_order:
        runs = (rows[first : first + _IN_ORDER] for first in range(0, len(rows), _IN_ORDER))
        rows = [reduce(lambda a, b: combine_present(low, op, a, b), run) for run in runs]
    if rows:
        return _tree(low, op, rows)
    # All that this register of the result combines are holes: along the axis, or because it lies
    # outside in every thread. Of the latter nobody asks whether there is a value.
    if neutral is not None:
        return Row([neutral], None)
    present = "false" if _may_be_absent(op, layout) else None
    return Row([literal(0, element) for element in elements], present)


def _neutral(op: Combining) -> str | None:
    """Return the literal that holes are replaced by; None if the combine has none."""
    function, (element, *_) = combine_function(op.combine), elements_of(op)
    if function is None or function.identity is None:
        return None
    return literal(function.identity(element), element)


def _may_be_absent(op: Combining, layout: LinearLayout) -> bool:
    """Say whether a thread may hold nothing of a row, so that states say if there is a value."""
    return layout.shape[op.axis] != layout.padded[op.axis] and _neutral(op) is None


def _tree(low: Lowering, op: Combining, rows: list[Row]) -> Row:
    """Combine rows, neighbours first."""
    while len(rows) > 1:
        paired = [
            combine_present(low, op, rows[i], rows[i + 1]) for i in range(0, len(rows) - 1, 2)
        ]
        rows = paired + rows[len(paired) * 2 :]
    return rows[0]


def combine_present(low: Lowering, op: Combining, a: Row, b: Row) -> Row:
    """Combine two rows; where only one holds anything, it is the result."""
    both = combine(low, op.combine, [*a, *b])
    if a.present is None and b.present is None:
        return Row(both, None)
    emit = low.emit
    held: list[str] = []
    for x, y, new, element in zip(a, b, both, elements_of(op), strict=True):
        type = llvm_type(element)
        if b.present is not None:
            new = emit.pure(f"select i1 {b.present}, {type} {new}, {type} {x}")
        if a.present is not None:
            new = emit.pure(f"select i1 {a.present}, {type} {new}, {type} {y}")
        held.append(new)
    if a.present is None or b.present is None:
        return Row(held, None)
    return Row(held, emit.bitwise("or", "i1", a.present, b.present))


def combine(low: Lowering, region: Block, operands: Sequence[str]) -> State:
    """Return what a combine region gives for operands (left ones first)."""
    for argument, operand in zip(region.arguments, operands, strict=True):
        low.set_scalar(argument, operand)
    rule = low.combining.get(region)
    if rule is None:
        rule = low.combining[region] = _rule_of(low, region)
    with low.emit.scope():
        return rule()


def _rule_of(low: Lowering, region: Block) -> Callable[[], State]:
    """Return what writes a combine region: most are one function, whose rule is looked up once."""
    first = region.ops[0]
    if (
        not isinstance(first, Elementwise)
        or combine_function(region) is None
        or not element_scalar(first.inputs[0]).is_float
    ):

        def block() -> State:
            low.block(region)
            return [low.scalar(v) for v in region.yields]

        return block
    rule = float_rule(low, first)

    def function() -> State:
        before = low.emit.current
        low.emit.at(first)
        found = rule(0)
        low.emit.current = before
        return [found]

    return function


def to_words(low: Lowering, value: str, element: Scalar) -> list[str]:
    """Return a value as i32 words for a shuffle."""
    emit, type = low.emit, llvm_type(element)
    bits = {"half": "i16", "bfloat": "i16", "float": "i32", "double": "i64"}.get(type, type)
    if bits != type:
        value = emit.pure(f"bitcast {type} {value} to {bits}")
    if bits == "i64":
        high = emit.trunc(emit.shift("lshr", "i64", value, 32), "i64", "i32")
        return [emit.trunc(value, "i64", "i32"), high]
    return [emit.zext(value, bits, "i32")]


def from_words(emit: Emitter, words: Sequence[str], element: Scalar) -> str:
    """Return the value that `to_words` wrote as i32 words."""
    type = llvm_type(element)
    bits = {"half": "i16", "bfloat": "i16", "float": "i32", "double": "i64"}.get(type, type)
    if bits == "i64":
        high = emit.shift("shl", "i64", emit.zext(words[1], "i32", "i64"), 32)
        value = emit.bitwise("or", "i64", emit.zext(words[0], "i32", "i64"), high)
    else:
        value = emit.trunc(words[0], "i32", bits)
    return emit.pure(f"bitcast {bits} {value} to {type}") if bits != type else value


def _from_lane(low: Lowering, op: Combining, state: Row, lane: int) -> Row:
    """Return the state of the lane that differs in the bits of `lane`."""
    moved: list[str] = []
    for value, element in zip(state, elements_of(op), strict=True):
        words = [shuffle(low, "xor", w, str(lane)) for w in to_words(low, value, element)]
        moved.append(from_words(low.emit, words, element))
    present = None
    if state.present is not None:
        word = shuffle(low, "xor", low.emit.zext(state.present, "i1", "i32"), str(lane))
        present = low.emit.pure(f"icmp ne i32 {word}, 0")
    return Row(moved, present)


@SIMT.scratch(Reduce)
def reduce_scratch(op: Reduce, chip: Device, num_warps: int, used: bool) -> Scratch:
    """What crosses warps."""
    layout = layout_of(op.inputs[0].type)
    assert layout is not None
    plan = reduce_plan(layout, op.axis)
    if not plan.warp_masks:
        return NO_SCRATCH
    each = _register_bytes(op, layout, plan, num_warps)
    return Scratch(each * max(map(len, _rounds(plan, each, chip.most_scratch))))


def _register_bytes(op: Reduce, layout: LinearLayout, plan: ReducePlan, num_warps: int) -> int:
    """Return the bytes of scratch that one register of all threads takes."""
    kinds = kinds_of(op, _may_be_absent(op, layout))
    return sum(map(word_bytes, kinds)) * num_warps << len(_row_lanes(plan))


def _rounds(plan: ReducePlan, each: int, most: int) -> list[list[int]]:
    """Return the registers of the result that cross warps together, `each` bytes for one.

    Registers that are combined with each other go in one round.
    """
    flips = f2.table(mask.register for mask in plan.warp_masks if mask.register)
    together: dict[int, list[int]] = {}
    for register in range(len(plan.groups)):
        together.setdefault(min(register ^ flip for flip in flips), []).append(register)
    found: list[list[int]] = [[]]
    for registers in together.values():
        if found[-1] and (len(found[-1]) + len(registers)) * each > most // 2:
            found.append([])
        found[-1] += registers
    return found


def _across_warps(low: Lowering, op: Reduce, plan: ReducePlan, states: list[Row]) -> list[Row]:
    """Write each warp's part, wait, and combine the parts of each row.

    Scratch is [value][register][lane class][warp]; lanes that hold the same row write the same
    word. Lanes that are copies of each other then share the work: each reads the part of another
    warp, and shuffles combine what they read; only what is left is read one after the other.
    """
    emit, warps = low.emit, low.num_warps
    lane_bits = _row_lanes(plan)
    lanes = 1 << len(lane_bits)
    lane_index = low.thread_part(_gathered(lane_bits, low.lane_bits), ())
    layout = low.layout(op.inputs[0])
    kinds = kinds_of(op, any(s.present is not None for s in states))
    each = _register_bytes(op, layout, plan, warps)
    rounds = _rounds(plan, each, low.chip.most_scratch)
    most = max(map(len, rounds))
    parts = Crossing(low, low.offset(op), each * most, kinds, most, lanes)
    own = emit.add("i32", emit.mul("i32", lane_index, str(warps)), low.warp)

    def write(registers: list[int]) -> None:
        for place, register in enumerate(registers):
            state = states[register]
            parts.write(place, own, [*state, state.present or "true"])
        barrier(low)

    write(rounds[0])
    # A mask that also changes the register cannot differ between lanes.
    masks = sorted(plan.warp_masks, key=lambda mask: mask.register != 0)
    even = sum(mask.register == 0 for mask in masks)
    helpers = [bit for bit in range(low.lane_bits) if bit not in lane_bits][:even]
    shared_out, alone = masks[: len(helpers)], masks[len(helpers) :]
    columns = [0] * low.lane_bits
    for bit, mask in zip(helpers, shared_out, strict=True):
        columns[bit] = _packed_lane(mask.lane, lane_bits) * warps ^ mask.warp
    flips = [(0, 0)]
    for mask in alone:
        flip = _packed_lane(mask.lane, lane_bits) * warps ^ mask.warp
        flips += [(r ^ mask.register, f ^ flip) for r, f in flips]
    row = emit.bitwise("xor", "i32", own, low.thread_part(columns, ()))
    found: dict[int, Row] = {}
    for number, registers in enumerate(rounds):
        if number:
            barrier(low)
            write(registers)
        place = {register: i for i, register in enumerate(registers)}
        for register in registers:
            held = [
                parts.read(place[register ^ other], emit.bitwise("xor", "i32", row, str(flip)))
                for other, flip in flips
            ]
            total = _tree(low, op, held)
            for bit in helpers:
                total = combine_present(low, op, total, _from_lane(low, op, total, 1 << bit))
            found[register] = total
    return [found[register] for register in range(len(states))]


#: Stands for the condition under which a row holds anything.
PRESENT = Scalar("i1", "bool", 1)


def kinds_of(op: Combining, present: bool) -> list[Scalar]:
    """Return what of a row crosses warps; `present`: whether there is anything, too."""
    return [*elements_of(op), *[PRESENT] * present]


def word_bytes(kind: Scalar) -> int:
    """Return the bytes of scratch in which one value crosses warps."""
    return max(4, kind.itemsize)


class Crossing:
    """Scratch for crossing warps: a word per value, register, row of a warp, and warp.

    It lies at `offset` in shared memory and has `room` bytes, what the rule for scratch said.
    """

    def __init__(
        self,
        low: Lowering,
        offset: int,
        room: int,
        kinds: list[Scalar],
        registers: int,
        lanes: int,
    ) -> None:
        self.low = low
        self.kinds = kinds
        self.each = lanes * low.num_warps
        self.places: list[tuple[int, int]] = []
        end = offset + room
        for kind in kinds:
            size = word_bytes(kind)
            self.places.append((offset, size))
            offset += size * registers * self.each
        assert offset <= end, f"{room} bytes of scratch are {offset - end} too few"

    def _address(self, number: int, register: int, row: str) -> str:
        low = self.low
        offset, size = self.places[number]
        base = at(low, low.shared(offset), low.emit.mul("i32", row, str(size)))
        return at(low, base, str(register * self.each * size))

    def write(self, register: int, row: str, values: Sequence[str]) -> None:
        """Store one word per kind of value."""
        for number, (kind, value) in enumerate(zip(self.kinds, values, strict=False)):
            words = to_words(self.low, value, kind)
            whole = words[0] if len(words) == 1 else _join64(self.low, words)
            size = self.places[number][1]
            type = "i32" if size == 4 else "i64"
            address = self._address(number, register, row)
            self.low.store_shared(type, whole, address, size)

    def read(self, register: int, row: str) -> Row:
        """Load what another warp wrote."""
        emit = self.low.emit
        values: list[str] = []
        present = None
        for number, kind in enumerate(self.kinds):
            size = self.places[number][1]
            type = "i32" if size == 4 else "i64"
            address = self._address(number, register, row)
            word = self.low.load_shared(type, address, size)
            if kind is PRESENT:
                present = emit.effect(f"icmp ne i32 {word}, 0")
                continue
            words = [word]
            if type == "i64":
                high = emit.trunc(emit.shift("lshr", "i64", word, 32), "i64", "i32")
                words = [emit.trunc(word, "i64", "i32"), high]
            values.append(from_words(emit, words, kind))
        return Row(values, present)


def _join64(low: Lowering, words: Sequence[str]) -> str:
    emit = low.emit
    high = emit.shift("shl", "i64", emit.zext(words[1], "i32", "i64"), 32)
    return emit.bitwise("or", "i64", emit.zext(words[0], "i32", "i64"), high)


def _row_lanes(plan: ReducePlan) -> list[int]:
    """Return the lane bits that tell rows apart after the lane masks."""
    return [bit for bit, flat in enumerate(plan.result.flat("lane")) if flat]


def _gathered(bits: Sequence[int], count: int) -> list[int]:
    columns = [0] * count
    for target, bit in enumerate(bits):
        columns[bit] = 1 << target
    return columns


def _packed_lane(lane: int, bits: Sequence[int]) -> int:
    return sum((lane >> bit & 1) << i for i, bit in enumerate(bits))


def _finish(low: Lowering, op: Reduce, plan: ReducePlan, states: list[Row]) -> None:
    for number, result in enumerate(op.results):
        if not shape_of(result.type):
            low.set_scalar(result, states[0].values[number])
            continue
        held = {
            flat: states[r].values[number] for r, flat in enumerate(plan.result.table("register"))
        }
        layout = low.layout(result)
        registers = [held.get(flat) for flat in layout.table("register")]
        low.set_registers(result, registers)


__all__ = [
    "PRESENT",
    "Crossing",
    "Row",
    "across_lanes",
    "combine",
    "combine_present",
    "elements_of",
    "from_words",
    "in_threads",
    "kinds_of",
    "to_words",
    "word_bytes",
]
