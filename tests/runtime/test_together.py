"""Locks that meet: compile-time functions that compile, traces let go meanwhile, forks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import workbench as wb
import workbench.language as tl
from workbench import interrupts
from workbench.devices import launching, pool, stops, together
from workbench.launch import assembly, native_code, rows, tensor_maps
from workbench.runtime import guards, tiers
from workbench.runtime.callables import constexpr_function
from workbench.source import deep
from workbench.targets.llvm import generator

#: Seconds after which something hangs.
HANGS = 120.0


def ends(work: Callable[[], Any]) -> Any:
    """Return what `work` gives; fails where it never ends."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(HANGS)
    assert found, "it hangs"
    return found[0]


@wb.jit
def inner(x: tl.Tensor, n: tl.constexpr) -> None:
    tl.store(x, n)


@constexpr_function
def code_size() -> int:
    return len(wb.compile(inner, "*i32", {"n": 3}, target="cpu").code)


@wb.jit
def outer(x: tl.Tensor) -> None:
    tl.store(x, code_size())


def test_compile_time_functions_may_compile() -> None:
    kernel = ends(lambda: wb.compile(outer, "*i32", target="cpu"))
    assert str(code_size()) in kernel.asm["tile"]


def test_what_is_being_printed_is_not_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = wb.compile(inner, "*i32", {"n": 5}, target="cpu")
    assert kernel.code
    place = kernel._place_id
    printing, go_on = threading.Event(), threading.Event()

    def slowly() -> str:
        printing.set()
        assert go_on.wait(HANGS)
        return place()

    monkeypatch.setattr(kernel, "_place_id", slowly)
    found: list[Any] = []
    printer = threading.Thread(target=lambda: found.append(kernel.trace), daemon=True)
    printer.start()
    assert printing.wait(HANGS)
    assert ends(kernel.release) is False
    assert kernel.begun is not None
    go_on.set()
    printer.join(HANGS)
    assert found
    assert kernel.release()
    assert kernel.begun is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_folders_can_be_opened_in_a_child() -> None:
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        with tiers._lock:
            held.set()
            go_on.wait(HANGS)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    assert held.wait(HANGS)
    child = os.fork()
    if not child:
        os._exit(0 if tiers._lock.acquire(blocking=False) else 1)
    go_on.set()
    thread.join(HANGS)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_no_fork_while_a_helper_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    start = generator.subprocess.Popen
    owned: list[bool] = []

    def noting(*args: Any, **given: Any) -> Any:
        owned.append(interrupts.unforked._is_owned())  # pyright: ignore
        return start(*args, **given)

    monkeypatch.setattr(generator.subprocess, "Popen", noting)
    monkeypatch.setattr(generator, "_helper", None)
    generator._start()
    made = generator._helper
    assert made is not None
    made.end()
    assert owned == [True]


@wb.jit
def ones(x: tl.Tensor, n: tl.constexpr) -> None:
    tl.store(x + tl.arange(0, n), 1.0)


def test_what_other_threads_launch_while_one_tries_stays() -> None:
    tried, real = torch.zeros(16), torch.zeros(16)
    with guards.trying():
        ones[(1,)](tried, n=16)
        assert ends(lambda: ones[(1,)](real, n=16))
        assert guards.STATE["on"] is None
        ones[(1,)](tried, n=16)
    assert (tried.sum(), real.sum()) == (0, 16)


def test_an_interrupt_before_a_deep_thread_leaves_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(self: threading.Thread) -> None:
        raise KeyboardInterrupt

    limit = sys.getrecursionlimit()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            deep(lambda: 1)()
    assert deep(lambda: sys.getrecursionlimit())() > limit
    assert sys.getrecursionlimit() == limit


def test_a_limit_that_is_set_meanwhile_stays() -> None:
    limit = sys.getrecursionlimit()
    try:
        deep(lambda: sys.setrecursionlimit(limit + 7))()
        assert sys.getrecursionlimit() == limit + 7
        deep(lambda: deep(lambda: None)())()
        assert sys.getrecursionlimit() == limit + 7
    finally:
        sys.setrecursionlimit(limit)


def test_what_python_calls_while_a_thread_is_started_may_go_deep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Finalizers and handlers of signals run between any two steps, under whatever locks."""
    start, found = threading.Thread.start, list[int]()

    def finalizing(self: threading.Thread) -> None:
        if self.name == "workbench" and not found:
            found.append(0)
            found.append(deep(lambda: 5)())
        start(self)

    monkeypatch.setattr(threading.Thread, "start", finalizing)
    assert ends(lambda: deep(lambda: 6)()) == 6
    assert found == [0, 5]


def test_code_in_memory_is_made_by_one_thread() -> None:
    """What is made twice is thrown away once, and its address may be in other code by then."""
    made: list[object] = []
    begun = threading.Barrier(4)

    @interrupts.MadeOnce
    def make(name: str) -> object:
        made.append(name)
        time.sleep(0.05)
        return object()

    found: list[object] = []

    def ask() -> None:
        begun.wait(HANGS)
        found.append(make("code"))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["code"]
    assert len(set(map(id, found))) == 1
    assert make.is_made


@pytest.mark.parametrize(
    "owner",
    [
        stops._stops, together._code, launching._native, pool.start_address, assembly._code,
        native_code._interpreter, rows._choosing, tensor_maps._code,
    ],
)  # fmt: skip
def test_code_whose_address_is_handed_out_is_made_by_one_thread(owner: Any) -> None:
    assert isinstance(owner, interrupts.MadeOnce)


PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]])
sys.stdin.read()
"""
AT_WORK = """
import threading
from workbench.targets.llvm import helper

def never(*words):
    print("at work", flush=True)
    threading.Event().wait()

helper._serve = never
helper._serve_deeply("", "")
"""


def test_a_helper_at_work_ends_with_a_parent_that_was_killed() -> None:
    command = [sys.executable, "-c", PARENT, AT_WORK]
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    output = parent.stdout
    assert output is not None
    assert b"at work" in output.readline()
    parent.kill()
    parent.wait()
    assert ends(lambda: [output.read()]) == [b""]  # the helper holds its other end


def test_what_threads_say_of_guards_ends_with_each() -> None:
    first, second = guards.guarding(True), guards.guarding(False)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not guards.is_on()
    second.__exit__(None, None, None)
    assert not guards._said
