"""Products with weights that are made floats on the way, to try passes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tests.kernels import quantised
from tests.passes.corpus import tile_ir
from tests.passes.pipelines import gpu_steps, tile_steps
from workbench.ir import Module
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.ops import WarpgroupDot

SM_90A = chip("sm_90a")
K, N, GROUP = 320, 64, 128
POINTERS = "*f16:16 *{}:16 *f16:16 *f16:16 i32 i32:16 i32:16 i32:16 i32=1 i32:16 i32:16"
ORDER = r"wgmma\.(fence|wait_group\.sync\.aligned \d)"
KERNELS = {"i8": quantised.product_with_8_bits, "i4": quantised.product_with_int4}


def module_of(
    kind: str, blocks: tuple[int, int, int], *, behind: bool = False, **options: Any
) -> Module:
    m, n, k = blocks
    named = {"GROUP": GROUP, "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "BEHIND": behind}
    signature = POINTERS.format("i8")
    return tile_ir(KERNELS[kind], signature, named, num_warps=4, **options)


def arguments(kind: str, rows: int) -> Callable[[], list[Any]]:
    """What makes a launch of one block: small integers, so that sums are exact."""

    def make() -> list[Any]:
        random = np.random.default_rng(7)
        per_byte = 2 if kind == "i4" else 1
        x = random.integers(-2, 3, (rows, K)).astype(np.float16)
        limit = 128 if kind == "i4" else 4
        w = random.integers(-limit, limit, (N, K // per_byte)).astype(np.int8)
        scale = (2.0 ** random.integers(-1, 2, (3, N))).astype(np.float16)
        c = np.zeros((rows, N), np.float16)
        return [x.ravel(), w.ravel(), scale.ravel(), c.ravel(), rows, N, K, K, K // per_byte, N]

    return make


def computed_first(kind: str, blocks: tuple[int, int, int], **options: Any) -> Module:
    module = module_of(kind, blocks, num_stages=3)
    return replace(module, attributes={**module.attributes, "computed_first": True, **options})


def product_of(module: Module) -> WarpgroupDot:
    (product,) = (op for op in module.walk() if isinstance(op, WarpgroupDot))
    return product


def in_gpu_ir(module: Module) -> Module:
    final = [module, *(after for _, after in tile_steps(module))][-1]
    return [after for _, after in gpu_steps(final, SM_90A)][-1]
