"""The order of memory: within a program across its warps, and between programs if asked for."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import workbench
from tests.language.harness import from_text
from tests.passes.pipelines import SM_80, gpu_steps, tile_steps
from tests.targets.nvidia.hazards import RaceError, simulate
from workbench.ir import DROP, Module, parse_module, rebuild, walk
from workbench.passes.manager import Recorder, Remarks
from workbench.passes.pipeline import tile_passes
from workbench.targets.nvidia import pipeline
from workbench.targets.simt.passes.barriers import insert_barriers
from workbench.targets.simt.passes.shared_memory import allocate


def compiled(text: str, signature: str, **options: Any) -> Any:
    return workbench.compile(from_text(text), signature, target="sm_90a", **options)


def names(kernel: Any) -> list[str]:
    """Return the names of the ops of the kernel's GPU IR."""
    recorder = Recorder()
    built = pipeline.build(tile_passes(kernel.module, recorder), "sm_90a", recorder)
    assert built.gpu is not None
    return [op.name for op in built.gpu.walk()]


def final(text: str, signature: str, **options: Any) -> Module:
    """Return GPU IR before its barriers are inserted, for some warps."""
    module = compiled(text, signature, **options).module
    last = [module, *(after for _, after in tile_steps(module))][-1]
    steps = gpu_steps(last, **options)
    return [after for name, after in steps if name != "insert-barriers"][-1]


