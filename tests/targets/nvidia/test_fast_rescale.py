"""Extremes that may lie behind: which loops have them, that nothing goes from lane to lane."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest

import workbench.language as tl
from tests.passes.corpus import tile_ir
from tests.passes.meaning import meaning
from tests.targets.nvidia.test_ptx import needs_nvdisasm, needs_ptxas
from tests.targets.nvidia.test_skip_ones import arguments, module_of
from tests.targets.nvidia.test_warpgroups import compiled, in_gpu_ir
from workbench.ir import Module
from workbench.targets.nvidia.ops import Kept

#: Loops that carry an extreme of rows, and what is no such thing.
CARRIED = ("plain", "natural", "guarded", "chosen", "bounded", "smallest", "decay")
NONE = ("last round's",)


def fast(form: str, **options: Any) -> Module:
    return module_of(form, skip_ones=False, fast_rescale=True, **options)


def kept(module: Module) -> list[Kept]:
    return [op for op in module.walk() if isinstance(op, Kept)]


@pytest.mark.parametrize("form", [*CARRIED, *NONE])
def test_extremes_that_a_loop_carries_may_stay(form: str):
    last = in_gpu_ir(fast(form))
    assert len(kept(last)) == (form in CARRIED)
    assert not kept(in_gpu_ir(module_of(form, skip_ones=False)))


@pytest.mark.parametrize("form", ["plain", "smallest"])
def test_where_they_do_not_it_means_the_same_to_the_bit(form: str):
    module = fast(form)
    for odd in (False, True):
        wanted = meaning(module, (1,), arguments(4, odd)())
        assert meaning(in_gpu_ir(module), (1,), arguments(4, odd)()) == wanted


@needs_ptxas
@needs_nvdisasm
def test_lanes_meet_behind_a_vote():
    """Both rows of a thread are asked for at once; what is no number is no extreme that stays."""
    built = compiled(fast("plain"))[0]
    text = built.texts["llvm"]().text
    assert len(re.findall(r"fcmp ugt float %\w+, 0x4020000000000000", text)) == 2
    sass = built.texts["sass"]().text
    rows = [re.sub(r"^/\*\w+\*/\s*", "", row.strip()) for row in sass.splitlines()]
    vote = next(n for n, row in enumerate(rows) if re.search(r"\bVOTE\.ANY P", row))
    branch = next(n for n in range(vote, len(rows)) if re.match(r"@!?P\d BRA", rows[n]))
    end = next(
        n for n in range(branch, len(rows)) if re.match(r"@?!?P?\d? ?(BRA|MUFU)", rows[n + 1])
    )
    assert sum("SHFL" in row for row in rows[branch:end]) == 4


def scaled(x_ptr, out_ptr, n, scale, FORM: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """Multiplies what is carried before it is an exponent."""
    r, c = tl.arange(0, R), tl.arange(0, C)
    top, total = tl.full([R], -1000.0, tl.float32), tl.zeros([R], tl.float32)
    for j in range(n):
        s = tl.load(x_ptr + r[:, None] * C + c[None, :] + j * R * C)
        new = tl.maximum(top, tl.max(s, 1))
        if FORM == "argument":
            p = tl.exp2(s * scale - (new * scale)[:, None])
            total = total * tl.exp2((top - new) * scale)
        elif FORM == "constant":
            p = tl.exp2((s - new[:, None]) * 4.0)
            total = total * tl.exp2((top - new) * 4.0)
        elif FORM == "natural":
            p = tl.exp(s - new[:, None])
            total = total * tl.exp(top - new)
        else:  # by row
            by = tl.load(out_ptr + R + r)
            p = tl.exp2(s * by[:, None] - (new * by)[:, None])
            total = total * tl.exp2((top - new) * by)
        total += tl.sum(p, 1)
        top = new
    tl.store(out_ptr + r, total)


@pytest.mark.parametrize(
    ("form", "slack", "asks"),
    [("argument", 8.0, True), ("constant", 2.0, False), ("natural", 8 / math.log2(math.e), False),
     ("by row", None, False)],
)  # fmt: skip
def test_extremes_lie_behind_by_powers_of_2_of_what_is_made_of_them(
    form: str, slack: float | None, asks: bool
):
    sizes = {"FORM": form, "R": 64, "C": 64}
    module = tile_ir(scaled, "*fp32:16 *fp32:16 i32 fp32", sizes, num_warps=4)
    module = replace(module, attributes={**module.attributes, "fast_rescale": True})
    found = kept(in_gpu_ir(module))
    assert [op.slack for op in found] == ([] if slack is None else [pytest.approx(slack)])
    assert any(op.unit is not None for op in found) is asks
    if asks:
        text = compiled(module)[0].texts["llvm"]().text
        assert re.search(r" = fmul .*\n.* = call float @llvm.fabs.*\n.* = fcmp ugt float", text)


def whole(x_ptr, out_ptr, n, R: tl.constexpr, C: tl.constexpr):
    """Carries the whole number of an extreme: no lane could compare that with its own elements."""
    r, c = tl.arange(0, R), tl.arange(0, C)
    top, total = tl.full([R], -1000, tl.int32), tl.zeros([R], tl.float32)
    for j in range(n):
        s = tl.load(x_ptr + r[:, None] * C + c[None, :] + j * R * C)
        new = tl.maximum(top, tl.max(s, 1).to(tl.int32))
        total = total * tl.exp2((top - new).to(tl.float32))
        total += tl.sum(tl.exp2(s - new.to(tl.float32)[:, None]), 1)
        top = new
    tl.store(out_ptr + r, total)


def test_whole_numbers_of_extremes_do_not_stay():
    module = tile_ir(whole, "*fp32:16 *fp32:16 i32", {"R": 64, "C": 64}, num_warps=4)
    module = replace(module, attributes={**module.attributes, "fast_rescale": True})
    assert not kept(in_gpu_ir(module))
