"""No alarm on right kernels, in any order of programs; nor on the whole corpus."""

from __future__ import annotations

import pytest

from tests.corpus import every
from tests.corpus.sample import Maker, failures, jitted
from tests.interpreter.right import BLOCK, RIGHT


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_found(name: str):
    case = RIGHT[name]
    for schedule in (0, 1, 2, 3):
        arguments = case.arguments()
        run = case.kernel.interpret[(case.programs,)](*arguments, BLOCK=BLOCK, schedule=schedule)
        assert run.findings == []
        assert arguments[-1].tolist() == case.result


@pytest.mark.parametrize("name", RIGHT)
def test_programs_wait_for_each_other_unwatched(name: str):
    case = RIGHT[name]
    arguments = case.arguments()
    case.kernel[(case.programs,)](*arguments, BLOCK=BLOCK, target="interpreter")
    assert arguments[-1].tolist() == case.result


@pytest.mark.parametrize("entry", every.SAMPLES, ids=lambda entry: f"{entry.suite}-{entry.name}")
def test_nothing_is_found_in_the_corpus(entry):
    make = Maker(entry.dtypes[0], layout=entry.layouts[0])
    problem = entry.build(make, *entry.fast[-1])
    for launch in problem.launches:
        run = jitted(launch.kernel).interpret[launch.grid](*launch.arguments, **launch.named)
        assert run is None or all(found.kind == "outside" for found in run.findings)
    assert not list(failures(problem, make))


def test_forty_are_right():
    assert len(RIGHT) >= 40
