"""Locks that meet: compile-time functions that compile, traces let go meanwhile, forks."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

import workbench as wb
import workbench.language as tl
from workbench import interrupts
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
