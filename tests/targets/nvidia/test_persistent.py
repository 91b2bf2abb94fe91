"""Blocks that stay for several programs: what they mean, what planted faults do, what is said."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.kernels import attention_forward, matmul
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.targets.nvidia.hazards import RaceError, simulate
from tests.targets.nvidia.persistent import (
    HEADS,
    SM_90A,
    attention_arguments,
    attention_before,
    attention_of,
    compiled,
    each_of,
    matmul_of,
    results,
    staying,
)
from tests.targets.nvidia.protocol import explore, record
from tests.targets.nvidia.test_odd_extents import staged, staged_arguments
from tests.targets.nvidia.test_ptx import needs_ptxas
from tests.targets.nvidia.test_specialised import planted
from workbench.interpreter.program import numbers_of
from workbench.ir import Module, Op, walk
from workbench.ops import For, ProgramId
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.source import LaunchError
from workbench.targets.nvidia import pipeline
from workbench.targets.nvidia.ops import Arrive, Await, Barriers, TensorCopy
from workbench.targets.nvidia.passes import roles
from workbench.targets.nvidia.pipeline import build
from workbench.targets.simt.ops import (
    BlockBarrier,
    SharedStore,
    is_persistent,
    roles_of,
)
from workbench.targets.simt.passes.shared_memory import allocate
from workbench.targets.simt.schedule import pipelines

# -- meaning --------------------------------------------------------------------------------------
#: Rows, columns, depth of a tile; warps; how operands lie in memory; tiles of the product.
SHAPES = [(64, 64, 16, 4, "nn", 2, 3), (128, 64, 32, 8, "nt", 1, 3), (64, 128, 16, 4, "tt", 5, 1)]


@pytest.mark.parametrize(("m", "n", "k", "warps", "kind", "rows", "columns"), SHAPES)
def test_blocks_that_stay_compute_what_others_did(
    m: int, n: int, k: int, warps: int, kind: str, rows: int, columns: int
):
    def arguments() -> list[Any]:
        return staged_arguments(m * rows, n * columns, 3 * k, kind)

    before, module = staged(m, n, k, warps, kind), matmul_of(m, n, k, warps, kind)
    grid = (rows * columns,)
    wanted = meaning(before, grid, arguments())
    for blocks in (0, 1, 2, 4):
        assert results(module, grid, arguments(), blocks) == wanted
    offsets, _, total = allocate(module, SM_90A)
    simulate(module, offsets, total, grid, arguments(), SM_90A, blocks=2)


@pytest.mark.parametrize("blocks", [1, 2, 3, 7, 8, 20])
def test_every_program_has_one_block(blocks: int):
    for total in range(30):
        numbers = [list(numbers_of(block, blocks, total)) for block in range(blocks + 1)]
        assert sorted(n for mine in numbers for n in mine) == list(range(total))
        assert all(mine == sorted(mine) for mine in numbers)
        assert max(map(len, numbers)) == -(-total // blocks)


def test_programs_that_grow_along_an_axis_are_shared_evenly():
    """Causal attention of 32 blocks of queries and 128 heads on 132 multiprocessors."""

    def most(numbers: Iterable[Iterable[int]]) -> float:
        return max(sum(number % 32 + 1 for number in mine) for mine in numbers) * 132 / (128 * 528)

    assert most(numbers_of(block, 132, 4096) for block in range(132)) < 1.04
    assert most(range(block, 4096, 132) for block in range(132)) > 1.1


@pytest.mark.parametrize("seed", range(1, 5))
def test_every_order_of_turns_gives_the_same(seed: int):
    m, n, k = 64, 64, 16
    for rounds in (1, 2, 5):
        wanted = meaning(staged(m, n, k, 4), (4,), staged_arguments(2 * m, 2 * n, rounds * k))
        arguments = staged_arguments(2 * m, 2 * n, rounds * k)
        assert results(matmul_of(m, n, k), (4,), arguments, 1, seed) == wanted


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_attention_goes_through_a_grid_of_two_axes(causal: bool, first: bool):
    """Tiles of the causal one have different numbers of rounds, in two loops on one ring."""
    grid, module = (2, HEADS), attention_of(causal, first=first)
    wanted = meaning(attention_before(causal), grid, attention_arguments())
    for blocks, seed in ((1, 0), (2, 1), (4, 2), (0, 3)):
        assert results(module, grid, attention_arguments(), blocks, seed) == wanted
    offsets, _, total = allocate(module, SM_90A)
    simulate(module, offsets, total, grid, attention_arguments(), SM_90A, blocks=1)


def whose(out_ptr, a_ptr, b_ptr, K, am, bk, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """Store which program of how many each tile is of, beside a product that says nothing."""
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    number = x + tl.num_programs(0) * (y + tl.num_programs(1) * z)
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, K, BK):
        at = start + inner
        a = tl.load(a_ptr + rows[:, None] * am + at[None, :], mask=at[None, :] < K, other=0.0)
        b = tl.load(b_ptr + at[:, None] * bk + columns[None, :], mask=at[:, None] < K, other=0.0)
        total = tl.dot(a, b, total)
    place = out_ptr + number * M * N + rows[:, None] * N + columns[None, :]
    tl.store(place, total * 0 + (x + 10 * y + 100 * z + 1000 * tl.num_programs(2)))


@pytest.mark.parametrize("blocks", [1, 2, 5, 24])
def test_programs_know_their_place_in_the_authors_grid(blocks: int):
    words = "*fp32:16 *fp16:16 *fp16:16 i32:16 i32:16 i32:16"
    extents = {"M": 64, "N": 16, "BK": 16}
    module = staying(tile_ir(whose, words, extents, num_warps=4, num_stages=2))
    grid, size = (2, 3, 4), 64 * 16
    out = np.zeros(24 * size, np.float32)
    a, b = numbers(64 * 32, np.float16), numbers(32 * 16, np.float16)
    results(module, grid, [out, a, b, 32, 32, 16], blocks)
    wanted = [x + 10 * y + 100 * z + 4000 for z in range(4) for y in range(3) for x in range(2)]
    assert np.array_equal(out.reshape(24, size), np.repeat([wanted], size, 0).T)


# -- the protocol ---------------------------------------------------------------------------------
@pytest.mark.parametrize("groups", [1, 2])
def test_the_protocol_holds_from_program_to_program(groups: int):
    m, n, k = 64 * groups, 64, 16
    module = matmul_of(m, n, k, 4 * groups)
    for rounds, tiles in ((1, 6), (2, 3), (3, 2)):
        arguments = staged_arguments(m * tiles, n, rounds * k)
        verdict, states = explore(record(module, arguments, groups, (tiles,)))
        assert verdict == "ok"
        assert states > 10


def test_the_protocol_of_a_producer_that_is_programs_ahead():
    """Four slots and one round each: it may have filled the rings of three programs beyond."""
    protocol = record(matmul_of(64, 64, 16), staged_arguments(64 * 5, 64, 16), 1, (5,))
    assert sum(step[0] == "copy" for step in protocol.producer) == 10
    assert explore(protocol)[0] == "ok"


def begins_anew(module: Module, role: str) -> Module:
    """Give a role the place that it had in its ring at first for each of its programs."""
    each = each_of(module, role)
    loop = next(op for op in each.body.ops if isinstance(op, For))
    swapped = dict(zip(each.body.arguments, each.inits, strict=True))
    inits = tuple(swapped.get(value, value) for value in loop.inits)
    assert inits != loop.inits
    return planted(module, lambda _, op: op.changed(inits=inits) if op.id == loop.id else None)


def parity_begins_anew(module: Module, role: str) -> Module:
    """Carry the slot on and not the parity."""
    end = each_of(module, role).body.terminator
    slot, _ = end.operands
    first = each_of(module, role).inits[1]
    return planted(
        module, lambda _, op: op.changed(values=(slot, first)) if op.id == end.id else None
    )


FAULTS = {
    "the producer begins anew": lambda module: begins_anew(module, "producer"),
    "the consumers begin anew": lambda module: begins_anew(module, "consumers"),
    "the producer's parity begins anew": lambda module: parity_begins_anew(module, "producer"),
    "the consumers' parity begins anew": lambda module: parity_begins_anew(module, "consumers"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_between_programs_is_found(fault: str):
    """Four slots, six rounds: the next program begins in the middle of a ring's second turn."""
    m, n, k = 64, 64, 16
    wrong = FAULTS[fault](matmul_of(m, n, k))
    arguments = staged_arguments(m * 3, n, 6 * k)
    verdict, _ = explore(record(wrong, arguments, 1, (3,)))
    assert verdict not in ("ok", "too many states")
    one = staged_arguments(m, n, 6 * k)  # which the first program alone does not show
    assert explore(record(wrong, one, 1))[0] == "ok"
    wanted = meaning(staged(m, n, k, 4), (3,), staged_arguments(m * 3, n, 6 * k))
    try:
        found, code = results(wrong, (3,), staged_arguments(m * 3, n, 6 * k), 1), None
    except LaunchError as error:
        found, code = wanted, error.code
    assert code == "K515" or found != wanted


