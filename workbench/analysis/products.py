"""What matrix products are made of, and what meets their results, element by element."""

from __future__ import annotations

from workbench.ir import Module, Value, shape_of
from workbench.ops import Broadcast, ExpandDims, Reshape


def multiplied(module: Module) -> set[Value]:
    """Return what products multiply, and what that is made of element by element."""
    found: set[Value] = set()
    for op in reversed(list(module.walk())):  # users come first
        if (product := op.multiplies()) is not None:
            found |= {product.a, product.b, product.factors or product.b}
        elif op.by_elements and not found.isdisjoint(op.results):
            found.update(op.operands)
    return found


def beside_products(module: Module) -> set[Value]:
    """Return the rows and columns that are computed with what products give, right behind them.

    With them comes what they are made of element by element: the scales of a block's sums.
    """
    ops = list(module.walk())
    given, found = set[Value](), set[Value]()
    for op in ops:
        if op.multiplies() or (op.by_elements and not given.isdisjoint(op.operands)):
            given.update(op.results)
    for op in reversed(ops):
        meets = op.pointwise and not given.isdisjoint(op.operands)
        if meets or (op.by_elements and not found.isdisjoint(op.results)):
            found.update(v for v in op.operands if v not in given)
    return {value for value in found if is_line(shape_of(value.type))}


def is_line(shape: tuple[int, ...]) -> bool:
    """Say whether a tile has one axis at most: a row or a column."""
    return sum(extent > 1 for extent in shape) < 2


def repeated(op: Reshape, axis: int) -> Value | None:
    """Return the tile of which a reshape has each element several times in a row along an axis."""
    made = op.source.op
    once = made.source.op if isinstance(made, Broadcast) else None
    if not isinstance(made, Broadcast) or not isinstance(once, ExpandDims):
        return None
    shape, few, wide = map(shape_of, (op.result.type, once.source.type, made.result.type))
    if once.axis != axis + 1 or len(few) != len(shape):
        return None
    before, (count, *behind) = few[:axis], few[axis:]
    copies = wide[axis + 1]
    fits = wide == (*before, count, copies, *behind)
    return once.source if fits and shape == (*before, count * copies, *behind) else None
