"""Tiles too large for shared memory go through it in rounds: they fit, and mean the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.execution import execute
from tests.kernels import large_tiles
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.test_on_device import device_chip
from workbench.ir import Module
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.nvidia.chip import Chip, chip
from workbench.targets.nvidia.pipeline import build
from workbench.targets.simt.passes.shared_memory import allocate

SM_90 = chip("sm_90a")
TYPES = {"fp16": np.float16, "fp32": np.float32, "fp64": np.float64, "i8": np.int8, "i32": np.int32}


@dataclass(frozen=True)
class Large:
    """A kernel of large tiles: extents, types of its arrays, warps, and rounds of its loop."""

    kernel: str
    types: str
    extents: tuple[int, ...]
    warps: int
    rounds: int = 0

    @property
    def name(self) -> str:
        return f"{self.kernel} {self.types} {'x'.join(map(str, self.extents))} w{self.warps}"

    def module(self) -> Module:
        function: Callable[..., Any] = getattr(large_tiles, self.kernel)
        names = [n for n in function.__annotations__ if n.isupper()]
        words = [f"*{word}:16" for word in self.types.split()] + ["i32"] * bool(self.rounds)
        constexprs = dict(zip(names, self.extents, strict=True))
        return tile_ir(function, " ".join(words), constexprs, num_warps=self.warps)

    def arguments(self) -> list[Any]:
        words = self.types.split()
        e = self.extents
        if "dot" in self.kernel:
            b, m, n, k = e
            sizes = [b * m * k * max(1, self.rounds), b * k * n * max(1, self.rounds), b * m * n]
        elif self.kernel == "broadcast_product":
            m, n, k = e
            sizes = [m * k, k * n, m * n]
        elif self.kernel == "counted":
            sizes = list(e)
        elif self.kernel == "concatenated":
            sizes = [e[0], e[0], 2 * e[0]]
        else:
            sizes = [int(np.prod(e))] * len(words)
        arrays = [
            numbers(size, TYPES[word], seed)
            for seed, (size, word) in enumerate(zip(sizes, words, strict=True))
        ]
        arrays[-1][:] = 0
        if self.kernel == "gathered":
            arrays[1] = np.random.default_rng(3).integers(0, e[0], sizes[1]).astype(np.int32)
        if self.kernel == "counted":
            arrays[0] = np.random.default_rng(3).integers(-9, e[1] + 9, e[0]).astype(np.int32)
        return [*arrays, *[self.rounds] * bool(self.rounds)]


#: They needed 256 kB to 2 MB, but for the smallest.
LARGE = [
    *(Large("batched_dot", f"{t} {t} fp32", (b, m, m, m), w)
      for t in ("fp16", "fp32")
      for b, m, w in ((4, 16, 4), (4, 128, 8), (8, 64, 8), (32, 32, 4), (64, 32, 8))),
    Large("batched_dot", "fp32 fp32 fp32", (16, 48, 24, 80), 4),
    Large("batched_dot_loop", "fp32 fp32 fp32", (16, 32, 32, 64), 4, 2),
    *(Large("broadcast_product", "fp32 fp32 fp32", (m, n, k), w)
      for m, n, k, w in ((64, 32, 32, 4), (64, 64, 32, 8), (128, 64, 32, 16))),
    *(Large(kernel, "fp32 fp32", e, w)
      for kernel in ("chained_reductions", "normalized")
      for *e, w in ((64, 64, 16, 8), (128, 16, 16, 4), (32, 32, 32, 4), (3, 130, 65, 8))),
    Large("chained_arguments", "fp32 i32", (64, 64, 16), 8),
    Large("both_ways", "fp32 fp32 fp32", (256, 256), 16),
    *(Large("transposed", f"{t} {t}", e, w)
      for t, e, w in (("fp32", (256, 256), 8), ("fp32", (128, 512), 4), ("fp64", (256, 256), 8),
                      ("i8", (256, 512), 16), ("fp32", (200, 300), 8))),
    *(Large("gathered", f"{t} i32 {t}", e, w)
      for t, e, w in (("fp32", (256, 256), 8), ("fp64", (128, 256), 8), ("fp32", (150, 300), 8))),
    Large("concatenated", "fp32 fp32 fp32", (32768,), 16),
    Large("counted", "i32 i32", (1024, 65536), 8),
]  # fmt: skip

#: The same on tiles that assemble in a moment, with a fraction of the shared memory.
SMALL = [
    *(Large("batched_dot", f"{t} {t} fp32", e, w)
      for t, e, w in (("fp16", (4, 16, 16, 8), 4), ("fp32", (2, 16, 8, 24), 2),
                      ("fp32", (3, 5, 6, 12), 1))),
    Large("batched_dot_loop", "fp32 fp32 fp32", (2, 8, 16, 16), 2, 3),
    Large("normalized", "fp32 fp32", (4, 16, 16), 4),
    Large("normalized", "fp32 fp32", (3, 13, 9), 4),
    Large("both_ways", "fp32 fp32 fp32", (50, 60), 4),
    Large("both_ways", "fp32 fp32 fp32", (64, 64), 4),
    *(Large("transposed", f"{t} {t}", e, w)
      for t, e, w in (("fp32", (64, 128), 4), ("fp64", (64, 64), 2), ("fp32", (128, 64), 4),
                      ("fp32", (50, 100), 4))),
    *(Large("gathered", f"{t} i32 {t}", e, w)
      for t, e, w in (("fp32", (32, 32), 4), ("fp64", (16, 16), 2), ("fp32", (13, 20), 2))),
    Large("concatenated", "fp32 fp32 fp32", (512,), 4),
    Large("counted", "i32 i32", (100, 500), 2),
]  # fmt: skip
LITTLE = 256


def with_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an op take so little shared memory at once that small tiles go in rounds."""
    monkeypatch.setattr(Chip, "most_scratch", LITTLE)


