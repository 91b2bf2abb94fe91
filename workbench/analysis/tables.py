"""Tiles that are the same numbers whenever a program computes them: tables of constants."""

from __future__ import annotations

from math import prod
from typing import Any

from workbench.ir import Array, Value, shape_of

#: Tiles of more elements, and of more ops, are not computed.
_MOST_ELEMENTS, _MOST_OPS = 1 << 16, 32


def table_of(value: Value) -> Array | None:
    """Return a tile of the numbers that a value is; None if not constants alone decide them."""
    found = _Tables().of(value)
    return found if shape_of(value.type) else None


class _Tables(dict[Value, Array]):
    """What is known so far, as a frame gives operands to ops that compute and do nothing else."""

    def of(self, value: Value) -> Array | None:
        if value in self:
            return self[value]
        op, shape = value.op, shape_of(value.type)
        if op is None or not op.pure or op.regions or len(self) > _MOST_OPS:
            return None
        first = (0,) * len(shape)
        if op.element_from(first) is None or len(op.results) != 1:
            return None
        if prod(shape) > _MOST_ELEMENTS or any(self.of(v) is None for v in op.operands):
            return None
        found: Any = op.interpret(self)  # type: ignore[arg-type]
        self[value] = found
        return found


__all__ = ["table_of"]
