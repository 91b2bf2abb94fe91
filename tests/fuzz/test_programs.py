"""Random programs give the same bits in the interpreter and elsewhere; what once failed stays."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

import workbench.ops
from tests.fuzz import sourced
from tests.fuzz.batch import Failure, try_seed, try_source
from tests.fuzz.children import rows
from tests.fuzz.keep import FOUND, read, save
from tests.fuzz.kernels import kernel_text
from tests.fuzz.programs import launch, program
from tests.fuzz.reduce import lines_of, reduced
from tests.fuzz.running import difference, outputs
from tests.passes.programs import GRID
from workbench.interpreter import run_module
from workbench.ir import parse_module, print_module, verify_module
from workbench.ops import Reduce
from workbench.ops.functions import FUNCTIONS

CHUNK = 25
KEPT = sorted(FOUND.glob("*.ir"))
KEPT_SOURCES = sorted(FOUND.glob("*.txt"))
#: Where new findings are written; not by default, so that a run of the tests changes no file.
KEEP = bool(os.environ.get("WORKBENCH_KEEP_FOUND"))


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
    assert wanted - there == {"tile.assert", "tile.assume", "tile.print", "tile.inline_asm",
                              "tile.barrier"}  # fmt: skip


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


def test_the_interpreter_and_the_cpu_agree_with_numpy_on_some_sources():
    check(range(20), "interpreter", try_source)
    check(range(20, 26), "cpu", try_source)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 300, 50))
def test_the_cpu_agrees_with_numpy_on_random_sources(start: int):
    check(range(start, start + 50), "cpu", try_source)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, 40, 10))
def test_gpu_ir_agrees_with_numpy_on_random_sources(start: int):
    check(range(start, start + 10), "sm_90a", try_source)


def test_sources_hold_what_only_sources_have():
    text = "\n".join(kernel_text(seed) for seed in range(80))
    words = ["break", "continue", "return", "while ", "elif ", "tl.static_range(", "tl.range(",
             "num_stages=", "tl.make_block_ptr(", "tl.advance(", "tl.make_tensor_descriptor(",
             ".load([", "tl.atomic_add(", "tl.dot(", "tl.permute(", "tl.trans(", "tl.join(",
             "tl.split(", "tl.interleave(", "tl.sort(", "tl.gather(", "tl.flip(", "tl.cumsum(",
             "tl.argmax(", " // ", " % ", " >> ", "tl.int8", "tl.uint8", " and ", " or ", "not (",
             "[:, None]", "[None, :]", "boundary_check=", "def helper"]  # fmt: skip
    assert [word for word in words if word not in text] == []


def test_a_failing_source_is_made_small_and_kept(tmp_path, monkeypatch):
    seed = next(s for s in range(100) if "tl.trans(" in kernel_text(s) and "if " in kernel_text(s))

    def still(text: str) -> bool:
        compile(text, "kernel", "exec")
        return "tl.trans(" in text

    small = sourced.reduced(kernel_text(seed), still)
    assert len(small.splitlines()) <= 5
    monkeypatch.setattr("tests.fuzz.sourced.FOUND", tmp_path)
    path = sourced.save("case", small, seed, "cpu", "made up")
    assert sourced.read(path) == (small, seed, "cpu")


def test_what_once_failed_is_right():
    for path in KEPT:
        module, numbers, target = read(path)
        assert lines_of(module) <= 15, path.name
        assert not difference(module, numbers, target), path.name
    for path in KEPT_SOURCES:
        text, seed, target = sourced.read(path)
        assert len(text.splitlines()) <= 15, path.name
        assert not sourced.difference(text, seed, target), path.name


def test_children_that_end_are_started_again(tmp_path, monkeypatch):
    (tmp_path / "child.py").write_text(
        "import json, os, sys\n"
        "first, count = map(int, sys.argv[1:])\n"
        "for seed in range(first, first + count):\n"
        "    if seed == 2:\n"
        "        os._exit(3)\n"
        "    print(json.dumps({'seed': seed}), flush=True)\n"
    )
    monkeypatch.setattr("tests.fuzz.children.ROOT", tmp_path)
    said = list(rows(["child"], 0, 5, 30.0))
    assert [row["seed"] for row in said] == [0, 1, 2, 3, 4]
    assert [row.get("ended") for row in said if "ended" in row] == ["the process ended with 3"]


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
        if 100 < len(list(program(s).walk())) < 250
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
