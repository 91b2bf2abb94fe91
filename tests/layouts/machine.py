"""A machine that runs conversion plans on element names, and raises where they are wrong."""

from itertools import product

from workbench.layouts import f2
from workbench.layouts.convert import (
    Plan,
    RegisterPlan,
    SharedAccess,
    SharedInstruction,
    SharedPlan,
    ShufflePlan,
)
from workbench.layouts.linear import LinearLayout
from workbench.layouts.predict import phases, wavefronts

Held = list[list[list[int | None]]]  # [warp][lane][register] -> flat element


def held(layout: LinearLayout) -> Held:
    register, lane, warp = (layout.table(name) for name in ("register", "lane", "warp"))
    return [[[w ^ a ^ r for r in register] for a in lane] for w in warp]


def is_real(layout: LinearLayout, flat: int) -> bool:
    return all(c < e for c, e in zip(layout.unflatten(flat), layout.shape, strict=True))


def run(plan: Plan, source: LinearLayout, target: LinearLayout, itemsize: int) -> Held:
    match plan:
        case RegisterPlan():
            return [
                [[None if s is None else lane[s] for s in plan.sources] for lane in warp]
                for warp in held(source)
            ]
        case ShufflePlan():
            return run_shuffles(plan, source, target)
        case SharedPlan():
            return run_staging(plan, source, target, itemsize)


def check(plan: Plan, source: LinearLayout, target: LinearLayout, itemsize: int) -> None:
    """Every live register of every thread ends with its element, holes aside."""
    check_held(run(plan, source, target, itemsize), target)


def check_held(found: Held, target: LinearLayout) -> None:
    wanted = held(target)
    live = target.live_registers()
    for warp, lane in product(range(target.size("warp")), range(32)):
        for register in live:
            element = wanted[warp][lane][register]
            if is_real(target, element):
                assert found[warp][lane][register] == element, (warp, lane, register)


def run_shuffles(plan: ShufflePlan, source: LinearLayout, target: LinearLayout) -> Held:
    result: Held = []
    for warp, threads in enumerate(held(source)):
        add_source, add_offer = f2.apply(plan.warp_source, warp), f2.apply(plan.warp_offer, warp)
        received: list[dict[int, list[int]]] = [{} for _ in range(32)]
        for step in plan.rounds:
            words = [
                plan.words[f2.apply(plan.offer, lane) ^ step.word ^ add_offer] for lane in range(32)
            ]
            offered = [[threads[lane][r] for r in words[lane]] for lane in range(32)]
            for lane in range(32):
                reads = f2.apply(plan.source, lane) ^ step.lane ^ add_source
                if plan.is_local(step):
                    assert reads == lane
                received[lane][f2.apply(plan.file, lane) ^ step.index] = offered[reads]
        result.append(
            [
                [None if to is None else received[lane][to[0]][to[1]] for to in plan.filed]
                for lane in range(32)
            ]
        )
    return result


def addresses(access: SharedAccess, warp: int, offset: int) -> list[int]:
    return [
        f2.apply(access.lane, lane) ^ f2.apply(access.warp, warp) ^ offset for lane in range(32)
    ]


def swaps(access: SharedAccess, warp: int) -> list[int]:
    return [
        f2.apply(access.lane_swap, lane) ^ f2.apply(access.warp_swap, warp) for lane in range(32)
    ]


def run_staging(
    plan: SharedPlan, source: LinearLayout, target: LinearLayout, itemsize: int
) -> Held:
    return run_rounds(plan, held(source), target.registers(), itemsize)


def run_words(
    plan: SharedPlan, source: LinearLayout, target: LinearLayout, itemsize: int, each: int
) -> Held:
    """Run a plan of words, which hold so many elements of neighbouring registers."""

    def words(thread: list) -> list:
        return [tuple(thread[i : i + each]) for i in range(0, len(thread), each)]

    before = [[words(thread) for thread in warp] for warp in held(source)]
    after = run_rounds(plan, before, target.registers() // each, itemsize * each)
    dead = (None,) * each
    return [[[one for w in thread for one in w or dead] for thread in warp] for warp in after]


def run_rounds(plan: SharedPlan, before: list, registers: int, itemsize: int) -> list:
    waves = [0, 0]
    warps = range(len(before))
    after: list = [[[None] * registers for _ in range(32)] for _ in warps]
    for stores, loads in zip(plan.store.rounds, plan.load.rounds, strict=True):
        memory: dict[int, tuple[int, int]] = {}  # byte -> (element, warp that wrote it)
        for warp, step in product(warps, stores):
            waves[0] += store(plan, warp, step, before[warp], memory, itemsize)
        for warp, step in product(warps, loads):
            waves[1] += load(plan, warp, step, after[warp], memory, itemsize)
    assert waves == [plan.store.wavefronts, plan.load.wavefronts]
    for thread in (thread for warp in after for thread in warp):
        for copy, original in plan.copies:
            thread[copy] = thread[original]
    return after


def moves(access: SharedAccess, warp: int, step: SharedInstruction, itemsize: int):
    """Yield (lane, byte, register) for each element of one instruction."""
    at, swap = addresses(access, warp, step.offset), swaps(access, warp)
    for lane, position in product(range(32), range(access.vector)):
        register = step.registers[position ^ swap[lane]]
        if register is not None:
            yield lane, at[lane] + position * itemsize, register


def store(plan, warp, step, threads, memory, itemsize):
    if not warp & plan.owner_warps:
        for lane, byte, register in moves(plan.store, warp, step, itemsize):
            element = threads[lane][register]
            assert 0 <= byte <= plan.scratch_bytes - itemsize
            assert memory.setdefault(byte, (element, warp))[0] == element, "place taken"
    return conflict_free(addresses(plan.store, warp, step.offset), itemsize * plan.store.vector)


def load(plan, warp, step, threads, memory, itemsize):
    for lane, byte, register in moves(plan.load, warp, step, itemsize):
        element, writer = memory.get(byte, (None, warp))
        assert plan.barrier == "cta" or writer == warp, "reads another warp's data"
        threads[lane][register] = element
    return conflict_free(addresses(plan.load, warp, step.offset), itemsize * plan.load.vector)


def conflict_free(at: list[int], size: int) -> int:
    assert all(address % size == 0 for address in at), "misaligned vector"
    found = wavefronts(at, size)
    assert found == phases(size), "bank conflict"
    return found
