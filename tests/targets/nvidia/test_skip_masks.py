"""Masks under a branch: what loops become, that they mean the same, and what is left alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.targets.nvidia.test_warpgroups import in_gpu_ir
from workbench.ir import Module, shape_of
from workbench.ops import Elementwise, For, If, Select
from workbench.passes.cleanup import drop_dead
from workbench.passes.manager import Recorder, Remarks
from workbench.passes.pipeline import tile_passes
from workbench.targets.nvidia.pipeline import build
from workbench.targets.simt.passes import skip_masks as skipping

M, N = 16, 32


def masked(x_ptr, o_ptr, S, R, FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    """Sums of blocks of columns, masked as attention masks its scores."""
    rows, columns = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, N)
    sums = tl.zeros((M, N), tl.float32)
    for start in range(0, S, N):
        n = start + columns
        inside = (n[None, :] < S) & (rows[:, None] < R)
        x = tl.load(x_ptr + rows[:, None] * S + n[None, :], mask=inside, other=0.0)
        keep = n[None, :] < S
        if FORM == "causal":
            keep = keep & (n[None, :] <= rows[:, None])
        elif FORM == "window":
            keep = keep & (n[None, :] <= rows[:, None]) & (n[None, :] > rows[:, None] - N - 3)
        elif FORM == "ahead":
            keep = keep & (rows[:, None] + 5 <= n[None, :]) & (rows[:, None] < R)
        elif FORM == "heads":  # rows of four heads each
            keep = keep & (n[None, :] <= (rows // 4)[:, None] + S // 2)
        elif FORM == "clamped":
            keep = keep & (n[None, :] <= tl.minimum(rows, R - 3)[:, None])
        elif FORM == "up and down":  # quotients and what is divided, with opposite signs
            keep = keep & (n[None, :] <= (rows - 4 * (rows // 4))[:, None] + S // 2)
        elif FORM == "odd":  # no comparison at one element says it of all
            keep = keep & ((n[None, :] + rows[:, None]) % 3 < 2)
        elif FORM == "loaded":
            keep = keep & (x > 0)
        sums += tl.where(keep, x * 2, 1.0)
    out = o_ptr + rows[:, None] * N + columns[None, :]
    tl.store(out, sums, mask=rows[:, None] < R)


def module_of(form: str) -> Module:
    return tile_ir(masked, "*fp32:16 *fp32:16 i32 i32", {"FORM": form, "M": M, "N": N}, num_warps=1)


def arguments(size: int, rows: int) -> Callable[[], list[Any]]:
    return lambda: [
        numbers(rows * max(size, 1), np.float32, 0), np.zeros(rows * N, np.float32), size, rows,
    ]  # fmt: skip


def branches(module: Module) -> list[If]:
    loops = [op for op in module.walk() if isinstance(op, For)]
    return [op for loop in loops for op in loop.body.ops if isinstance(op, If)]


SIZES = ((0, 16), (1, 16), (32, 32), (33, 40), (96, 96), (95, 65), (140, 128))
FORMS = ("tail", "causal", "window", "ahead", "heads", "clamped")


@pytest.mark.parametrize("form", FORMS)
def test_rounds_that_mask_nothing_skip_the_mask(form: str):
    """Every comparison of tiles in the loop but those of the load stands under the branch."""
    module = module_of(form)
    last = in_gpu_ir(module)
    (branch,) = branches(last)
    assert any(isinstance(op, Select) for op in branch.otherwise.ops)
    assert not any(isinstance(op, Select | Elementwise) for op in branch.then.ops)
    compares = [
        op for op in branch.otherwise.ops
        if isinstance(op, Elementwise) and op.row.compares and len(shape_of(op.result.type)) == 2
    ]  # fmt: skip
    assert len(compares) == {"tail": 0, "window": 2}.get(form, 1)
    for size, rows in SIZES:
        grid = (-(-rows // M),)
        wanted = meaning(module, grid, arguments(size, rows)())
        assert meaning(last, grid, arguments(size, rows)()) == wanted, (size, rows)


@pytest.mark.parametrize("form", FORMS)
def test_a_wrong_corner_shows(form: str, monkeypatch: pytest.MonkeyPatch):
    """The sizes above find a branch that asks the element that holds first."""
    right = skipping.corner

    def wrong(comparison: Any, facts: Any) -> Any:
        place = right(comparison, facts)
        extents = shape_of(comparison.type)
        return place and tuple(e - 1 - at for e, at in zip(extents, place, strict=True))

    monkeypatch.setattr(skipping, "corner", wrong)
    module = module_of(form)
    last = in_gpu_ir(module)
    differ = False
    for size, rows in SIZES:
        grid = (-(-rows // M),)
        wanted = meaning(module, grid, arguments(size, rows)())
        differ |= meaning(last, grid, arguments(size, rows)()) != wanted
    assert differ


@pytest.mark.parametrize("form", ["odd", "loaded", "up and down"])
def test_a_mask_that_no_number_tells_stays(form: str):
    assert not branches(in_gpu_ir(module_of(form)))


def test_without_the_option_every_round_applies_its_mask():
    module = module_of("causal")
    off = replace(module, attributes={**module.attributes, "skip_masks": False})
    assert not branches(in_gpu_ir(off))


def test_what_is_said():
    module, remarks = in_gpu_ir(replace(
        module_of("causal"), attributes={**module_of("causal").attributes, "skip_masks": False}
    )), Remarks()  # fmt: skip
    module = replace(module, attributes={**module.attributes, "skip_masks": True})
    assert branches(drop_dead(skipping.skip_masks(module, remarks), remarks))
    assert [r.text for r in remarks.items] == ["rounds in which nothing is masked skip the mask"]


def chosen_values(p_ptr, v_ptr, o_ptr, S, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    """Sums of products whose second operand is copied ahead, and chosen row by row."""
    m, n, d = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    sums = tl.zeros((M, D), tl.float32)
    for start in range(0, S, N):
        p = tl.load(p_ptr + m[:, None] * N + n[None, :])
        v = tl.load(v_ptr + (start + n[:, None]) * D + d[None, :])
        sums += tl.dot(p, tl.where(start + n[:, None] < S, v, 0.0))
    tl.store(o_ptr + m[:, None] * D + d[None, :], sums)


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
def test_what_is_unpacked_in_one_branch_is_unpacked_again_in_the_other(chip: str):
    """Fragments come as words of two halves, which each branch takes apart for itself."""
    extents = {"M": 16, "N": 32, "D": 64}
    words = "*fp16:16 *fp16:16 *fp32:16 i32"
    module = tile_ir(chosen_values, words, extents, num_warps=4, num_stages=2)
    built = build(tile_passes(module, Recorder()), chip, Recorder())
    assert built.gpu is not None
    assert branches(built.gpu)
    built.assemble()


def carried(x_ptr, o_ptr, S, R, KEPT: tl.constexpr, N: tl.constexpr):
    """Sums and sums of squares of a row, of elements of which the loads' own mask asks."""
    row, n = tl.program_id(0) + tl.arange(0, 1)[:, None], tl.arange(0, N)[None, :]
    sums, squares = tl.zeros((1, N), tl.float32), tl.zeros((1, N), tl.float32)
    for start in range(0, S, N):
        mask = (start + n < S) & (row < R)
        x = tl.load(x_ptr + row * S + start + n, mask=mask, other=1.0)
        if KEPT:
            sums = tl.where(mask, sums + x, sums)
            squares = tl.where(mask, squares + x * x, squares)
        else:
            sums += tl.where(mask, x * 2, 0.0)
    tl.store(o_ptr + row * N + n, sums + squares)


