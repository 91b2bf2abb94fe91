"""Reductions, scans and random numbers: rules 23 to 26, and 30."""

import numpy as np
import pytest

import workbench.language as tl
from tests.execution import execute
from tests.language.harness import (
    dtype_of,
    from_text,
    lowered,
    result,
    run,
    store,
)


# -- 23 to 26: reductions and scans ---------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "x", "want"),
    [
        ("tl.sum(a)", "int8", "int32"), ("tl.sum(a)", "bool", "uint32"),
        ("tl.sum(a)", "uint8", "uint32"),
        ("tl.sum(a)", "float16", "fp16"), ("tl.sum(a)", "bfloat16", "bf16"),
        ("tl.sum(a, dtype=tl.float32)", "float16", "fp32"), ("tl.cumsum(a)", "bfloat16", "fp32"),
        ("tl.cumsum(a)", "int8", "int32"), ("tl.max(a)", "float16", "fp32"),
        ("tl.max(a)", "int8", "int32"),
        ("tl.max(a, 0, return_indices=True)[0]", "float16", "fp16"),
        ("tl.argmax(a, 0)", "float16", "int32"), ("tl.min(a)", "bfloat16", "fp32"),
    ],
)  # fmt: skip
def test_23_accumulator_types(text, x, want):
    assert dtype_of(text, x) == want


def test_23_axes_and_keep_dims():
    def kernel(out, x):
        rows, cols = tl.arange(0, 2), tl.arange(0, 4)
        block = tl.load(x + rows[:, None] * 4 + cols[None, :])
        tl.static_assert(tl.sum(block, axis=1, keep_dims=True).shape == (2, 1))
        tl.static_assert(tl.max(block, keep_dims=True).shape == (1, 1))
        centred = block - tl.sum(block, axis=-1, keep_dims=True) / 4
        tl.store(out + rows[:, None] * 4 + cols[None, :], centred)

    x = np.arange(8, dtype=np.float32).reshape(2, 4) ** 2
    assert np.allclose(result(kernel, np.float32, (2, 4), x=x), x - x.mean(1, keepdims=True))


def test_24_a_nan_loses_unless_propagated():
    x = np.array([np.nan, 1, 2, 3], np.float32)
    given = {"x": x, "y": np.zeros(4, np.float32), "n": 4, "B": 4}
    assert result(store("tl.maximum(a, b)"), np.float32, 4, **given).tolist() == [0, 1, 2, 3]
    propagated = result(
        store("tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)"), np.float32, 4, **given
    )
    assert np.isnan(propagated[0])
    assert result(store("tl.max(a, axis=0)"), np.float32, 4, **given).tolist() == [3] * 4


def test_25_ties_take_the_smallest_index():
    x = np.array([1, 3, 3, 0], np.float32)
    given = {"x": x, "y": -x, "n": 4, "B": 4}
    assert result(store("tl.argmax(a, 0)"), np.int32, 4, **given).tolist() == [1] * 4
    assert result(store("tl.argmin(b, 0)"), np.int32, 4, **given).tolist() == [1] * 4
    assert (
        result(store("a.max(0, return_indices=True)[1]"), np.int32, 4, **given).tolist() == [1] * 4
    )


def test_26_user_reductions_and_scans():
    def fold(a, b):
        return a * 10 + b

    def welford(mean1, m1, n1, mean2, m2, n2):
        n = n1 + n2
        d = mean2 - mean1
        return mean1 + d * n2 / n, m1 + m2 + d * d * n1 * n2 / n, n

    def kernel(out, x):
        i = tl.arange(0, 4)
        a = tl.load(x + i)
        mean, m, count = tl.reduce(
            (a, tl.zeros_like(a), tl.full((4,), 1.0, tl.float32)), 0, welford
        )
        tl.store(out, mean)
        tl.store(out + 1, m / count)
        tl.store(out + 2 + i, tl.cumsum(a, 0, reverse=True))

    x = np.array([1, 2, 4, 9], np.float32)
    got = result(kernel, np.float32, 6, x=x)
    assert np.allclose(got[:2], [x.mean(), x.var()])
    assert got[2:].tolist() == [16, 15, 13, 9]

    def integers(out, x):
        i = tl.arange(0, 4)
        tl.store(out + i, tl.associative_scan(tl.load(x + i), 0, later))

    def later(a, b):
        return b + a * 0

    x = np.array([3, 1, 2, 5], np.int32)
    assert result(integers, np.int32, 4, x=x).tolist() == [3, 1, 2, 5]


