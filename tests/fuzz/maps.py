"""Random programs that map: bodies of numbers run once per element, each its own way.

A body sees its elements alone, as that of a device function does: the values around it are out of
sight while it is written, and its leaves are constants.
"""

from __future__ import annotations

from math import prod

from tests.fuzz.hints import HintWriter
from tests.passes.leaves import Scope
from workbench.ir import F16, F32, I1, I8, I32, I64, INDEX, Block, Scalar, Value, element_of, tile
from workbench.ops import Constant, Elementwise, Map, Yield

#: Elements of a tile that is mapped: the interpreter runs them one by one.
MOST = 128
ELEMENTS = (F32, F32, I32, I32, I64, I8, F16, I1)


class MapWriter(HintWriter):
    """Writes maps too."""

    def __init__(self, seed: int, steps: int) -> None:
        super().__init__(seed, steps)
        self.in_map = False

    def mapped(self) -> None:
        """Map some tiles to one or two."""
        shapes = [shape for shape in (self.any_shape(), (self.shape2[1],)) if shape]
        shape = self.pick(shapes)
        if self.in_map or self.depth > 1 or prod(shape) > MOST:
            return
        picked = [self.pick(ELEMENTS) for _ in range(self.number(1, 3))]
        inputs = tuple(self.settled(self.some(element, shape)) for element in picked)
        arguments = tuple(Value(element, f"e{n}") for n, element in enumerate(picked))
        outer, self.scopes, self.in_map = self.scopes, [Scope()], True
        with self.builder.block() as ops:
            for argument in arguments:
                self.know(argument)
            self.body(self.number(1, 4))
            there = [v for v in self.scopes[0].values if element_of(v.type) is not INDEX]
            count = min(len(there), self.number(1, 2))
            results = tuple(self.settled(value) for value in there[-count:])
            self.builder.insert(Yield(results))
        self.scopes, self.in_map = outer, False
        for result in self.builder.insert(Map(inputs, Block(arguments, tuple(ops)))).results:
            self.know(result)

    # -- inside ---------------------------------------------------------------------------
    def body(self, steps: int) -> None:
        if not self.in_map:
            super().body(steps)
            return
        kinds = [self.float_step, self.integer_step, self.mask_step, self.select_step]
        kinds += [self.cast_step]
        for _ in range(steps):
            deeper = [self.branch, self.loop, self.while_loop] if self.depth < 3 else []
            self.pick([*kinds, *deeper])()

    def any_shape(self) -> tuple[int, ...]:
        return () if self.in_map else super().any_shape()

    def leaf(self, element: Scalar, shape: tuple[int, ...]) -> Value:
        if not self.in_map:
            return super().leaf(element, shape)
        if element == I1:
            low, high = self.some(I32, shape), self.some(I32, shape)
            return self.add(Elementwise(self.pick(["lt", "le", "ge", "ne"]), (low, high)))
        number = self.number(-9, 9)
        if element.is_float:
            return self.add(Constant(number / 2, tile(shape, element)))
        if element.kind == "uint":
            number = abs(number)
        bounds = (number, number) if element is INDEX else None
        return self.add(Constant(number, tile(shape, element)), bounds)


__all__ = ["MapWriter"]
