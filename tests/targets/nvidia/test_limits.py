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
