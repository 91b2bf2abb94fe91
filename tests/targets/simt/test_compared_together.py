"""Registers whose comparisons differ by constants ask one difference: the same answers."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench
from tests.language.harness import from_text
from tests.passes.corpus import tile_ir
from tests.targets.simt.pretend import Pretend, execute, gpu_ir
from workbench.ir import I64, element_of
from workbench.ops import Elementwise

MACHINE = Pretend()
LEAST, MOST = -(1 << 31), (1 << 31) - 1
FUNCTIONS = {
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "==": np.equal, "!=": np.not_equal,
}  # fmt: skip
DIAGONAL = """
def diagonal(out, row, column, SCALE: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    rows, columns = row * SCALE + r, column * SCALE + c
    keep = rows[:, None] < columns[None, :]
    tl.store(out + r[:, None] * C + c[None, :], tl.where(keep, 1.0, 2.0))
"""
R, C = 16, 128
#: Starts of rows and columns: beside each other, far apart, and so that differences leave 32 bits.
STARTS = [(0, 0), (5, 0), (0, 64), (-100, -90), (MOST, MOST), (LEAST, LEAST), (LEAST, MOST),
          (MOST, LEAST), (0, MOST), (MOST, 0), (0, LEAST), (MOST, MOST - 20)]  # fmt: skip


def compared(function: str, scale: int, narrow: bool, start: tuple[int, int], **off: bool) -> Any:
    """Return what a kernel gives and numpy, and the GPU IR's comparisons of 64 bits."""
    text = DIAGONAL.replace("None] < columns", f"None] {function} columns")
    signature, shape = "*fp32:16 i32 i32", {"SCALE": scale, "R": R, "C": C}
    module = tile_ir(from_text(text), signature, shape, num_warps=1)
    module = replace(module, attributes={**module.attributes, "narrow_index": narrow, **off})
    made = gpu_ir(module, MACHINE)
    out = np.zeros((R, C), np.float32)
    execute(made, MACHINE, (1,), [out, *start])
    rows = start[0] * scale + np.arange(R, dtype=np.int64)[:, None]
    columns = start[1] * scale + np.arange(C, dtype=np.int64)[None, :]
    wide = [
        op for op in made.walk()
        if isinstance(op, Elementwise) and op.row.compares and element_of(op.inputs[0].type) == I64
    ]  # fmt: skip
    return out == 1.0, FUNCTIONS[function](rows, columns), wide


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("scale", [1, 1024])
def test_wide_indices(function: str, scale: int):
    for start in STARTS:
        found, wanted, wide = compared(function, scale, False, start)
        assert [op.near for op in wide] == [True]
        assert np.array_equal(found, wanted), start


@pytest.mark.parametrize("function", FUNCTIONS)
def test_indices_of_32_bits(function: str):
    """A launch's indices fit with room, but their difference may not."""
    room = 1 << 21
    ends = LEAST + room, MOST - room - C
    for start in [(0, 0), (3, 0), (0, 64), (5, 90), ends, ends[::-1], (ends[1], ends[1] + 30)]:
        found, wanted, wide = compared(function, 1, True, start)
        assert not wide
        assert np.array_equal(found, wanted), start


LOADED = """
def loaded(out, bound, row, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    rows = tl.load(row + r)
    keep = (tl.load(bound) + c)[None, :] >= rows[:, None]
    tl.store(out + r[:, None] * C + c[None, :], tl.where(keep, 1.0, 2.0))
"""


def test_numbers_of_64_bits_of_which_nothing_is_known():
    """What an author computes in 64 bits may lie at their ends, and wraps."""
    module = tile_ir(from_text(LOADED), "*fp32:16 *i64 *i64", {"R": R, "C": C}, num_warps=1)
    ends = [0, 1, -1, (1 << 63) - 1, -(1 << 63), 1 << 62, -(1 << 62), MOST, LEAST, MOST + 1]
    rows = np.resize(np.array(ends, np.int64), R)
    for bound in ends:
        out, start = np.zeros((R, C), np.float32), np.array([bound], np.int64)
        execute(gpu_ir(module, MACHINE), MACHINE, (1,), [out, start, rows])
        with np.errstate(over="ignore"):
            wanted = (start + np.arange(C))[None, :] >= rows[:, None]
        assert np.array_equal(out == 1.0, wanted), bound


CAUSAL = from_text("""
    def causal(out, x, row, column, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tile = tl.load(x + i[:, None] * BLOCK + i[None, :])
        scores = tl.dot(tile, tile)
        keep = (row * BLOCK + i)[:, None] >= (column * BLOCK + i)[None, :]
        tl.store(out + i[:, None] * BLOCK + i[None, :], tl.where(keep, scores, 0.0))
""")


def test_a_causal_mask_takes_a_comparison_for_each_diagonal():
    """A thread has 4 rows and 8 pairs of columns, all 8 apart: 11 distances of pairs."""
    for together, found in ((True, 2 * 11), (False, 64)):
        text = workbench.compile(
            CAUSAL, "*fp32:16 *fp16:16 i32 i32", {"BLOCK": 64}, "sm_90a", num_warps=2,
            compare_together=together,
        ).asm["ptx"]  # fmt: skip
        assert len(re.findall(r"setp\.\w+\.[su](32|64)", text)) == found
        assert together is not bool(re.findall(r"setp\.\w+\.s64", text))
