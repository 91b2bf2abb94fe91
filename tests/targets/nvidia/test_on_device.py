"""Random programs on the device: every value is what the interpreter says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.execution import execute
from tests.passes.meaning import cases, meaning
from tests.passes.programs import GRID, Launch, launches, modules
from workbench.analysis.ranges import index_program
from workbench.ir import Module, print_module
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes


def device_chip() -> str | None:
    """Return the chip of the first device, None if there is none."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        return None
    from workbench.runtime import cuda

    return cuda.chip(0)


@pytest.mark.gpu
@given(modules(divisions=False), launches(), st.sampled_from([1, 2, 4]), st.booleans())
@cases(60, derandomize=True)
def test_random_programs_compute_what_the_interpreter_does(
    module: Module, launch: Launch, num_warps: int, narrow: bool
):
    chip = device_chip()
    if chip is None:
        pytest.skip("no CUDA device")
    final = tile_passes(module, Recorder())
    narrow = narrow and index_program(final).fits(launch.numbers, GRID)
    options = {"num_warps": num_warps, "num_stages": 2, "narrow_index": narrow}
    exact = {"exact": True, "enable_fp_fusion": False}  # no a * b + c in one rounding
    module = replace(module, attributes={**options, **exact})
    note(print_module(module))
    wanted, got = launch.arguments(), launch.arguments()
    meaning(module, GRID, wanted)
    execute(module, GRID, got, chip)
    for before, after in zip(wanted[3:5], got[3:5], strict=True):
        same = (before == after) | ((before != before) & (after != after))
        assert same.all(), (np.flatnonzero(~same)[:4], before[~same][:4], after[~same][:4])
