"""When blocks stay for several programs, asked for and unasked, and what authors are told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps
from tests.targets.nvidia.persistent import (
    HEADS,
    OPTIONS,
    SM_90A,
    attention_arguments,
    attention_before,
    compiled,
    each_of,
    last_of,
    matmul_of,
    results,
)
from tests.targets.nvidia.test_odd_extents import staged
from tests.targets.nvidia.test_specialised import planted
from workbench.ir import Builder, InvalidModuleError, Module
from workbench.launch.options import check_options
from workbench.ops import For, ProgramId
from workbench.passes.manager import Recorder, Remarks
from workbench.passes.narrow_index import narrow_index
from workbench.passes.pipeline import tile_passes
from workbench.source import KernelTypeError, OptionError
from workbench.targets.nvidia.chip import Chip
from workbench.targets.nvidia.ops import TensorLoad
from workbench.targets.nvidia.passes.roles import role_partition
from workbench.targets.nvidia.pipeline import _gpu_passes
from workbench.targets.simt.kernel import lower
from workbench.targets.simt.ops import (
    is_persistent,
    most_rounds,
    roles_of,
)
from workbench.targets.simt.passes.shared_memory import allocate
from workbench.targets.simt.verifier import verify_layouts


# -- what is decided ------------------------------------------------------------------------------
def counted(a_ptr, b_ptr, c_ptr, n_ptr, K, am, bk, M: tl.constexpr, N: tl.constexpr,
            BK: tl.constexpr, HOW: tl.constexpr):  # fmt: skip
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, K, BK):
        at = start + inner
        a = tl.load(a_ptr + rows[:, None] * am + at[None, :], mask=at[None, :] < K, other=0.0)
        b = tl.load(b_ptr + at[:, None] * bk + columns[None, :], mask=at[:, None] < K, other=0.0)
        total = tl.dot(a, b, total)
    place = c_ptr + tl.program_id(0) * M * N + rows[:, None] * N + columns[None, :]
    if HOW == "sums":
        tl.atomic_add(place, total)
    elif HOW == "ticket":
        tl.store(place, total)
        tl.atomic_add(n_ptr, 1, sem="release")
    elif HOW == "block":
        mine = tl.inline_asm_elementwise(
            "mov.u32 $0, %ctaid.x;", "=r", [], dtype=tl.int32, is_pure=True, pack=1
        )
        tl.store(place, total + mine)
    else:
        tl.store(place, total)


REASONS = {
    "sums": "not persistent: tile.atomic waits for other programs or signals to them",
    "ticket": "not persistent: tile.atomic waits for other programs or signals to them",
    "block": "not persistent: tile.inline_asm asks which block it is in",
}


@pytest.mark.parametrize("how", ["store", *REASONS])
def test_blocks_stay_where_nobody_could_tell(how: str):
    words = "*fp16:16 *fp16:16 *fp32:16 *i32 i32:16 i32:16 i32:16"
    extents = {"M": 64, "N": 64, "BK": 16, "HOW": how}
    built, told = compiled(tile_ir(counted, words, extents, num_warps=4, num_stages=2))
    assert built.gpu is not None
    assert roles_of(built.gpu) is not None
    assert is_persistent(built.gpu) == (how not in REASONS)
    if how in REASONS:
        assert told == [REASONS[how]]


def test_blocks_stay_only_where_warps_part():
    built, told = compiled(staged(64, 64, 16, 4), warp_specialize=False)
    assert told == ["not persistent: the warps of a block do not part"]
    assert built.gpu is not None
    assert not is_persistent(built.gpu)


def test_a_number_is_no_programs_beside_the_programs():
    """It would be the block's: the verifier says so, and whoever writes code of it."""
    module = matmul_of(64, 64, 16)
    verify_layouts(module, SM_90A)
    builder = Builder(module.next_id)
    with builder.block() as more:
        builder.add(ProgramId(axis=0))
    body = replace(module.body, ops=(*more, *module.body.ops))
    wrong = replace(module, body=body, next_id=builder.next_id)
    with pytest.raises(InvalidModuleError, match="stands outside of what is run for each program"):
        verify_layouts(wrong, SM_90A)
    build_of = lower(module, SM_90A, allocate(module, SM_90A)[0])
    with pytest.raises(InvalidModuleError, match="asked for where there is none"):
        build_of.program(0)


