"""What a layout costs: global accesses and conversions, in the unit of `Costs` (hardware.py).

The same unit everywhere, so that alternatives can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod

from workbench.analysis.affine import Affine
from workbench.analysis.forms import Form
from workbench.ir import Value, shape_of
from workbench.layouts import LinearLayout, blocked, classify
from workbench.layouts.predict import linear_sectors
from workbench.targets.simt.hardware import Hardware
from workbench.targets.simt.rules import Setting


@lru_cache(4096)
def conversion_cost(source: LinearLayout, target: LinearLayout, bits: int, chip: Hardware) -> float:
    """Return the estimated cycles of converting a tile from one layout to another."""
    if source == target or source.same_data(target):
        return 0.0
    level = classify(source.compact()[0], target.compact()[0]).level
    if level == 0:
        return 0.0
    warps, costs = source.size("warp"), chip.costs
    itemsize = max(1, bits // 8)
    staged = costs.staging * prod(target.padded) * itemsize / chip.banks.row_bytes
    if level == 1:
        words = max(1, target.registers() * itemsize // 4)
        return min(costs.shuffle * words * warps, staged + costs.warp_wait)
    return staged + costs.block_wait


def vector_width(
    facts: Affine,
    pointers: Value,
    mask: Value | None,
    layout: LinearLayout,
    itemsize: int,
    widest_bytes: int,
) -> tuple[int, int | None]:
    """Return (elements per access, axis) that a layout, the addresses and the mask allow.

    What accesses cost and how they are written (`plan_access`) is decided by this one function.
    """
    best, best_axis = 1, None
    for axis, extent in enumerate(layout.shape):
        width = min(
            layout.side_by_side("register", axis),
            _axis_limit(facts, pointers, mask, axis, extent),
            max(1, widest_bytes // itemsize),
        )
        if width > best:
            best, best_axis = width, axis
    return best, best_axis


def run_along(facts: Affine, pointers: Value, mask: Value | None, axis: int, most: int) -> int:
    """Return how many elements along an axis one access may take, a power of two up to `most`."""
    found = min(_axis_limit(facts, pointers, mask, axis, shape_of(pointers.type)[axis]), most)
    return 1 << found.bit_length() - 1


def goes_through_registers(on: Setting, pointers: Value, mask: Value | None, itemsize: int) -> bool:
    """Say whether a load in a loop goes by registers, rounds ahead, where a copy is in its way.

    Unasked does what no copy brings in any layout.
    """
    asked = on.options.get("through_registers")
    if asked is not None or not on.chip.loads_ahead:
        return bool(asked)
    most = on.chip.widest_bytes // itemsize
    axes = range(len(shape_of(pointers.type)))
    widest = max((run_along(on.facts, pointers, mask, axis, most) for axis in axes), default=most)
    return widest * itemsize < on.chip.least_copied_bytes


def _axis_limit(facts: Affine, pointers: Value, mask: Value | None, axis: int, extent: int) -> int:
    whole = 1 << (extent - 1).bit_length()
    return min(
        facts.vector(pointers, axis, mask),
        facts.mask_run(mask, axis, extent),
        whole if whole == extent else extent & -extent,
    )


def access_cost(
    on: Setting,
    pointers: Value,
    mask: Value | None,
    layout: LinearLayout,
    itemsize: int,
    loaded: Value | None = None,
) -> float:
    """Return the estimated cycles of loading or storing a tile through a layout.

    `loaded`: what a load gives that may find sectors in the cache and elements loaded already.
    """
    facts, costs = on.facts, on.chip.costs
    width, along = vector_width(facts, pointers, mask, layout, itemsize, on.chip.widest_bytes)
    repeated = 0 if loaded is None else repeated_places(facts, loaded, layout)
    registers = {place & ~repeated for place in layout.table("register")}
    instructions = max(1, len(registers) // width)
    strides = [facts.usual_stride(pointers, axis, mask) for axis in range(layout.rank)]
    columns = [*layout.flat("lane")]
    if along is not None:
        below = sum(layout.bits[along + 1 :])
        columns += [1 << below + bit for bit in range(width.bit_length() - 1)]

    def pieces(columns: Iterable[int], size: int) -> int:
        unit, step = _nearest(strides, layout.shape)
        bases: list[tuple[int, int]] = []
        for column in columns:
            place = layout.unflatten(column)
            inner = place[unit] << step if unit is not None else 0
            outer = 0
            for axis, (coordinate, bits) in enumerate(zip(place, layout.bits, strict=True)):
                outer <<= bits
                if axis != unit and strides[axis] != 0:
                    outer |= coordinate
            bases.append((outer, inner))
        return linear_sectors(bases, itemsize, size)

    sectors = pieces(columns, costs.sector_bytes)
    requests, asked = 0.0, instructions * sectors
    if loaded is not None:
        kept = (column & ~repeated for column in layout.flat("register"))
        brought = min(asked, pieces([*columns, *kept], costs.sector_bytes))
        requests, asked = (asked - brought) / sectors, brought
    again = costs.again * requests * pieces(columns, costs.line_bytes)
    return layout.size("warp") * (asked + again + instructions * costs.access)


def repeated_places(facts: Affine, value: Value, layout: LinearLayout) -> int:
    """Return the bits of a thread's places within runs over which it would load the same."""
    return places_within(layout, facts.equal_runs(value))


