"""Sums kept apart from constants stay in their width, and what may leave it is not said to stay."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import workbench.language as tl
from tests.passes.corpus import tile_ir
from tests.targets.nvidia.test_warpgroups import compiled, in_gpu_ir
from workbench.ops import Elementwise


def llvm(function: Any, signature: str) -> str:
    module = tile_ir(function, signature, {}, num_warps=1)
    return compiled(module)[0].texts["llvm"]().text


def far_factors(x_ptr, n, m):
    i = tl.arange(0, 32)
    tl.store(x_ptr + (i + n - 1000) * (m + 3), 1.0)


def test_parts_of_a_product_may_wrap_where_the_whole_does_not():
    """(i + n)(m + 3) is up to 1000(m + 3) more than the product, which fits."""
    text = llvm(far_factors, "*fp32 i32 i32")
    assert len(re.findall(r"= mul i32", text)) >= 2
    assert not re.findall(r"= mul nsw i32", text)


def far_constant(x_ptr, n):
    i = tl.arange(0, 32)
    tl.store(x_ptr + (i + n - 262144) * 4096, 1.0)


def test_a_constant_that_is_not_kept_apart_undoes_what_wraps():
    text = llvm(far_constant, "*fp32 i32")
    assert re.findall(r"= mul i32 %\w+, 4096", text)
    assert not re.findall(r"= mul nsw i32 %\w+, 4096", text)


def near_end(x_ptr, n):
    tile = tl.program_id(0) % tl.cdiv(n, 32)
    tl.store(x_ptr + (tile * 32 + tl.arange(0, 32)), 1.0)


def test_what_is_near_the_end_of_its_type_is_computed_as_a_whole():
    """Where only compiling knows that 32 bits hold it, they need not hold it less a constant."""
    for narrow in (False, True):
        module = tile_ir(near_end, "*fp32 i32", {}, num_warps=1)
        module = replace(module, attributes={**module.attributes, "narrow_index": narrow})
        ops = [op for op in in_gpu_ir(module).walk() if isinstance(op, Elementwise)]
        assert any(op.near_end for op in ops) is not narrow


def any_offset(x_ptr, offsets_ptr, n):
    i = tl.arange(0, 32)
    tl.store(x_ptr + tl.load(offsets_ptr + i) * 3, 1.0, mask=i < n)


def test_bytes_of_offsets_that_an_author_computed_may_wrap():
    """A masked lane may hold any number of 64 bits; exact integers have room for their bytes."""
    text = llvm(any_offset, "*fp32 *i64 i32")
    assert re.findall(r"= mul i64 %\w+, 4", text)
    assert not re.findall(r"= mul nsw i64 %\w+, 4", text)


def float_offset(x_ptr, places_ptr, n):
    i = tl.arange(0, 32)
    place = tl.load(places_ptr + i).to(tl.int64)
    tl.store(x_ptr + place, 1.0, mask=(place >= 0) & (place < n))


def test_bytes_of_offsets_that_were_floats_may_wrap():
    """One of a masked lane may be an infinity, which is cut to the last number of 64 bits."""
    text = llvm(float_offset, "*fp32 *fp32 i32")
    (place,) = re.findall(r"(%\w+) = call i64 @llvm.fptosi", text)
    assert re.findall(rf"= mul i64 {place}, 4", text)
