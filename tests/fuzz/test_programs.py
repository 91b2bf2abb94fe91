"""Random programs give the same bits in the interpreter and elsewhere; what once failed stays."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.fuzz.batch import try_seed
from tests.fuzz.keep import FOUND, read, save
from tests.fuzz.programs import launch, program
from tests.fuzz.reduce import lines_of, reduced
from tests.fuzz.running import difference, outputs
from tests.passes.programs import GRID
from workbench.interpreter import run_module
from workbench.ir import parse_module, print_module, verify_module
from workbench.ops import Reduce

CHUNK = 25
KEPT = sorted(FOUND.glob("*.ir"))
#: Where new findings are written; not by default, so that a run of the tests changes no file.
KEEP = bool(os.environ.get("WORKBENCH_KEEP_FOUND"))


def check(seeds: range, target: str) -> None:
    found = [failure for seed in seeds if (failure := try_seed(seed, target, keep=KEEP))]
    assert not found, "\n".join(f"seed {f.seed}: {f.said} ({f.lines} lines)" for f in found)


def test_the_cpu_agrees_on_some_programs():
    check(range(10), "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("start", range(10, 310, CHUNK))
def test_the_cpu_agrees_on_random_programs(start: int):
    check(range(start, start + CHUNK), "cpu")


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 40, 10))
def test_gpu_ir_agrees_on_random_programs(start: int):
    check(range(start, start + 10), "sm_90a")


def test_what_once_failed_is_right():
    for path in KEPT:
        module, numbers, target = read(path)
        assert lines_of(module) <= 15, path.name
        assert not difference(module, numbers, target), path.name


def test_programs_print_and_parse():
    for seed in range(20):
        module = program(seed)
        verify_module(module)
        assert print_module(parse_module(print_module(module))) == print_module(module)


def test_floats_stay_exact():
    """Whatever a program stores is a multiple of 1/4096 that fits the type: nothing rounded."""
    for seed in range(20):
        arguments = launch(seed).arguments()
        run_module(program(seed), GRID, arguments)
        floats = outputs(arguments)[0].astype(np.float64) * 4096
        assert np.array_equal(floats, np.trunc(floats))


def test_a_failing_program_is_made_small_and_kept(tmp_path, monkeypatch):
    seed = next(
        s for s in range(100)
        if len(list(program(s).walk())) > 100
        and any(isinstance(op, Reduce) for op in reduced_once(s).walk())
    )  # fmt: skip

    def holds_a_reduction(module):
        run_module(module, GRID, launch(seed).arguments())
        return any(isinstance(op, Reduce) for op in module.walk())

    small = reduced(program(seed), holds_a_reduction)
    assert lines_of(small) <= 15
    monkeypatch.setattr("tests.fuzz.keep.FOUND", tmp_path)
    path = save("case", small, launch(seed), "cpu", "made up")
    module, numbers, target = read(path)
    assert (numbers, target) == (launch(seed), "cpu")
    assert print_module(module) == print_module(small)


def reduced_once(seed: int):
    from workbench.passes.cleanup import drop_dead
    from workbench.passes.manager import Remarks

    return drop_dead(program(seed), Remarks())
