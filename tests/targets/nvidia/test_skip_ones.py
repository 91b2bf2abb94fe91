"""Factors that are mostly 1: which loops have them, what becomes of them, what stays the same."""

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
from tests.targets.nvidia.test_ptx import needs_nvdisasm, needs_ptxas
from tests.targets.nvidia.test_warpgroups import compiled, in_gpu_ir, without
from workbench.analysis.steady import Steady
from workbench.ir import Builder, Module
from workbench.ops import For
from workbench.source import ShapeError
from workbench.targets.nvidia.ops import Scale, ScaleProducts

M, N = 64, 64


def online(q_ptr, k_ptr, o_ptr, l_ptr, S, FORM: tl.constexpr, M: tl.constexpr, N: tl.constexpr):  # noqa: C901
    """Sums that are scaled in each round, as people write it, and loops that look alike."""
    rows, columns = tl.arange(0, M), tl.arange(0, N)
    q = tl.load(q_ptr + rows[:, None] * N + columns[None, :])
    acc = tl.zeros((M, N), tl.float32)
    top = tl.full((M,), float("inf") if FORM == "smallest" else -float("inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    for i in range(S):
        k = tl.load(k_ptr + i * N * N + columns[:, None] * N + columns[None, :])
        s = tl.dot(q, k)
        new = tl.maximum(top, tl.max(s, 1))
        factor = tl.exp2(top - new)
        if FORM == "natural":
            factor = tl.exp((top - new) * 0.5)
        elif FORM == "guarded":  # rows of which nothing was seen so far
            factor = tl.exp2(top - tl.where(new == -float("inf"), 0.0, new))
        elif FORM == "guarded factor":
            factor = tl.where(new == -float("inf"), 1.0, tl.exp2(top - new))
        elif FORM == "chosen":
            largest = tl.max(s, 1)
            new = tl.where(largest > top, largest, top)
            factor = tl.exp2(top - new)
        elif FORM == "bounded":
            new = tl.maximum(tl.maximum(tl.max(s, 1), -8.0), top)
            factor = tl.exp2(top - new)
        elif FORM == "smallest":
            new = tl.minimum(top, tl.min(s, 1))
            factor = tl.exp2(new - top)
        elif FORM == "quotient":
            factor = (top + 64.0) / (new + 64.0)
        elif FORM == "of scores":  # what the rounds have seen says nothing of these
            factor = tl.exp2(-tl.max(s, 1))
        elif FORM == "last round's":  # a maximum of this round alone
            new = tl.max(s, 1)
            factor = tl.exp2(top - new)
        elif FORM == "decay":
            factor = tl.load(l_ptr + rows)
        elif FORM == "twice":
            factor = tl.exp2(top - new) * 2.0
        p = tl.exp2(s - new[:, None]) if FORM != "smallest" else s
        if FORM == "one number":
            acc = tl.dot(p.to(tl.float16), k, acc * tl.max(factor, 0))
        elif FORM == "added":
            acc = acc * factor[:, None] + p
        elif FORM == "parted":
            total = total * 3.0
            acc = tl.dot(p.to(tl.float16), k, acc * factor[:, None])
            total += 5.0
        elif FORM == "turned":
            acc = tl.dot(p.to(tl.float16), k, factor[:, None] * acc)
        else:
            total = total * factor + tl.sum(p, 1)
            acc = tl.dot(p.to(tl.float16), k, acc * factor[:, None])
        top = new
    tl.store(o_ptr + rows[:, None] * N + columns[None, :], acc)
    tl.store(l_ptr + rows, total)


#: Loops in which a warp asks, and what else is said of those where it does not.
ASKED = (
    *("plain", "natural", "guarded", "guarded factor", "chosen", "bounded", "smallest"),
    *("quotient", "turned"),
)
LEFT = {
    "of scores": "", "last round's": "", "decay": "", "twice": "", "one number": "",
    "added": "it is one instruction with what is added to it",
    "parted": "a branch would part another multiplication from what is added to it",
}  # fmt: skip


def module_of(form: str, m: int = M, n: int = N, **options: Any) -> Module:
    sizes = {"FORM": form, "M": m, "N": n}
    words = "*fp16:16 *fp16:16 *fp32:16 *fp32:16 i32"
    options = {"skip_ones": True, **options}
    return tile_ir(online, words, sizes, num_warps=4, num_stages=2, overlap=False, **options)


def scales(module: Module) -> list[Scale]:
    return [op for op in module.walk() if isinstance(op, Scale)]


def said(module: Module) -> list[str]:
    return [r.text for r in compiled(module)[1].remarks.items if r.pass_name == "skip-ones"]


@pytest.mark.parametrize("form", [*ASKED, *LEFT])
def test_warps_ask_where_an_extreme_makes_ones(form: str):
    module = module_of(form)
    words = said(module)
    assert len(scales(in_gpu_ir(module))) == (form in ASKED)
    if form in ASKED:
        assert words == ["rounds in which a warp's factors are all 1 skip this"]
    else:
        assert words == [f"multiplied in every round: {LEFT[form]}"] * bool(LEFT[form])


def test_few_registers_are_multiplied_in_every_round():
    module = module_of("plain", 32, 64)
    assert not scales(in_gpu_ir(module))
    assert said(module) == [
        "multiplied in every round: 16 registers are too few to ask whether 2 factors are 1"
    ]


def test_where_registers_are_short_nothing_is_asked():
    module = module_of("plain", 128, 128)
    assert not scales(in_gpu_ir(module))
    assert said(module) == [
        "multiplied in every round: in front of a branch more is alive, and registers are short"
    ]


def test_nobody_asks_unless_the_author_says_so():
    module = module_of("plain", skip_ones=False)
    assert "skip_ones" not in module.attributes
    assert not scales(in_gpu_ir(module))
    assert not said(module)


def arguments(rounds: int, odd: bool = False) -> Callable[[], list[Any]]:
    """Return what makes the arguments; odd: with infinities, zeros below 0 and NaNs."""

    def make() -> list[Any]:
        q, k = numbers(M * N, np.float16, 1), numbers(rounds * N * N, np.float16, 2)
        k = (k * np.repeat([1, 1, 3, 1, 2], N * N)[: len(k)]).astype(np.float16)
        if odd:
            q[:N], q[N], q[2 * N : 3 * N] = 0, np.nan, -0.0
            k[N], k[3 * N * N + 7] = -np.inf, np.inf
        return [q, k, np.zeros(M * N, np.float32), np.ones(M, np.float32), rounds]

    return make


@pytest.mark.parametrize("form", ASKED)
def test_loops_mean_the_same_to_the_bit(form: str):
    module = module_of(form)
    last = in_gpu_ir(module)
    assert len(scales(last)) == 1
    for odd in (False, True):
        wanted = meaning(module, (1,), arguments(4, odd)())
        assert meaning(last, (1,), arguments(4, odd)()) == wanted


def test_products_that_load_while_they_multiply_are_not_parted_from_that():
    module = module_of("plain", wgmma=False)
    assert not scales(in_gpu_ir(module))
    assert said(module) == [
        "multiplied in every round: a branch would part its reader from what that loads meanwhile"
    ]


PLANTED = {
    "factors are given instead of products": lambda op: (op.factors,),
    "nothing is ever multiplied": lambda op: (op.source,),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_the_interpreter_sees_a_wrong_skip(fault: str):
    last = in_gpu_ir(module_of("plain"))
    wanted = meaning(last, (1,), arguments(5)())
    faulty = without(last, lambda op: PLANTED[fault](op) if isinstance(op, Scale) else None)
    assert meaning(faulty, (1,), arguments(5)()) != wanted


def test_it_stands_in_front_of_who_adds_and_packs_what_that_reads():
    last = in_gpu_ir(module_of("plain"))
    (loop,) = (op for op in last.walk() if isinstance(op, For))
    ops = list(loop.body.ops)
    (scale,) = scales(last)
    reader = ops[ops.index(scale) + 1]
    assert reader.multiplies() is not None
    assert scale.result in reader.operands
    assert [str(v.type).split(",")[0] for v in scale.besides] == ["tile<64x64xf16"]
    assert set(scale.besides) <= set(reader.operands)


def test_what_products_wait_for_asks_already():
    """Two products at once ask in any case: the branch is what the wait holds by."""
    module = module_of("plain")
    last = in_gpu_ir(replace(module, attributes={**module.attributes, "overlap": True}))
    asked = [op for op in last.walk() if isinstance(op, ScaleProducts)]
    assert len(asked) + len(scales(last)) == 1


def test_types_are_those_of_sums():
    builder = Builder()
    module = in_gpu_ir(module_of("plain"))
    (scale,) = scales(module)
    (half,) = scale.besides
    with builder.block(), pytest.raises(ShapeError, match=r"gpu\.scale of .* it takes f32"):
        builder.insert(Scale(half, half))
    with builder.block(), pytest.raises(ShapeError, match=r"gpu\.scale of .*f32.* and .*f16"):
        builder.insert(Scale(scale.source, half))


@needs_ptxas
@needs_nvdisasm
def test_one_vote_skips_all_multiplications():
    """No register is copied for it, nothing is spilled, and NaN is no 1."""
    built = compiled(module_of("plain"))[0]
    asked = re.findall(r"fcmp une float %\w+, 0x3FF0000000000000", built.texts["llvm"]().text)
    assert len(asked) == 2
    sass = built.texts["sass"]().text
    rows = [re.sub(r"^/\*\w+\*/\s*", "", row.strip()) for row in sass.splitlines()]
    (vote,) = (n for n, row in enumerate(rows) if re.search(r"\bVOTE\.ANY P", row))
    branch = next(n for n in range(vote, len(rows)) if re.match(r"@!?P\d BRA", rows[n]))
    end = next(n for n in range(branch, len(rows)) if rows[n].startswith("."))
    assert [row.split()[0] for row in rows[branch + 1 : end]] == ["FMUL"] * 32
    first = next(n for n in range(end, len(rows)) if "HGMMA" in rows[n])
    assert not any("F2FP" in row for row in rows[branch:first])
    assert built.assemble().resources.spill_store_bytes == 0
    off = compiled(module_of("plain", skip_ones=False))[0]
    assert "VOTE.ANY P" not in off.texts["sass"]().text


def chosen(x_ptr, y_ptr, n, STEPS: tl.constexpr):
    """Each step chooses of both values of the step before: ways double with every one."""
    offsets = tl.arange(0, 128)
    last, total = tl.zeros((128,), tl.float32), tl.zeros((128,), tl.float32)
    for k in range(n):
        x, y = tl.load(x_ptr + k * 128 + offsets), tl.load(y_ptr + k * 128 + offsets)
        for _ in tl.static_range(STEPS):
            low, high = tl.minimum(x, y), tl.maximum(x, y)
            x, y = low, tl.where(k > 3, high, -low)
        total += last
        last = x
    tl.store(x_ptr + offsets, total)


def test_what_is_chosen_is_looked_for_once():
    module = tile_ir(chosen, "*fp32:16 *fp32:16 i32", {"STEPS": 48}, num_warps=4)
    (loop,) = (op for op in module.walk() if op.repeats)
    assert not Steady(loop).is_one(loop.regions[0].ops[0].result)
