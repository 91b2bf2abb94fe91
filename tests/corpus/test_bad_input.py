"""Tables, lengths and scales that are wrong: right results, or an error at the line that reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import workbench
import workbench.language as tl
from tests.corpus import grouped, paged_attention
from tests.corpus import quantised as problems
from tests.corpus.sample import F16, Maker, Problem, failures, jitted, run
from tests.kernels import quantised
from workbench.runtime import guards
from workbench.source import LaunchError, StaticAssertError


def _decode(head: int = 16) -> tuple[Maker, Problem]:
    make = Maker(F16)
    return make, paged_attention.decode(make, (20, 33), 4, 2, head, 32, 16, 2)


def _page(number: int) -> Problem:
    _, problem = _decode()
    problem.launches[0].arguments[5][1, 1] = number
    return problem


def _length(tokens: int) -> Problem:
    _, problem = _decode()
    problem.launches[0].arguments[6][0] = tokens
    return problem


def _rows(end: int) -> Problem:
    make = Maker(F16)
    problem = grouped.by_tickets(make, (17, 0, 33, 1), 40, 40, 3, "n", grouped.SMALL)
    problem.launches[0].arguments[3][4] = end
    return problem


@pytest.mark.parametrize(
    ("spoilt", "reads", "said"),
    [
        (lambda: _page(1 << 28), "k = tl.load(", "past the end of k_ptr"),
        (lambda: _page(-1), "k = tl.load(", "before the start of k_ptr"),
        (lambda: _length(1 << 30), "tl.load(", "past the end of "),
        (lambda: _rows(5000), "x = tl.load(", "past the end of x_ptr"),
    ],
)
@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_what_lies_outside_is_named(
    spoilt: Callable[[], Problem], reads: str, said: str, target: str
):
    with guards.guarding(True), pytest.raises(LaunchError) as raised:
        run(spoilt(), target)
    error = raised.value
    assert error.code == "K502"
    assert said in error.message
    assert reads in str(error)
    if "k_ptr" in said:
        assert error.hint
        assert error.hint.startswith("its address is made of what line")


def test_a_sequence_with_a_negative_length_is_empty():
    """As one of no tokens: 0, and -inf for its logarithm."""
    _, problem = _decode()
    decode, merge = problem.launches
    decode.arguments[6][0] = -5
    run(problem, "interpreter")
    assert not merge.arguments[2][0].any()
    assert (merge.arguments[1][0] == -torch.inf).all()


@pytest.mark.parametrize("head", [4, 12, 80])
def test_heads_that_no_instruction_takes(head: int):
    make, problem = _decode(head)
    run(problem, "cpu")
    assert not list(failures(problem, make))


def _plain(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m[:, None] * K + k[None, :], (m[:, None] < M) & (k[None, :] < K), 0.0)
        b = tl.load(b_ptr + k[:, None] * N + n[None, :], (k[:, None] < K) & (n[None, :] < N), 0.0)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m[:, None] * N + n[None, :], total, (m[:, None] < M) & (n[None, :] < N))


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
@pytest.mark.parametrize("blocks", [(16, 16, 16), (24, 48, 40), (20, 12, 7)])
def test_extents_that_are_0_or_less_or_no_multiples(blocks: tuple[int, int, int], target: str):
    """What is below 0 is empty; every other element is K, of ones times ones."""
    bm, bn, bk = blocks
    for m, n, k in ((0, 9, 9), (9, 0, 9), (9, 9, 0), (-5, 9, 9), (9, 9, -3), (5, 7, 33)):
        a, b = (torch.ones(max(x, 0), max(y, 0), dtype=F16) for x, y in ((m, k), (k, n)))
        c = torch.full((max(m, 0), max(n, 0)), torch.nan)
        with guards.guarding(True):
            workbench.jit(_plain)[(1,)](a, b, c, m, n, k, BM=bm, BN=bn, BK=bk, target=target)
        assert (c == max(k, 0)).all()


def _mixed(kernel: Any, k: int, groups: int, rows: int, target: str) -> torch.Tensor:
    """Return ones times ones, K of them; W has `rows` rows, `groups` rows of scales."""
    x, scale = torch.ones(16, k, dtype=F16), torch.ones(groups, 32, dtype=F16)
    w, c = torch.ones(rows, 32, dtype=torch.int8), torch.full((16, 32), torch.nan)
    with guards.guarding(True):
        jitted(kernel)[(1, 1)](
            x, w, scale, c, 16, 32, k, k, 32, 1, 32,
            GROUP=32, BLOCK_M=16, BLOCK_N=32, BLOCK_K=32, target=target,
        )  # fmt: skip
    return c


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_too_few_scales_are_an_error_and_a_short_group_is_none(target: str):
    assert (_mixed(quantised.product_with_8_bits, 50, 2, 50, target) == 50).all()
    with pytest.raises(LaunchError, match="past the end of scale_ptr") as raised:
        _mixed(quantised.product_with_8_bits, 64, 1, 64, target)
    assert raised.value.span is not None


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_an_odd_number_of_weights_ends_in_half_a_byte(target: str):
    """The last byte counts, and the half of it that is no weight does not, whatever it holds."""
    for k in (33, 49):
        x, scale = torch.ones(16, k, dtype=F16), torch.ones(2, 32, dtype=F16)
        w = torch.full(((k + 1) // 2, 32), 0x11, dtype=torch.int8)
        w[-1] = -0x7F  # 1, and -8 beside it
        c = torch.full((16, 32), torch.nan)
        with guards.guarding(True):
            jitted(quantised.product_with_int4)[(1, 1)](
                x, w, scale, c, 16, 32, k, k, 32, 1, 32,
                GROUP=32, BLOCK_M=16, BLOCK_N=32, BLOCK_K=32, target=target,
            )  # fmt: skip
        assert (c == k).all()


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_an_odd_number_of_small_floats(target: str):
    make = Maker(F16)
    problem = problems.of_microscales(make, 16, 32, 33, "e2m1", problems.SMALL)
    run(problem, target)
    assert not list(failures(problem, make))


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_columns_that_do_not_fill_a_word_of_zeros(target: str):
    make = Maker(F16)
    problem = problems.of_words(make, 16, 37, 64, 32, problems.SMALL)
    run(problem, target)
    assert not list(failures(problem, make))


@pytest.mark.parametrize(
    ("kernel", "named", "said"),
    [
        (quantised.product_with_words, {"GROUP": 48}, "BLOCK_K must divide GROUP"),
        (quantised.product_with_words, {"GROUP": 16}, "BLOCK_K must divide GROUP"),
        (quantised.product_with_microscales, {"BLOCK_K": 16}, "BLOCK_K must be a multiple of 32"),
    ],
)
def test_blocks_that_scales_do_not_fit_are_refused(kernel: Any, named: dict[str, int], said: str):
    of_words = kernel is quantised.product_with_words
    own = {"GROUP": 32} if of_words else {"X_FORMAT": "fp16", "W_FORMAT": "e4m3"}
    pointers = "*f16 *i32 *f16 *i32 *f32" if of_words else "*f16 *f8e4m3 *u8 *f32"
    with pytest.raises(StaticAssertError, match=said) as raised:
        workbench.compile(
            kernel, pointers + " i32" * 7,
            {**own, "BLOCK_M": 16, "BLOCK_N": 32, "BLOCK_K": 32, **named}, target="interpreter",
        )  # fmt: skip
    assert raised.value.span is not None


def _of_experts(w_ptr, expert_ptr, out_ptr, ROUNDS: tl.constexpr):
    expert = tl.load(expert_ptr + tl.program_id(0))
    at = w_ptr + expert * ROUNDS * 16 + tl.arange(0, 16)
    total = tl.zeros((16,), tl.float32)
    for _ in range(ROUNDS):
        total += tl.load(at)
        at += 16
    tl.store(out_ptr + tl.program_id(0) * 16 + tl.arange(0, 16), total)


@pytest.mark.parametrize("target", ["interpreter", "cpu"])
def test_a_table_is_named_also_where_a_loop_carries_the_address(target: str):
    experts = torch.tensor([1, 7], dtype=torch.int32)
    with guards.guarding(True), pytest.raises(LaunchError, match="past the end of w_ptr") as raised:
        workbench.jit(_of_experts)[(2,)](
            torch.ones(2, 4, 16), experts, torch.empty(2, 16), ROUNDS=4, target=target
        )
    line = _of_experts.__code__.co_firstlineno + 1
    assert raised.value.hint
    assert raised.value.hint.startswith(f"its address is made of what line {line} loads")


def test_a_group_of_0_is_remarked():
    def grouped_scales(scale_ptr, out_ptr, GROUP: tl.constexpr):
        k = tl.arange(0, 16)
        tl.store(out_ptr + k % GROUP, tl.load(scale_ptr + k // GROUP))

    named = {0: 2, 16: 0}
    for group, count in named.items():
        compiled = workbench.compile(
            grouped_scales, "*f32, *f32", {"GROUP": group}, target="interpreter"
        )
        said = [r for r in compiled.trace.remarks if "by 0 is undefined in Triton" in r.text]
        assert len(said) == count
