"""Matrix products that go on while the threads do something else."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from workbench.ir import (
    F32,
    NONE,
    Array,
    Effect,
    Effects,
    Element,
    Frame,
    Op,
    Product,
    Shared,
    Tile,
    Type,
    Value,
    attribute,
    element_of,
    layout_of,
    shape_of,
)
from workbench.ops.dots import product
from workbench.ops.numbers import cut_to_tf32, round_to
from workbench.source import LaunchError, ShapeError
from workbench.targets.simt.ops.shared import place_of, slot_of, stored

#: Orders what this thread wrote to shared memory with what its products read there.
_PROXY_FENCE: Effects = (Effect("shared", order="relaxed", scope="cta"),)
_ARRAYS_FENCE: Effects = (Effect("global", order="relaxed", scope="cta"),)


class WarpgroupDot(Op, mnemonic="gpu.wgmma"):
    """accumulator + a @ b by groups of four warps, for operands in shared memory; see tile.dot.

    `a` may also be a tile in the layout of fragments (layouts.wgmma_a). A tile in another layout
    is one that has no buffer yet; stage-products gives it one. With `turned_a` (`turned_b`) the
    operand is the transpose of what the buffer holds.

    In a layout of sums that is the instruction's transposed (`is_turned`) the transposes are what
    it multiplies: its first operand is b, which may be a tile then, and a is read from memory.

    Of f32 operands the instruction reads what tf32 holds and cuts the rest off.

    The product has ended when the op ends, and with it all before it, except for the latest
    `in_flight` ones: until a later one or a `gpu.wait_products` waits for them, their results
    hold nothing yet and their buffers must not change. PTX ISA 9.0, wgmma.mma_async (sm_90a).
    With `long_after` the sums of so many k go to `accumulator` in additions of fp32, `columns`
    columns of 64 rows at a time: the hardware adds 8-bit floats in fewer bits than those of fp32.
    Such a product does not go on.

    One that goes on into the next round of its loop with its first operand in registers takes that
    in `parts` along k, each of which has ended when the next but one starts: the registers of one
    are written while those of another are read. Nobody can tell; if all of them are written before
    the first part, it does not go on after all.

    `stage` 1 is a product that is started, or to be started, a round of its loop late; 2 one to be
    started so in a ring with a slot to spare. `role`: whose it is, where warps part.

        %3 = gpu.wgmma %0, %1, %2 {in_flight = 1} : tile<64x16xf32>
    """

    a: Value
    b: Value
    accumulator: Value
    slot_a: Value | None = None
    slot_b: Value | None = None
    turned_a: bool = attribute(default=False)
    turned_b: bool = attribute(default=False)
    in_flight: int = attribute(default=0)
    stage: int = attribute(default=0)
    role: str = attribute(default="")
    long_after: int = attribute(default=0)
    columns: int = attribute(default=0)
    parts: int = attribute(default=0)

    def infer(self) -> Type:
        return self.accumulator.type

    def verify(self) -> None:
        a, b = self.shapes
        if self.long_after:
            if self.long_after < 0 or a[-1] % self.long_after or self.columns % 8:
                raise ShapeError(
                    f"{self.name} of K = {a[-1]} cannot be added every {self.long_after} of k, "
                    f"{self.columns} columns at a time",
                    self.span,
                )
            if self.in_flight or self.columns < 8:
                raise ShapeError(f"{self.name} of long sums does not go on", self.span)
        if self.parts and (self.parts < 2 or a[-1] % self.parts or self.in_flight != 1):
            raise ShapeError(
                f"{self.name} of K = {a[-1]} cannot go on in {self.parts} parts", self.span
            )
        c = shape_of(self.accumulator.type)
        if len(c) != 2 or a[-1] != b[-2] or c != (a[0], b[1]):
            raise ShapeError(f"{self.name} of {a} and {b} does not give {c}", self.span)
        for operand, slot, turned in (
            (self.a, self.slot_a, self.turned_a),
            (self.b, self.slot_b, self.turned_b),
        ):
            slots = operand.type.slots if isinstance(operand.type, Shared) else 0
            if (slot is None) != (slots == 0):
                found = "no slot" if slot is None else "a slot"
                raise ShapeError(f"{self.name} names {found} of a {operand.type}", self.span)
            if turned and isinstance(operand.type, Tile):
                raise ShapeError(f"{self.name} of the transpose of a {operand.type}", self.span)

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of a and b as they are multiplied."""
        a, b = shape_of(self.a.type), shape_of(self.b.type)
        return a[::-1] if self.turned_a else a, b[::-1] if self.turned_b else b

    @property
    def is_turned(self) -> bool:
        """Whether the first operand of the instruction is b: neighbours in registers are rows."""
        layout = layout_of(self.result.type)
        return layout is not None and bool(layout.unflatten(layout.flat("register")[0])[0])

    @property
    def first(self) -> Value:
        """The instruction's first operand, of whose rows a group of warps takes 64 at a time."""
        return self.b if self.is_turned else self.a

    def multiplies(self) -> Product | None:
        if self.turned_a or self.turned_b:
            return None
        return Product(self.a, self.b, self.accumulator)

    def roundings(self) -> int:
        return self.shapes[0][1]

    def reads_beyond(self, buffer: Value) -> bool:
        """Whether instructions are larger than the tile: 64 rows by 16 columns for each group."""
        layout = layout_of(self.result.type)
        if layout is None:
            return True
        down_axis = int(self.is_turned)
        rows, columns = layout.shape[down_axis], layout.shape[1 - down_axis]
        # The first two bits of a warp are rows of one instruction.
        groups = [layout.unflatten(flat) for flat in layout.flat("warp")[2:]]
        down = 64 << sum(place[down_axis] > 0 for place in groups)
        across = any(place[1 - down_axis] for place in groups)
        second = self.a if self.is_turned else self.b
        beyond_first = buffer is self.first and rows % down != 0
        return beyond_first or (buffer is second and (across or columns % 16 != 0))

    @property
    def registers_beside(self) -> int:
        """Those of the sums of a piece."""
        return self.columns // 2 if self.long_after else 0

    def own_effects(self) -> Effects:
        later = self.in_flight > 0
        buffers = [v for v in (self.a, self.b) if isinstance(v.type, Shared)]
        return tuple(Effect("shared", reads=True, through=v, later=later) for v in buffers)

    def interpret(self, frame: Frame) -> Array:
        """The hardware may read operands at any time until the product is waited for.

        So the result is poison until then, and stays it if they have changed in between.
        """
        accumulator, element = frame[self.accumulator], element_of(self.accumulator.type)
        result = np.empty(accumulator.shape, accumulator.dtype)
        result[...] = np.nan if element_of(self.accumulator.type).is_float else 0x5A5A5A5A
        held = (
            self._held(frame, self.a, self.slot_a, self.turned_a),
            self._held(frame, self.b, self.slot_b, self.turned_b),
        )
        first = np.array(held[0]), np.array(held[1])

        def end() -> None:
            if all(map(_unchanged, first, held)):
                kind = element_of(self.a.type)
                a, b = map(cut_to_tf32, first) if kind == F32 else first
                result[...] = self._sum(a, b, accumulator, kind, element)

        pending = _pending(frame)
        pending.append(end)
        _wait(pending, self.in_flight)
        return result

    def _sum(
        self, a: Array, b: Array, accumulator: Array, kind: Element, element: Element
    ) -> Array:
        if not self.long_after:
            return product(a, b, accumulator, kind, element, "ieee")
        total, nothing = accumulator.astype(np.float32), np.zeros(accumulator.shape, np.float32)
        with np.errstate(all="ignore"):
            for first in range(0, a.shape[1], self.long_after):
                piece = slice(first, first + self.long_after)
                total = total + product(a[:, piece], b[piece], nothing, kind, F32, "ieee")
        return round_to(total.astype(np.float64), element)

    def _held(self, frame: Frame, value: Value, slot: Value | None, turned: bool) -> Array:
        if isinstance(value.type, Tile):
            return frame[value]
        if place_of(frame, value, slot) in stored(frame):
            raise LaunchError(
                f"{self.name} reads shared memory that was stored to, with no fence in between",
                self.span,
                code="K514",
                hint="fence after the stores: products read memory by another way",
            )
        held = slot_of(frame, value, slot)
        return held.T if turned else held


