"""Kinds of value, promotion and operators: rules 1 to 9."""

import numpy as np
import pytest
import torch

import workbench as wb
import workbench.language as tl
from tests.language.harness import (
    dtype_of,
    error_of,
    from_text,
    lowered,
    result,
    run,
    store,
)


# -- 1, 2: kinds of value -------------------------------------------------------------------
def test_01_a_full_reduction_and_an_empty_shape_give_scalars():
    def kernel(out, B: tl.constexpr):
        total = tl.sum(tl.arange(0, B))
        tl.static_assert(len(total.shape) == 0)
        tl.static_assert(len(tl.full((), 3, tl.int32).shape) == 0)
        tl.store(out, total + tl.full((), 3, tl.int32))

    assert result(kernel, np.int32, B=7) == [24]


def test_01_any_extent_is_a_tile_and_is_remarked_upon():
    def kernel(out, B: tl.constexpr):
        tl.store(out + tl.arange(0, B), tl.arange(0, B))

    _, remarks = lowered(kernel, out=np.zeros(3, np.int32), B=3)
    assert [r.text for r in remarks.items] == [
        "not portable to Triton: extent 3 is not a power of two"
    ]


def test_02_a_plain_assignment_makes_a_scalar_that_may_still_serve_as_constexpr():
    def kernel(out, B: tl.constexpr):
        n = B
        half = n // 2
        tl.store(out + tl.arange(0, half), tl.arange(0, half))

    out = np.zeros(4, np.int32)
    _, remarks = lowered(kernel, out=out, B=8)
    assert any("would have to be a tl.constexpr" in r.text for r in remarks.items)
    run(kernel, out=out, B=8)
    assert out.tolist() == [0, 1, 2, 3]


def test_02_an_assigned_float_is_strong():
    assert dtype_of("a * 0.5", "float16") == "fp16"
    kernel = from_text("""
        def kernel(out, x):
            half = 0.5
            tl.static_assert((tl.load(x) * half).dtype == tl.float32)
    """)
    lowered(kernel, out=np.zeros(1, np.float32), x=np.zeros(1, np.float16))


def test_02_an_annotated_constexpr_stays_weak_and_is_not_assigned_again():
    def kernel(out, x):
        half: tl.constexpr = 0.5
        tl.static_assert((tl.load(x) * half).dtype == tl.float16)
        tl.store(out, half)

    assert result(kernel, x=np.zeros(1, np.float16)) == [0.5]


def test_02_a_plain_assignment_makes_a_variable_of_a_constexpr():
    def kernel(out, n, B: tl.constexpr):
        tl.store(out + tl.arange(0, B), 9)
        B = min(B, n)
        tl.store(out, B)
        if n > 2:
            B = B * 2
        for i in range(n):
            B += i
        tl.store(out + 1, B)

    assert result(kernel, np.int32, 4, n=3, B=4).tolist() == [3, 9, 9, 9]
    assert result(kernel, np.int32, 4, n=1, B=4).tolist() == [1, 1, 9, 9]


def test_02_a_constexpr_annotation_is_no_check():
    def kernel(out, n):
        twice: tl.constexpr = n * 2
        tl.store(out, twice + 1)

    _, remarks = lowered(kernel, out=np.zeros(1, np.int32), n=3)
    assert any("'twice' is annotated as a constexpr" in r.text for r in remarks.items)
    assert result(kernel, np.int32, 1, n=3).tolist() == [7]


def test_09_conditions_have_methods():
    def kernel(out, x, n):
        v = tl.load(x + tl.arange(0, 4))
        tl.store(out + tl.arange(0, 4), (v > 1).logical_and(v < n))
        tl.store(out + 4 + tl.arange(0, 4), (v < 1).logical_or(v > n))

    x = np.arange(4, dtype=np.float32)
    assert result(kernel, np.int32, 8, x=x, n=3).tolist() == [0, 0, 1, 0, 1, 0, 0, 0]
    kernel = from_text("def kernel(out, x):\n    tl.store(out, tl.load(x).logical_and(True))\n")
    assert "'and' needs a condition (int1)" in error_of(kernel, out=x, x=x).message


