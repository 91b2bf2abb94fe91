"""Each file of the form in `form.py`, on each target that it names."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from tests.execution import execute
from tests.files import form
from tests.files.form import Run, Text
from workbench.ir import Module, parse_module, print_module, verify_module
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes

TEXTS = form.texts()
FAMILIES = ("memory", "arithmetic", "casts", "shapes", "reductions", "scans", "dots", "atomics",
            "control", "program", "debug")  # fmt: skip
RUNS = [(text, run) for text in TEXTS for run in text.tests]
CHECKS = [(text, run) for text in TEXTS for run in text.checks]


def named(pair: tuple[Text, Run]) -> str:
    return f"{pair[0].name}-{pair[1].name}"


def run(text: Text, module: Module, target: str) -> tuple[dict[str, Any], list[str]]:
    """Run a module; returns its arrays by name, and what it printed."""
    arguments = text.arguments()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        lines = execute(module, text.grid, list(arguments.values()), target)
    arrays = {k: text.read(k, v) for k, v in arguments.items() if isinstance(v, np.ndarray)}
    return arrays, lines


def here(target: str) -> str:
    """Return the chip of the device that there is in the place of the one a file names."""
    import torch

    if not target.startswith("sm_") or not torch.cuda.is_available():
        return target
    from workbench.devices import cuda

    return cuda.chip(0)


def agree(text: Text, got: Any, wanted: Any) -> bool:
    """Whether values are the same bits, NaNs alike, or within the relative bound of the text."""
    if text.within and got.dtype.kind == "f":
        return bool(np.allclose(got, wanted, rtol=text.within, atol=0.0, equal_nan=True))
    signs = got.dtype.kind != "f" or np.array_equal(
        np.signbit(got) & ~np.isnan(got), np.signbit(wanted) & ~np.isnan(wanted)
    )
    return signs and bool(np.array_equal(got, wanted, equal_nan=got.dtype.kind == "f"))


@pytest.mark.parametrize("pair", RUNS, ids=named)
def test_a_file_means_the_same_on_every_target(pair: tuple[Text, Run], bless: bool):
    text, how = pair
    module = text.module(how.options)
    verify_module(module)
    wanted, _ = run(text, module, "interpreter")
    if bless:
        bless_expected(text, wanted)
    if how.target == "interpreter":
        # Judged by itself: what the passes and the text form make of it.
        module = parse_module(print_module(tile_passes(module, Recorder())))
    got, lines = run(text, module, here(how.target))
    for name, values in got.items():
        assert agree(text, values, wanted[name]), f"%{name}: {values}, interpreter {wanted[name]}"
        expected = text.expects(name)
        if expected is not None:
            assert agree(text, values, expected), f"%{name}: {values}, expected {expected}"
    assert sorted(lines) == sorted(text.prints)


def bless_expected(text: Text, arrays: dict[str, Any]) -> None:
    """Write what the interpreter computes into a file's `expect` lines; read the diff."""
    lines = text.path.read_text().splitlines(keepends=True)
    for name in text.expected:
        numbers = " ".join(str(number) for number in arrays[name].tolist())
        place = next(i for i, line in enumerate(lines) if line.startswith(f"// expect %{name} ="))
        lines[place] = f"// expect %{name} = {numbers}\n"
        text.expected[name] = numbers
    text.path.write_text("".join(lines))


@pytest.mark.parametrize("pair", CHECKS, ids=named)
def test_a_stage_holds_what_a_file_checks(pair: tuple[Text, Run]):
    pytest.importorskip("filecheck")
    from tests.checking import check

    text, how = pair
    module = tile_passes(text.module(how.options), Recorder())
    check(
        print_module(module) if how.stage == "tile" else stage(module, how), "\n".join(how.checks)
    )


def stage(module: Module, how: Run) -> str:
    """Return the text of a stage of a target."""
    from workbench.targets.cpu import pipeline as cpu
    from workbench.targets.nvidia import pipeline as nvidia

    build = cpu.build if how.target == "cpu" else nvidia.build
    built = build(module, how.target, Recorder())
    if how.stage == "gpu":
        assert built.gpu is not None
        return print_module(built.gpu)
    return built.texts[how.stage]().text  # type: ignore[index]


def test_there_are_files_of_every_family_for_every_target():
    here = [text for text in TEXTS if text.path.parent.parent == form.ROOTS[0]]
    assert {text.path.parent.name for text in here} == set(FAMILIES)
    for text in here:
        assert {run.target for run in text.tests} == {"interpreter", "cpu", "sm_90a"}, text.name