ACROSS_WARPS = {
    "a shift in place": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 512)
            x = tl.load(x_ptr + i)
            tl.store(x_ptr + i + 1, x)
        """,
    "reversed in place": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 512)
            x = tl.load(x_ptr + i)
            tl.store(x_ptr + 511 - i, x)
        """,
    "rows in place that a number of the launch lays over each other": """
        def kernel(x_ptr, n):
            p = x_ptr + tl.arange(0, 32)[:, None] * n + tl.arange(0, 16)[None, :]
            tl.store(p, tl.load(p) + 1)
        """,
    "a store that is loaded by others": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 512)
            tl.store(x_ptr + i, i)
            tl.store(x_ptr + 512 + i, tl.load(x_ptr + 511 - i))
        """,
    "a scalar that everybody reads and one writes": """
        def kernel(x_ptr, n):
            x = tl.load(x_ptr)
            tl.store(x_ptr, x + 1)
            tl.store(x_ptr + 4 + tl.arange(0, 512), x)
        """,
    "the next round reads what the last wrote": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 512)
            for k in range(n):
                x = tl.load(x_ptr + k + i)
                tl.store(x_ptr + k + 1 + i, x + 1)
        """,
    "windows that overlap from round to round": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 512)
            for k in range(n):
                tl.store(x_ptr + k + i, tl.load(x_ptr + k + i) + i)
        """,
    "windows that share one element from round to round": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 512)
            for k in range(n):
                tl.store(x_ptr + 511 * k + i, tl.load(x_ptr + 511 * k + i) + i)
        """,
    "a small tile that all warps read and one writes": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 2)
            x = tl.load(x_ptr + i)
            tl.store(x_ptr + i, x + 1)
            j = tl.arange(0, 512)
            tl.store(x_ptr + 64 + 512 * i[:, None] + j[None, :], x[:, None] + j[None, :])
        """,
    "the same place in the next round": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 512)
            p = x_ptr + i
            for k in range(n):
                tl.store(p, tl.load(p) + i)
                p += 1
        """,
    "a scalar that others need": """
        def kernel(x_ptr, n):
            for k in range(4):
                x = tl.load(x_ptr + k)
                tl.store(x_ptr + k, x + 1)
                tl.store(x_ptr + 8 + 512 * k + tl.arange(0, 256), x)
        """,
    "a branch writes what is read after it": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 512)
            if n > 1:
                tl.store(x_ptr + i, i)
            tl.store(x_ptr + 600 + i, tl.load(x_ptr + 511 - i))
        """,
    "a barrier of a branch that the one before it moves": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 256)
            tl.store(x_ptr + i, i)
            if n > 0:
                tl.store(x_ptr + 300 + i, i)
                w = tl.load(x_ptr + 255 - i)
                tl.store(x_ptr + 600 + i, i)
                v = tl.load(x_ptr + 300 + 255 - i)
                tl.store(x_ptr + 900 + i, w + v)
            tl.store(x_ptr + 1200 + i, tl.load(x_ptr + 600 + 255 - i))
        """,
    "a barrier of a round that the one before it moves": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 256)
            y = i
            for k in range(n):
                y += tl.load(x_ptr + 600 + 255 - i)
                tl.store(x_ptr + 300 + i, i)
                y += tl.load(x_ptr + 255 - i)
                tl.store(x_ptr + 600 + i, y)
                y += tl.load(x_ptr + 300 + 255 - i)
                tl.store(x_ptr + i, y)
            tl.store(x_ptr + 900 + i, y)
        """,
    "an atomic on what was stored": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 512)
            tl.store(x_ptr + i, i)
            tl.atomic_add(x_ptr + 511 - i, i, sem='relaxed')
        """,
    "two stores, the last one wins": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 512)
            tl.store(x_ptr + i, i)
            tl.store(x_ptr + 511 - i, i + 1000)
        """,
    "what is stored before it is told": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 512)
            tl.store(x_ptr + 8 + i, i)
            tl.atomic_xchg(x_ptr, 1)
        """,
    "what is read before it is given free": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 512)
            x = tl.load(x_ptr + 8 + i)
            tl.atomic_xchg(x_ptr, 1, sem='release')
            tl.store(x_ptr + 600 + i, x)
        """,
    "rounds that move on by less than a tile": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 1024)
            for k in range(n):
                tl.store(x_ptr + k * 100 + i, i)
        """,
    "rounds that move on toward what others left": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 512)
            for k in range(n):
                tl.store(x_ptr + 512 + k * 512 + i, tl.load(x_ptr + k * 512 + 511 - i))
        """,
    "numbers of a hash, which wrap": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 1024)
            h = ((i + 1).to(tl.int64) * 6364136223846793005) % 1024
            tl.store(x_ptr + 1024 + h, tl.load(x_ptr + i))
        """,
    "one scale for 64 elements": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 1024)
            tl.store(x_ptr + i // 64, tl.load(x_ptr + i // 64) + 1)
        """,
    "rows of one address": """
        def kernel(x_ptr, n):
            i, j = tl.arange(0, 64)[:, None], tl.arange(0, 16)[None, :]
            tl.store(x_ptr + i + 0 * j, tl.load(x_ptr + i + 0 * j) + 1)
        """,
    "columns of three, two apart": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 256)
            for c in tl.static_range(3):
                tl.store(x_ptr + 8 * (i // 3) + i % 3 + 2 * c, i)
        """,
    "columns that reach the next sixteen": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 128)
            for c in tl.static_range(3):
                tl.store(x_ptr + 8 * (i // 3) + i % 3 + 4 * c, i)
        """,
}  # fmt: skip


@pytest.mark.parametrize("warps", [2, 8])
@pytest.mark.parametrize("name", ACROSS_WARPS)
def test_warps_wait_for_each_other(name: str, warps: int):
    before = final(ACROSS_WARPS[name], "*i32:16 i32", num_warps=warps)
    offsets, _, total = allocate(before, SM_80)
    after = insert_barriers(before, Remarks(), offsets, SM_80)
    arguments = [np.arange(2048, dtype=np.int32), 3]
    simulate(after, offsets, total, (1,), arguments)
    without = rebuild(after, lambda op, builder: DROP if op.name == "gpu.barrier" else None)
    with pytest.raises(RaceError):
        simulate(without, offsets, total, (1,), [np.arange(2048, dtype=np.int32), 3])


ALONE = {
    "in place, element by element": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 1024)
            for k in range(n):
                tl.store(x_ptr + i, tl.load(x_ptr + i) + 1)
        """,
    "reads only": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 1024)
            x = tl.load(x_ptr + i) + tl.load(x_ptr + 1023 - i)
            tl.device_print("x", tl.sum(x))
        """,
    "neighbouring scalars": """
        def kernel(x_ptr, n):
            for k in tl.static_range(8):
                tl.store(x_ptr + k, tl.load(x_ptr + k) * 2)
        """,
    "scalars of which nobody else needs anything": """
        def kernel(x_ptr, n):
            total = 0
            for k in range(n):
                total += 1
                tl.store(x_ptr + k, tl.load(x_ptr + n + k) + total)
        """,
    "ranges that do not meet": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 512)
            x = tl.load(x_ptr + 511 - i)
            tl.store(x_ptr + 512 + i, x)
        """,
    "sums that nobody reads": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 1024)
            for k in range(n):
                tl.atomic_add(x_ptr + (i * k) % 1024, 1)
        """,
    "rounds that move on": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 512)
            for k in range(0, n * 512, 512):
                tl.store(x_ptr + k + i, tl.load(x_ptr + k + i) + 1)
        """,
    "rounds that go back, of rows": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 512)
            row = tl.program_id(0) * 4096
            for k in range(n):
                tl.store(x_ptr + row + 2048 - k * 512 + i, i)
        """,
    "a turned square, in place": """
        def kernel(x_ptr, n):
            i = tl.arange(0, 256)
            p = x_ptr + (i % 16) * 16 + i // 16
            tl.store(p, tl.load(p) + 1)
        """,
    "columns of three between those of sixteen": """
        def kernel(x_ptr, n):
            i = tl.program_id(0) * 256 + tl.arange(0, 256)
            for c in tl.static_range(4):
                tl.store(x_ptr + 48 * (i // 3) + i % 3 + 3 * c, i)
        """,
}  # fmt: skip


@pytest.mark.parametrize("name", ALONE)
def test_warps_do_not_wait_in_vain(name: str):
    kernel = compiled(ALONE[name], "*i32:16 i32", num_warps=4)
    assert "gpu.barrier" not in names(kernel)


def test_no_barrier_where_arguments_are_known_to_be_apart():
    text = """
kernel @apart(%x: ptr<i32> {noalias = True}, %y: ptr<i32> {noalias = True}) {num_warps = 4} {
  %i = tile.iota {start = 0, type = tile<512xi32>} : tile<512xi32>
  %xs = tile.splat %x {shape = (512,)} : tile<512xptr<i32>>
  %ys = tile.splat %y {shape = (512,)} : tile<512xptr<i32>>
  %px = tile.add_pointer %xs, %i : tile<512xptr<i32>>
  %py = tile.add_pointer %ys, %i : tile<512xptr<i32>>
  %v = tile.load %px : tile<512xi32>
  tile.store %py, %v
  tile.return
}
"""
    for known, count in ((True, 0), (False, 1)):
        module = parse_module(text if known else text.replace(" {noalias = True}", ""))
        *_, (_, after) = gpu_steps(module, num_warps=4)
        assert [op.name for op in after.walk()].count("gpu.barrier") == count


def insert_barriers_of(text: str, signature: str, num_warps: int = 4) -> Module:
    """Return a kernel's GPU IR with barriers."""
    before = final(text, signature, num_warps=num_warps)
    offsets, _, _ = allocate(before, SM_80)
    return insert_barriers(before, Remarks(), offsets, SM_80)


#: What is loaded through one argument and only stored through the other.
OVERLAPPING = {
    "a store before a load": """
        def kernel(x_ptr, y_ptr, n):
            i = tl.arange(0, 512)
            tl.store(y_ptr + i, i)
            tl.store(y_ptr + 512 + i, tl.load(x_ptr + 511 - i))
        """,
    "the next round reads what the last wrote": """
        def kernel(x_ptr, y_ptr, n):
            i = tl.arange(0, 512)
            for k in range(n):
                tl.store(y_ptr + k * 256 + i, tl.load(x_ptr + k * 256 + i) + 1)
        """,
    "an inner loop reads what the outer wrote": """
        def kernel(x_ptr, y_ptr, n):
            i = tl.arange(0, 512)
            for k in range(n):
                total = i * 0
                for j in range(0, n, 2):
                    total += tl.load(x_ptr + 512 * j + i)
                tl.store(y_ptr + k * 512 + i, total)
        """,
    "a loop that stores and gives a sum": """
        def kernel(x_ptr, y_ptr, n):
            i = tl.arange(0, 512)
            total = tl.zeros([512], tl.int32)
            for k in range(n):
                x = tl.load(x_ptr + k * 256 + i)
                tl.store(y_ptr + k * 256 + i, x + 1)
                total += x
            tl.store(y_ptr + n * 256 + i, total)
        """,
    "equal offsets, in turn": """
        def kernel(x_ptr, y_ptr, n):
            i = tl.arange(0, 512)
            tl.store(y_ptr + i, i)
            tl.store(x_ptr + 2048 + i, tl.load(x_ptr + i) + 1)
        """,
    "where it lies is loaded": """
        def kernel(x_ptr, y_ptr, n):
            i = tl.arange(0, 512)
            for k in range(n):
                first = tl.minimum(tl.load(x_ptr + k), 8)
                tl.store(y_ptr + first + i, tl.load(x_ptr + 256 + i) + 1)
        """,
    "stores and loads in turn": """
        def kernel(x_ptr, y_ptr, n):
            i = tl.arange(0, 512)
            p = y_ptr + 4 * (i // 3) + i % 3
            tl.store(p, i)
            a = tl.load(x_ptr + 511 - i)
            tl.store(p + 4, a)
            b = tl.load(x_ptr + 512 - i)
            tl.store(p + 1024, a + b)
        """,
    "stores and loads in turn, then in a loop": """
        def kernel(x_ptr, y_ptr, n):
            i = tl.arange(0, 512)
            tl.store(y_ptr + i, i)
            a = tl.load(x_ptr + 511 - i)
            tl.store(y_ptr + 8 + i, a)
            b = tl.load(x_ptr + 512 - i)
            for k in range(n):
                tl.store(y_ptr + k * 256 + i, tl.load(x_ptr + k * 256 + i) + a + b)
            tl.store(y_ptr + 16 + i, tl.load(x_ptr + 520 - i))
        """,
    "a loop of rounds that nobody counts": """
        def kernel(x_ptr, y_ptr, n):
            i = tl.arange(0, 512)
            rounds = tl.load(x_ptr - 4096) * 0 + 4
            for k in range(0, rounds):
                tl.store(y_ptr + 511 - i, tl.load(x_ptr + i) + 1)
        """,
    "a loop of rounds that count down": """
        def kernel(x_ptr, y_ptr, n):
            i = tl.arange(0, 512)
            for k in range(4, 0, -1):
                tl.store(y_ptr + 511 - i, tl.load(x_ptr + i) + 1)
        """,
    "stores before a loop that loads twice a round": """
        def kernel(x_ptr, y_ptr, n):
            i = tl.arange(0, 512)
            tl.store(y_ptr + i, i)
            tl.store(y_ptr + 1024 + i, i)
            for k in range(n):
                a = tl.load(x_ptr + k * 256 + i)
                b = tl.load(x_ptr + k * 256 + 511 - i)
                tl.store(y_ptr + 512 + k * 256 + i, a + b)
        """,
}  # fmt: skip


@pytest.mark.parametrize("shift", [-256, 0, 8, 256, 4096])
@pytest.mark.parametrize("name", OVERLAPPING)
def test_arguments_that_overlap_are_in_order(name: str, shift: int):
    """What a launch only reads through an argument may be stored through another all the same."""
    before = final(OVERLAPPING[name], "*i32:16 *i32:16 i32", num_warps=4)
    offsets, _, total = allocate(before, SM_80)
    after = insert_barriers(before, Remarks(), offsets, SM_80)
    memory = np.arange(16384, dtype=np.int32)
    rounds = 2 if shift == 8 else 4  # two do not ask
    arguments = [memory[4096:], memory[4096 + shift :], rounds]
    simulate(after, offsets, total, (1,), arguments)
    barriers = [op for op in after.walk() if op.name == "gpu.barrier"]
    asked = [barrier for barrier in barriers if barrier.operands]
    assert bool(asked) == any(word in name for word in ("round", "loop", "turn"))
    without = rebuild(after, lambda op, builder: DROP if op.name == "gpu.barrier" else None)
    if abs(shift) == 256:
        with pytest.raises(RaceError):
            simulate(without, offsets, total, (1,), arguments)


NORM = """
def kernel(x, w, b, y, mean, n):
    i = tl.arange(0, 512)
    row = tl.load(x + i)
    average = tl.sum(row, axis=0)
    tl.store(mean, average)
    tl.store(mean + 1, average + 1.0)
    for k in range(0, n, 512):
        scale = tl.load(w + k + i)
        offset = tl.load(b + k + i)
        tl.store(y + k + i, (tl.load(x + k + i) - average) * scale + offset)
"""


def test_loads_of_a_round_share_a_question_and_none_is_asked_of_what_lies_before_the_loop():
    """Three arguments may be what the round before stored, and what this one stores."""
    after = insert_barriers_of(NORM, "*fp32:16 *fp32:16 *fp32:16 *fp32:16 *fp32:16 i32")
    loop = next(op for op in after.walk() if op.repeats)
    inside = [op for op in walk(loop.regions[0]) if op.name == "gpu.barrier"]
    assert [bool(op.operands) for op in inside] == [True, True]
    *_, before, last = after.body.ops[: after.body.ops.index(loop)]
    while before.name != "gpu.barrier":
        assert before.pure
        before = after.body.ops[after.body.ops.index(before) - 1]
    assert not before.operands
    assert last.name == "tile.if"
    few, many = last.regions
    assert [op.name for op in few.ops] == ["tile.yield"]  # two rounds wait, whatever is so
    asked = [op for op in many.ops if op.name == "tile.le"]
    assert len(asked) == len(many.yields) == 3  # the result beside each of three arguments


def test_a_warp_alone_asks_for_no_barrier():
    signature = "*fp32:16 *fp32:16 *fp32:16 *fp32:16 *fp32:16 i32"
    after = insert_barriers_of(NORM, signature, num_warps=1)
    barriers = [op for op in after.walk() if op.name == "gpu.barrier"]
    assert barriers
    assert not any(op.operands for op in barriers)


# -- programs ------------------------------------------------------------------------------
def instructions(kernel: Any) -> str:
    """Return the kernel's PTX without what orders nothing, one word an instruction."""
    lines = re.findall(
        r"(bar\.sync|barrier\.sync|bar\.warp\.sync|st\.global|ld\.global|ld\.volatile\.global|"
        r"atom\.\w+|bra)", kernel.asm["ptx"]
    )  # fmt: skip
    return " ".join(lines)


RELEASE = """
def kernel(x_ptr, flag_ptr):
    i = tl.arange(0, 512)
    tl.store(x_ptr + i, i)
    tl.atomic_{word}(flag_ptr, 1{order})
    tl.store(x_ptr + 600 + i, tl.load(x_ptr + 1200 + i))
"""


@pytest.mark.parametrize("word", ["xchg", "add", "max"])
@pytest.mark.parametrize("order", ["", ", sem='release'", ", sem='acq_rel'"])
def test_a_release_comes_after_what_all_warps_stored(word: str, order: str):
    kernel = compiled(RELEASE.format(word=word, order=order), "*i32:16 *i32:16")
    assert re.search(r"st\.global( st\.global)* bar\w*\.sync atom", instructions(kernel))


@pytest.mark.parametrize("order", ["", ", sem='acquire'", ", sem='acq_rel'"])
def test_what_all_warps_read_comes_after_an_acquire(order: str):
    kernel = compiled(RELEASE.format(word="add", order=order), "*i32:16 *i32:16")
    assert re.search(r"atom\.\w+ bar\w*\.sync ld\.global", instructions(kernel))


@pytest.mark.parametrize(
    ("order", "scope", "barriers"),
    [("relaxed", "gpu", 0), ("acq_rel", "cta", 0), ("release", "gpu", 1), ("acquire", "sys", 1)],
)
def test_only_what_orders_other_programs_needs_barriers(order: str, scope: str, barriers: int):
    text = f"""
kernel @order(%x: ptr<i32> {{noalias = True}}, %y: ptr<i32> {{noalias = True}}) {{num_warps = 4}} {{
  %i = tile.iota {{start = 0, type = tile<512xi32>}} : tile<512xi32>
  %xs = tile.splat %x {{shape = (512,)}} : tile<512xptr<i32>>
  %px = tile.add_pointer %xs, %i : tile<512xptr<i32>>
  tile.store %px, %i
  %one = tile.constant {{value = 1, type = i32}} : i32
  %old = tile.atomic %y, %one {{order = "{order}", scope = "{scope}"}} : i32
  tile.store %px, %i
  tile.return
}}
"""
    *_, (_, after) = gpu_steps(parse_module(text), num_warps=4)
    assert [op.name for op in after.walk()].count("gpu.barrier") == barriers


def test_an_order_that_nobody_can_tell_is_relaxed():
    kernel = compiled("""
def kernel(x_ptr, sum_ptr):
    i = tl.arange(0, 512)
    tl.atomic_add(sum_ptr + i % 7, tl.load(x_ptr + i))
""", "*fp32:16 *fp32:16")  # fmt: skip
    assert "atom.relaxed" in kernel.asm["ptx"] or "red.relaxed" in kernel.asm["ptx"]
    assert any("relaxed" in remark.text for remark in kernel.trace.remarks)


POLLS = {
    "in the condition": "while tl.load(flag_ptr) == 0:\n        pass",
    "in the body": "v = tl.load(flag_ptr)\n    while v == 0:\n        v = tl.load(flag_ptr)",
    "by break": "while True:\n        if tl.load(flag_ptr) != 0:\n            break",
    "of several flags": "while tl.sum(tl.load(flag_ptr + tl.arange(0, 64))) < 64:\n        pass",
    "with a limit": "k = 0\n    while (tl.load(flag_ptr) == 0) & (k < n):\n        k += 1",
    "through a helper": "while look(flag_ptr) == 0:\n        pass",
}
POLL = """
def look(p):
    return tl.load(p)

def kernel(x_ptr, flag_ptr, n):
    i = tl.arange(0, 512)
    {poll}
    tl.store(x_ptr + i, i)
"""


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("name", POLLS)
def test_a_polling_loop_reads_in_every_round(name: str, warps: int):
    kernel = compiled(POLL.format(poll=POLLS[name]), "*i32:16 *i32:16 i32", num_warps=warps)
    text = kernel.asm["ptx"]
    back = re.compile(r"\n(\$\w+):.*?ld\.volatile\.global.*?bra[\w.]*\s+\1;", re.DOTALL)
    assert back.search(text), text
    assert ".nc" not in kernel.asm["ptx"]
    assert any("acquire missing" in remark.text for remark in kernel.trace.remarks)


def test_a_poll_before_an_acquire_misses_nothing():
    poll = POLLS["in the condition"] + "\n    tl.atomic_add(flag_ptr, 0, sem='acquire')"
    kernel = compiled(POLL.format(poll=poll), "*i32:16 *i32:16 i32")
    said = [r.text for r in kernel.trace.remarks if "every round" in r.text]
    assert said
    assert not any("acquire missing" in text for text in said)


def test_a_walk_through_what_the_launch_only_reads_stays_plain():
    kernel = compiled("""
def kernel(sorted_ptr, x_ptr, out_ptr, n):
    x = tl.load(x_ptr + tl.program_id(0))
    low = 0
    while tl.load(sorted_ptr + low) < x:
        low += 1
    tl.store(out_ptr + tl.program_id(0), low)
""", "*i32:16 *i32:16 *i32:16 i32")  # fmt: skip
    assert "volatile" not in kernel.asm["ptx"]
