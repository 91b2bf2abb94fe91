"""A check of a kernel that goes round for ever ends by itself, at the loop, within its limit."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace

import pytest
import torch

from workbench import run_cell
from workbench.bench import checking, guarding
from workbench.magics import doctor, registry
from workbench.source import KernelError, OptionError
from workbench.source.budgets import BUDGETS

CELL = """
def total(x_ptr, out_ptr, n):
    found = 0.0
    i = 0
    while CONDITION:
        found += tl.load(x_ptr + i % 4)
        STEP
    tl.store(out_ptr, found)
"""
ENDLESS = [("i != n", "i += 3", "runs away"), ("i >= 0", "i = (i + 1) % 1000", "swings")]
#: Counted with the empty one before it.
LINE = 6


@pytest.fixture(autouse=True)
def names(monkeypatch):
    """Let little time be too much."""
    monkeypatch.setitem(BUDGETS, "checked", replace(BUDGETS["checked"], limit=0.4))
    monkeypatch.setattr(guarding, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(checking, "LATE_SECONDS", 0.4)
    registry.clear()
    yield {"x": torch.ones(4), "out": torch.zeros(1)}
    registry.clear()


def cell(condition, step, line, names):
    return run_cell(CELL.replace("CONDITION", condition).replace("STEP", step),
                    f"--args x,out,100 --grid 1 {line}", names)  # fmt: skip


@pytest.mark.parametrize("check", ["--check", '--check "x.sum() * 25"'])
@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize(("condition", "step", "how"), ENDLESS, ids=["runs away", "swings"])
def test_it_ends_at_the_loop(names, condition, step, how, target, check):
    start = time.monotonic()
    with pytest.raises(KernelError) as caught:
        cell(condition, step, f"--target {target} {check}", names)
    error = caught.value
    assert time.monotonic() - start < 20
    assert error.code == "K406"
    assert error.span.line == LINE
    assert "rounds of its loops in" in error.message
    assert "i is " in error.render()
    assert "%workbench config checked=" in error.hint
    assert ("the launch on the CPU was ended after" in error.render()) == (target == "cpu")


def test_a_loop_that_ends_is_no_error(names):
    found = cell("i < 100 * n", "i += 1", '--target cpu --check "x.sum() * 2500"', names)
    assert found.check.ok


def test_what_takes_longer_may(names, monkeypatch):
    """A long loop that the interpreter does not finish in its time is checked all the same."""
    monkeypatch.setitem(BUDGETS, "checked", replace(BUDGETS["checked"], limit=60))
    found = cell("i < 1000 * n", "i += 1", '--target cpu --check "x.sum() * 25000"', names)
    assert found.check.ok


def test_who_wants_no_check_waits_until_stop(names):
    begin = time.monotonic()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    clock = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT))
    clock.start()
    try:
        found = cell("i != n", "i += 3", "--target cpu", names)
    finally:
        clock.cancel()
        signal.signal(signal.SIGINT, before)
    assert "not done: the rest: stopped" in repr(found)
    assert time.monotonic() - begin > 1.0


def test_the_limit_is_the_users(monkeypatch):
    monkeypatch.setitem(BUDGETS, "checked", BUDGETS["checked"])
    assert doctor.config("checked=600") == "checked=600"
    assert doctor.config("checked") == "checked=600"
    assert "600 seconds" in doctor.config()
    for wrong in ("checked=0", "checked=-1", "checked=long"):
        with pytest.raises(OptionError, match="no number of seconds"):
            doctor.config(wrong)
    with pytest.raises(OptionError, match="is fixed"):
        doctor.config("rounds=10")
