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
from tests.targets.nvidia.test_ptx import needs_ptxas
from workbench.ir import Block, Builder, InvalidModuleError, Module, parse_module, print_module
from workbench.ops import Yield
from workbench.passes.manager import Remarks
from workbench.source import ShapeError, TargetError
from workbench.targets.llvm.toolchain import assembly
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.pipeline import llvm_module, machine
from workbench.targets.nvidia.toolchain import assemble
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
    text = llvm_module(lower(module, SM_90A, offsets), module, SM_90A, 0)
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


# -- what is refused ------------------------------------------------------------------------------
ROLES = """
#L0 = linear<128, lane=[1,2,4,8,16], warp=[32,64]>
kernel @parted(%p: ptr<f32>) {{num_warps = 4, num_stages = 1}} {{
  %0 = tile.splat %p {{shape = (128,)}} : tile<128xptr<f32>, #L0>
  %1 = tile.iota {{start = 0, type = tile<128xi32, #L0>}} : tile<128xi32, #L0>
  %2 = tile.add_pointer %0, %1 : tile<128xptr<f32>, #L0>
  {before}
  gpu.roles {{{words}}} {{
    {producer}
    tile.yield []
  }} {{
    %3 = tile.load %2 : tile<128xf32, #L0>
    {consumers}
    tile.store %2, %3
    tile.yield []
  }}
  tile.return
}}
"""
LOAD = "%9 = tile.load %2 : tile<128xf32, #L0>"


def parted(**parts: str) -> Module:
    given = {"before": "", "words": "", "producer": "", "consumers": ""} | parts
    given["words"] = given["words"] and f"{{{given['words']}}}"
    text = ROLES.replace(" {{{words}}} {{", " {words} {{")
    return parse_module(text.format(**given))


def test_what_stands_where_all_warps_run_it_is_numbers():
    verify_layouts(parted(), SM_90A)
    for before in (f"{LOAD}\n  tile.store %2, %9", 'tile.print [] {prefix = "x"}'):
        with pytest.raises(InvalidModuleError, match=r"stands beside .*gpu\.roles"):
            verify_layouts(parted(before=before), SM_90A)


def test_warps_part_once_at_the_top():
    inner = "gpu.roles {\n tile.yield []\n } {\n tile.yield []\n }"
    with pytest.raises(InvalidModuleError, match="warps part once, at the top level"):
        verify_layouts(parted(consumers=inner), SM_90A)


def test_a_producer_holds_no_tiles():
    with pytest.raises(ShapeError, match="makes a tile in the producer's region"):
        parted(producer=LOAD)


def test_registers_go_to_whole_groups():
    with pytest.raises(ShapeError, match="whole groups of four warps"):
        parted(words="warps = 1, registers = (40, 216)")
    module = parted(words="warps = 4, registers = (40, 216)")
    assert "setmaxnreg.inc.sync.aligned.u32 216" in ptx_of(module, {})
    low = chip("sm_80")
    with pytest.raises(TargetError, match="gives no registers from one warp to another"):
        lower(module, low, {})


@needs_ptxas
def test_code_of_roles_assembles():
    module, offsets, _ = ordered(parted(consumers="gpu.barrier"))
    ptx = ptx_of(module, offsets)
    assert re.search(r"bar\S*\.sync\s+1, 128;", ptx)
    assert assemble(ptx, "sm_90a").registers <= 32


def test_a_barrier_that_only_consumers_reach_is_no_whole_block_s():
    """Outside the regions a barrier is the whole block's, however few warps hold tiles."""
    module = parse_module(
        "kernel @k() {num_warps = 1, num_stages = 1} {\n  gpu.barrier\n  gpu.roles {\n"
        "    gpu.barrier\n    tile.yield []\n  } {\n    gpu.barrier\n    tile.yield []\n  }\n"
        "  tile.return\n}\n"
    )
    ptx = ptx_of(module, {})
    assert ".reqntid 64" in ptx
    assert len(re.findall(r"bar\S*\.sync\s+0;", ptx)) == 2  # in each role, which are one warp
    assert ptx.count("bar.warp.sync") == 2


PRODUCES = """
kernel @k(%n: i32) {{num_warps = 4, num_stages = 1}} {{
  %b = gpu.barriers {{count = 1}} : shared<1xi64, slots=1>
  gpu.barrier
  gpu.roles {{
{producer}
    tile.yield []
  }} {{
    %one = tile.constant {{value = 1, type = i32}} : i32
    %zero = tile.constant {{value = 0, type = i32}} : i32
    gpu.await %b, %zero, %one
    tile.yield []
  }}
  tile.return
}}
"""
QUOTIENT = """
    %zero = tile.constant {value = 0, type = i32} : i32
    %pid = tile.program_id {axis = 0, type = i32} : i32
    %0 = tile.div [%n, %pid] : i32
    %1 = tile.lt [%0, %n] : i1
    gpu.expect %b, %zero when %1 {bytes = 16}
"""


def in_order(producer: str) -> list[str]:
    """Return what is written: meetings of the block, quotients, what barriers are to expect."""
    module = parse_module(PRODUCES.format(producer=producer))
    text = "\n".join(lower(module, SM_90A, ordered(module)[1]).emit.lines)
    words = {"sync.aligned.all(": "meet", "sdiv": "divide", "expect_tx": "expect"}
    return [words[found] for found in re.findall(r"sync\.aligned\.all\(|sdiv|expect_tx", text)]


def test_a_producer_meets_the_block_when_its_numbers_are_there():
    """In front of the first thing that anybody notices; consumers meet at once."""
    assert in_order(QUOTIENT) == ["divide", "meet", "expect", "meet"]


def test_in_blocks_that_stay_producers_meet_once():
    """Without a program, or in the first."""
    stays = "gpu.each_program [] {most_rounds = 32} {" + QUOTIENT + "tile.yield []\n }\n"
    assert in_order(stays) == ["meet", "divide", "meet", "expect", "meet"]
