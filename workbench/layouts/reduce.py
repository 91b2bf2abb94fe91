"""Reductions along an axis, as masks over places, for any layout.

Let r be the layout with the axis projected away: places with equal r hold
elements of the same row. So the places that have to be combined differ by the
kernel of r; but where they differ by the kernel of the layout itself they hold
the same element, which must not be counted twice. Masks are therefore a basis
of ker r modulo ker L. After

    acc[place] = op(acc[place], acc[place ^ mask])        for each mask in turn

every place holds the total of its row. The basis is chosen so that the cheap
masks come first: within a thread, within a warp (one shuffle for each register
that is left), then across warps (one round through shared memory).
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from workbench.layouts import f2
from workbench.layouts.linear import LinearLayout


@dataclass(frozen=True, slots=True)
class Mask:
    """A step of a reduction: combine with the place that differs by these bits.

    register counts registers of the result, so 0 means the same register.
    """

    register: int
    lane: int
    warp: int = 0
    cta: int = 0


@dataclass(frozen=True, slots=True)
class ReducePlan:
    """The three stages of a reduction and the layout that holds its result.

    1. For each register of `result`: combine the source registers groups[register].
    2. For each of lane_masks: combine each register with a shuffle of it.
    3. For each of warp_masks: the same through shared memory.

    Holes must have been replaced by the identity of the operation before.
    """

    result: LinearLayout
    groups: tuple[tuple[int, ...], ...]
    lane_masks: tuple[Mask, ...]
    warp_masks: tuple[Mask, ...]


@lru_cache(1024)
def reduce_plan(layout: LinearLayout, axis: int) -> ReducePlan:
    """Return how to reduce a tile with this layout along `axis`.

    The result layout is the layout without the axis, and without the registers
    that would only be copies; its unit masks in lanes and warps are replicated.

    >>> row = LinearLayout({"register": [(0, 1)], "lane": [(0, 2), (1, 0)]}, (2, 4))
    >>> plan = reduce_plan(row, 1)
    >>> plan.groups, [mask.lane for mask in plan.lane_masks], str(plan.result)
    (((0, 1),), [1], 'linear<2, lane=[0,1]>')
    """
    rows = layout.slice_axis(axis)
    result, kept = rows.compact()
    counts = list(accumulate(map(len, layout.dims)))
    known = list(layout.kernel())
    stages: list[list[int]] = []
    for count in (counts[0], counts[1], counts[3]):
        found = f2.extend(known, f2.kernel(rows.columns[:count]))
        stages.append(found)
        known += found
    done = [f2.reduced_echelon(f2.kernel(rows.columns[:count])) for count in counts[:2]]
    inside = f2.table(stages[0])
    live = set(layout.live_registers())
    places = f2.table(1 << bit for bit in kept)
    groups = (tuple(place ^ mask for mask in inside if place ^ mask in live) for place in places)

    def mask(place: int, equal: dict[int, int]) -> Mask:
        # Places that differ by an earlier mask hold the same by now: take the simplest.
        split = layout.place(f2.reduce_modulo(equal, place))
        register = sum((split["register"] >> bit & 1) << i for i, bit in enumerate(kept))
        return Mask(register, split["lane"], split["warp"], split["cta"])

    return ReducePlan(
        result,
        tuple(groups),
        tuple(mask(place, done[0]) for place in stages[1]),
        tuple(mask(place, done[1]) for place in stages[2]),
    )