def test_a_slot_that_is_kept_at_the_end_of_a_program_is_found():
    """Nothing that a program leaves undone is done for it later."""
    module = matmul_of(64, 64, 16)
    last = [op for op in each_of(module, "consumers").body.ops if isinstance(op, Arrive)][-1]
    wrong = planted(module, lambda _, op: () if op.id == last.id else None)
    protocol = record(wrong, staged_arguments(64 * 6, 64, 32), 1, (6,))
    assert explore(protocol)[0] == "deadlock"


@pytest.mark.parametrize("causal", [False, True])
def test_what_programs_use_one_after_the_other_is_guarded(causal: bool):
    """Without one of the barriers somebody reads or writes what another program's warps have."""
    module = attention_of(causal)
    offsets, _, total = allocate(module, SM_90A)
    body = each_of(module, "consumers").body
    barriers = [op for op in walk(body) if isinstance(op, BlockBarrier)]
    assert barriers
    found = 0
    for barrier in barriers:
        wrong = planted(module, lambda _, op, b=barrier: () if op.id == b.id else None)
        try:
            simulate(wrong, offsets, total, (2, 1), attention_arguments(), SM_90A, blocks=1)
        except RaceError:
            found += 1
    assert found == len(barriers)


# -- what is loaded before loops -----------------------------------------------------------------
@pytest.mark.parametrize("causal", [False, True])
def test_a_producer_brings_the_next_programs_queries(causal: bool):
    module = attention_of(causal, first=True)
    (q,) = (op for op in module.body.ops for v in _shared(op) if v.hint == "q")
    assert q.result.type.slots == 2  # of this program and of the next one
    each = each_of(module, "producer").body
    assert [type(op) for op in each.ops if isinstance(op, TensorCopy | For)][:2] == [
        TensorCopy,
        For,
    ]
    stored = [op for op in walk(each_of(module, "consumers").body) if isinstance(op, SharedStore)]
    assert not stored  # they lie where the copy left them
    verdict, states = explore(record(module, attention_arguments(), 1, (2, 2)))
    assert verdict == "ok"
    assert states > 10


