"""Kernels whose products read boxes that loads were raised to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.kernels import attention_by_blocks, attention_forward
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.raising import SM_90A, may_run
from tests.targets.nvidia.test_odd_extents import staged, staged_arguments
from workbench.ir import Builder, Module, Op, Value, rebuild
from workbench.ops import Constant, Load
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.box_plans import UNBOUNDED
from workbench.targets.nvidia.ops import (
    Barriers,
    Expect,
    FenceProducts,
    MakeTensorMap,
    TensorCopy,
    TensorLoad,
)
from workbench.targets.nvidia.passes.pipeline_loads import pipeline_loads
from workbench.targets.nvidia.passes.raise_tma import raise_tma
from workbench.targets.simt.ops import BlockBarrier
from workbench.targets.simt.verifier import verify_layouts


def before_and_after(module: Module) -> tuple[Module, Module, list[str]]:
    """Return GPU IR before and after raise-tma, and what it said."""
    final = [module, *(after for _, after in tile_steps(module))][-1]
    final = replace(final, attributes={**final.attributes, "narrow_index": True})
    before = next(after for name, after in gpu_steps(final, SM_90A) if name == "hoist-invariants")
    remarks = Remarks()
    after = raise_tma(before, remarks, SM_90A)
    verify_layouts(after, SM_90A)
    return before, after, [f"{item.severity}: {item.text}" for item in remarks.items]


def boxes(module: Module) -> list[TensorLoad]:
    return [op for op in module.walk() if isinstance(op, TensorLoad)]


@pytest.mark.parametrize("kind", ["nn", "nt", "tn", "tt"])
def test_a_product_reads_boxes_however_its_operands_lie(kind: str):
    m, n, k = 64, 32, 16
    before, after, said = before_and_after(staged(m, n, k, 4, kind))
    assert len(boxes(after)) == 2, said
    assert not any(isinstance(op, Load) for op in after.walk())
    assert [text.split(":")[0] for text in said] == ["applied", "applied", "note"]
    assert "tma_stores does it" in said[2]
    assert "% M dropped: nobody looks past it" in said[0]
    for rounds in (1, 3):
        arguments = staged_arguments(m, n, rounds * k + 16, kind)
        wanted = meaning(before, (1,), [copied(a) for a in arguments])
        assert may_run(after, arguments, (1,))
        assert meaning(after, (1,), arguments) == wanted


def copied(held: Any) -> Any:
    return held.copy() if isinstance(held, np.ndarray) else held


@pytest.mark.parametrize(
    ("kind", "n", "boxes"),
    [
        ("nn", 48, {(16, 48): (16, 48)}), ("nt", 48, {(48, 16): (48, 16)}),
        ("nn", 80, {(16, 80): (16, 64), (16, 16): (16, 16)}),
        ("nn", 128, {(16, 128): (16, 64)}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("bounded", [True, False])
def test_boxes_are_wide_and_the_last_one_as_wide_as_what_is_left(
    kind: str, n: int, boxes: dict[tuple[int, ...], tuple[int, ...]], bounded: bool
):
    """48 columns are one box, 80 one of 64 and one of 16: whether or not the array ends there."""
    m, k = 64, 16
    _, raised, _ = before_and_after(staged(m, n, k, 4, kind))
    if not bounded:
        raised = unbounded(raised)
    after = pipeline_loads(raised, Remarks(), SM_90A)
    verify_layouts(after, SM_90A)
    maps = [op for op in after.walk() if isinstance(op, MakeTensorMap) and op.swizzle]
    assert {op.type.box: op.copied for op in maps if op.type.box != (m, k)} == boxes
    (expected,) = {op.bytes for op in after.walk() if isinstance(op, Expect)}
    assert expected == 2 * k * (m + n)  # each byte of the tiles once
    arguments = staged_arguments(m, n, 3 * k, kind)
    wanted = meaning(raised, (1,), [copied(a) for a in arguments])
    assert meaning(after, (1,), arguments) == wanted


def unbounded(module: Module) -> Module:
    """Return a module whose tensor maps go on along their last axis."""

    def rewrite(op: Op, builder: Builder) -> Value | None:
        if not isinstance(op, MakeTensorMap):
            return None
        end = builder.add(Constant(UNBOUNDED, op.extents[-1].type))
        return builder.add(op.changed(extents=(*op.extents[:-1], end)))

    return rebuild(module, rewrite)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [80, 128])
def test_keys_and_values_of_attention_are_boxes_of_four_axes(causal: bool, n: int):
    sizes = {"HEAD": 16, "BLOCK_M": 64, "BLOCK_N": 16, "BLOCK_D": 16, "CAUSAL": causal,
             "EVEN": False}  # fmt: skip
    words = "*fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp32:16 fp32 " + "i32:16 i32:16 i32:16 i32=1 " * 4
    module = tile_ir(
        attention_forward.attention, f"{words}i32 i32 i32 i32", sizes, num_warps=4, num_stages=2
    )
    before, after, said = before_and_after(module)
    assert {len(op.coordinates) for op in boxes(after)} == {4}, said
    assert len(boxes(after)) == (4 if causal else 2)
    heads, size = 2, 2 * n * 16
    strides = (size, n * 16, 16)

    def arguments() -> list[Any]:
        q, k, v = (numbers(size, np.float16, seed) for seed in range(3))
        out, lse = np.zeros(size, np.float16), np.zeros(heads * n, np.float32)
        return [q, k, v, out, lse, 0.25, *strides * 4, heads, heads, n, n]

    grid = (-(-n // 64), heads)
    assert may_run(after, arguments(), grid)
    assert meaning(after, grid, arguments()) == meaning(before, grid, arguments())


def test_block_pointers_and_descriptors_bound_their_axes():
    sizes = {"HEAD": 16, "BLOCK_M": 64, "BLOCK_N": 16, "CAUSAL": False}
    words = "*fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp32:16 fp32 i32:16 i32:16 i32 i32"
    kernel = attention_by_blocks.attention_by_block_pointers
    _, after, said = before_and_after(tile_ir(kernel, words, sizes, num_warps=4, num_stages=2))
    assert len(boxes(after)) == 2
    assert "k_ptr[head, start, 0] of extents [any, n_keys, any]" in said[0]


def test_all_loads_of_a_loop_are_raised_or_none():
    _, after, said = before_and_after(
        tile_ir(
            one_gathers, "*fp16:16 *i32:16 *fp16:16 *fp32:16 i32", {}, num_warps=4, num_stages=2
        )
    )
    assert not boxes(after)
    assert said == [
        "missed: not raised to a tensor map: its address reads rows, "
        "a tile that is loaded or computed",
        "missed: not raised to a tensor map: a, loaded in the same loop, is not",
    ]


def one_gathers(x_ptr, index_ptr, w_ptr, y_ptr, n):
    r, c = tl.arange(0, 64), tl.arange(0, 16)
    rows = tl.load(index_ptr + r)
    total = tl.zeros((64, 16), tl.float32)
    for k in range(n):
        a = tl.load(x_ptr + rows[:, None] * 1024 + k * 16 + c[None, :])
        b = tl.load(w_ptr + (k * 16 + c)[:, None] * 16 + c[None, :])
        total = tl.dot(a, b, total)
    tl.store(y_ptr + r[:, None] * 16 + c[None, :], total)


def of_chunks(x_ptr, w_ptr, y_ptr, n, length):
    """The end of a chunk is its own; nothing of the bound is the same in all programs."""
    first = tl.program_id(0) * n
    limit = tl.minimum(n, length - first)
    r, c = tl.arange(0, 64), tl.arange(0, 16)
    total = tl.zeros((64, 16), tl.float32)
    for k in range(0, limit, 16):
        here = c < limit - k
        a = tl.load(x_ptr + r[:, None] + (first + k + c[None, :]) * 64, here[None, :], 0.0)
        b = tl.load(w_ptr + (first + k + c)[:, None] * 16 + c[None, :], here[:, None], 0.0)
        total = tl.dot(a, b, total)
    tl.store(y_ptr + r[:, None] * 16 + c[None, :], total)


def test_a_bound_of_which_nothing_is_the_same_everywhere_is_no_extent():
    """A map with an extent of 0 would be refused at every launch."""
    words = "*fp16:16 *fp16:16 *fp32:16 i32:16 i32"
    _, after, said = before_and_after(tile_ir(of_chunks, words, {}, num_warps=4, num_stages=2))
    assert not boxes(after)
    why = "has no bound that is the same throughout a launch"
    assert sorted(text.rpartition(": ")[2] for text in said) == [f"axis {d} {why}" for d in (0, 1)]


def hinted(x_ptr, w_ptr, y_ptr, n):
    r, c = tl.arange(0, 64), tl.arange(0, 16)
    total = tl.zeros((64, 16), tl.float32)
    for k in range(n):
        a = tl.load(x_ptr + r[:, None] * 1024 + k * 16 + c[None, :], eviction_policy="evict_first")
        b = tl.load(w_ptr + (k * 16 + c)[:, None] * 16 + c[None, :], cache_modifier=".ca")
        total = tl.dot(a, b, total)
    tl.store(y_ptr + r[:, None] * 16 + c[None, :], total)


def test_hints_of_a_raised_load_are_answered():
    module = tile_ir(hinted, "*fp16:16 *fp16:16 *fp32:16 i32", {}, num_warps=4, num_stages=2)
    _, after, said = before_and_after(module)
    assert len(boxes(after)) == 2
    why = "is not obeyed: the load is a copy of a box, which takes none here"
    assert [text for text in said if "missed" in text] == [
        f"missed: eviction_policy 'evict_first' {why}", f"missed: cache_modifier 'ca' {why}",
    ]  # fmt: skip


def signals(x_ptr, w_ptr, y_ptr, flag_ptr, n):
    """Program 1 reads what program 0 stored, if y is x, and stores nothing before its loop."""
    r, c = tl.arange(0, 64), tl.arange(0, 16)
    if tl.program_id(0) == 1:
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
            pass
    total = tl.zeros((64, 16), tl.float32)
    for k in range(n):
        a = tl.load(x_ptr + r[:, None] * 1024 + k * 16 + c[None, :])
        b = tl.load(w_ptr + (k * 16 + c)[:, None] * 16 + c[None, :])
        total = tl.dot(a, b, total)
    tl.store(y_ptr + r[:, None] * 16 + c[None, :], total)
    tl.atomic_add(flag_ptr, 1, sem="release")


def test_what_another_program_stored_through_a_later_store_is_made_seen():
    words = "*fp16:16 *fp16:16 *fp32:16 *i32:16 i32"
    _, after, said = before_and_after(tile_ir(signals, words, {}, num_warps=4, num_stages=2))
    assert len(boxes(after)) == 2, said
    assert any(isinstance(op, FenceProducts) and op.arrays for op in after.walk())


def scratch_before(x_ptr, w_ptr, y_ptr, n):
    r, c = tl.arange(0, 64), tl.arange(0, 16)
    total = tl.zeros((64, 16), tl.float32)
    total += tl.sum(tl.load(w_ptr + r).to(tl.float32))
    for k in range(n):
        a = tl.load(x_ptr + r[:, None] * 1024 + k * 16 + c[None, :])
        b = tl.load(w_ptr + (k * 16 + c)[:, None] * 16 + c[None, :])
        total = tl.dot(a, b, total)
    tl.store(y_ptr + r[:, None] * 16 + c[None, :], total)


@pytest.mark.parametrize("specialize", [False, True])
def test_a_ring_follows_what_threads_wrote_to_the_same_bytes(specialize: bool):
    """Copies of boxes go another way than stores to shared memory: a fence, then a barrier."""
    module = tile_ir(
        scratch_before, "*fp16:16 *fp16:16 *fp32:16 i32", {}, num_warps=4, num_stages=2,
        warp_specialize=specialize,
    )  # fmt: skip
    final = [module, *(after for _, after in tile_steps(module))][-1]
    final = replace(final, attributes={**final.attributes, "narrow_index": True})
    kinds = [type(op) for op in [after for _, after in gpu_steps(final, SM_90A)][-1].walk()]
    assert TensorCopy in kinds
    met = kinds.index(BlockBarrier, kinds.index(FenceProducts))
    assert kinds.index(Barriers) < met
    assert specialize or met < kinds.index(TensorCopy)


def test_indices_of_64_bits_are_answered():
    before, _, _ = before_and_after(staged(64, 32, 16, 4))
    remarks = Remarks()
    raise_tma(
        replace(before, attributes={**before.attributes, "narrow_index": False}), remarks, SM_90A
    )
    assert [item.text for item in remarks.items] == [
        "not raised to a tensor map: indices are not known to fit 32 bits"
    ] * 2


@pytest.mark.parametrize("option", ["tma", "wgmma", "narrow_index"])
def test_without_an_option_nothing_is_raised(option: str):
    module = staged(64, 32, 16, 4)
    before, _, _ = before_and_after(module)
    off = replace(before, attributes={**before.attributes, option: False})
    if option == "wgmma":
        final = [module, *(after for _, after in tile_steps(module))][-1]
        off = replace(final, attributes={**final.attributes, "narrow_index": True, "wgmma": False})
        off = next(after for name, after in gpu_steps(off, SM_90A) if name == "hoist-invariants")
    assert raise_tma(off, Remarks(), SM_90A) is off
