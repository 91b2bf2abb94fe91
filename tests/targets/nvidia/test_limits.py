"""What no chip can hold is refused before minutes go into writing it out."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench import tl
from workbench.source import ResourceError


@wb.jit
def fill(out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, BLOCK), 1.0)


def test_a_tile_for_the_whole_array_is_refused_with_its_place():
    with pytest.raises(ResourceError) as caught:
        wb.compile(fill, "*f32", {"BLOCK": 1_000_000}, target="sm_90a", num_warps=4)
    error = caught.value
    assert error.code == "K402"
    assert "leaves 8,192 to each of 128 threads" in error.message
    assert error.span is not None


@wb.jit
def sums_of_products(
    out_ptr, a_ptr, b_ptr, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr
):  # fmt: skip
    m, k, n = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :]).to(tl.float32)
    b = tl.load(b_ptr + k[:, None] * N + n[None, :]).to(tl.float32)
    tl.store(out_ptr + m[:, None] * N + n[None, :], tl.sum(a[:, :, None] * b[None, :, :], 1))


def test_products_that_are_never_made_are_not_too_many():
    """A sum of them becomes a matrix product; under `exact` it does not, and they are."""
    sizes = {"M": 128, "K": 32, "N": 128}
    signature = "*f32:16 *f16:16 *f16:16"
    made = wb.compile(sums_of_products, signature, sizes, target="sm_90a", num_warps=4)
    assert "mma" in made.asm["ptx"]
    with pytest.raises(ResourceError) as caught:
        wb.compile(sums_of_products, signature, sizes, target="sm_90a", num_warps=4, exact=True)
    assert caught.value.code == "K402"