def shared_bytes(case: Large) -> int:
    """Return what a kernel needs; every pass on the way keeps its meaning."""
    module = case.module()
    final = [module, *(after for _, after in tile_steps(module))][-1]
    wanted = meaning(module, (1,), case.arguments())
    assert any(any(array) for array in wanted[-1:])
    steps = list(gpu_steps(final, SM_90, num_stages=1))
    last = steps[-1][1]
    assert meaning(last, (1,), case.arguments()) == wanted
    return allocate(last, SM_90)[2]


@pytest.mark.parametrize("case", LARGE, ids=lambda case: case.name)
def test_large_tiles_fit(case: Large):
    whole = case.kernel in ("gathered", "concatenated", "counted")
    assert shared_bytes(case) <= (2 if whole else 1) * SM_90.most_scratch


@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_rounds_keep_the_meaning_and_compile(case: Large, monkeypatch: pytest.MonkeyPatch):
    at_once = shared_bytes(case)
    with_little(monkeypatch)
    assert 0 < shared_bytes(case) < at_once
    recorder = Recorder()
    module = tile_passes(case.module(), recorder)
    assert ".entry" in build(module, "sm_90a", recorder).texts["ptx"]().text


@pytest.mark.gpu
@pytest.mark.parametrize("little", [True, False])
@pytest.mark.parametrize("case", [*SMALL, *LARGE], ids=lambda case: case.name)
def test_rounds_on_the_device(case: Large, little: bool, monkeypatch: pytest.MonkeyPatch):
    target = device_chip()
    if target is None:
        pytest.skip("no CUDA device")
    if little:
        if case in LARGE:
            pytest.skip("with little shared memory only small tiles are tried")
        with_little(monkeypatch)
    wanted, got = case.arguments(), case.arguments()
    meaning(case.module(), (1,), wanted)
    execute(case.module(), (1,), got, target)
    for before, after in zip(wanted, got, strict=True):
        np.testing.assert_array_equal(before, after)
