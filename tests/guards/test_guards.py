"""What a guarded launch finds, and that it finds nothing else."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.corpus import every
from tests.corpus.sample import Maker, failures
from tests.guards.legal import LEGAL, Legal
from tests.guards.planted import PLANTED, Fault, adds, f, loads, stores, turned
from workbench import as_triton, jit, run_cell
from workbench.runtime import compiling, guards
from workbench.source import LaunchError, OptionError


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


# -- when launches are guarded, and what becomes of what they wrote --------------------------------
def test_who_says_whether_launches_are_guarded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(guards, "_in_ipython", lambda: False)
    monkeypatch.delenv("WORKBENCH_GUARD", raising=False)
    said = [guards.is_on()]
    monkeypatch.setattr(guards, "_in_ipython", lambda: True)
    said.append(guards.is_on())
    monkeypatch.setenv("WORKBENCH_GUARD", "0")
    said.append(guards.is_on())
    with guards.guarding(True):
        said += [guards.is_on(), guards.is_on(False)]
    monkeypatch.setattr(guards, "_in_ipython", lambda: False)
    monkeypatch.setenv("WORKBENCH_GUARD", "1")
    said += [guards.is_on(), guards.is_on(False)]
    monkeypatch.delenv("WORKBENCH_GUARD")
    with as_triton():
        said.append(guards.is_on())
    said.append(guards.is_on())
    assert said == [False, True, False, True, False, True, False, True, False]


def test_a_variable_that_means_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("WORKBENCH_GUARD", "maybe")
    with pytest.raises(OptionError, match="'maybe', which is neither on nor off") as caught:
        guards.is_on()
    assert caught.value.code == "K137"
    assert not guards.is_on(False)
    with guards.guarding(False):
        assert not guards.is_on()
    with pytest.raises(OptionError, match="guard is True or False, got 'perhaps'"):
        guards.is_on("perhaps")  # type: ignore[arg-type]


def test_launchers_hear_of_it():
    """A launch that was made fast without guards is guarded once they are on, and back."""
    x, out = f(64), f(64)
    for on in (False, True, False, True):
        with guards.guarding(on):
            for _ in range(40):  # native code takes over
                loads[(4,)](x, out, 64, 0, B=16)
            if on:
                with pytest.raises(LaunchError, match="past the end of x"):
                    loads[(5,)](x, out, 65, 0, B=16)
                loads[(4,)](x, out, 64, 0, B=16)


def test_no_further_program_starts_and_what_was_written_stays():
    out = f(10 * 16)
    with pytest.raises(LaunchError) as raised:
        stores[(1 << 20,)](f(4), out, 1 << 30, 0, B=16, guard=True)
    (note,) = [n.text for n in raised.value.notes if "had ended" in n.text]
    ended = int(note.split()[0])
    assert ended < 1 << 20
    assert int((out[5:] == 1.0).sum()) >= 16 * ended - 16


def test_what_is_timed_runs_guarded_first_over_inputs_that_are_put_back():
    x, out = f(64), f(64)
    with guards.guarding(True):
        with guards.timing([lambda: adds[(4,)](x, out, 64, 0, B=16)]) as tried:
            assert tried
            assert not guards.is_on()
        assert out.tolist() == f(64).tolist()
        with (
            pytest.raises(LaunchError, match="past the end of out"),
            guards.timing([lambda: adds[(5,)](x, out, 65, 0, B=16)]),
        ):
            raise AssertionError("timed all the same")
        assert out.tolist() == f(64).tolist()


def test_what_a_tried_call_made_lives_until_it_is_put_back():
    made: list[weakref.ref[np.ndarray]] = []
    x = f(64)

    def call() -> None:
        out = np.zeros(64, np.float32)
        made.append(weakref.ref(out))
        adds[(4,)](x, out, 64, 0, B=16)

    with guards.trying():
        call()
        alive = made[0]()
        assert alive is not None
        assert alive.any()
    assert not alive.any()
    del alive
    gc.collect()
    assert made[0]() is None


def test_cells_can_do_without():
    text = "def past(x, B: tl.constexpr):\n    tl.store(x + tl.arange(0, B), 1.0)\n"
    line = "--args x --grid 1 --set B=16 --target cpu"
    with pytest.raises(LaunchError, match="past the end of x"):
        run_cell(text, f"{line} --guard", {"x": f(15)})
    result = run_cell(text, f"{line} --no-guard", {"x": f(15)})
    assert not any(run.guarded for run in result.trace.runs.launches)
    with guards.guarding(True):
        result = run_cell(text, line, {"x": f(16)})
    assert [run.guarded for run in result.trace.runs.launches] == [True]
    assert "check_access" not in result.trace.text(result.trace.stage("tile"))
    with pytest.raises(OptionError, match="contradict"):
        run_cell(text, f"{line} --guard --no-guard", {"x": f(16)})


def test_where_only_checked_code_can_run_the_rest_waits_for_who_looks():
    kernel = jit(turned.fn)
    x, at, out = f(64), torch.randint(0, 64, (32, 32), dtype=torch.int32), torch.zeros(32, 32)
    for on in (True, True, False, True):
        out.zero_()
        with guards.guarding(on):
            kernel[(1,)](x, at, out, B=32)
        assert torch.equal(out, x[at])
    (made,) = kernel.results
    assert not made.deferred


def test_what_is_deferred_is_like_any_other_when_it_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(tmp_path))
    x, at, out = f(64), torch.zeros(32, 32, dtype=torch.int32), torch.zeros(32, 32)
    plain, guarded = jit(turned.fn), jit(turned.fn)
    for kernel, on in ((guarded, True), (plain, False)):
        compiling.forget()
        kernel[(1,)](x, at, out, B=32, guard=on)
    (seen,), (known,) = guarded.results, plain.results
    assert seen.deferred
    assert seen.outputs == known.outputs == ("out",)
    assert seen.module.next_id == known.module.next_id
    assert seen.deferred
    assert dict(seen.stages) == dict(known.stages)
    assert (seen.hash, seen.launch) == (known.hash, known.launch)
    assert seen.index_program == known.index_program


def test_toggling_guards_makes_no_launcher_anew():
    kernel = jit(adds.fn)
    x, out = f(64), f(64)
    made: list[Any] = []
    for on in (True, False) * 3:
        with guards.guarding(on):
            kernel[(4,)](x, out, 64, 0, B=16)
            made.append([dict(path._table) for path in kernel._fast.values()])
    assert made[2] != made[0]  # the second launch writes its choice between twins
    assert made[5] == made[4] == made[3]