def test_what_is_carried_has_one_type():
    each = each_of(matmul_of(64, 64, 16), "consumers")
    with pytest.raises(KernelTypeError, match=r"gpu.each_program carries \(i32\) in, \(i32, i32\)"):
        each.changed(inits=each.inits[:1])


def test_what_is_loaded_first_is_no_box_where_loops_have_none():
    """Rows of keys lie at odd places: their loop copies nothing, so queries have no producer."""
    extents = {"M": 64, "N": 64, "D": 64}
    before = tile_ir(scores, "*fp32:16 *fp16:16 *fp16 i32:16", extents, num_warps=4)
    raised = dict(gpu_steps(last_of(before), SM_90A, **OPTIONS, loads_first=True))["raise-tma"]
    assert not [op for op in raised.walk() if isinstance(op, TensorLoad)]
    built, told = compiled(before, loads_first=True)
    assert told == ["not persistent: the warps of a block do not part"]
    assert built.gpu is not None
    assert roles_of(built.gpu) is None


def scores(out_ptr, q_ptr, k_ptr, K, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    rows, columns, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    q = tl.load(q_ptr + (tl.program_id(0) * M + rows)[:, None] * D + d[None, :])
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, K, N):
        at = start + columns
        k = tl.load(k_ptr + at[None, :] * D + d[:, None], mask=at[None, :] < K, other=0.0)
        total += tl.dot(q, k)
    tl.store(out_ptr + (tl.program_id(0) * M + rows)[:, None] * N + columns[None, :], total)


# -- unasked -------------------------------------------------------------------------------------
#: A chip with room for one block of small tiles.
SMALL = replace(SM_90A, shared_bytes=9_000, multiprocessor_shared_bytes=10_000)
LONG_LOOP = "not persistent: how long a loop runs follows from tile.load: "


def unasked(module: Module, unit: Chip = SMALL, **options: object) -> list[tuple[str, Module]]:
    """Return what each pass makes of a kernel of which nobody says that blocks stay."""
    return list(gpu_steps(last_of(module), unit, narrow_index=True, **options))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_stays_unasked_where_a_block_is_alone(causal: bool):
    before = attention_before(causal)
    steps = dict(unasked(before))
    q = [op for op in steps["raise-tma"].body.ops if isinstance(op, TensorLoad)]
    assert len(q) == 1
    module = [*steps.values()][-1]
    assert is_persistent(module)
    grid, wanted = (2, HEADS), meaning(before, (2, HEADS), attention_arguments())
    for blocks, seed in ((1, 0), (4, 2), (0, 3)):
        assert results(module, grid, attention_arguments(), blocks, seed) == wanted


@pytest.mark.parametrize("options", [{"persistent": False}, {"loads_first": False}])
def test_what_is_loaded_first_is_no_box_where_nobody_brings_it(options: dict[str, object]):
    before = attention_before(causal=True)
    steps = dict(unasked(before, **options))
    assert not [op for op in steps["raise-tma"].body.ops if isinstance(op, TensorLoad)]
    module = [*steps.values()][-1]
    assert is_persistent(module) == ("persistent" not in options)
    wanted = meaning(before, (2, HEADS), attention_arguments())
    assert results(module, (2, HEADS), attention_arguments(), 2) == wanted


def test_beside_other_blocks_attention_goes():
    """Their programs fill the time between its own; asked for, blocks stay anyway."""
    before = attention_before(causal=False)
    steps = dict(unasked(before, SM_90A))
    assert roles_of([*steps.values()][-1]) is None
    built, told = compiled(before, persistent=None)
    assert told == [
        "not persistent: other blocks on its multiprocessor fill the time between programs"
    ]
    assert built.gpu is not None
    assert roles_of(built.gpu) is not None
    assert not is_persistent(built.gpu)
    built, (told,) = compiled(before)
    assert told.startswith("persistent: ")
    assert built.extra["persistent"] == 2**31 - 1