# -- 3 to 5: promotion ----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "x", "want"),
    [
        ("a * 0.5", "float16", "fp16"), ("a + 1", "int8", "int8"), ("a + True", "int8", "int8"),
        ("a * 2", "bfloat16", "bf16"), ("a * 0.5", "int8", "fp32"), ("a + 1", "bool", "int32"),
        ("a + 1e300", "int32", "fp64"), ("a + 1e300", "float32", "fp32"),
        ("tl.where(a > 0, a, 0.0)", "float16", "fp16"), ("a * s", "float16", "fp32"),
        ("a / 2", "float16", "fp32"), ("a / 2", "int32", "fp32"), ("a % 2", "bfloat16", "fp32"),
        ("a + 2**31", "int64", "int64"), ("a << 1", "uint8", "uint8"),
        ("tl.maximum(a, 0.0)", "float16", "fp32"), ("tl.minimum(a, 3)", "float16", "fp16"),
        ("tl.maximum(a, a)", "bfloat16", "fp32"), ("-a", "float16", "fp16"),
        ("a > 0.5", "float16", "int1"), ("tl.exp(a)", "float16", "fp32"),
    ],
)  # fmt: skip
def test_03_04_weak_numbers(text, x, want):
    assert dtype_of(text, x) == want


@pytest.mark.parametrize(
    ("x", "y", "want"),
    [
        ("float64", "float32", "fp64"), ("float32", "int64", "fp32"),
        ("float16", "bfloat16", "fp16"), ("bfloat16", "bfloat16", "bf16"),
        ("float16", "int32", "fp16"), ("bfloat16", "int32", "fp32"),
        ("float8_e5m2", "float8_e5m2", "fp8e5"), ("float8_e5m2", "float8_e4m3fn", "fp16"),
        ("bfloat16", "float8_e5m2", "fp32"), ("int8", "int32", "int32"),
        ("int32", "uint32", "uint32"),
        ("int64", "uint32", "int64"), ("int8", "uint8", "uint8"), ("bool", "bool", "int1"),
        ("bool", "int32", "int32"), ("uint8", "uint16", "uint16"),
    ],
)  # fmt: skip
def test_05_promotion_of_two_tensors(x, y, want):
    assert dtype_of("a + b", x, y) == dtype_of("b + a", x, y) == want


def test_05_true_plus_true_is_false():
    both = np.ones(4, bool)
    assert result(store("a + b"), np.int32, 4, x=both, y=both, n=4, B=4).tolist() == [0] * 4


def test_03_numbers_that_do_not_fit_are_errors():
    arrays = {"x": np.zeros(4, np.int8), "y": np.zeros(4, np.uint32)}
    error = error_of(store("a + 300"), out=np.zeros(4), **arrays, n=4, B=4)
    assert "300 does not fit int8 (-128 to 127), the type of 'a'" in error.message
    error = error_of(store("b + -1"), out=np.zeros(4), **arrays, n=4, B=4)
    assert "-1 does not fit uint32" in error.message
    arrays["x"] = np.zeros(4, np.int32)
    error = error_of(store("a & 0xffffffff"), out=np.zeros(4), **arrays, n=4, B=4)
    assert "4294967295 does not fit int32" in error.message


def test_05_fp8_with_int_is_an_error():
    arrays = {"x": torch.zeros(4, dtype=torch.float8_e5m2), "y": np.zeros(4, np.int32)}
    error = error_of(store("a + b"), out=np.zeros(4), **arrays, n=4, B=4)
    assert error.message == "'+' of fp8e5 and int32 has no common type"