def places_within(layout: LinearLayout, runs: Sequence[int]) -> int:
    """Return the bits of a thread's places, held by its registers alone, that lie within runs."""
    below, found = sum(layout.bits), 0
    for run, bits in zip(runs, layout.bits, strict=True):
        below -= bits
        inside = (min(run, 1 << bits) - 1) << below
        for column in layout.flat("register"):
            if column.bit_count() == 1:
                found |= column & inside
    return found


def quotient_cost(on: Setting, quotient: Value, layout: LinearLayout) -> float:
    """Return the estimated cycles of dividing indices in a layout: once for a thread's run."""
    form = on.facts.form(quotient)
    inside = 0
    for axis, extent in enumerate(layout.shape if form is not None else ()):
        assert form is not None
        stride, run, _ = on.facts.run(form, axis, extent)
        if stride is not None:
            bits = layout.bits[axis]
            inside |= (min(run, 1 << bits) - 1) << sum(layout.bits[axis + 1 :])
    alone = sum(c for c in layout.flat("register") if c.bit_count() == 1 and c & inside)
    registers = {place & ~alone for place in layout.table("register")}
    return layout.size("warp") * len(registers) * on.chip.costs.quotient


def _nearest(
    strides: Sequence[int | Form | None], shape: tuple[int, ...]
) -> tuple[int | None, int]:
    """Return the axis whose elements lie nearest to each other, and how far apart: a power of 2.

    One in two, three or four belongs to a tile where pairs and the like lie side by side.
    """
    known = [
        (abs(stride), axis)
        for axis, stride in enumerate(strides)
        if isinstance(stride, int) and stride and shape[axis] > 1
    ]
    if not known:
        return None, 0
    least, axis = min(known)
    return axis, (least - 1).bit_length()


def instructions_of(layout: LinearLayout, width: int) -> int:
    """Return how often a thread accesses memory for its elements, so many of them at a time."""
    return max(1, len(set(layout.table("register"))) // width)


def coalesced(
    on: Setting,
    pointers: Value,
    mask: Value | None,
    itemsize: int,
    least: int = 1,
    apart: tuple[int, ...] = (),
) -> LinearLayout:
    """Return the layout in which a tile of pointers is accessed in whole sectors.

    Axes in order of stride, the unit stride first; vectors as wide as addresses and mask allow,
    but no wider than leaves every lane something to do (LAYOUTS: choosing the coalesced layout),
    or than `least` elements. `apart`: the columns of the warps, where they are given.
    """
    facts, shape = on.facts, shape_of(pointers.type)
    threads = on.lanes * on.num_warps
    strides = [facts.usual_stride(pointers, axis, mask) for axis in range(len(shape))]
    order = sorted(range(len(shape)), key=lambda d: (_rank(strides[d], facts), -d))
    fastest = order[0]
    width = min(
        _axis_limit(facts, pointers, mask, fastest, shape[fastest]),
        max(1, on.chip.widest_bytes // itemsize),
        max(least, prod(1 << (e - 1).bit_length() for e in shape) // threads),
    )
    found = blocked(shape, width, tuple(order), on.num_warps, on.lanes, apart)
    if width == 1 and fastest != len(shape) - 1 and not apart:
        return _runs_across(found, order)
    return found


def coalesced_within(
    on: Setting, pointers: Value, mask: Value | None, itemsize: int, held: LinearLayout
) -> LinearLayout | None:
    """Return the layout in which each warp accesses the elements that it has in another layout.

    What goes from that to this goes from lane to lane, and no warp waits for another. None where
    warps share elements.
    """
    warps = held.flat("warp")
    others = {base for dim in ("register", "lane") for base in held.flat(dim)}
    apart = 0
    for base in warps:
        apart |= base
    if apart.bit_count() != len(warps) or any(base & apart for base in others):
        return None
    return coalesced(on, pointers, mask, itemsize, apart=tuple(warps))


def _runs_across(layout: LinearLayout, order: list[int]) -> LinearLayout:
    """Let threads hold runs along the second axis, which warps would share out element by element.

    Such a tile lies turned in memory: neighbours go to lanes one by one. What lies side by side in
    a thread goes to shared memory, and comes from there, in vectors.
    """
    below = sum(layout.bits[order[1] + 1 :])
    along = {1 << below + bit for bit in range(layout.bits[order[1]])}
    register, warp = [*layout.flat("register")], [*layout.flat("warp")]
    free = sorted(base for base in (*register, *warp) if base in along)
    for bases in (register, warp):
        for place, base in enumerate(bases):
            if base in along:
                bases[place] = free.pop(0)
    flat = tuple(register), tuple(layout.flat("lane")), tuple(warp), ()
    return LinearLayout.from_flat(flat, layout.shape, layout.kind)


def _rank(stride: int | Form | None, facts: Affine) -> int:
    """Order strides: 1, other numbers, unknown, and axes along which nothing moves last.

    Of unknown ones a multiple of 16 is taken for the larger: extents are, more often than steps.
    """
    if stride == 1:
        return 0
    if stride == 0:
        return 1 << 40
    if isinstance(stride, int):
        return abs(stride)
    large = stride is not None and facts.divisor(stride) % 16 == 0
    return (1 << 30) + large


def default_layout(shape: tuple[int, ...], num_warps: int, lanes: int) -> LinearLayout:
    """Return a layout for a tile that touches no memory: rows over lanes, four side by side."""
    order = tuple(range(len(shape) - 1, -1, -1))
    padded = prod(1 << (e - 1).bit_length() for e in shape)
    vector = min(4, max(1, padded // (lanes * num_warps)), 1 << (shape[-1] - 1).bit_length())
    return blocked(shape, vector, order, num_warps, lanes)
