"""Sorting networks: exchanges between registers, between lanes, and through shared memory.

Rows lie along the last axis in `sort_layout`: each bit of the axis is one bit of register, lane or
warp, the low ones in registers, since a network uses those most. An exchange compares each element
with the one whose coordinate differs in the bits of a mask; the side with the mask's highest bit
clear keeps what comes first. A mask of one bit is a step of a bitonic merge, a mask of the low
bits up to it compares rows with their mirror images, so that no direction ever changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from workbench.ir import Scalar, Tile, Value, element_of, shape_of
from workbench.layouts import LinearLayout, blocked
from workbench.ops import Merge, Sort
from workbench.ops.numbers import limits
from workbench.targets.simt.arithmetic import literal
from workbench.targets.simt.layout import shuffle
from workbench.targets.simt.lowering import Lowering, at, llvm_type
from workbench.targets.simt.program import barrier
from workbench.targets.simt.reductions import from_words, to_words
from workbench.targets.simt.rules import NO_SCRATCH, SAME, Device, Layouts, Scratch, Setting
from workbench.targets.simt.table import SIMT

#: Bytes of shared memory that one exchange between warps may take.
_MOST_BYTES = 32 * 1024


@SIMT.layouts(Sort, Merge)
def sort_rule(op: Sort | Merge, on: Setting) -> Layouts:
    """Rows are sorted in one layout, and what is kept of them stays where it is."""
    shape, keep = shape_of(op.source.type), shape_of(op.result.type)[-1]
    return Layouts(
        own=shape,
        operands=(SAME,),
        results=(lambda layout: kept_layout(layout, keep),),
        offers=lambda: [sort_layout(shape, on.num_warps, on.lanes)],
        fixed=True,
    )


def sort_layout(shape: tuple[int, ...], num_warps: int, lanes: int) -> LinearLayout:
    """Return the layout in which rows along the last axis are sorted."""
    order = tuple(range(len(shape) - 1, -1, -1))
    extent = 1 << (shape[-1] - 1).bit_length()
    rows = 1
    for other in shape[:-1]:
        rows *= 1 << (other - 1).bit_length()
    # Threads that other rows keep busy need not share one.
    share = max(1, lanes * num_warps // rows)
    return blocked(shape, max(1, extent // share), order, num_warps, lanes)


def kept_layout(layout: LinearLayout, keep: int) -> LinearLayout:
    """Return where the first `keep` elements of each row are: every such part of it has them."""
    if keep == layout.shape[-1]:
        return layout
    bases = {
        name: [(*vector[:-1], vector[-1] & (keep - 1)) for vector in vectors]
        for name, vectors in layout.bases.items()
    }
    return LinearLayout(bases, (*layout.shape[:-1], keep))


@SIMT.scratch(Sort, Merge)
def sort_scratch(op: Sort | Merge, chip: Device, num_warps: int, used: bool) -> Scratch:
    """What is exchanged between warps."""
    layout, element = _types(op.source)
    if not any(place.kind == "warp" for place in _places(layout)):
        return NO_SCRATCH
    each = chip.lanes * num_warps * max(4, element.itemsize)
    return Scratch(_chunk(layout, each) * each)


def _chunk(layout: LinearLayout, each: int) -> int:
    """Return how many registers cross warps at once, `each` bytes for one of all threads."""
    return max(2, min(layout.registers(), _MOST_BYTES // each))


def _types(source: Value) -> tuple[LinearLayout, Scalar]:
    element = element_of(source.type)
    assert isinstance(source.type, Tile)
    assert source.type.layout is not None
    assert isinstance(element, Scalar)
    return source.type.layout, element


@dataclass(frozen=True, slots=True)
class _Place:
    """Which bit of which index a bit of the axis is."""

    kind: Literal["register", "lane", "warp"]
    bit: int


def _places(layout: LinearLayout) -> list[_Place]:
    """Return the place of each bit of the last axis, lowest first."""
    found: dict[int, _Place] = {}
    for kind in ("register", "lane", "warp"):
        for bit, flat in enumerate(layout.flat(kind)):
            found.setdefault(flat, _Place(kind, bit))
    return [found[1 << bit] for bit in range(layout.bits[-1])]


class _Network:
    """The registers of one sort and the exchanges between them."""

    def __init__(self, low: Lowering, op: Sort | Merge) -> None:
        self.low = low
        self.op = op
        self.layout, self.element = _types(op.source)
        self.places = _places(self.layout)
        self.type = llvm_type(self.element)
        sign = "s" if self.element.kind == "int" else "u"
        self.first, self.last = f"llvm.{sign}min", f"llvm.{sign}max"
        if op.descending:
            self.first, self.last = self.last, self.first
        self.values = self._padded()
        self.crossed = False

    def _padded(self) -> dict[int, str]:
        """Return the registers; where the row has no element they hold what comes last."""
        low = self.low
        lowest, highest = limits(self.element)
        end = literal(lowest if self.op.descending else highest, self.element)
        live = set(low.live(self.op.source))
        axis = self.layout.rank - 1
        found: dict[int, str] = {}
        seen: set[int] = set()
        for register, flat in enumerate(self.layout.table("register")):
            if flat in seen:
                continue
            seen.add(flat)
            inside = low.inside(self.layout, register, [axis]) if register in live else "false"
            if inside == "false":
                found[register] = end
                continue
            value = low.register(self.op.source, register)
            if inside is not None:
                value = low.emit.pure(f"select i1 {inside}, {self.type} {value}, {self.type} {end}")
            found[register] = value
        return found

    def pick(self, name: str, a: str, b: str) -> str:
        """Return what comes first or last of two."""
        type = self.type
        if a == b:
            return a
        return self.low.emit.call(
            type, f"{name}.{type}", f"{type} {a}, {type} {b}", f"{type}, {type}"
        )

    def exchange(self, bits: Sequence[int], *, halves: bool = False) -> None:
        """Compare with the element whose coordinate differs in `bits` of the axis.

        With `halves` both sides keep what comes first: the upper half of the row is given up.
        """
        masks = {"register": 0, "lane": 0, "warp": 0}
        for bit in bits:
            place = self.places[bit]
            masks[place.kind] |= 1 << place.bit
        partners = self._partners(masks["register"], masks["lane"], masks["warp"])
        top = self.places[max(bits)]
        found: dict[int, str] = {}
        for register, value in self.values.items():
            other = partners[register]
            if halves:
                if top.kind != "register" or not register >> top.bit & 1:
                    found[register] = self.pick(self.first, value, other)
            elif top.kind == "register":
                name = self.last if register >> top.bit & 1 else self.first
                found[register] = self.pick(name, value, other)
            else:
                found[register] = self._by_side(top, value, other)
        self.values = found

    def _by_side(self, top: _Place, value: str, other: str) -> str:
        emit, type = self.low.emit, self.type
        index = self.low.lane if top.kind == "lane" else self.low.warp
        bit = emit.bitwise("and", "i32", index, str(1 << top.bit))
        below = emit.pure(f"icmp eq i32 {bit}, 0")
        first, last = self.pick(self.first, value, other), self.pick(self.last, value, other)
        return emit.pure(f"select i1 {below}, {type} {first}, {type} {last}")

    def _partners(self, register: int, lane: int, warp: int) -> dict[int, str]:
        if warp:
            return self._through_shared(register, lane, warp)
        values = {r: self.values[r ^ register] for r in self.values}
        if not lane:
            return values
        found: dict[int, str] = {}
        for r, value in values.items():
            words = to_words(self.low, value, self.element)
            moved = [shuffle(self.low, "xor", word, str(lane)) for word in words]
            found[r] = from_words(self.low.emit, moved, self.element)
        return found

    def _through_shared(self, register: int, lane: int, warp: int) -> dict[int, str]:
        """Write registers side by side, one row of threads each, and read the partner's."""
        low, emit = self.low, self.low.emit
        threads = low.lanes * low.num_warps
        size = max(4, self.element.itemsize)
        kind = "i64" if size == 8 else "i32"
        base = low.shared(low.offset(self.op))
        partner = emit.bitwise("xor", "i32", low.thread, str(lane | warp << low.lane_bits))
        pairs = sorted({tuple(sorted({r, r ^ register})) for r in self.values})
        chunk = max(1, _chunk(self.layout, threads * size) // 2)
        found: dict[int, str] = {}
        for start in range(0, len(pairs), chunk):
            registers = [r for pair in pairs[start : start + chunk] for r in pair]
            rows = {r: number * threads * size for number, r in enumerate(registers)}
            if self.crossed:
                barrier(low)
            self.crossed = True
            for r in registers:
                word = _widened(low, self.values[r], self.element, kind)
                place = at(low, base, emit.mul("i32", low.thread, str(size)))
                address = at(low, place, str(rows[r]))
                low.store_shared(kind, word, address, size)
            barrier(low)
            for r in registers:
                place = at(low, base, emit.mul("i32", partner, str(size)))
                address = at(low, place, str(rows[r ^ register]))
                word = low.load_shared(kind, address, size)
                found[r] = emit.effect(f"trunc {kind} {word} to {self.type}") if (
                    kind != self.type) else word  # fmt: skip
        return found

    def merge(self, bits: int) -> None:
        """Order bitonic runs of 2^bits elements."""
        for bit in reversed(range(bits)):
            self.exchange([bit])

    def sort(self, bits: int) -> None:
        """Order runs of 2^bits elements."""
        for level in range(bits):
            self.exchange(range(level + 1))
            self.merge(level)

    def finish(self, result: Value) -> None:
        """Give the result its registers; registers that were given up repeat those that stay."""
        layout = self.low.layout(result)
        table = self.layout.table("register")
        keep = (1 << layout.bits[-1]) - 1
        rest = ~((1 << self.layout.bits[-1]) - 1)
        shift = self.layout.bits[-1] - layout.bits[-1]
        held: dict[int, str] = {}
        for register, value in self.values.items():
            flat = table[register]
            held.setdefault((flat & rest) >> shift | flat & keep, value)
        live = set(self.low.live(result))
        self.low.set_registers(
            result,
            [held[f] if r in live else None for r, f in enumerate(layout.table("register"))],
        )


def _widened(low: Lowering, value: str, element: Scalar, kind: str) -> str:
    type = llvm_type(element)
    if type == kind:
        return value
    return low.emit.zext(value, type, kind)


@SIMT.lower(Sort)
def lower_sort(low: Lowering, op: Sort) -> None:
    network = _Network(low, op)
    bits = network.layout.bits[-1]
    kept = (op.kept - 1).bit_length() if op.keep else bits
    network.sort(kept)
    for bit in range(kept, bits):
        # Both runs are in order: the first of each pair of mirror images are the first of both.
        network.exchange([*range(kept), bit], halves=True)
        network.merge(kept)
    network.finish(op.result)


@SIMT.lower(Merge)
def lower_merge(low: Lowering, op: Merge) -> None:
    network = _Network(low, op)
    network.merge(network.layout.bits[-1])
    network.finish(op.result)
