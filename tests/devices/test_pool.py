"""Native launches on the CPU: what `start` runs by itself, and what it hands back."""

from __future__ import annotations

import ctypes
import os
import threading

import pytest

import workbench as wb
from tests.runtime.kernels import fill
from workbench import tl
from workbench.devices import pool
from workbench.launch import fastpath, native

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not native.supported(), reason="another object layout")


@wb.jit
def sums(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + offsets, mask=offsets < n, other=0)
    tl.store(out_ptr + row, tl.sum(tl.sort(x) * offsets))


def native_kernel(kernel, launch):
    """Launch until native code runs, and return a kernel that may not launch otherwise."""
    for _ in range(fastpath.NATIVE_AFTER + 2):
        launch()
    assert type(kernel._launch).__name__ == "builtin_function_or_method"


def test_grids_of_one_and_many_programs(monkeypatch):
    kernel = wb.jit(sums.fn)
    x = torch.randn(200, 33)
    padded = torch.cat([x, torch.zeros(200, 31)], 1).sort(1).values
    expected = (padded * torch.arange(64)).sum(1)
    out = torch.zeros(200)
    native_kernel(kernel, lambda: kernel[(200,)](x, out, 33, BLOCK=64))
    monkeypatch.setattr(kernel, "_slow", lambda *_: pytest.fail("left to Python"))
    for rows in (1, 2, 200):
        out.zero_()
        kernel[(rows,)](x, out, 33, BLOCK=64)
        torch.testing.assert_close(out[:rows], expected[:rows])
        assert not out[rows:].any()


def test_an_empty_cell_starts_nothing():
    calls = []
    callback = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)(
        lambda arguments, scratch, first, end: calls.append((first, end))
    )
    code = pool.Startable(ctypes.cast(callback, ctypes.c_void_p).value, 64, [])
    start = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3
    )(code.launch)
    held, pool._CELL.value = pool._CELL.value, 0
    try:
        assert start(code.handle, 5, 1, 1, 1, 1, 1, 0, None, None, None) == 1
        assert start(code.handle, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
    finally:
        pool._CELL.value = held
    assert calls == [(0, 1)]


def test_arguments_of_any_size_follow_each_other():
    seen = []

    def program(arguments, scratch, first, end):
        seen.append(list((ctypes.c_int64 * 21).from_address(arguments)))

    callback = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)(program)
    code = pool.Startable(ctypes.cast(callback, ctypes.c_void_p).value, 64, [(0, 8), (16, 128)])
    start = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3
    )(code.launch)
    small, large = (ctypes.c_int64 * 1)(7), (ctypes.c_int64 * 16)(*range(100, 116))
    pointers = (ctypes.c_void_p * 2)(ctypes.addressof(small), ctypes.addressof(large))
    assert start(code.handle, 1, 1, 1, 1, 1, 1, 0, None, ctypes.addressof(pointers), None) == 0
    (words,) = seen
    assert (words[0], words[2:18], words[18:]) == (7, list(range(100, 116)), [1, 1, 1])


def test_threads_launch_natively_at_the_same_time():
    kernel = wb.jit(fill.fn)
    warm = torch.zeros(64)
    native_kernel(kernel, lambda: kernel[(8,)](warm, 1.0, 64, BLOCK=8))
    wrong = []

    def work(value):
        out = torch.zeros(64)
        for k in range(200):
            kernel[(8,)](out, value + k, 64, BLOCK=8)
            if not (out == value + k).all():
                wrong.append((value, k))

    threads = [threading.Thread(target=work, args=(1000.0 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_of_a_fork_launches_natively():
    kernel = wb.jit(fill.fn)
    out = torch.zeros(64)
    native_kernel(kernel, lambda: kernel[(8,)](out, 1.0, 64, BLOCK=8))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for k in range(20):
                kernel[(8,)](out, float(k), 64, BLOCK=8)
            code = 0 if (out == 19.0).all() else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
