"""Branches, returns and loops: rules 10 to 13."""

import numpy as np
import pytest

import workbench.language as tl
from tests.language.harness import (
    Typed,
    lowered,
    result,
)
from workbench.ir import I64
from workbench.ops import For


# -- 10, 11: branches and returns -----------------------------------------------------------
def test_10_only_the_taken_branch_of_a_constexpr_is_compiled():
    def kernel(out, MODE: tl.constexpr):
        if MODE == "a":
            value = 1
        elif MODE is None:
            value = tl.no_such_function()
        else:
            value = 2.5
        tl.store(out, value)

    assert result(kernel, MODE="a") == [1]
    assert result(kernel, MODE="b") == [2.5]


def test_10_run_time_branches_merge_changed_and_new_names():
    def kernel(out, n):
        total = n
        if n > 3:
            total = total * 2
            extra = 10
        else:
            extra = n
        tl.store(out, total + extra)

    assert result(kernel, np.int32, n=5) == [20]
    assert result(kernel, np.int32, n=2) == [4]


def test_10_a_pointer_holds_unless_it_is_null():
    def kernel(out):
        chosen = 5 if out else 6
        if (out.to(tl.int64) - out.to(tl.int64)).to(tl.pointer_type(tl.int32)):
            chosen += 10
        tl.store(out, chosen)

    assert result(kernel, np.int32) == [5]
    _, remarks = lowered(kernel, out=np.zeros(1, np.int32))
    assert any("is a pointer" in str(remark) for remark in remarks.items)


def test_10_conditional_expressions():
    def kernel(out, x, n):
        first = tl.load(x) if n > 0 else -1.0
        second = n if n < 3 else 3  # noqa: FURB136
        tl.store(out, first + second)

    x = np.full(1, 7, np.float32)
    assert result(kernel, x=x, n=1) == [8]
    assert result(kernel, x=x, n=-2) == [-3]


def test_10_a_conditional_expression_without_a_value_runs_one_side():
    def kernel(out, n):
        tl.store(out, 1) if n > 0 else tl.store(out + 1, 2)

    assert result(kernel, np.int32, 2, n=5).tolist() == [1, 0]
    assert result(kernel, np.int32, 2, n=-5).tolist() == [0, 2]


def test_11_early_returns_of_a_kernel_and_of_a_function():
    def clipped(value, low, high):
        if value < low:
            return low
        if value > high:
            return high
        return value

    def kernel(out, n):
        tl.store(out, clipped(n, 0, 10))
        if n > 5:
            return
        tl.store(out + 1, 1)

    assert result(kernel, np.int32, 2, n=-3).tolist() == [0, 1]
    assert result(kernel, np.int32, 2, n=4).tolist() == [4, 1]
    assert result(kernel, np.int32, 2, n=40).tolist() == [10, 0]


@pytest.mark.parametrize("limit", [0, 3, 100])
def test_11_break_continue_and_return_in_loops(limit):  # noqa: C901
    def first_above(x, n, limit):
        for i in range(n):
            if tl.load(x + i) > limit:
                return i
        return -1

    def kernel(out, x, n, limit):
        odd = 0
        for i in range(n):
            value = tl.load(x + i)
            if value % 2 == 0:
                continue
            if value > limit:
                break
            odd += value
        tl.store(out, odd)
        tl.store(out + 1, first_above(x, n, limit))
        count = 0
        while True:
            count += 1
            if count > limit:
                break
        tl.store(out + 2, count)

    x = np.array([1, 2, 3, 4, 5, 7], np.int32)
    odd = 0
    for value in x.tolist():
        if value % 2 == 0:
            continue
        if value > limit:
            break
        odd += value
    where = next((i for i, v in enumerate(x.tolist()) if v > limit), -1)
    assert result(kernel, np.int32, 3, x=x, n=6, limit=limit).tolist() == [odd, where, limit + 1]


