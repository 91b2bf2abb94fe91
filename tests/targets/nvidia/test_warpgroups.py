"""Products by warpgroups: what they mean in every form, what is made of them, what is said."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.kernels import matmul
from tests.kernels import products as typed_products
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.test_odd_extents import staged, staged_arguments
from tests.targets.nvidia.test_ptx import CODE, needs_nvdisasm, needs_ptxas, unattributed
from workbench.interpreter import run_module
from workbench.ir import Module, Op, Shared, print_module, rebuild
from workbench.layouts import wgmma_d
from workbench.ops import For
from workbench.ops.numbers import cut_to_tf32
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.source import LaunchError, ShapeError
from workbench.source.overrides import Override, overriding
from workbench.targets.built import Built
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.ops import (
    FenceProducts,
    WaitCopies,
    WaitProducts,
    WarpgroupDot,
)
from workbench.targets.nvidia.pipeline import build
from workbench.targets.nvidia.toolchain import assemble
from workbench.targets.nvidia.warpgroups import columns_split, shares_of
from workbench.targets.simt.ops import SharedAllocate, roles_of

SM_90A = chip("sm_90a")


def in_gpu_ir(module: Module) -> Module:
    final = [module, *(after for _, after in tile_steps(module))][-1]
    return [after for _, after in gpu_steps(final, SM_90A)][-1]


def products(module: Module) -> list[WarpgroupDot]:
    return [op for op in module.walk() if isinstance(op, WarpgroupDot)]


def compiled(module: Module) -> tuple[Built, Recorder]:
    recorder = Recorder()
    module = replace(module, attributes={**module.attributes, "narrow_index": True})
    return build(tile_passes(module, recorder), "sm_90a", recorder), recorder


SHAPES = [
    (128, 256, 64, 8, "nn"), (128, 256, 64, 8, "tt"), (64, 128, 32, 8, "nt"),
    (96, 160, 32, 8, "tn"), (192, 96, 96, 4, "nn"), (64, 32, 16, 4, "nt"),
    (256, 64, 32, 16, "nn"), (64, 320, 16, 4, "nn"),
]  # fmt: skip


@pytest.mark.parametrize(("m", "n", "k", "warps", "kind"), SHAPES)
def test_every_form_means_the_same(m: int, n: int, k: int, warps: int, kind: str):
    module = staged(m, n, k, warps, kind)

    def arguments() -> list[Any]:
        return staged_arguments(m, n, 2 * k + 16, kind)

    wanted = meaning(module, (1,), arguments())
    last = in_gpu_ir(module)
    assert products(last)
    assert all(isinstance(v.type, Shared) for op in products(last) for v in (op.a, op.b))
    assert meaning(last, (1,), arguments()) == wanted


def test_a_product_goes_on_into_the_next_round():
    """Its slot is free a round later, so the ring has one more than the author's stages."""
    last = in_gpu_ir(staged(128, 256, 64, 8))
    (dot,) = products(last)
    assert dot.in_flight == 1
    assert {op.type.slots for op in last.walk() if isinstance(op, SharedAllocate)} == {4}
    assert [op.pending for op in last.walk() if isinstance(op, WaitProducts)] == [0]
    assert [op.pending for op in last.walk() if isinstance(op, WaitCopies)] == [1, 0]


def test_where_a_slot_more_costs_a_block_products_end_in_their_round():
    last = in_gpu_ir(staged(128, 128, 64, 4))
    (loop,) = (op for op in last.walk() if isinstance(op, For))
    assert sum(isinstance(op, WarpgroupDot | WaitProducts) for op in loop.body.ops) == 2
    assert {op.type.slots for op in last.walk() if isinstance(op, SharedAllocate)} == {3}


def without(module: Module, planted: Any) -> Module:
    """Return a module in which `planted` has changed ops."""

    def rewrite(op: Op, builder: Any) -> Any:
        return planted(op)

    return rebuild(module, rewrite)


