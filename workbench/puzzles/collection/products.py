"""Puzzles 10 to 12: products of matrices, packed weights, attention."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.puzzles import facts
from workbench.puzzles.collection.elements import floats
from workbench.puzzles.puzzle import Case, Data, Puzzle, Question, prime
from workbench.runtime.host import cdiv

Sizes = Mapping[str, int]
HALF = ("f16", "f32", "f64")


# -- 10 ---------------------------------------------------------------------------------------
def _products(draw: random.Random) -> tuple[Case, ...]:
    return (
        Case("zero", {"M": 0, "N": 5, "K": 3}), Case("empty sums", {"M": 5, "N": 3, "K": 0}),
        Case("one", {"M": 1, "N": 1, "K": 1}),
        Case("prime", {"M": prime(draw), "N": prime(draw), "K": prime(draw)}),
        Case("tail", {"M": 33, "N": 34, "K": 32 * draw.randint(2, 3) + 9}, "pitch"),
        Case("strided", {"M": 20, "N": 40, "K": draw.randint(33, 60)}, "strided"),
    )  # fmt: skip


def _matrices(draw: np.random.Generator, sizes: Sizes) -> dict[str, Data]:
    m, n, k = sizes["M"], sizes["N"], sizes["K"]
    return {
        "a_ptr": Data(floats(draw, m, k, dtype="float16")),
        "b_ptr": Data(floats(draw, k, n, dtype="float16")),
        "c_ptr": Data(floats(draw, m, n), "out"),
    }


MATMUL = Puzzle(
    number=10,
    name="matmul",
    title="Ragged matmul",
    task="""\
The product of two matrices of float16, in float32: `c = a @ b`, of `M` × `K` and `K` × `N`.

No extent needs to be a multiple of its block: the last round of the loop over `K` has lanes behind
the end, whose products must not count. Rows of `a`, `b` and `c` start `stride_a`, `stride_b` and
`stride_c` elements behind the row above.""",
    parameters=("a_ptr", "b_ptr", "c_ptr", "M", "N", "K", "stride_a", "stride_b", "stride_c"),
    strides={"a_ptr": ("stride_a", ""), "b_ptr": ("stride_b", ""), "c_ptr": ("stride_c", "")},
    constants={"BM": 32, "BN": 32, "BK": 32},
    grid=lambda M, N, BM, BN: (cdiv(M, BM), cdiv(N, BN)),
    shown=Case("shown", {"M": 40, "N": 48, "K": 80}, "padded"),
    hidden=_products,
    data=_matrices,
    reference=lambda a_ptr, b_ptr: a_ptr @ b_ptr,
    widest=4096,
    hints=(
        "`acc = tl.dot(a, b, acc)` adds the product of two tiles to `acc`.",
        "Both loads need a mask along K, and `other=0.0`: 0 times 0 adds nothing.",
        "What lies behind the end of a row may be NaN, and 0 times NaN is NaN: mask both.",
    ),
    start="""\
@wb.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, stride_a, stride_b, stride_c,
           BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        ...
""",
    solution="""\
@wb.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, stride_a, stride_b, stride_c,
           BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a_mask = (m[:, None] < M) & (k[None, :] < K)
        b_mask = (k[:, None] < K) & (n[None, :] < N)
        a = tl.load(a_ptr + m[:, None] * stride_a + k[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + k[:, None] * stride_b + n[None, :], mask=b_mask, other=0.0)
        acc = tl.dot(a, b, acc)
    c_mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c_ptr + m[:, None] * stride_c + n[None, :], acc, mask=c_mask)
