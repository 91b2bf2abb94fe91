"""Shared memory: nothing overlaps, nothing races, and too much of it is refused with reasons."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import workbench
from tests.language.harness import from_text
from tests.passes import golden
from tests.passes.corpus import Case
from tests.passes.corpus import cases as corpus
from tests.passes.launches import Launch, launches
from tests.passes.leaves import GRID
from tests.passes.meaning import cases
from tests.passes.pipelines import PASSES, SM_80, gpu_steps, tile_steps
from tests.passes.programs import modules
from tests.targets.nvidia.configurations import QUICK, SLOW, Configuration
from tests.targets.nvidia.hazards import RaceError, simulate
from workbench.ir import DROP, Block, Module, Op, parse_module, print_module, rebuild
from workbench.passes.manager import Remarks
from workbench.source import ResourceError
from workbench.targets.simt.passes.barriers import insert_barriers
from workbench.targets.simt.passes.shared_memory import allocate


def gpu_ir(module: Module, **options: Any) -> Module:
    """Return GPU IR before its barriers are inserted."""
    final = [module, *(after for _, after in tile_steps(module))][-1]
    return [after for name, after in gpu_steps(final, **options) if name != "insert-barriers"][-1]


def check_offsets(module: Module) -> None:
    """Compare all pairs of pieces: live at one time means apart in memory."""
    offsets, intervals, total = allocate(module, SM_80)
    order = {op.id: place for place, op in enumerate(module.walk())}
    assert sorted(offsets) == sorted(piece.op for piece in intervals)
    for piece in intervals:
        assert 0 <= piece.offset <= piece.offset + piece.bytes <= total
        assert piece.offset == offsets[piece.op]
    for i, a in enumerate(intervals):
        for b in intervals[:i]:
            together = order[a.first] <= order[b.last] and order[b.first] <= order[a.last]
            apart = a.offset + a.bytes <= b.offset or b.offset + b.bytes <= a.offset
            assert apart or not together, (a, b)


def barriers_of(before: Module, after: Module) -> list[int]:
    known = {op.id for op in before.walk()}
    return [op.id for op in after.walk() if op.id not in known]


def without(module: Module, barrier: int) -> Module:
    return rebuild(module, lambda op, builder: DROP if op.id == barrier else None)


@pytest.mark.parametrize("case", corpus(), ids=lambda case: case.name)
def test_kernels_do_not_race(case: Case):
    before = gpu_ir(case.module(), **case.options)
    check_offsets(before)
    offsets, _, total = allocate(before, SM_80)
    after = insert_barriers(before, Remarks(), offsets, SM_80)
    simulate(after, offsets, total, case.grid, case.arguments())


#: Kernels whose loops run more than once here, so that what one round leaves to the next shows.
ROUNDS_ENOUGH = (
    "softmax 2x300",
    "matmul fp16 40x48x50",
    "matmul fp16 32x32x64",
    "matmul fp16 32x40",
)


@pytest.mark.parametrize(
    "case", [c for c in corpus() if c.name.startswith(ROUNDS_ENOUGH)], ids=lambda case: case.name
)
def test_every_barrier_is_needed(case: Case):
    before = gpu_ir(case.module(), **case.options)
    offsets, _, total = allocate(before, SM_80)
    after = insert_barriers(before, Remarks(), offsets, SM_80)
    top = [op.name for op in after.body.ops]
    # A load in front of a loop is waited for behind it, for the loop might have no round.
    early = (
        "tile.load" in top and "tile.for" in top and top.index("tile.load") < top.index("tile.for")
    )
    barriers = [op.id for op in after.walk() if op.name == "gpu.barrier"]
    if early:
        barriers.remove(next(op.id for op in after.body.ops if op.name == "gpu.barrier"))
    for barrier in barriers:
        with pytest.raises(RaceError):
            simulate(without(after, barrier), offsets, total, case.grid, case.arguments())


@given(modules(), launches(), st.sampled_from([2, 4, 8]))
@cases(20)
def test_random_programs_do_not_race(module: Module, launch: Launch, num_warps: int):
    before = gpu_ir(module, num_warps=num_warps)
    note(print_module(before))
    check_offsets(before)
    offsets, _, total = allocate(before, SM_80)
    simulate(
        insert_barriers(before, Remarks(), offsets, SM_80), offsets, total, GRID, launch.arguments()
    )


ROUNDS = """
#L0 = linear<128, lane=[1,2,4,8,16], warp=[32,64]>
#L1 = linear<128, lane=[4,8,16,32,64], warp=[1,2]>
#S0 = linear<128, offset=[1,2,4,8,16,32,64]>
kernel @rounds(%p: ptr<f32>) {num_warps = 4} {
  %zero = tile.constant {value = 0, type = i32} : i32
  %one = tile.constant {value = 1, type = i32} : i32
  %three = tile.constant {value = 3, type = i32} : i32
  %init = tile.constant {value = 1.0, type = tile<128xf32, #L0>} : tile<128xf32, #L0>
  %buffer = gpu.shared_allocate {type = shared<128xf32, #S0>} : shared<128xf32, #S0>
  %r = tile.for %zero, %three, %one, [%init] {
  ^(%k: i32, %a: tile<128xf32, #L0>):
    gpu.shared_store %a, %buffer
    %b = gpu.shared_load %buffer {type = tile<128xf32, #L1>} : tile<128xf32, #L1>
    %c = tile.add [%b, %b] : tile<128xf32, #L1>
    %d = gpu.convert_layout %c {layout = #L0} : tile<128xf32, #L0>
    tile.yield [%d]
  } : tile<128xf32, #L0>
  tile.return
}
"""


def test_a_loop_waits_before_it_writes_again():
    """The load of one round and the store of the next are a hazard round the loop."""
    before = parse_module(ROUNDS)
    offsets, _, total = allocate(before, SM_80)
    after = insert_barriers(before, Remarks(), offsets, SM_80)
    simulate(after, offsets, total, (1,), [0])
    # The barrier inside convert_layout separates the load from the next round's store.
    loop = next(op for op in after.walk() if op.name == "tile.for")
    names = [op.name for op in loop.regions[0].ops]
    assert names.count("gpu.barrier") >= 1
    assert names.index("gpu.shared_store") < names.index("gpu.barrier")
    assert names.index("gpu.barrier") < names.index("gpu.shared_load")
    for barrier in barriers_of(before, after):
        with pytest.raises(RaceError):
            simulate(without(after, barrier), offsets, total, (1,), [0])


def test_pieces_that_are_never_live_together_share_bytes():
    module = parse_module(ROUNDS)
    body = list(module.body.ops)
    again = parse_module(ROUNDS.replace("@rounds", "@twice")).body.ops[4:6]
    ops: list[Op] = body[:6]
    number = 100
    for op in again:
        op.__dict__["id"] = number
        number += 1
    module = replace(module, body=Block((), (*ops, body[-1])), next_id=200)
    offsets, intervals, total = allocate(module, SM_80)
    assert len(intervals) == len(offsets) == 2
    assert total < sum(piece.bytes for piece in intervals) + 1024


# -- golden numbers ---------------------------------------------------------------------------
def numbers(configuration: Configuration) -> tuple[int, int, int, int]:
    """Return conversions, bytes of scratch, bytes of shared memory, and barriers of a kernel."""
    built = configuration.built("sm_80")
    names = [op.name for op in built.gpu.walk()]
    buffers = {op.id for op in built.gpu.walk() if op.name == "gpu.shared_allocate"}
    scratch = sum(piece.bytes for piece in built.fields["shared"] if piece.op not in buffers)
    conversions, barriers = names.count("gpu.convert_layout"), names.count("gpu.barrier")
    return conversions, scratch, built.shared_bytes, barriers


#: Conversions, bytes of scratch, bytes of shared memory, barriers.
GOLDEN = {
    "add 512 w4": (0, 0, 0, 1),
    "notebook add": (0, 0, 0, 2),  # one for full blocks, one for the block at the edge
    "softmax fp32 512": (0, 0, 0, 1),
    "softmax fp32 1024": (0, 16, 8, 1),
    "softmax bf16 32768": (0, 256, 128, 1),
    "notebook softmax 781": (0, 16, 8, 1),
    "long row sum": (0, 8, 8, 0),
    "row_sum 4096": (0, 32, 32, 0),
    "row_argmax 4096": (0, 64, 64, 0),
    "matmul 128x128x32 w4 s4": (2, 32768, 65536, 2),  # rows' remainders are spread over lanes
    "matmul 128x256x64 w8 s3": (2, 65536, 147456, 2),
    "notebook matmul fp16": (1, 8192, 24576, 2),
    "notebook matmul fp16 wide": (1, 8192, 24576, 2),
    "notebook matmul fp32": (0, 0, 32768, 3),  # a slot of three less, for a third block
}


@pytest.mark.parametrize("name", GOLDEN)
def test_conversions_and_scratch_stay_what_they_are(name: str):
    """A change of a layout rule that doubles shared memory shows here and nowhere else."""
    configuration = next(c for c in (*QUICK, *SLOW) if c.name == name)
    assert numbers(configuration) == GOLDEN[name]


# -- too much ---------------------------------------------------------------------------------
LARGE = """
def large(a_ptr, b_ptr, c_ptr):
    i = tl.arange(0, 512)
    a = tl.load(a_ptr + i[:, None] * 512 + i[None, :])
    b = tl.load(b_ptr + i[:, None] * 512 + i[None, :])
    tl.store(c_ptr + i[:, None] * 512 + i[None, :], tl.dot(a, b))
"""
SIGNATURE = "*fp16:16 *fp16:16 *fp32:16"


RING = """
def ring(a_ptr, b_ptr, c_ptr, n):
    i = tl.arange(0, 128)
    place = i[:, None] * 128 + i[None, :]
    acc = tl.zeros((128, 128), tl.float32)
    for k in range(n):
        a = tl.load(a_ptr + k * 16384 + place)
        b = tl.load(b_ptr + k * 16384 + place)
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + place, acc)
"""


@pytest.mark.parametrize(("chip", "fits"), [("sm_80", 2), ("sm_90a", 3)])
def test_too_much_shared_memory_says_what_takes_it_and_where(chip: str, fits: int):
    with pytest.raises(ResourceError) as caught:
        workbench.compile(
            from_text(RING), SIGNATURE + " i32", target=chip, num_warps=8, num_stages=8
        )
    error = caught.value
    assert error.code == "K401"
    assert chip in error.message
    assert "bytes of shared memory" in error.message
    text = str(error)
    for name in "ab":
        stages = "(8 stages × 32,768 B)"
        assert f"note: {name} takes 262,144 bytes {stages} at line 5" in text
    assert f"--set stages={fits} fits" in error.hint


def test_a_product_of_too_many_instructions_says_what_fits():
    with pytest.raises(ResourceError) as caught:
        workbench.compile(from_text(LARGE), SIGNATURE, target="sm_90", num_warps=8)
    error = caught.value
    assert error.code == "K402"
    assert "a dot of 512 × 512 × 512 is 8,192 instructions for each of 8 warps" in error.message
    assert "a dot of 256 × 256 × 512 fits" in error.hint


def test_what_takes_too_much_is_refused_at_once():
    """Within 0.2 s of processor time, imports not counted."""
    with pytest.raises(ResourceError):
        workbench.compile(from_text(LARGE), SIGNATURE, target="sm_90a", num_warps=8)
    start = time.process_time()
    with pytest.raises(ResourceError):
        workbench.compile(from_text(LARGE), SIGNATURE, target="sm_90a", num_warps=8)
    assert time.process_time() - start < 0.2


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_ring_in_a_loop_is_not_filled_before_all_have_read_it(rounds: int, stages: int):
    path = next(c.path for c in golden.cases() if "pipeline_loads/nested" in str(c.path))
    before = parse_module(golden.read(path).before.replace("num_warps = 1", "num_warps = 4"))
    before = replace(before, attributes={**before.attributes, "num_stages": stages})
    for name in (
        "assign-layouts",
        "hoist-invariants",
        "pipeline-loads",
        "merge-equal",
        "drop-dead",
    ):
        before = PASSES[name](before, Remarks())
    offsets, _, total = allocate(before, SM_80)
    after = insert_barriers(before, Remarks(), offsets, SM_80)
    arrays = [np.ones(256 * 8, np.float16), np.zeros(256, np.float32)]
    accesses = simulate(after, offsets, total, (1,), [*arrays, rounds])
    assert accesses >= 2 * stages * rounds
    assert arrays[1][0] == 16 * rounds * rounds