PLANTED = {
    "sums are read before the product has ended": lambda op: (
        (op.accumulator,) if isinstance(op, WaitProducts) else None
    ),
    "a product reads a slot whose copy is under way": lambda op: (
        op.changed(pending=op.pending + 1) if isinstance(op, WaitCopies) and op.pending else None
    ),
    "one more product stays in flight than the ring has room for": lambda op: (
        op.changed(in_flight=2) if isinstance(op, WarpgroupDot) else None
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_the_interpreter_sees_what_is_not_waited_for(fault: str):
    m, n, k = 64, 32, 16
    module = staged(m, n, k, 4)

    def arguments() -> list[Any]:
        return staged_arguments(m, n, 8 * k)

    last = in_gpu_ir(module)
    assert products(last)[0].in_flight == 1
    wanted = meaning(module, (1,), arguments())
    assert meaning(last, (1,), arguments()) == wanted
    assert meaning(without(last, PLANTED[fault]), (1,), arguments()) != wanted


@pytest.mark.parametrize("kind", ["a ring of copies", "what was computed"])
def test_the_interpreter_sees_a_missing_fence(kind: str):
    m, n, k = 64, 32, 16
    module = staged(m, n, k, 4) if kind.startswith("a ring") else typed("i8", "nn", m, n, 32, 4)
    last = in_gpu_ir(module)
    wrong = without(last, lambda op: () if isinstance(op, FenceProducts) else None)
    if kind.startswith("a ring"):
        arguments = staged_arguments(m, n, 8 * k)
    else:
        values = [np.ones(m * 64, np.int8), np.ones(64 * n, np.int8), np.zeros(m * n, np.int32)]
        arguments = [*values, 64, 64, n]
    with pytest.raises(LaunchError, match="with no fence in between") as caught:
        run_module(wrong, (1,), arguments)
    assert caught.value.code == "K514"


KINDS = [
    ("fp16", "nn", "HGMMA"), ("bf16", "tt", "HGMMA"), ("fp8e4nv", "nt", "QGMMA"),
    ("fp8e5", "nn", "QGMMA"), ("i8", "nt", "IGMMA"), ("i8", "tn", "IGMMA"),
    ("fp32", "nt", "TF32"), ("fp32", "nn", "TF32"), ("fp32", "tn", "TF32"),
]  # fmt: skip


def typed(dtype: str, kind: str, m: int, n: int, k: int, warps: int) -> Module:
    if dtype == "i8":
        return integer_product(kind, m, n, k, warps)
    return staged(m, n, k, warps, kind, dtype)


def integer_product(kind: str, m: int, n: int, k: int, warps: int) -> Module:
    def integers(a_ptr, b_ptr, c_ptr, K, am, ak, bk, bn, M: tl.constexpr, N: tl.constexpr,
                 BK: tl.constexpr):  # fmt: skip
        rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
        total = tl.zeros((M, N), dtype=tl.int32)
        for start in range(0, K, BK):
            at = inner + start
            a = tl.load(a_ptr + rows[:, None] * am + at[None, :] * ak)
            b = tl.load(b_ptr + at[:, None] * bk + columns[None, :] * bn)
            total = tl.dot(a, b, total, out_dtype=tl.int32)
        tl.store(c_ptr + rows[:, None] * N + columns[None, :], total)

    strides = ["i32:16", "i32=1"] if kind[0] == "n" else ["i32=1", "i32:16"]
    strides += ["i32:16", "i32=1"] if kind[1] == "n" else ["i32=1", "i32:16"]
    words = f"*i8:16 *i8:16 *i32:16 i32:16 {' '.join(strides)}"
    return tile_ir(integers, words, {"M": m, "N": n, "BK": k}, num_warps=warps, num_stages=3)


@needs_ptxas
@needs_nvdisasm
@pytest.mark.parametrize(("dtype", "kind", "instruction"), KINDS)
def test_the_machine_code_multiplies_by_warpgroups(dtype: str, kind: str, instruction: str):
    found, recorder = compiled(typed(dtype, kind, 128, 128, 32 if dtype == "fp32" else 64, 8))
    result = assemble(found.texts["ptx"]().text, "sm_90a")
    assert result.spill_store_bytes == 0
    assert not result.notes
    sass = found.texts["sass"]().text
    assert instruction in sass
    assert re.search(r"\b[HIQ]GMMA\b", sass)
    assert not re.search(r"\b(HMMA|IMMA|QMMA)\b", sass)
    assert any("by warpgroups" in remark.text for remark in recorder.remarks.items)


@pytest.mark.parametrize(
    ("m", "n", "warps", "a_beyond", "b_beyond"),
    [
        (256, 160, 8, False, False), (128, 144, 8, False, False), (64, 160, 8, False, True),
        (192, 96, 4, False, False), (96, 160, 4, True, False), (192, 64, 8, False, True),
        (64, 72, 4, False, True),
    ],
)  # fmt: skip
def test_products_read_what_lies_beside_a_tile_only_where_instructions_are_larger(
    m: int, n: int, warps: int, a_beyond: bool, b_beyond: bool
):
    (product,) = products(in_gpu_ir(staged(m, n, 64, warps, "nt")))
    assert product.reads_beyond(product.a) == a_beyond
    assert product.reads_beyond(product.b) == b_beyond


def of_long_sums(
    m: int, n: int, k: int, warps: int, limit: int, wide: bool = True, **options: Any
) -> Module:
    """Return a product of 8-bit floats whose sums go to fp32 after so many k."""
    sizes = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8, "IMPRECISE": limit}
    words = "*fp8e4nv:16 *fp8e4nv:16 " + ("*fp32:16" if wide else "*fp16:16")
    words += " i32:16 i32:16 i32:16 i32:16 i32=1 i32=1 i32:16 i32:16 i32=1"
    module = tile_ir(typed_products.product_fp8, words, sizes, num_warps=warps, num_stages=3)
    return replace(module, attributes={**module.attributes, "narrow_index": True, **options})


def arguments_of_long_sums(m: int, n: int, k: int) -> list[Any]:
    ones = np.array([0x00, 0x38, 0x40, 0xB8], np.uint8)  # 0, 1, 2, -1
    random = np.random.default_rng(5)
    a, b = (ones[random.integers(0, 4, size * k)] for size in (m, n))
    return [a, b, np.zeros(m * n, np.float32), m, n, k, k, k, n]


@pytest.mark.parametrize(
    ("m", "n", "k", "warps", "limit", "after", "columns"),
    [
        (128, 64, 64, 4, 32, 32, 64), (64, 160, 32, 8, 32, 32, 80), (192, 96, 64, 4, 64, 64, 96),
        (64, 256, 32, 4, 32, 32, 128),
    ],
)  # fmt: skip
@pytest.mark.parametrize("specialize", [False, True])
def test_long_sums_mean_the_same(
    m: int, n: int, k: int, warps: int, limit: int, after: int, columns: int, specialize: bool
):
    module = of_long_sums(m, n, k, warps, limit)
    final = [module, *(after for _, after in tile_steps(module))][-1]
    last = [now for _, now in gpu_steps(final, SM_90A, warp_specialize=specialize)][-1]
    assert {(op.long_after, op.columns) for op in products(last)} == {(after, columns)}
    wanted = meaning(module, (1,), arguments_of_long_sums(m, n, 3 * k + 16))
    assert meaning(last, (1,), arguments_of_long_sums(m, n, 3 * k + 16)) == wanted


@needs_ptxas
@pytest.mark.parametrize(
    ("m", "n", "k", "warps", "parts"),
    [(128, 256, 128, 8, True), (128, 128, 128, 8, True), (128, 128, 128, 4, False),
     (64, 128, 256, 4, False), (64, 160, 128, 8, True)],
)  # fmt: skip
def test_long_sums_are_added_a_piece_at_a_time(m: int, n: int, k: int, warps: int, parts: bool):
    """Nothing is spilled, ptxas has nothing to say, and several groups of warps part."""
    found, recorder = compiled(of_long_sums(m, n, k, warps, 128, wide=False))
    assert (roles_of(found.gpu) is not None) == parts
    result = assemble(found.texts["ptx"]().text, "sm_90a")
    assert (result.spill_store_bytes, result.notes) == (0, ())
    assert not any("spilled" in r.text or ("registers" in r.text and r.severity == "missed")
                   for r in recorder.remarks.items)  # fmt: skip


def test_warps_of_long_sums_stay_together_where_the_author_says_so():
    module = of_long_sums(128, 128, 128, 8, 128, warp_specialize=False)
    assert roles_of(compiled(module)[0].gpu) is None


def test_long_sums_that_no_instruction_adds_are_refused():
    module = of_long_sums(64, 64, 64, 4, 32)
    final = [module, *(after for _, after in tile_steps(module))][-1]
    (product,) = products([now for _, now in gpu_steps(final, SM_90A)][-1])
    for fields in ({"long_after": 48}, {"columns": 4}, {"in_flight": 1}, {"columns": 0}):
        with pytest.raises(ShapeError, match=r"cannot be added every|does not go on"):
            product.changed(**fields).verify()


@pytest.mark.parametrize("kind", ["nt", "nn", "tn", "tt"])
def test_integers_mean_the_same_however_they_lie(kind: str):
    m, n, k = 64, 48, 64
    module = integer_product(kind, m, n, 32, 4)
    a, b = (numbers(e * k, np.int8, seed) for seed, e in enumerate((m, n)))
    strides = [k if kind[0] == "n" else m, n if kind[1] == "n" else k]

    def arguments() -> list[Any]:
        return [a.copy(), b.copy(), np.zeros(m * n, np.int32), k, *strides]

    wanted = meaning(module, (1,), arguments())
    last = in_gpu_ir(module)
    assert products(last)
    assert meaning(last, (1,), arguments()) == wanted


REASONS = [
    (32, 32, 4, "fp16", "most of its 64 rows would be copies of the tile's 32"),
    (64, 32, 2, "fp16", "it needs four warps, num_warps is 2"),
    (64, 24, 4, "fp16", "K = 24 of f16 is no multiple of 16"),
    (44, 32, 4, "fp16", "operands lie in groups of 8 rows, the tile is 44 x 64"),
]


@pytest.mark.parametrize(("m", "k", "warps", "dtype", "reason"), REASONS)
def test_a_remark_says_why_not(m: int, k: int, warps: int, dtype: str, reason: str):
    _, recorder = compiled(staged(m, 64, k, warps, "nn", dtype))
    (remark,) = [r for r in recorder.remarks.items if "not warpgroups" in r.text]
    assert reason in remark.text
    assert remark.span is not None


def in_full(a_ptr, b_ptr, c_ptr, S: tl.constexpr):
    at = tl.arange(0, S)[:, None] * S + tl.arange(0, S)[None, :]
    total = tl.dot(tl.load(a_ptr + at), tl.load(b_ptr + at), input_precision="ieee")
    tl.store(c_ptr + at, total)


def test_what_is_not_to_be_tf32_goes_another_way():
    module = tile_ir(in_full, "*fp32:16 *fp32:16 *fp32:16", {"S": 64}, num_warps=4)
    assert not products(in_gpu_ir(module))


def test_operands_of_tf32_are_cut():
    """By the instruction itself: 1 + 2^-10 is tf32, what lies between that and 1 becomes 1."""
    values = np.array([1 + 2**-10, 1 + 2**-10 - 2**-23, -1 - 2**-11, np.inf, np.nan], np.float32)
    wanted = np.array([1 + 2**-10, 1, -1, np.inf, np.nan], np.float32)
    np.testing.assert_array_equal(cut_to_tf32(values), wanted)


@pytest.mark.parametrize("kind", ["nt", "nn", "tn", "tt"])
def test_products_of_tf32_mean_the_same(kind: str):
    module = staged(64, 96, 32, 4, kind, "fp32")

    def arguments() -> list[Any]:
        return staged_arguments(64, 96, 3 * 32, kind, np.float32)

    wanted = meaning(module, (1,), arguments())
    last = in_gpu_ir(module)
    assert products(last)
    assert meaning(last, (1,), arguments()) == wanted


@needs_ptxas
@pytest.mark.parametrize(("m", "n", "warps", "sums"), [(256, 256, 16, 128), (128, 256, 4, 256)])
def test_sums_that_fill_all_registers_go_by_warps(m: int, n: int, warps: int, sums: int):
    """ptxas refuses an instruction whose sums and operands do not fit a thread's registers."""
    found, recorder = compiled(staged(m, n, 32, warps))
    have = SM_90A.most_registers(warps)
    said = f"its sums fill {sums} registers of a thread, which has {have}"
    assert any(said in remark.text for remark in recorder.remarks.items)
    assert found.assemble().resources.registers <= have


@pytest.mark.parametrize(
    ("m", "n", "warps"), [(64, 16, 16), (64, 32, 32), (128, 16, 32), (64, 256, 8)]
)
def test_warpgroups_start_at_the_columns_that_their_layout_gives_them(m: int, n: int, warps: int):
    shares = shares_of((m, n), warps)
    layout = wgmma_d((m, n), warps, shares.across)
    columns = [layout.unflatten(flat)[1] for flat in layout.flat("warp")[2:]]
    wanted = [c for c in columns if c]
    assert shares.steps(n)[: len(wanted)] == wanted


#: Rows, columns, warps; among how many columns are divided, own ones, sums of a thread.
TURNS = [
    (192, 176, 8, 2, 88, 132), (192, 96, 8, 2, 48, 72), (64, 144, 8, 2, 72, 36),
    (128, 144, 8, 1, 144, 72), (256, 192, 8, 1, 192, 192), (192, 160, 16, 4, 40, 60),
]  # fmt: skip


@pytest.mark.parametrize(("m", "n", "warps", "across", "own", "sums"), TURNS)
def test_columns_in_turns_divide_evenly(
    m: int, n: int, warps: int, across: int, own: int, sums: int
):
    """No row and no column is multiplied that the tile does not have."""
    shares = shares_of((m, n), warps, in_turns=True)
    assert (shares.across, shares.own(n)) == (across, own)
    assert shares.padded((m, n), warps) == (m, n)
    layout = wgmma_d((m, n), warps, across, (), shares.in_turns).verify()
    assert len(layout.live_registers()) == sums
    for group in range(warps // 4):
        found = {layout.apply(register=r, lane=lane, warp=4 * group)[1]
                 for r in layout.live_registers() for lane in range(4)}  # fmt: skip
        first = min(found)
        assert sorted(found) == [first + shares.column(c) for c in range(own)]


@pytest.mark.parametrize(
    ("m", "n", "kind", "in_turns"),
    [(192, 48, "nt", True), (64, 48, "tt", True), (192, 48, "nn", False), (64, 96, "tn", False)],
)
@pytest.mark.parametrize("specialize", [None, True])
def test_products_of_columns_in_turns_are_right(
    m: int, n: int, kind: str, in_turns: bool, specialize: bool | None
):
    """Only an operand with k inside lies so that every other group of columns can be read."""
    before = staged(m, n, 32, 8, kind)
    final = [before, *(after for _, after in tile_steps(before))][-1]
    steps = gpu_steps(final, SM_90A, warp_specialize=specialize, narrow_index=True)
    last = [after for _, after in steps][-1]
    (product,) = products(last)
    assert columns_split(product, 8).in_turns == in_turns
    wanted = meaning(before, (1,), staged_arguments(m, n, 96, kind))
    assert meaning(last, (1,), staged_arguments(m, n, 96, kind)) == wanted


def computed(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + rows[:, None] * K + inner[None, :])
    b = tl.load(b_ptr + inner[:, None] * N + columns[None, :])
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], tl.dot(a * a + a, b))