def without(kind: type[Op], hint: str, role: str) -> Callable[[Module], Module]:
    """Return what takes away the ops of a role on the barriers of the queries."""

    def plant(module: Module) -> Module:
        *_, hold = (  # theirs come behind those of rings
            value
            for op in module.body.ops
            for value in op.results
            if isinstance(op, Barriers) and value.hint == hint
        )
        assert any(
            isinstance(op, kind) and op.barriers is hold for op in walk(each_of(module, role).body)
        )
        return planted(
            module,
            lambda _, op: () if isinstance(op, kind) and op.barriers is hold else None,
        )

    return plant


HELD_FAULTS = {
    "queries are not waited for": without(Await, "full", "consumers"),
    "queries are not given back": without(Arrive, "empty", "consumers"),
    "the next queries come at once": without(Await, "empty", "producer"),
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("fault", HELD_FAULTS)
def test_a_planted_fault_of_what_is_loaded_first_is_found(
    fault: str, causal: bool, monkeypatch: pytest.MonkeyPatch
):
    """In one slot, read in all rounds: those of two programs, read once, come late enough."""
    monkeypatch.setattr(roles, "_PROGRAMS", 1)
    module = staying(attention_before(causal), loads_first=True, keep_operands=False)
    wrong = HELD_FAULTS[fault](module)
    verdict, _ = explore(record(wrong, attention_arguments(), 1, (2, 1)))
    assert verdict not in ("ok", "too many states")


@needs_ptxas
def test_what_is_loaded_first_leaves_two_slots(monkeypatch: pytest.MonkeyPatch):
    """Queries, two slots of keys and values, and what a store is converted in."""
    sizes = {"HEAD": 128, "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_D": 128, "CAUSAL": False,
             "EVEN": True}  # fmt: skip
    words = "*fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp32:16 fp32 " + "i32:16 i32:16 i32:16 i32=1 " * 4
    before = tile_ir(
        attention_forward.attention, f"{words}i32:16 i32:16 i32:16 i32:16", sizes, num_warps=8,
        num_stages=2,
    )  # fmt: skip
    recorder, real, taken = Recorder(), pipeline._gpu_passes, list[Module]()

    def counted(module: Module, *others: Any) -> Module:
        taken.append(module)
        return real(module, *others)

    monkeypatch.setattr(pipeline, "_gpu_passes", counted)
    options = {**before.attributes, "narrow_index": True}
    built = build(tile_passes(replace(before, attributes=options), recorder), "sm_90a", recorder)
    told = [
        r.text
        for r in recorder.remarks.items
        if r.pass_name in ("role-partition", "overlap-products")
    ]
    assert len(taken) == 1  # what lies beside rings is counted before they get their slots
    assert told[0].startswith("persistent: ")
    assert "65,536 bytes loaded first" in told[1]
    assert "ring of 2 x 65,536 bytes" in told[1]
    assert told[2].startswith("started beside the first product")
    assert built.shared_bytes <= 232_448
    assert built.assemble().resources.spill_store_bytes == 0


def scaled(out_ptr, q_ptr, k_ptr, K, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    """What a product reads is computed of what is loaded first."""
    rows, columns, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    q = tl.load(q_ptr + (tl.program_id(0) * M + rows)[:, None] * D + d[None, :]) * 2.0
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, K, N):
        at = start + columns
        k = tl.load(k_ptr + at[None, :] * D + d[:, None], mask=at[None, :] < K, other=0.0)
        total += tl.dot(q.to(tl.float16), k)
    tl.store(out_ptr + (tl.program_id(0) * M + rows)[:, None] * N + columns[None, :], total)


def test_what_is_computed_is_loaded_by_those_who_compute():
    extents = {"M": 64, "N": 64, "D": 64}
    before = tile_ir(scaled, "*fp32:16 *fp16:16 *fp16:16 i32:16", extents, num_warps=4)
    module = staying(before, loads_first=True)
    assert {v.type.slots for op in module.body.ops for v in _shared(op)} == {4}

    def arguments() -> list[Any]:
        q, k = numbers(192 * 64, np.float16), numbers(128 * 64, np.float16, 2)
        return [np.zeros(192 * 64, np.float32), q, k, 128]

    assert results(module, (3,), arguments(), 2) == meaning(before, (3,), arguments())


# -- shared memory --------------------------------------------------------------------------------
def test_nothing_else_lies_where_rings_are():
    """They are filled for the next program while this one ends."""
    module = attention_of(True)
    _, intervals, _ = allocate(module, SM_90A)
    rings = {op.id for op in module.body.ops if any(v.type.slots for v in _shared(op))}
    taken = [(i.offset, i.offset + i.bytes) for i in intervals if i.op in rings]
    others = [i for i in intervals if i.op not in rings]
    assert len(taken) == 6
    assert others
    for one in others:
        assert all(one.offset + one.bytes <= low or high <= one.offset for low, high in taken)


def _shared(op: Op) -> list[Any]:
    return [v for v in op.results if hasattr(v.type, "slots")]


@needs_ptxas
@pytest.mark.parametrize(
    ("m", "n", "warps", "slots", "most"), [(128, 256, 8, 4, 232_448), (128, 128, 4, 3, 115_712)]
)
def test_stores_leave_rings_their_slots_and_blocks_their_place(
    m: int, n: int, warps: int, slots: int, most: int
):
    """What a store is converted in takes what is left, in several rounds."""
    before = staged(m, n, 64, warps)
    built, told = compiled(before)
    assert told == [
        "persistent: as many blocks as the device holds stay for one program after the other, "
        "if these are at most 32 for each: each reads another part of what a is loaded from than "
        "the one before, and blocks that get apart lose the cache"
    ]
    assert built.shared_bytes <= most
    assert built.gpu is not None
    assert {v.type.slots for op in built.gpu.body.ops for v in _shared(op)} == {slots}
    once, _ = compiled(before, persistent=False)
    assert built.threads == once.threads
    resources, others = built.assemble().resources, once.assemble().resources
    assert resources.spill_store_bytes == 0
    assert resources.occupancy == others.occupancy


def test_blocks_go_where_rings_leave_nothing_for_stores(monkeypatch: pytest.MonkeyPatch):
    """Two slots fit a smaller chip, and where blocks go a store is converted in their place."""
    small = replace(SM_90A, shared_bytes=70_000)
    monkeypatch.setattr(pipeline, "chip", lambda name: small)
    words = "*fp16:16 *fp16:16 *fp16:16 i32:16 i32:16 i32:16 i32:16 i32=1 i32:16 i32=1 i32:16 i32=1"
    blocks = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP_M": 2, "ACTIVATION": ""}
    before = tile_ir(matmul.matmul, words, blocks, num_warps=4, num_stages=2)
    built, told = compiled(before)
    assert told == [
        "not persistent: rings do not fit shared memory beside what else a program keeps there"
    ]
    assert built.gpu is not None
    assert roles_of(built.gpu) is not None
    assert not is_persistent(built.gpu)
    assert built.shared_bytes <= 70_000


# -- what is written ------------------------------------------------------------------------------
def test_the_code_takes_the_grid_behind_its_arguments():
    built, _ = compiled(staged(64, 64, 16, 4))
    made = built.extra["made"]
    count = len(staged(64, 64, 16, 4).parameters)
    assert [one["inputs"] for one in made[: count + 3]] == [(n,) for n in range(count + 3)]
    assert all("maker" in one for one in made[count + 3 :])
    assert built.extra["persistent"] == 32
    text = built.texts["llvm"]().text
    head = next(row for row in text.splitlines() if row.startswith("define ptx_kernel"))
    assert re.search(r"i32 %grid0, i32 %grid1, i32 %grid2, ptr.*%map0", head)


def test_without_the_option_blocks_go():
    built, told = compiled(staged(64, 64, 16, 4), persistent=False)
    assert told == []
    assert "persistent" not in built.extra
    assert built.gpu is not None
    assert roles_of(built.gpu) is not None
    assert not is_persistent(built.gpu)


def test_the_producer_computes_what_follows_from_a_programs_number():
    module = matmul_of(64, 64, 16)
    assert not [op for op in module.body.ops if isinstance(op, ProgramId)]
    for role in ("producer", "consumers"):
        assert [op for op in each_of(module, role).body.ops if isinstance(op, ProgramId)]


def test_the_schedule_of_a_round_is_the_same():
    before = staged(64, 64, 16, 4)
    ways = [compiled(before, tma_stores=False, **how)[0] for how in ({"persistent": False}, {})]
    both = [pipelines(found.gpu, SM_90A.rules) for found in ways]

    def steps(found: Any) -> list[Any]:
        (one,) = found
        words = re.compile(r"\.\d+|%\d+")
        return [(s.kind, s.phase, s.role, s.stage, words.sub("", s.text)) for s in one.steps]

    assert steps(both[0]) == steps(both[1])
