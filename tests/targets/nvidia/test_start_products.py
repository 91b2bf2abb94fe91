"""Products of one round that go on beside each other: what is started when, and who waits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.targets.nvidia.hazards import RaceError, simulate
from tests.targets.nvidia.test_ptx import needs_ptxas
from tests.targets.nvidia.test_roles import ordered
from tests.targets.nvidia.test_warpgroups import SM_90A, compiled, in_gpu_ir, products, without
from workbench.ir import (
    Block,
    Builder,
    InvalidModuleError,
    Module,
    Op,
    Shared,
    Value,
    rebuild,
    walk,
)
from workbench.ops import For
from workbench.targets.nvidia.ops import WaitProducts, WarpgroupDot
from workbench.targets.simt.lowering import used_values
from workbench.targets.simt.ops import BlockBarrier, SharedStore
from workbench.targets.simt.passes.rounds import reading_from
from workbench.targets.simt.passes.shared_memory import allocate, scratch_of

M, N, D = 64, 32, 32


def gradients(q_ptr, k_ptr, v_ptr, g_ptr, dk_ptr, dv_ptr, S, FORM: tl.constexpr, M: tl.constexpr,
              N: tl.constexpr, D: tl.constexpr):  # fmt: skip
    """Products that depend on each other in several ways; M keys, N queries a round."""
    rows, columns, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    k = tl.load(k_ptr + rows[:, None] * D + d[None, :])
    v = tl.load(v_ptr + rows[:, None] * D + d[None, :])
    dk, dv = tl.zeros((M, D), tl.float32), tl.zeros((M, D), tl.float32)
    for i in range(0, S, N):
        n = i + columns
        q = tl.load(q_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        g = tl.load(g_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < S, other=0.0)
        if FORM == "two sums":  # nothing lies between them
            dv = tl.dot(k, tl.trans(q), dv)
            dk = tl.dot(v, tl.trans(g), dk)
        elif FORM == "handed on":
            s = tl.dot(k, tl.trans(q))
            s = tl.dot(v, tl.trans(g), s)
            dv = tl.dot(s.to(tl.float16), g, dv)
        else:
            s = tl.dot(k, tl.trans(q))
            p = tl.exp2(tl.minimum(s, 4.0))
            if FORM == "masked":
                p = tl.where(rows[:, None] <= n[None, :], p, 0.0)
            if FORM == "in a branch" and i > 0:
                p = p * 0.5
            dv = tl.dot(p.to(tl.float16), g, dv)
            if FORM == "stored":  # an operand is computed: it goes to shared memory
                g = g * 2
            t = tl.dot(v, tl.trans(g))
            dk = tl.dot((p * (t - 1.0)).to(tl.float16), q, dk)
    tl.store(dk_ptr + rows[:, None] * D + d[None, :], dk)
    tl.store(dv_ptr + rows[:, None] * D + d[None, :], dv)


FORMS = ("plain", "masked", "in a branch", "stored", "two sums", "handed on")
WORDS = "*fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp32:16 *fp32:16 i32"


def module_of(form: str = "plain", stages: int = 2, **options: Any) -> Module:
    sizes = {"FORM": form, "M": M, "N": N, "D": D}
    return tile_ir(gradients, WORDS, sizes, num_warps=4, num_stages=stages, **options)


def arguments(size: int) -> Callable[[], list[Any]]:
    """Return what makes the arguments; powers of two, few and small."""
    queries = max(size, 1)

    def make() -> list[Any]:
        lengths = (queries, M, M, queries)
        q, k, v, g = (
            numbers(n * D, np.float16, seed) * np.float16(0.25) for seed, n in enumerate(lengths)
        )
        return [q, k, v, g, np.zeros(M * D, np.float32), np.zeros(M * D, np.float32), size]

    return make


ROUNDS = (0, 1, N, 3 * N, 4 * N - 5)


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("form", FORMS)
def test_rounds_mean_the_same_to_the_bit(form: str, stages: int):
    module = module_of(form, stages)
    last = in_gpu_ir(module)
    assert any(op.in_flight for op in products(last))
    for size in ROUNDS:
        assert meaning(last, (1,), arguments(size)()) == meaning(module, (1,), arguments(size)())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("options", [{"narrow_index": True}, {"overlap": False}, {"tma": False}])
def test_in_rings_of_all_kinds(form: str, options: dict[str, Any]):
    module = module_of(form)
    module = replace(module, attributes={**module.attributes, **options})
    last = in_gpu_ir(module)
    if "overlap" in options:
        assert not any(op.in_flight for op in products(last))
    for size in ROUNDS[1:]:
        assert meaning(last, (1,), arguments(size)()) == meaning(module, (1,), arguments(size)())
    placed, offsets, total = ordered(last)
    simulate(placed, offsets, total, (1,), arguments(3 * N)(), SM_90A)


def split_scores(q, r, k, e, v, o, S, FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
                 D: tl.constexpr):  # fmt: skip
    m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    a = tl.load(q + m[:, None] * D + d[None, :])
    b = tl.load(r + m[:, None] * D + d[None, :])
    acc = tl.zeros((M, D), tl.float32)
    total = tl.zeros((M,), tl.float32)
    for i in range(0, S, N):
        at = i + n
        kt = tl.load(k + at[None, :] * D + d[:, None], mask=at[None, :] < S, other=0.0)
        et = tl.load(e + at[None, :] * D + d[:, None], mask=at[None, :] < S, other=0.0)
        w = tl.load(v + at[:, None] * D + d[None, :], mask=at[:, None] < S, other=0.0)
        s = tl.dot(a, kt)
        if FORM == "added":
            s += tl.dot(b, et)
        elif FORM == "continued":
            s = tl.dot(b, et, s)
        else:
            s = tl.dot(b, et, tl.dot(a, et, s))
        s = tl.maximum(s, 0.0)
        total += tl.sum(s, 1)
        acc = tl.dot(s.to(tl.float16), w, acc * 0.5)
    tl.store(o + m[:, None] * D + d[None, :], acc + total[:, None])


@pytest.mark.parametrize("options", [{}, {"tma": False}, {"overlap": False}])
@pytest.mark.parametrize("form", ["added", "continued", "three"])
def test_scores_of_several_products_are_waited_for(form: str, options: dict[str, Any]):
    """A product that goes on into the next round stays behind all of those that make its scores."""
    M, N, D, S = 64, 32, 64, 96
    types = "*fp16:16 " * 5 + "*fp32:16 i32"
    names = {"FORM": form, "M": M, "N": N, "D": D}
    module = tile_ir(split_scores, types, names, num_warps=4, num_stages=3)

    def given() -> list[Any]:
        counts = (M, M, S, S, S)
        held = [np.clip(numbers(c * D, np.float16, i), -1, 1) for i, c in enumerate(counts)]
        return [*held, np.zeros(M * D, np.float32), S]

    asked = {**module.attributes, **options}
    found = meaning(in_gpu_ir(replace(module, attributes=asked)), (1,), given())
    assert found == meaning(module, (1,), given())


def rounds_of(module: Module) -> list[Op]:
    """Return the products and waits of the loop."""
    (loop,) = [op for op in module.walk() if isinstance(op, For)]
    return [op for op in loop.body.ops if isinstance(op, WarpgroupDot | WaitProducts)]


def test_what_depends_on_nothing_is_started_first():
    """T = V dO' stands behind two others in the source, and needs neither."""
    last = in_gpu_ir(module_of())
    found = [(type(op).__name__, op.in_flight if isinstance(op, WarpgroupDot) else op.pending)
             for op in rounds_of(last)]  # fmt: skip
    assert found == [
        ("WarpgroupDot", 1),  # S
        ("WarpgroupDot", 2),  # dK of the round before
        ("WarpgroupDot", 3),  # T
        ("WaitProducts", 2),  # S
        ("WarpgroupDot", 3),  # dV
        ("WaitProducts", 1),  # T
        ("WaitProducts", 1),  # dK
        ("WaitProducts", 0),  # dV
    ]


