"""Writes integers of all widths near the ends of their types, where arithmetic wraps."""

from __future__ import annotations

from math import prod

from tests.fuzz.wide import INTEGERS, WideWriter
from tests.passes.leaves import SIZE
from workbench.ir import I1, I32, I64, INDEX, Pointer, Scalar, Value, shape_of, tile
from workbench.ops import (
    AddPointer,
    Bitcast,
    Cast,
    Constant,
    Elementwise,
    Iota,
    Load,
    Reduce,
    Reshape,
    Scan,
    Select,
    Splat,
    Store,
)

#: Numbers where narrow arithmetic goes wrong, from both ends of a type.
EDGES = (0, 1, 2, 3, 7)
_BINARY = ("add", "sub", "mul", "min", "max", "and", "or", "xor")


def edge_numbers(element: Scalar) -> list[int]:
    """Return numbers at the ends and in the middle of a type."""
    low = -(1 << element.bits - 1) if element.kind == "int" else 0
    high = low + (1 << element.bits) - 1
    middle = 0 if low else 1 << element.bits - 1
    found = {edge for k in EDGES for edge in (low + k, high - k, middle + k, middle - k)}
    return sorted(number for number in found if low <= number <= high)


class IntegerWriter(WideWriter):
    """A WideWriter with integers that come as bits of every width and wrap."""

    def integer(self) -> None:
        """One more op on integers of any width."""
        self.pick(
            [self.wrapped, self.wrapped, self.turned, self.turned, self.shifted, self.divided,
             self.widened, self.narrow_fold, self.edge_test, self.narrow_store]
        )()  # fmt: skip

    # -- values ---------------------------------------------------------------------------
    def ends(self, element: Scalar, shape: tuple[int, ...]) -> Value:
        """Return integers of a type that lie at its ends, or any bits at all."""
        kind = self.number(0, 3)
        if kind == 0:
            number = self.pick(edge_numbers(element))
            return self.add(Constant(number, tile(shape, element)))
        if kind == 1 and shape:
            # An edge and the numbers beside it, wrapped.
            start = self.builder.add(
                Constant(self.pick(edge_numbers(element)), tile(shape, element))
            )
            line = self.builder.add(Cast(self.line(shape), element))
            return self.add(Elementwise(self.pick(["add", "sub"]), (start, line)))
        if kind == 2:
            return self.read_bits(element, shape)
        return self.some(element, shape)

    def line(self, shape: tuple[int, ...]) -> Value:
        """Return the number of each element, row by row."""
        if not shape:
            return self.builder.add(Constant(0, INDEX))
        line = self.builder.add(Iota(0, tile((prod(shape),), INDEX)))
        return self.builder.add(Reshape(line, shape)) if len(shape) > 1 else line

    def read_bits(self, element: Scalar, shape: tuple[int, ...]) -> Value:
        """Read `g`, which holds random bits, as numbers of another width."""
        build, count = self.builder, SIZE * 32 // element.bits
        base = build.add(Bitcast(self.parameters["g"], Pointer(element)))
        place = self.line(shape)
        start = build.add(Constant(self.number(0, count - 1), place.type))
        place = build.add(Elementwise("add", (place, start)))
        end = build.add(Constant(count, place.type))
        place = build.add(Elementwise("rem", (place, end)))
        pointer = build.add(Splat(base, shape)) if shape else base
        options = {"mask": self.some(I1, shape)} if self.number(0, 2) == 0 else {}
        return self.add(Load(build.add(AddPointer(pointer, place)), **options))

    # -- ops ------------------------------------------------------------------------------
    def wrapped(self) -> None:
        shape, element = self.any_shape(), self.pick(INTEGERS)
        a, b = self.ends(element, shape), self.ends(element, shape)
        self.add(Elementwise(self.pick(_BINARY), (a, b)))

    def turned(self) -> None:
        """Change a sign in the ways that there are, and say what it is in a wider type."""
        shape, element = self.any_shape(), self.pick(INTEGERS)
        value = self.ends(element, shape)
        zero = self.builder.add(Constant(0, value.type))
        kinds = ["0 - x", "0 - x"]
        if element.kind == "int":
            kinds += ["neg", "abs", "x * -1", "max(x, -x)"]
        kind = self.pick(kinds)
        if kind in ("neg", "abs"):
            done = self.add(Elementwise(kind, (value,)))
        elif kind == "x * -1":
            minus = self.builder.add(Constant(-1, value.type))
            done = self.add(Elementwise("mul", (value, minus)))
        else:
            done = self.add(Elementwise("sub", (zero, value)))
            if kind == "max(x, -x)":
                done = self.add(Elementwise("max", (value, done)))
        self.known_wide(done)

    def known_wide(self, value: Value) -> None:
        """Widen, compare, or shift right: all of them read the bits above a narrow number."""
        shape = shape_of(value.type)
        which = self.number(0, 3)
        if which == 0:
            zero = self.builder.add(Constant(0, value.type))
            self.add(Elementwise(self.pick(["lt", "le", "gt", "ge"]), (value, zero)))
        elif which == 1:
            by = self.builder.add(Constant(self.number(1, 7), value.type))
            self.add(Elementwise(self.pick(["shr", "div", "rem"]), (value, by)))
        else:
            wide = self.add(Cast(value, self.pick([I32, I64])))
            one = self.builder.add(
                Constant(1, tile(shape, wide.type.element if shape else wide.type))
            )  # type: ignore[union-attr]
            self.add(Elementwise("add", (wide, one)))

    def shifted(self) -> None:
        """Shift by less than the width, and by the width or more."""
        shape, element = self.any_shape(), self.pick(INTEGERS)
        value = self.ends(element, shape)
        by = self.builder.add(
            Constant(
                self.pick([0, 1, element.bits - 1, element.bits, element.bits + 5]), value.type
            )
        )
        if self.number(0, 1):
            most = self.builder.add(Constant(2 * element.bits - 1, value.type))
            by = self.builder.add(Elementwise("and", (self.ends(element, shape), most)))
        done = self.add(Elementwise(self.pick(["shl", "shr"]), (value, by)))
        self.known_wide(done)

    def divided(self) -> None:
        """Divide by what is neither 0 nor, where the quotient would not fit, -1."""
        shape, element = self.any_shape(), self.pick(INTEGERS)
        a, b = self.ends(element, shape), self.ends(element, shape)
        one, zero = (self.builder.add(Constant(k, tile(shape, element))) for k in (1, 0))
        bad = self.builder.add(Elementwise("eq", (b, zero)))
        if element.kind == "int":
            minus = self.builder.add(Constant(-1, tile(shape, element)))
            less = self.builder.add(Elementwise("eq", (b, minus)))
            bad = self.builder.add(Elementwise("or", (bad, less)))
        b = self.builder.add(Select(bad, one, b))
        for name in self.pick([("div",), ("rem",), ("div", "rem")]):
            self.add(Elementwise(name, (a, b)))

    def widened(self) -> None:
        """Go from one width to another and perhaps back."""
        shape = self.any_shape()
        value = self.ends(self.pick(INTEGERS), shape)
        for _ in range(self.number(1, 3)):
            value = self.add(Cast(value, self.pick(INTEGERS)))

    def narrow_fold(self) -> None:
        """Sum, multiply or compare along an axis in the type itself."""
        shape, element = self.pick([self.shape2, (self.shape2[1],)]), self.pick(INTEGERS)
        value, axis = self.ends(element, shape), self.number(0, len(shape) - 1)
        name = self.pick(["add", "mul", "min", "max", "and", "or", "xor"])
        self._folded(self.pick([Reduce, Scan]), value, axis, name)

    def edge_test(self) -> None:
        shape, element = self.any_shape(), self.pick(INTEGERS)
        a, b = self.ends(element, shape), self.ends(element, shape)
        name = self.pick(["lt", "le", "gt", "ge", "eq", "ne"])
        test = self.add(Elementwise(name, (a, b)))
        self.add(Select(test, a, self.ends(element, shape)))

    def narrow_store(self) -> None:
        """Store numbers of a narrow type side by side, some of them masked off."""
        shape, element = self.any_shape(), self.pick(INTEGERS)
        per = 64 // element.bits
        value, mask = self.ends(element, shape), self.some(I1, shape)
        if self.depth or (place := self._own_place((-(-prod(shape) // per),))) is None:
            return
        build = self.builder
        start = build.add(Constant(self.stored - shape_of(place.type)[0], INDEX))
        start = build.add(Elementwise("add", (start, self.region)))
        base = build.add(AddPointer(self.parameters["integers"], start))
        base = build.add(Bitcast(base, Pointer(element)))
        pointer = build.add(Splat(base, shape)) if shape else base
        pointer = build.add(AddPointer(pointer, self.line(shape)))
        build.insert(Store(pointer, value, mask if self.number(0, 1) else None))


__all__ = ["IntegerWriter", "edge_numbers"]
