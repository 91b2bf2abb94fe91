"""Writes random tile programs whose floats are exact.

The programs of tests/passes are well defined, but their floats round, and targets may add in any
order. Here every float is a multiple of a power of two and small enough for its type, so sums and
products are exact in whatever order: any difference is an error. Added to what those programs do:
products, scans, sorts, gathers, histograms, joins, atomics, masked stores, more types.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import ceil, log2, prod
from typing import Any

from tests.passes.leaves import ROOM
from tests.passes.programs import Writer
from workbench.ir import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    INDEX,
    U8,
    U16,
    U32,
    U64,
    Block,
    Op,
    Scalar,
    Value,
    element_of,
    shape_of,
    tile,
)
from workbench.ops import (
    AtomicUpdate,
    Bitcast,
    Broadcast,
    Cast,
    Concatenate,
    Constant,
    Dot,
    Elementwise,
    ExpandDims,
    Gather,
    Histogram,
    Iota,
    Join,
    Load,
    Reduce,
    Reshape,
    Scan,
    Select,
    Sort,
    Splat,
    Split,
    Store,
    Transpose,
    Yield,
)

#: Bits that the numbers of a type may have.
DIGITS = {F8E5M2: 3, F8E4M3: 4, F16: 11, BF16: 8, F32: 24, F64: 53}
#: What loops and branches hand on: at most this, in steps of 1/4.
CARRIED = (64, 2)
EXTENTS = (1, 2, 3, 5, 7, 8, 16, 16, 32, 33, 64)

Size = tuple[float, int]  # largest absolute value, binary digits after the point


class ExactWriter(Writer):
    """Writes one program from a seed; knows the size of every float."""

    def __init__(self, seed: int, steps: int) -> None:
        self.random = random.Random(seed)
        self.sizes: dict[Value, Size] = {}
        super().__init__(self.random, steps)
        self.shape2 = (self.pick(EXTENTS), self.pick(EXTENTS))

    # -- sizes ----------------------------------------------------------------------------
    def know(self, value: Value, bounds: tuple[int, int] | None = None) -> None:
        if element_of(value.type) in DIGITS:
            self.size_of(value)
        super().know(value, bounds)

    def size_of(self, value: Value) -> Size:
        """Return the size of a float; what has no op of its own was carried."""
        found = self.sizes.get(value)
        if found is None:
            found = self.sizes[value] = self._size(value.op, value)
        return found

    def _size(self, op: Op | None, value: Value) -> Size:
        match op:
            case Constant():
                return abs(float(op.value)), 3
            case Load():
                # `f` holds integers up to 8, `h` halves up to 4; `other` may be anything.
                return self.widest((8, 1), *([self.size_of(op.other)] if op.other else []))
            case (
                Splat() | Broadcast() | ExpandDims() | Reshape() | Transpose() | Split() | Gather()
            ):
                return self.size_of(op.source)
            case Join() | Concatenate():
                return self.widest(self.size_of(op.first), self.size_of(op.second))
            case Select():
                return self.widest(self.size_of(op.operands[1]), self.size_of(op.operands[2]))
            case Elementwise():
                return self.of_function(op.name.removeprefix("tile."), op.operands)
            case Cast():
                return self._size_of_cast(op)
            case _:
                return CARRIED

    def _size_of_cast(self, op: Cast) -> Size:
        """A number that rounds stays a multiple of what it was, and below a power of two."""
        source = element_of(op.source.type)
        if source not in DIGITS:
            return (256, 0) if source.bits <= 8 else (2.0**source.bits, 0)
        most, digits = self.size_of(op.source)
        if self.exact_in((most, digits), op.to):
            return most, digits
        return 2.0 ** ceil(log2(most)), digits

    @staticmethod
    def widest(*sizes: Size) -> Size:
        return max(most for most, _ in sizes), max(digits for _, digits in sizes)

    def of_function(self, name: str, inputs: Sequence[Value]) -> Size:
        sizes = [self.size_of(value) for value in inputs]
        (a, i), (b, j) = sizes[0], sizes[min(1, len(sizes) - 1)]
        if name in ("add", "sub"):
            return a + b, max(i, j)
        if name == "mul":
            return a * b, i + j
        if name == "fma":
            c, k = sizes[2]
            return a * b + c, max(i + j, k)
        if name in ("floor", "ceil"):
            return ceil(a), 0
        return self.widest(*sizes)

    @staticmethod
    def exact_in(size: Size, element: Any) -> bool:
        most, digits = size
        return most * 2**digits <= 1 << DIGITS[element] and most <= 2048 and digits <= 12

    def settled(self, value: Value, size: Size = CARRIED) -> Value:
        """Return a float brought into a size by limits and rounding."""
        element = element_of(value.type)
        if element not in DIGITS:
            return value
        most, digits = self.size_of(value)
        limit, steps = size
        shape, build = shape_of(value.type), self.builder
        if most > limit:
            for name, bound in (("max", -limit), ("min", limit)):
                edge = build.add(Constant(float(bound), tile(shape, element)))
                value = build.add(Elementwise(name, (value, edge)))
        if digits > steps:
            for name, factor in (("mul", 2.0**steps), ("floor", 0), ("mul", 2.0**-steps)):
                edge = build.add(Constant(factor, tile(shape, element)))
                inputs = (value,) if name == "floor" else (value, edge)
                value = build.add(Elementwise(name, inputs))
        self.sizes[value] = (min(most, limit), min(digits, steps))
        return value

    def carried(self, value: Value) -> Value:
        # A sum in a loop is not yet known: it came from two carried values.
        if element_of(value.type) in DIGITS:
            self.size_of(value)
        return self.settled(value)

    # -- steps ----------------------------------------------------------------------------
    def step(self) -> None:
        extra = [
            self.dot, self.scan, self.sort, self.gather, self.histogram, self.join,
            self.concatenate, self.atomic, self.bits, self.masked_store,
        ]  # fmt: skip
        if self.number(0, 3):
            super().step()
        else:
            self.pick(extra)()

    def leaf(self, element: Scalar, shape: tuple[int, ...]) -> Value:
        if DIGITS.get(element, 0) >= 8 and not self.number(0, 2):
            number = self.number(-9, 9) / 2
            return self.add(Constant(number, tile(shape, element)))
        if element.kind == "uint" and not self.number(0, 2):
            number = self.pick([0, 1, 7, 100, (1 << element.bits) - 1, 1 << (element.bits - 1)])
            return self.add(Constant(number, tile(shape, element)))
        if element.kind == "uint":
            return self.loaded(element, shape)
        return super().leaf(element, shape)

    def loaded(self, element: Scalar, shape: tuple[int, ...]) -> Value:
        if element in DIGITS and element not in (F32, F16):
            return self.add(Cast(self.settled(self.some(F32, shape)), element))
        if element in (F32, F16, I32):
            return super().loaded(element, shape)
        source = self.some(self.pick([I32, I1]), shape)
        return self.add(Cast(source, element))

    def float_step(self) -> None:
        shape, element = self.any_shape(), self.pick([F32, F32, F32, F16, BF16, F64])
        name = self.pick(
            [
                "add",
                "sub",
                "mul",
                "mul",
                "min",
                "max",
                "minimum",
                "maximum",
                "neg",
                "abs",
                "fma",
                "floor",
            ]
        )
        count = {"neg": 1, "abs": 1, "floor": 1, "fma": 3}.get(name, 2)
        inputs = [self.some(element, shape) for _ in range(count)]
        if not self.exact_in(self.of_function(name, inputs), element):
            small = (4, 1) if element is not F32 else (64, 3)
            inputs = [self.settled(value, small) for value in inputs]
        self.add(Elementwise(name, tuple(inputs)))

    def cast_step(self) -> None:
        shape = self.any_shape()
        source, target = self.pick(
            [(INDEX, I32), (INDEX, I64), (I32, INDEX), (I8, INDEX), (I32, I64), (I64, I32),
             (F32, F16), (F16, F32), (F32, BF16), (BF16, F32), (F32, F64), (F64, F32), (F32, I32),
             (F16, I32), (I8, F32), (I8, F16), (U8, F32), (I1, I32), (I1, F32), (I32, I1),
             (I32, I8), (I32, U8), (I32, I16), (I16, I64), (INDEX, I8), (INDEX, I1), (F32, I8),
             (F32, F8E4M3), (F8E4M3, F32), (F16, F8E5M2), (F8E5M2, F16), (F8E4M3, BF16),
             (BF16, F16), (F64, BF16), (F32, U8), (F16, I64), (I32, U16), (U16, I32), (U8, I16),
             (U32, I64), (U32, F32), (I64, U64), (U64, F64), (I64, F64)]
        )  # fmt: skip
        value = self.some(source, shape)
        bounds = None
        if target == INDEX:
            bounds = (-(1 << source.bits - 1), (1 << source.bits - 1) - 1)
        self.add(Cast(value, target), bounds)

    def _folded(
        self, op: type[Reduce] | type[Scan], value: Value, axis: int, name: str, **options: Any
    ) -> Value:
        element = element_of(value.type)
        a, b = Value(element, "a"), Value(element, "b")
        with self.builder.block() as ops:
            self.builder.insert(Yield((self.builder.add(Elementwise(name, (a, b))),)))
        block = Block((a, b), tuple(ops))
        done = self.builder.insert(op((value,), axis=axis, combine=block, **options)).results[0]
        if element in DIGITS:
            most, digits = self.size_of(value)
            grown = shape_of(value.type)[axis] if name == "add" else 1
            self.sizes[done] = (most * grown, digits)
        self.know(done)
        return done

    def reduce_step(self) -> None:
        shape = self.pick([self.shape2, (self.shape2[1],)])
        element = self.pick([F32, I32, F16, I64, I8, F64])
        axis = self.number(0, len(shape) - 1)
        if self.number(0, 3) == 0:
            self.largest_with_place(self.pick([F32, I32]), shape, axis)
            return
        names = ["add", "max", "min"] + ([] if element in DIGITS else ["xor", "and", "or"])
        value = self.settled(self.some(element, shape), (8, 1))
        self._folded(Reduce, value, axis, self.pick(names))

    def largest_with_place(self, element: Scalar, shape: tuple[int, ...], axis: int) -> None:
        values = self.settled(self.some(element, shape))
        self.know(values)
        super().largest_with_place(element, shape, axis)

    def scan(self) -> None:
        shape = self.pick([self.shape2, (self.shape2[1],)])
        element = self.pick([F32, I32, I64])
        value = self.settled(self.some(element, shape), (8, 1))
        axis, reverse = self.number(0, len(shape) - 1), bool(self.number(0, 1))
        self._folded(Scan, value, axis, self.pick(["add", "max", "min"]), reverse=reverse)

    def dot(self) -> None:
        rows, columns = self.shape2
        inner = self.pick([1, 3, 16, 16, 32, 64])
        element, total = self.pick([(F16, F32), (BF16, F32), (F32, F32), (I8, I32), (F16, F32)])
        a = self.settled(self.some(element, (rows, inner)), (4, 1))
        b = self.settled(self.some(element, (inner, columns)), (4, 1))
        c = self.settled(self.some(total, (rows, columns)))
        precision = self.pick(["ieee", "tf32"])
        done = self.builder.add(Dot(a, b, c, precision=precision))
        self.sizes[done] = (64 + 16 * inner, 2)
        self.know(done)

    def sort(self) -> None:
        shape = self.pick([self.shape2, (self.shape2[1],)])
        value = self.some(self.pick([I32, I64, I8]), shape)
        keep = self.pick([0, *(1 << k for k in range(7) if 1 << k <= shape[-1])])
        sorted_rows = Sort(value, descending=bool(self.number(0, 1)), keep=keep)
        self.add(sorted_rows)

    def gather(self) -> None:
        rows, columns = self.shape2
        element = self.pick([F32, I32, I8])
        source = self.some(element, (rows, columns))
        axis = self.number(0, 1)
        self.add(Gather(source, self.some(I32, (rows, columns)), axis=axis))

    def histogram(self) -> None:
        shape = (self.shape2[1],)
        mask = self.some(I1, shape) if self.number(0, 1) else None
        options = {"mask": mask} if mask is not None else {}
        self.add(
            Histogram(self.some(self.pick([I32, I8]), shape), bins=self.pick([4, 8, 32]), **options)
        )

    def join(self) -> None:
        shape, element = self.pick([self.shape2, (self.shape2[1],)]), self.pick([F32, I32, I8, F16])
        joined = self.add(Join(self.some(element, shape), self.some(element, shape)))
        for half in self.builder.insert(Split(joined)).results:
            self.know(half)

    def concatenate(self) -> None:
        element = self.pick([F32, I32])
        shape = (self.shape2[1],)
        self.add(Concatenate(self.some(element, shape), self.some(element, shape)))

    def bits(self) -> None:
        shape = self.any_shape()
        source, target = self.pick([(I32, U32), (I8, U8), (U32, I32)])
        value = self.some(source, shape)
        self.add(Bitcast(value, target))

    def _own_place(self, shape: tuple[int, ...]) -> Value | None:
        """Return places of the output that only this op of this program touches."""
        count = prod(shape)
        if self.stored + count > ROOM:
            return None
        build = self.builder
        start = build.add(Constant(self.stored, INDEX))
        place = build.add(Elementwise("add", (start, self.region)))
        self.stored += count
        if not shape:
            return place
        line = build.add(Iota(0, tile((count,), INDEX)))
        tiled = build.add(Reshape(line, shape)) if len(shape) > 1 else line
        return build.add(Elementwise("add", (build.add(Splat(place, shape)), tiled)))

    def atomic(self) -> None:
        """Count something at places of our own, twice, and look at what was there."""
        shape = self.any_shape()
        if self.depth or (place := self._own_place(shape)) is None:
            return
        pointers = self.pointers("integers", place)
        for _ in range(2):
            value = self.some(I64, shape)
            mask = self.some(I1, shape)
            name = self.pick(["add", "max", "min", "and", "or", "xor", "exchange"])
            self.add(AtomicUpdate(pointers, value, mask, function=name, scope="gpu"))

    def masked_store(self) -> None:
        shape = self.any_shape()
        mask, element = self.some(I1, shape), self.pick([F32, I64])
        value = self.some(element, shape)
        if self.depth or (place := self._own_place(shape)) is None:
            return
        name = "floats" if element is F32 else "integers"
        self.builder.insert(Store(self.pointers(name, place), value, mask))


__all__ = ["CARRIED", "DIGITS", "ExactWriter", "Size"]
