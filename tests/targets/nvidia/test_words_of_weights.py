"""Products with weights of which several lie in a word that all their rows load."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench
import workbench.language as tl
from tests.kernels import quantised
from tests.passes.corpus import tile_ir
from tests.passes.meaning import meaning
from tests.targets.nvidia.dequantised import (
    KERNELS,
    POINTERS,
    SM_90A,
    K,
    N,
    arguments,
    in_gpu_ir,
)
from tests.targets.nvidia.hazards import simulate
from tests.targets.nvidia.in_flight import loop_of_products
from tests.targets.nvidia.test_ptx import needs_nvdisasm, needs_ptxas
from tests.targets.nvidia.test_roles import ordered
from workbench.ir import (
    Module,
    layout_of,
    shape_of,
)
from workbench.layouts import split_warps
from workbench.ops import Cast, ConvertLayout, Dot, For, Load
from workbench.targets.nvidia.fragments import is_turned
from workbench.targets.nvidia.ops import AsyncCopy
from workbench.targets.simt.fields import field_of, shifts_of

WORDS = (
    "*f16:16 *i32:16 *f16:16 *i32:16 *f16:16 i32 i32:16 i32:16 i32:16 i32:16 i32=1 i32:16",
    quantised.product_with_words,
)


def module_of_words(blocks: tuple[int, int, int], **options: Any) -> Module:
    m, n, k = blocks
    named = {"GROUP": 64, "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}
    signature, kernel = WORDS
    return tile_ir(kernel, signature, named, num_warps=4, num_stages=3, **options)


def arguments_of_words(rows: int) -> Callable[[], list[Any]]:
    def make() -> list[Any]:
        random = np.random.default_rng(7)
        x = random.integers(-2, 3, (rows, K)).astype(np.float16)
        w, zeros = (
            random.integers(-(1 << 31), 1 << 31, shape).astype(np.int32)
            for shape in ((K // 8, N), (K // 64, N // 8))
        )
        scale = (2.0 ** random.integers(-1, 2, (K // 64, N))).astype(np.float16)
        c = np.zeros((rows, N), np.float16)
        arrays = [array.ravel() for array in (x, w, scale, zeros, c)]
        return [*arrays, rows, N, K, K, N, N]

    return make


@pytest.mark.parametrize("blocks", [(16, 32, 64), (16, 64, 64), (64, 64, 64), (64, 64, 32),
                                    (16, 48, 64), (8, 112, 64)])  # fmt: skip
def test_products_of_words_mean_the_same(blocks: tuple[int, int, int]):
    module, make = module_of_words(blocks), arguments_of_words(blocks[0])
    last = in_gpu_ir(module)
    assert meaning(last, (1,), make()) == meaning(module, (1,), make())
    placed, offsets, total = ordered(last)
    simulate(placed, offsets, total, (1,), make(), SM_90A)


@pytest.mark.parametrize("kind", KERNELS)
def test_scales_of_parts_of_a_block_are_loaded_once(kind: str):
    m, n, k = 16, 64, 128
    named = {"GROUP": 32, "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}
    module = tile_ir(KERNELS[kind], POINTERS.format("i8"), named, num_warps=4, num_stages=3)
    last = in_gpu_ir(module)
    halves = [op for op in last.walk() if isinstance(op, Load | AsyncCopy)]
    # K is known to be a multiple of 16: so far what lies beyond it is the same.
    assert (k // 16, n) in {shape_of(op.pointers.type) for op in halves}

    def make() -> list[Any]:
        given = arguments(kind, m)()
        random = np.random.default_rng(3)
        given[2] = (2.0 ** random.integers(-1, 2, (K // 32, N))).astype(np.float16).ravel()
        return given

    assert meaning(last, (1,), make()) == meaning(module, (1,), make())


def test_words_are_copied_once_and_read_as_they_lie():
    """A lane has whole words, whose numbers four apart are in the halves of a register."""
    last = in_gpu_ir(module_of_words((16, 128, 64)))
    (loop,) = (op for op in last.walk() if isinstance(op, For))
    words = [op for op in last.walk() if isinstance(op, AsyncCopy)]
    assert (8, 128) in {shape_of(op.pointers.type) for op in words}
    converted = [op for op in loop.body.ops if isinstance(op, ConvertLayout)]
    assert all(len(shape_of(op.result.type)) == 1 for op in converted)  # scales, zero points
    (dot,) = (op for op in loop.body.ops if isinstance(op, Dot))
    layout = layout_of(dot.b.type)
    assert layout is not None
    assert layout.bases["register"][0] == (4, 0)
    assert {(1, 0), (2, 0), (4, 0)} <= set(layout.bases["register"])


@pytest.mark.parametrize(("stride_wn", "beside"), [("i32=1", True), ("i32:16", False)])
def test_a_lane_has_neighbouring_columns_where_memory_has_their_words_side_by_side(
    stride_wn: str, beside: bool
):
    """It reads four words, and what else columns have, at once; sums lie as operands do."""
    signature = WORDS[0].replace("i32:16 i32=1", f"{'i32:16' if beside else 'i32=1'} {stride_wn}")
    named = {"GROUP": 64, "BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 64}
    last = in_gpu_ir(tile_ir(WORDS[1], signature, named, num_warps=4, num_stages=3))
    (dot,) = (op for op in last.walk() if isinstance(op, Dot))
    for value in (dot.b, dot.result):
        layout = layout_of(value.type)
        assert layout is not None
        assert ({(0, 1), (0, 2)} <= set(layout.bases["register"])) == beside
        assert ({(0, 4), (0, 8), (0, 16)} <= set(layout.bases["lane"])) == beside


@pytest.mark.parametrize(("rows", "columns"), [(16, 16), (8, 32)])
def test_warps_that_divide_less_than_an_instruction_has_repeat_its_columns(rows: int, columns: int):
    """Four columns of each of eight warps, of which instructions have sixteen."""
    named = {"GROUP": 64, "BLOCK_M": rows, "BLOCK_N": columns, "BLOCK_K": 64}
    module = tile_ir(WORDS[1], WORDS[0], named, num_warps=8, num_stages=3)
    last = in_gpu_ir(module)
    (dot,) = (op for op in last.walk() if isinstance(op, Dot))
    layout = layout_of(dot.result.type)
    assert layout is not None
    assert is_turned(layout)
    assert columns // split_warps((columns, rows), 8)[0] == 4
    make = arguments_of_words(rows)
    assert meaning(last, (1,), make()) == meaning(module, (1,), make())


@pytest.mark.parametrize("kind", KERNELS)
def test_products_of_bytes_by_more_warps_than_columns_need_keep_their_layout(kind: str):
    """All layouts are tried that a product may have, those of words among them."""
    named = {"GROUP": 128, "BLOCK_M": 16, "BLOCK_N": 16, "BLOCK_K": 64}
    module = tile_ir(KERNELS[kind], POINTERS.format("i8"), named, num_warps=8)
    make = arguments(kind, 16)
    assert meaning(in_gpu_ir(module), (4,), make()) == meaning(module, (4,), make())


def test_columns_behind_the_last_do_not_keep_fields_from_being_known():
    """A block of 112 columns: 256 of them are as many for each multiprocessor of an H100."""
    last = in_gpu_ir(module_of_words((16, 112, 64)))
    (dot,) = (op for op in last.walk() if isinstance(op, Dot))
    layout = layout_of(dot.b.type)
    assert layout is not None
    (cast,) = (
        op for op in last.walk() if isinstance(op, Cast) and layout_of(op.result.type) == layout
    )
    field = field_of(cast.source)
    assert field is not None
    assert layout.shape != layout.padded
    assert shifts_of(field, layout) is not None


@needs_ptxas
@needs_nvdisasm
def test_a_round_of_words_computes_its_rows_addresses_once():
    """No row is divided or multiplied by a stride anew, no zero point converted."""
    signature, kernel = WORDS
    named = {"GROUP": 64, "BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 64}
    compiled = workbench.compile(kernel, signature, named, num_warps=4, num_stages=3)
    rows = loop_of_products(compiled.asm["sass"], "HMMA")
    names = [row.name.split(".")[0] for row in rows]
    assert names.count("UIMAD") <= 2
    assert names.count("I2F") == 0
    words = 16 * 128 // 2 // 128 // 4  # of each thread, four at once
    assert names.count("LDS") <= words + 8 + 4


def words_of_e2m1(x_ptr, w_ptr, c_ptr, K, PLACE: tl.constexpr, BLOCK_K: tl.constexpr):
    """Eight 4-bit floats in an int32 along K, which an author takes apart."""
    m, n, i = tl.arange(0, 16), tl.arange(0, 128), tl.arange(0, BLOCK_K)
    acc = tl.zeros((16, 128), tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + i
        x = tl.load(x_ptr + m[:, None] * K + k[None, :])
        words = tl.load(w_ptr + (k // 8)[:, None] * 128 + n[None, :])
        code = words >> (i % 8 * 4)[:, None]
        bits = ((code & 7) << PLACE | (code & 8) << 12).to(tl.uint16)
        factor: tl.constexpr = 2.0**14 if PLACE == 9 else 2.0**126
        acc = tl.dot(x, bits.to(x.dtype, bitcast=True) * factor, acc)
    tl.store(c_ptr + m[:, None] * 128 + n[None, :], acc)


@pytest.mark.parametrize(("type", "place", "apart"), [("f16", 9, 1), ("bf16", 6, 4)])
def test_floats_of_words_lie_as_numbers_of_words_do(type: str, place: int, apart: int):
    """Those four apart are in the halves of a register, and words are copied once.

    Where four are put together at once neighbours are.
    """
    signature, named = f"*{type}:16 *i32:16 *f32:16 i32:16", {"PLACE": place, "BLOCK_K": 64}
    module = tile_ir(words_of_e2m1, signature, named, num_warps=4, num_stages=3)
    last = in_gpu_ir(module)
    (dot,) = (op for op in last.walk() if isinstance(op, Dot))
    layout = layout_of(dot.b.type)
    assert layout is not None
    assert layout.bases["register"][0] == (apart, 0)
    copied = {shape_of(op.pointers.type) for op in last.walk() if isinstance(op, AsyncCopy)}
    assert (8, 128) in copied

    def make() -> list[Any]:
        random = np.random.default_rng(7)
        x = random.integers(-2, 3, (16, 128)).astype(np.float16)
        w = random.integers(-(1 << 31), 1 << 31, (16, 128)).astype(np.int32)
        return [x.ravel(), w.ravel(), np.zeros(16 * 128, np.float32), 128]

    if type == "f16":  # NumPy has no bfloats
        assert meaning(last, (1,), make()) == meaning(module, (1,), make())


@needs_ptxas
@needs_nvdisasm
@pytest.mark.parametrize("blocks", [(16, 64, 64), (64, 64, 64)])
def test_numbers_of_words_are_not_converted_one_by_one(blocks: tuple[int, int, int]):
    """Zero points may be: one of each column that a thread has, or of each row."""
    m, n, k = blocks
    signature, kernel = WORDS
    named = {"GROUP": 64, "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}
    compiled = workbench.compile(kernel, signature, named, num_warps=4, num_stages=3)
    rows = loop_of_products(compiled.asm["sass"], "HMMA" if m == 16 else "HGMMA")
    names = [row.name.split(".")[0] for row in rows]
    assert names.count("I2F") <= 8


@pytest.mark.parametrize("type", ["bf16", "fp16"])
def test_each_part_of_a_scaled_operand_is_multiplied(type: str):
    """Words of shared memory that were unpacked for one part are not those of the next."""

    def kernel(x_ptr, w_ptr, s_ptr, out_ptr, count):
        k, m, n = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, 128)
        total = tl.zeros((64, 128), tl.float32)
        for first in range(0, count, 64):
            x = tl.load(x_ptr + m[:, None] * count + first + k).to(tl.float32)
            x = (x * tl.load(s_ptr + first + k)).to(x_ptr.dtype.element_ty)
            w = tl.load(w_ptr + (first + k[:, None]) * 128 + n)
            total = tl.dot(x, w, total)
        tl.store(out_ptr + m[:, None] * 128 + n, total)

    signature = f"*{type}:16 *{type}:16 *f32:16 *f32:16 i32:16"
    text = workbench.compile(kernel, signature, {}, target="sm_90a", cached=False).asm["ptx"]
    taken = re.findall(r"\}, \{([^}]*)\}, B", text)  # words of registers that a product takes
    words = [word for one in taken for word in one.split(", ")]
    assert len(taken) == 4
    assert len(words) == len(set(words)) == 16
