"""`--guard`, `--isolate`, and what kernels print, in cells."""

from __future__ import annotations

import pytest
import torch

from workbench import run_cell
from workbench.source import LaunchError, OptionError

COPY = """
def copy(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))
"""
CRASH = """
def crash(out_ptr, where):
    tl.store(out_ptr + where.to(tl.int64) * 1000000007, 1.0)
"""
PRINT = """
def show(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_print("x:", tl.load(x_ptr + offsets))
"""


@pytest.fixture
def names():
    return {"x": torch.arange(7.0), "out": torch.zeros(7), "torch": torch}


def test_a_guarded_launch_is_refused_before_it_runs(names):
    with pytest.raises(LaunchError) as error:
        run_cell(COPY, "--set BLOCK=3 --args x,out --grid 3 --target cpu --guard", names)
    assert error.value.code == "K502"
    assert "past the end of x_ptr" in error.value.message
    assert "found by --guard; nothing was launched" in str(error.value)
    assert not names["out"].any()


def test_a_guarded_launch_that_is_right_runs(names):
    line = "--set BLOCK=7 --args x,out --grid 1 --target cpu --guard --check x"
    assert run_cell(COPY, line, names).check.ok


SHIFT = """
def shift(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(x_ptr + offsets + 1, x)
"""
DOUBLE = """
def double(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets))
"""
WAIT = """
def wait(flag_ptr):
    while tl.atomic_add(flag_ptr, 0) == 0:
        pass
"""


@pytest.mark.parametrize("option", ["--guard", "--check"])
def test_races_are_errors_of_a_guard_and_of_a_check(names, option):
    line = f"--set BLOCK=2 --args x --grid 3 --target cpu {option}"
    with pytest.raises(LaunchError) as error:
        run_cell(SHIFT, line, names)
    assert error.value.code == "K514"
    assert error.value.span.line == 5
    assert ("nothing was launched" in str(error.value)) == (option == "--guard")


def test_a_race_is_the_error_even_where_the_result_is_wrong(names):
    line = '--set BLOCK=2 --args x --grid 3 --target cpu --check "x + 100"'
    with pytest.raises(LaunchError) as error:
        run_cell(SHIFT, line, names)
    assert error.value.code == "K514"
    assert "the result is wrong too: x differs from x + 100: 7 of 7 elements" in str(error.value)


@pytest.mark.parametrize("option", ["--guard", "--check"])
def test_a_wait_that_nobody_ends_is_not_launched(names, option):
    names["flag"] = torch.zeros(1, dtype=torch.int32)
    with pytest.raises(LaunchError) as error:
        run_cell(WAIT, f"--args flag --grid 2 --target cpu {option}", names)
    assert error.value.code == "K515"


@pytest.mark.parametrize("option", ["--guard", '--check "names_of(x)"'])
def test_arguments_that_overlap_are_seen_to(names, option):
    names["y"] = names["x"][1:]
    names["names_of"] = lambda x: names["y"].clone()
    with pytest.raises(LaunchError) as error:
        run_cell(DOUBLE, f"--set BLOCK=2 --args x,y --grid 3 --target cpu {option}", names)
    assert error.value.code == "K514"
    assert "(out_ptr[" in str(error.value)


def test_findings_are_remarks_on_request(names):
    line = "--set BLOCK=2 --args x --grid 3 --target cpu --guard --report remark"
    result = run_cell(SHIFT, line, names)
    said = [run.why for run in result.trace.runs.skipped if run.what == "remark"]
    assert said[0] == (
        "x_ptr[2], read here, was already stored by program (0,), program (1,), line 5"
    )
    with pytest.raises(OptionError) as error:
        run_cell(SHIFT, line.replace("remark", "warning"), names)
    assert error.value.code == "K134"


def test_an_isolated_launch_gives_its_results_back(names):
    line = "--set BLOCK=7 --args x,out --grid 1 --target cpu --isolate --check x"
    assert run_cell(COPY, line, names).check.ok
    assert torch.equal(names["out"], names["x"])


def test_an_isolated_launch_that_crashes_is_an_error(names):
    with pytest.raises(LaunchError) as error:
        run_cell(CRASH, "--args out,1000 --grid 1 --target cpu --isolate", names)
    assert "SIGSEGV" in str(error.value) or error.value.code == "K502"
    assert "outside every argument" in str(error.value)


def test_what_compiled_kernels_print_is_a_table(names, capsys):
    run_cell(PRINT, "--args x --set BLOCK=7 --grid 1 --target cpu", names)
    assert capsys.readouterr().out.splitlines() == ["program  x", "0        0 1 2 3 4 5 6"]


def test_a_failed_check_of_racing_programs_names_the_race_and_what_is_wrong(names):
    body = """
def overlapping(out_ptr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    tl.store(out_ptr + program * (BLOCK - 1) + tl.arange(0, BLOCK), program.to(tl.float32))
"""
    line = '--set BLOCK=4 --args out --grid 2 --target cpu --check "torch.full((7,), 9.0)"'
    with pytest.raises(LaunchError, match=r"out_ptr\[3\] was already stored by program") as error:
        run_cell(body, line, names)
    assert "7 of 7 elements" in str(error.value)
