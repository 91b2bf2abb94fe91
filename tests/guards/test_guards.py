"""What a guarded launch finds, and that it finds nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.corpus import every
from tests.corpus.sample import Maker, failures
from tests.guards.legal import LEGAL, Legal
from tests.guards.planted import PLANTED, Fault
from workbench import jit
from workbench.runtime import guards
from workbench.source import LaunchError


def _error(fault: Fault, **where: Any) -> LaunchError:
    with pytest.raises(LaunchError) as raised:
        fault.kernel[fault.grid](*fault.arguments(), **fault.named, **where)
    return raised.value


@pytest.mark.parametrize("name", PLANTED)
def test_an_access_outside_is_an_error_at_its_line(name: str):
    fault = PLANTED[name]
    error = _error(fault, guard=True)
    assert error.code == fault.code
    assert fault.says in error.message
    assert error.span is not None
    assert error.span.line == fault.line
    assert any("programs had ended" in note.text for note in error.notes)


@pytest.mark.parametrize("name", PLANTED)
def test_the_interpreter_says_the_same(name: str):
    fault = PLANTED[name]
    error = _error(fault, target="interpreter")
    assert (error.code, fault.says in error.message) == (fault.code, True)
    assert error.span is not None
    assert error.span.line == fault.line


@pytest.mark.parametrize("name", LEGAL)
@pytest.mark.parametrize("how", ["guarded", "checked", "interpreter"])
def test_what_is_right_raises_no_alarm(name: str, how: str, monkeypatch: pytest.MonkeyPatch):
    case: Legal = LEGAL[name]
    arguments, found, want = case.make()
    if how == "checked":  # as if nothing were known of the launch
        monkeypatch.setattr("workbench.runtime.guarded.holds", lambda *_: False)
    where = {"target": "interpreter"} if how == "interpreter" else {"guard": True}
    case.kernel[case.grid](*arguments, **case.named, **where)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(want))


def test_there_are_enough():
    assert len(PLANTED) >= 60
    assert len(LEGAL) >= 40


@pytest.mark.parametrize("entry", every.SAMPLES, ids=lambda entry: f"{entry.suite}-{entry.name}")
def test_the_corpus_raises_no_alarm(entry):
    make = Maker(entry.dtypes[0], layout=entry.layouts[0])
    problem = entry.build(make, *entry.fast[-1])
    with guards.guarding(True):
        for launch in problem.launches:
            jit(launch.kernel)[launch.grid](*launch.arguments, **launch.named)
    assert not list(failures(problem, make))
