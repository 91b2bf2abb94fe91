"""What an op takes in parts is put off, and written for each part as far as that needs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.kernels.broadcasting import product_by_sums
from tests.passes.corpus import tile_ir
from tests.targets.simt.pretend import PRETEND, Pretend, execute, gpu_ir
from workbench.interpreter import run_module
from workbench.ir import (
    F16,
    I8,
    Block,
    Builder,
    Module,
    Op,
    Shared,
    Tile,
    Value,
    element_of,
    layout_of,
    rebuild,
    shape_of,
    walk,
)
from workbench.layouts import swizzled
from workbench.ops import Broadcast, ConvertLayout, Elementwise, Load, Reduce, Store
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.nvidia import pipeline
from workbench.targets.simt.lowering import Lowering
from workbench.targets.simt.ops import BlockBarrier, SharedAllocate, SharedLoad, SharedStore
from workbench.targets.simt.parts import chain_of, registers_of, registers_read
from workbench.targets.simt.reductions import parts_of_rows
from workbench.targets.simt.rules import Parts, RuleTable

#: A machine where conversions that have nothing to do take what they convert in parts.
TAKING = RuleTable("taking", parent=PRETEND)


@dataclass(frozen=True)
class Taking(Pretend):
    name: str = "taking"
    parts: int = 2

    @property
    def rules(self) -> RuleTable:
        return TAKING


MACHINE = Taking()


@TAKING.parts(ConvertLayout)
def parts_of(op: ConvertLayout) -> Parts | None:
    if layout_of(op.source.type) != op.layout:
        return None
    count = op.layout.registers()
    every = range(min(count, 4))
    return Parts(op.source, tuple(tuple(range(i, count, len(every))) for i in every))


@TAKING.lower(ConvertLayout)
def lower_in_parts(low: Lowering, op: ConvertLayout) -> None:
    parts = parts_of(op)
    if parts is None:
        rule = PRETEND.rule(ConvertLayout)
        assert rule is not None
        rule(low, op)
        return
    assert low.comes_in_parts(op)
    found: list[str | None] = [None] * op.layout.registers()
    for registers in parts.registers:
        low.write_part(op, op.source, registers)
        for register in registers:
            found[register] = low.register(op.source, register)
    low.set_registers(op.result, found)


def of_bytes(w_ptr, s_ptr, o_ptr):
    k, n = tl.arange(0, 32), tl.arange(0, 64)
    w = tl.load(w_ptr + k[:, None] * 64 + n[None, :])
    w = w.to(tl.float16) * tl.load(s_ptr + n)[None, :]
    tl.store(o_ptr + k[:, None] * 64 + n[None, :], w)


def of_halves_of_bytes(w_ptr, s_ptr, o_ptr):
    i, k, n = tl.arange(0, 16), tl.arange(0, 32), tl.arange(0, 64)
    packed = tl.load(w_ptr + i[:, None] + n[None, :] * 16)
    low, high = ((packed << 4) >> 4).to(tl.float16), (packed >> 4).to(tl.float16)
    w = tl.join(low, high).permute(0, 2, 1).reshape(32, 64)
    w = w * tl.load(s_ptr + n)[None, :]
    tl.store(o_ptr + k[:, None] + n[None, :] * 32, w)


def of_transposed(w_ptr, s_ptr, o_ptr):
    k, n = tl.arange(0, 32), tl.arange(0, 64)
    w = tl.load(w_ptr + n[:, None] * 32 + k[None, :])
    w = tl.trans(tl.where(w > 0, w.to(tl.float32), 3.0)) + tl.load(s_ptr + n)[None, :]
    tl.store(o_ptr + k[:, None] + n[None, :] * 32, w.to(tl.float16))


KERNELS = (of_bytes, of_halves_of_bytes, of_transposed)


def through_shared_memory(module: Module) -> Module:
    """Have bytes come out of a buffer, and what is stored taken in parts in front of that."""

    def rewrite(op: Op, builder: Builder) -> tuple[Value, ...] | None:
        if isinstance(op, Load) and element_of(op.result.type) == I8:
            loaded = builder.insert(op).result
            shape = shape_of(loaded.type)
            type = Shared(shape, I8, swizzled(shape, 1, (1, 0)))
            buffer = builder.add(SharedAllocate(type=type))
            builder.insert(SharedStore(loaded, buffer))
            assert isinstance(loaded.type, Tile)
            return (builder.add(SharedLoad(buffer, type=loaded.type)),)
        if isinstance(op, Store):
            layout = layout_of(op.value.type)
            assert layout is not None
            taken = builder.add(ConvertLayout(op.value, layout))
            builder.insert(op.changed(value=taken))
            return ()
        return None

    return rebuild(module, rewrite)


def taken_in_parts(kernel: Callable[..., Any], between: Callable[[Module], Module]) -> Module:
    module = tile_ir(kernel, "*i8:16 *fp16:16 *fp16:16", {}, num_warps=2)
    module = replace(module, attributes={**module.attributes, "narrow_index": True})
    return gpu_ir(module, MACHINE, between)


def arguments() -> list[Any]:
    random = np.random.default_rng(5)
    weights = random.integers(-128, 128, 2048).astype(np.int8)
    return [weights, (2.0 ** random.integers(-2, 3, 64)).astype(np.float16),
            np.zeros(2048, np.float16)]  # fmt: skip


def taker_of(module: Module) -> tuple[Block, ConvertLayout]:
    takers = (op for op in module.walk() if isinstance(op, ConvertLayout))
    (taker,) = (op for op in takers if parts_of(op))
    return module.body, taker


@pytest.mark.parametrize("kernel", KERNELS)
def test_code_of_parts_does_what_the_whole_means(kernel: Callable[..., Any]):
    module = taken_in_parts(kernel, through_shared_memory)
    body, taker = taker_of(module)
    chain = chain_of(body, taker, taker.source, MACHINE, 2)
    assert any(isinstance(op, SharedLoad) for op in chain)
    assert any(isinstance(op, Elementwise) for op in chain)
    want, got = arguments(), arguments()
    run_module(module, (1,), want)
    execute(module, MACHINE, (1,), got)
    assert np.array_equal(want[2].view(np.uint16), got[2].view(np.uint16))


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_part_reads_only_what_it_needs(kernel: Callable[..., Any]):
    """Parts of the taker's operand need disjoint parts of the bytes, or the same of one."""
    body, taker = taker_of(taken_in_parts(kernel, through_shared_memory))
    chain = chain_of(body, taker, taker.source, MACHINE, 2)
    (load,) = (op for op in chain if isinstance(op, SharedLoad))
    layout = layout_of(load.result.type)
    assert layout is not None
    parts = parts_of(taker)
    assert parts is not None
    sizes = [
        len(registers_read(chain, {taker.source: registers})[load.result])
        for registers in parts.registers
    ]
    assert max(sizes) < layout.registers()


