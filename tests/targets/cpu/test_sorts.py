"""Sorting, merging and picking on the CPU target give what the interpreter gives."""

import pytest

from tests.ops.examples import wrap
from tests.targets.cpu.test_ops import check


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    ("shape", "keep"), [("1", 0), ("7", 0), ("3x64", 0), ("5x33", 4), ("100", 1)]
)
@pytest.mark.parametrize("element", ["i8", "u16", "i32", "i64"])
def test_sort(descending: bool, shape: str, keep: int, element: str):
    kept = shape if not keep else "x".join([*shape.split("x")[:-1], str(keep)])
    line = (
        f"%1 = tile.sort %0 {{descending = {descending}, keep = {keep}}} : tile<{kept}x{element}>"
    )
    check(wrap("tile.sort", [line], {"%0": f"tile<{shape}x{element}>"}))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", ["1", "2x16", "128"])
def test_merge(descending: bool, shape: str):
    line = f"%1 = tile.merge %0 {{descending = {descending}}} : tile<{shape}xi32>"
    check(wrap("tile.merge", [line], {"%0": f"tile<{shape}xi32>"}))


@pytest.mark.parametrize(
    ("source", "index", "axis"), [("9", "40", 0), ("5x40", "3x40", 0), ("6x7", "6x33", 1)]
)
@pytest.mark.parametrize("index_type", ["i8", "i32", "i64"])
def test_gather_from_a_tile(source: str, index: str, axis: int, index_type: str):
    line = f"%2 = tile.gather %0, %1 {{axis = {axis}}} : tile<{index}xf32>"
    check(
        wrap(
            "tile.gather",
            [line],
            {"%0": f"tile<{source}xf32>", "%1": f"tile<{index}x{index_type}>"},
        )
    )
