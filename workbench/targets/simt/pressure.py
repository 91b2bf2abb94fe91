"""Registers: how many a thread will need, estimated before code is written.

The estimate counts what tiles of floats hold while they are needed. Integers, masks and pointers
are written where somebody needs them and are left out, so that it errs on the small side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from workbench.ir import Block, Module, Op, Scalar, Value, element_of, layout_of, shape_of
from workbench.passes.manager import Remarks
from workbench.targets.simt.hardware import Hardware
from workbench.targets.simt.ops import all_warps, roles_of

#: Gives a kernel's GPU IR for so many warps, None where that many are refused.
ForWarps = Callable[[int], Module | None]


@dataclass(frozen=True, slots=True)
class Fitting:
    """With what all tiles fit by the estimate: so many warps, tiles so many times smaller.

    `nearest`: the warps, more than now, with which least is spilled where none are enough.
    """

    warps: int | None
    smaller: int | None
    nearest: int | None


def registers_of(module: Module, chip: Hardware) -> int:
    """Return the registers of a thread that holds tiles, as warps share them out."""
    roles = roles_of(module)
    if roles is not None and roles.registers:
        return roles.registers[1]
    return chip.most_registers(all_warps(module))


def overflows(module: Module, chip: Hardware) -> bool:
    """Say whether more tiles are alive at some op than a thread has registers."""
    have = registers_of(module, chip)
    return peak(module, have)[1] > have


def fitting(
    for_warps: ForWarps, warps: int, chip: Hardware, least: float = float("inf")
) -> Fitting:
    """Return what makes the tiles of a kernel fit that do not with so many warps.

    A thread's share of tiles that are smaller by a factor is its share among as many more warps.
    `least` is how many registers of a thread are missing now.
    """
    more = smaller = nearest = None
    have, factor = chip.most_registers(warps), 2
    while warps * factor <= chip.most_warps and None in (more, smaller):
        module = for_warps(warps * factor)
        if module is not None:
            needed = peak(module)[1]
            # All threads together spill as many more as there are more of them.
            over = (needed - registers_of(module, chip)) * factor
            if more is None and over <= 0:
                more = warps * factor
            if over < least:
                nearest, least = warps * factor, over
            if smaller is None and needed <= have:
                smaller = factor
        factor *= 2
    return Fitting(more, smaller, None if more else nearest)


def note_pressure(module: Module, remarks: Remarks, chip: Hardware, for_warps: ForWarps) -> None:
    """Remark on the op at which more tiles are alive than a thread has registers."""
    warps: int = module.attributes["num_warps"]
    have = registers_of(module, chip)
    op, needed = peak(module, have)
    if op is None or needed <= have:
        return
    found = fitting(for_warps, warps, chip, needed - have)
    fits = [f"num_warps={found.warps}"] if found.warps else []
    fits += [f"tiles of 1/{found.smaller} of the elements"] if found.smaller else []
    advice = f"by the same estimate {' or '.join(fits)} would fit"
    if not fits:
        advice = "no num_warps holds them, take far smaller tiles"
    if found.nearest:
        advice += f", and num_warps={found.nearest} comes nearest"
    remarks.note(
        op,
        f"about {needed} registers of tiles are alive here, a thread has {have}: the rest is "
        f"spilled to memory; {advice}",
        "missed",
    )


def peak(module: Module, least: int = 0) -> tuple[Op | None, int]:
    """Return the op at which the tiles of floats alive fill most registers of a thread.

    (None, 0) where all tiles together fill no more than `least`.
    """
    found = _Peak(
        value for op in module.walk() if is_written_where_used(op) for value in op.results
    )
    if found.all_of(module) <= least:
        return None, 0
    found.block(module.body, {})
    return found.op, found.registers


def peak_in(block: Block, elsewhere: Iterable[Value] = (), integers: Iterable[Value] = ()) -> int:
    """Return the registers of a thread that tiles of floats fill at most in a loop's body.

    `elsewhere`: tiles that are in no registers; `integers`: tiles of integers that are in some.
    """
    found = _Peak(elsewhere, {value: _integers_held(value) for value in integers})
    found.block(block, {})
    return found.registers


class _Peak:
    def __init__(
        self, elsewhere: Iterable[Value] = (), sizes: Mapping[Value, int] | None = None
    ) -> None:
        self.op: Op | None = None
        self.registers = 0
        self._sizes: dict[Value, int] = {**(sizes or {}), **dict.fromkeys(elsewhere, 0)}
        self._reads: dict[Op, tuple[Value, ...]] = {}

    def all_of(self, module: Module) -> int:
        """Return the registers of all tiles together."""
        return sum(self._size(value) for op in module.walk() for value in op.results)

    def block(self, block: Block, after: dict[Value, None]) -> None:
        """Go through a block from its end; `after` is alive behind it."""
        live = dict(after)
        total = sum(map(self._size, live))
        for op in reversed(block.ops):
            for value in op.results:
                if value not in live:
                    live[value] = None
                    total += self._size(value)
            new = [v for v in dict.fromkeys(op.operands) if v not in live]
            # A result may take the registers of an operand that is read for the last time.
            gone = sum(map(self._size, op.results))
            here = max(total, total - gone + sum(map(self._size, new))) + op.registers_beside
            if op.regions:
                self._regions(op, live)
            elif here >= self.registers:
                self.op, self.registers = op, here
            for value in op.results:
                del live[value]
                total -= self._size(value)
            outside = new if not op.regions else [*new, *self._read_inside(op)]
            for value in outside:
                if value not in live:
                    live[value] = None
                    total += self._size(value)

    def _regions(self, op: Op, live: dict[Value, None]) -> None:
        """What is read in a loop is alive in all of it, which comes back to it.

        In a branch it is alive to where it is read.
        """
        results = set(op.results)
        kept = {v: None for v in live if v not in results}
        if op.repeats:
            kept.update(dict.fromkeys(self._read_inside(op)))
        for region in op.regions:
            self.block(region, kept)

    def _read_inside(self, op: Op) -> tuple[Value, ...]:
        """Return the values that fill registers and that an op's regions read from outside."""
        known = self._reads.get(op)
        if known is None:
            found: dict[Value, None] = {}
            for region in op.regions:
                made = set(region.arguments)
                for inner in region.ops:
                    within = self._read_inside(inner) if inner.regions else ()
                    for value in (*inner.operands, *within):
                        if value not in made and self._size(value):
                            found[value] = None
                    made.update(inner.results)
            known = self._reads[op] = tuple(found)
        return known

    def _size(self, value: Value) -> int:
        known = self._sizes.get(value)
        if known is None:
            known = self._sizes[value] = registers_held(value)
        return known


