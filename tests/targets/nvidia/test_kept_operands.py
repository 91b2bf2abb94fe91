"""Operands of products that stay in registers for all rounds of a loop, where warps do not part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import workbench.language as tl
from tests.kernels import attention_backward
from tests.passes.corpus import tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.hazards import simulate
from tests.targets.nvidia.test_ptx import needs_ptxas
from tests.targets.nvidia.test_roles import ordered
from tests.targets.nvidia.test_start_products import arguments, module_of
from tests.targets.nvidia.test_warpgroups import SM_90A, in_gpu_ir, products
from workbench.ir import Module, Shared, walk
from workbench.ops import ConvertLayout, For
from workbench.passes.manager import Recorder, Remarks
from workbench.passes.pipeline import tile_passes
from workbench.targets.nvidia.ops import FenceProducts, TensorCopy, WarpgroupDot
from workbench.targets.nvidia.passes.stage_products import BLOCKS_WANTED, stage_products
from workbench.targets.nvidia.pipeline import build
from workbench.targets.simt.ops import SharedStore
from workbench.targets.simt.pressure import peak

GRADIENT = "*fp16:16 " * 5 + "*fp32:16 *fp32:16 fp32 " + "i32:16 " * 5


def with_options(module: Module, **options: Any) -> Module:
    return replace(module, attributes={**module.attributes, "narrow_index": True, **options})


def dq_of(head: int, **options: Any) -> Module:
    """Return dQ of 64 queries by 64 keys, whose loop brings keys and values by boxes."""
    sizes = {"HEAD": head, "GROUP": 1, "BLOCK_M": 64, "BLOCK_N": 64, "CAUSAL": False, "EVEN": True}
    module = tile_ir(
        attention_backward.query_gradients, GRADIENT.strip(), sizes, num_warps=4, num_stages=2
    )
    return in_gpu_ir(with_options(module, **options))


def in_registers(module: Module) -> list[bool]:
    """Say of each product of a loop whether its first operand is in registers."""
    loops = [op for op in module.walk() if isinstance(op, For)]
    inside = [op for loop in loops for op in walk(loop.body) if isinstance(op, WarpgroupDot)]
    return [not isinstance(op.first.type, Shared) for op in inside]


@pytest.mark.parametrize("form", ["masked", "two sums"])
@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize("more", [{}, {"tma": False}])
def test_values_are_the_same_to_the_bit(form: str, keeps: bool, more: dict[str, Any]):
    module = with_options(module_of(form), keep_operands=keeps, **more)
    last = in_gpu_ir(module)
    assert all(in_registers(last)) == keeps
    for size in (1, 91):
        assert meaning(last, (1,), arguments(size)()) == meaning(module, (1,), arguments(size)())
    placed, offsets, total = ordered(last)
    simulate(placed, offsets, total, (1,), arguments(91)(), SM_90A)


def test_registers_decide():
    assert not all(in_registers(in_gpu_ir(with_options(module_of(), maxnreg=88))))


def test_no_block_less_is_resident_unless_asked_for():
    """Heads of 64: four blocks have queries and gradients in shared memory, three in registers."""
    assert in_registers(dq_of(64)) == [False, False, True]
    assert in_registers(dq_of(64, keep_operands=True)) == [True, True, True]


def dkv_of(head: int, **options: Any) -> Module:
    """Return dK and dV of 64 keys by 64 queries, whose loop brings queries and gradients."""
    sizes = {"HEAD": head, "GROUP": 1, "BLOCK_M": 64, "BLOCK_N": 64, "CAUSAL": False, "EVEN": True}
    words = "*fp16:16 " * 6 + "*fp32:16 *fp32:16 fp32 " + "i32:16 " * 5
    module = tile_ir(
        attention_backward.key_value_gradients, words.strip(), sizes, num_warps=4, num_stages=2
    )
    return with_options(module, **options)


def test_few_registers_less_for_a_block_more():
    """Heads of 64: a thread takes 172 registers, three blocks leave it 168; of 128 it takes 224."""
    found = in_gpu_ir(dkv_of(64))
    assert found.attributes[BLOCKS_WANTED] == 3
    assert not all(in_registers(found))
    for options in ({"keep_operands": True}, {"keep_operands": False}, {"maxnreg": 255}):
        assert BLOCKS_WANTED not in in_gpu_ir(dkv_of(64, **options)).attributes
    assert BLOCKS_WANTED not in in_gpu_ir(dkv_of(128)).attributes


def test_no_block_more_where_loops_begin_other_sums():
    """dQ behind dK and dV: ptxas takes 219 registers, and spills 852 bytes with 168."""
    sizes = {"HEAD": 64, "BLOCK_M1": 64, "BLOCK_N1": 64, "BLOCK_M2": 64, "BLOCK_N2": 64,
             "CAUSAL": True, "EVEN": True}  # fmt: skip
    words = "*fp16:16 " * 7 + "*fp32:16 *fp32:16 fp32 i32:16 i32:16 i32:16"
    module = tile_ir(attention_backward.fused_gradients, words, sizes, num_warps=4, num_stages=2)
    assert BLOCKS_WANTED not in in_gpu_ir(with_options(module)).attributes


@needs_ptxas
def test_the_assembler_is_told_of_a_block_more():
    built = build(tile_passes(dkv_of(64), Recorder()), "sm_90a", Recorder())
    assert ".minnctapersm 3" in built.texts["ptx"]().text
    found = built.assemble().resources
    assert (found.registers or 0) <= 168
    assert found.spill_store_bytes == 0


def test_what_stays_leaves_its_bytes_to_the_ring():
    """Heads of 128: beside another block a third slot fits, so the last product may go on."""
    for module, slots in ((dq_of(128), 3), (dq_of(128, keep_operands=False), 2)):
        buffers = {op.b.type for op in products(module)}
        assert {one.slots for one in buffers if isinstance(one, Shared)} == {slots}


def test_bytes_that_threads_wrote_are_fenced_from_the_copies_that_follow():
    """A box may fill the bytes through which an operand came to its fragments (an H100: wrong)."""
    ops = dq_of(128).body.ops
    copied = next(n for n, op in enumerate(ops) if isinstance(op, TensorCopy))
    turned = [n for n, op in enumerate(ops[:copied]) if isinstance(op, ConvertLayout)]
    assert len(turned) == 2
    assert all(isinstance(ops[n + 1], FenceProducts) for n in turned)


def test_what_a_round_changes_is_no_operand_that_stays():
    def carried(x_ptr, y_ptr, out_ptr, n, EACH: tl.constexpr):
        m, k = tl.arange(0, 64), tl.arange(0, 32)
        at = m[:, None] * 32 + k[None, :]
        x = tl.load(x_ptr + at)
        found = tl.zeros((64, 64), tl.float32)
        for i in range(n):
            if EACH:
                x = tl.load(x_ptr + i * 2048 + at)
            found = tl.dot(x, tl.trans(tl.load(y_ptr + i * 2048 + at)), found)
        tl.store(out_ptr + m[:, None] * 64 + m[None, :], found)

    for each in (True, False):
        module = tile_ir(
            carried, "*fp16:16 *fp16:16 *fp32:16 i32", {"EACH": each}, num_warps=4, num_stages=2
        )
        last = in_gpu_ir(with_options(module, keep_operands=True))
        assert in_registers(last) == [not each]
        assert not any(isinstance(op, SharedStore) for op in last.walk())


def test_what_does_not_stay_is_said_once():
    def said(**options: Any) -> list[str]:
        module = with_options(module_of(), overlap=False, tma=False, **options)
        final = [module, *(after for _, after in tile_steps(module))][-1]
        steps = [*gpu_steps(final, SM_90A)]
        place = [name for name, _ in steps].index("stage-products")
        remarks = Remarks()
        stage_products(steps[place - 1][1], remarks, SM_90A)
        return [one.text for one in remarks.items if one.severity == "missed"]

    text = "read from shared memory in each round: registers do not suffice"
    assert said(maxnreg=64) == [text, text]
    assert said(keep_operands=True) == []


def test_what_a_branch_reads_last_is_not_alive_beside_what_it_makes():
    def kernel(x_ptr, out_ptr, n):
        at = tl.arange(0, 4096)
        x = tl.load(x_ptr + at)
        y = x * x
        if n > 0:
            y = y * 3.0 + 1.0
        tl.store(out_ptr + at, y)

    module = tile_ir(kernel, "*fp32:16 *fp32:16 i32", {}, num_warps=4)
    assert peak(in_gpu_ir(module))[1] == 4096 // 128
