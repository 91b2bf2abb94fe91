"""An interrupt that is handed to a thread with a large stack prints nothing, wherever it comes."""

from __future__ import annotations

import sys
import threading

import pytest

from workbench.source import depth


@pytest.mark.parametrize("step", ["_more_calls", "_fewer_calls", "_await"])
def test_an_interrupt_between_the_steps_of_a_thread(step, monkeypatch):
    printed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", printed.append)
    real, cut = getattr(depth, step), []

    def interrupted(*given):
        if step != "_await":
            real(*given)
        if not cut:
            cut.append(True)
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr(depth, step, interrupted)
    before = sys.getrecursionlimit()
    work = depth.deep(lambda: 42)
    if step == "_more_calls":  # nothing was done yet
        with pytest.raises(KeyboardInterrupt):
            work()
    else:
        assert work() == 42
    assert depth.deep(lambda: 43)() == 43
    assert printed == []
    assert sys.getrecursionlimit() == before
    assert not depth._running
