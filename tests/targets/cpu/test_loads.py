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
