"""Loops of more rounds than Python's len() counts are compiled like any other."""

from __future__ import annotations

import numpy as np
import pytest

from tests.language.harness import from_text, lowered
from workbench.ops import count_rounds
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.cpu import pipeline as on_cpu
from workbench.targets.nvidia import pipeline as on_nvidia

MOST = 2**63 - 1
NEST = """
def kernel(x, out):
    i = tl.arange(0, 16)
    tile = i[:, None] * 16 + i[None, :]
    total = tl.zeros((16, 16), tl.float32)
    for r in range(2):
        for k in tl.range({lower}, {upper}, {step}{hint}):
            a = tl.load(x + r * 256 + tile)
            total = tl.dot(a, a, total)
    tl.store(out + tile, total)
"""


@pytest.mark.parametrize("bounds", [(2, 5, 3), (0, 4, 3), (5, 1, -1), (5, 1, 1), (7, 7, 2)])
def test_rounds_are_counted(bounds: tuple[int, int, int]):
    assert count_rounds(*bounds) == len(range(*bounds))


@pytest.mark.parametrize("hint", ["", ", loop_unroll_factor=2", ", warp_specialize=True"])
@pytest.mark.parametrize("bounds", [(-MOST, MOST, 1), (MOST, -MOST, -1)])
@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_long_loops_are_compiled(target: str, bounds: tuple[int, int, int], hint: str):
    assert count_rounds(*bounds) == 2 * MOST
    lower, upper, step = bounds
    text = NEST.format(lower=lower, upper=upper, step=step, hint=hint)
    held = np.zeros(512, np.float16)
    module, _ = lowered(from_text(text), x=held, out=np.zeros(256, np.float32))
    recorder = Recorder()
    pipeline = on_cpu if target == "cpu" else on_nvidia
    assert pipeline.build(tile_passes(module, recorder), target, recorder).gpu or target == "cpu"
