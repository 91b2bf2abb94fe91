"""What a value is multiplied with before it is an exponent: how much of it is a factor of 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import e, log2

from workbench.ir import Block, Op, Value, element_of, shape_of
from workbench.ops import Constant, Elementwise

#: Ops behind a value that are looked at.
_MOST_OPS = 64
#: What a value is multiplied with before it is an exponent of 2: a constant, and a scalar.
Unit = tuple[float, Value | None]


def unit_of(value: Value, uses: Mapping[Value, Sequence[Op]], body: Block) -> Unit | None:
    """Return what a value is multiplied with before it is an exponent of 2; 1 if it is none.

    None if that is not one number for all rows, known before the loop.
    """
    found: dict[Value | None, float] = {}
    waiting: list[tuple[Value, Unit]] = [(value, (1.0, None))]
    seen = {value}
    while waiting and len(seen) < _MOST_OPS:
        value, (constant, scalar) = waiting.pop()
        for op in uses.get(value, ()):
            function = op.function if isinstance(op, Elementwise) else ""
            if function in ("exp", "exp2"):
                size = constant * (log2(e) if function == "exp" else 1.0)
                found[scalar] = max(found.get(scalar, 0.0), size)
                continue
            same = len(op.results) == 1 and element_of(op.results[0].type) == element_of(value.type)
            if not same or not (op.moves or op.pointwise) or op.results[0] in seen:
                continue
            after: Unit | None = constant, scalar
            if function == "mul" or (function == "fma" and value is not op.operands[2]):
                other = op.operands[1] if op.operands[0] is value else op.operands[0]
                after = _times(after, other, body)
            elif function == "div":
                after = None
            if after is None:
                return None
            seen.add(op.results[0])
            waiting.append((op.results[0], after))
    if len(found) > 1 or waiting or 0.0 in found.values():
        return None
    return next(((size, scalar) for scalar, size in found.items()), (1.0, None))


def _times(unit: Unit, factor: Value, body: Block) -> Unit | None:
    """Return a unit times a factor, None if that is no number that is known before the loop."""
    constant, scalar = unit
    while factor.op is not None and factor.op.moves:
        (factor,) = factor.op.operands
    if isinstance(factor.op, Constant):
        return constant * abs(float(factor.op.value)), scalar
    known = factor.op not in body.ops and factor not in body.arguments
    if scalar is not None or shape_of(factor.type) or not known:
        return None
    return constant, factor
