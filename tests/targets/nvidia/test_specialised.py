"""A producer's warp and those that multiply: what it means, and what planted faults do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.kernels import attention_forward
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia import test_overlap
from tests.targets.nvidia.hazards import simulate
from tests.targets.nvidia.protocol import explore, record
from tests.targets.nvidia.test_odd_extents import staged, staged_arguments
from tests.targets.nvidia.test_ptx import needs_ptxas
from tests.targets.nvidia.test_warpgroups import arguments_of_long_sums, of_long_sums
from workbench.interpreter.machine import Machine
from workbench.ir import Builder, Module, Op, rebuild
from workbench.ops import For
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.source import LaunchError, ResourceError
from workbench.targets.built import Built
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.ops import (
    Arrive,
    Await,
    Barriers,
    Expect,
    TensorCopy,
    TensorLoad,
    WaitProducts,
    WarpgroupDot,
)
from workbench.targets.nvidia.pipeline import build
from workbench.targets.nvidia.spills import check_shares
from workbench.targets.nvidia.toolchain import Assembled
from workbench.targets.simt.ops import Roles, SharedAllocate, roles_of
from workbench.targets.simt.passes.shared_memory import allocate

SM_90A = chip("sm_90a")


def specialised(module: Module) -> Module:
    """Return the GPU IR of a kernel whose warps part; its blocks are gone with their program."""
    final = [module, *(after for _, after in tile_steps(module))][-1]
    options = {"narrow_index": True, "warp_specialize": True, "persistent": False}
    found = [after for _, after in gpu_steps(final, SM_90A, **options)][-1]
    assert roles_of(found) is not None
    return found


def compiled(module: Module, **options: object) -> tuple[Built, list[str]]:
    """Return what is built of a kernel, and what the author is told of roles."""
    recorder = Recorder()
    options = {**module.attributes, "narrow_index": True, "warp_specialize": True, **options}
    module = replace(module, attributes=options)
    built = build(tile_passes(module, recorder), "sm_90a", recorder)
    return built, [r.text for r in recorder.remarks.items if "speciali" in r.text]


#: Rows, columns, depth of a tile; warps; how operands lie in memory.
SHAPES = [(128, 64, 64, 4, "nn"), (128, 64, 32, 8, "nt"), (64, 64, 64, 4, "tn"),
          (64, 128, 16, 4, "tt")]  # fmt: skip


@pytest.mark.parametrize(("m", "n", "k", "warps", "kind"), SHAPES)
def test_roles_compute_what_one_did(m: int, n: int, k: int, warps: int, kind: str):
    def arguments() -> list[Any]:
        return staged_arguments(m, n, 6 * k + 16, kind)

    before = staged(m, n, k, warps, kind)
    module = specialised(before)
    assert meaning(module, (1,), arguments()) == meaning(before, (1,), arguments())
    offsets, _, total = allocate(module, SM_90A)
    simulate(module, offsets, total, (1,), arguments(), SM_90A)


@cache
def matmul_of(m: int, n: int, k: int, warps: int = 4) -> Module:
    return specialised(staged(m, n, k, warps))


@pytest.mark.parametrize("seed", range(1, 5))
def test_every_order_of_turns_gives_the_same(seed: int):
    m, n, k = 64, 64, 16
    for rounds in (1, 2, 9):
        wanted, arguments = (staged_arguments(m, n, rounds * k) for _ in range(2))
        Machine(staged(m, n, k, 4), (1,), wanted).run_all()
        machine = Machine(matmul_of(m, n, k), (1,), arguments)
        machine.roles_seed = seed
        machine.run_all()
        assert np.array_equal(arguments[2], wanted[2])


# -- other kernels --------------------------------------------------------------------------------
def two_loops(a_ptr, b_ptr, c_ptr, K, am, ak, bk, bn, M: tl.constexpr, N: tl.constexpr,
              BK: tl.constexpr):  # fmt: skip
    """Add half of k in one loop and half in another."""
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((M, N), dtype=tl.float32)
    half = tl.cdiv(K, 2 * BK) * BK
    for start in range(0, half, BK):
        at = start + inner
        a = tl.load(a_ptr + rows[:, None] * am + at[None, :] * ak, mask=at[None, :] < K, other=0.0)
        b = tl.load(
            b_ptr + at[:, None] * bk + columns[None, :] * bn, mask=at[:, None] < K, other=0.0
        )
        total = tl.dot(a, b, total)
    for start in range(half, K, BK):
        at = start + inner
        a = tl.load(a_ptr + rows[:, None] * am + at[None, :] * ak, mask=at[None, :] < K, other=0.0)
        b = tl.load(
            b_ptr + at[:, None] * bk + columns[None, :] * bn, mask=at[:, None] < K, other=0.0
        )
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total)


def two_products(a_ptr, b_ptr, c_ptr, K, am, ak, bk, bn, M: tl.constexpr, N: tl.constexpr,
                 BK: tl.constexpr):  # fmt: skip
    """Add the product to itself, read in the other order."""
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((M, N), dtype=tl.float32)
    other = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, K, BK):
        at = start + inner
        a = tl.load(a_ptr + rows[:, None] * am + at[None, :] * ak, mask=at[None, :] < K, other=0.0)
        b = tl.load(
            b_ptr + at[:, None] * bk + columns[None, :] * bn, mask=at[:, None] < K, other=0.0
        )
        total = tl.dot(a, b, total)
        at = (tl.cdiv(K, BK) - 1) * BK - start + inner
        a = tl.load(a_ptr + rows[:, None] * am + at[None, :] * ak, mask=at[None, :] < K, other=0.0)
        b = tl.load(
            b_ptr + at[:, None] * bk + columns[None, :] * bn, mask=at[:, None] < K, other=0.0
        )
        other = tl.dot(a, b, other)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total + other)


def product_of(kernel: Any, m: int = 64, n: int = 64, k: int = 16, **options: Any) -> Module:
    words = "*fp16:16 *fp16:16 *fp32:16 i32:16 i32:16 i32=1 i32:16 i32=1"
    extents = {"M": m, "N": n, "BK": k}
    return tile_ir(kernel, words, extents, **{"num_warps": 4, "num_stages": 2, **options})


def product_arguments(k: int, m: int = 64, n: int = 64) -> list[Any]:
    a, b = numbers(m * k, np.float16), numbers(k * n, np.float16, 2)
    return [a, b, np.zeros(m * n, np.float32), k, k, n]


@pytest.mark.parametrize(("kernel", "rings"), [(two_loops, 2), (two_products, 4)])
def test_loops_share_rings_and_products_do_not(kernel: Any, rings: int):
    before = product_of(kernel)
    module = specialised(before)
    assert len([op for op in module.walk() if isinstance(op, SharedAllocate)]) == rings
    for k in (16, 48, 144):
        wanted = meaning(before, (1,), product_arguments(k))
        assert meaning(module, (1,), product_arguments(k)) == wanted
    assert explore(record(module, product_arguments(32), 1))[0] == "ok"


@pytest.mark.parametrize("causal", [False, True])
def test_attention_has_rings_of_keys_and_of_values(causal: bool):
    sizes = {"HEAD": 16, "BLOCK_M": 64, "BLOCK_N": 16, "BLOCK_D": 16, "CAUSAL": causal,
             "EVEN": False}  # fmt: skip
    words = "*fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp32:16 fp32 " + "i32:16 i32:16 i32:16 i32=1 " * 4
    before = tile_ir(
        attention_forward.attention, f"{words}i32 i32 i32 i32", sizes, num_warps=4, num_stages=2
    )
    module = specialised(before)
    heads, n = 2, 80
    size = heads * n * 16

    def arguments() -> list[Any]:
        q, k, v = (numbers(size, np.float16, seed) for seed in range(3))
        out, lse = np.zeros(size, np.float16), np.zeros(heads * n, np.float32)
        return [q, k, v, out, lse, 0.25, *(size, n * 16, 16) * 4, heads, heads, n, n]

    grid = (2, heads)
    assert meaning(module, grid, arguments()) == meaning(before, grid, arguments())
    offsets, _, total = allocate(module, SM_90A)
    simulate(module, offsets, total, grid, arguments(), SM_90A)


def test_copies_after_the_first_wait_for_what_products_begin_with():
    """Rows of queries come by the same way as what fills rings, and no product goes without."""
    module = specialised(test_overlap.module_of(loads_first=True))
    roles = roles_of(module)
    assert roles is not None
    (hold,) = (op.result for op in module.walk() if isinstance(op, Barriers) and op.count == 1)
    (loop,) = (op for op in roles.producer.ops if isinstance(op, For))
    kinds = TensorCopy, Await
    words = [
        ("copy" if isinstance(op, TensorCopy) else "hold" if op.barriers is hold else "slot")
        for op in loop.body.ops if isinstance(op, kinds)
    ]  # fmt: skip
    assert words == ["slot", "copy", "hold", "slot", "copy"]
    arguments = test_overlap.arguments(5 * test_overlap.N)
    assert explore(record(module, arguments(), 1))[0] == "ok"

    def plant(module: Module, op: Op) -> Any:
        return () if isinstance(op, Arrive) and op.barriers is hold else None

    wrong = planted(module, plant)
    assert explore(record(wrong, arguments(), 1))[0] not in ("ok", "too many states")
    with pytest.raises(LaunchError) as caught:
        Machine(wrong, (1,), arguments()).run_all()
    assert caught.value.code == "K515"


# -- planted faults -------------------------------------------------------------------------------
def in_region(module: Module, name: str, op: Op) -> bool:
    roles = roles_of(module)
    region = getattr(roles, name)
    work = list(region.ops)
    while work:
        found = work.pop()
        if found.id == op.id:
            return True
        work += [inner for block in found.regions for inner in block.ops]
    return False


#: What is planted, by what is wrong: gives another op, () for none, None for the op as it is.
Plant = Callable[[Module, Op], Any]


def producers(kind: type[Op], change: Callable[[Any], Any]) -> Plant:
    return lambda module, op: (
        change(op) if isinstance(op, kind) and in_region(module, "producer", op) else None
    )


def consumers(kind: type[Op], change: Callable[[Any], Any]) -> Plant:
    return lambda module, op: (
        change(op) if isinstance(op, kind) and in_region(module, "consumers", op) else None
    )


def is_empty(op: Barriers) -> bool:
    return op.result.hint == "empty"


#: Faults that end in an error at a line.
DEADLOCKS: dict[str, Plant] = {
    # Its first parity is that of its first slot, 0.
    "the producer's parity is not inverted": producers(
        For, lambda op: op.changed(inits=(*op.inits[:-1], op.inits[-2]))
    ),
    "a phase expects one copy of two": producers(
        Expect, lambda op: op.changed(bytes=op.bytes // 2)
    ),
    "a phase expects more than comes": producers(Expect, lambda op: op.changed(bytes=op.bytes * 2)),
    "no slot is ever given back": consumers(Arrive, lambda op: ()),
    "one arrival too few is counted": lambda module, op: (
        op.changed(arrivals=op.arrivals - 1) if isinstance(op, Barriers) and is_empty(op) else None
    ),
    "one arrival too many is counted": lambda module, op: (
        op.changed(arrivals=op.arrivals + 1) if isinstance(op, Barriers) and is_empty(op) else None
    ),
    "a copy is not started": producers(TensorCopy, lambda op: ()),
    "nothing is expected": producers(Expect, lambda op: ()),
    "slots are not waited for": producers(Await, lambda op: ()),
}
#: Faults that end in an error or in wrong results.
WRONG: dict[str, Plant] = {
    "copies are not waited for": consumers(Await, lambda op: ()),
    "sums are read while the product goes on": consumers(
        WaitProducts, lambda op: (op.accumulator,)
    ),
    "a slot is given back before its product has ended": consumers(
        WarpgroupDot, lambda op: op.changed(in_flight=2)
    ),
}


def planted(module: Module, plant: Plant) -> Module:
    def rewrite(op: Op, builder: Builder) -> Any:
        return plant(module, op)

    return rebuild(module, rewrite)


@pytest.mark.parametrize("fault", DEADLOCKS)
def test_a_planted_fault_is_an_error(fault: str):
    m, n, k = 64, 64, 16
    module = matmul_of(m, n, k)
    wrong = planted(module, DEADLOCKS[fault])
    with pytest.raises(LaunchError) as caught:
        Machine(wrong, (1,), staged_arguments(m, n, 9 * k)).run_all()
    assert caught.value.code == "K515"
    assert caught.value.span is not None


@pytest.mark.parametrize("fault", WRONG)
def test_a_planted_fault_shows_in_some_order(fault: str):
    m, n, k = 64, 64, 16
    module = matmul_of(m, n, k)
    good = staged_arguments(m, n, 9 * k)
    Machine(module, (1,), good).run_all()
    wrong, shown = planted(module, WRONG[fault]), 0
    for seed in range(4):
        arguments = staged_arguments(m, n, 9 * k)
        machine = Machine(wrong, (1,), arguments)
        machine.roles_seed = seed
        try:
            machine.run_all()
        except LaunchError as error:
            shown += error.code == "K515"
        else:
            shown += not np.array_equal(arguments[2], good[2])
    assert shown


@pytest.mark.parametrize("groups", [1, 2])
def test_the_protocol_holds_in_every_interleaving(groups: int):
    m, n, k = 64 * groups, 64, 16
    module = matmul_of(m, n, k, 4 * groups)
    for rounds in (1, 2, 4):
        verdict, states = explore(record(module, staged_arguments(m, n, rounds * k), groups))
        assert verdict == "ok"
        assert states > 10


@pytest.mark.parametrize("fault", [*DEADLOCKS, *(name for name in WRONG if "sums" not in name)])
def test_a_planted_fault_breaks_the_protocol(fault: str):
    m, n, k = 64, 64, 16
    wrong = planted(matmul_of(m, n, k), {**DEADLOCKS, **WRONG}[fault])
    assert explore(record(wrong, staged_arguments(m, n, 6 * k), 1))[0] not in (
        "ok",
        "too many states",
    )


def test_the_protocol_holds_where_products_end_in_their_round():
    """Sums that go to longer ones do not go on: the slot is given back at once."""
    module = specialised(of_long_sums(128, 16, 32, 8, 32))
    for rounds in (1, 3):
        arguments = arguments_of_long_sums(128, 16, rounds * 32)
        verdict, states = explore(record(module, arguments, 2))
        assert verdict == "ok"
        assert states > 10
    for fault in ("no slot is ever given back", "slots are not waited for"):
        wrong = planted(module, DEADLOCKS[fault])
        assert explore(record(wrong, arguments_of_long_sums(128, 16, 192), 2))[0] != "ok"


#: Faults between two loops on one ring.
BETWEEN = ("slot and parity begin anew", "the last slot is not given back")


@pytest.mark.parametrize("fault", BETWEEN)
def test_a_planted_fault_between_loops_breaks_the_protocol(fault: str):
    module = specialised(product_of(two_loops))
    roles = roles_of(module)
    assert roles is not None
    first, second = (op for op in roles.consumers.ops if isinstance(op, For))
    gives = [op for op in roles.consumers.ops if isinstance(op, Arrive)]

    def plant(module: Module, op: Op) -> Any:
        if fault == BETWEEN[0]:
            own = len(first.inits) - 1
            inits = (*second.inits[:1], *first.inits[1:own], *second.inits[own:])
            return op.changed(inits=inits) if op.id == second.id else None
        return () if op.id == gives[0].id else None

    arguments = product_arguments(16 * 6)
    assert explore(record(module, arguments, 1))[0] == "ok"
    wrong = planted(module, plant)
    assert explore(record(wrong, arguments, 1))[0] not in ("ok", "too many states")


# -- what is decided ------------------------------------------------------------------------------
@needs_ptxas
def test_a_producer_of_one_warp_beside_two_groups():
    built, told = compiled(staged(128, 256, 64, 8))
    assert told == ["specialised: 1 producer warp + 8 that multiply, ring of 4 x 49,152 bytes"]
    assert built.threads == 288
    resources = built.assemble().resources
    assert resources.spill_store_bytes == 0
    assert resources.registers is not None
    assert resources.registers <= 168
    sass = built.texts["sass"]().text
    assert "UTMALDG" in sass
    assert "HGMMA" in sass
    assert sass.count("BAR.SYNC") == 3  # consumers', a producer's with a program and without one


@needs_ptxas
def test_registers_are_given_away_where_a_share_does_not_do(monkeypatch: pytest.MonkeyPatch):
    """What is alive in the loop, 128 registers of sums, fits 168 with what stands beside it."""
    from workbench.targets.nvidia.passes import roles

    monkeypatch.setattr(roles, "_BESIDE_TILES", 90)
    built, told = compiled(staged(128, 256, 64, 8))
    assert built.threads == 384
    assert told == [
        "specialised: 4 producer warps + 8 that multiply, ring of 4 x 49,152 bytes, "
        "240 registers each"
    ]
    ptx = built.texts["ptx"]().text
    assert "setmaxnreg.dec.sync.aligned.u32 24" in ptx
    assert "setmaxnreg.inc.sync.aligned.u32 240" in ptx
    assert built.assemble().resources.registers == 168


def test_what_is_decided_is_written_on_ops():
    module = staged(64, 64, 16, 4)
    final = [module, *(after for _, after in tile_steps(module))][-1]
    options = {"narrow_index": True, "warp_specialize": True}
    decided = dict(gpu_steps(final, SM_90A, **options))["role-partition"]
    (loop,) = (op for op in decided.body.ops if isinstance(op, For))
    schedule = {"warps": 1, "registers": (), "in_flight": 1, "persistent": 32}
    assert dict(loop.schedule) == schedule
    loads = [op for op in loop.body.ops if isinstance(op, TensorLoad)]
    assert [(op.role, op.channel, op.slots) for op in loads] == [("producer", 0, 4)] * 2


def hinted(a_ptr, b_ptr, c_ptr, K, am, ak, bk, bn, M: tl.constexpr, N: tl.constexpr,
           BK: tl.constexpr):  # fmt: skip
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in tl.range(0, K, BK, warp_specialize=True):
        at = start + inner
        a = tl.load(a_ptr + rows[:, None] * am + at[None, :] * ak, mask=at[None, :] < K, other=0.0)
        b = tl.load(
            b_ptr + at[:, None] * bk + columns[None, :] * bn, mask=at[:, None] < K, other=0.0
        )
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total)


def test_the_hint_of_a_loop_is_obeyed_or_answered():
    built, told = compiled(product_of(hinted), warp_specialize=False)
    assert built.threads == 160
    assert told == ["specialised: 1 producer warp + 4 that multiply, ring of 3 x 4,096 bytes"]
    built, told = compiled(product_of(hinted), warp_specialize=False, tma=False)
    assert built.threads == 128
    (text,) = told
    assert text.startswith("warp_specialize=True is not obeyed: no load of it is a tensor copy")


def test_without_the_option_warps_stay_together():
    built, told = compiled(staged(64, 64, 16, 4), warp_specialize=False)
    assert told == []
    assert built.gpu is not None
    assert roles_of(built.gpu) is None
    assert built.threads == 128


def overtaken(a_ptr, b_ptr, c_ptr, flag_ptr, K, am, ak, bk, bn, M: tl.constexpr, N: tl.constexpr,
              BK: tl.constexpr, BEFORE: tl.constexpr):  # fmt: skip
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    if BEFORE == "a wait":
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
            pass
    total = tl.zeros((M, N), dtype=tl.float32)
    if BEFORE == "a store":
        tl.store(c_ptr + rows[:, None] * N + columns[None, :], total)
    for start in range(0, K, BK):
        at = start + inner
        a = tl.load(a_ptr + rows[:, None] * am + at[None, :] * ak, mask=at[None, :] < K, other=0.0)
        b = tl.load(
            b_ptr + at[:, None] * bk + columns[None, :] * bn, mask=at[:, None] < K, other=0.0
        )
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total)


REASONS = {
    "a store": "stores to memory that a producer might",
    "a wait": "waits for other programs",
}


@pytest.mark.parametrize("before", ["nothing", *REASONS])
def test_a_producer_overtakes_nothing_that_orders_memory(before: str):
    words = "*fp16:16 *fp16:16 *fp32:16 *i32 i32:16 i32:16 i32=1 i32:16 i32=1"
    extents = {"M": 64, "N": 64, "BK": 16, "BEFORE": before}
    built, told = compiled(tile_ir(overtaken, words, extents, num_warps=4, num_stages=2))
    assert built.gpu is not None
    assert (roles_of(built.gpu) is None) == (before in REASONS)
    assert before not in REASONS or [text for text in told if REASONS[before] in text]


def test_more_registers_than_a_launch_takes_are_refused():
    """The kernel would wait for them for ever."""
    module = matmul_of(128, 64, 16, 8)

    def greedy(op: Op, builder: Builder) -> Any:
        return op.changed(warps=4, registers=(40, 248)) if isinstance(op, Roles) else None

    assembled = Assembled(b"", 168, 0, 0, 0, 0, 0, ())
    check_shares(assembled, module)
    with pytest.raises(ResourceError, match="ask for 68,608, a block of 12 warps has 64,512"):
        check_shares(assembled, rebuild(module, greedy))


def test_a_depth_that_rings_have_is_not_said_to_be_missed():
    from tests.runtime.kernels import ringed

    arrays = [np.zeros((512, 512), np.float16) for _ in range(3)]
    for stages in (3, 0):
        kernel = ringed.warmup(
            *arrays, 512, 512, 512, 512, 512, 512, BM=128, BN=128, BK=64, STAGES=stages,
            grid=(4, 4), target="sm_90a", num_warps=8, num_stages=4,
        )  # fmt: skip
        told = [r.text for r in kernel.trace.remarks]
        assert not [text for text in told if "num_stages" in text]
        assert any("ring of 3 x 32,768 bytes" in text for text in told) == (stages == 3)