@pytest.mark.parametrize(("kept", "elements", "expected"),
                         [(True, 32, 0), (False, 32, 1), (False, 8, 0)])  # fmt: skip
def test_what_is_kept_by_a_predicate_has_no_branch(kept: bool, elements: int, expected: int):
    """To compute a carried number anew where a mask lets it is one instruction with a predicate."""
    block = {"KEPT": kept, "N": 32 * elements}
    # One stage: else loads are those of the next round, whose masks are others.
    module = tile_ir(carried, "*fp32:16 *fp32:16 i32 i32", block, num_warps=1, num_stages=1)
    last = in_gpu_ir(module)
    assert (
        len([b for b in branches(last) if any(isinstance(op, Select) for op in b.otherwise.ops)])
        == expected
    )


def drawn(x_ptr, o_ptr, S, T, WIDE: tl.constexpr, N: tl.constexpr):
    """Sums of the numbers whose hash is small: of 64 bits, which wrap, or of a small factor."""
    n = tl.arange(0, N)
    total = 0.0
    for start in range(3):
        x = tl.load(x_ptr + start + n, mask=n < S, other=0.0)
        at = (start + n).to(tl.int64)
        keep = (at * 6364136223846793005 if WIDE else at * 3) < T
        total += tl.sum(tl.where(keep, x, 0.0))
    tl.store(o_ptr, total)


@pytest.mark.parametrize("wide", [False, True])
def test_numbers_that_wrap_are_compared_one_by_one(wide: bool):
    """The last of them says nothing of the others."""
    words = "*fp32:16 *fp32:16 i32:16 i32"
    module = tile_ir(drawn, words, {"WIDE": wide, "N": 1024}, num_warps=4)
    after = in_gpu_ir(module)
    assert bool(branches(after)) == (not wide)
    for least in (0, -5, 300):
        values = np.arange(1, 1027).astype(np.float32)
        got = np.zeros(1, np.float32)
        meaning(after, (1,), [values, got, 1024, least])
        factor, wanted = np.int64(6364136223846793005 if wide else 3), np.float32(0)
        for start in range(3):
            hashes = (start + np.arange(1024)) * factor
            wanted += np.where(hashes < least, values[start : start + 1024], 0).sum()
        assert got[0] == wanted
