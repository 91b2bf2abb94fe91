"""Matrix products of tiles."""

from __future__ import annotations

from typing import Literal

import numpy as np

from workbench.ir import (
    F32,
    F64,
    NONE,
    Array,
    Element,
    Frame,
    Op,
    Product,
    Scalar,
    Type,
    Value,
    attribute,
    element_of,
    shape_of,
)
from workbench.ops.numbers import round_tf32, round_to
from workbench.source import ShapeError

Precision = Literal["tf32", "tf32x3", "ieee", "bf16x3", "bf16x6"]


class Dot(Op, mnemonic="tile.dot", effects=NONE):
    """accumulator + a @ b, for a [.., M, K] and b [.., K, N].

    Products are exact in the accumulator's type but for `precision`, which says how f32 operands
    reach the tensor core. `imprecise_limit` is the largest K that may be summed in the tensor
    core's short accumulator (0: no limit).

    With `factors` [N, K / run] the sums of each run of K are multiplied by one of a column before
    they are added up: products need no multiplication of their own, and no range but the sums'.

        %3 = tile.dot %0, %1, %2 : tile<16x8xf32>
    """

    a: Value
    b: Value
    accumulator: Value
    factors: Value | None = None
    precision: Precision = attribute(default="tf32")
    imprecise_limit: int = attribute(default=0)

    def infer(self) -> Type:
        return self.accumulator.type

    def verify(self) -> None:
        a, b, c = (shape_of(v.type) for v in (self.a, self.b, self.accumulator))
        if len(a) != len(b) or len(a) not in (2, 3) or a[-1] != b[-2]:
            raise ShapeError(
                f"dot needs matching inner sizes: a is {a}, b is {b}",
                self.span,
                hint="use the same extent for the last axis of a and the first axis of b",
            )
        if c != (*a[:-1], b[-1]) or a[:-2] != b[:-2]:
            raise ShapeError(
                f"dot of {a} and {b} does not fit an accumulator of shape {c}", self.span
            )
        if self.factors is None:
            return
        shape = shape_of(self.factors.type)
        if len(a) != 2 or len(shape) != 2 or shape[0] != b[1] or a[1] % shape[1]:
            raise ShapeError(
                f"dot of {a} and {b} has factors {shape}; expected a row for each column of b, "
                f"whose extent divides K",
                self.span,
            )

    @property
    def run(self) -> int:
        """How many neighbours along K share a factor; K where there is none."""
        runs = 1 if self.factors is None else shape_of(self.factors.type)[1]
        return shape_of(self.a.type)[-1] // runs

    def multiplies(self) -> Product:
        return Product(self.a, self.b, self.accumulator, self.factors)

    def roundings(self) -> int:
        return shape_of(self.a.type)[-1]

    def interpret(self, frame: Frame) -> Array:
        b = frame[self.b]
        if self.factors is not None:
            with np.errstate(all="ignore"):
                factors = np.repeat(frame[self.factors].astype(np.float64).T, self.run, axis=0)
                b = b.astype(np.float64) * factors
        return product(
            frame[self.a],
            b,
            frame[self.accumulator],
            element_of(self.a.type),
            element_of(self.accumulator.type),
            self.precision,
        )


def product(
    a: Array, b: Array, c: Array, operand: Element, element: Element, precision: Precision
) -> Array:
    """Return c + a @ b in float64, rounded once to `element`; integers wrap."""
    assert isinstance(element, Scalar)
    if not element.is_float:
        return (a.astype(np.int64) @ b.astype(np.int64) + c).astype(np.int32)
    if operand == F32 and precision == "tf32":
        a, b = round_tf32(a), round_tf32(b)
    with np.errstate(all="ignore"):
        total = a.astype(np.float64) @ b.astype(np.float64) + c.astype(np.float64)
    return total if element == F64 else round_to(total, element)
