"""Random programs give the same bits in the interpreter and elsewhere; what once failed stays."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Callable
from operator import floordiv

import numpy as np
import pytest

import workbench.ops
from tests.files import form
from tests.fuzz import sourced
from tests.fuzz.accesses import kernel_text
from tests.fuzz.batch import Failure, try_seed, try_source
from tests.fuzz.keep import FOUND, save
from tests.fuzz.oracle import Word
from tests.fuzz.programs import ProgramWriter, launch, program
from tests.fuzz.reduce import lines_of, reduced
from tests.fuzz.running import difference, outputs
from tests.passes.leaves import GRID
from workbench.interpreter import run_module
from workbench.ir import Builder, Op, parse_module, print_module, rebuild, verify_module
from workbench.ops import AtomicCompareExchange, AtomicUpdate, Reduce
from workbench.ops.functions import FUNCTIONS

KEPT_SOURCES = sorted(FOUND.glob("*.txt"))
#: Where new findings are written; not by default, so that a run of the tests changes no file.
KEEP = FOUND if os.environ.get("WORKBENCH_KEEP_FOUND") else None


def check(seeds: range, target: str, run: Callable[..., Failure | None] = try_seed) -> None:
    found = [failure for seed in seeds if (failure := run(seed, target, keep=KEEP))]
    assert not found, "\n".join(f"seed {f.seed}: {f.said} ({f.lines} lines)" for f in found)


def test_every_op_comes_up():
    """What the programs hold, over some seeds, is every op that a front end makes."""
    there = {op.name for seed in range(250) for op in program(seed).walk()}
    names = {getattr(value, "mnemonic", "") for value in vars(workbench.ops).values()}
    wanted = {name for name in names if name.startswith("tile.")}
    # Functions of floats round, which bits cannot be compared of.
    wanted |= {f"tile.{name}" for name, row in FUNCTIONS.items() if row.takes != "float"}
    # Checks of accesses are put in by a pass; launches are nobody's business here.
    left_out = {"tile.assert", "tile.print", "tile.inline_asm", "tile.check_access"}
    left_out |= {"tile.grid_dependency_wait", "tile.launch_dependents"}
    assert wanted - there == left_out


def test_targets_agree_on_some_programs():
    check(range(10), "cpu")
    check(range(10, 20), "interpreter")


def test_targets_agree_with_numpy_on_some_sources():
    check(range(20), "interpreter", try_source)
    check(range(20, 26), "cpu", try_source)


# Here and above, some 130 programs and sources in all; `make fuzz` runs ranges of any length.


@pytest.mark.slow
def test_the_cpu_agrees_on_random_programs():
    check(range(20, 32), "cpu")


@pytest.mark.slow
def test_passes_keep_what_random_programs_mean():
    check(range(320, 332), "interpreter")


@pytest.mark.slow
def test_gpu_ir_agrees_on_random_programs():
    check(range(420, 432), "sm_90a")


@pytest.mark.slow
def test_the_interpreter_agrees_with_numpy_on_random_sources():
    check(range(26, 38), "interpreter", try_source)


@pytest.mark.slow
def test_the_cpu_agrees_with_numpy_on_random_sources():
    check(range(126, 138), "cpu", try_source)


@pytest.mark.slow
def test_gpu_ir_agrees_with_numpy_on_random_sources():
    check(range(376, 388), "sm_90a", try_source)


@pytest.mark.slow
def test_a_watched_run_finds_nothing_wrong_in_random_programs():
    """They keep apart what they store, or order it by locks, flags and counts."""
    for seed in range(520, 532):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = run_module(program(seed), GRID, launch(seed).arguments(), watch=True)
        assert [f for f in found.findings if f.severity == "error"] == [], f"seed {seed}"


@pytest.mark.slow
def test_a_watched_run_misses_what_ordered_programs():
    """The same programs with relaxed atomics: each that shares a tile between programs races."""
    sharing = [seed for seed in range(80) if shares_a_tile(seed)]
    assert len(sharing) >= 10
    for seed in sharing:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            module = rebuild(program(seed), relaxed)
            found = run_module(module, GRID, launch(seed).arguments(), watch=True)
        # Of the same value as was there, it is a remark.
        assert "race" in {finding.kind for finding in found.findings}, f"seed {seed}"


def shares_a_tile(seed: int) -> bool:
    """Whether programs of a seed hand each other a tile of floats."""
    writer = ProgramWriter(seed, 3 + seed % 12)
    before = writer.common["floats"]
    writer.module()
    return writer.common["floats"] > before


def relaxed(op: Op, _: Builder) -> Op | None:
    if isinstance(op, AtomicUpdate | AtomicCompareExchange):
        return op.changed(order="relaxed")
    return None


def test_sources_hold_what_only_sources_have():
    text = "\n".join(kernel_text(seed) for seed in range(80))
    words = ["break", "continue", "return", "while ", "elif ", "tl.static_range(", "tl.range(",
             "num_stages=", "tl.make_block_ptr(", "tl.advance(", "tl.make_tensor_descriptor(",
             ".load([", "tl.atomic_add(", "tl.dot(", "tl.permute(", "tl.trans(", "tl.join(",
             "tl.split(", "tl.interleave(", "tl.sort(", "tl.gather(", "tl.flip(", "tl.cumsum(",
             "tl.argmax(", " // ", " % ", " >> ", "tl.int8", "tl.uint8", " and ", " or ", "not (",
             "[:, None]", "[None, :]", "boundary_check=", "def helper", "tl.uint64", "tl.int16",
             "tl.float8e5", "tl.bfloat16", '"rtz"', "tl.atomic_cas(", "tl.atomic_xchg(",
             'sem="acquire"', 'sem="release"', "tl.multiple_of(", "tl.max_contiguous(",
             "tl.max_constancy(", "tl.assume("]  # fmt: skip
    assert [word for word in words if word not in text] == []


def test_a_loop_whose_statements_write_nothing_has_a_body():
    for seed in (2001168, *range(200)):
        ast.parse(kernel_text(seed))
    assert "static_range(0):\n            pass" in kernel_text(2001168)


def test_a_failing_source_is_made_small_and_kept(tmp_path):
    seed = next(s for s in range(100) if "tl.trans(" in kernel_text(s) and "if " in kernel_text(s))

    def still(text: str) -> bool:
        compile(text, "kernel", "exec")
        return "tl.trans(" in text

    small = sourced.reduced(kernel_text(seed), still)
    assert len(small.splitlines()) <= 5
    path = sourced.save("case", small, seed, "cpu", "made up", tmp_path)
    assert sourced.read(path) == (small, seed, "cpu")


def test_what_once_failed_is_right():
    """Sources; programs are files of the form that tests/files runs."""
    for path in KEPT_SOURCES:
        text, seed, target = sourced.read(path)
        assert len(text.splitlines()) <= 15, path.name
        assert not sourced.difference(text, seed, target), path.name


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


def test_a_failing_program_is_made_small_and_kept(tmp_path):
    seed = next(
        s for s in range(100)
        if 100 < len(list(program(s).walk())) < 250
        and any(isinstance(op, Reduce) for op in reduced_once(s).walk())
    )  # fmt: skip

    def holds_a_reduction(module):
        run_module(module, GRID, launch(seed).arguments())
        return any(isinstance(op, Reduce) for op in module.walk())

    small = reduced(program(seed), holds_a_reduction)
    assert lines_of(small) <= 15
    path = save("case", small, launch(seed), "cpu", "made up", tmp_path)
    text = form.read(path)
    assert [run.target for run in text.tests] == ["cpu"]
    assert print_module(text.module()) == print_module(small)
    assert text.grid == GRID
    for got, wanted in zip(text.arguments().values(), launch(seed).arguments(), strict=True):
        assert np.array_equal(got, wanted)


TOGETHER = """
kernel @random(%f: ptr<f32>, %h: ptr<f16>, %g: ptr<i32>, %floats: ptr<f32>, %integers: ptr<i64>,
               %n: index, %m: index) {
  %0 = tile.iota {start = 0, type = tile<32xindex>} : tile<32xindex>
  %1 = tile.cast %0 {to = i64} : tile<32xi64>
  %2 = tile.splat %integers {shape = (32,)} : tile<32xptr<i64>>
  tile.store %2, %1
  tile.return
}
"""


def test_programs_that_leave_a_value_open_are_no_failures():
    """What is made small must not become: lanes, or programs, that store to one place."""
    with pytest.raises(ValueError, match="two values to one place"):
        difference(parse_module(TOGETHER), launch(0), "interpreter")
    lines = TOGETHER.splitlines()
    lines[3:6] = ["%0 = tile.program_id {axis = 0} : index", "%1 = tile.cast %0 {to = i64} : i64"]
    module = parse_module("\n".join(lines).replace("tile.store %2", "tile.store %integers"))
    with pytest.raises(ValueError, match="programs race"):
        difference(module, launch(0), "interpreter", watch=True)


@pytest.mark.parametrize("word", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint64])
def test_quotients_of_the_oracle_truncate(word: type[np.signedinteger]):
    low, high = int(np.iinfo(word).min), int(np.iinfo(word).max)
    for a in (low, low + 1, high, 7, 0):
        for b in {low + 1, high, 3} | ({-3} if low else set()):
            if b:
                want = abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
                found = floordiv(Word(np.asarray([a], word)), Word(np.asarray([b], word)))
                assert found.values.tolist() == [want], (a, b)


def reduced_once(seed: int):
    from workbench.passes.cleanup import drop_dead
    from workbench.passes.manager import Remarks

    return drop_dead(program(seed), Remarks())
