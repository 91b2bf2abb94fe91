"""Warps that part: no layout changes, barriers are the role's own, and what is wrong is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.passes.corpus import Case
from tests.passes.corpus import cases as corpus
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.hazards import simulate
from workbench.ir import Block, Builder, Module, parse_module, print_module
from workbench.ops import Yield
from workbench.passes.manager import Remarks
from workbench.targets.llvm.toolchain import assembly
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.pipeline import llvm_module, machine
from workbench.targets.simt.kernel import lower
from workbench.targets.simt.passes.barriers import insert_barriers
from workbench.targets.simt.passes.roles import part_warps
from workbench.targets.simt.passes.shared_memory import allocate
from workbench.targets.simt.verifier import verify_layouts

SM_90A = chip("sm_90a")
#: Kernels whose warps meet in a reduction, a conversion, a ring of operands.
MEET = ("persistent softmax", "argmax", "matmul")


def ordered(module: Module) -> tuple[Module, dict[int, int], int]:
    offsets, _, total = allocate(module, SM_90A)
    return insert_barriers(module, Remarks(), offsets, SM_90A), offsets, total


def ptx_of(module: Module, offsets: dict[int, int]) -> str:
    text = llvm_module(lower(module, SM_90A, offsets), module, SM_90A)
    return assembly(text, machine(SM_90A, text))


def idle(module: Module, warps: int = 1, registers: tuple[int, ...] = ()) -> Module:
    """Return a kernel with a producer that does nothing."""
    builder = Builder(module.next_id)
    with builder.block() as ops:
        builder.insert(Yield(()))
    module = replace(module, next_id=builder.next_id)
    return part_warps(module, Block((), tuple(ops)), warps=warps, registers=registers)


def before_barriers(case: Case) -> Module:
    module = case.module()
    final = [module, *(after for _, after in tile_steps(module))][-1]
    return list(gpu_steps(final, SM_90A, **case.options))[-2][1]


def meeting() -> list[Case]:
    first: dict[str, Case] = {}
    for case in corpus():
        for word in MEET:
            many = case.options.get("num_warps", 4) > 1
            if word in case.name and word not in first and many:
                first[word] = case
    return list(first.values())


@pytest.mark.parametrize("case", meeting(), ids=lambda case: case.name)
def test_a_kernel_whose_warps_part_means_the_same(case: Case):
    """With a producer that does nothing; its barriers are those of the consumers' threads."""
    plain = before_barriers(case)
    module, offsets, total = ordered(idle(plain))
    verify_layouts(module, SM_90A)
    assert print_module(parse_module(print_module(module))) == print_module(module)
    assert meaning(module, case.grid, case.arguments()) == meaning(
        plain, case.grid, case.arguments()
    )
    simulate(module, offsets, total, case.grid, case.arguments(), SM_90A)
    ptx = ptx_of(module, offsets)
    threads = 32 * module.attributes["num_warps"]
    assert f".reqntid {threads + 32}" in ptx
    assert "bar.sync \t0" not in ptx
    assert "barrier.sync \t0" not in ptx
    found = set(re.findall(r"bar\S*\.sync\s+(\d+), (\d+);", ptx))
    assert found <= {("1", str(threads))}