def test_11_leaving_nested_loops():  # noqa: C901
    def kernel(out, n):
        total = 0
        for i in range(n):
            for j in range(n):
                if j > i:
                    break
                if (i + j) % 3 == 0:
                    continue
                total += i * j
            if total > 40:
                tl.store(out + 1, i)
                return
        tl.store(out, total)

    def reference(n):
        total = 0
        for i in range(n):
            for j in range(n):
                if j > i:
                    break
                if (i + j) % 3 == 0:
                    continue
                total += i * j
            if total > 40:
                return [0, i]
        return [total, 0]

    for n in (0, 1, 3, 4, 9):
        assert result(kernel, np.int32, 2, n=n).tolist() == reference(n)


# -- 12, 13: loops --------------------------------------------------------------------------
def test_12_loops_carry_what_they_assign():
    def kernel(out, x, n, step):
        total = 0.0
        pair = (0, 1)
        for i in range(0, n, step):
            total += tl.load(x + i)
            pair = (pair[1], pair[0] + pair[1])
        tl.store(out, total)
        tl.store(out + 1, pair[0])

    x = np.arange(10, dtype=np.float32)
    assert result(kernel, np.float32, 2, x=x, n=10, step=3).tolist() == [18, 3]


def test_12_negative_steps_and_wide_bounds():
    def kernel(out, n, big):
        total = 0
        for i in range(n, -1, -2):
            total = total * 10 + i
        tl.store(out, total)
        count = 0
        for i in range(big, big + 3):
            tl.static_assert(i.dtype == tl.int64)
            count += 1
        tl.store(out + 1, count)

    assert result(kernel, np.int64, 2, n=6, big=Typed(2**40, I64)).tolist() == [6420, 3]


def test_12_the_loop_variable_after_its_loop_is_pythons_last_value():
    def kernel(out, n):
        i = -5
        for i in range(2, n, 3):  # noqa: B007
            pass
        tl.store(out, i)
        for j in range(n):
            if j * j > 10:
                break
        tl.store(out + 1, j)
        for k in range(n):
            k = k * 100
        tl.store(out + 2, k)

    assert result(kernel, np.int32, 3, n=9).tolist() == [8, 4, 800]
    assert result(kernel, np.int32, 3, n=2)[0] == -5


def test_12_while_reevaluates_its_condition():
    def kernel(out, n):
        low, high = 0, n
        while high - low > 1:
            middle = (low + high) // 2
            if middle * middle > n:
                high = middle
            else:
                low = middle
        tl.store(out, low)

    assert [int(result(kernel, np.int32, n=n)[0]) for n in (16, 17, 99)] == [4, 4, 9]


def test_12_what_a_condition_of_while_names_is_carried():
    """`:=` in a condition assigns in every round, before the body and once more at the end."""

    def kernel(out, n):
        last = 0
        while (last := n) > 5:
            n -= 1
        tl.store(out, last)
        turn = 0
        for _ in range(2):
            while (turn := turn + 1) % 10 != 0:
                if turn == 7:
                    break
                if turn == 2:
                    continue
                n += turn
        tl.store(out + 1, turn)
        tl.store(out + 2, n)
        while (seen := n) > 20:
            n = seen - 7
        tl.store(out + 3, n)

    assert result(kernel, np.int32, 4, n=9).tolist() == [5, 10, 5 + 1 + 3 + 4 + 5 + 6 + 8 + 9, 20]


def test_13_range_never_unrolls_and_static_range_does():
    def kernel(out, B: tl.constexpr):
        for i in range(B):
            tl.store(out + i, i)
        for i in tl.static_range(B):
            if i == 2:
                break
            tl.store(out + tl.arange(0, i + 1), tl.zeros((i + 1,), tl.int32))
        for i in tl.range(0, B, num_stages=4, loop_unroll_factor=2):
            tl.store(out + i, i)

    module, _ = lowered(kernel, out=np.zeros(8, np.int32), B=4)
    loops = [op for op in module.walk() if isinstance(op, For)]
    assert len(loops) == 2
    assert loops[1].stages == 4
    assert dict(loops[1].hints) == {"loop_unroll_factor": 2}


def test_13_run_time_break_out_of_an_unrolled_loop():
    def kernel(out, n):
        total = 0
        for i in tl.static_range(5):
            if i == n:
                break
            total += 10
        tl.store(out, total)

    assert [int(result(kernel, np.int32, n=n)[0]) for n in (0, 3, 9)] == [0, 30, 50]