""",
    question=Question(
        "On a GPU some loads are copied ahead into shared memory. Those of which lines of your "
        "cell, and how many rounds ahead?",
        "a list of lines and a number, e.g. [3], 1 (nothing is copied ahead: [], 0)",
        "`%access matmul` names the lines of asynchronous copies; in `%gpu matmul` count the "
        "groups of copies that start before the loop, one for each round ahead.",
        facts.copied_ahead,
    ),
)


# -- 11 ---------------------------------------------------------------------------------------
GROUP = 32


def _packed(draw: np.random.Generator, sizes: Sizes) -> dict[str, Data]:
    m, n, k = sizes["M"], sizes["N"], sizes["K"]
    return {
        "x_ptr": Data(floats(draw, m, k, dtype="float16")),
        "w_ptr": Data(draw.integers(0, 256, (k // 2, n)).astype(np.uint8)),
        "scale_ptr": Data((draw.random((k // GROUP, n)) + 0.5).astype(np.float16)),
        "out_ptr": Data(floats(draw, m, n), "out"),
    }


def _unpacked(x_ptr: Any, w_ptr: Any, scale_ptr: Any) -> Any:
    import torch

    packed = w_ptr.int()
    nibbles = torch.stack((packed & 15, packed >> 4), 1).reshape(-1, packed.shape[1])
    weights = (nibbles - 8).to(x_ptr.dtype) * scale_ptr.repeat_interleave(GROUP, 0)
    return x_ptr @ weights


def _groups(draw: random.Random) -> tuple[Case, ...]:
    return (
        Case("zero", {"M": 0, "N": 5, "K": 32}), Case("empty sums", {"M": 3, "N": 4, "K": 0}),
        Case("one", {"M": 1, "N": 1, "K": 32}),
        Case("prime", {"M": prime(draw), "N": prime(draw), "K": 64}),
        Case("tail", {"M": 17, "N": 35, "K": 32 * draw.randint(2, 4)}, "pitch"),
    )  # fmt: skip


FOUR_BITS = Puzzle(
    number=11,
    name="four_bits",
    title="Four bits",
    task="""\
A product with weights of 4 bits: `out = x @ weight`, of `M` × `K` (float16) and `K` × `N`, in
float32.

A byte of `w`, which has `K / 2` rows, holds two weights of one column: row `r` has the weight of
row `2 r` in its low four bits, that of row `2 r + 1` in its high ones, as a number from 0 to 15.
With `q` that number, `weight[k, n] = (q − 8) * scale[k // 32, n]`, where `scale` has `K / 32` rows
of float16. `K` is a multiple of 32. Rows of `x`, `w` and `scale` start `stride_x`, `stride_w` and
`stride_s` elements behind the row above; `out` has no gaps.""",
    parameters=(
        "x_ptr",
        "w_ptr",
        "scale_ptr",
        "out_ptr",
        "M",
        "N",
        "K",
        "stride_x",
        "stride_w",
        "stride_s",
    ),
    strides={"x_ptr": ("stride_x", ""), "w_ptr": ("stride_w", ""), "scale_ptr": ("stride_s", "")},
    constants={"BM": 16, "BN": 32, "GROUP": GROUP},
    grid=lambda M, N, BM, BN: (cdiv(M, BM), cdiv(N, BN)),
    shown=Case("shown", {"M": 8, "N": 24, "K": 64}, "pitch"),
    hidden=_groups,
    data=_packed,
    reference=_unpacked,
    widest=4096,
    precision=HALF,
    hints=(
        "Go along K group by group: one row of `scale` for each round.",
        "Row `k` of the weights is in row `k // 2` of `w`, shifted by `4 * (k % 2)`.",
        "Multiplied out in float32 or float16 makes little difference: the scale may also be "
        "applied to the product of a group.",
    ),
    start="""\
