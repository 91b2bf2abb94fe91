"""Products by warpgroups: what they mean in every form, what is made of them, what is said."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.kernels import matmul
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.test_odd_extents import staged, staged_arguments
from tests.targets.nvidia.test_ptx import needs_nvdisasm, needs_ptxas
from workbench.ir import Module, Op, Shared, rebuild
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.built import Built
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.ops import WaitCopies, WaitProducts, WarpgroupDot
from workbench.targets.nvidia.pipeline import build
from workbench.targets.nvidia.toolchain import assemble
from workbench.targets.simt.ops import SharedAllocate

SM_90A = chip("sm_90a")


def in_gpu_ir(module: Module) -> Module:
    final = [module, *(after for _, after in tile_steps(module))][-1]
    return [after for _, after in gpu_steps(final, SM_90A)][-1]


def products(module: Module) -> list[WarpgroupDot]:
    return [op for op in module.walk() if isinstance(op, WarpgroupDot)]


def compiled(module: Module) -> tuple[Built, Recorder]:
    recorder = Recorder()
    module = replace(module, attributes={**module.attributes, "narrow_index": True})
    return build(tile_passes(module, recorder), "sm_90a", recorder), recorder


SHAPES = [
    (128, 256, 64, 8, "nn"), (128, 256, 64, 8, "tt"), (64, 128, 32, 8, "nt"),
    (96, 160, 32, 8, "tn"), (192, 96, 96, 4, "nn"), (64, 32, 16, 4, "nt"),
    (256, 64, 32, 16, "nn"), (64, 320, 16, 4, "nn"),
]  # fmt: skip


@pytest.mark.parametrize(("m", "n", "k", "warps", "kind"), SHAPES)
def test_every_form_means_the_same(m: int, n: int, k: int, warps: int, kind: str):
    module = staged(m, n, k, warps, kind)

    def arguments() -> list[Any]:
        return staged_arguments(m, n, 2 * k + 16, kind)

    wanted = meaning(module, (1,), arguments())
    last = in_gpu_ir(module)
    assert products(last)
    assert all(isinstance(v.type, Shared) for op in products(last) for v in (op.a, op.b))
    assert meaning(last, (1,), arguments()) == wanted


def test_a_product_goes_on_into_the_next_round():
    """Its slot is free a round later, so the ring has one more than the author's stages."""
    last = in_gpu_ir(staged(128, 256, 64, 8))
    (dot,) = products(last)
    assert dot.in_flight == 1
    assert {op.type.slots for op in last.walk() if isinstance(op, SharedAllocate)} == {4}
    assert [op.pending for op in last.walk() if isinstance(op, WaitProducts)] == [0]
    assert [op.pending for op in last.walk() if isinstance(op, WaitCopies)] == [1, 0]


def test_where_a_slot_more_costs_a_block_products_end_in_their_round():
    last = in_gpu_ir(staged(128, 128, 64, 4))
    (dot,) = products(last)
    assert dot.in_flight == 0
    assert {op.type.slots for op in last.walk() if isinstance(op, SharedAllocate)} == {3}


def without(module: Module, planted: Any) -> Module:
    """Return a module in which `planted` has changed ops."""

    def rewrite(op: Op, builder: Any) -> Any:
        return planted(op)

    return rebuild(module, rewrite)


