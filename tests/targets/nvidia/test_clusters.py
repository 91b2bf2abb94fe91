"""Clusters: blocks that copy together what their programs both read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.kernels import matmul
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.targets.nvidia.persistent import OPTIONS, compiled, last_of, results, staying
from tests.targets.nvidia.protocol import Protocol, explore, record, walks
from tests.targets.nvidia.test_odd_extents import staged, staged_arguments
from tests.targets.nvidia.test_ptx import needs_ptxas
from tests.targets.nvidia.test_specialised import planted
from workbench.ir import DROP, Module, Op
from workbench.launch.grids import blocks_for
from workbench.ops import For
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.nvidia.ops import (
    Arrive,
    Await,
    ClusterArrive,
    ClusterWait,
    Expect,
    HasPeers,
    TensorCopy,
    WarpgroupDot,
)
from workbench.targets.nvidia.pipeline import build
from workbench.targets.simt.ops import cluster_of

#: Rows and columns, and their tiles: the last group of a grouped order has one row.
SIZES = [(192, 128, 3, 2), (320, 192, 5, 3), (128, 64, 2, 1)]


def tiles() -> Module:
    return staged(64, 64, 32, 4, stages=2)


@cache
def clustered(blocks: int) -> Module:
    return staying(tiles(), cluster=blocks)


# -- meaning --------------------------------------------------------------------------------------
@pytest.mark.parametrize("blocks", [2, 4])
@pytest.mark.parametrize(("rows", "columns", "down", "across"), SIZES)
def test_a_cluster_computes_what_blocks_did(
    rows: int, columns: int, down: int, across: int, blocks: int
):
    grid = (down * across,)
    wanted = meaning(last_of(tiles()), grid, staged_arguments(rows, columns, 96))
    module = clustered(blocks)
    assert cluster_of(module) == blocks
    for started in (0, blocks, 2 * blocks):
        assert results(module, grid, staged_arguments(rows, columns, 96), started) == wanted


def test_blocks_meet_first_and_ask_once_for_a_program():
    module = clustered(2)
    (asked,) = {op.peer for op in module.walk() if getattr(op, "peer", 0)}
    assert asked == 1
    assert sum(isinstance(op, HasPeers) for op in module.walk()) == 1
    assert [type(op) for op in module.walk() if isinstance(op, ClusterArrive | ClusterWait)] == [
        ClusterArrive, ClusterWait,
    ]  # fmt: skip


# -- the protocol ---------------------------------------------------------------------------------
def pair(module: Module, programs: int, rounds: int, started: int = 2) -> list[Protocol]:
    """Return what the first two blocks do of a launch of so many programs in one column."""
    given = staged_arguments(64 * programs, 64, 32 * rounds)
    return [record(module, given, 1, (programs,), block, started) for block in range(2)]


def test_every_interleaving_of_two_blocks_is_right():
    verdict, states = explore(*pair(clustered(2), 2, 1))
    assert verdict == "ok"
    assert states > 500


@pytest.mark.parametrize(("programs", "rounds"), [(2, 9), (3, 4), (4, 7), (5, 1), (7, 3)])
def test_the_protocol_of_a_cluster_holds(programs: int, rounds: int):
    """However far blocks and copies get apart; the last program may be alone."""
    protocols = pair(clustered(2), programs, rounds)
    copies = [step for step in protocols[0].producer if step[0] == "copy"]
    assert len({tuple(parts) for *_, parts, _ in copies}) == 2  # A is each block's own, B is both's
    assert walks(40, *protocols) == {"ok"}


def alone(kind: type[Op]) -> Callable[[Module], Module]:
    """Have ops of a kind reach their own block only."""
    return lambda module: planted(
        module, lambda _, op: op.changed(blocks=1) if isinstance(op, kind) else None
    )


def other_count(module: Module) -> Module:
    """Have barriers count the arrivals of one block."""
    return planted(
        module,
        lambda _, op: op.changed(arrivals=op.arrivals // 2)
        if getattr(op, "arrivals", 1) == 8 else None,
    )  # fmt: skip


def ending_early(module: Module) -> Module:
    """Have a block end when it has started its last copy."""

    def plant(_: Module, op: Op) -> Any:
        waits = isinstance(op, For) and isinstance(op.body.ops[0], Await)
        works = waits and any(isinstance(o, Expect | WarpgroupDot) for o in op.body.ops)
        return DROP if waits and not works else None

    return planted(module, plant)


def together_with_the_other(module: Module) -> Module:
    """Have copies ask whether blocks share the other operand's box."""
    asked = {op.map: op.together for op in module.walk() if isinstance(op, TensorCopy)}
    (one, two) = asked
    other = {one: asked[two], two: asked[one]}
    return planted(
        module,
        lambda _, op: op.changed(together=other[op.map]) if isinstance(op, TensorCopy) else None,
    )


