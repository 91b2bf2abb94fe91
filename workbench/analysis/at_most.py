"""Which tiles are known to hold nothing larger than others: rows, and the largest of each row.

Where neither number is a NaN. What is subtracted from a row before exp is nearly always its
maximum, or the largest that a loop has seen, so that exp is asked of no number above 0.
"""

from __future__ import annotations

from workbench.ir import Op, Value, shape_of
from workbench.ops import Broadcast, Constant, Elementwise, ExpandDims, Reduce, Select, Splat
from workbench.ops.reductions import combine_function

_LARGER = ("max", "maximum")
#: Ops that are followed.
_MOST_OPS = 32


def is_at_most(value: Value, bound: Value) -> bool:
    """Say whether no element of a tile is larger than that of another tile, as far as is known."""
    return _Search(_moved(value)).bounds(bound, (), _MOST_OPS)


def _moved(value: Value) -> Value:
    """Return what a value is, wherever it lies."""
    while value.op is not None and value.op.converts:
        (value,) = value.op.operands
    return value


class _Search:
    def __init__(self, value: Value) -> None:
        self.value = value
        self.rank = len(shape_of(value.type))

    def bounds(
        self, bound: Value, gone: tuple[int, ...], left: int, larger: tuple[str, ...] = _LARGER
    ) -> bool:
        """Say whether a bound without some of the value's axes holds for all along these.

        `larger`: what is followed. Below a maximum in which a NaN loses none in which one wins is:
        of its row nothing would be left.
        """
        bound = _moved(bound)
        if not gone and bound is self.value:
            return True
        op = bound.op
        if op is None or left == 0:
            return False
        rest = left - 1
        kept = [axis for axis in range(self.rank) if axis not in gone]
        match op:
            case Broadcast():
                return self.bounds(op.source, gone, rest, larger)
            case ExpandDims():
                return self.bounds(op.source, (*gone, kept[op.axis]), rest, larger)
            case Splat():
                return self.bounds(op.source, tuple(range(self.rank)), rest, larger)
            case Elementwise() if op.function in larger:
                below = _below(op.function, larger)
                return any(self.bounds(v, gone, rest // 2, below) for v in op.inputs)
            case Select():
                other = _replaces_lowest(op)
                return other is not None and self.bounds(other, gone, rest, larger)
            case Reduce() if len(op.inputs) == 1:
                function = combine_function(op.combine)
                if function is None or function.name not in larger:
                    return False
                below = _below(function.name, larger)
                back = [a for a in gone if sorted((*kept, a)).index(a) == op.axis]
                return any(
                    self.bounds(op.inputs[0], tuple(b for b in gone if b != axis), rest, below)
                    for axis in back
                )
            case _:
                return False


def _below(function: str, larger: tuple[str, ...]) -> tuple[str, ...]:
    return ("max",) if function == "max" else larger


def _replaces_lowest(op: Select) -> Value | None:
    """Return the value of which only -inf is replaced, by whatever: it is no larger than that."""
    compared = _moved(op.condition).op
    if not isinstance(compared, Elementwise) or compared.function not in ("eq", "ne"):
        return None
    value = op.otherwise if compared.function == "eq" else op.then
    for one, other in (compared.inputs, reversed(compared.inputs)):
        if _moved(one) is _moved(value) and _is_lowest(other):
            return value
    return None


def _is_lowest(value: Value) -> bool:
    op: Op | None = _moved(value).op
    while isinstance(op, Splat | Broadcast):
        op = op.source.op
    return isinstance(op, Constant) and op.value == float("-inf")


__all__ = ["is_at_most"]