def registers_held(value: Value) -> int:
    """Return the registers that a tile of floats fills; 16-bit numbers lie two in one."""
    element = element_of(value.type)
    if not isinstance(element, Scalar) or not element.is_float:
        return 0
    return _registers_of(value, element)


def _integers_held(value: Value) -> int:
    """Return the registers that a tile of numbers fills where integers are computed once, too."""
    element = element_of(value.type)
    return _registers_of(value, element) if isinstance(element, Scalar) else 0


def _registers_of(value: Value, element: Scalar) -> int:
    layout = layout_of(value.type)
    if layout is None or is_uniform(value):
        return 0
    again = layout.flat("register").count(0)  # bits that lead to the same element
    return (len(layout.live_registers()) >> again) * element.bits // 32


def is_uniform(value: Value) -> bool:
    """Say whether all elements of a tile are one number, which the op that gives it names."""
    op = value.op
    reads = None if op is None else op.element_from((0,) * len(shape_of(value.type)))
    return reads is not None and not any(shape_of(read.type) for read, _ in reads)


def is_written_where_used(op: Op) -> bool:
    """Say whether an op's result needs no registers of its own.

    It repeats rows or columns, or is one of two numbers, as a mask says.
    """
    if op.moves:
        return op.spreads
    return op.pointwise and all(
        element_of(value.type).bits == 1 or is_uniform(value) for value in op.operands
    )
