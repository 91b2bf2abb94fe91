"""Loops that wait for memory to change do look at it again, on the CPU too."""

from __future__ import annotations

import ctypes
import os
import signal
import textwrap
import threading
import time

import numpy as np
import pytest

import workbench
from tests.language.harness import from_text
from workbench.devices import together
from workbench.devices.together import MOST_TOGETHER
from workbench.interrupts import MadeOnce
from workbench.launch.fastpath import NATIVE_AFTER

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


#: Kernels whose programs wait for each other, as text; n programs.
MEETINGS = {
    "a barrier of the grid": """
        tl.store(x_ptr + p, p * p)
        tl.atomic_add(flag_ptr, 1)
        while tl.atomic_add(flag_ptr, 0) < n:
            pass
        tl.store(out_ptr + p, tl.load(x_ptr + (p + 1) % n))
    """,
    "the last program": """
        if p == n - 1:
            tl.atomic_xchg(flag_ptr, 1)
        while tl.load(flag_ptr, volatile=True) == 0:
            pass
        q = (p + 1) % n
        tl.store(out_ptr + p, q * q)
    """,
    "the one before": """
        if p > 0:
            while tl.atomic_add(flag_ptr + p, 0, sem="acquire") == 0:
                pass
        tl.atomic_xchg(flag_ptr + p + 1, 1, sem="release")
        q = (p + 1) % n
        tl.store(out_ptr + p, q * q)
    """,
    "in a for that is left": """
        tl.atomic_add(flag_ptr, 1)
        for i in range(2000000000):
            if tl.load(flag_ptr, volatile=True) == n:
                break
        q = (p + 1) % n
        tl.store(out_ptr + p, q * q)
    """,
}


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("name", MEETINGS)
def test_programs_wait_for_those_that_nobody_has_begun(name: str, guard: bool):
    """As on a GPU, which holds them all: there are more programs than threads of the pool."""
    n = 300
    text = "def kernel(flag_ptr, x_ptr, out_ptr, n):\n    p = tl.program_id(0)\n"
    kernel = workbench.jit(
        from_text(text + textwrap.indent(textwrap.dedent(MEETINGS[name]), " " * 4))
    )
    for _ in range(3):
        flag, x, out = np.zeros(n + 1, np.int32), np.zeros(n, np.int32), np.zeros(n, np.int32)
        kernel.run(flag, x, out, n, grid=(n,), guard=guard)
        assert np.array_equal(out, (np.arange(n) + 1) % n * ((np.arange(n) + 1) % n))


def test_who_yields_to_other_processes_has_waited_long(monkeypatch: pytest.MonkeyPatch):
    """On a busy machine each yield takes milliseconds: there are not to be a hundred per thread."""
    yields = ctypes.c_int64(0)
    slow = f"""
    define i32 @slowly() {{
      %old = atomicrmw add ptr inttoptr (i64 {ctypes.addressof(yields)} to ptr), i64 1 monotonic
      %r = call i32 @usleep(i32 2000)
      ret i32 0
    }}
    """
    text = together._TEXT.replace("call i32 @sched_yield()", "call i32 @slowly()") + slow
    monkeypatch.setattr(together, "_TEXT", text)
    monkeypatch.setattr(together, "_code", MadeOnce(together._code.__wrapped__))
    body = textwrap.indent(textwrap.dedent(MEETINGS["a barrier of the grid"]), " " * 4)
    kernel = workbench.jit(
        from_text(f"def kernel(flag_ptr, x_ptr, out_ptr, n):\n    p = tl.program_id(0)\n{body}")
    )
    n = 60
    flag, x, out = np.zeros(1, np.int32), np.zeros(n, np.int32), np.zeros(n, np.int32)
    kernel[(n,)](flag, x, out, n)
    assert np.array_equal(out, (np.arange(n) + 1) % n * ((np.arange(n) + 1) % n))
    assert 0 < yields.value < n * 60


def test_later_launches_wait_too():
    """What native launchers take over from others they leave to them."""
    body = textwrap.indent(textwrap.dedent(MEETINGS["a barrier of the grid"]), " " * 4)
    text = f"def kernel(flag_ptr, x_ptr, out_ptr, n):\n    p = tl.program_id(0)\n{body}"
    kernel, n = workbench.jit(from_text(text)), 20
    for _ in range(NATIVE_AFTER + 3):
        flag, x, out = np.zeros(1, np.int32), np.zeros(n, np.int32), np.zeros(n, np.int32)
        kernel[(n,)](flag, x, out, n)
        assert out[-2] == (n - 1) ** 2


def test_more_programs_than_are_ever_under_way():
    text = "def kernel(flag_ptr, out_ptr, n):\n    p = tl.program_id(0)\n    x_ptr = out_ptr\n"
    body = textwrap.indent(textwrap.dedent(MEETINGS["the one before"]), " " * 4)
    kernel = workbench.jit(from_text(text + body))
    n = 2 * MOST_TOGETHER + 1
    flag, out = np.zeros(n + 1, np.int32), np.zeros(n, np.int32)
    kernel[(n,)](flag, out, n)
    assert flag[1:].all()


def test_programs_that_wait_for_ever_are_stopped():
    kernel = workbench.jit(
        from_text("""
        def kernel(flag_ptr, out_ptr):
            tl.store(out_ptr + tl.program_id(0), 1)
            while tl.atomic_add(flag_ptr, 0) == 0:
                pass
    """)
    )
    flag, out = np.ones(1, np.int32), np.zeros(50, np.int32)
    kernel[(50,)](flag, out)
    flag[:], out[:] = 0, 0
    stopped = threading.Event()

    def stop() -> None:  # again, where an interrupt came while nobody could be told
        while not stopped.wait(1.0):
            os.kill(os.getpid(), signal.SIGINT)

    def hears(number: int, frame: object) -> None:
        if not stopped.is_set():  # one that was on its way ends nothing else
            raise KeyboardInterrupt

    def launch() -> None:
        try:
            kernel[(50,)](flag, out)
        finally:
            stopped.set()

    before = signal.signal(signal.SIGINT, hears)
    presses = threading.Thread(target=stop, daemon=True)
    presses.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            launch()
        presses.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert out.all()


def test_what_waits_for_nobody_runs_on_the_pool():
    text = "def kernel(x_ptr, n):\n    i = tl.load(x_ptr)\n    while i < n:\n        i += 1\n"
    kernel = workbench.jit(from_text(text + "    tl.store(x_ptr, i)\n"))
    assert "waits" not in kernel[(1,)](np.zeros(1, np.int32), 3).launch.extra
