"""The thirty rules of the language, each by what a small kernel computes."""

import numpy as np
import pytest
import torch

import workbench.language as tl
from tests.language.harness import Typed, error_of, from_text, lowered, result, run
from workbench.frontend import Options
from workbench.ir import F32, I64, element_of
from workbench.ops import AddPointer, Cast, For, If, While

N = tl.constexpr(4)


def store(text: str) -> object:
    """Return a kernel that stores the value of an expression, one element per offset."""
    return from_text(f"""
        def kernel(out, x, y, n, B: tl.constexpr):
            i = tl.arange(0, B)
            a = tl.load(x + i)
            b = tl.load(y + i)
            tl.store(out + i, {text})
    """)


def dtype_of(text: str, x: str, y: str = "float32") -> str:
    """Return the dtype of an expression of `a` and `b`, loaded from arrays of these dtypes."""
    seen = []
    kernel = from_text(
        f"""
        def kernel(x, y, s, B: tl.constexpr):
            i = tl.arange(0, B)
            a = tl.load(x + i)
            b = tl.load(y + i)
            look({text})
        """,
        look=look_into(seen),
    )
    arrays = [torch.zeros(4, dtype=getattr(torch, name)) for name in (x, y)]
    lowered(kernel, x=arrays[0], y=arrays[1], s=0.5, B=4)
    return seen[0]


def look_into(seen: list) -> object:
    def look(value):
        seen.append(str(getattr(value, "dtype", type(value).__name__)))

    look.__signature_row__ = tl.load.__signature_row__
    return look


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


def test_10_conditional_expressions():
    def kernel(out, x, n):
        first = tl.load(x) if n > 0 else -1.0
        second = n if n < 3 else 3  # noqa: FURB136
        tl.store(out, first + second)

    x = np.full(1, 7, np.float32)
    assert result(kernel, x=x, n=1) == [8]
    assert result(kernel, x=x, n=-2) == [-3]


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


# -- 14 to 17: arguments, globals, calls ----------------------------------------------------
def test_14_a_number_known_at_compile_time_has_the_methods_of_a_tensor():
    def kernel(out, stride):
        tl.store(out, stride.to(tl.float32) + 0.5)
        tl.static_assert(stride.dtype == tl.int32)

    from workbench.frontend import Argument

    assert result(kernel, stride=Argument(None, 1)) == [1.5]


def test_15_annotations_mark_constexprs_and_read_only_pointers():
    kernel = from_text("""
        def kernel(out, x: tl.const, y: "*kfp32", N: "tl.constexpr", M: tl.constexpr = 2):
            tl.static_assert(N == 4 and M == 2)
            i = tl.arange(0, N)
            tl.store(out + i, tl.load(x + i) + tl.load(y + i) * M)
    """)
    x, y = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    assert result(kernel, np.float32, 4, x=x, y=y, N=4).tolist() == [2, 3, 4, 5]
    for annotation in ("tl.const", '"*kfp32"', '"const"'):
        error = error_of(f"def kernel(x: {annotation}):\n    tl.store(x, 1.0)\n", x=y)
        assert "constant memory" in error.message


def test_15_constexpr_arguments_are_hashable():
    import workbench as wb

    def kernel(out, N: tl.constexpr):
        tl.store(out, N[0])

    with pytest.raises(wb.KernelError, match="constexpr 'N' cannot be a list"):
        wb.jit(kernel)[(1,)](np.zeros(1, np.float32), N=[1, 2])
    out = np.zeros(1, np.float32)
    wb.jit(kernel)[(1,)](out, N=(3, 2))
    assert out.tolist() == [3]


def test_16_constexpr_globals_and_closures():
    scale = tl.constexpr(3)

    def kernel(out):
        tl.store(out, N * scale)

    assert result(kernel, np.int32) == [12]


def test_17_calls_inline_with_defaults_keywords_and_star():
    def scaled(x, by=2, *, plus: tl.constexpr = 0):
        return x * by + plus, x

    def kernel(out, n):
        both = (n, 5)
        first, _ = scaled(*both)
        second, again = scaled(n, plus=100)
        tl.store(out, first)
        tl.store(out + 1, second + again)

    assert result(kernel, np.int32, 2, n=7).tolist() == [35, 121]


def test_17_a_constexpr_parameter_of_a_function_takes_run_time_values():
    def shifted(x, by: tl.constexpr, both: tl.constexpr):
        by += both[0]
        return x + by

    def kernel(out, n, B: tl.constexpr):
        at = tl.arange(0, B)
        tl.store(out + at, shifted(at, n, (n, 1)))

    _, remarks = lowered(kernel, out=np.zeros(4, np.int32), n=3, B=4)
    assert any("'by' of shifted is annotated as a constexpr" in r.text for r in remarks.items)
    assert result(kernel, np.int32, 4, n=3, B=4).tolist() == [6, 7, 8, 9]