@needs_ptxas
@pytest.mark.parametrize(
    ("m", "n", "warps", "more"),
    [(512, 72, 32, {}), (256, 200, 16, {}), (64, 64, 4, {"maxnreg": 58})],
)
def test_the_assembler_takes_what_is_left_to_warpgroups(m: int, n: int, warps: int, more: Any):
    """Where registers are scarce an operand in registers counts too."""
    sizes = {"M": m, "N": n, "K": 32}
    module = tile_ir(computed, "*fp16:16 *fp16:16 *fp32:16", sizes, num_warps=warps, **more)
    assert compiled(module)[0].assemble().data


def squares(x_ptr, y_ptr, out_ptr, n, FORM: tl.constexpr, S: tl.constexpr):
    at = tl.arange(0, S)[:, None] * S + tl.arange(0, S)[None, :]
    y = tl.load(y_ptr + at)
    total = tl.zeros((S, S), tl.int32 if FORM == "same" else tl.float32)
    for k in range(n):
        x = tl.load(x_ptr + k * S * S + at)
        if FORM == "same":
            total = tl.dot(x, x, total, out_dtype=tl.int32)
        elif FORM == "turned":
            total = tl.dot(x, tl.trans(x), total)
        elif FORM == "both":
            total = tl.dot(x, y, tl.dot(y, x, total))
        elif FORM == "branch":
            if k > 0:
                total = tl.dot(x, y, total)
            else:
                total = tl.dot(y, x, total)
                total += 1.0
        elif FORM == "others":
            total = tl.dot(x, y, total) + x.to(tl.float32)
        elif FORM == "nested":
            for _ in range(k):
                total = tl.dot(x, y, total)
        else:
            total = tl.dot(x, y, total * 0.5)
    tl.store(out_ptr + at, total)


