"""What accesses cost, predicted: vectors, sectors, bank conflicts of known layouts."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench import tl
from workbench.layouts import SharedPlan
from workbench.ops import ConvertLayout
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.moves import moves_in
from workbench.targets.simt.layout import convert_plan


@wb.jit
def strided(x_ptr, out_ptr, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i * STRIDE))


@wb.jit
def turned(x_ptr, out_ptr, N: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + i * N + j)
    tl.store(out_ptr + j * N + i, x)


@wb.jit
def product(a_ptr, b_ptr, c_ptr, K, N: tl.constexpr, BK: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    total = tl.zeros((N, N), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a, b = tl.load(a_ptr + i * K + k[None, :]), tl.load(b_ptr + k[:, None] * N + j)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + i * N + j, total)


def moves(kernel, words, constexprs, warps=4):
    compiled = wb.compile(kernel, words, constexprs, "sm_80", num_warps=warps)
    return moves_in(compiled.compiled.built.gpu, "sm_80")


@pytest.mark.parametrize(
    ("stride", "element", "vector", "sectors", "ideal"),
    [(1, "f32", 4, 16, 16), (1, "f16", 8, 16, 16), (2, "f32", 1, 8, 4), (8, "f32", 1, 32, 4)],
)
def test_global_accesses(stride, element, vector, sectors, ideal):
    words = f"*{element}:16 *{element}:16"
    found = moves(strided, words, {"STRIDE": stride, "BLOCK": 1024})
    (load,) = [move for _, move in found if move.direction == "load" and move.space == "global"]
    assert (load.vector, load.sectors, load.ideal) == (vector, sectors, ideal)
    assert load.requests * load.vector * 128 == 1024
    assert not load.apart
    *_, store = [move for _, move in found if move.direction == "store" and move.space == "global"]
    assert store.sectors == store.ideal


def test_conversions_are_as_their_plan_says():
    found = moves(turned, "*f32:16 *f32:16", {"N": 64})
    converted = [(op, move) for op, move in found if isinstance(op, ConvertLayout)]
    assert converted
    for op in {op for op, _ in converted}:
        plan = convert_plan(op, chip("sm_80"))
        assert isinstance(plan, SharedPlan)
        store, load = (move for other, move in converted if other is op)
        for move, access in ((store, plan.store), (load, plan.load)):
            assert move.requests * move.wavefronts * 4 == access.wavefronts


def test_copies_and_matrices():
    found = moves(product, "*f16:16 *f16:16 *f32:16 i32:16", {"N": 64, "BK": 32})
    by_name = {(move.how.partition(".")[0], move.space): move for _, move in found}
    assert by_name["cp", "global"].bytes == by_name["cp", "shared"].bytes == 16
    assert any(move.apart for _, move in found)  # K is known at the launch
    assert by_name["ldmatrix", "shared"].conflicts == 1
    assert by_name["cp", "shared"].conflicts == 1
