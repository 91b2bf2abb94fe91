"""Random programs on the device: every value is what the interpreter says. And a product."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

import workbench
import workbench.language as tl
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


def product_of_doubles(
    a_ptr, b_ptr, c_ptr, m, n, k, a_row, b_column, c_row, TYPE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    along = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        inside = start + along < k
        a = tl.load(a_ptr + rows[:, None] * a_row + start + along[None, :],
                    mask=(rows < m)[:, None] & inside[None, :], other=0.0)  # fmt: skip
        b = tl.load(b_ptr + (start + along)[:, None] + columns[None, :] * b_column,
                    mask=inside[:, None] & (columns < n)[None, :], other=0.0)  # fmt: skip
        acc += tl.dot(a * 2, b)
    tl.store(c_ptr + rows[:, None] * c_row + columns[None, :], acc.to(TYPE),
             mask=(rows < m)[:, None] & (columns < n)[None, :])  # fmt: skip


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


@pytest.mark.gpu
def test_the_last_part_of_a_product_is_in_the_sums():
    torch = pytest.importorskip("torch")
    if device_chip() != "sm_90a":
        pytest.skip("no CUDA device with warpgroups")
    m, n, k = 200, 151, 192
    a, b = (torch.randint(-2, 3, (rows, k), device="cuda").half() for rows in (m, n))
    c = torch.zeros((m, 160), device="cuda", dtype=torch.float16)
    workbench.jit(product_of_doubles)[(4, 2)](
        a, b, c, m, n, k, k, k, 160, TYPE=tl.float16, BLOCK_M=64, BLOCK_N=128, BLOCK_K=64,
        num_warps=4, num_stages=3,
    )  # fmt: skip
    assert torch.equal(c[:, :n].float(), 2 * a.float() @ b.float().T)
    assert not c[:, n:].any()
