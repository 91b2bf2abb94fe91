"""Kernels whose blocks stay for several programs, and what comes of launching them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.kernels import attention_forward
from tests.passes.corpus import numbers, tile_ir
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.test_odd_extents import staged
from workbench.interpreter.machine import Machine
from workbench.ir import Module
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.built import Built
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.pipeline import build
from workbench.targets.simt.ops import EachProgram, is_persistent, roles_of

SM_90A = chip("sm_90a")
OPTIONS = {"narrow_index": True, "warp_specialize": True, "persistent": True}


def staying(module: Module, **options: object) -> Module:
    """Return the GPU IR of a kernel whose blocks stay."""
    final = [module, *(after for _, after in tile_steps(module))][-1]
    found = [after for _, after in gpu_steps(final, SM_90A, **OPTIONS, **options)][-1]
    assert is_persistent(found)
    return found


def compiled(module: Module, **options: object) -> tuple[Built, list[str]]:
    """Return what is built of a kernel, and what the author is told of blocks that stay."""
    recorder = Recorder()
    module = replace(module, attributes={**module.attributes, **OPTIONS, **options})
    built = build(tile_passes(module, recorder), "sm_90a", recorder)
    return built, [r.text for r in recorder.remarks.items if "persistent" in r.text]


def results(
    module: Module, grid: tuple[int, ...], arguments: list[Any], blocks: int, seed: int = 0
):
    """Return what arrays hold after a launch of so many blocks."""
    machine = Machine(module, grid, arguments)
    machine.blocks, machine.roles_seed = blocks, seed
    with np.errstate(all="ignore"):
        machine.run_all()
    return [a.tobytes() for a in arguments if isinstance(a, np.ndarray)]


@cache
def matmul_of(m: int, n: int, k: int, warps: int = 4, kind: str = "nn") -> Module:
    return staying(staged(m, n, k, warps, kind))


#: Of attention: heads, and rows of queries and keys.
HEADS, LENGTH = 3, 80


@cache
def attention_before(causal: bool) -> Module:
    sizes = {"HEAD": 16, "BLOCK_M": 64, "BLOCK_N": 16, "BLOCK_D": 16, "CAUSAL": causal,
             "EVEN": False}  # fmt: skip
    words = "*fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp32:16 fp32 " + "i32:16 i32:16 i32:16 i32=1 " * 4
    return tile_ir(
        attention_forward.attention, f"{words}i32 i32 i32 i32", sizes, num_warps=4, num_stages=2
    )


@cache
def attention_of(causal: bool, *, first: bool = False) -> Module:
    return staying(attention_before(causal), loads_first=first)


def attention_arguments() -> list[Any]:
    size = HEADS * LENGTH * 16
    q, k, v = (numbers(size, np.float16, seed) for seed in range(3))
    out, lse = np.zeros(size, np.float16), np.zeros(HEADS * LENGTH, np.float32)
    strides = (size, LENGTH * 16, 16) * 4
    return [q, k, v, out, lse, 0.25, *strides, HEADS, HEADS, LENGTH, LENGTH]


@pytest.mark.parametrize("causal", [False, True])
def last_of(module: Module) -> Module:
    return [module, *(after for _, after in tile_steps(module))][-1]


def each_of(module: Module, role: str) -> EachProgram:
    roles = roles_of(module)
    assert roles is not None
    (found,) = (op for op in getattr(roles, role).ops if isinstance(op, EachProgram))
    return found
