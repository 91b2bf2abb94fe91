"""Plans for convert_layout: how each thread gets the elements that its new layout asks for.

A plan is plain data; a target turns it into instructions. There are three
kinds, from cheap to dear, by the level of the gather map (see gather.py):

    RegisterPlan   the thread has them: new names, no instruction
    ShufflePlan    the warp has them: rounds of shuffles (shuffles.py)
    SharedPlan     the block has them: a store, a barrier and a load (staging.py)

Within a warp both of the latter are possible, and the cheaper one is taken.
Costs are in cycles of one SM for all warps of the block: a wavefront
and a shuffle of a warp cost 1, a select or byte permute 0.5, a barrier 30, a
barrier within a warp 10.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

from workbench.layouts import f2
from workbench.layouts.gather import Gather, classify
from workbench.layouts.linear import LinearLayout
from workbench.layouts.predict import BANKS, Banks
from workbench.layouts.shuffles import Round, ShufflePlan, plan_shuffles
from workbench.layouts.staging import (
    WARP_BARRIER_CYCLES,
    SharedAccess,
    SharedInstruction,
    SharedPlan,
    plan_staging,
)

__all__ = [
    "Gather",
    "Plan",
    "RegisterPlan",
    "Round",
    "SharedAccess",
    "SharedInstruction",
    "SharedPlan",
    "ShufflePlan",
    "classify",
    "plan_convert",
]


@dataclass(frozen=True, slots=True)
class RegisterPlan:
    """A conversion inside each thread: sources[r] is the source register of register r.

    None for a dead register, which no one reads.
    """

    sources: tuple[int | None, ...]
    cost: float = 0.0


Plan = RegisterPlan | ShufflePlan | SharedPlan


@lru_cache(2048)
def plan_convert(
    source: LinearLayout,
    target: LinearLayout,
    bits: int,
    scratch_limit: int | None = None,
    banks: Banks = BANKS,
) -> Plan:
    """Return the cheapest way from `source` to `target` for elements of `bits` bits.

    scratch_limit bounds the shared memory in bytes where that can be done, in
    rounds. Raises ValueError for different shapes or numbers of threads, and for a
    conversion between the blocks of a cluster.

    >>> row = LinearLayout({"register": [(1,)], "lane": [(2,), (4,), (8,), (16,), (32,)]}, (64,))
    >>> column = LinearLayout({"register": [(32,)], "lane": [(1,), (2,), (4,), (8,), (16,)]}, (64,))
    >>> plan_convert(row, row, 32)
    RegisterPlan(sources=(0, 1), cost=0.0)
    >>> len(plan_convert(row, column, 32).rounds)
    2
    """
    for threads in ("lane", "warp"):
        if source.size(threads) != target.size(threads):
            raise ValueError(
                f"cannot convert from {source.size(threads)} to {target.size(threads)} {threads}s; "
                "expected the same number"
            )
    packed_source, source_bits = source.compact()
    packed_target, target_bits = target.compact()
    gather = classify(packed_source, packed_target)
    if gather.level > 2:
        raise ValueError(
            f"conversion from {source} to {target} moves data between blocks of a cluster; "
            "expected the same cta bases"
        )
    source_names = f2.table(1 << bit for bit in source_bits)
    live = target.live_registers()
    if gather.level == 0 and _is_renaming(gather, len(source_bits)):
        inner = f2.table(gather.places[0])
        named: list[int | None] = [None] * target.registers()
        for register, packed in _packed_registers(target, target_bits, live):
            named[register] = source_names[inner[packed]]
        return RegisterPlan(tuple(named))
    best: ShufflePlan | SharedPlan | None = None
    if gather.level < 2:
        best = plan_shuffles(packed_source, packed_target, gather, bits)
    if best is None or best.cost > WARP_BARRIER_CYCLES:
        staged = plan_staging(packed_source, packed_target, gather, bits, scratch_limit, banks)
        if best is None or staged.cost < best.cost:
            best = staged
    pairs = _packed_registers(target, target_bits, live)
    if isinstance(best, ShufflePlan):
        return _rename_shuffles(best, source_names, pairs, target.registers())
    target_names = f2.table(1 << bit for bit in target_bits)
    return _rename_staging(best, source_names, target_names, pairs)


def _is_renaming(gather: Gather, source_bits: int) -> bool:
    # No lane, warp or block changes which register it takes.
    mask = (1 << source_bits) - 1
    return not any(place & mask for places in gather.places[1:] for place in places)


def _packed_registers(
    layout: LinearLayout, kept: tuple[int, ...], live: tuple[int, ...]
) -> list[tuple[int, int]]:
    """Return (register, register of the compact layout with the same elements) for live ones."""
    if len(kept) == len(layout.dims[0]):
        return [(register, register) for register in live]
    pivots, _ = f2.echelon(layout.dims[0][bit] for bit in kept)
    columns = [f2.solve(pivots, flat) or 0 for flat in layout.dims[0]]
    packed = f2.table(columns)
    return [(register, packed[register]) for register in live]


def _rename_shuffles(
    plan: ShufflePlan, names: list[int], pairs: list[tuple[int, int]], registers: int
) -> ShufflePlan:
    filed: list[tuple[int, int] | None] = [None] * registers
    for register, packed in pairs:
        filed[register] = plan.filed[packed]
    words = tuple(tuple(names[register] for register in word) for word in plan.words)
    return replace(plan, words=words, filed=tuple(filed))


def _rename_staging(
    plan: SharedPlan, source: list[int], target: list[int], pairs: list[tuple[int, int]]
) -> SharedPlan:
    copies = tuple((r, target[packed]) for r, packed in pairs if target[packed] != r)
    return replace(
        plan,
        store=_rename_access(plan.store, source),
        load=_rename_access(plan.load, target),
        copies=copies,
    )


def _rename_access(access: SharedAccess, names: list[int]) -> SharedAccess:
    if names == list(range(len(names))):
        return access
    rounds = tuple(
        tuple(
            SharedInstruction(
                step.offset, tuple(None if r is None else names[r] for r in step.registers)
            )
            for step in steps
        )
        for steps in access.rounds
    )
    return replace(access, rounds=rounds)