def lengths(a_ptr, b_ptr, c_ptr, k_ptr, K, am, bk, M: tl.constexpr, N: tl.constexpr,
            BK: tl.constexpr):  # fmt: skip
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    end, total = tl.load(k_ptr + tl.program_id(0)), tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, K, BK):
        at = start + inner
        a = tl.load(a_ptr + rows[:, None] * am + at[None, :])
        b = tl.load(b_ptr + at[:, None] * bk + columns[None, :])
        total = tl.dot(a, b, total)
    place = c_ptr + tl.program_id(0) * M * N + rows[:, None] * N + columns[None, :]
    tl.store(place, total + end)


#: What is asked for, for how many programs blocks stay, whether they draw them.
READ = [
    ({}, 0, False),
    ({"persistent": True}, 2**31 - 1, True),
    ({"persistent": True, "tickets": False}, 32, False),
]


@pytest.mark.parametrize(("asked", "rounds", "drawn"), READ)
def test_programs_whose_lengths_are_read_stay_where_asked(
    asked: dict[str, bool], rounds: int, drawn: bool
):
    """No source leads there yet: where such a loop's boxes begin nobody can tell a launch."""
    words = "*fp16:16 *fp16:16 *fp32:16 *i32 i32:16 i32:16 i32:16"
    module = tile_ir(lengths, words, {"M": 64, "N": 64, "BK": 16}, num_warps=4, num_stages=2)
    raised = dict(unasked(module, SM_90A, warp_specialize=True))["raise-tma"]
    (end,) = (v for op in raised.body.ops for v in op.results if v.hint == "end")
    raised = planted(raised, lambda _, op: op.changed(upper=end) if isinstance(op, For) else None)
    raised = replace(raised, attributes={**raised.attributes, **asked})
    remarks = Remarks()
    found = role_partition(raised, remarks, SM_90A)
    (loop,) = (op for op in found.body.ops if isinstance(op, For))
    schedule = dict(loop.schedule)
    assert (schedule.get("persistent", 0), "drawn" in schedule) == (rounds, drawn)
    told = [item.text for item in remarks.items if "persistent" in item.text or "draw" in item.text]
    said = "32 for each: how long a loop runs follows from tile.load" if asked else LONG_LOOP
    said = "blocks draw the programs that they take: how long a loop" if drawn else said
    assert any(said in text for text in told)


# -- for how many programs -----------------------------------------------------------------------
def numbered(
    a_ptr, b_ptr, c_ptr, K, am, bk, tiles, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr,
    HOW: tl.constexpr,
):  # fmt: skip
    """One tile of a product; which one follows from a program's number in many ways."""
    rows, columns, inner, z = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK), 0
    if HOW == "grid":
        m, n = tl.program_id(0), tl.program_id(1)
    elif HOW == "columns first":
        m, n = tl.program_id(1), tl.program_id(0)
    elif HOW == "one number":
        m, n = tl.program_id(0) // tiles, tl.program_id(0) % tiles
    elif HOW == "shifted":
        m, n = tl.program_id(1), tl.program_id(0) >> 3
    elif HOW == "further axes":
        m, n = tl.program_id(2), tl.program_id(1)
    elif HOW == "groups":
        group = tl.program_id(0) // (8 * tiles)
        m = group * 8 + tl.program_id(0) % (8 * tiles) % 8
        n = tl.program_id(0) % (8 * tiles) // 8
    else:  # a head's queries: all of them read the same from where their loop begins
        m, n, z = 0, 0, tl.program_id(1)
    start = tl.program_id(0) * BK if HOW == "late start" else 0
    total = tl.zeros((M, N), dtype=tl.float32)
    for k in range(start, K, BK):
        at, row, column = k + inner, m * M + rows, n * N + columns
        a = tl.load(a_ptr + (z * tiles * M + row[:, None]) * am + at[None, :])
        b = tl.load(b_ptr + (z * K + at[:, None]) * bk + column[None, :])
        total = tl.dot(a, b, total)
    place = tl.program_id(0) + 64 * z if HOW == "heads" else m * 64 + n
    tl.store(c_ptr + (place * M + rows[:, None]) * N + columns[None, :], total)


