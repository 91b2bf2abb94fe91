"""Products of f32 in parts: how near they come, and what becomes of infinities and NaN."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import workbench
import workbench.language as tl
from tests.passes.corpus import tile_ir
from workbench.interpreter.machine import run_module
from workbench.ir import Module
from workbench.ops import Constant, Dot
from workbench.passes.accumulation import accumulate_products
from workbench.passes.manager import Remarks
from workbench.passes.split_operands import split_operands

N = 16
PRODUCTS = {"tf32x3": 3, "bf16x3": 3, "bf16x6": 6}
#: What is lost of a product: what no part holds, and products of parts that are left out.
LOST = {"tf32x3": 2.0**-20, "bf16x3": 2.0**-15, "bf16x6": 2.0**-21}
INFINITE, LARGEST = np.float32(np.inf), np.finfo(np.float32).max


def product(a_ptr, b_ptr, c_ptr, K: tl.constexpr, P: tl.constexpr):
    """A product of 16 by K and K by 16."""
    i, k = tl.arange(0, 16), tl.arange(0, K)
    a = tl.load(a_ptr + i[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * 16 + i[None, :])
    tl.store(c_ptr + i[:, None] * 16 + i[None, :], tl.dot(a, b, input_precision=P))


def lowered(precision: str, k: int) -> Module:
    return tile_ir(product, "*fp32, *fp32, *fp32", {"K": k, "P": precision})


def dots(module: Module) -> list[Dot]:
    return [op for op in module.walk() if isinstance(op, Dot)]


def computed(precision: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return what the parts give."""
    module = split_operands(lowered(precision, a.shape[1]), Remarks())
    assert len(dots(module)) == PRODUCTS[precision]
    c = np.full((N, N), np.nan, np.float32)
    run_module(module, (1,), [a.ravel(), b.ravel(), c.reshape(-1)])
    return c


@pytest.mark.parametrize("precision", PRODUCTS)
def test_parts_hold_what_is_promised(precision: str):
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((N, 64), (64, N)))
    want = a.astype(np.float64) @ b.astype(np.float64)
    size = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    error = np.abs(computed(precision, a, b) - want) / size
    assert error.max() < LOST[precision]
    # A first part alone would not do.
    assert error.max() < 2.0**-12


@pytest.mark.parametrize("precision", PRODUCTS)
def test_infinities_are_no_nan_and_nan_stay(precision: str):
    """Each odd number meets each other one and what parts hold exactly, alone in its sum."""
    low = np.array([0x7F800001, 0x7FFFFFFF], np.uint32).view(np.float32)  # NaN by one bit, by all
    odd = np.array(
        [INFINITE, -INFINITE, *low, LARGEST, -LARGEST, 1.0, -0.0, 0.1, 2.0**-100, 0.5, 3.0],
        np.float32,
    )  # fmt: skip
    a, b = np.zeros((N, N), np.float32), np.zeros((N, N), np.float32)
    a[: len(odd), 0] = odd
    b[0, : len(odd)] = odd
    with np.errstate(all="ignore"):
        exact = np.outer(a[:, 0].astype(np.float64), b[0].astype(np.float64))
        want = exact.astype(np.float32)
    got = computed(precision, a, b)
    assert (np.isnan(got) == np.isnan(want)).all()
    # So near to the largest number, parts may round to an infinity or away from one.
    sure = ~np.isnan(want) & ((np.abs(exact) < 3e38) | (np.abs(exact) > 4e38))
    assert (np.isinf(got) == np.isinf(want))[sure].all()
    finite = sure & np.isfinite(want)
    assert np.allclose(got[finite], want[finite], rtol=2.0**-14, atol=1e-37)


@pytest.mark.parametrize(("precision", "k"), [("ieee", 16), ("tf32", 16), ("bf16x3", 8)])
def test_what_is_no_product_of_parts_stays(precision: str, k: int):
    module = lowered(precision, k)
    assert split_operands(module, Remarks()) is module


def test_exact_kernels_keep_their_products():
    module = lowered("tf32x3", 16)
    exact = replace(module, attributes={**module.attributes, "exact": True})
    assert split_operands(exact, Remarks()) is exact


def summed(a_ptr, c_ptr, P: tl.constexpr):
    """A product added to a sum."""
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    a, c = tl.load(a_ptr + at), tl.load(c_ptr + at)
    tl.store(c_ptr + at, tl.dot(a, a, c, input_precision=P))


@pytest.mark.parametrize("precision", PRODUCTS)
def test_tensor_cores_do_not_add_to_the_sum(precision: str):
    """They cut what they add to: a sum of many rounds would lose what the parts are for."""
    module = split_operands(tile_ir(summed, "*fp32, *fp32", {"P": precision}), Remarks())
    module = accumulate_products(module, Remarks())
    starts = [dot.accumulator.op for dot in dots(module)]
    first, *others = starts
    assert isinstance(first, Constant)
    assert first.value == 0
    assert all(isinstance(op, Dot) for op in others)


@pytest.mark.parametrize("precision", PRODUCTS)
def test_parts_are_multiplied_by_tensor_cores(precision: str):
    compiled = workbench.compile(
        product, "*fp32, *fp32, *fp32", {"K": 32, "P": precision}, target="sm_90a"
    )
    sass = str(compiled.asm["sass"])
    assert "HMMA" in sass
    assert "FFMA" not in sass