@wb.jit
def four_bits(x_ptr, w_ptr, scale_ptr, out_ptr, M, N, K, stride_x, stride_w, stride_s,
              BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for group in range(0, K // GROUP):
        k = group * GROUP + tl.arange(0, GROUP)
        ...
""",
    solution="""\
@wb.jit
def four_bits(x_ptr, w_ptr, scale_ptr, out_ptr, M, N, K, stride_x, stride_w, stride_s,
              BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for group in range(0, K // GROUP):
        k = group * GROUP + tl.arange(0, GROUP)
        x = tl.load(x_ptr + m[:, None] * stride_x + k[None, :], mask=m[:, None] < M, other=0.0)
        rows = w_ptr + (k // 2)[:, None] * stride_w
        packed = tl.load(rows + n[None, :], mask=n[None, :] < N, other=0)
        q = (packed >> (4 * (k % 2))[:, None].to(tl.uint8)) & 15
        scale = tl.load(scale_ptr + group * stride_s + n, mask=n < N, other=0.0)
        product = tl.dot(x, (q.to(tl.int8) - 8).to(tl.float16))
        acc += product * scale[None, :].to(tl.float32)
    mask = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc, mask=mask)
""",
    question=Question(
        "How many operations (2 M N K of them) does your launch do for each byte that it loads or "
        "stores?",
        "a number, to within 2 %",
        "`puzzles.record(11)` sums up the bytes of each access; the shown launch has "
        "M, N, K = 8, 24, 64.",
        lambda trial: 2 * 8 * 24 * 64 / max(1, facts.moved_bytes(trial)),
    ),
)


# -- 12 ---------------------------------------------------------------------------------------
def _heads(draw: np.random.Generator, sizes: Sizes) -> dict[str, Data]:
    found = {
        f"{name}_ptr": Data(floats(draw, sizes["n"], 16, dtype="float16") * np.float16(2))
        for name in "qkv"
    }
    return {**found, "out_ptr": Data(floats(draw, sizes["n"], 16), "out")}


def _attended(q_ptr: Any, k_ptr: Any, v_ptr: Any) -> Any:
    scores = q_ptr @ k_ptr.T / 4
    later = scores.new_ones(scores.shape).triu(1).bool()
    return scores.masked_fill(later, float("-inf")).softmax(1) @ v_ptr


def _lengths(draw: random.Random) -> tuple[Case, ...]:
    return (
        Case("zero", {"n": 0}), Case("one", {"n": 1}), Case("prime", {"n": prime(draw)}),
        Case("whole blocks", {"n": 32}), Case("tail", {"n": 16 * draw.randint(5, 8) + 3}),
        Case("strided", {"n": draw.randint(33, 60)}, "strided"),
    )  # fmt: skip


ATTENTION = Puzzle(
    number=12,
    name="attention",
    title="One pass",
    task="""\
Causal attention of one head, in one pass over the keys: row `i` of `out` is the mean of the rows
`v[0] … v[i]`, weighted by the softmax of `q[i] · k[j] / 4`.

`q`, `k` and `v` are `n` × 16 of float16, `out` is `n` × 16 of float32, and a row of each starts
`stride` elements behind the row above. `n` may be anything, and a tile has at most 512 elements:
no program sees all scores of a row at once. Weights may be rounded to float16 before they meet
`v`.""",
    parameters=("q_ptr", "k_ptr", "v_ptr", "out_ptr", "n", "stride"),
    strides=dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "out_ptr"), ("stride", "")),
    constants={"BM": 16, "BN": 16, "D": 16},
    grid=lambda n, BM: (cdiv(n, BM),),
    shown=Case("shown", {"n": 40}),
    hidden=_lengths,
    data=_heads,
    reference=_attended,
    widest=512,
    precision=HALF,
    hints=(
        "Carry the largest score so far, the sum of the weights so far, and the weighted sum of "
        "rows of `v` so far.",
        "When the largest score grows from `old` to `new`, what was summed up shrinks by "
        "`exp(old - new)`.",
        "Keys that come later, or that there are not, have the score −∞. Key 0 is there for every "
        "row, so begin with it.",
    ),
    start="""\
@wb.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, n, stride,
              BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    ...
""",
    solution="""\
@wb.jit
def attention(q_ptr, k_ptr, v_ptr, out_ptr, n, stride,
              BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + i[:, None] * stride + d[None, :], mask=i[:, None] < n, other=0.0)
    top = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, n, BN):
        j = start + tl.arange(0, BN)
        k = tl.load(k_ptr + j[:, None] * stride + d[None, :], mask=j[:, None] < n, other=0.0)
        v = tl.load(v_ptr + j[:, None] * stride + d[None, :], mask=j[:, None] < n, other=0.0)
        scores = tl.dot(q, tl.trans(k)) / 4
        seen = (j[None, :] <= i[:, None]) & (j[None, :] < n)
        scores = tl.where(seen, scores, float("-inf"))
        new = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp(scores - new[:, None])
        shrink = tl.exp(top - new)
        total = total * shrink + tl.sum(weights, 1)
        acc = acc * shrink[:, None] + tl.dot(weights.to(tl.float16), v)
        top = new
    out = out_ptr + i[:, None] * stride + d[None, :]
    tl.store(out, acc / total[:, None], mask=i[:, None] < n)
""",
    question=Question(
        "Which values live round your loop? Give their names.",
        "names as in the source, e.g. 'a', 'b'",
        "`%tile attention` shows the tile IR: in front of `tile.for` stand the names of what the "
        "loop carries (`acc.3` is a later version of `acc`).",
        facts.carried_names,
    ),
)
