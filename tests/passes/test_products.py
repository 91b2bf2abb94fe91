"""What is like a product that a pass rewrites, and is not one."""

from __future__ import annotations

import numpy as np
import pytest

import workbench.language as tl
from tests.passes.corpus import tile_ir
from workbench.interpreter import run_module
from workbench.ir import Module, parse_module
from workbench.ops import Dot
from workbench.passes.manager import Remarks
from workbench.passes.repeated_rows import multiply_rows_once
from workbench.passes.rules import constant_of
from workbench.passes.sums_to_products import multiply_broadcast_tiles


def squared(casts: str) -> Module:
    """Return a kernel that sums products of a tile of f16 with itself; `casts`: of %e to %d."""
    return parse_module(f"""
kernel @squared(%h: f16, %o: ptr<f32>) {{num_warps = 4}} {{
  %x = tile.splat %h {{shape = (16, 16)}} : tile<16x16xf16>
  %e = tile.expand_dims %x {{axis = 2}} : tile<16x16x1xf16>
  {casts}
  %a = tile.broadcast %d {{shape = (16, 16, 16)}} : tile<16x16x16xf32>
  %f = tile.expand_dims %x {{axis = 0}} : tile<1x16x16xf16>
  %g = tile.cast %f {{to = f32}} : tile<1x16x16xf32>
  %b = tile.broadcast %g {{shape = (16, 16, 16)}} : tile<16x16x16xf32>
  %p = tile.mul [%a, %b] : tile<16x16x16xf32>
  %s = tile.reduce [%p] {{axis = 1}} {{
  ^(%u: f32, %v: f32):
    %w = tile.add [%u, %v] : f32
    tile.yield [%w]
  }} : tile<16x16xf32>
  %q = tile.splat %o {{shape = (16, 16)}} : tile<16x16xptr<f32>>
  tile.store %q, %s
  tile.return
}}
""")


ONCE = "%d = tile.cast %e {to = f32} : tile<16x16x1xf32>"
ROUNDED = """
  %c = tile.cast %e {to = bf16} : tile<16x16x1xbf16>
  %d = tile.cast %c {to = f32} : tile<16x16x1xf32>
"""


@pytest.mark.parametrize(("casts", "rewritten"), [(ONCE, True), (ROUNDED, False)])
def test_factors_that_are_rounded_between_stay_so(casts: str, rewritten: bool):
    module = squared(casts)
    assert (multiply_broadcast_tiles(module, Remarks()) is not module) == rewritten


def sums_of_products(o_ptr, a_ptr, b_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + n[:, None] * K + k[None, :])
    tl.store(o_ptr + m[:, None] * N + n[None, :], tl.sum(a[:, None, :] * b[None, :, :], 2))


@pytest.mark.parametrize(
    ("types", "options", "precision"),
    [
        ("*fp32:16 *fp32:16", {}, "ieee"),
        ("*fp32:16 *fp16:16", {}, "ieee"),
        ("*fp32:16 *fp32:16", {"exact": True}, ""),
        ("*fp32:16 *fp32:16", {"enable_fp_fusion": False}, ""),
        ("*i32:16 *i32:16", {}, ""),
    ],
)
def test_products_of_f32_stay_so(types: str, options: dict[str, bool], precision: str):
    """They are multiply-adds, as those of the sum are; nobody asked for fewer bits."""
    sizes = {"M": 32, "N": 64, "K": 16}
    out = "*i32:16" if types.startswith("*i32") else "*fp32:16"
    module = tile_ir(sums_of_products, f"{out} {types}", sizes, num_warps=4, **options)
    remarks = Remarks()
    found = [op for op in multiply_broadcast_tiles(module, remarks).walk() if isinstance(op, Dot)]
    assert [op.precision for op in found] == [precision] * bool(precision)
    assert len(remarks.items) == len(found)
    assert all('input_precision="tf32"' in remark.text for remark in remarks.items)
    if found:
        # Of products that are all -0.0 the sum is -0.0.
        assert [str(constant_of(op.accumulator)) for op in found] == ["-0.0"]
        rewritten = multiply_broadcast_tiles(module, Remarks())
        random = np.random.default_rng(1)
        kinds = {"*fp32:16": np.float32, "*fp16:16": np.float16}
        first, second = (kinds[word] for word in types.split())
        a = random.integers(-8, 9, 32 * 16).astype(first)
        b = random.integers(-8, 9, 64 * 16).astype(second)
        got = np.zeros(32 * 64, np.float32)
        run_module(rewritten, (1,), [got, a, b])
        want = a.reshape(32, 16).astype(np.float32) @ b.reshape(64, 16).T.astype(np.float32)
        assert np.array_equal(got.reshape(32, 64), want)


def sums_and_largest(o_ptr, a_ptr, b_ptr, TWICE: tl.constexpr):
    m, n, k = tl.arange(0, 32), tl.arange(0, 64), tl.arange(0, 16)
    a = tl.load(a_ptr + m[:, None] * 16 + k[None, :])
    b = tl.load(b_ptr + n[:, None] * 16 + k[None, :])
    products = a[:, None, :] * b[None, :, :]
    found = tl.sum(products, 2)
    if TWICE:
        found += tl.max(products, 2)
    tl.store(o_ptr + m[:, None] * 64 + n[None, :], found)


@pytest.mark.parametrize("twice", [False, True])
def test_products_of_f32_that_others_read_are_added_up_where_they_are(twice: bool):
    """They are computed all the same: a dot would be more to do, not less."""
    types = "*fp32:16 *fp32:16 *fp32:16"
    module = tile_ir(sums_and_largest, types, {"TWICE": twice}, num_warps=4)
    assert (multiply_broadcast_tiles(module, Remarks()) is module) == twice


def copied_rows(o_ptr, a_ptr, b_ptr, TO: tl.constexpr, K: tl.constexpr):
    """Sums of pairs of rows of `TO` products, of tiles that have each of 2 x 8 rows of 16 twice."""
    g, m, d, n = tl.arange(0, 2), tl.arange(0, 8), tl.arange(0, 16), tl.arange(0, 16)
    t, k = tl.arange(0, TO), tl.arange(0, K)
    a = tl.load(a_ptr + (g[:, None, None] * 8 + m[None, :, None]) * 16 + d[None, None, :])
    a = tl.broadcast_to(tl.expand_dims(a, 2), (2, 8, 2, 16)).reshape(TO, 16, K)
    b = tl.load(b_ptr + (t[:, None, None] * K + k[None, :, None]) * 16 + n[None, None, :])
    at = (t[:, None, None] * 8 + m[None, :, None]) * 16 + n[None, None, :]
    tl.store(o_ptr + at, tl.sum(tl.dot(a, b).reshape(TO, 8, 2, 16), 2))


@pytest.mark.parametrize(("products", "rewritten"), [(2, True), (4, False)])
def test_rows_are_copies_only_where_a_reshape_leaves_the_rest(products: int, rewritten: bool):
    """The halves of a row, one behind the other, are no copies."""
    constants = {"TO": products, "K": 32 // products}
    module = tile_ir(copied_rows, "*fp32:16 *fp16:16 *fp16:16", constants, num_warps=4)
    assert (multiply_rows_once(module, Remarks()) is not module) == rewritten