@pytest.mark.parametrize("rounds", [0, 1, 5])
@pytest.mark.parametrize("stages", [1, 2, 4])
@pytest.mark.parametrize("form", ["same", "turned", "both", "branch", "others", "nested", "scaled"])
def test_loops_of_products_mean_the_same(form: str, stages: int, rounds: int):
    size, held = 64, np.int8 if form == "same" else np.float16
    into = np.int32 if form == "same" else np.float32
    word, to = ("i8", "i32") if form == "same" else ("fp16", "fp32")
    sizes = {"FORM": form, "S": size}
    module = tile_ir(
        squares, f"*{word}:16 *{word}:16 *{to}:16 i32", sizes, num_warps=4, num_stages=stages
    )

    def arguments() -> list[Any]:
        x = numbers(5 * size * size, held)
        return [x, numbers(size * size, held, 2), np.zeros(size * size, into), rounds]

    wanted = meaning(module, (1,), arguments())
    last = in_gpu_ir(module)
    assert products(last)
    assert meaning(last, (1,), arguments()) == wanted


def attention(q_ptr, k_ptr, v_ptr, o_ptr, S, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    rows, columns, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :])
    total = tl.zeros((M, D), tl.float32)
    for i in range(0, S, N):
        k = tl.load(k_ptr + (i + columns)[None, :] * D + d[:, None])
        v = tl.load(v_ptr + (i + columns)[:, None] * D + d[None, :])
        total = tl.dot(tl.exp(tl.dot(q, k)).to(tl.float16), v, total)
    tl.store(o_ptr + rows[:, None] * D + d[None, :], total)


