"""Random tile programs whose results are the same bits on every target.

Added to what `exact.py` writes: three axes in any order, integers of every width with divisions of
negative numbers, 8-bit floats, batched products, products in a loop over tiles that are loaded
(which is what `num_stages` is about), scans whose combination does not commute, recurrences,
bitonic merges, gathers of other extents, atomics that many elements share, and loops that carry
several values and end early.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tests.fuzz.exact import CARRIED, DIGITS
from tests.fuzz.products import ProductWriter
from tests.passes.leaves import ROOM, Scope
from workbench.ir import (
    BF16,
    F8E4M3,
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
    Scalar,
    Value,
    element_of,
    shape_of,
    tile,
)
from workbench.ops import (
    AtomicCompareExchange,
    AtomicUpdate,
    Broadcast,
    Cast,
    Constant,
    Elementwise,
    For,
    Gather,
    Histogram,
    If,
    Iota,
    Merge,
    Reduce,
    Reshape,
    Scan,
    Select,
    Sort,
    Transpose,
    Yield,
)

INTEGERS = (I8, I16, I32, I64, U8, U16, U32, U64)
#: Elements at the end of each program's region that `store` leaves alone; in the first program's,
#: all programs update the last ones.
RESERVED, SHARED = 512, 64
#: What all programs may do to one element in any order.
COMMUTING = ("add", "max", "min", "xor", "or", "and")
EXTENTS3 = (1, 2, 2, 3, 4, 4, 5, 8, 8, 16)


class WideWriter(ProductWriter):
    """Writes one program from a seed, with whatever the language has."""

    def __init__(self, seed: int, steps: int) -> None:
        super().__init__(seed, steps)
        self.shape3 = tuple(self.pick(EXTENTS3) for _ in range(3))
        self.stored = 0

    def any_shape(self) -> tuple[int, ...]:
        if self.number(0, 7):
            return super().any_shape()
        return self.pick([self.shape3, self.shape3, (*self.shape3[:2], 1), (1, *self.shape3[1:])])

    def step(self) -> None:
        extra: list[Callable[[], Any]] = [
            self.turn, self.wide_integers, self.wide_integers, self.quotient, self.bit_function,
            self.fold_three, self.recurrence, self.batched_dot, self.small_dot, self.dot_loop,
            self.merge, self.other_gather, self.shared_atomic, self.compare_exchange,
            self.wide_mask, self.regroup, self.rounded, self.counted,
        ]  # fmt: skip
        if self.depth < 3:
            extra += [self.early_end, self.early_end]
        if self.number(0, 2):
            super().step()
        else:
            self.pick(extra)()

    def index_leaf(self, shape: tuple[int, ...]) -> Value:
        if len(shape) < 2 or self.number(0, 1):
            return super().index_leaf(shape)
        start, count = self.number(-4, 40), prod(shape)
        line = self.builder.add(Iota(start, tile((count,), INDEX)))
        return self.add(Reshape(line, shape), (start, start + count - 1))

    def stretched(self, element: Scalar, shape: tuple[int, ...]) -> Value:
        if len(shape) < 3 or not self.number(0, 3):
            return super().stretched(element, shape)
        axis = self.number(0, len(shape) - 1)
        thin = tuple(1 if a == axis else extent for a, extent in enumerate(shape))
        source = self.some(element, tuple(n for a, n in enumerate(shape) if a != axis))
        narrow = self.add(Reshape(source, thin), self._same(source))
        return self.add(Broadcast(narrow, shape), self._same(source))

    # -- shapes ---------------------------------------------------------------------------
    def turn(self) -> None:
        """Three axes in another order, and back to two."""
        element = self.pick([F32, I32, F16, I8, F8E4M3, INDEX, I1])
        order = tuple(self.random.sample(range(3), 3))
        value = self.some(element, self.shape3)
        turned = self.add(Transpose(value, order), self._same(value))
        a, b, c = shape_of(turned.type)
        flat = self.add(Reshape(turned, self.pick([(a * b, c), (a, b * c)])), self._same(value))
        self.add(Transpose(flat, (1, 0)), self._same(value))

    def regroup(self) -> None:
        """The same elements in rows of another length."""
        shape = self.pick([self.shape2, self.shape3])
        count = prod(shape)
        rows = self.pick([n for n in range(1, min(count, 64) + 1) if count % n == 0])
        value = self.some(self.pick([F32, I32, BF16, I64]), shape)
        other = self.add(Reshape(value, (rows, count // rows)))
        self._folded(Reduce, self.settled(other, (8, 1)), self.number(0, 1), self.pick(["max"]))

    # -- integers -------------------------------------------------------------------------
    def wide_integers(self) -> None:
        shape, element = self.any_shape(), self.pick(INTEGERS)
        name = self.pick(["add", "sub", "mul", "and", "or", "xor", "min", "max", "shl", "shr"])
        a = self.some(element, shape)
        if name in ("shl", "shr"):
            by = self.number(0, element.bits - 1)
            b = self.builder.add(Constant(by, tile(shape, element)))
            if self.number(0, 1):
                low = self.builder.add(Constant(element.bits - 1, tile(shape, element)))
                b = self.builder.add(Elementwise("and", (self.some(element, shape), low)))
        else:
            b = self.some(element, shape)
        self.add(Elementwise(name, (a, b)))

    def quotient(self) -> None:
        """Divide by what is not 0; the smallest number is never divided by -1."""
        shape, element = self.any_shape(), self.pick(INTEGERS)
        a, b = self.some(element, shape), self.some(element, shape)
        one = self.builder.add(Constant(1, tile(shape, element)))
        if self.number(0, 1):
            number = self.pick([2, 3, 5, 7, 8, 10, 16, 100])
            sign = -1 if element.kind == "int" and self.number(0, 1) else 1
            b = self.builder.add(Constant(sign * number, tile(shape, element)))
        else:
            b = self.builder.add(Elementwise("max", (b, one)))
        for name in self.pick([("div",), ("rem",), ("div", "rem")]):
            self.add(Elementwise(name, (a, b)))

    def bit_function(self) -> None:
        element = self.pick([I32, U32, I64, U64])
        name = self.pick(["popcount", "leading_zeros", "reverse_bits", "mulhi", "abs", "neg"])
        if name in ("abs", "neg") and element.kind == "uint":
            return
        if name == "mulhi" or name == "reverse_bits":
            element = self.pick([I32, U32])
        shape = self.any_shape()
        count = 2 if name == "mulhi" else 1
        self.add(Elementwise(name, tuple(self.some(element, shape) for _ in range(count))))

    def wide_mask(self) -> None:
        shape, element = self.any_shape(), self.pick([*INTEGERS, F16, BF16, F64])
        name = self.pick(["lt", "le", "gt", "ge", "eq", "ne"])
        test = self.add(Elementwise(name, (self.some(element, shape), self.some(element, shape))))
        a, b = self.some(element, shape), self.some(element, shape)
        self.add(Select(test, a, b))

    # -- floats ---------------------------------------------------------------------------
    def rounded(self) -> None:
        """Whole numbers near a float, and a float with another's sign."""
        shape, element = self.any_shape(), self.pick([F32, F32, F16, BF16, F64])
        value = self.settled(self.some(element, shape))
        name = self.pick(["floor", "ceil", "trunc", "rint", "round", "copysign"])
        inputs = [value]
        if name == "copysign":
            inputs.append(self.settled(self.some(element, shape)))
        done = self.builder.add(Elementwise(name, tuple(inputs)))
        self.sizes[done] = (CARRIED[0] + 1, CARRIED[1])
        self.know(done)
        if self.number(0, 1):
            self.add(Cast(done, self.pick([I8, U8, I16, I32, U32, I64])))

    # -- along an axis --------------------------------------------------------------------
    def fold_three(self) -> None:
        axis = self.number(0, 2)
        element = self.pick([F32, I32, F16, U8, I64, U32])
        value = self.settled(self.some(element, self.shape3), (8, 1))
        exact = element in DIGITS
        kind = self.pick([Reduce, Scan])
        names = ["add", "max", "min"] + ([] if exact else ["xor", "or", "and", "mul"])
        options = {"reverse": bool(self.number(0, 1))} if kind is Scan else {}
        if kind is Scan and exact:
            names = ["add", "max", "min"]
        self._folded(kind, value, axis, self.pick(names), **options)

    def recurrence(self) -> None:
        """x[i] = a[i] * x[i - 1] + b[i], which combines in order only."""
        shape = self.pick([self.shape2, (self.shape2[1],), self.shape3])
        element = self.pick([I32, I64, U32])
        inputs = (self.some(element, shape), self.some(element, shape))
        a, b, c, d = (Value(element, name) for name in "abcd")
        with self.builder.block() as ops:
            factor = self.builder.add(Elementwise("mul", (a, c)))
            grown = self.builder.add(Elementwise("mul", (c, b)))
            self.builder.insert(Yield((factor, self.builder.add(Elementwise("add", (grown, d))))))
        axis, reverse = self.number(0, len(shape) - 1), bool(self.number(0, 1))
        block = Block((a, b, c, d), tuple(ops))
        scan = Scan(inputs, axis=axis, reverse=reverse, combine=block)
        for value in self.builder.insert(scan).results:
            self.know(value)

    def merge(self) -> None:
        """Order rows, join one to a reversed one's order, and merge."""
        shape = self.pick([self.shape2, (self.shape2[1],), self.shape3])
        value = self.some(self.pick([I32, U32, I16, U8, I64]), shape)
        if shape[-1] & (shape[-1] - 1):
            self.add(Sort(value, descending=bool(self.number(0, 1)), keep=0))
        else:
            self.add(Merge(value, descending=bool(self.number(0, 1))))

    def other_gather(self) -> None:
        """Pick along an axis more or fewer elements than there are."""
        axis, shape = self.number(0, 1), list(self.shape2)
        shape[axis] = self.pick([1, 4, 7, 32])
        source = self.some(self.pick([F32, I32, I8, F16, I64]), self.shape2)
        index = self.some(self.pick([I32, I64]), tuple(shape))
        if self.number(0, 1):
            low = self.builder.add(Constant(3, index.type))
            index = self.builder.add(Elementwise("and", (index, low)))
        self.add(Gather(source, index, axis=axis))

    def counted(self) -> None:
        shape = self.pick([(self.shape2[1],), (prod(self.shape2),)])
        value = self.some(self.pick([I32, U8, I64, U32]), shape)
        low = self.builder.add(Constant(15, value.type))
        inside = self.builder.add(Elementwise("and", (value, low)))
        mask = {"mask": self.some(I1, shape)} if self.number(0, 1) else {}
        self.add(Histogram(inside, bins=self.pick([2, 16, 64]), **mask))

    # -- atomics --------------------------------------------------------------------------
    def shared_atomic(self) -> None:
        """Update elements that other lanes and programs update in the same way."""
        if self.depth:
            return
        shape, which = self.any_shape(), self.number(0, len(COMMUTING) - 1)
        room = SHARED // 8
        build = self.builder
        lane = self.some(I32, shape)
        low = build.add(Constant(room - 1, lane.type))
        place = build.add(Cast(build.add(Elementwise("and", (lane, low))), INDEX))
        start = build.add(Constant(ROOM - SHARED + which * room, place.type))
        place = build.add(Elementwise("add", (place, start)))
        value, mask = self.some(I64, shape), self.some(I1, shape)
        pointers = self.pointers("integers", place)
        build.insert(AtomicUpdate(pointers, value, mask, function=COMMUTING[which], scope="gpu"))

    def compare_exchange(self) -> None:
        """Exchange what is 0, then what may be something else."""
        shape = self.pick([(), (), (self.shape2[1],)])
        if self.depth or (place := self._own_place(shape)) is None:
            return
        pointers = self.pointers("integers", place)
        for _ in range(2):
            zero = self.builder.add(Constant(0, tile(shape, I64)))
            expected = zero if self.number(0, 1) else self.some(I64, shape)
            self.add(AtomicCompareExchange(pointers, expected, self.some(I64, shape)))

    def _own_place(self, shape: tuple[int, ...]) -> Value | None:
        if self.stored + prod(shape) > ROOM - RESERVED:
            return None
        return super()._own_place(shape)

    def store(self, value: Value) -> None:
        if self.stored + prod(shape_of(value.type)) <= ROOM - RESERVED:
            super().store(value)

    # -- control flow ---------------------------------------------------------------------
    def early_end(self) -> None:
        """A loop of several values that does nothing more once a test has held."""
        lower, upper, step, most = self.trips()
        shape, build = self.any_shape(), self.builder
        kinds = [self.pick([F32, I32, I8, F16, I64, BF16]) for _ in range(self.number(1, 2))]
        inits = [self.carried(self.some(element, shape)) for element in kinds]
        going = build.add(Constant(1, I1))
        counter, open_ = Value(INDEX, "k"), Value(I1, "open")
        carried = [Value(init.type, f"c{n}") for n, init in enumerate(inits)]
        self.scopes.append(Scope())
        self.depth += 1
        with build.block() as ops:
            branches = []
            for taken in (True, False):
                with build.block() as inner:
                    if taken:
                        self.know(counter, (-1, most))
                        for value in carried:
                            self.know(value)
                        branches.append((self._round(carried), inner))
                    else:
                        build.insert(Yield((open_, *carried)))
                        branches.append((None, inner))
            then, otherwise = (Block((), tuple(inner)) for _, inner in branches)
            chosen = build.insert(If(open_, then, otherwise)).results
            build.insert(Yield(tuple(chosen)))
        self.depth -= 1
        self.scopes.pop()
        block = Block((counter, open_, *carried), tuple(ops))
        done = build.insert(For(lower, upper, step, (going, *inits), block))
        for value in done.results:
            self.know(value)

    def _round(self, carried: list[Value]) -> None:
        """Write one round of a loop that goes on; it says whether there is another one."""
        self.body(self.number(1, 2))
        after = []
        for value in carried:
            element, shape = element_of(value.type), shape_of(value.type)
            name = self.pick(["add", "max", "min"])
            new = self.builder.add(Elementwise(name, (value, self.some(element, shape))))
            after.append(self.carried(new))
        self.builder.insert(Yield((self.some(I1, ()), *after)))


__all__ = ["INTEGERS", "WideWriter"]
