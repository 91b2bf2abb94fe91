"""Some of the planted faults; `python -m tests.bisect.run` has all of them."""

from __future__ import annotations

import pytest

from tests.bisect.asking import (
    ask_about_compiler,
    ask_about_source,
    lists_line,
    names_line,
    names_pass_and_op,
)
from tests.bisect.compiler_faults import COMPILER_FAULTS, CompilerFault
from tests.bisect.source_faults import SOURCE_FAULTS, SourceFault
from workbench.magics import registry
from workbench.magics.questioning import bisect
from workbench.source import OptionError

#: One in a rule, a pass for the CPU, a pass for a chip, a lowering, a loop's lowering.
SOME_COMPILER = [COMPILER_FAULTS[n] for n in (0, 4, 5, 14, 18)]
#: A constant, a missing op, a carried value; alone only where the slice itself has the line.
SOME_SOURCES = [SOURCE_FAULTS[n] for n in (0, 8, 19)]
SOME_ALONE = [SOURCE_FAULTS[n] for n in (3, 17)]


@pytest.fixture(autouse=True)
def _nothing_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", "")
    yield
    registry.clear()


@pytest.mark.parametrize("fault", SOME_COMPILER, ids=lambda fault: fault.name)
def test_a_fault_of_the_compiler_is_named_at_its_pass_and_op(fault: CompilerFault):
    answer, _ = ask_about_compiler(fault)
    assert names_pass_and_op(fault, answer), answer.text


@pytest.mark.parametrize("fault", SOME_SOURCES, ids=lambda fault: fault.name)
def test_beside_a_right_version_the_line_is_named(fault: SourceFault):
    answer, _ = ask_about_source(fault, beside=True)
    assert answer.verdict == "version"
    assert names_line(fault, answer), answer.text
    assert answer.data()["op"]["place"]["line"] == fault.line()


@pytest.mark.parametrize("fault", SOME_ALONE, ids=lambda fault: fault.name)
def test_alone_the_line_is_in_the_slice(fault: SourceFault):
    answer, _ = ask_about_source(fault, beside=False)
    assert answer.sentences[0].startswith(("the code does what the source says", "no program"))
    assert lists_line(fault, answer), answer.text


def test_faults_are_twenty_each():
    assert len(COMPILER_FAULTS) == len(SOURCE_FAULTS) == 20
    assert len({fault.name for fault in COMPILER_FAULTS}) == 20


def test_without_arguments_it_says_what_to_give():
    from workbench import jit, tl

    @jit
    def copy(x_ptr, out_ptr):
        tl.store(out_ptr, tl.load(x_ptr))

    with pytest.raises(OptionError, match="what are the arguments of copy") as caught:
        bisect(copy)
    assert caught.value.code == "K110"