MOVES = {"grid": "a", "columns first": "b", "one number": "b", "shifted": "", "further axes": "b",
         "groups": "a", "heads": "", "late start": ""}  # fmt: skip
SHARED = "however many: those in a row read the same in their loops"


def rounds_of(how: str, **options: object) -> tuple[int, str]:
    """Return for how many programs blocks stay, and what is said of it."""
    words = "*fp16:16 *fp16:16 *fp32:16 i32:16 i32:16 i32:16 i32:16"
    extents = {"M": 64, "N": 64, "BK": 16, "HOW": how}
    return decided(tile_ir(numbered, words, extents, num_warps=4, num_stages=2), **options)


def decided(module: Module, **options: object) -> tuple[int, str]:
    recorder = Recorder()
    module = replace(module, attributes={**module.attributes, **OPTIONS, **options})
    module = narrow_index(tile_passes(module, recorder), recorder.remarks)
    found = _gpu_passes(module, SM_90A, recorder)
    (told,) = (item.text for item in recorder.remarks.items if "persistent" in item.text)
    return most_rounds(found), told


@pytest.mark.parametrize("how", MOVES)
def test_blocks_stay_for_many_programs_where_neighbours_read_the_same(how: str):
    rounds, told = rounds_of(how)
    assert rounds == (32 if MOVES[how] else 2**31 - 1)
    said = f"at most 32 for each: each reads another part of what {MOVES[how]} is loaded from"
    assert (said if MOVES[how] else SHARED) in told


def test_an_author_may_say_for_how_many_programs():
    for how in ("grid", "heads"):
        assert rounds_of(how, most_rounds=7)[0] == 7
    assert rounds_of("grid", most_rounds=2**31 - 1)[0] == 2**31 - 1
    with pytest.raises(OptionError, match="most_rounds is a positive integer, got 0"):
        check_options({"most_rounds": 0})


@pytest.mark.parametrize("causal", [False, True])
def test_attention_stays_for_any_number_of_programs(causal: bool):
    """Its second loop begins where its queries do: that is no other part, but a later one."""
    rounds, told = decided(attention_before(causal))
    assert rounds == 2**31 - 1
    assert SHARED in told


def branching(
    a_ptr, b_ptr, c_ptr, K, G, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    ADDED: tl.constexpr,
):  # fmt: skip
    """How far a program goes is decided by a branch on its number; by a sum, if ADDED."""
    row = tl.program_id(0)
    m, n, k = row * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    end = K
    if row > G:
        end = K // 2 // BK * BK
    if ADDED:
        end += tl.sum(tl.where(n > BN, 1, 0))
    acc = tl.zeros((BM, BN), tl.float32)
    for i in range(0, end, BK):
        a = tl.load(a_ptr + m[:, None] * K + (i + k)[None, :])
        b = tl.load(b_ptr + (i + k)[:, None] * BN + n[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + m[:, None] * BN + n[None, :], acc)


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("options", [{}, {"warp_specialize": True}, OPTIONS])
def test_blocks_stay_where_a_producer_can_follow(options: dict[str, object], added: bool):
    words = "*fp16:16 *fp16:16 *fp32:16 i32:16 i32"
    sizes = {"BM": 128, "BN": 256, "BK": 64, "ADDED": added}
    module = tile_ir(branching, words, sizes, num_warps=8, num_stages=3)
    found = [after for _, after in gpu_steps(last_of(module), SM_90A, narrow_index=True, **{
        name: value for name, value in options.items() if name != "narrow_index"})][-1]  # fmt: skip
    assert is_persistent(found) != added

    def arguments() -> list[Any]:
        a, b = numbers(3 * 128 * 256, np.float16, 0), numbers(256 * 256, np.float16, 1)
        return [a, b, np.zeros(3 * 128 * 256, np.float32), 256, 1]

    wanted = meaning(module, (3,), arguments())
    for blocks in (0, 1):
        assert results(found, (3,), arguments(), blocks) == wanted
