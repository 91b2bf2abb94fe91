"""Writes the author's assembly in ops, for targets that it was not written for."""

from __future__ import annotations

from typing import Any

from workbench.ir import Builder, Module, Op, Scalar, Value, element_of, rebuild, tile
from workbench.ops import Bitcast, Cast, Constant, Elementwise, InlineAssembly, Select, While
from workbench.passes.manager import Remarks
from workbench.passes.order import standing
from workbench.ptx import evaluate
from workbench.source import TargetError


def expand_assembly(module: Module, remarks: Remarks) -> Module:
    """Replace inline assembly by ops that compute the same.

    Before:
        %1 = tile.inline_asm [%0] {text = "neg.f32 $0, $1;", constraints = "=f,f", types = (f32,)}
    After:
        %1 = tile.neg [%0] : tile<4xf32>

    Raises TargetError for instructions whose meaning is not known, and for a loop that waits for
    a clock alone: clocks stand still away from their chip.
    """
    for loop in module.walk():
        if isinstance(loop, While):
            for op in standing(loop, _reads_clock):
                raise TargetError(
                    "a loop waits for the chip's clock, which stands still here: it would not end",
                    op.span,
                    hint="run it on a GPU, or let the loop end after a number of rounds, too",
                )

    def rewrite(op: Op, builder: Builder) -> tuple[Value, ...] | None:
        if not isinstance(op, InlineAssembly):
            return None
        remarks.note(op, "inline assembly is computed by equal ops")
        inputs = [(value, element_of(value.type)) for value in op.inputs]
        return evaluate(op.program, _Ops(builder, op.extents), inputs)

    return rebuild(module, rewrite)


def _reads_clock(op: Op) -> bool:
    return isinstance(op, InlineAssembly) and any(
        word in op.text for word in ("%globaltimer", "%clock")
    )


class _Ops:
    """Computes assembly by inserting ops."""

    def __init__(self, builder: Builder, shape: tuple[int, ...]) -> None:
        self.builder = builder
        self.shape = shape

    def number(self, value: float | int, element: Scalar) -> Value:
        """Return a number in every element."""
        held: Any = float(value) if element.is_float else bool(value) if (
            element.kind == "bool") else int(value)  # fmt: skip
        return self.builder.add(Constant(held, tile(self.shape, element)))

    def apply(self, function: str, element: Scalar, inputs: list[Any]) -> Value:
        """Return a row of the table of functions."""
        del element
        return self.builder.add(Elementwise(function, tuple(inputs)))

    def convert(self, value: Value, source: Scalar, to: Scalar, rounding: Any) -> Value:
        """Return numbers in another type."""
        del source
        return self.builder.add(Cast(value, to, rounding=rounding))

    def bits(self, value: Value, source: Scalar, to: Scalar) -> Value:
        """Return the same bits as another type."""
        del source
        return self.builder.add(Bitcast(value, to))

    def select(self, condition: Value, then: Value, otherwise: Value) -> Value:
        """Return `then` where the condition holds."""
        return self.builder.add(Select(condition, then, otherwise))
