"""Products and casts: rules 27 and 28."""

import numpy as np
import pytest
import torch

import workbench.language as tl
from tests.language.harness import (
    error_of,
    from_text,
    lowered,
    result,
    run,
    store,
)


# -- 27: dot --------------------------------------------------------------------------------
def product(a_text: str = "a", more: str = "") -> object:
    return from_text(f"""
        def kernel(out, x, y, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
            m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
            a = tl.load(x + m[:, None] * K + k[None, :])
            b = tl.load(y + k[:, None] * N + n[None, :])
            tl.store(out + m[:, None] * N + n[None, :], tl.dot({a_text}, b{more}))
    """)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
def test_27_products_of_each_dtype(dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-4, 5, s).astype(dtype) for s in ((4, 16), (16, 8)))
    out = np.int32 if dtype == np.int8 else np.float64
    got = result(product(), out, (4, 8), x=x, y=y, M=4, N=8, K=16)
    assert np.array_equal(got, x.astype(out) @ y.astype(out))


def test_27_accumulators_and_results():
    half = np.zeros((16, 16), np.float16)
    whole = np.zeros((16, 16), np.int8)
    sizes = {"M": 16, "N": 16, "K": 16}
    acc = ", acc=tl.zeros((M, N), tl.int32)"
    error = error_of(product(more=acc), out=half, x=whole, y=whole, **sizes)
    assert error.hint == "pass out_dtype=tl.int32"
    lowered(product(more=acc + ", out_dtype=tl.int32"), out=half, x=whole, y=whole, **sizes)
    error = error_of(product(more=", out_dtype=tl.bfloat16"), out=half, x=half, y=half, **sizes)
    assert error.message == "dot cannot give bf16"
    error = error_of(product("a.to(tl.float32)"), out=half, x=half, y=half, **sizes)
    assert "dot needs operands of one dtype" in error.message
    long = np.zeros((16, 16), np.int32)
    error = error_of(product(), out=long, x=long, y=long, **sizes)
    assert error.hint is not None
    assert "tl.int8 where all numbers are from -128 to 127" in error.hint
    both = ", input_precision='ieee', allow_tf32=False"
    assert "both" in error_of(product(more=both), out=half, x=half, y=half, **sizes).message


def test_27_operands_of_a_loop_are_read_in_branches_too():
    def kernel(out, x, y, n, m, K: tl.constexpr):
        i = tl.arange(0, 16)
        first = second = third = tl.zeros((16, 16), tl.float32)
        for k in range(0, n, K):
            at = i[:, None] * n + k + tl.arange(0, K)[None, :]
            a, b = tl.load(x + at), tl.load(y + at)
            first += tl.dot(a, tl.trans(a))
            if k < m:
                second += tl.dot(b, tl.trans(a))
                third += tl.dot(b, tl.trans(b))
        at = i[:, None] * 16 + i[None, :]
        tl.store(out + at, first)
        tl.store(out + 256 + at, second)
        tl.store(out + 512 + at, third)

    rng = np.random.default_rng(0)
    x, y = (rng.integers(-4, 5, (16, 80)).astype(np.float16) for _ in "xy")
    got = result(kernel, np.float32, (3, 16, 16), x=x, y=y, n=80, m=40, K=16)
    a, b = x.astype(np.float32), y.astype(np.float32)
    want = a @ a.T, b[:, :48] @ a[:, :48].T, b[:, :48] @ b[:, :48].T
    assert np.array_equal(got, np.stack(want))


def test_27_precision_and_leading_axes():
    from workbench.ops import Dot

    def kernel(out, x, P: tl.constexpr):
        i = tl.arange(0, 16)
        a = tl.load(x + i[:, None] * 16 + i[None, :])
        deep = tl.broadcast_to(a[None, None], (2, 3, 16, 16))
        both = tl.dot(deep, deep, input_precision=P)
        tl.static_assert(both.shape == (2, 3, 16, 16))
        tl.store(out, tl.sum(both))

    x = np.eye(16, dtype=np.float32)
    module, _ = lowered(kernel, out=x, x=x, P="tf32x3")
    (dot,) = [op for op in module.walk() if isinstance(op, Dot)]
    assert dot.precision == "tf32x3"
    assert result(kernel, x=x, P=None) == [96]


# -- 28: casts ------------------------------------------------------------------------------
NAMES = {
    "bool": "int1", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint8": "uint8", "float16": "float16", "bfloat16": "bfloat16", "float32": "float32",
    "float64": "float64", "float8_e4m3fn": "float8e4nv", "float8_e5m2": "float8e5",
}  # fmt: skip


@pytest.mark.parametrize("source", list(NAMES))
@pytest.mark.parametrize("to", list(NAMES))
def test_28_casts_between_all_dtypes_agree_with_torch(source, to):
    kernel = from_text(f"""
        def kernel(out, x):
            i = tl.arange(0, 8)
            tl.store(out + i, tl.load(x + i).to(tl.{NAMES[to]}))
    """)
    values = torch.tensor([0, 1, 2, 3, 5.5, 100, 1.25, 0.3])
    x = values.to(getattr(torch, source))
    out = torch.zeros(8, dtype=getattr(torch, to))
    run(kernel, out=out, x=x)
    assert torch.equal(out.to(torch.float64), x.to(getattr(torch, to)).to(torch.float64))


def test_28_rounding_and_bits():
    x = np.array([1 + 2**-11, 1 + 3 * 2**-11, -1 - 2**-11, 70000], np.float32)
    given = {"x": x, "y": x, "n": 4, "B": 4}
    rtz = result(store("a.to(tl.float16, fp_downcast_rounding='rtz')"), np.float16, 4, **given)
    assert rtz[:3].tolist() == [1, 1 + 2**-10, -1]
    bits = result(store("a.to(tl.int32, bitcast=True)"), np.int32, 4, **given)
    assert bits.tolist() == x.view(np.int32).tolist()
    error = error_of(store("a.to(tl.int16, bitcast=True)"), out=x, **given)
    assert error.message == "bitcast from fp32 (32 bits) to int16 (16 bits)"
    same = result(store("a.to(tl.float32, fp_downcast_rounding='rtz')"), np.float32, 4, **given)
    assert same.tolist() == x.tolist()
    error = error_of(store("a.to(tl.float64, fp_downcast_rounding='rtz')"), out=x, **given)
    assert "floats to narrower floats" in error.message