class WaitProducts(Op, mnemonic="gpu.wait_products", effects=_PROXY_FENCE, exact=True):
    """The result of a product, once at most `pending` of the latest products are under way.

    %1 = gpu.wait_products %0 {pending = 0} : tile<64x16xf32>
    """

    accumulator: Value
    pending: int = attribute(default=0)

    def awaited(self) -> tuple[Value, int]:
        return self.accumulator, self.pending

    def infer(self) -> Type:
        return self.accumulator.type

    def interpret(self, frame: Frame) -> Array:
        _wait(_pending(frame), self.pending)
        return frame[self.accumulator]


class ScaleProducts(Op, mnemonic="gpu.scale_products", effects=_PROXY_FENCE):
    """The result of a product times factors, once at most `pending` products are under way.

    A warp whose factors are all 1 does not multiply: x * 1 is x.

        %2 = gpu.scale_products %0, %1 {pending = 0} : tile<64x16xf32>
    """

    accumulator: Value
    factors: Value
    pending: int = attribute(default=0)

    def awaited(self) -> tuple[Value, int]:
        return self.accumulator, self.pending

    def infer(self) -> Type:
        return self.accumulator.type

    def verify(self) -> None:
        _verify_scaled(self, self.accumulator, self.factors)

    def interpret(self, frame: Frame) -> Array:
        _wait(_pending(frame), self.pending)
        with np.errstate(all="ignore"):
            return frame[self.accumulator] * frame[self.factors]


