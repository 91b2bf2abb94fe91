"""The simulator of memory finds what a missing or late fence would break, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.targets.nvidia.hazards import RaceError, simulate
from tests.targets.nvidia.test_kept_operands import with_options
from tests.targets.nvidia.test_roles import ordered
from tests.targets.nvidia.test_start_products import arguments, module_of
from tests.targets.nvidia.test_warpgroups import SM_90A, in_gpu_ir
from workbench.ir import Block, Module, Op
from workbench.targets.nvidia.ops import FenceProducts, TensorCopy
from workbench.targets.simt.ops import BlockBarrier


def run(keeps: bool, change: Callable[[list[Op]], list[Op]]) -> None:
    """Simulate a kernel whose ops in front of its loop have changed once barriers are placed."""
    module = in_gpu_ir(with_options(module_of("masked"), keep_operands=keeps))
    module, offsets, total = ordered(module)
    simulate(changed(module, change), offsets, total, (1,), arguments(91)(), SM_90A)


def changed(module: Module, change: Callable[[list[Op]], list[Op]]) -> Module:
    def within(block: Block) -> Block:
        ops = [
            op.noted(**dict(zip(op.region_names, map(within, op.regions), strict=True)))
            if op.regions and not op.repeats
            else op
            for op in block.ops
        ]
        return Block(block.arguments, tuple(change(ops)))

    return replace(module, body=within(module.body))


def unfenced(ops: list[Op]) -> list[Op]:
    return [op for op in ops if not isinstance(op, FenceProducts)]


def fenced_late(ops: list[Op]) -> list[Op]:
    """Move fences behind the last barrier in front of the first copy of a box."""
    fences = [op for op in ops if isinstance(op, FenceProducts)]
    first = next((n for n, op in enumerate(ops) if isinstance(op, TensorCopy)), None)
    if first is None:
        return ops
    return [*unfenced(ops[:first]), *fences, *unfenced(ops[first:])]


def without_barriers(ops: list[Op]) -> list[Op]:
    first = next((n for n, op in enumerate(ops) if isinstance(op, TensorCopy)), 0)
    return [op for n, op in enumerate(ops) if n > first or not isinstance(op, BlockBarrier)]


@pytest.mark.parametrize("keeps", [True, False])
def test_as_it_is(keeps: bool):
    run(keeps, lambda ops: ops)


@pytest.mark.parametrize("keeps", [True, False])
def test_without_fences(keeps: bool):
    with pytest.raises(RaceError, match="have not fenced"):
        run(keeps, unfenced)


def test_fences_behind_the_barrier():
    with pytest.raises(RaceError, match="have not fenced yet"):
        run(True, fenced_late)


def test_a_box_that_fills_what_others_still_read():
    with pytest.raises(RaceError, match=r"since the last barrier|have not fenced yet"):
        run(True, without_barriers)
