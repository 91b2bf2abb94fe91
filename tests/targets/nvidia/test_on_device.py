"""Random programs on the device: every value is what the interpreter says."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from tests.execution import execute
from tests.passes.launches import NUMBERS, Launch
from tests.passes.leaves import GRID
from tests.passes.meaning import meaning
from tests.passes.programs import Writer
from workbench.analysis.ranges import index_program
from workbench.ir import print_module
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes


def device_chip() -> str | None:
    """Return the chip of the first device, None if there is none."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        return None
    from workbench.devices import cuda

    return cuda.chip(0)


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(60))
def test_random_programs_compute_what_the_interpreter_does(seed: int):
    chip = device_chip()
    if chip is None:
        pytest.skip("no CUDA device")
    choices = random.Random(seed)
    module = Writer(choices, choices.randint(1, 20), divisions=False).module()
    launch = Launch(choices.randint(0, 8), choices.choice(NUMBERS), choices.randint(0, 3))
    num_warps, narrow = choices.choice([1, 2, 4]), choices.choice([False, True])
    final = tile_passes(module, Recorder())
    narrow = narrow and index_program(final).fits(launch.numbers, GRID)
    options = {"num_warps": num_warps, "num_stages": 2, "narrow_index": narrow}
    exact = {"exact": True, "enable_fp_fusion": False}  # no a * b + c in one rounding
    module = replace(module, attributes={**options, **exact})
    wanted, got = launch.arguments(), launch.arguments()
    meaning(module, GRID, wanted)
    execute(module, GRID, got, chip)
    for before, after in zip(wanted[3:5], got[3:5], strict=True):
        same = (before == after) | ((before != before) & (after != after))
        wrong = np.flatnonzero(~same)[:4], before[~same][:4], after[~same][:4]
        assert same.all(), f"{wrong}\n{print_module(module)}"
