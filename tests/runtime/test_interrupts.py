"""Ctrl-C and forks leave a usable process; see tests/fuzz/interrupts.py for many more of them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from functools import cached_property
from pathlib import Path

import pytest

from tests.fuzz import interrupts as fuzz
from tests.fuzz.children import answers
from workbench.interrupts import imported, in_one_piece, renewed_lock

ROOT = Path(__file__).resolve().parents[2]

FORKING = """
import os, sys, threading, traceback
import numpy as np
import workbench as wb
from tests.fuzz import interrupted

x = np.arange(1000, dtype=np.float32)

def use(tag):
    out = np.zeros_like(x)
    wb.jit(interrupted.add)[(8,)](x, x, out, 1000, BLOCK=128, TAG=tag)
    assert np.array_equal(out, 2 * x)
    target = ("cpu", "sm_90a")[tag % 2]
    constants = {"BLOCK": 256, "TAG": tag}
    wb.compile(interrupted.reduce, "*fp32 *fp32 i32", constants, target=target).asm["llvm"]

def compiling(first):
    tag = first
    while not over.is_set():
        use(tag)
        tag += 1

over = threading.Event()
threads = [threading.Thread(target=compiling, args=(n * 10**6,)) for n in (1, 2)]
for thread in threads:
    thread.start()
children = []
try:
    for number in range(6):
        child = os.fork()
        if child == 0:
            try:
                use(number)
                use(number + 1)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        children.append(child)
        use(100 + number)
    ended = [os.waitpid(child, 0)[1] for child in children]
finally:
    over.set()
    for thread in threads:
        thread.join()
print(ended)
"""


def test_ctrl_c_leaves_a_usable_process():
    (row,) = answers(fuzz.COMMAND, [{"seed": 1, "each_job": True}], fuzz.PATIENCE)
    assert "ended" not in row, row["ended"]
    assert "failed" not in row, row["failed"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_child_of_a_fork_compiles_and_launches_whatever_threads_were_doing(tmp_path):
    environment = {**os.environ, "WORKBENCH_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING], env=environment, capture_output=True,
        text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.stdout.strip() == str([0] * 6), done.stderr


class _Held:
    @cached_property
    def value(self) -> int:
        return 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_renewed_lock_is_free_in_a_child_unless_it_was_ours():
    held, ours = renewed_lock(), renewed_lock()
    taken, over = threading.Event(), threading.Event()

    def hold() -> None:
        with held:
            taken.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    with ours:
        child = os.fork()
        if child == 0:
            free = held.acquire(blocking=False) and ours._is_owned()
            os._exit(0 if free else 1)
    over.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_what_is_done_in_one_piece_gives_results_and_errors():
    assert in_one_piece(lambda a, b: a + b, 1, 2) == 3
    with pytest.raises(ZeroDivisionError):
        in_one_piece(lambda: 1 // 0)
    assert imported("json").dumps([]) == "[]"
