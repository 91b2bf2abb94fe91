"""Names of the last tier: functions per element, hints of `while`, descriptors' atomics, types."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.language.harness import error_of, from_text, lowered
from tests.targets.everywhere import run_on
from workbench.frontend import Argument
from workbench.language import versions
from workbench.ops import AtomicUpdate, Map, While

#: Where there is no device, code for the chip is assembled and its GPU IR interpreted.
TARGETS = ("interpreter", "cpu", "sm_90a")


# -- map_elementwise ------------------------------------------------------------------------------
COLLATZ = """
    def steps_of(n, most):
        steps = 0
        while n > 1 and steps < most:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        return steps, n.to(tl.float32)

    def kernel(out, last, x, most, B: tl.constexpr):
        i = tl.arange(0, B)
        steps, n = tl.map_elementwise(steps_of, tl.load(x + i), most)
        tl.store(out + i, steps)
        tl.store(last + i, n)
"""


def collatz(n: int, most: int) -> tuple[int, float]:
    steps = 0
    while n > 1 and steps < most:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps, float(n)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("count", [7, 64])
def test_each_element_takes_its_own_way(count: int, target: str):
    x = np.arange(1, count + 1, dtype=np.int32)
    out, last = np.zeros(count, np.int32), np.zeros(count, np.float32)
    run_on(target, from_text(COLLATZ), out=out, last=last, x=x, most=50, B=count)
    want = [collatz(n, 50) for n in x.tolist()]
    assert list(zip(out.tolist(), last.tolist(), strict=True)) == want


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("pack", [2, 4])
def test_neighbours_are_handed_over_together(pack: int, target: str):
    names = [f"{w}{k}" for w in "xy" for k in range(pack)]
    total = " + ".join(names[:pack])
    function = from_text(
        f"""
        def part(%s):
            total = %s
            return %s

        def kernel(out, x):
            i = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
            one, = tl.map_elementwise(part, tl.load(x + i), i * 100, pack={pack})
            tl.store(out + i, one)
    """
        % (", ".join(names), total, ", ".join(f"total + y{k}" for k in range(pack)))
    )
    x, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    run_on(target, function, out=out, x=x)
    want = np.repeat(x.reshape(-1, pack).sum(1), pack) + np.arange(32) * 100
    assert np.array_equal(out, want)


@pytest.mark.parametrize("target", TARGETS)
def test_each_element_has_its_own_rounds(target: str):
    function = from_text("""
        def between(n, most):
            total = 0
            for k in range(n, most):
                total += k
            return total

        def kernel(out, x, most):
            i = tl.arange(0, 8)
            tl.store(out + i, tl.map_elementwise(between, tl.load(x + i), most))
    """)
    x, out = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    run_on(target, function, out=out, x=x, most=6)
    assert out.tolist() == [sum(range(n, 6)) for n in range(8)]


def test_one_result_is_a_block_and_operands_are_broadcast():
    function = from_text("""
        def larger(a, b):
            return a if a > b else b

        def kernel(out, n):
            i = tl.arange(0, 4)
            tl.store(out + tl.arange(0, 16).reshape(4, 4),
                     tl.map_elementwise(larger, i[:, None], i[None, :] * n))
    """)
    out = np.zeros(16, np.int32)
    run_on("cpu", function, out=out, n=1)
    assert np.array_equal(out.reshape(4, 4), np.maximum.outer(np.arange(4), np.arange(4)))
    module, _ = lowered(function, out=out, n=2)
    assert sum(isinstance(op, Map) for op in module.walk()) == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("tl.map_elementwise(f, i, pack=3)", "power of two"),
        ("tl.map_elementwise(f, n)", "needs a block"),
        ("tl.map_elementwise(f, i, pack=16)", "pack=16 on blocks of shape"),
        ("tl.map_elementwise(loads, i, out)", "touches memory"),
        ("tl.map_elementwise(f, i.reshape(2, 4), i)", "do not fit|shape"),
    ],
)
def test_what_it_refuses(call: str, words: str):
    function = from_text(f"""
        def f(a, b=0):
            return a + b

        def loads(a, p):
            return a + tl.load(p)

        def kernel(out, n):
            i = tl.arange(0, 8)
            {call}
    """)
    assert re.search(words, error_of(function, out=Argument("*i32"), n=Argument("i32")).message)


# -- while tl.condition ---------------------------------------------------------------------------
@pytest.mark.parametrize("target", TARGETS)
def test_a_while_may_have_hints(target: str):
    function = from_text("""
        def kernel(out, n):
            k = 0
            while tl.condition(k * k < n, disable_licm=True):
                k += 1
            tl.store(out, k)
    """)
    out = np.zeros(1, np.int32)
    run_on(target, function, out=out, n=50)
    assert out == [8]
    module, _ = lowered(function, out=out, n=50)
    (loop,) = [op for op in module.walk() if isinstance(op, While)]
    assert loop.keeps_invariants


# -- descriptors ----------------------------------------------------------------------------------
UPDATES = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
           "or": np.bitwise_or, "xor": np.bitwise_xor}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("word", UPDATES)
def test_blocks_are_combined_with_an_array_at_once(word: str, target: str):
    """Twice, from a place where rows and columns lie outside."""
    function = from_text(f"""
        def kernel(x, rows, columns):
            d = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [4, 8])
            block = tl.arange(0, 4)[:, None] * 8 + tl.arange(0, 8)[None, :]
            d.atomic_{word}([3, -2], block)
            d.atomic_{word}([3, -2], block)
    """)
    x = (np.arange(50, dtype=np.int32).reshape(5, 10) * 7) % 13
    want = x.copy()
    block = np.arange(32, dtype=np.int32).reshape(4, 8)[:2, 2:]
    for _ in range(2):
        want[3:, :6] = UPDATES[word](want[3:, :6], block)
    run_on(target, function, x=x, rows=5, columns=10)
    assert np.array_equal(x, want)
    module, _ = lowered(function, x=x, rows=5, columns=10)
    orders = {op.order for op in module.walk() if isinstance(op, AtomicUpdate)}
    assert orders == {"relaxed"}


def test_what_a_descriptors_atomic_refuses():
    text = (
        "def k(x):\n    d = tl.make_tensor_descriptor(x, [16], [1], [16])\n"
        "    d.atomic_and([0], tl.zeros((16,), tl.float32))\n"
    )
    assert error_of(text, x=Argument("*f32")).message == "atomic_and takes integers, got fp32"


# -- types ----------------------------------------------------------------------------------------
def test_types_of_the_host():
    assert tl.void.is_void()
    assert not tl.void.is_int()
    assert not tl.void.is_floating()
    assert tl.pi32_t == tl.pointer_type(tl.int32)
    assert tl.block_type(tl.float16, (4, 8)).nbytes == 64
    assert tl.constexpr(3).type == tl.constexpr_type(3)
    pair = tl.tuple_type([tl.int32, tl.float32], ["a", "b"])
    assert (str(pair), pair[1], list(pair)) == (
        "[a:int32,b:fp32]", tl.float32, [tl.int32, tl.float32])  # fmt: skip
    assert tl.TRITON_MAX_TENSOR_NUMEL == 1 << 20
    part = tl.slice(1, 3, None)
    assert (part.start, part.stop, (7, 8, 9)[part]) == (1, 3, (8, 9))
    assert tl.semantic is tl.core
    names = [tl.float8e4b15, tl.float8e4b8, tl.float8e5b16]
    assert [str(name) for name in names] == ["fp8e4b15", "fp8e4b8", "fp8e5b16"]
    assert all(name.is_fp8() for name in names)
    assert tl.str_to_ty("*fp8e4b8") == tl.pointer_type(tl.float8e4b8)


def test_a_result_that_must_be_used():
    function = from_text(
        """
        def kernel(out):
            half(3.0)
            tl.store(out, half(3.0))
        """,
        half=tl.core.must_use_result(lambda_half, "it costs a lot"),
    )
    error = error_of(function, out=Argument("*f32"))
    assert error.message == "the result of half is not used: it costs a lot"


def lambda_half(x: Any) -> Any:
    return x * 0.5


# -- later versions -------------------------------------------------------------------------------
@pytest.fixture
def latest() -> Any:
    versions.claim("3.9.0")
    yield
    versions.claim(versions.DEFAULT)


@pytest.mark.usefixtures("latest")
@pytest.mark.parametrize("target", TARGETS)
def test_functions_of_later_versions(target: str):
    function = from_text("""
        def kernel(out, flag, x):
            i = tl.arange(0, 4)
            block = tl.squeeze(tl.unsqueeze(i, 0), 0)
            tl.static_assert(block.shape == (4,))
            tl.atomic_store(flag, 7, sem="release")
            done = tl.atomic_poll(flag, 7)
            seen = tl.atomic_load(flag, sem="acquire") + tl.to_tensor(1)
            real = tl.atomic_load(x + i, sem="relaxed")
            tl.store(out + i, block * seen + tl.expect_zero(real, real > 9).to(tl.int32) + done)
    """)
    out, flag = np.zeros(4, np.int32), np.zeros(1, np.int32)
    x = np.array([1, 2, 3, 4], np.float32)
    run_on(target, function, out=out, flag=flag, x=x)
    assert out.tolist() == [2, 11, 20, 29]
    assert not hasattr(tl, "advance")


@pytest.mark.usefixtures("latest")
def test_an_aggregate_with_other_fields():
    @tl.core._aggregate
    class Pair:
        first: tl.tensor
        second: tl.tensor

        def __init__(self, first: Any, second: Any) -> None:
            self.first, self.second = first, second

    function = from_text(
        """
        def kernel(out):
            pair = tl.aggregate_replace(Pair(1, 2), second=5)
            tl.store(out, pair.first * 10 + pair.second)
        """,
        Pair=Pair,
    )
    out = np.zeros(1, np.int32)
    run_on("interpreter", function, out=out)
    assert out == [15]
