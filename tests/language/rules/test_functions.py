"""Arguments, globals, calls: rules 14 to 17."""

import numpy as np
import pytest

import workbench.language as tl
from tests.language.harness import (
    error_of,
    from_text,
    lowered,
    result,
)

N = tl.constexpr(4)


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


@pytest.mark.parametrize(
    ("body", "returns"),
    [
        ("if a > 3:\n        return 1.0", False),
        ("if a > 3:\n        return 1.0\n    a += 1", False),
        ("for i in range(a):\n        if i == 2:\n            return 6.0", False),
        ("if C == 3:\n        return 1.0\n    elif a > 2:\n        return 2.0", False),
        ("if a > 3:\n        return 1.0\n    if C == 2:\n        return 2.0", True),
        ("while True:\n        a += 1\n        if a > 9:\n            return 3.0", True),
        ("for i in tl.static_range(3):\n        if i == C:\n            return 4.0\n"
         "        if a == i:\n            return 5.0", True),
        ("if a > 3:\n        if C == 2:\n            return 1.0\n    else:\n        return 2.0",
         True),
    ],
)  # fmt: skip
def test_11_a_function_returns_on_every_path_or_nothing(body: str, returns: bool):
    """Where the end is reached without a return there is no value; it would be a made-up zero."""
    text = f"""
def helper(a, C: tl.constexpr):
    {body}

def kernel(out, n):
    tl.store(out, helper(n, 2))
"""
    if returns:
        assert result(from_text(text), n=1)[0] > 0
        return
    error = error_of(text, out=np.zeros(1, np.float32), n=1)
    assert "Return type mismatch: helper returns fp32 on one path, and nothing" in error.message
    assert error.hint == "end it with a return of the same type"
