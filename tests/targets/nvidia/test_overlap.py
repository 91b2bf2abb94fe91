"""Products started a round late: what loops become, what they mean, what is said."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.targets.nvidia.hazards import simulate
from tests.targets.nvidia.test_ptx import needs_nvdisasm, needs_ptxas
from tests.targets.nvidia.test_roles import ordered
from tests.targets.nvidia.test_warpgroups import SM_90A, compiled, in_gpu_ir, products, without
from workbench.interpreter.machine import Machine
from workbench.ir import Module, Op, Value, walk
from workbench.ops import Constant, For
from workbench.passes.manager import Recorder
from workbench.targets.nvidia.ops import (
    CommitCopies,
    ScaleProducts,
    TensorCopy,
    WaitCopies,
    WaitProducts,
    WarpgroupDot,
)
from workbench.targets.simt.ops import BlockBarrier, SharedAllocate, roles_of

M, N, D = 64, 16, 16


def two_products(q_ptr, k_ptr, v_ptr, o_ptr, l_ptr, S, FORM: tl.constexpr, M: tl.constexpr,
                 N: tl.constexpr, D: tl.constexpr):  # fmt: skip
    """Softmax between two products as people write it, and loops like it."""
    rows, columns, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :])
    acc = tl.zeros((M, D), tl.float32)
    top = tl.full((M,), -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    if FORM == "backwards":
        first, last, step = (S - 1) // N * N, -1, -N
    else:
        first, last, step = 0, S, N
    for i in range(first, last, step):
        keys = i + columns
        kt = tl.load(k_ptr + keys[None, :] * D + d[:, None], mask=keys[None, :] < S, other=0.0)
        v = tl.load(v_ptr + keys[:, None] * D + d[None, :], mask=keys[:, None] < S, other=0.0)
        s = tl.dot(q, kt)
        if FORM == "plain":  # no factor: the sums go straight from product to product
            acc = tl.dot(s.to(tl.float16), v, acc)
        elif FORM == "steps":  # everything between the products serves the second one alone
            p = tl.maximum(s, 0.0).to(tl.float16)
            acc = tl.dot(p, v, acc * 0.5)
        elif FORM == "scores":  # a third product, which the first one starts from
            s = tl.dot(q, kt, s)
            acc = tl.dot(s.to(tl.float16), v, acc)
        else:
            if FORM == "causal":
                s = tl.where(rows[:, None] >= keys[None, :], s, -1.0e6)
            elif FORM == "capped":
                s = 8 * (2 * tl.sigmoid(s / 4) - 1)
            elif FORM == "biased":
                bias = tl.load(q_ptr + rows[:, None] * D + columns[None, :])
                s += bias.to(tl.float32)
            s = tl.where(keys[None, :] < S, s, -1.0e6)
            new = tl.maximum(top, tl.max(s, 1))
            p = tl.exp2(s - new[:, None])
            factor = tl.exp2(top - new)
            total = total * factor + tl.sum(p, 1)
            acc = tl.dot(p.to(tl.float16), v, acc * factor[:, None])
            top = new
    tl.store(o_ptr + rows[:, None] * D + d[None, :], acc)
    tl.store(l_ptr + rows, total)


FORMS = ("softmax", "backwards", "causal", "capped", "biased", "plain", "steps", "scores")
WORDS = "*fp16:16 *fp16:16 *fp16:16 *fp32:16 *fp32:16 i32"


def module_of(form: str = "softmax", stages: int = 2, **options: Any) -> Module:
    sizes = {"FORM": form, "M": M, "N": N, "D": D}
    return tile_ir(two_products, WORDS, sizes, num_warps=4, num_stages=stages, **options)


def arguments(size: int, wrong: bool = False) -> Callable[[], list[Any]]:
    """Return what makes the arguments: few powers of two, so that sums are exact."""
    keys = max(size, 1)

    def make() -> list[Any]:
        q, k, v = (numbers(n * D, np.float16, seed) for seed, n in enumerate((M, keys, keys)))
        if wrong:
            k[0], v[-1], q[-1] = np.nan, np.inf, np.nan
        return [q, k, v, np.zeros(M * D, np.float32), np.zeros(M, np.float32), size]

    return make


def late(module: Module) -> list[WarpgroupDot]:
    return [op for op in products(module) if op.stage]


ROUNDS = (0, 1, N, N + 1, 3 * N, 5 * N - 3)


@pytest.mark.parametrize("form", FORMS)
def test_loops_mean_the_same_to_the_bit(form: str):
    """No round, one, masked tails: with the option, without it, and as written."""
    module = module_of(form)
    last = in_gpu_ir(module)
    off = in_gpu_ir(replace(module, attributes={**module.attributes, "overlap": False}))
    assert late(last)
    assert not late(off)
    for size in ROUNDS:
        wanted = meaning(module, (1,), arguments(size)())
        assert meaning(last, (1,), arguments(size)()) == wanted
        assert meaning(off, (1,), arguments(size)()) == wanted


def last_block(q_ptr, k_ptr, v_ptr, o_ptr, l_ptr, S, ROUNDS: tl.constexpr, M: tl.constexpr,
               N: tl.constexpr, D: tl.constexpr):  # fmt: skip
    """Two products of the block of keys in which S lies, as a loop."""
    rows, columns, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :])
    acc = tl.zeros((M, D), tl.float32)
    total = tl.zeros((M,), tl.float32)
    for i in range(S // N * N, (S // N + 1) * N, N // ROUNDS):
        keys = i + columns
        kt = tl.load(k_ptr + keys[None, :] * D + d[:, None])
        v = tl.load(v_ptr + keys[:, None] * D + d[None, :])
        p = tl.maximum(tl.dot(q, kt), 0.0)
        total += tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), v, acc * 0.5)
    tl.store(o_ptr + rows[:, None] * D + d[None, :], acc)
    tl.store(l_ptr + rows, total)


def of_last_block(rounds: int, **options: Any) -> Module:
    sizes = {"ROUNDS": rounds, "M": M, "N": N, "D": D}
    module = tile_ir(last_block, WORDS, sizes, num_warps=4, num_stages=2)
    return with_options(module, **options)


#: Loops that are known to have one round, by how tiles come to shared memory.
ONCE: dict[str, dict[str, Any]] = {
    "vectors": {},
    "boxes": {"narrow_index": True},
    "roles": {"narrow_index": True, "warp_specialize": True},
}


@pytest.mark.parametrize("way", ONCE)
def test_behind_the_only_round_stands_no_loop(way: str):
    """What it read was copied for it alone, and what it means is the same to the bit."""
    module = of_last_block(1, **ONCE[way])
    last = in_gpu_ir(module)
    assert len(products(last)) == 2
    work = last.body if (roles := roles_of(last)) is None else roles.regions[-1]
    assert not any(isinstance(op, For) for op in walk(work))
    for size in ROUNDS:
        ours, theirs = ([*arguments(size + N)()[:-1], size] for _ in range(2))
        assert meaning(last, (1,), ours) == meaning(module, (1,), theirs)
    placed, offsets, total = ordered(last)
    simulate(placed, offsets, total, (1,), [*arguments(3 * N)()[:-1], 2 * N], SM_90A)


def test_the_only_round_copies_nothing_ahead():
    """Whether there is a second one is not asked: it is known."""
    last = in_gpu_ir(of_last_block(1))
    known = [op for op in last.walk() if isinstance(op, Constant) and op.value is False]
    assert any(op.result in user.operands for user in last.walk() for op in known)


def test_a_loop_of_two_rounds_stays():
    last = in_gpu_ir(of_last_block(2))
    assert any(isinstance(op, For) for op in last.walk())


def with_options(module: Module, **options: Any) -> Module:
    return replace(module, attributes={**module.attributes, **options})


#: How tiles come to shared memory, by the options that make it so.
WAYS = {"boxes": {"narrow_index": True}, "roles": {"narrow_index": True, "warp_specialize": True}}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", ["softmax", "plain"])
def test_rings_of_tensor_maps_hold_what_the_late_product_reads(form: str, way: str):
    """A barrier for each slot; with roles a slot is given back once the late product has ended."""
    module = module_of(form)
    last = in_gpu_ir(with_options(module, **WAYS[way]))
    assert late(last)
    assert any(isinstance(op, TensorCopy) for op in last.walk())
    assert (roles_of(last) is not None) == (way == "roles")
    for size in ROUNDS[1:]:
        wanted = meaning(module, (1,), arguments(size)())
        assert meaning(last, (1,), arguments(size)()) == wanted
    placed, offsets, total = ordered(last)
    simulate(placed, offsets, total, (1,), arguments(3 * N)(), SM_90A)


@pytest.mark.parametrize("seed", range(1, 5))
def test_every_order_of_roles_gives_the_same(seed: int):
    module = module_of()
    last = in_gpu_ir(with_options(module, **WAYS["roles"]))
    wanted, found = arguments(5 * N)(), arguments(5 * N)()
    Machine(module, (1,), wanted).run_all()
    machine = Machine(last, (1,), found)
    machine.roles_seed = seed
    machine.run_all()
    assert np.array_equal(found[3], wanted[3])


def test_a_slot_given_back_too_early_is_seen():
    """The late product reads the slot until it has ended: its Arrive stands behind the wait."""
    last = in_gpu_ir(with_options(module_of(stages=2), **WAYS["roles"]))
    loop = next(op for op in last.walk() if isinstance(op, For) and any(
        isinstance(inner, WarpgroupDot) and inner.stage for inner in op.body.ops))  # fmt: skip
    names = [type(op).__name__ for op in loop.body.ops]
    assert names.index("ScaleProducts") < len(names) - 1 - names[::-1].index("Arrive")
    assert names.count("Arrive") == names.count("Await") == 2
    assert "BlockBarrier" not in names


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_what_is_not_finite_stays(stages: int):
    module = module_of(stages=stages)
    last = in_gpu_ir(module)
    assert late(last)
    for size in ROUNDS[1:]:
        make = arguments(size, wrong=True)
        assert meaning(last, (1,), make()) == meaning(module, (1,), make())


def loop_of(module: Module) -> list[Op]:
    """Return what products, waits, barriers and copies the loop has, in order."""
    (loop,) = [op for op in module.walk() if isinstance(op, For)]
    kinds = (WarpgroupDot, WaitProducts, ScaleProducts, BlockBarrier, CommitCopies)
    return [op for op in loop.body.ops if isinstance(op, kinds)]


def test_both_products_are_started_before_either_is_waited_for():
    """With a slot to spare even before the barrier of the round."""
    last = in_gpu_ir(module_of())
    first, second, barrier, copies, scores, sums = loop_of(last)
    assert isinstance(first, WarpgroupDot)
    assert isinstance(second, WarpgroupDot)
    assert (first.in_flight, second.in_flight, second.stage) == (1, 2, 1)
    assert isinstance(barrier, BlockBarrier)
    assert isinstance(copies, CommitCopies)
    assert isinstance(scores, WaitProducts)
    assert isinstance(sums, ScaleProducts)
    assert (scores.pending, sums.pending) == (1, 0)
    assert {op.type.slots for op in last.walk() if isinstance(op, SharedAllocate)} == {0, 4}


def test_without_a_slot_to_spare_a_round_begins_with_its_barrier():
    """Slots of 64 KB: three of them fit."""
    sizes = {"FORM": "softmax", "M": 128, "N": 128, "D": 128}
    last = in_gpu_ir(tile_ir(two_products, WORDS, sizes, num_warps=8, num_stages=2))
    barrier, copies, first, second, *_ = loop_of(last)
    assert isinstance(barrier, BlockBarrier)
    assert isinstance(copies, CommitCopies)
    assert isinstance(first, WarpgroupDot)
    assert isinstance(second, WarpgroupDot)
    assert second.stage == 1


def waits_of(pending: int) -> Callable[[Op], bool]:
    return lambda op: isinstance(op, WaitProducts | ScaleProducts) and op.pending == pending


def dropped(op: Op, chosen: Callable[[Op], bool]) -> tuple[Value, ...] | Op | None:
    if not chosen(op):
        return None
    return op.changed(pending=2)


PLANTED: dict[str, Callable[[Op], Any]] = {
    "scores are read before their product has ended": lambda op: dropped(op, waits_of(1)),
    "sums are scaled before their product has ended": lambda op: dropped(op, waits_of(0)),
    "a product reads a slot whose copy is under way": lambda op: (
        op.changed(pending=op.pending + 1) if isinstance(op, WaitCopies) else None
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_the_interpreter_sees_what_is_not_waited_for(fault: str):
    last = in_gpu_ir(module_of())
    make = arguments(5 * N)
    wanted = meaning(last, (1,), make())
    inside = {op.id for loop in last.walk() if isinstance(loop, For) for op in loop.body.ops}
    faulty = without(last, lambda op: PLANTED[fault](op) if op.id in inside else None)
    assert meaning(faulty, (1,), make()) != wanted


def test_a_ring_without_the_slot_is_seen():
    """A slot that copies fill while the late product of the round before still reads it."""
    last = in_gpu_ir(module_of())
    make = arguments(5 * N)
    wanted = meaning(last, (1,), make())
    (loop,) = [op for op in last.walk() if isinstance(op, For)]
    (product,) = late(last)
    fill = next(v for v in loop.body.arguments if v.hint == "fill")

    def planted(op: Op) -> Op | None:
        if not isinstance(op, WarpgroupDot) or not op.stage:
            return None
        return op.changed(slot_b=fill)

    assert product.slot_b is not fill
    assert meaning(without(last, planted), (1,), make()) != wanted


def said(recorder: Recorder, word: str) -> list[str]:
    return [r.text for r in recorder.remarks.items if word in r.text]


def test_a_remark_says_that_they_overlap():
    _, recorder = compiled(module_of())
    assert len(said(recorder, "beside the first product of the next round")) == 1
    assert not said(recorder, "overlap dropped")


def test_an_option_turns_it_off():
    found, recorder = compiled(module_of(overlap=False))
    assert not late(found.gpu)
    assert said(recorder, "overlap dropped: overlap=False")


def test_too_many_registers_drop_it():
    """128 sums, 64 scores and 32 registers of weights beside addresses: more than a thread has."""
    sizes = {"FORM": "softmax", "M": 128, "N": 64, "D": 128}
    module = tile_ir(two_products, WORDS, sizes, num_warps=4, num_stages=2)
    found, recorder = compiled(module)
    assert not late(found.gpu)
    (text,) = said(recorder, "overlap dropped")
    needed, there = map(int, re.findall(r"\d+", text))
    assert needed > there == 255


def sums_are_read(q_ptr, k_ptr, v_ptr, o_ptr, l_ptr, S, FORM: tl.constexpr, M: tl.constexpr,
                  N: tl.constexpr, D: tl.constexpr):  # fmt: skip
    rows, columns, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :])
    acc = tl.zeros((M, D), tl.float32)
    most = tl.zeros((M,), tl.float32)
    for i in range(0, S, N):
        kt = tl.load(k_ptr + (i + columns)[None, :] * D + d[:, None])
        v = tl.load(v_ptr + (i + columns)[:, None] * D + d[None, :])
        s = tl.dot(q, kt)
        if FORM == "sums make scores":
            s += tl.sum(acc, 1)[:, None]
        elif FORM == "sums are looked at":
            most = tl.maximum(most, tl.max(acc, 1))
        if FORM == "values are computed":
            v = v * 2
        acc = tl.dot(s.to(tl.float16), v, acc)
        if FORM == "sums are changed":
            acc += 1.0
    tl.store(o_ptr + rows[:, None] * D + d[None, :], acc)
    tl.store(l_ptr + rows, most)


@pytest.mark.parametrize(
    "form", ["sums make scores", "sums are looked at", "sums are changed", "values are computed"]
)
def test_what_depends_on_the_sums_keeps_its_order(form: str):
    sizes = {"FORM": form, "M": M, "N": N, "D": D}
    module = tile_ir(sums_are_read, WORDS, sizes, num_warps=4, num_stages=3)
    last = in_gpu_ir(module)
    assert not late(last)
    make = arguments(3 * N)
    assert meaning(last, (1,), make()) == meaning(module, (1,), make())


@needs_ptxas
@needs_nvdisasm
def test_the_machine_code_starts_both_and_then_takes_exponentials():
    """No wait for all products between them; a branch holds the one that comes after.

    Another one goes round the mask of the last keys.
    """
    sizes = {"FORM": "softmax", "M": 128, "N": 64, "D": 64}
    module = tile_ir(two_products, WORDS, sizes, num_warps=8, num_stages=2)
    found, recorder = compiled(module)
    resources = found.assemble().resources
    assert resources.spill_store_bytes == 0
    assert not said(recorder, "ptxas:")
    words = re.findall(r"HGMMA|DEPBAR\.LE\S* gsb0, 0x\d|MUFU\.EX2|BRA", found.texts["sass"]().text)
    text = " ".join(re.sub(r".*(0x\d)", r"wait\1", word) for word in words)
    text = re.sub(r"(HGMMA|MUFU\.EX2)( \1)*", r"\1", text)
    assert re.search(r"HGMMA wait0x1 HGMMA (wait0x[12] )+(BRA )?MUFU.EX2 BRA wait0x0", text), text
