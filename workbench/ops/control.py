"""Structured control flow. `break`, `continue` and early `return` are carried predicates."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.ir import Array, Block, Frame, Op, Type, Value, attribute
from workbench.source import KernelTypeError


class Yield(Op, mnemonic="tile.yield", pure=False):
    """What a region gives back to the op it belongs to.

    tile.yield [%0]
    """

    values: tuple[Value, ...] = ()

    def interpret(self, frame: Frame) -> None:
        return None


class Return(Op, mnemonic="tile.return", pure=False):
    """The end of the kernel.

    tile.return
    """

    def interpret(self, frame: Frame) -> None:
        return None


class For(Op, mnemonic="tile.for", pure=False):
    """Run the body with its counter at lower, lower + step, ... while below `upper`.

    A negative step counts down while above `upper`. The body's arguments are the counter and the
    carried values; it yields the next carried values, whose last ones are the results.

        %3 = tile.for %0, %1, %2, [%init] {
        ^(%k: index, %acc: f32):
          tile.yield [%acc]
        } : f32
    """

    lower: Value
    upper: Value
    step: Value
    inits: tuple[Value, ...]
    body: Block
    stages: int | None = attribute(default=None)
    hints: tuple[Any, ...] = attribute(default=())

    def infer(self) -> tuple[Type, ...]:
        return tuple(value.type for value in self.inits)

    def verify(self) -> None:
        _verify_carried(self, self.inits, self.body.arguments[1:], self.body)

    def interpret(self, frame: Frame) -> tuple[Array, ...]:
        lower, upper, step = (int(frame[v]) for v in (self.lower, self.upper, self.step))
        carried = tuple(frame[v] for v in self.inits)
        dtype = np.asarray(frame[self.lower]).dtype
        for i in range(lower, upper, step):
            carried = frame.run(self.body, [np.asarray(i, dtype), *carried])
        return carried


class While(Op, mnemonic="tile.while", pure=False):
    """Run the body while the condition region yields true; both see the carried values.

    %1 = tile.while [%0] {
    ^(%i: index):
      tile.yield [%go]
    } {
    ^(%i.1: index):
      tile.yield [%next]
    } : index
    """

    inits: tuple[Value, ...]
    condition: Block
    body: Block

    def infer(self) -> tuple[Type, ...]:
        return tuple(value.type for value in self.inits)

    def verify(self) -> None:
        _verify_carried(self, self.inits, self.body.arguments, self.body)

    def interpret(self, frame: Frame) -> tuple[Array, ...]:
        carried = tuple(frame[v] for v in self.inits)
        while bool(frame.run(self.condition, carried)[0]):
            carried = frame.run(self.body, carried)
        return carried


class If(Op, mnemonic="tile.if", pure=False):
    """Run one of two regions; both yield values of the same types.

    %1 = tile.if %0 {
      tile.yield [%a]
    } {
      tile.yield [%b]
    } : f32
    """

    condition: Value
    then: Block
    otherwise: Block

    def infer(self) -> tuple[Type, ...]:
        return tuple(value.type for value in self.then.yields)

    def verify(self) -> None:
        then = [v.type for v in self.then.yields]
        otherwise = [v.type for v in self.otherwise.yields]
        if then != otherwise:
            raise KernelTypeError(
                f"the branches of an if give {_types(then)} and {_types(otherwise)}", self.span
            )

    def interpret(self, frame: Frame) -> tuple[Array, ...]:
        return frame.run(self.then if bool(frame[self.condition]) else self.otherwise, [])


def _types(types: list[Type]) -> str:
    return "(" + ", ".join(map(str, types)) + ")"


def _verify_carried(
    op: Op, inits: tuple[Value, ...], arguments: tuple[Value, ...], body: Block
) -> None:
    entry = [v.type for v in inits]
    inside = [v.type for v in arguments]
    back = [v.type for v in body.yields]
    if entry != inside or entry != back:
        raise KernelTypeError(
            f"{op.name} carries {_types(entry)} in, {_types(inside)} inside "
            f"and {_types(back)} round",
            op.span,
        )