class Scale(Op, mnemonic="gpu.scale", effects=NONE):
    """A tile times factors; a warp whose factors are all 1 does not multiply: x * 1 is x.

    Tiles that are named besides lie in words of 32 bits before warps ask.

    %2 = gpu.scale %0, %1, [] : tile<64x16xf32>
    """

    source: Value
    factors: Value
    besides: tuple[Value, ...] = ()

    def infer(self) -> Type:
        return self.source.type

    def verify(self) -> None:
        _verify_scaled(self, self.source, self.factors)

    def interpret(self, frame: Frame) -> Array:
        factors = frame[self.factors]
        with np.errstate(all="ignore"):
            return np.where(factors == 1, frame[self.source], frame[self.source] * factors)


class FenceProducts(Op, mnemonic="gpu.fence_products", exact=True):
    """What this thread wrote to shared memory comes before what products read there.

    Products read shared memory by another way (the asynchronous proxy) than stores and copies
    write it; a barrier alone does not order the two. With `arrays` the same holds of what was
    stored to global memory and copies of boxes of arrays read. PTX ISA 9.0, fence.proxy.async.

        gpu.fence_products
    """

    arrays: bool = attribute(default=False)

    def own_effects(self) -> Effects:
        return (*_PROXY_FENCE, *(_ARRAYS_FENCE if self.arrays else ()))

    def interpret(self, frame: Frame) -> None:
        stored(frame).clear()


class StillRead(Op, mnemonic="gpu.still_read", exact=True):
    """What products of a loop read from registers in each round is alive up to here.

    Said where assemblers forget it: ptxas 12.8 and 13.0 write over registers that only products
    read where a round of their loop branches, 13.5 does not.

    gpu.still_read %0
    """

    tile: Value

    def own_effects(self) -> Effects:
        return _PROXY_FENCE

    def interpret(self, frame: Frame) -> None:
        return None


def _verify_scaled(op: Op, source: Value, factors: Value) -> None:
    shape, element = shape_of(source.type), element_of(source.type)
    if not shape or shape != shape_of(factors.type) or element != element_of(factors.type):
        raise ShapeError(f"{op.name} of {source.type} and {factors.type}", op.span)
    if element != F32:
        raise ShapeError(f"{op.name} of {source.type}: it takes f32", op.span)


def _unchanged(before: Array, now: Array) -> bool:
    return np.array_equal(before, now, equal_nan=before.dtype.kind == "f")


def _pending(frame: Frame) -> deque[Callable[[], None]]:
    return frame.memory.setdefault("products", deque())


def _wait(pending: deque[Callable[[], None]], most: int) -> None:
    while len(pending) > most:
        pending.popleft()()
