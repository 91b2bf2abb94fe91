"""Random index expressions over tiles: what addresses and masks are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from workbench.ir import (
    F32,
    I32,
    INDEX,
    Block,
    Builder,
    KernelParameter,
    Module,
    Op,
    Pointer,
    Value,
    tile,
)
from workbench.ops import (
    AddPointer,
    Broadcast,
    Cast,
    Constant,
    Elementwise,
    ExpandDims,
    For,
    Iota,
    Load,
    ProgramId,
    Promise,
    Return,
    Splat,
    Transpose,
    Yield,
)

SHAPES = ((8,), (16,), (12,), (5,), (4, 8), (8, 16), (6, 4))
#: Kernel arguments: name -> (what divides it, values at launch).
ARGUMENTS = {"a": (16, (0, 16, 48)), "b": (1, (0, 1, 5, 24)), "s": (8, (8, 64))}


class Expressions:
    """Writes index arithmetic of one shape; dividends may be negative."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw
        self.builder = Builder()
        self.shape: tuple[int, ...] = self.pick(SHAPES)
        self.names = {
            "p": Value(Pointer(F32), "p"),
            "g": Value(Pointer(I32), "g"),
            **{name: Value(INDEX, name) for name in ARGUMENTS},
        }

    def pick(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def add(self, op: Op) -> Value:
        return self.builder.add(op)

    def constant(self, value: int) -> Value:
        return self.add(Constant(value, tile(self.shape, INDEX)))

    def spread(self, line: Value, axis: int) -> Value:
        """Return a line of the tile along an axis, repeated along the other."""
        if len(self.shape) == 1:
            return line
        turned = self.pick([False, False, True])
        column = self.add(ExpandDims(line, axis if turned else 1 - axis))
        if turned:
            column = self.add(Transpose(column, (1, 0)))
        return self.add(Broadcast(column, self.shape))

    def scalar(self) -> Value:
        return self.pick([*(self.names[name] for name in ARGUMENTS), self.program])

    def leaf(self) -> Value:
        kind = self.pick("xxxxscpr")
        if kind == "x":
            axis = self.pick(range(len(self.shape)))
            start = self.pick([0, 0, 0, 4, 16])
            line = self.add(Iota(start, tile((self.shape[axis],), INDEX)))
            return self.spread(line, axis)
        if kind == "s":
            return self.add(Splat(self.scalar(), self.shape))
        if kind == "p":
            return self.promised()
        if kind == "r" and self.round is not None:
            return self.add(Splat(self.round, self.shape))
        return self.constant(self.pick([0, 1, 2, 3, 4, 8, 16, 64]))

    def promised(self) -> Value:
        """Return a loaded tile with runs of four that are told by a promise."""
        axis = self.pick(range(len(self.shape)))
        extent = self.shape[axis]
        line = self.add(Iota(0, tile((extent,), INDEX)))
        four = self.add(Constant(4, tile((extent,), INDEX)))
        place = self.add(Elementwise("div", (line, four)))
        pointers = self.add(AddPointer(self.add(Splat(self.names["g"], (extent,))), place))
        loaded = self.add(Cast(self.add(Load(pointers)), INDEX))
        sixteen = self.add(Constant(16, tile((extent,), INDEX)))
        rows = self.add(Elementwise("mul", (loaded, sixteen)))
        if extent % 4:
            return self.spread(rows, axis)
        if self.pick([True, False]):
            line = self.add(Promise(rows, divisible=(16,), constant=(4,)))
        else:
            inside = self.add(Elementwise("rem", (line, four)))
            together = self.add(Elementwise("add", (rows, inside)))
            line = self.add(Promise(together, divisible=(16,), contiguous=(4,)))
        return self.spread(line, axis)

    def expression(self, depth: int) -> Value:
        if depth == 0:
            return self.leaf()
        name = self.pick(["add", "add", "add", "mul", "sub", "div", "rem", "min", "max", "shl"])
        if name in ("div", "rem"):
            divisor = self.constant(self.pick([1, 2, 3, 4, 8, 16, 32]))
            if self.pick([True, False, False]):
                divisor = self.add(Splat(self.names["s"], self.shape))
            a = self.expression(depth - 1)
            if self.pick([True, False]):
                a = self.add(Elementwise("sub", (a, self.constant(self.pick([8, 16, 32])))))
            if self.pick([True, False]):  # else it may be negative
                a = self.add(Elementwise("max", (a, self.constant(0))))
            return self.add(Elementwise(name, (a, divisor)))
        if name == "mul":
            factor = self.pick([self.constant(self.pick([1, 2, 4, 8, -1])), None])
            factor = factor or self.add(Splat(self.scalar(), self.shape))
            return self.add(Elementwise("mul", (self.expression(depth - 1), factor)))
        if name == "shl":
            amount = self.constant(self.pick([0, 1, 3]))
            return self.add(Elementwise("shl", (self.expression(depth - 1), amount)))
        pair = (self.expression(depth - 1), self.expression(self.pick(range(depth))))
        return self.add(Elementwise(name, pair))

    def uses(self) -> None:
        """Make pointers and masks of expressions."""
        depth = self.pick([1, 2, 3])
        base = self.add(Splat(self.names["p"], self.shape))
        self.add(AddPointer(base, self.expression(depth)))
        mask: Value | None = None
        for _ in range(self.pick([1, 2])):
            pair = (self.expression(depth - 1), self.expression(self.pick([0, 1])))
            name = self.pick(["lt", "lt", "le", "gt", "ge", "eq", "ne"])
            compared = self.add(Elementwise(name, pair))
            joined = self.pick(["and", "or"])
            mask = compared if mask is None else self.add(Elementwise(joined, (mask, compared)))

    def module(self) -> Module:
        with self.builder.block() as ops:
            self.program = self.add(ProgramId(0))
            self.round: Value | None = None
            self.uses()
            self.loop()
            self.builder.insert(Return())
        parameters = tuple(
            KernelParameter(name, value, divisible=ARGUMENTS.get(name, (16,))[0])
            for name, value in self.names.items()
        )
        return Module("expressions", parameters, Block((), tuple(ops)), {}, self.builder.next_id)

    def loop(self) -> None:
        """Use expressions in a loop whose counter and carried number they may name."""
        lower, step = (
            self.add(Constant(v, INDEX)) for v in (self.pick([0, 8]), self.pick([1, 16]))
        )
        upper = self.add(Constant(self.pick([0, 5, 17]), INDEX))
        counter, moving = Value(INDEX, "k"), Value(INDEX, "moving")
        start = self.scalar()
        with self.builder.block() as ops:
            self.round = self.pick([counter, moving])
            self.uses()
            by = self.pick(
                [self.names["s"], self.names["b"], self.add(Constant(16, INDEX)), counter]
            )
            moved = self.add(Elementwise("add", (moving, by)))
            self.builder.insert(Yield((moved,)))
        self.round = None
        block = Block((counter, moving), tuple(ops))
        self.builder.insert(For(lower, upper, step, (start,), block))


@st.composite
def expression_modules(draw: Any) -> Module:
    """Kernels that compute pointers and masks of tiles, in and outside of a loop."""
    return Expressions(draw).module()


@st.composite
def expression_arguments(draw: Any) -> list[Any]:
    """Fresh arguments for such a kernel."""
    numbers = [draw(st.sampled_from(values)) for _, values in ARGUMENTS.values()]
    return [np.zeros(64, np.float32), np.arange(64, dtype=np.int32)[::-1].copy(), *numbers]
