"""Blocks that stay for several programs, whatever the kernel: values, barriers, code."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.passes.corpus import tile_ir
from tests.targets.nvidia.hazards import RaceError, simulate
from tests.targets.nvidia.test_specialised import planted
from tests.targets.simt.pretend import execute, gpu_ir
from tests.targets.simt.test_sixty_four_lanes import CASES, MACHINE, Case, check
from workbench.interpreter.machine import Machine
from workbench.ir import Block, Builder, Module
from workbench.ops import Yield
from workbench.targets.simt.ops import BlockBarrier, EachProgram
from workbench.targets.simt.passes.shared_memory import allocate
from workbench.targets.simt.verifier import verify_layouts

#: Programs that nothing orders, some of which go through shared memory.
STAYING = [case for case in CASES if case.grid[0] > 1 and "atomics" not in case.name]


def staying(module: Module) -> Module:
    """Return a kernel that does all its work for each program of a block."""
    *ops, end = module.body.ops
    builder = Builder(module.next_id)
    with builder.block() as last:
        builder.insert(Yield(()))
    with builder.block() as body:
        builder.insert(EachProgram((), Block((), (*ops, *last)), most_rounds=32))
        builder.insert(end)
    return replace(module, body=Block((), tuple(body)), next_id=builder.next_id)


@cache
def compiled(case: Case) -> Module:
    return gpu_ir(case.module(), MACHINE, staying)


@pytest.mark.parametrize("case", STAYING, ids=lambda case: case.name)
def test_a_block_computes_what_several_did(case: Case):
    module = compiled(case)
    verify_layouts(module, MACHINE)
    for blocks in (1, 2):
        got = case.arguments()
        machine = Machine(module, case.grid, got)
        machine.blocks = blocks
        machine.run_all()
        check(case, got)
        got = case.arguments()
        execute(module, MACHINE, case.grid, got, blocks)
        check(case, got)


@pytest.mark.parametrize("case", STAYING, ids=lambda case: case.name)
def test_no_barrier_is_missing_between_programs(case: Case):
    module = compiled(case)
    offsets, _, total = allocate(module, MACHINE)
    simulate(module, offsets, total, case.grid, case.arguments(), MACHINE, blocks=1)


def test_barriers_between_programs_are_needed():
    """Some barriers stand there for two programs, and none of one would miss them."""
    found = 0
    for case in STAYING:
        module = compiled(case)

        def races(wrong: Module, grid: tuple[int, ...], case: Case = case) -> bool:
            offsets, _, total = allocate(wrong, MACHINE)
            try:
                simulate(wrong, offsets, total, grid, case.arguments(), MACHINE, blocks=1)
            except RaceError:
                return True
            return False

        for barrier in [op for op in module.walk() if isinstance(op, BlockBarrier)]:
            wrong = planted(module, lambda _, op, b=barrier: () if op.id == b.id else None)
            found += races(wrong, case.grid) and not races(wrong, (1,))
    assert found >= 3


def places(out_ptr, N: tl.constexpr):
    """Store which program of how many wrote a row."""
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    number = x + tl.num_programs(0) * (y + tl.num_programs(1) * z)
    here = out_ptr + number * N + tl.arange(0, N)
    tl.store(here, tl.load(here) + x + 100 * y + 10000 * z + 1000000 * tl.num_programs(2))


@pytest.mark.parametrize("blocks", [1, 2, 5, 7, 59, 60])
@pytest.mark.parametrize("narrow", [True, False])
def test_code_numbers_each_program_once(blocks: int, narrow: bool):
    module = tile_ir(places, "*i32:16", {"N": 64}, num_warps=2)
    module = replace(module, attributes={**module.attributes, "narrow_index": narrow})
    module = gpu_ir(module, MACHINE, staying)
    grid = (3, 4, 5)
    out: Any = np.zeros(60 * 64, np.int32)
    execute(module, MACHINE, grid, [out], blocks)
    z, y, x = np.indices(grid[::-1])
    wanted = x + 100 * y + 10000 * z + 5000000
    assert np.array_equal(out.reshape(60, 64), np.repeat(wanted.reshape(60, 1), 64, 1))


def both(x_ptr, y_ptr, N: tl.constexpr):
    """Stores through two arguments, by other threads where these overlap."""
    i, block = tl.arange(0, N), tl.program_id(0)
    tl.store(x_ptr + block * N + i, i)
    tl.store(y_ptr + block * 2 * N + 2 * (N - 1 - i), i + 1000)


@pytest.mark.parametrize("apart", [True, False])
def test_stores_of_two_arguments_wait_where_their_ends_meet(apart: bool):
    module = tile_ir(both, "*i32:16 *i32:16", {"N": 128}, num_warps=2)
    module = gpu_ir(module, MACHINE, staying)
    (barrier,) = [op for op in module.walk() if isinstance(op, BlockBarrier) and op.when]
    wrong = planted(module, lambda _, op: () if op.id == barrier.id else None)
    memory = np.zeros(512, np.int32)
    other = np.zeros(512, np.int32) if apart else memory
    offsets, _, total = allocate(module, MACHINE)

    def run(kernel: Module) -> None:
        simulate(kernel, offsets, total, (2,), [memory, other], MACHINE, blocks=1)

    run(module)
    if apart:
        run(wrong)
    else:
        with pytest.raises(RaceError):
            run(wrong)


def test_blocks_that_go_wait_without_asking():
    """A barrier costs less than to compute where stores end."""
    module = gpu_ir(tile_ir(both, "*i32:16 *i32:16", {"N": 128}, num_warps=2), MACHINE)
    assert [op.when for op in module.walk() if isinstance(op, BlockBarrier)] == [None]
