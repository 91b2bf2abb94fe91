"""What a layout costs: global accesses, conversions, reductions, in cycles of one SM.

The same unit everywhere (one 128-byte wavefront of shared memory, one shuffle of a warp, one
32-byte sector of global memory are one cycle), so that alternatives can be compared. These are
estimates for choosing, not predictions of time.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from workbench.analysis.affine import Affine
from workbench.ir import Value, shape_of
from workbench.layouts import LinearLayout, blocked, classify
from workbench.layouts.predict import linear_sectors
from workbench.targets.nvidia.chip import WIDEST_BYTES


@lru_cache(4096)
def conversion_cost(source: LinearLayout, target: LinearLayout, bits: int) -> float:
    """Return the estimated cycles of converting a tile from one layout to another."""
    if source == target or source.same_data(target):
        return 0.0
    level = classify(source.compact()[0], target.compact()[0]).level
    if level == 0:
        return 0.0
    warps = source.size("warp")
    itemsize = max(1, bits // 8)
    if level == 1:
        words = max(1, target.registers() * itemsize // 4)
        return min(1.5 * words * warps, 2.0 * prod(target.padded) * itemsize / 128 + 10)
    return 2.0 * prod(target.padded) * itemsize / 128 + 40


def vector_width(
    facts: Affine, pointers: Value, mask: Value | None, layout: LinearLayout, itemsize: int
) -> tuple[int, int | None]:
    """Return (elements per access, axis) that a layout, the addresses and the mask allow.

    What accesses cost and how they are written (`plan_access`) is decided by this one function.
    """
    best, best_axis = 1, None
    for axis, extent in enumerate(layout.shape):
        width = min(
            layout.consecutive("register", axis),
            _axis_limit(facts, pointers, mask, axis, extent),
            max(1, WIDEST_BYTES // itemsize),
        )
        if width > best:
            best, best_axis = width, axis
    return best, best_axis


def _axis_limit(facts: Affine, pointers: Value, mask: Value | None, axis: int, extent: int) -> int:
    whole = 1 << (extent - 1).bit_length()
    return min(
        facts.vector(pointers, axis, mask),
        facts.mask_run(mask, axis, extent),
        whole if whole == extent else extent & -extent,
    )


def access_cost(
    facts: Affine, pointers: Value, mask: Value | None, layout: LinearLayout, itemsize: int
) -> float:
    """Return the estimated cycles of loading or storing a tile through a layout."""
    width, _ = vector_width(facts, pointers, mask, layout, itemsize)
    registers = max(1, len(set(layout.table("register"))))
    instructions = max(1, registers // width)
    warps = layout.size("warp")
    strides = [facts.stride(pointers, axis, mask) for axis in range(layout.rank)]
    unit = next((d for d, s in enumerate(strides) if s == 1 and layout.shape[d] > 1), None)
    bases: list[tuple[int, int]] = []
    columns = [*layout.flat("lane")]
    if width > 1:
        columns += layout.flat("register")[: width.bit_length() - 1]
    for column in columns:
        place = layout.unflatten(column)
        inner = place[unit] if unit is not None else 0
        outer = 0
        for axis, (coordinate, bits) in enumerate(zip(place, layout.bits, strict=True)):
            outer <<= bits
            if axis != unit and strides[axis] != 0:
                outer |= coordinate
        bases.append((outer, inner))
    sectors = linear_sectors(bases, itemsize)
    return warps * instructions * (sectors + 0.5)


def coalesced(
    facts: Affine, pointers: Value, mask: Value | None, itemsize: int, num_warps: int
) -> LinearLayout:
    """Return the layout in which a tile of pointers is accessed in whole sectors.

    Axes in order of stride, the unit stride first; vectors as wide as addresses and mask allow,
    but no wider than leaves every lane something to do (LAYOUTS: choosing the coalesced layout).
    """
    shape = shape_of(pointers.type)
    threads = 32 * num_warps
    order = sorted(range(len(shape)), key=lambda d: (_rank(facts.stride(pointers, d, mask)), -d))
    fastest = order[0]
    width = min(
        _axis_limit(facts, pointers, mask, fastest, shape[fastest]),
        max(1, WIDEST_BYTES // itemsize),
        max(1, prod(1 << (e - 1).bit_length() for e in shape) // threads),
    )
    return blocked(shape, width, tuple(order), num_warps)


def _rank(stride: object) -> int:
    """Order strides: 1, other numbers, unknown, and axes along which nothing moves last."""
    if stride == 1:
        return 0
    if stride == 0:
        return 1 << 40
    return abs(stride) if isinstance(stride, int) else 1 << 30


def default_layout(shape: tuple[int, ...], num_warps: int) -> LinearLayout:
    """Return a layout for a tile that touches no memory: rows over lanes, four side by side."""
    order = tuple(range(len(shape) - 1, -1, -1))
    padded = prod(1 << (e - 1).bit_length() for e in shape)
    vector = min(4, max(1, padded // (32 * num_warps)), 1 << (shape[-1] - 1).bit_length())
    return blocked(shape, vector, order, num_warps)