def test_what_may_not_wait_stays_where_it_is():
    """What others read, and what comes before a barrier; the loads of scales have no chain."""
    module = taken_in_parts(of_bytes, through_shared_memory)
    body, taker = taker_of(module)
    chain = chain_of(body, taker, taker.source, MACHINE, 2)
    assert all(op.pure or isinstance(op, SharedLoad) for op in chain)
    (load,) = (op for op in chain if isinstance(op, SharedLoad))

    def chain_with(op: Op, before: Op) -> list[str]:
        ops: list[Op] = []
        for one in body.ops:
            ops += [op, one] if one is before else [one]
        changed = Block(body.arguments, tuple(ops))
        return [one.name for one in chain_of(changed, taker, taker.source, MACHINE, 2)]

    whole = [op.name for op in chain]
    assert chain_with(BlockBarrier(), load) == whole
    # Behind the read somebody may write there: it stays, and so does what it alone makes new.
    late = chain_with(BlockBarrier(), taker)
    assert load.name not in late
    (multiply,) = (op for op in chain if isinstance(op, Elementwise))
    assert multiply.name in late
    second = SharedStore(multiply.result, SharedAllocate(type=Shared((32, 64), F16)).result)
    assert chain_with(second, taker) == []


def test_registers_that_are_only_renamed_are_no_chain():
    """They are written before, whatever the part."""

    def only_moved(w_ptr, s_ptr, o_ptr):
        k, n = tl.arange(0, 32), tl.arange(0, 64)
        w = tl.trans(tl.load(s_ptr + n[:, None] * 32 + k[None, :]))
        tl.store(o_ptr + k[:, None] + n[None, :] * 32, w)

    module = tile_ir(only_moved, "*i8:16 *fp16:16 *fp16:16", {}, num_warps=2)
    found = [op for op in walk(module.body) if isinstance(op, Load | Store)]
    assert len(found) == 2
    body, taker = taker_of(gpu_ir(module, MACHINE, through_shared_memory))
    assert chain_of(body, taker, taker.source, MACHINE, 2) == ()