def test_sums_that_are_handed_on_wait_for_nobody():
    last = in_gpu_ir(module_of("handed on"))
    first, *_ = [op for op in last.walk() if isinstance(op, For)]
    inside = [op for op in walk(first.body) if isinstance(op, WarpgroupDot)]
    chained = [op for op in inside if any(other.result is op.accumulator for other in inside)]
    assert chained


def test_who_stores_does_so_when_products_have_ended():
    """Nothing compares buffers: no product goes on beside a store to any of them."""
    last = in_gpu_ir(module_of("stored", overlap=True))
    stores = 0
    for block in blocks(last.body):
        going = 0
        for op in block.ops:
            if isinstance(op, WarpgroupDot):
                going = op.in_flight
            elif isinstance(op, WaitProducts):
                going = min(going, op.pending)
            elif isinstance(op, SharedStore):
                stores += 1
                assert going <= 1  # the product that is late by another pass's word
    assert stores


def blocks(block: Block) -> list[Block]:
    inner = [found for op in block.ops for region in op.regions for found in blocks(region)]
    return [block, *inner]


def test_there_is_a_remark_at_the_product():
    _, recorder = compiled(module_of())
    words = "before what does not depend on it"
    said = [r for r in recorder.remarks.items if words in r.text]
    assert said
    assert {r.severity for r in said} == {"applied"}