ROOM = [
    # Stages that nobody asked for, a slot more for a product in flight, operands beside rings.
    (lambda: tile_ir(attention, "*fp16:16 *fp16:16 *fp16:16 *fp32:16 i32:16",
                     {"M": 128, "N": 64, "D": 256}, num_warps=8), True),
    (lambda: staged(160, 192, 64, 8, stages=4), True),
    (lambda: tile_ir(attention, "*fp16:16 *fp16:16 *fp16:16 *fp32:16 i32:16",
                     {"M": 128, "N": 64, "D": 256}, num_warps=8, num_stages=3), False),
]  # fmt: skip


@pytest.mark.parametrize(("make", "by_warpgroups"), ROOM)
def test_what_fits_without_warpgroups_fits(make: Any, by_warpgroups: bool):
    found, recorder = compiled(make())
    assert found.shared_bytes <= SM_90A.shared_bytes
    assert bool(products(found.gpu)) == by_warpgroups
    said = any("do not fit shared memory" in r.text for r in recorder.remarks.items)
    assert said != by_warpgroups


def test_an_option_turns_them_off():
    module = staged(128, 128, 64, 4)
    off = replace(module, attributes={**module.attributes, "wgmma": False})
    found, recorder = compiled(off)
    assert "wgmma." not in found.texts["ptx"]().text
    assert any("wgmma=False" in r.text for r in recorder.remarks.items)


