"""How many bits an integer takes for certain, and what may be said of it in every program."""

from __future__ import annotations

from workbench.analysis.transfer import counts
from workbench.ir import I64, Op, Scalar, Value, element_of
from workbench.ops import Cast, Constant, Elementwise, Select

#: Ops behind a number that are asked how large it is.
_MOST_OPS = 32


def as_anywhere(op: Op) -> Op:
    """Return an op of which is only said what holds wherever it is computed.

    That it does not wrap in 64 bits may be known of the branch alone that it stands in.
    """
    flagged = isinstance(op, Elementwise | Cast) and op.no_wrap
    if not flagged or element_of(op.results[0].type) != I64 or digits(op.results[0]) < I64.bits:
        return op
    return op.changed(no_wrap=False)


def digits(value: Value, left: int = _MOST_OPS) -> int:
    """Return how many bits, with a sign, hold an integer for certain, were it computed exactly."""
    op, element = value.op, element_of(value.type)
    full = element.bits + (not element.is_signed) if isinstance(element, Scalar) else I64.bits
    if not left or op is None:
        return full
    below = [digits(v, left // 2) for v in op.operands if counts(element_of(v.type))]
    if isinstance(op, Constant):
        return int(op.value).bit_length() + 1
    if op.moves or isinstance(op, Select | Cast):
        return max(below, default=full)
    if not isinstance(op, Elementwise):
        return full
    match op.function:
        case "add" | "sub":
            return max(below) + 1
        case "mul":
            return sum(below)
        case "neg":
            return below[0] + 1
        case _:
            return full


__all__ = ["as_anywhere", "digits"]
