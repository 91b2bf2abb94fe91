"""A load reads memory as it is where it stands, however late and often its value is needed."""

from __future__ import annotations

import numpy as np
import pytest

import workbench
from tests.language.harness import from_text

STORED_AGAIN_AND_AGAIN = {
    "the same place": "tl.store(p + i, x + 1)",
    "one element on": "tl.store(p + 1 + i, x + 1)",
    "under a mask": "tl.store(p + i, x + 1, mask=i < 9)",
    "in a branch": "if r != 1:\n            tl.store(p + i, x * 2)",
    "in an inner loop": "for s in range(2):\n            tl.store(p + i, x + s + 1)",
    "by an atomic": "tl.atomic_add(p + i, x)",
    "folded": "tl.store(p + tl.reshape(tl.arange(0, 16), (4, 4)), tl.reshape(x, (4, 4)) + 1)",
}


@pytest.mark.parametrize("name", STORED_AGAIN_AND_AGAIN)
@pytest.mark.parametrize("loop", ["for r in range(3):", "r = 0\n    while r < 3:\n        r += 1"])
def test_what_was_loaded_before_a_loop_stays_what_it_was(name: str, loop: str):
    text = f"""
def kernel(p):
    i = tl.arange(0, 16)
    x = tl.load(p + i)
    {loop}
        {STORED_AGAIN_AND_AGAIN[name]}
"""
    kernel = workbench.jit(from_text(text))
    got, want = (np.arange(32, dtype=np.float32) for _ in "gw")
    kernel[(1,)](got)
    kernel.interpret[(1,)](want)
    np.testing.assert_array_equal(got, want)


def _same_as_interpreted(text: str, *numbers: int) -> None:
    """Run a kernel on one array given as `p` and as `q`."""
    kernel = workbench.jit(from_text(text))
    got, want = (np.arange(512, dtype=np.float32) for _ in "gw")
    kernel[(1,)](got, got, *numbers)
    kernel.interpret[(1,)](want, want, *numbers)
    np.testing.assert_array_equal(got, want)


#: A tile of 64, its elements elsewhere.
MOVED = {
    "flipped": "tl.flip(x)",
    "gathered": "tl.gather(x, (i * 5 + 3) % 64, 0)",
    "turned": "tl.reshape(tl.trans(tl.reshape(x, (8, 8))), (64,))",
    "split": "tl.cat(*tl.split(tl.reshape(x, (32, 2))), can_reorder=True)",
    "interleaved": "tl.interleave(*tl.split(tl.trans(tl.reshape(x, (2, 32)))))",
}


@pytest.mark.parametrize("name", MOVED)
@pytest.mark.parametrize("target", "pq")
def test_an_array_is_moved_in_place(name: str, target: str):
    text = f"""
def kernel(p, q):
    i = tl.arange(0, 64)
    x = tl.load(p + i)
    tl.store({target} + i, {MOVED[name]})
"""
    _same_as_interpreted(text)


@pytest.mark.parametrize("target", "pq")
def test_a_square_is_transposed_in_place(target: str):
    text = f"""
def kernel(p, q):
    i = tl.arange(0, 16)
    at = i[:, None] * 16 + i[None, :]
    tl.store({target} + at, tl.trans(tl.load(p + at)))
"""
    _same_as_interpreted(text)


@pytest.mark.parametrize("target", "pq")
def test_many_elements_are_stored_where_one_was_read(target: str):
    text = f"""
def kernel(p, q):
    i = tl.arange(0, 32)
    x = tl.load(p + i)
    there = tl.broadcast_to(({target} + i)[:, None], (32, 8))
    tl.store(there, tl.broadcast_to(x[:, None], (32, 8)) + 1)
"""
    _same_as_interpreted(text)


@pytest.mark.parametrize("strides", [(0, 1), (3, 1), (8, 1), (16, 1), (1, 8), (1, 0), (-16, 1)])
@pytest.mark.parametrize("target", "pq")
def test_rows_overlap_by_a_stride_of_the_launch(strides: tuple[int, int], target: str):
    text = f"""
def kernel(p, q, s, t):
    at = 200 + tl.arange(0, 8)[:, None] * s + tl.arange(0, 16)[None, :] * t
    tl.store({target} + at, tl.load(p + at) + 1)
"""
    _same_as_interpreted(text, *strides)


@pytest.mark.parametrize("stride", [0, 1, 3, -2])
def test_a_row_overlaps_by_a_stride_of_the_launch(stride: int):
    text = """
def kernel(p, q, s):
    at = p + 100 + tl.arange(0, 16) * s
    tl.store(at, tl.load(at) + 1)
"""
    _same_as_interpreted(text, stride)


def test_halves_of_what_counts_down():
    text = """
def kernel(p, q):
    j = 64 - tl.arange(0, 64)
    at = p + j // 2 + (j % 2) * 32
    tl.store(at, tl.load(at) + 1)
"""
    _same_as_interpreted(text)


@pytest.mark.parametrize("columns", [-1, 0, 1, 9, 12, 16])
@pytest.mark.parametrize("stride", ["s", "9"])
def test_rows_overlap_by_what_a_mask_leaves_of_them(stride: str, columns: int):
    text = f"""
def kernel(p, q, s, n):
    j = tl.arange(0, 16)[None, :]
    at = p + tl.arange(0, 8)[:, None] * {stride} + j
    tl.store(at, tl.load(at, mask=j < n) * 2 + 1, mask=j < n)
"""
    _same_as_interpreted(text, 9, columns)