def test_the_option_is_one_of_the_language():
    import workbench as wb

    words = "*fp16:16 *fp16:16 *fp16:16 i32:16 i32:16 i32:16 i32:16 i32=1 i32:16 i32=1 i32:16 i32=1"
    blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 2}
    for wgmma in (True, None, False):
        found = wb.compile(matmul.matmul, words, blocks, target="sm_90a", num_warps=4, wgmma=wgmma)
        assert ("wgmma." in found.asm["ptx"]) == (wgmma is not False)


# -- what ptxas makes of it -----------------------------------------------------------------------
def edited(built: Built, stage: str) -> Override:
    """Return a stage's text in which nobody waits for the last product."""
    assert built.gpu is not None
    if stage == "ptx":
        text = re.sub(r"(wgmma.wait_group.sync.aligned) 0", r"\1 1", built.texts["ptx"]().text)
    else:
        text = print_module(built.gpu)
        waited = re.search(r"\n +(%\S+) = gpu.wait_products (%\S+) [^\n]*", text)
        assert waited is not None
        text = text.replace(waited[0], "").replace(f"{waited[1]} ", f"{waited[2]} ")
    return overriding("k", stage, text)


@needs_ptxas
@pytest.mark.parametrize(("stage", "code"), [("gpu", "C7517"), ("ptx", "C7514")])
def test_what_ptxas_makes_wait_is_a_remark_at_its_line(stage: str, code: str):
    """That products wait for each other is said of the product, another wait where it stands."""
    module = staged(128, 256, 64, 8)
    right, recorder = compiled(module)
    right.assemble()
    assert not [r for r in recorder.remarks.items if "ptxas" in r.text]
    recorder = Recorder()
    module = replace(module, attributes={**module.attributes, "narrow_index": True})
    override = edited(right, stage)
    built = build(tile_passes(module, recorder), "sm_90a", recorder, override)
    built.assemble()
    (found,) = [r for r in recorder.remarks.items if code in r.text]
    assert found.severity == "missed"
    assert found.span is not None
    assert built.gpu is not None
    (product,) = products(built.gpu)
    said = "Potential Performance Loss: wgmma.mma_async instructions are serialized"
    assert (said in found.text) == (found.op == product.id) == (code == "C7514")
    assert not re.search(r"line \d", found.text)


@needs_nvdisasm
def test_the_zeros_that_sums_begin_with_belong_to_an_op():
    """In PTX to the op that makes them; ptxas writes them where the loop is entered.

    Of a large product at least 99 of 100 instructions belong to an op.
    """
    built, _ = compiled(staged(128, 256, 64, 8))
    sass = built.texts["sass"]()
    alone, count = unattributed(sass, CODE["sass"])
    assert len(alone) <= 0.01 * count, alone
    assert built.gpu is not None
    loops = [op for op in built.gpu.walk() if isinstance(op, For)]
    (loop,) = (op for op in loops if any(isinstance(o, WarpgroupDot) for o in op.body.ops))
    zeros = loop.inits[0].op
    assert zeros is not None
    rows = zip(sass.text.splitlines(), sass.rows, strict=True)
    cleared = [ops for line, ops in rows if re.search(r"\bCS2R R\d+, SRZ\b", line)]
    assert len(cleared) == 64
    assert all(ops in ((zeros.id,), (loop.id,)) for ops in cleared)
    assert (zeros.id,) in built.texts["ptx"]().rows
