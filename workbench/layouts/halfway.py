"""A layout between two others, for conversions that need more scratch than there is.

A conversion goes through shared memory in rounds as far as both sides have registers in common
that no thread index decides (staging.py). A transposition of a large tile has too few: what are
registers on one side are threads on the other. Between them stands a layout that takes half of
its thread bits from each side; each half of the way then has registers in common.
"""

from __future__ import annotations

from workbench.layouts import f2
from workbench.layouts.convert import plan_convert
from workbench.layouts.linear import LinearLayout
from workbench.layouts.predict import BANKS, Banks
from workbench.layouts.staging import SharedPlan


def halfway(
    source: LinearLayout,
    target: LinearLayout,
    bits: int,
    scratch_limit: int,
    banks: Banks = BANKS,
) -> LinearLayout | None:
    """Return a layout through which the conversion needs the least scratch.

    None where no layout between them needs less than the direct way.
    """

    def scratch(before: LinearLayout, after: LinearLayout) -> int:
        plan = plan_convert(before, after, bits, scratch_limit, banks)
        return plan.scratch_bytes if isinstance(plan, SharedPlan) else 0

    best, least = None, scratch(source, target)
    for number in range(1, len(source.flat("lane")) + len(source.flat("warp"))):
        for from_end in (False, True):
            middle = _mixed(source, target, number, from_end)
            needed = max(scratch(source, middle), scratch(middle, target))
            if needed < least:
                best, least = middle, needed
        if best is not None and least <= scratch_limit:
            return best
    return best


def _mixed(source: LinearLayout, target: LinearLayout, number: int, from_end: bool) -> LinearLayout:
    """Return a layout with `number` of the target's thread bits and the others of the source.

    Registers hold what is left, first of all what registers of both sides hold.
    """
    lanes = len(source.flat("lane"))
    old = [*source.flat("lane"), *source.flat("warp")]
    new = [*target.flat("lane"), *target.flat("warp")]
    taken = range(len(old) - number, len(old)) if from_end else range(number)
    threads: list[int] = []
    for place, (a, b) in enumerate(zip(old, new, strict=True)):
        column = b if place in taken else a
        # A column that others add up to would make copies; the other side's may not.
        other = a if place in taken else b
        free = [c for c in (column, other) if f2.extend(threads, [c])]
        threads.append(free[0] if free else 0)
    here, there = source.flat("register"), target.flat("register")
    pool = [*f2.intersection(here, there), *here, *there, *f2.units(source.tile_bits)]
    registers = f2.extend(threads, pool)
    columns = tuple(registers), tuple(threads[:lanes]), tuple(threads[lanes:]), source.flat("cta")
    return LinearLayout.from_flat(columns, source.shape, "halfway")
