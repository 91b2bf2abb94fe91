"""Assembly that the author wrote, applied element by element."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from workbench.ir import (
    ANYTHING,
    NONE,
    Array,
    Effects,
    Frame,
    Op,
    Scalar,
    Type,
    Value,
    attribute,
    element_of,
    shape_of,
    tile,
)
from workbench.ops.casts import convert
from workbench.ops.functions import FUNCTIONS
from workbench.ops.numbers import bits_of, compute_element, from_bits, round_to, value_dtype
from workbench.ptx import Program, evaluate
from workbench.source import KernelTypeError, ShapeError


class InlineAssembly(Op, mnemonic="tile.inline_asm"):
    """Instructions of the target, run for `pack` elements of every operand at a time.

    `text` names its registers $0, $1, ...: results first, then operands, as `constraints` says
    ("=r", "f", ...; 32 bits r and f, 64 bits l and d, 16 bits h; "=&r" is written before all
    operands are read, "0" is the register of result 0). Elements of fewer than 32 bits
    share registers, the first in the low bits. `types` are the results' element types;
    `has_effects`: it does more than compute them. What it
    means away from its target is known for common instructions alone (ptx/).

        %1 = tile.inline_asm [%0] {text = "neg.f32 $0, $1;", constraints = "=f,f", types = (f32,)} : tile<4xf32>
    """  # noqa: E501

    inputs: tuple[Value, ...]
    text: str = attribute(default="")
    constraints: str = attribute(default="")
    types: tuple[Scalar, ...] = attribute(default=())
    shape: tuple[int, ...] = attribute(default=())
    pack: int = attribute(default=1)
    has_effects: bool = attribute(default=False)

    @property
    def extents(self) -> tuple[int, ...]:
        """The shape of every operand and result."""
        return shape_of(self.inputs[0].type) if self.inputs else self.shape

    def infer(self) -> tuple[Type, ...]:
        return tuple(tile(self.extents, element) for element in self.types)

    def verify(self) -> None:
        if any(shape_of(value.type) != self.extents for value in self.inputs):
            shapes = ", ".join(str(shape_of(value.type)) for value in self.inputs)
            raise ShapeError(f"inline assembly on operands of shapes {shapes}", self.span)
        if self.pack < 1 or self.pack & (self.pack - 1):
            raise KernelTypeError(
                f"inline assembly on {self.pack} elements at a time, not a power of two", self.span
            )

    @property
    def program(self) -> Program:
        """The assembly as data, for whoever computes it away from its target."""
        return Program(self.text, self.types, self.pack, self.span, self.constraints)

    def own_effects(self) -> Effects:
        return ANYTHING if self.has_effects else NONE

    @property
    def by_elements(self) -> bool:
        return not self.has_effects

    @property
    def names_block(self) -> bool:
        return any(name in self.text for name in ("ctaid", "gridid", "clusterid"))

    def interpret(self, frame: Frame) -> tuple[Array, ...]:
        held = [(np.asarray(frame[v]), element_of(v.type)) for v in self.inputs]
        return evaluate(self.program, _Arrays(self.extents), held)


class _Arrays:
    """Computes assembly on arrays."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def number(self, value: float | int, element: Scalar) -> Any:
        """Return a number in every element."""
        kind = np.float64 if element.is_float else np.uint64 if value > 1 << 62 else np.int64
        return round_to(np.full(self.shape, value, kind), element)

    def apply(self, function: str, element: Scalar, inputs: list[Any]) -> Any:
        """Return a row of the table of functions."""
        row = FUNCTIONS[function]
        with np.errstate(all="ignore"):
            found = row.evaluate(*inputs)
        if row.compares:
            return np.asarray(found, np.bool_)
        if element != compute_element(element):
            return round_to(found, element)
        return np.asarray(found, value_dtype(element))

    def convert(self, value: Any, source: Scalar, to: Scalar, rounding: str) -> Any:
        """Return numbers in another type."""
        return convert(value, source, to, rounding)

    def bits(self, value: Any, source: Scalar, to: Scalar) -> Any:
        """Return the same bits as another type."""
        return from_bits(bits_of(value, source), to).reshape(np.shape(value))

    def select(self, condition: Any, then: Any, otherwise: Any) -> Any:
        """Return `then` where the condition holds."""
        return cast("Any", np.where(condition, then, otherwise))


__all__ = ["InlineAssembly"]
