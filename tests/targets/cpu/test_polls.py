"""Loops that wait for memory to change do look at it again, on the CPU too."""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np
import pytest

import workbench
from tests.language.harness import from_text

POLLS = {
    "a scalar": "while tl.load(flag_ptr) == 0:\n        pass",
    "in the body": "v = tl.load(flag_ptr)\n    while v == 0:\n        v = tl.load(flag_ptr)",
    "a tile": "while tl.sum(tl.load(flag_ptr + tl.arange(0, 8))) == 0:\n        pass",
    "under a mask": (
        "m = tl.arange(0, 8) < 5\n"
        "    while tl.max(tl.load(flag_ptr + tl.arange(0, 8), mask=m, other=0)) == 0:\n        pass"
    ),
}


@pytest.mark.parametrize("name", POLLS)
def test_a_poll_sees_what_another_thread_writes(name: str):
    text = f"def kernel(flag_ptr, out_ptr):\n    tl.store(out_ptr + 1, 1)\n    {POLLS[name]}\n"
    text += "    tl.store(out_ptr, 7)\n"
    kernel = workbench.jit(from_text(text))
    flag, out = np.ones(8, np.int32), np.zeros(2, np.int32)
    kernel[(1,)](flag, out)  # compiled, and ends at once
    flag[:], out[:] = 0, 0
    runner = threading.Thread(target=kernel[(1,)], args=(flag, out), daemon=True)
    runner.start()
    deadline = time.monotonic() + 60
    while not ctypes.c_int32.from_address(out.ctypes.data + 4).value:
        assert time.monotonic() < deadline, "the kernel never begins"
    ctypes.c_int32.from_address(flag.ctypes.data).value = 1
    runner.join(60)
    assert not runner.is_alive(), "the loop never looks again"
    assert out[0] == 7
