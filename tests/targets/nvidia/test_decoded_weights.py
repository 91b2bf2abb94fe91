"""How weights are made floats between wgmmas: few instructions, and none in a wgmma's way."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import workbench
import workbench.language as tl
from tests.kernels import quantised
from tests.passes.corpus import tile_ir
from tests.passes.meaning import meaning
from tests.targets.nvidia.dequantised import (
    GROUP,
    KERNELS,
    POINTERS,
    SM_90A,
    K,
    N,
    in_gpu_ir,
    module_of,
    product_of,
)
from tests.targets.nvidia.hazards import simulate
from tests.targets.nvidia.in_flight import loop_of_products, read_before_the_end, written_in_flight
from tests.targets.nvidia.test_on_device import product_of_doubles
from tests.targets.nvidia.test_ptx import needs_nvdisasm, needs_ptxas
from tests.targets.nvidia.test_roles import ordered
from workbench.ir import Module, layout_of, shape_of
from workbench.ops import ConvertLayout, Dot, For
from workbench.targets.nvidia.ops import AsyncCopy, WarpgroupDot
from workbench.targets.simt.parts import chain_of
from workbench.targets.simt.shared import buffer_layout


@pytest.mark.parametrize(("word", "named"), [("u8", "e2m1"), ("f8e4m3", "e4m3")])
def test_small_floats_are_decoded_in_the_layout_of_fragments(word: str, named: str):
    """However many ops that takes: what is converted, if anything, are the scales."""
    signature = f"*f16:16 *{word}:16 *u8:16 *f16:16 i32 i32:16 i32:16 i32:16 i32:16 i32:16 i32:16"
    blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "X_FORMAT": "fp16", "W_FORMAT": named}
    module = tile_ir(quantised.product_with_microscales, signature, blocks, num_warps=4)
    module = replace(module, attributes={**module.attributes, "computed_first": True})
    last = in_gpu_ir(module)
    product = product_of(last)
    assert (product.is_turned, product.parts) == (True, 2)
    (loop,) = (op for op in last.walk() if isinstance(op, For) and product in op.body.ops)
    assert chain_of(loop.body, product, product.b, SM_90A, 4)
    sizes = [shape_of(op.result.type) for op in loop.body.ops if isinstance(op, ConvertLayout)]
    assert (64, 64) not in sizes


@needs_ptxas
@needs_nvdisasm
@pytest.mark.parametrize("rows", [16, 8])
def test_eight_4_bit_floats_take_thirteen_integer_instructions(rows: int):
    """Three shifts, four masks, six permutes; none is multiplied, scales come by copies.

    Of one fragment of X for two of weights halves lie two apart: four permutes, and one for each
    word of X. Four scales take six: a permute, three masks, two minima. Numbers come by ldmatrix.
    """
    blocks = {"BLOCK_M": rows, "BLOCK_N": 64 if rows == 16 else 128, "BLOCK_K": 128}
    given = {"X_FORMAT": "fp16", "W_FORMAT": "e2m1", "EVEN_K": True}
    signature = "*f16:16 *u8:16 *u8:16 *f16:16" + " i32:16" * 7
    compiled = workbench.compile(
        quantised.product_with_microscales, signature, {**blocks, **given}, num_warps=4,
        num_stages=3,
    )  # fmt: skip
    names = [row.name.split(".")[0] for row in loop_of_products(compiled.asm["sass"], "HMMA")]
    pairs = blocks["BLOCK_N"] * 128 // 128 // 2
    few, sums, scales, of_x = 8, pairs * rows // 32, pairs // 4, rows * 128 // 64
    permutes = 3 * pairs // 2 if rows == 16 else pairs + of_x
    assert names.count("LOP3") <= pairs + 3 * scales // 4 + few
    assert permutes <= names.count("PRMT") <= permutes + scales // 4 + few
    assert names.count("VIMNMX") == scales // 2
    assert names.count("LDSM") == pairs // 16
    assert (names.count("HMUL2"), names.count("FFMA")) == (0, 2 * sums)
    assert names.count("BAR") == 1
    assert not {"LDG", "STS", "FMUL", "F2F"} & {*names}


MICROSCALED = "*f16:16 *u8:16 *u8:16 *f16:16" + " i32:16" * 3 + " i32:16 i32:16 i32 i32:16"


def module_of_microscales(blocks: tuple[int, int, int], **options: Any) -> Module:
    m, n, k = blocks
    named = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "X_FORMAT": "fp16", "W_FORMAT": "e2m1"}
    return tile_ir(
        quantised.product_with_microscales, MICROSCALED, named, num_warps=4, num_stages=3,
        **options,
    )  # fmt: skip


@pytest.mark.parametrize("blocks", [(8, 32, 64), (16, 64, 128), (16, 48, 32), (8, 128, 64),
                                    (8, 112, 128), (32, 32, 64)])  # fmt: skip
def test_sums_of_few_rows_are_scaled(blocks: tuple[int, int, int]):
    """Where they are fewer than numbers; an instruction's lanes have numbers of one scale."""

    def make() -> list[Any]:
        random = np.random.default_rng(7)
        rows, runs = blocks[0], K // 32
        x = random.integers(-2, 3, (rows, K)).astype(np.float16)
        w = random.integers(0, 256, (N, K // 2)).astype(np.uint8)
        scale = random.integers(125, 129, (N, runs)).astype(np.uint8)
        c = np.zeros((rows, N), np.float16)
        return [x.ravel(), w.ravel(), scale.ravel(), c.ravel(), rows, N, K, K, K // 2, runs, N]

    module = module_of_microscales(blocks)
    last = in_gpu_ir(module)
    assert meaning(last, (2,), make()) == meaning(module, (2,), make())
    (dot,) = (op for op in last.walk() if isinstance(op, Dot | WarpgroupDot))
    if blocks[0] > 16:
        assert not isinstance(dot, Dot) or dot.factors is None
        return
    assert isinstance(dot, Dot)
    assert dot.factors is not None
    layout = layout_of(dot.b.type)
    assert layout is not None
    lanes = [k for k, _ in layout.bases["lane"] if k]
    assert max(lanes) <= 16
    placed, offsets, total = ordered(last)
    simulate(placed, offsets, total, (2,), make(), SM_90A)


def test_sums_that_are_scaled_are_those_of_warps():
    """Whoever asks for few rows as columns of wgmma is told why not."""
    blocks = {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 64, "X_FORMAT": "fp16", "W_FORMAT": "e2m1"}
    compiled = workbench.compile(
        quantised.product_with_microscales, MICROSCALED, blocks, target="sm_90a",
        swap_operands=True, cached=False,
    )  # fmt: skip
    assert "mma.sync" in compiled.asm["ptx"]
    said = [remark.text for remark in compiled.trace.remarks]
    assert any("not warpgroups (wgmma): its sums are multiplied by factors" in t for t in said)


@needs_ptxas
@needs_nvdisasm
@pytest.mark.parametrize("kind", ["i8", "e2m1"])
def test_no_register_in_flight_is_written_in_the_machine_code(kind: str):
    """Nor are products serialized: ptxas keeps the registers of a part that goes on."""
    blocks = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64}
    if kind == "i8":
        kernel, given = quantised.product_with_8_bits, {"GROUP": GROUP}
        signature = POINTERS.format("i8").replace("i32 i32:16", "i32:16 i32:16", 1)
    else:
        kernel, given = quantised.product_with_microscales, {"X_FORMAT": "fp16", "W_FORMAT": kind}
        signature = "*f16:16 *u8:16 *u8:16 *f16:16" + " i32:16" * 7
    compiled = workbench.compile(
        kernel, signature, {**blocks, **given}, num_warps=8, num_stages=4, computed_first=True
    )
    sass = compiled.asm["sass"]
    loop = loop_of_products(sass)
    assert [row.operands.strip() for row in loop if ".DEPBAR.LE" in row.name] == ["gsb0, 0x1"] * 2
    assert not list(written_in_flight(loop))
    # With one wait less the same registers are written too early.
    late = loop_of_products(sass.replace("gsb0, 0x1 ;", "gsb0, 0x2 ;"))
    assert list(written_in_flight(late))


@needs_ptxas
@needs_nvdisasm
@pytest.mark.parametrize("type", [tl.float16, tl.bfloat16])
def test_sums_are_not_rounded_in_front_of_the_wait(type: Any):
    """Rounded one by one, ptxas packs them there: the last part of the last round was missing."""
    word = {tl.float16: "f16", tl.bfloat16: "bf16"}[type]
    signature = f"*{word}:16 *{word}:16 *{word}:16 i32:8 i32 i32:16 i32:16 i32:16 i32:16"
    blocks = {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64, "TYPE": type}
    compiled = workbench.compile(
        product_of_doubles, signature, blocks, num_warps=4, num_stages=3, target="sm_90a"
    )
    assert "in_flight = 1, parts = 2" in compiled.asm["gpu"]
    assert f"cvt.rn.{word}.f32" not in compiled.asm["ptx"]
    assert not list(read_before_the_end(compiled.asm["sass"]))


@needs_ptxas
@needs_nvdisasm
@pytest.mark.parametrize(("kind", "most"), [("i4", 2.0), ("i8", 1.5)])
def test_two_numbers_take_two_integer_instructions(kind: str, most: float):
    """A permute for two, a mask for two (int4) or four; constants stay in registers."""
    blocks = {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128, "GROUP": GROUP}
    signature = POINTERS.format("i8")
    compiled = workbench.compile(
        KERNELS[kind], signature, blocks, num_warps=4, num_stages=3, copy_narrow=True
    )
    rows = loop_of_products(compiled.asm["sass"], "HMMA")
    names = [row.name.split(".")[0] for row in rows]
    pairs = 64 * 128 // 128 // 2
    few = 8
    assert pairs <= names.count("PRMT") <= pairs + few
    assert names.count("PRMT") + names.count("LOP3") <= most * pairs + few
    assert names.count("HFMA2") + names.count("HADD2") == names.count("HMUL2") == pairs
    assert sum("MOV" in row.name for row in rows) <= few
    assert "LDG" not in names


@pytest.mark.parametrize(
    ("blocks", "apart"), [((8, 128, 128), 4), ((16, 112, 128), 4), ((16, 64, 128), 1)]
)
def test_halves_lie_apart_where_that_saves_permutes(blocks: tuple[int, int, int], apart: int):
    """Two fragments of weights for each of X: exchanging X's halves costs less than theirs."""
    last = in_gpu_ir(module_of("i4", blocks, num_stages=3))
    (dot,) = (op for op in last.walk() if isinstance(op, Dot))
    for value, axis in ((dot.a, 1), (dot.b, 0)):
        layout = layout_of(value.type)
        assert layout is not None
        assert layout.bases["register"][0][axis] == apart


@pytest.mark.parametrize(
    ("blocks", "apart"), [((8, 128, 128), 2), ((8, 64, 128), 1), ((16, 128, 128), 1)]
)
def test_halves_of_floats_put_together_by_fours_lie_apart_where_that_saves_permutes(
    blocks: tuple[int, int, int], apart: int
):
    """One permute less for two words of weights, one more for each of X."""
    last = in_gpu_ir(module_of_microscales(blocks))
    (dot,) = (op for op in last.walk() if isinstance(op, Dot))
    for value, axis in ((dot.a, 1), (dot.b, 0)):
        layout = layout_of(value.type)
        assert layout is not None
        assert layout.bases["register"][0][axis] == apart


@pytest.mark.parametrize("blocks", [(16, 32, 32), (8, 128, 128)])
def test_copies_go_where_memory_has_them_side_by_side(blocks: tuple[int, int, int]):
    """A thread whose first two elements lie four apart has a run all the same: the ring's rows."""
    last, tried = in_gpu_ir(module_of("i4", blocks, num_stages=3)), 0
    for op in last.walk():
        if isinstance(op, AsyncCopy):
            layout, shared = layout_of(op.pointers.type), buffer_layout(op.buffer)
            assert layout is not None
            axes = range(layout.rank)
            runs = [layout.side_by_side("register", axis) for axis in axes]
            assert shared.bases["offset"][0][runs.index(max(runs))] == 1, (layout, shared)
            tried += runs != [layout.consecutive("register", axis) for axis in axes]
    assert tried


@needs_ptxas
def test_fields_that_lie_apart_take_a_mask_for_two():
    """And a shift for each second one; the rest of the permutes is of X."""
    blocks = {"BLOCK_M": 8, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP": GROUP}
    text = workbench.compile(
        KERNELS["i4"], POINTERS.format("i8"), blocks, target="sm_90a", num_warps=4
    ).asm["ptx"]
    pairs, of_x = 128 * 128 // 128 // 2, 8 * 128 // 64
    assert pairs <= len(re.findall(r"xor\.b32|lop3\.b32", text)) <= pairs + 24
    assert len(re.findall(r"prmt\.b32", text)) <= of_x + 4


def test_numbers_are_made_in_front_of_the_instruction_that_takes_them():
    """Not all of a round's before the first: an instruction is started every few scalings."""
    blocks = {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128, "GROUP": GROUP}
    compiled = workbench.compile(
        KERNELS["i4"], POINTERS.format("i8"), blocks, target="sm_90a", num_warps=4
    )
    rows = re.findall(r"mma\.sync|mul\.f16 ", compiled.asm["ptx"])
    products = [place for place, row in enumerate(rows) if row == "mma.sync"]
    scalings = [place for place, row in enumerate(rows) if row != "mma.sync"]
    assert len(scalings) == 64
    assert len(products) == 16
    assert products[0] == 8  # numbers of a fragment
    assert all(b - a in (1, 9) for a, b in pairwise(products))