# -- 6 to 9: operators ----------------------------------------------------------------------
def test_06_division_truncates_on_tensors_and_floors_on_constexprs():
    x, y = np.array([-7, 7, -7, 7], np.int32), np.array([2, 2, -2, -2], np.int32)
    given = {"x": x, "y": y, "n": 4, "B": 4}
    assert result(store("a // b"), np.int32, 4, **given).tolist() == [-3, 3, 3, -3]
    assert result(store("a % b"), np.int32, 4, **given).tolist() == [-1, 1, -1, 1]
    assert result(store("a / b"), np.float32, 4, **given).tolist() == [-3.5, 3.5, 3.5, -3.5]
    assert result(store("-7 // 2"), np.int32, 4, **given).tolist() == [-4] * 4
    assert result(store("tl.cdiv(a, 2)"), np.int32, 4, **given).tolist() == [-3, 4, -3, 4]

    def kernel(out, n):
        seven = -7
        tl.store(out, seven // 2)
        tl.store(out + 1, n // 2)
        tl.store(out + 2, n % 2)

    assert result(kernel, np.int32, 3, n=-7).tolist() == [-3, -3, -1]


def test_06_mixed_signs_are_an_error():
    arrays = {"x": np.zeros(4, np.int32), "y": np.zeros(4, np.uint32)}
    assert "one is signed" in error_of(store("a // b"), out=arrays["x"], **arrays, n=4, B=4).message
    floats = {"x": np.zeros(4, np.float32), "y": np.zeros(4, np.float32)}
    assert (
        "'//' takes integers"
        in error_of(store("a // b"), out=np.zeros(4), **floats, n=4, B=4).message
    )


def test_06_float_remainder_is_fmod():
    x, y = np.array([-7.5, 7.5, 5, -1], np.float32), np.array([2, -2, 3, 4], np.float32)
    assert np.array_equal(result(store("a % b"), np.float32, 4, x=x, y=y, n=4, B=4), np.fmod(x, y))


def test_07_signedness_of_comparisons_and_shifts():
    x = np.array([0xFFFFFFFF, 1, 2, 3], np.uint32)
    signed = x.view(np.int32)
    given = {"y": signed, "n": 4, "B": 4}
    assert result(store("a > 5"), np.int32, 4, x=x, **given).tolist() == [1, 0, 0, 0]
    assert result(store("a > 5"), np.int32, 4, x=signed, **given).tolist() == [0] * 4
    assert result(store("a >> 1"), np.int64, 4, x=x, **given).tolist() == [0x7FFFFFFF, 0, 1, 1]
    assert result(store("a >> 1"), np.int64, 4, x=signed, **given).tolist() == [-1, 0, 1, 1]


def test_07_nan_compares_unequal_only():
    x = np.array([np.nan, 1, np.nan, 2], np.float32)
    given = {"x": x, "y": x, "n": 4, "B": 4}
    for text, want in (
        ("a == b", [0, 1, 0, 1]),
        ("a != b", [1, 0, 1, 0]),
        ("a >= b", [0, 1, 0, 1]),
    ):
        assert result(store(text), np.int32, 4, **given).tolist() == want


def test_08_unary_operators():
    x = np.array([0.0, -0.0, 1, -1], np.float32)
    given = {"y": x, "n": 4, "B": 4}
    negated = result(store("-a"), np.float32, 4, x=x, **given)
    assert not np.signbit(negated[:2]).any()
    ints = np.array([0, 1, -1, 7], np.int32)
    assert result(store("~a"), np.int32, 4, x=ints, **given).tolist() == (~ints).tolist()
    assert result(store("not (a > 0)"), np.int32, 4, x=ints, **given).tolist() == [1, 0, 1, 0]
    assert "'not' needs a condition" in error_of(store("not a"), out=ints, x=ints, **given).message
    assert "'~' takes integers" in error_of(store("~a"), out=x, x=x, **given).message


@wb.jit
def negated(out, x):
    i = tl.arange(0, 256)
    tl.store(out + i, (-tl.load(x + i)).to(tl.uint8, bitcast=True))


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize(
    "dtype", ["float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz"]
)
def test_08_a_minus_turns_the_sign_of_every_small_float(dtype, target):
    """Of infinities and NaNs too: no number is rounded, which would saturate."""
    codes = torch.arange(256, dtype=torch.uint8)
    out = torch.zeros_like(codes)
    negated[(1,)](out, codes.view(getattr(torch, dtype)), target=target)
    got = out.numpy()
    numbers = ~codes.view(getattr(torch, dtype)).float().isnan().numpy()
    expected = np.where(codes.numpy() & 0x7F, codes.numpy() ^ 0x80, 0)  # 0 - x: both zeros are +0
    assert (got == expected)[numbers].all()
    assert torch.from_numpy(got).view(getattr(torch, dtype)).float().isnan()[~numbers].all()


@wb.jit
def times_one(out, x):
    i = tl.arange(0, 4)
    v = tl.load(x + i)
    tl.store(out + i, v * 1.0)


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_05_a_product_with_one_saturates_as_any_product_of_small_floats(target):
    x = torch.tensor([0x7C, 0xFC, 0x3C, 0x80], dtype=torch.uint8)
    out = torch.zeros(4, dtype=torch.uint8)
    small = torch.float8_e5m2
    times_one[(1,)](out.view(small), x.view(small), target=target)
    assert out.tolist() == [0x7B, 0xFB, 0x3C, 0x80]


def test_08_powers_and_matrix_product_by_operator():
    x = np.array([1.5, 2, 3, 4], np.float32)
    given = {"x": x, "y": x, "n": 4, "B": 4}
    assert result(store("a ** 3"), np.float32, 4, **given).tolist() == (x**3).tolist()
    assert result(store("a ** -1"), np.float32, 4, **given).tolist() == (1 / x).tolist()
    assert result(store("a ** 0"), np.float32, 4, **given).tolist() == [1] * 4
    assert np.allclose(result(store("a ** 0.5"), np.float32, 4, **given), np.sqrt(x))
    assert np.allclose(result(store("a ** b"), np.float32, 4, **given), x**x, rtol=1e-5)


def test_09_and_or_short_circuit_only_at_compile_time():
    def kernel(out, x, n, FLAG: tl.constexpr):
        i = tl.arange(0, 4)
        if FLAG and n > 1:
            tl.store(out + i, tl.load(x + i, mask=(i < n) and (i > 0), other=9))
        scale = FLAG or 5
        tl.store(out + 4, scale)

    x = np.arange(4, dtype=np.int32)
    assert result(kernel, np.int32, 5, x=x, n=3, FLAG=7).tolist() == [9, 1, 2, 9, 7]
    assert result(kernel, np.int32, 5, x=x, n=3, FLAG=0).tolist() == [0, 0, 0, 0, 5]


def test_09_wide_operands_fail_and_chains_work():
    ints = np.arange(4, dtype=np.int32)
    given = {"x": ints, "y": ints, "n": 4, "B": 4}
    assert "'and' needs a condition" in error_of(store("a and b"), out=ints, **given).message
    assert result(store("0 < a < 3"), np.int32, 4, **given).tolist() == [0, 1, 1, 0]
    assert result(store("1 if 0 < 5 < 3 else 2"), np.int32, 4, **given).tolist() == [2] * 4


# -- dtypes ---------------------------------------------------------------------------------
QUESTIONS = [name for name in dir(tl.float32) if name.startswith("is_") and name != "is_dtype"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_dtypes_answer_in_kernels_as_on_the_host(question: str):
    kernel = from_text(f"""
        def kernel(out, x, y):
            first: tl.constexpr = x.dtype.element_ty.{question}()
            if first:
                tl.store(out, 1)
            if y.dtype.element_ty.{question}() or tl.load(y).dtype.{question}():
                tl.store(out + 1, 1)
    """)
    x, y = np.zeros(1, np.int16), np.zeros(1, np.float32)
    want = [getattr(t, question)() for t in (tl.int16, tl.float32)]
    assert result(kernel, np.int32, 2, x=x, y=y).tolist() == [int(answer) for answer in want]


def test_dtypes_tell_their_bounds_in_kernels():
    def kernel(out, x):
        tl.store(out, x.dtype.element_ty.get_int_max_value())
        tl.store(out + 1, x.dtype.element_ty.get_int_min_value())

    assert result(kernel, np.int32, 2, x=np.zeros(1, np.int16)).tolist() == [32767, -32768]