def test_26_combine_regions_of_plain_functions_are_one_op():
    from workbench.ops import Reduce, combine_function

    def add(a, b):
        return a + b

    def kernel(out, x):
        i = tl.arange(0, 4)
        tl.store(out, tl.reduce(tl.load(x + i), 0, add))

    module, _ = lowered(kernel, out=np.zeros(1, np.int32), x=np.zeros(4, np.int32))
    (reduce,) = [op for op in module.walk() if isinstance(op, Reduce)]
    row = combine_function(reduce.combine)
    assert row is not None
    assert row.name == "add"


# -- 30: random numbers ---------------------------------------------------------------------
def philox(seed: int, offsets: np.ndarray) -> np.ndarray:
    """Philox-4x32-10 as in the paper, all four words."""
    mask = 0xFFFFFFFF
    words = []
    for offset in offsets.tolist():
        c = [offset & mask, offset >> 32 & mask, 0, 0]
        k = [seed & mask, seed >> 32 & mask]
        for _ in range(10):
            a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [(b >> 32) ^ c[1] ^ k[0], b & mask, (a >> 32) ^ c[3] ^ k[1], a & mask]
            k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
        words.append(c)
    return np.array(words, np.uint64).astype(np.uint32)


@pytest.mark.parametrize("seed", [0, 1234, 2**40 + 17])
def test_30_philox_streams(seed):
    def kernel(out, bits, normal, seed):
        i = tl.arange(0, 16)
        tl.store(out + i, tl.rand(seed, i + 5))
        _, _, _, d = tl.randint4x(seed, i + 5)
        tl.store(bits + i, d)
        tl.store(normal + i, tl.randn(seed, i + 5))

    out, bits, normal = np.zeros(16, np.float32), np.zeros(16, np.uint32), np.zeros(16, np.float32)
    run(kernel, out=out, bits=bits, normal=normal, seed=seed)
    words = philox(seed, np.arange(5, 21))

    def uniform(word):
        signed = word.astype(np.uint32).view(np.int32).astype(np.int64)
        folded = np.where(signed < 0, -signed - 1, signed)
        return (folded.astype(np.float32) * np.float32(4.6566127342e-10)).astype(np.float32)

    u1, u2 = uniform(words[:, 0]), uniform(words[:, 1])
    assert np.array_equal(bits, words[:, 3])
    assert np.array_equal(out, u1)
    radius = np.sqrt(-2 * np.log(np.maximum(u1, 1e-7).astype(np.float64)))
    # fp32 all through: a few ulp of the angle and of the logarithm.
    assert np.allclose(
        normal, radius * np.cos(6.283185307179586 * u2.astype(np.float64)), atol=2e-5
    )


BRANCHING = """
    def larger(a, b):
        if a > b:
            r = a
        else:
            r = b
        return r

    def counted(a, b):
        r = a
        for i in range(0, b):
            r += 1
        return r

    def waited(a, b):
        r, left = a, b
        while left > 0:
            left -= 1
            r += 1
        return r

    def kernel(out, x):
        i = tl.arange(0, 16)
        v = tl.load(x + i)
        tl.store(out, tl.reduce(v, 0, larger))
        tl.store(out + 1, tl.reduce(v, 0, counted))
        tl.store(out + 2, tl.reduce(v, 0, waited))
        tl.store(out + 16 + i, tl.associative_scan(v, 0, larger))
        tl.store(out + 32 + i, tl.associative_scan(v, 0, counted))
"""


@pytest.mark.parametrize("target", ["interpreter", "cpu", "sm_90a"])
def test_a_combine_function_may_branch_and_loop_by_its_elements(target):
    x = np.array([3, 0, 7, 1, 2, 0, 0, 5, 1, 1, 9, 0, 4, 2, 1, 6], np.int32)
    out = np.zeros(48, np.int32)
    module, _ = lowered(from_text(BRANCHING), out=out, x=x)
    execute(module, (1,), [out, x], target)
    assert out[:3].tolist() == [9, x.sum(), x.sum()]
    assert out[16:32].tolist() == np.maximum.accumulate(x).tolist()
    assert out[32:].tolist() == x.cumsum().tolist()