PLANTED: dict[str, Callable[[Op], Any]] = {
    "scores are read before their product has ended": lambda op: (
        op.changed(pending=3) if isinstance(op, WaitProducts) and op.pending == 2 else None
    ),
    "what is read next is not waited for": lambda op: (
        (op.accumulator,) if isinstance(op, WaitProducts) and op.pending == 1 else None
    ),
    "the last sums are not waited for": lambda op: (
        (op.accumulator,) if isinstance(op, WaitProducts) and op.pending == 0 else None
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_the_interpreter_finds_waits_that_are_missing(fault: str):
    module = module_of()
    wrong = without(in_gpu_ir(module), PLANTED[fault])
    size = 3 * N
    assert meaning(wrong, (1,), arguments(size)()) != meaning(module, (1,), arguments(size)())


def with_scratch(a_ptr, b_ptr, c_ptr, d_ptr, x_ptr, y_ptr, S, FORM: tl.constexpr, M: tl.constexpr,
                 N: tl.constexpr):  # fmt: skip
    """Two products, and what takes shared memory of its own between them."""
    m, n = tl.arange(0, M), tl.arange(0, N)
    at = m[:, None] * N + n[None, :]
    a, c = tl.load(a_ptr + at), tl.load(c_ptr + at)
    square = n[:, None] * N + n[None, :]
    t, most = tl.zeros((M, N), tl.float32), tl.full((N,), -1e9, tl.float32)
    for i in range(S):
        b, d = tl.load(b_ptr + i * N * N + square), tl.load(d_ptr + i * N * N + square)
        s = tl.dot(a, b)
        if FORM == "computed":
            d = (d + 1).to(tl.float16)
        t = tl.dot(c, d, t)
        if FORM == "stored":
            tl.store(x_ptr + at, s.to(tl.float16))
        else:
            most = tl.maximum(most, tl.max(s, axis=0))
    tl.store(y_ptr + at, t.to(tl.float16))
    tl.store(x_ptr + M * N + n, most.to(tl.float16))


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("form", ["reduced", "computed", "stored"])
def test_nothing_is_written_where_a_product_under_way_reads(form: str, stages: int):
    """Scratch of reductions and conversions is where buffers were that nobody reads any more."""
    words = "*fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp16:16 i32"
    sizes = {"FORM": form, "M": 64, "N": 64}
    module = tile_ir(with_scratch, words, sizes, num_warps=4, num_stages=stages)
    for one in (module, replace(module, attributes={**module.attributes, "narrow_index": True})):
        placed, offsets, _ = ordered(in_gpu_ir(one))
        assert sum(isinstance(op, WarpgroupDot) for op in placed.walk()) >= 2
        assert not overwritten(placed, offsets)


def going_on(module: Module) -> Module:
    """Return a kernel whose last product of each round goes on to the end of the round."""
    (loop,) = [op for op in module.walk() if isinstance(op, For)]
    *ops, end = loop.body.ops
    product = [op for op in ops if isinstance(op, WarpgroupDot)][-1]
    builder, values = Builder(module.next_id), dict[Value, Value]()
    with builder.block() as body:
        for op in ops:
            new = reading_from(op, values, {"in_flight": 1} if op is product else None)
            builder.insert(new)
            if new is not op:
                values.update(zip(op.results, new.results, strict=True))
            if op is product:
                builder.insert(BlockBarrier())
        sums = values[product.result]
        values[product.result] = builder.add(WaitProducts(sums, pending=0))
        builder.insert(reading_from(end, values))
    outer = list[Op]()
    for op in module.body.ops:
        body_of_loop = {"body": Block(loop.body.arguments, tuple(body))} if op is loop else None
        outer.append(reading_from(op, values, body_of_loop))
        if outer[-1] is not op:
            values.update(zip(op.results, outer[-1].results, strict=True))
    return replace(module, body=Block((), tuple(outer)), next_id=builder.next_id)


def test_what_a_product_reads_is_kept_until_it_is_waited_for():
    """No other pass lets a product go on here: bytes and barriers are right all the same."""
    words = "*fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp16:16 i32"
    sizes = {"FORM": "stored", "M": 64, "N": 64}
    module = tile_ir(with_scratch, words, sizes, num_warps=4, num_stages=1, overlap=False)
    last = going_on(in_gpu_ir(module))
    (wait,) = [op for op in last.walk() if isinstance(op, WaitProducts)]
    product = wait.accumulator.op
    assert isinstance(product, WarpgroupDot)
    read = {v.op.id for v in (product.a, product.b) if v.op and isinstance(v.type, Shared)}
    lives = {one.op: one.last for one in allocate(last, SM_90A)[1]}
    assert read
    assert {lives[op] for op in read} == {wait.id}
    placed, offsets, total = ordered(last)
    arrays = [numbers(2 * 64 * 64, np.float16, n) for n in range(6)]
    simulate(placed, offsets, total, (1,), [*arrays, 2], SM_90A)
    # A program whose warps do not meet between the wait and the next round's stores is found.
    (loop,) = [op for op in placed.walk() if isinstance(op, For)]
    stored = [isinstance(op, SharedStore) for op in loop.body.ops].index(True)
    barriers = {op.id for op in loop.body.ops[:stored] if isinstance(op, BlockBarrier)}
    assert barriers
    racing = rebuild(placed, lambda op, _: () if op.id in barriers else None)
    with pytest.raises(RaceError):
        simulate(racing, offsets, total, (1,), [*arrays, 2], SM_90A)


def test_writing_what_a_product_under_way_reads_is_refused():
    """No barrier helps: whoever lets a product go on has to wait for it before its operands go."""
    words = "*fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp16:16 i32"
    sizes = {"FORM": "stored", "M": 64, "N": 64}
    module = tile_ir(with_scratch, words, sizes, num_warps=4, num_stages=1, overlap=False)
    last = going_on(in_gpu_ir(module))
    ordered(last)
    wrong = without(
        last, lambda op: op.changed(pending=1) if isinstance(op, WaitProducts) else None
    )
    with pytest.raises(InvalidModuleError, match="a product under way still reads"):
        ordered(wrong)


def overwritten(placed: Module, offsets: dict[int, int]) -> list[Op]:
    """Return the ops whose scratch lies where operands of a product under way are."""
    ranges = {
        value: (offsets[op.id], offsets[op.id] + value.type.bytes)
        for op in placed.walk() for value in op.results if isinstance(value.type, Shared)
    }  # fmt: skip
    used, warps, found = used_values(placed), placed.attributes["num_warps"], list[Op]()

    def look(block: Block, going: list[WarpgroupDot]) -> None:
        for op in block.ops:
            if isinstance(op, WarpgroupDot):
                going.append(op)
                del going[: len(going) - op.in_flight]
            elif (awaited := op.awaited()) is not None:
                del going[: max(0, len(going) - awaited[1])]
            elif size := scratch_of(op, SM_90A, warps, used).bytes:
                low = offsets[op.id]
                read = [ranges[v] for one in going for v in (one.a, one.b) if v in ranges]
                found.extend(op for a, b in read if a < low + size and low < b)
            for region in op.regions:
                look(region, going)

    look(placed.body, [])
    return found


@needs_ptxas
@pytest.mark.parametrize("form", FORMS)
def test_ptxas_serialises_nothing(form: str):
    built, recorder = compiled(module_of(form))
    assert built.assemble().resources.spill_store_bytes == 0
    assert not [r for r in recorder.remarks.items if "ptxas:" in r.text]
