"""Every planted fault is found at its line; what is said names programs, element and remedy."""

from __future__ import annotations

import threading

import pytest

import workbench as wb
from tests.interpreter.planted import BLOCK, PLANTED, counted, zeros
from tests.interpreter.right import RIGHT
from workbench import tl
from workbench.interpreter import Machine
from workbench.source import LaunchError, OptionError
from workbench.source.files import shown_file


def marked(kernel) -> int:
    """Return the line of a kernel's file that is marked `# here`."""
    source = kernel.kernel_source
    lines = source.text.splitlines()
    return source.first_line + next(n for n, line in enumerate(lines) if "# here" in line)


def caught(name: str, **options: object) -> LaunchError:
    fault = PLANTED[name]
    with pytest.raises(LaunchError) as raised:
        fault.kernel.interpret[(fault.programs,)](*fault.arguments(), BLOCK=BLOCK, **options)
    return raised.value


@pytest.mark.parametrize("name", PLANTED)
def test_fault_is_found_at_its_line(name: str):
    fault, error = PLANTED[name], caught(name)
    assert error.code == fault.code
    assert error.span is not None
    assert error.span.line == marked(fault.kernel), str(error)
    text = str(error)
    assert fault.said in text
    assert "program" in text
    assert "help: " in text
    assert len(text.splitlines()) <= 12


@pytest.mark.parametrize("name", PLANTED)
def test_fault_is_found_in_other_orders(name: str):
    for schedule in (1, 2, 3):
        errors = caught(name, schedule=schedule)
        assert PLANTED[name].code in {error.code for error in (errors, *errors.others)}


def test_forty_are_planted():
    assert len(PLANTED) >= 40


WAITS = [name for name, fault in PLANTED.items() if fault.code == "K515"]


@pytest.mark.parametrize("name", WAITS)
def test_waits_that_nobody_ends_are_errors_unwatched_too(name: str):
    fault = PLANTED[name]
    with pytest.raises(LaunchError) as raised:
        fault.kernel[(fault.programs,)](*fault.arguments(), BLOCK=BLOCK, target="interpreter")
    assert raised.value.code == "K515"
    assert raised.value.span.line == marked(fault.kernel)
    assert not [t for t in threading.enumerate() if t.name.startswith("program")]


def test_an_error_names_both_lines_both_programs_and_the_element():
    text = str(caught("shifted_right"))
    kernel = PLANTED["shifted_right"].kernel
    source = kernel.kernel_source
    store = source.first_line + next(
        n for n, line in enumerate(source.text.splitlines()) if "tl.store" in line
    )
    assert "program (1,): x_ptr[4], read here, was already stored by program (0,)" in text
    file = shown_file(__file__.replace("test_planted", "planted"))
    assert f"program (0,) wrote it here ({file}:{store}" in text
    assert "a release after the first access, an acquire" in text


def test_a_plain_poll_is_a_remark_and_the_data_race_an_error():
    fault = PLANTED["polled_plainly"]
    arguments = fault.arguments()
    run = fault.kernel.interpret[(2,)](*arguments, BLOCK=BLOCK, report="remark")
    found = {finding.kind: finding for finding in run.findings}
    assert set(found) == {"acquire", "race"}
    assert found["acquire"].severity == "remark"
    assert found["acquire"].span.line == marked(fault.kernel) - 2
    assert "tl.atomic_add(flag, 0, sem='acquire')" in run.report()
    assert found["race"].severity == "error"


@wb.jit
def same_value(done_ptr, x_ptr, BLOCK: tl.constexpr):
    if tl.load(x_ptr + tl.program_id(0)) > 0:
        tl.store(done_ptr, 1)


def test_stores_of_the_same_value_are_a_remark():
    run = same_value.interpret[(3,)](zeros(1), counted(3), BLOCK=4)
    assert {(f.kind, f.severity) for f in run.findings} == {("race", "remark")}
    assert "the value stayed the same" in run.report()
    assert {race.same for race in run.recording.races} == {True}


def test_findings_are_raised_or_kept():
    fault = PLANTED["counted_plainly"]
    run = fault.kernel.interpret[(4,)](zeros(4), BLOCK=BLOCK, report="remark")
    assert run.findings
    assert run.report().startswith("error K514")
    raised = caught("counted_plainly")
    assert raised.run.findings == run.findings
    with pytest.raises(OptionError, match="got 'warning'") as wrong:
        fault.kernel.interpret[(4,)](zeros(4), BLOCK=BLOCK, report="warning")
    assert wrong.value.code == "K134"


def test_programs_that_are_left_waiting_are_no_deadlock():
    """A search that stops before the grid is through leaves them."""
    run = RIGHT["from_a_later_one"]
    arguments = run.arguments()
    module = run.kernel.warmup(*arguments, grid=(2,), BLOCK=4, target="interpreter").module
    machine = Machine(module, (2,), arguments)
    assert machine.run([(0, 0, 0)]) is False
    assert machine.run([(1, 0, 0), (0, 0, 0)]) is True


def test_many_programs_meet():
    """A barrier of the grid: each program sleeps until the last one has come."""
    run = RIGHT["all_meet"]
    count = 100
    a, b = zeros(count), zeros(count)
    run.kernel.interpret[(count,)](a, zeros(1), b, BLOCK=count)
    assert b.tolist() == [*range(2, count + 1), 1]
