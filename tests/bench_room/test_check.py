"""Checks: outputs, references, and what a failed one says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.interpreter.test_machine import ADD
from workbench.analysis.memory import parameter_roles
from workbench.bench.checking import check_launch
from workbench.bench.subject import Subject
from workbench.interpreter import run_module
from workbench.ir import parse_module
from workbench.source import CheckError


def subject(grid=(3,), n=7, text=ADD):
    module = parse_module(text)
    rng = np.random.default_rng(0)
    arguments = {
        "x": rng.standard_normal(n).astype(np.float32),
        "y": rng.standard_normal(n).astype(np.float32),
        "out": np.zeros(n, np.float32),
        "n": n,
    }

    def launch():
        run_module(module, grid, [arguments[p.name] for p in module.parameters])

    return Subject(
        name="add", arguments=arguments, constants={"BLOCK": 3}, grid=grid, launch=launch,
        module=module, roles=parameter_roles(module), target="interpreter",
    )  # fmt: skip


def test_a_right_result_passes():
    verdict = check_launch(subject(), lambda names: names["x"] + names["y"], "x + y")
    assert verdict.ok
    assert (verdict.record.wrong, verdict.record.total) == (0, 7)
    assert (verdict.record.rtol, verdict.record.atol) == (None, None)
    assert verdict.record.reference == "float64"
    assert 0 < verdict.record.usual < 1e-6


def test_the_interpreter_is_the_reference_where_none_is_given():
    assert check_launch(subject(), None, "the interpreter").ok


def test_a_callable_reference_is_called_by_name():
    assert check_launch(subject(), lambda names: lambda y, x: x + y, "f").ok


def test_missing_elements_name_nobody_and_the_grid_that_would_do():
    case = subject(grid=(1,))
    verdict = check_launch(case, lambda names: names["x"] + names["y"], "x + y")
    assert not verdict.ok
    text = str(verdict.error)
    assert text.startswith("CheckError K601: out differs from x + y: 4 of 7 elements")
    assert "no program stored it. Grid (1,) with BLOCK=3 covers out[0:3]" in text
    assert 'help: the grid covers 3 of 7 elements; use --grid "cdiv(n, BLOCK)"' in text
    assert [m.program for m in verdict.record.first] == [None] * 4
    assert [m.op for m in verdict.record.first] == [None] * 4


def test_wrong_elements_name_the_program_that_stored_them():
    case = subject()
    verdict = check_launch(case, lambda names: names["x"] - names["y"], "x - y", rtol=0, atol=0)
    assert "stored by program (0,)" in str(verdict.error)
    assert [m.program for m in verdict.record.first] == [0, 0, 0, 1, 1]
    store = next(op for op in case.module.walk() if op.name == "tile.store")
    assert {m.op for m in verdict.record.first} == {store.id}


@pytest.mark.parametrize(
    ("reference", "code", "text"),
    [
        (lambda names: (1, 2), "K602", "gives 2 values; the outputs are out"),
        (lambda names: {"x": 1}, "K602", "names x; the outputs are out"),
        (lambda names: np.zeros(3), "K602", "out has shape (7,), the reference (3,)"),
        (lambda names: 1 / 0, "K603", "raised ZeroDivisionError: division by zero"),
    ],
)
def test_references_that_do_not_fit_are_refused(reference, code, text):
    with pytest.raises(CheckError) as caught:
        check_launch(subject(), reference, "ref")
    assert caught.value.code == code
    assert text in str(caught.value)


def test_a_kernel_without_outputs_cannot_be_checked():
    case = subject()
    case.roles = dict.fromkeys(case.arguments, "in")
    with pytest.raises(CheckError, match="nothing to check"):
        check_launch(case, None, "ref")


@pytest.mark.parametrize(("steps", "ok"), [(0, True), (8, False)])
def test_a_result_that_is_some_steps_off_is_wrong(steps: int, ok: bool):
    """A sum of two is rounded once, and nothing else explains a difference."""
    case = subject(n=300, grid=(100,))
    launch = case.launch

    def off() -> None:
        launch()
        case.arguments["out"] *= np.float32(1 + steps * 2.0**-23)

    case.launch = off
    for sign in (case.arguments["x"], case.arguments["y"]):
        np.abs(sign, out=sign)
    verdict = check_launch(case, lambda names: names["x"] + names["y"], "x + y")
    assert (verdict.record.wrong == 0) == ok
