"""Matrix products without a matrix unit: multiply-adds on operands in shared memory.

A dot becomes stores of its operands, or of slices of k in turn, and `gpu.shared_dot`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

from workbench.ir import Builder, Scalar, Shared, Value, element_of, shape_of
from workbench.layouts import swizzled
from workbench.ops import Dot
from workbench.targets.simt.ops import SharedAllocate, SharedDot, SharedStore
from workbench.targets.simt.passes.costs import default_layout
from workbench.targets.simt.rules import SAME, Layouts, Setting
from workbench.targets.simt.table import SIMT

#: In which order operands are converted.
ACCUMULATOR_FIRST = (2, 0, 1)

SIMT.unsupported[Dot] = "is left to multiply-adds when layouts are assigned"


@SIMT.layouts(Dot)
def dot_layouts(op: Dot, on: Setting) -> Layouts:
    """Operands go to shared memory as they are."""
    shape = shape_of(op.result.type)
    return Layouts(
        work=op.result,
        operands=(None, None, SAME),
        order=ACCUMULATOR_FIRST,
        offers=lambda: [default_layout(shape, on.num_warps, on.lanes)],
        becomes=partial(_through_shared, op, on.chip.most_scratch),
    )


def _through_shared(
    op: Dot, most: int, builder: Builder, operands: Sequence[Value]
) -> tuple[Value, ...]:
    """Write the product of operands that are stored in shared memory, slices of k in turn."""
    a, b, total = operands
    rank, inner = len(shape_of(a.type)), shape_of(a.type)[-1]
    count, buffers = _slice(a, b, most), list[Value]()
    for start in range(0, inner, count):
        for number, (value, axis) in enumerate(((a, rank - 1), (b, rank - 2))):
            if not start:
                buffers.append(_buffer(value, axis, count, builder))
            part = None if count == inner else (axis, start)
            builder.insert(SharedStore(value, buffers[number], part=part))
        first, second = buffers
        total = builder.add(SharedDot(first, second, total), op.result.hint)
    return (total,)


def _slice(a: Value, b: Value, most: int) -> int:
    """Return how much of k is in shared memory at once: all, or a power of two that divides it."""
    inner = shape_of(a.type)[-1]
    each = sum(
        prod(1 << (e - 1).bit_length() for e in shape_of(v.type)) * element_of(v.type).itemsize
        for v in (a, b)
    ) // (1 << (inner - 1).bit_length())
    if each * inner <= most:
        return inner
    count = inner & -inner
    while count > 1 and each * count > most:
        count //= 2
    return count


def _buffer(value: Value, axis: int, count: int, builder: Builder) -> Value:
    """Return a buffer for a value, or for a part of `count` along an axis."""
    shape, element = shape_of(value.type), element_of(value.type)
    assert isinstance(element, Scalar)
    shape = (*shape[:axis], count, *shape[axis + 1 :])
    type = Shared(shape, element, swizzled(shape, element.itemsize))
    return builder.add(SharedAllocate(type=type), value.hint)


@SIMT.advice(Dot, SharedDot)
def smaller_dot(op: Dot | SharedDot, found: int, allowed: int) -> str:
    """Say which dot would fit."""
    m, k = shape_of(op.a.type)[-2:]
    return smaller_product(m, k, shape_of(op.b.type)[-1], found, allowed)


def smaller_product(m: int, k: int, n: int, found: int, allowed: int) -> str:
    """Say which product would fit: the largest extent is halved until the operands do."""
    whole = (m + n) * k
    extents = [m, n, k]
    while found * (extents[0] + extents[1]) * extents[2] > allowed * whole:
        largest = max(range(3), key=extents.__getitem__)
        extents[largest] //= 2
    shown = " × ".join(map(str, (m, n, k)))
    return f"use smaller tiles: instead of {shown} a dot of {' × '.join(map(str, extents))} fits"
