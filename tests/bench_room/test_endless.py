"""Checks and questions end by themselves where a loop does not, at that loop, within the limit."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import replace

import pytest
import torch

from workbench import run_cell
from workbench.bench import guarding, phases
from workbench.magics import doctor, registry
from workbench.magics.grammar import parse
from workbench.magics.questioning import bisect, step
from workbench.questions import running, stepping
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
    monkeypatch.setattr(guarding, "LATE_SECONDS", 0.4)
    monkeypatch.setattr(guarding, "SECONDS", 0.2)
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
    start = time.process_time()  # of its own: on a busy machine it takes as long as it likes
    with pytest.raises(KernelError) as caught:
        cell(condition, step, f"--target {target} {check}", names)
    error = caught.value
    assert time.process_time() - start < 20
    assert error.code == "K406"
    assert error.span.line == LINE
    # The limit is that of what was run: seconds in the interpreter are told beside those of a CPU.
    assert "rounds of its loops in" in error.render()
    assert ("in the interpreter" in error.message) == (target == "interpreter")
    assert ("the launch of total on the CPU was ended after" in error.message) == (target == "cpu")
    assert "i is " in error.render()
    assert "%workbench config checked=" in error.hint


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_a_guarded_launch_is_not_made(names, target):
    with pytest.raises(KernelError, match="rounds of its loops in") as caught:
        cell(*ENDLESS[0][:2], f"--target {target} --guard", names)
    assert (caught.value.code, caught.value.span.line) == ("K406", LINE)
    if target == "cpu":
        assert "found by --guard; nothing was launched" in caught.value.render()


def asked(question, condition, change, names):
    """Return what a question of a kernel that no cell has run says."""
    cell(condition, change, "--no-run --target cpu", names)
    return question("total", parse("step", "--args x,out,100 --grid 1", names), names)


@pytest.mark.parametrize(("condition", "change", "how"), ENDLESS, ids=["runs away", "swings"])
def test_steps_end_at_the_loop(names, condition, change, how):
    found = asked(step, condition, change, names)
    assert f"in the interpreter (line {LINE}); after " in found.error
    assert "i is " in found.text
    assert len(found.steps) > 1000
    assert not names["out"].any()


def test_steps_end_where_there_is_no_room(names, monkeypatch):
    monkeypatch.setitem(BUDGETS, "checked", replace(BUDGETS["checked"], limit=60))
    monkeypatch.setattr(running, "MOST_BYTES", 100 * running.EVENT_BYTES)
    monkeypatch.setattr(stepping, "MOST_PLAIN", 20)
    found = asked(step, *ENDLESS[0][:2], names)
    assert not found.complete
    assert not found.error
    assert "ended at the last of these steps, in line " in found.text
    assert len(found.steps) <= 100
    data = found.to(50).data()
    assert (data["count"], data["first"], len(data["steps"])) == (len(found.steps), 40, 20)


def test_a_search_for_the_first_wrong_op_ends_at_the_loop(names):
    answer = asked(bisect, *ENDLESS[0][:2], names)
    assert (answer.verdict, answer.op.line) == ("unknown", LINE)
    assert "K406: program (0,) goes round this loop" in answer.text
    assert "i is " in answer.text


def test_so_does_one_beside_a_version_without_an_end(names):
    cell("i < 1", "i += 1", "--no-run --target cpu", names)
    right = names["total"]
    cell("i != n", "i += 3", "--no-run --target cpu", names)
    answer = bisect(right, parse("bisect", "--args x,out,100 --grid 1", names), names, "total")
    assert "this is total, the version that should be right" in answer.text
    assert (answer.verdict, answer.op and answer.op.line) == ("unknown", LINE)


def test_a_loop_that_ends_is_no_error(names):
    found = cell("i < 100 * n", "i += 1", '--target cpu --check "x.sum() * 2500"', names)
    assert found.check.ok


def test_what_takes_longer_may(names, monkeypatch):
    """A long loop that the interpreter does not finish in its time is checked all the same."""
    monkeypatch.setitem(BUDGETS, "checked", replace(BUDGETS["checked"], limit=60))
    found = cell("i < 1000 * n", "i += 1", '--target cpu --check "x.sum() * 25000"', names)
    assert found.check.ok


def test_who_wants_no_check_waits_until_stop(names):
    begun: list[float] = []
    clock = threading.Timer(1.5, os.kill, (os.getpid(), signal.SIGINT))

    def hears(text: str, **_: object) -> None:
        if text.startswith("launching"):  # however long it has compiled
            begun.append(time.monotonic())
            clock.start()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    token = phases.listener.set(hears)
    try:
        found = cell("i != n", "i += 3", "--target cpu", names)
    finally:
        clock.cancel()
        phases.listener.reset(token)
        signal.signal(signal.SIGINT, before)
    assert "not done: the rest: stopped" in repr(found)
    assert time.monotonic() - begun[0] > 1.0


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