PLANTED = {
    "sums are read before the product has ended": lambda op: (
        (op.accumulator,) if isinstance(op, WaitProducts) else None
    ),
    "a product reads a slot whose copy is under way": lambda op: (
        op.changed(pending=op.pending + 1) if isinstance(op, WaitCopies) else None
    ),
    "one more product stays in flight than the ring has room for": lambda op: (
        op.changed(in_flight=2) if isinstance(op, WarpgroupDot) else None
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_the_interpreter_sees_what_is_not_waited_for(fault: str):
    m, n, k = 64, 32, 16
    module = staged(m, n, k, 4)

    def arguments() -> list[Any]:
        return staged_arguments(m, n, 8 * k)

    last = in_gpu_ir(module)
    assert products(last)[0].in_flight == 1
    wanted = meaning(module, (1,), arguments())
    assert meaning(last, (1,), arguments()) == wanted
    assert meaning(without(last, PLANTED[fault]), (1,), arguments()) != wanted


KINDS = [
    ("fp16", "nn", "HGMMA"), ("bf16", "tt", "HGMMA"), ("fp8e4nv", "nt", "QGMMA"),
    ("fp8e5", "nn", "QGMMA"), ("i8", "nt", "IGMMA"), ("i8", "tn", "IGMMA"),
]  # fmt: skip


def typed(dtype: str, kind: str, m: int, n: int, k: int, warps: int) -> Module:
    if dtype == "i8":
        return integer_product(kind, m, n, k, warps)
    return staged(m, n, k, warps, kind, dtype)


def integer_product(kind: str, m: int, n: int, k: int, warps: int) -> Module:
    import workbench.language as tl

    def integers(a_ptr, b_ptr, c_ptr, K, am, ak, bk, bn, M: tl.constexpr, N: tl.constexpr,
                 BK: tl.constexpr):  # fmt: skip
        rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
        total = tl.zeros((M, N), dtype=tl.int32)
        for start in range(0, K, BK):
            at = inner + start
            a = tl.load(a_ptr + rows[:, None] * am + at[None, :] * ak)
            b = tl.load(b_ptr + at[:, None] * bk + columns[None, :] * bn)
            total = tl.dot(a, b, total, out_dtype=tl.int32)
        tl.store(c_ptr + rows[:, None] * N + columns[None, :], total)

    strides = ["i32:16", "i32=1"] if kind[0] == "n" else ["i32=1", "i32:16"]
    strides += ["i32:16", "i32=1"] if kind[1] == "n" else ["i32=1", "i32:16"]
    words = f"*i8:16 *i8:16 *i32:16 i32:16 {' '.join(strides)}"
    return tile_ir(integers, words, {"M": m, "N": n, "BK": k}, num_warps=warps, num_stages=3)


@needs_ptxas
@needs_nvdisasm
@pytest.mark.parametrize(("dtype", "kind", "instruction"), KINDS)
def test_the_machine_code_multiplies_by_warpgroups(dtype: str, kind: str, instruction: str):
    found, recorder = compiled(typed(dtype, kind, 128, 128, 64, 8))
    result = assemble(found.texts["ptx"]().text, "sm_90a")
    assert result.spill_store_bytes == 0
    assert not result.notes
    sass = found.texts["sass"]().text
    assert instruction in sass
    assert not re.search(r"\b(HMMA|IMMA|QMMA)\b", sass)
    assert any("by warpgroups" in remark.text for remark in recorder.remarks.items)


@pytest.mark.parametrize("kind", ["nt", "nn", "tn", "tt"])
def test_integers_mean_the_same_however_they_lie(kind: str):
    m, n, k = 64, 48, 64
    module = integer_product(kind, m, n, 32, 4)
    a, b = (numbers(e * k, np.int8, seed) for seed, e in enumerate((m, n)))
    strides = [k if kind[0] == "n" else m, n if kind[1] == "n" else k]

    def arguments() -> list[Any]:
        return [a.copy(), b.copy(), np.zeros(m * n, np.int32), k, *strides]

    wanted = meaning(module, (1,), arguments())
    last = in_gpu_ir(module)
    assert products(last)
    assert meaning(last, (1,), arguments()) == wanted


REASONS = [
    (32, 32, 4, "fp16", "most of its 64 rows would be copies of the tile's 32"),
    (64, 32, 2, "fp16", "it needs four warps, num_warps is 2"),
    (64, 24, 4, "fp16", "K = 24 of f16 is no multiple of 16"),
    (64, 32, 4, "fp32", "there is none for f32 and f32 into f32"),
]


@pytest.mark.parametrize(("m", "k", "warps", "dtype", "reason"), REASONS)
def test_a_remark_says_why_not(m: int, k: int, warps: int, dtype: str, reason: str):
    _, recorder = compiled(staged(m, 64, k, warps, "nn", dtype))
    (remark,) = [r for r in recorder.remarks.items if "not warpgroups" in r.text]
    assert reason in remark.text
    assert remark.span is not None


@needs_ptxas
@pytest.mark.parametrize(("m", "n", "warps", "sums"), [(256, 256, 16, 128), (128, 256, 4, 256)])
def test_sums_that_fill_all_registers_go_by_warps(m: int, n: int, warps: int, sums: int):
    """ptxas refuses an instruction whose sums and operands do not fit a thread's registers."""
    found, recorder = compiled(staged(m, n, 32, warps))
    have = SM_90A.most_registers(warps)
    said = f"its sums fill {sums} registers of a thread, which has {have}"
    assert any(said in remark.text for remark in recorder.remarks.items)
    assert found.assemble().resources.registers <= have


def test_an_option_turns_them_off():
    module = staged(128, 128, 64, 4)
    off = replace(module, attributes={**module.attributes, "wgmma": False})
    found, recorder = compiled(off)
    assert "wgmma." not in found.texts["ptx"]().text
    assert any("wgmma=False" in r.text for r in recorder.remarks.items)


def test_the_option_is_one_of_the_language():
    import workbench as wb

    words = "*fp16:16 *fp16:16 *fp16:16 i32:16 i32:16 i32:16 i32:16 i32=1 i32:16 i32=1 i32:16 i32=1"
    blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 2}
    for wgmma in (True, False):
        found = wb.compile(matmul.matmul, words, blocks, target="sm_90a", num_warps=4, wgmma=wgmma)
        assert ("wgmma." in found.asm["ptx"]) == wgmma
