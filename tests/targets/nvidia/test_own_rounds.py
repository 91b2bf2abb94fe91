"""Tiles that an author loads a round before they are needed are loaded in the round itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.hazards import simulate
from tests.targets.nvidia.test_roles import ordered
from workbench.ir import Module, shape_of
from workbench.ops import For
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.ops import AsyncCopy
from workbench.targets.simt.ops import SharedAllocate
from workbench.targets.simt.passes.own_rounds import load_in_own_round

SM_90A = chip("sm_90a")
M, N, K = 16, 32, 32
ROW = 8 * K


def product(
    a_ptr, w_ptr, s_ptr, c_ptr, rounds, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,
    ROW: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """W of the next round, and its scales, are loaded while this one's are multiplied."""
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a_ptrs = a_ptr + m[:, None] * ROW + k[None, :]
    w_ptrs = w_ptr + k[:, None] + n[None, :] * ROW
    s_ptrs = s_ptr + n
    total = tl.zeros((M, N), tl.float32)
    STEP: tl.constexpr = 2 if HOW == "steps of two" else 1
    first = w_ptrs + K if HOW == "begins elsewhere" else w_ptrs
    w = tl.load(first)
    s = tl.load(s_ptrs)[None, :]
    w_ptrs += K
    s_ptrs += N
    if HOW == "written before":
        tl.store(w_ptr + n * ROW, (n % 3).to(tl.int8))
    for i in range(0, rounds * STEP, STEP):
        a = tl.load(a_ptrs)
        wide = w.to(tl.float32)
        if HOW == "by assembly":
            wide = tl.inline_asm_elementwise(
                "neg.f32 $0, $1;", "=f,f", [wide], dtype=tl.float32, is_pure=True, pack=1
            )
        ready = (wide * s).to(tl.float16)
        another = i + 2 * STEP < rounds if HOW == "ends early" else i + STEP < rounds * STEP
        if HOW == "written":
            tl.store(w_ptr + n * ROW, (n % 3).to(tl.int8))
        if HOW == "by the counter":
            w = tl.load(w_ptr + (i + 1) * K + k[:, None] + n[None, :] * ROW, mask=another)
        else:
            w = tl.load(w_ptrs, mask=another)
        s = tl.load(s_ptrs, mask=another)[None, :]
        total = tl.dot(a, ready, total)
        if HOW == "read at once":
            total += tl.sum(tl.where(another, w, 0).to(tl.float32))
        a_ptrs += K
        w_ptrs += K
        s_ptrs += N
    if HOW == "read behind":
        total += tl.sum(tl.where(rounds < 0, w, 0).to(tl.float32))
    tl.store(c_ptr + m[:, None] * N + n[None, :], total)


def tile_module(how: str = "", *, stages: int = 2, k: int = K) -> Module:
    words = "*fp16:16 *i8:16 *fp16:16 *fp32:16 i32"
    sizes = {"M": M, "N": N, "K": k, "ROW": ROW, "HOW": how}
    module = tile_ir(product, words, sizes, num_warps=2, num_stages=stages)
    return replace(module, attributes={**module.attributes, "narrow_index": True})


def arguments(rounds: int) -> list[Any]:
    a, s = numbers(M * ROW, np.float16), numbers(N * 9, np.float16, 3)
    return [a, numbers(N * ROW, np.int8, 2), s, np.zeros(M * N, np.float32), rounds]


def steps(module: Module) -> dict[str, Module]:
    """Return what each pass leaves, by its name."""
    final = [module, *(after for _, after in tile_steps(module))][-1]
    return {"before": final, **dict(gpu_steps(final, SM_90A))}


def carried_tiles(module: Module) -> set[tuple[int, ...]]:
    """Return the shapes of the tiles of narrow numbers that the loop hands on."""
    (loop,) = (op for op in module.walk() if isinstance(op, For))
    return {shape_of(value.type) for value in loop.inits if shape_of(value.type)} - {(M, N)}


@pytest.mark.parametrize("how", ["", "by the counter", "steps of two", "by assembly"])
def test_they_go_through_the_ring_one_round_further_ahead(how: str):
    """Of two stages and the author's round copies are two rounds ahead; nothing is carried."""
    found = steps(tile_module(how))
    assert carried_tiles(found["narrow-index"]) == {(K, N), (1, N)}
    last = found["insert-barriers"]
    assert not carried_tiles(last)
    rings = [op.type for op in last.walk() if isinstance(op, SharedAllocate)]
    assert {ring.slots for ring in rings if ring.slots > 1} == {3}
    copied = {shape_of(op.pointers.type) for op in last.walk() if isinstance(op, AsyncCopy)}
    assert copied == {(M, K), (K, N), (N,)}
    for rounds in (0, 1, 2, 5, 8):
        want = meaning(found["before"], (1,), arguments(rounds))
        assert meaning(found["load-in-own-round"], (1,), arguments(rounds)) == want
        assert meaning(last, (1,), arguments(rounds)) == want
    placed, offsets, total = ordered(last)
    simulate(placed, offsets, total, (1,), arguments(5), SM_90A)


REFUSED = [
    "begins elsewhere", "ends early", "written", "written before", "read at once", "read behind",
]  # fmt: skip


@pytest.mark.parametrize("how", REFUSED)
def test_what_is_another_number_then_stays(how: str):
    """Or what somebody else reads where it is loaded."""
    found = steps(tile_module(how))
    before, after = found["narrow-index"], found["load-in-own-round"]
    assert (K, N) in carried_tiles(after)
    for rounds in (1, 5):
        want = meaning(before, (1,), arguments(rounds))
        assert meaning(after, (1,), arguments(rounds)) == want


def stages_with(shared_bytes: int) -> tuple[int | None, list[str]]:
    """Return the stages of the loop on a chip with so much shared memory, and what is said."""
    module, remarks = steps(tile_module())["narrow-index"], Remarks()
    small = replace(SM_90A, shared_bytes=shared_bytes)
    done = load_in_own_round(module, remarks, small)
    (loop,) = (op for op in done.walk() if isinstance(op, For))
    assert (done is module) == bool(carried_tiles(done))
    return loop.stages, [remark.text for remark in remarks.items]


def test_a_ring_has_a_slot_for_the_authors_round_where_as_many_warps_are_resident():
    each = 2 * M * K + K * N + 2 * N
    assert stages_with(8 * 3 * each)[0] == 3
    assert stages_with(5 * 2 * each)[0] == 2
    stages, said = stages_with(2 * each - 1)
    assert stages is None
    assert any("2 stages of the loop do not fit" in text for text in said)
