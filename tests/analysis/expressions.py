"""Random index expressions over tiles: what addresses and masks are made of."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from hypothesis import strategies as st

from workbench.ir import (
    F32,
    I32,
    I64,
    INDEX,
    Block,
    Builder,
    KernelParameter,
    Module,
    Op,
    Pointer,
    Value,
    element_of,
    tile,
)
from workbench.ops import (
    AddPointer,
    Bitcast,
    Broadcast,
    Cast,
    Constant,
    Elementwise,
    ExpandDims,
    For,
    If,
    Iota,
    Load,
    ProgramId,
    Promise,
    Reshape,
    Return,
    Select,
    Splat,
    Transpose,
    While,
    Yield,
)

SHAPES = ((8,), (16,), (12,), (5,), (4, 8), (8, 16), (6, 4), (4, 4))
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
        kinds = ["add", "add", "add", "mul", "sub", "div", "rem", "min", "max", "shl"]
        name = self.pick([*kinds, "where", "clamp", "reshape", "told"])
        if name in ("where", "clamp", "reshape", "told"):
            return getattr(self, name)(depth - 1)
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

    def where(self, depth: int) -> Value:
        """Return one of two expressions, by a mask that stays for later accesses."""
        pair = (self.expression(depth), self.expression(0))
        if self.pick([True, False]):
            condition = self.add(Elementwise("lt", (self.scalar(), self.scalar())))
        else:
            condition = self.add(Elementwise(self.pick(["lt", "ge"]), pair))
        return self.add(Select(condition, pair[0], self.expression(0)))

    def clamp(self, depth: int) -> Value:
        """Return an expression that does not pass a bound, beside the mask of where it would."""
        inside = self.expression(depth)
        bound = self.add(Splat(self.scalar(), self.shape))
        one = self.constant(1)
        self.add(Elementwise("lt", (inside, bound)))
        return self.add(Elementwise("min", (inside, self.add(Elementwise("sub", (bound, one))))))

    def reshape(self, depth: int) -> Value:
        """Return an expression that went through other shapes."""
        inside = self.expression(depth)
        total = prod(self.shape)
        splits = [(a, total // a) for a in (2, 3, 4, 8) if total % a == 0]
        there = self.pick([(total,), (1, total), *splits, *((a, 1, b) for a, b in splits)])
        return self.add(Reshape(self.add(Reshape(inside, there)), self.shape))

    def told(self, depth: int) -> Value:
        """Return an expression of which truths are promised: a part of what is so."""
        axis = self.pick(range(len(self.shape)))
        extent = self.shape[axis]
        line = self.spread(self.add(Iota(0, tile((extent,), INDEX))), axis)
        if extent % 4:
            return line
        four = self.ones(axis, 4)
        if self.pick([True, False]):
            sixteen = self.add(Elementwise("mul", (self.scalar_tile(), self.constant(16))))
            moved = self.add(Elementwise("add", (line, sixteen)))
            return self.add(Promise(moved, contiguous=four, divisible=self.ones(axis, 16)))
        quarter = self.add(Elementwise("div", (line, self.constant(4))))
        some = self.add(Elementwise("mul", (quarter, self.scalar_tile())))
        return self.add(Promise(some, constant=four))

    def scalar_tile(self) -> Value:
        return self.add(Splat(self.scalar(), self.shape))

    def ones(self, axis: int, number: int) -> tuple[int, ...]:
        return tuple(number if d == axis else 1 for d in range(len(self.shape)))

    def uses(self) -> None:
        """Make pointers and masks of expressions."""
        depth = self.pick([1, 2, 3])
        base = self.add(Splat(self.names["p"], self.shape))
        pointers = self.add(AddPointer(base, self.expression(depth)))
        if self.pick([True, False]):
            there = self.add(Bitcast(pointers, I64))
            there = self.add(
                Elementwise("add", (there, self.add(Constant(64, tile(self.shape, I64)))))
            )
            self.add(Bitcast(there, element_of(pointers.type)))
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
        start, tile_start = self.scalar(), self.expression(1)
        carried = Value(tile_start.type, "carried")
        with self.builder.block() as ops:
            self.round = self.pick([counter, moving])
            self.uses()
            by = self.pick(
                [self.names["s"], self.names["b"], self.add(Constant(16, INDEX)), counter]
            )
            moved = self.add(Elementwise("add", (moving, by)))
            self.add(Elementwise("lt", (carried, self.expression(0))))
            self.builder.insert(Yield((moved, self.turned(carried, moved))))
        self.round = None
        block = Block((counter, moving, carried), tuple(ops))
        self.builder.insert(For(lower, upper, step, (start, tile_start), block))
        self.chase()

    def turned(self, carried: Value, by: Value) -> Value:
        """Return what a round makes of a carried tile: it moves, perhaps, or is turned around."""
        far = self.add(Splat(self.pick([self.names["s"], by]), self.shape))
        kind = self.pick(["moves", "may move", "turns"])
        if kind == "turns" and self.shape == (4, 4):
            return self.add(Transpose(carried, (1, 0)))
        moved = self.add(Elementwise("add", (carried, far)))
        if kind == "moves":
            return moved
        condition = self.add(Elementwise("lt", (by, self.names["s"])))
        with self.builder.block() as then:
            self.builder.insert(Yield((moved,)))
        with self.builder.block() as otherwise:
            self.builder.insert(Yield((carried,)))
        return self.add(If(condition, Block((), tuple(then)), Block((), tuple(otherwise))))

    def chase(self) -> None:
        """Carry pointers and a number round a while loop that ends."""
        base = self.add(Splat(self.names["p"], self.shape))
        start = self.add(AddPointer(base, self.expression(1)))
        zero = self.add(Constant(0, INDEX))
        before, asked, at, here = (
            Value(v.type, n) for v, n in ((zero, "i"), (start, "q"), (zero, "j"), (start, "r"))
        )
        with self.builder.block() as condition:
            three = self.add(Constant(3, INDEX))
            self.builder.insert(Yield((self.add(Elementwise("lt", (before, three))),)))
        with self.builder.block() as body:
            one = self.add(Constant(1, INDEX))
            step = self.add(Splat(self.pick([at, self.names["s"]]), self.shape))
            self.round = at
            self.uses()
            self.round = None
            following = self.add(AddPointer(here, step))
            self.builder.insert(Yield((self.add(Elementwise("add", (at, one))), following)))
        blocks = Block((before, asked), tuple(condition)), Block((at, here), tuple(body))
        self.builder.insert(While((zero, start), *blocks))


@st.composite
def expression_modules(draw: Any) -> Module:
    """Kernels that compute pointers and masks of tiles, in and outside of a loop."""
    return Expressions(draw).module()


@st.composite
def expression_arguments(draw: Any) -> list[Any]:
    """Fresh arguments for such a kernel."""
    numbers = [draw(st.sampled_from(values)) for _, values in ARGUMENTS.values()]
    return [np.zeros(64, np.float32), np.arange(64, dtype=np.int32)[::-1].copy(), *numbers]