def test_17_recursion_ends_by_constexprs():
    def power(x, n: tl.constexpr):
        if n == 0:
            return 1
        return x * power(x, n - 1)

    def kernel(out, n):
        tl.store(out, power(n, 4))

    assert result(kernel, np.int32, n=3) == [81]

    def endless(x):
        return endless(x)

    def bad(out):
        tl.store(out, endless(1))

    assert "64 levels deep" in error_of(bad, out=np.zeros(1)).message


def test_17_tuples_and_comprehensions():
    def kernel(out, n):
        shape = (2, 3) + (4,)  # noqa: RUF005
        tl.static_assert(shape[1:] == (3, 4))
        items = [n * k for k in shape if k > 2]
        a, (b, c) = items[0], (items[1], len(shape))
        tl.store(out, a + b + c)

    assert result(kernel, np.int32, n=10) == [73]


# -- 18: exact index arithmetic -------------------------------------------------------------
def test_18_index_arithmetic_keeps_its_exact_value():
    def kernel(out, n):
        product = n * n
        tl.store(out, product // n)
        tl.store(out + 1, product)
        tl.store(out + 2, product > 5)

    wrapped = (65537 * 65537) & 0xFFFFFFFF
    assert result(kernel, np.int64, 3, n=65537).tolist() == [65537, wrapped, 1]


def test_18_wrap_index_wraps_as_triton_does():
    def kernel(out, n):
        tl.store(out, (n * n) % 1000)

    out = np.zeros(1, np.int64)
    run(kernel, out=out, n=65537, options=Options(wrap_index=True))
    assert out == [np.int64(65537 * 65537 & 0xFFFFFFFF) % 1000]
    module, _ = lowered(kernel, out=out, n=65537, options=Options(wrap_index=True))
    assert {str(element_of(v.type)) for op in module.walk() for v in op.results} <= {"i32", "i64"}


def test_18_carried_integers_wrap_unless_they_advance_evenly():
    def kernel(out, n):
        even = 0
        hashed = 1
        for i in range(n):
            even += 2147483647
            hashed = hashed * 31 + i
        tl.store(out, even // 2147483647)
        tl.store(out + 1, hashed)

    hashed = 1
    for i in range(20):
        hashed = (hashed * 31 + i) & 0xFFFFFFFF
    hashed -= (hashed >> 31) << 32
    assert result(kernel, np.int64, 2, n=20).tolist() == [20, hashed]


def test_18_pointers_move_by_elements_with_signed_and_unsigned_offsets():
    def kernel(out, x, back):
        p = x + 3
        tl.store(out, tl.load(p - 1))
        tl.store(out + 1, tl.load(p + tl.load(back)))
        tl.store(out + 2, tl.load(1 + x))

    x = np.arange(8, dtype=np.float32)
    got = result(kernel, np.float32, 3, x=x, back=np.array([-3], np.int8))
    assert got.tolist() == [2, 0, 1]


def test_18_unsigned_arithmetic_wraps():
    x = np.array([2**32 - 1, 5, 6, 7], np.uint32)
    assert result(store("a + 2"), np.int64, 4, x=x, y=x, n=4, B=4).tolist() == [1, 7, 8, 9]


def test_18_pointers_to_pointers():
    def kernel(out, table):
        address = tl.load(table)
        tl.store(out, tl.load(address.to(tl.pointer_type(tl.float32)) + 1))

    x = np.array([1, 42], np.float32)
    module, _ = lowered(kernel, out=x, table=np.array([x.ctypes.data], np.int64))
    assert sum(isinstance(op, AddPointer) for op in module.walk()) == 1


# -- 19, 20: loads and stores ---------------------------------------------------------------
def test_19_masks_broadcast_both_ways_for_loads_and_values_for_stores():
    def kernel(out, x):
        rows, cols = tl.arange(0, 2), tl.arange(0, 4)
        block = tl.load(x + cols[None, :], mask=rows[:, None] < 1, other=-1)
        tl.store(out + rows[:, None] * 4 + cols[None, :], block + 0.5, mask=cols[None, :] != 2)

    x = np.arange(4, dtype=np.float32)
    got = result(kernel, np.float32, (2, 4), x=x)
    assert got.tolist() == [[0.5, 1.5, 0, 3.5], [-0.5, -0.5, 0, -0.5]]


def test_19_masked_off_lanes_are_zero_and_never_touched():
    def kernel(out, x, n):
        i = tl.arange(0, 8)
        tl.store(out + i, tl.load(x + i * 1000000000, mask=i < n))

    assert result(kernel, np.float32, 8, x=np.full(1, 5, np.float32), n=1).tolist() == [5] + [0] * 7


def test_19_a_store_never_widens_its_pointer():
    def kernel(out):
        tl.store(out + tl.arange(0, 1), tl.arange(0, 4))

    assert "got a value of shape (4,)" in error_of(kernel, out=np.zeros(4)).message


def test_20_cache_hints_are_checked():
    def kernel(out, x):
        tl.store(
            out,
            tl.load(x, cache_modifier=".cg", eviction_policy="evict_last"),
            cache_modifier=".cs",
        )

    module, _ = lowered(kernel, out=np.zeros(1), x=np.zeros(1))
    (load,) = [op for op in module.walk() if op.name == "tile.load"]
    assert (load.cache, load.eviction) == ("cg", "evict_last")

    def wrong(out, x):
        tl.store(out, tl.load(x, cache_modifier=".zz"))

    assert error_of(wrong, out=np.zeros(1), x=np.zeros(1)).hint == "use one of '.ca', '.cg', '.cv'"


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
    both = ", input_precision='ieee', allow_tf32=False"
    assert "both" in error_of(product(more=both), out=half, x=half, y=half, **sizes).message


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
    error = error_of(store("a.to(tl.float64, fp_downcast_rounding='rtz')"), out=x, **given)
    assert "floats to narrower floats" in error.message


# -- 29: atomics ----------------------------------------------------------------------------
def test_29_atomics_return_the_old_value():
    def kernel(out, counter, x):
        i = tl.arange(0, 4)
        old = tl.atomic_add(counter, 1)
        tl.store(out + tl.program_id(0), old)
        tl.atomic_max(x + i, tl.program_id(0), mask=i < 2, sem="relaxed", scope="cta")
        tl.atomic_cas(counter + 1, 0, 7)
        tl.atomic_xchg(x + 3, 9.0)

    out, counter = np.zeros(3, np.int32), np.zeros(2, np.int32)
    x = np.zeros(4, np.float32)
    run(kernel, grid=(3,), out=out, counter=counter, x=x)
    # Programs come in any order.
    assert sorted(out.tolist()) == [0, 1, 2]
    assert counter.tolist() == [3, 7]
    assert x.tolist() == [2, 2, 0, 9]


def test_29_types_that_atomics_do_not_take():
    def kernel(x):
        tl.atomic_max(x, 1.0)

    def narrow(x):
        tl.atomic_add(x, 1)

    assert "does not take fp16" in error_of(kernel, x=np.zeros(1, np.float16)).message
    assert "does not take int8" in error_of(narrow, x=np.zeros(1, np.int8)).message


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


# -- places ---------------------------------------------------------------------------------
def test_every_op_has_a_place_and_helpers_have_their_call_chain():
    def half(x):
        return x * 0.5

    def kernel(out, n):
        value = half(n)
        tl.store(out, value)

    module, _ = lowered(kernel, out=np.zeros(1, np.float32), n=3)
    assert all(op.span is not None for op in module.walk())
    (product,) = [op for op in module.walk() if op.name == "tile.mul"]
    line = half.__code__.co_firstlineno
    assert (product.span.line, product.span.column, product.span.end_column) == (line + 1, 16, 23)
    (call,) = product.span.calls
    assert call.line == kernel.__code__.co_firstlineno + 1
    assert (call.column, call.end_column) == (17, 24)


def test_columns_count_characters_not_bytes():
    kernel = from_text("""
        def kernel(out):
            tl.static_print("größe", end=""); tl.store(out, 1.0)
    """)
    module, _ = lowered(kernel, out=np.zeros(1, np.float32))
    (store,) = [op for op in module.walk() if op.name == "tile.store"]
    assert store.span.column == 5 + len('tl.static_print("größe", end=""); ')


def test_unused_merges_and_flags_leave_no_trace():
    def kernel(out, n):
        if n > 3:
            return
        tl.store(out, n)

    module, _ = lowered(kernel, out=np.zeros(1, np.float32), n=3)
    (branch,) = [op for op in module.walk() if isinstance(op, If)]
    assert branch.results == ()
    assert not any(isinstance(op, While) for op in module.walk())


def test_index_values_are_truncated_where_they_are_stored():
    def kernel(out, n):
        tl.store(out, n + 1)

    module, _ = lowered(kernel, out=np.zeros(1, np.int32), n=3)
    assert [str(op.to) for op in module.walk() if isinstance(op, Cast)] == ["i32"]
    assert F32 not in {element_of(v.type) for op in module.walk() for v in op.results}


def test_18_wrap_index_holds_in_loops_too():
    def kernel(out, n):
        total = 0
        for i in range(n):
            total += i * 65537
        tl.store(out + n - 1, total)

    out = np.zeros(3, np.int64)
    run(kernel, out=out, n=3, options=Options(wrap_index=True))
    assert out.tolist() == [0, 0, 3 * 65537]
    module, _ = lowered(kernel, out=out, n=3, options=Options(wrap_index=True))
    assert "index" not in {str(element_of(v.type)) for op in module.walk() for v in op.results}