def test_sums_of_broadcast_tiles_are_made_in_few_registers():
    """Before, a thread held all 256 products of its 16 sums, and spilled them.

    Without multiply-adds, with which the sum would be a dot.
    """
    module = tile_ir(
        product_by_sums, "*fp32:16 *fp32:16 *fp32:16 i32:16 i32:16 i32:16",
        {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 16}, num_warps=4, enable_fp_fusion=False,
    )  # fmt: skip
    built = pipeline.build(tile_passes(module, Recorder()), "sm_90a", Recorder())
    assert built.gpu is not None
    (reduce,) = [op for op in built.gpu.walk() if isinstance(op, Reduce)]
    parts = parts_of_rows(reduce)
    assert parts is not None
    assert sum(map(len, parts.registers)) == registers_of(reduce.inputs[0]) == 256
    assert max(map(len, parts.registers)) <= 32
    # A square of sums: 4 rows and 4 columns of 16.
    assert sum(registers_of(b.source) for b in _broadcasts(reduce.inputs[0])) == 2 * 4 * 16
    text = built.texts["ptx"]().text
    assert text.count("mul.rn.f32") >= 15 * 16


def sums_of_products(
    out_ptr, a_ptr, b_ptr, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr
):  # fmt: skip
    m, k, n = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    tl.store(out_ptr + m[:, None] * N + n[None, :], tl.sum(a[:, :, None] * b[None, :, :], 1))


def sums_in_parts(sizes: tuple[int, int, int], warps: int, **options: Any) -> Module:
    """Return GPU IR of the pretended machine whose sum takes products some rows at a time."""
    constants = dict(zip("MKN", sizes, strict=True))
    signature = "*fp32:16 *fp32:16 *fp32:16"
    module = tile_ir(sums_of_products, signature, constants, num_warps=warps, **options)
    module = gpu_ir(_with(module, narrow_index=True), Pretend())
    (reduce,) = [op for op in module.walk() if isinstance(op, Reduce)]
    assert parts_of_rows(reduce) is not None
    return module


def _with(module: Module, **options: Any) -> Module:
    return replace(module, attributes={**module.attributes, **options})


@pytest.mark.parametrize(
    ("sizes", "warps"), [((24, 16, 24), 1), ((12, 32, 48), 4), ((7, 16, 100), 1), ((48, 16, 16), 1)]
)
def test_rows_outside_a_tile_are_no_part(sizes: tuple[int, int, int], warps: int):
    """A thread's last rows may all lie there: before, nobody gave them a register."""
    module = sums_in_parts(sizes, warps)
    m, k, n = sizes
    random = np.random.default_rng(5)
    a, b = (random.integers(-4, 5, size).astype(np.float32) for size in (m * k, k * n))
    got = np.full(m * n, -1, np.float32)
    execute(module, Pretend(), (1,), [got, a, b])
    assert np.array_equal(got.reshape(m, n), a.reshape(m, k) @ b.reshape(k, n))


@pytest.mark.parametrize(("sizes", "warps"), [((16, 16, 32), 1), ((32, 16, 64), 4)])
def test_exact_sums_in_parts_are_added_up_as_ever(sizes: tuple[int, int, int], warps: int):
    module = sums_in_parts(sizes, warps, exact=True)
    m, k, n = sizes
    random = np.random.default_rng(5)
    a, b = (random.standard_normal(size).astype(np.float32) for size in (m * k, k * n))
    want, got = np.zeros((2, m * n), np.float32)
    run_module(module, (1,), [want, a, b])
    execute(module, Pretend(), (1,), [got, a, b])
    assert np.array_equal(want.view(np.uint32), got.view(np.uint32))


def _broadcasts(value: Value) -> list[Broadcast]:
    made = value.op
    assert made is not None
    return [v.op for v in made.operands if isinstance(v.op, Broadcast)]