FAULTS = {
    "each block copies a part of what is its own": together_with_the_other,
    "slots are given back to their own block": alone(Arrive),
    "slots are given back by one block": other_count,
    "a block ends with its last copy": ending_early,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_between_blocks_is_found(fault: str):
    wrong = FAULTS[fault](clustered(2))
    assert walks(40, *pair(wrong, 4, 5)) != {"ok"}


# -- what is written, and said --------------------------------------------------------------------
@needs_ptxas
@pytest.mark.parametrize("blocks", [2, 4])
def test_each_block_asks_for_its_part(blocks: int):
    built, _ = compiled(tiles(), cluster=blocks)
    text = built.texts["ptx"]().text
    assert re.search(rf"^\.reqnctapercluster {blocks}", text, re.MULTILINE)
    assert built.extra["cluster"] == blocks
    sass = built.texts["sass"]().text
    assert len(re.findall(r"UTMALDG\.2D\.MULTICAST", sass)) == 2
    assert "MEMBAR.ALL.GPU" not in sass  # which would wait for the stores of results
    assert built.assemble().resources.spill_store_bytes == 0


def growing(out_ptr, a_ptr, b_ptr, am, bk, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Programs have as many rounds as their number says."""
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * K, K):
        at = start + inner
        a = tl.load(a_ptr + rows[:, None] * am + at[None, :])
        b = tl.load(b_ptr + at[:, None] * bk + columns[None, :])
        total = tl.dot(a, b, total)
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], total)


def reading_more(
    out_ptr, a_ptr, b_ptr, n_ptr, am, bk, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):
    """Where a program reads it finds in memory."""
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), dtype=tl.float32)
    first = tl.load(n_ptr + tl.program_id(0)) * M
    for start in range(0, 4 * K, K):
        at = start + inner
        a = tl.load(a_ptr + (first + rows)[:, None] * am + at[None, :])
        b = tl.load(b_ptr + at[:, None] * bk + columns[None, :])
        total = tl.dot(a, b, total)
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], total)


def asking(
    out_ptr, a_ptr, b_ptr, am, bk, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr
):  # fmt: skip
    """Later rounds read what their program says, the first ones what the round says."""
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, 4 * K, K):
        at = start + inner
        if start >= 2 * K:  # noqa: SIM108 - a branch is what is meant
            column = tl.program_id(0)
        else:
            column = start // K
        a = tl.load(a_ptr + rows[:, None] * am + at[None, :])
        b = tl.load(b_ptr + at[:, None] * bk + (column * N + columns)[None, :])
        total = tl.dot(a, b, total)
    tl.store(out_ptr + rows[:, None] * N + columns[None, :], total)


def told(module: Module, **options: object) -> list[str]:
    recorder = Recorder()
    module = replace(module, attributes={**module.attributes, **OPTIONS, **options})
    build(tile_passes(module, recorder), "sm_90a", recorder)
    return [r.text for r in recorder.remarks.items if "cluster" in r.text]


EXTENTS = {"M": 64, "N": 64, "K": 16}
LONE = {
    "programs may have other numbers of rounds":
        (growing, "*fp32:16 *fp16:16 *fp16:16 i32:16 i32:16", {"cluster": 2}),
    "tile.if asks in each round which program it is":
        (asking, "*fp32:16 *fp16:16 *fp16:16 i32:16 i32:16", {"cluster": 2}),
    "no block stays for another program":
        (reading_more, "*fp32:16 *fp16:16 *fp16:16 *i32:16 i32:16 i32:16",
         {"cluster": 2, "persistent": False}),
}  # fmt: skip


@pytest.mark.parametrize("why", LONE)
def test_the_author_is_told_why_there_are_no_clusters(why: str):
    kernel, words, options = LONE[why]
    assert told(tile_ir(kernel, words, EXTENTS, num_warps=4, num_stages=2), **options) == [
        f"cluster=2 is not obeyed: {why}"
    ]


def test_rows_that_do_not_part_are_copied_alone():
    """Eight blocks would have two rows of k each, and swizzled rows come in eights."""
    (said,) = told(tiles(), cluster=8)
    assert said.endswith("does not come in 8 parts")
    assert said.startswith("cluster=8 is not obeyed: ")


def test_what_is_read_from_memory_is_compared_like_any_number():
    words = "*fp32:16 *fp16:16 *fp16:16 *i32:16 i32:16 i32:16"
    before = tile_ir(reading_more, words, EXTENTS, num_warps=4, num_stages=2)
    module = staying(before, cluster=2)
    assert cluster_of(module) == 2

    def given() -> list[Any]:
        a, b = numbers(192 * 64, np.float16), numbers(64 * 64, np.float16, 2)
        return [np.zeros(64 * 64, np.float32), a, b, np.array([2, 2, 1, 0, 1], np.int32), 64, 64]

    for programs in (1, 2):
        grid = (programs,)
        assert results(module, grid, given(), 2) == meaning(last_of(before), grid, given())


def lying(stride: str) -> Module:
    """A product whose rows are so many elements apart."""
    strides = f"{stride} i32=1 {stride} i32=1 i32:8 i32=1"
    words = f"*fp16:16 *fp16:16 *fp16:16 i32:8 i32:8 i32:8 {strides}"
    blocks = {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64, "GROUP_M": 2, "ACTIVATION": ""}
    return tile_ir(matmul.matmul, words, blocks, num_warps=8, num_stages=3)


@pytest.mark.parametrize(
    ("stride", "blocks"),
    [("i32:16", 1), ("i32:8", 2), ("i32=4104", 2), ("i32=4096", 1), ("i32=4128", 2)],
)
def test_blocks_are_clusters_unasked_where_rows_begin_in_the_midst_of_lines(
    stride: str, blocks: int
):
    """4104 elements of two bytes are 64 lines and a bit; of a multiple of 16 nobody knows."""
    said = told(lying(stride), persistent=None, warp_specialize=None)
    assert len(said) == blocks - 1
    assert all("rows of a begin anywhere in a line of memory" in text for text in said)


def test_blocks_may_be_told_to_stay_alone():
    assert told(lying("i32:8"), cluster=1) == []


# -- launches -------------------------------------------------------------------------------------
def test_whole_clusters_are_started():
    for programs in range(1, 300):
        for cluster in (1, 2, 4):
            blocks = blocks_for(programs, 132, 2, cluster)
            assert blocks % cluster == 0
            assert 0 <= blocks - (programs if programs > 264 else min(programs, 132)) < cluster
