"""Products with weights that are made floats on the way: how they lie, and what waits for what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.kernels import quantised
from tests.passes.corpus import tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.hazards import simulate
from tests.targets.nvidia.test_overlap import ordered
from workbench.ir import Module, layout_of
from workbench.ops import ConvertLayout, Dot, For, Load
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.fragments import is_turned
from workbench.targets.nvidia.moves import moves_in
from workbench.targets.simt.ops import SharedLoad

SM_90A = chip("sm_90a")
K, N, GROUP = 320, 64, 128
POINTERS = "*f16:16 *{}:16 *f16:16 *f16:16 i32 i32:16 i32:16 i32:16 i32=1 i32:16 i32:16"
KERNELS = {"i8": quantised.product_with_8_bits, "i4": quantised.product_with_int4}


def module_of(kind: str, blocks: tuple[int, int, int], **options: Any) -> Module:
    m, n, k = blocks
    named = {"GROUP": GROUP, "BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}
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


def in_gpu_ir(module: Module) -> Module:
    final = [module, *(after for _, after in tile_steps(module))][-1]
    return [after for _, after in gpu_steps(final, SM_90A)][-1]


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("blocks", [(16, 32, 64), (16, 64, 128), (64, 64, 64)])
def test_it_means_the_same(kind: str, blocks: tuple[int, int, int]):
    module = module_of(kind, blocks, num_stages=3)
    last, make = in_gpu_ir(module), arguments(kind, blocks[0])
    assert meaning(last, (1,), make()) == meaning(module, (1,), make())
    placed, offsets, total = ordered(last)
    simulate(placed, offsets, total, (1,), make(), SM_90A)


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("blocks", [(16, 32, 64), (16, 64, 128), (16, 128, 128)])
def test_rings_are_read_without_bank_conflicts(kind: str, blocks: tuple[int, int, int]):
    """Eight lanes read two rows of four chunks, or 16 lanes half as much each."""
    last = in_gpu_ir(module_of(kind, blocks, num_stages=3))
    reads = [move for op, move in moves_in(last, "sm_90a") if isinstance(op, SharedLoad)]
    assert len(reads) >= 2
    assert [move.wavefronts for move in reads] == [move.ideal for move in reads]


@pytest.mark.parametrize("kind", KERNELS)
def test_a_lane_reads_neighbours(kind: str):
    """Weights are the instruction's first operand; nothing is converted in the loop."""
    last = in_gpu_ir(module_of(kind, (16, 32, 64), num_stages=3))
    (loop,) = (op for op in last.walk() if isinstance(op, For))
    (dot,) = (op for op in loop.body.ops if isinstance(op, Dot))
    for value, axis in ((dot.a, 1), (dot.b, 0)):
        layout = layout_of(value.type)
        assert layout is not None
        assert {1 << i for i in range(4)} <= {v[axis] for v in layout.bases["register"]}
    assert not any(isinstance(op, ConvertLayout) for op in loop.body.ops)
    product = layout_of(dot.result.type)
    assert product is not None
    assert is_turned(product)


def test_scales_are_loaded_a_round_ahead():
    """Two bytes of a column: no copy brings them. The loop only hands on what it loads."""
    last = in_gpu_ir(module_of("i8", (16, 32, 64), num_stages=3))
    (loop,) = (op for op in last.walk() if isinstance(op, For))
    (load,) = (op for op in loop.body.ops if isinstance(op, Load))
    assert load.result in loop.body.yields
    assert not any(load.result in op.operands for op in loop.body.ops[:-1])
