"""Private names that libraries import, tuples and aggregates, questions about the target."""

from collections import namedtuple

import numpy as np
import pytest

import workbench.language as tl
from tests.language.harness import error_of, from_text, lowered, result
from workbench.frontend import Options
from workbench.language import core, standard
from workbench.runtime.callables import constexpr_function
from workbench.runtime.jit import jit

Pair = namedtuple("Pair", ["first", "second"])


def test_core_and_standard_have_what_libraries_import():
    from workbench.language.core import (
        CONSTEXPR_0,
        _aggregate,
        _unwrap_if_constexpr,
        builtin,
        constexpr,
        dtype,
        extern,
        extern_elementwise,
        get_int_dtype,
        load,
        tensor,
        to_tensor,
    )
    from workbench.language.standard import _log2, cdiv, zeros

    assert CONSTEXPR_0.value == 0
    assert (load, zeros, cdiv, tensor) == (tl.load, tl.zeros, tl.cdiv, tl.tensor)
    assert _unwrap_if_constexpr(constexpr(3)) == 3
    assert get_int_dtype(16, signed=True) == dtype("int16")
    assert _log2(constexpr(8)) == 3
    assert all(map(callable, (_aggregate, builtin, extern, extern_elementwise, to_tensor)))
    assert not hasattr(core, "no_such_name")
    assert not hasattr(standard, "no_such_name")


@pytest.mark.parametrize("name", ["int1", "uint8", "int64", "float16", "bfloat16", "float8e5"])
def test_dtypes_show_where_they_are(name):
    assert repr(getattr(tl, name)) == f"triton.language.{name}"


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        (tl, "nonsense", "tl.nonsense does not exist"),
        (tl, "squeeze", "tl.squeeze exists since 3.7.0 of Triton"),
        (tl.extra.libdevice, "nonsense", "libdevice.nonsense does not exist"),
    ],
)
def test_names_that_are_not_there_say_so(module, name, words):
    assert not hasattr(module, name)
    with pytest.raises(AttributeError, match=words):
        getattr(module, name)
    kernel = from_text(f"def kernel(x):\n    getattr(m, '{name}')\n", m=module)
    assert words in error_of(kernel, x=None).message


def test_words_of_signatures_name_dtypes():
    words = ["i1", "u1", "i32", "u64", "fp16", "bf16", "fp64", "fp8e4nv"]
    wanted = "int1 int1 int32 uint64 float16 bfloat16 float64 float8e4nv"
    assert [tl.str_to_ty(word) for word in words] == [getattr(tl, name) for name in wanted.split()]
    assert tl.str_to_ty("*i8", None) == tl.pointer_type(tl.int8)
    assert tl.str_to_ty("*kfp32") == tl.pointer_type(tl.float32, const=True)
    with pytest.raises(KeyError):
        tl.str_to_ty("i7")


@pytest.mark.parametrize(
    ("call", "what"),
    [("tl.rand(out, 1)", "the seed"), ("tl.philox(1, i, i, 2.5, i)", "the offset")],
)
def test_random_numbers_are_made_of_integers(call, what):
    kernel = from_text(f"def kernel(out):\n    i = tl.arange(0, 4)\n    {call}\n")
    error = error_of(kernel, out=np.zeros(4, np.float32))
    assert "of random numbers is an integer" in error.message
    assert what in error.message


def test_compile_time_helpers_in_a_kernel():
    def kernel(out, B: tl.constexpr):
        steps: tl.constexpr = tl.standard._log2(B)
        kind: tl.constexpr = tl.core.get_int_dtype(32, True)
        i = tl.arange(0, B)
        tl.store(out + i, (i << tl.core._unwrap_if_constexpr(steps)).to(kind))

    assert result(kernel, np.int32, 8, B=8).tolist() == [8 * i for i in range(8)]


def test_combine_functions_of_standard():
    def kernel(out, x):
        v = tl.load(x + tl.arange(0, 8))
        tl.store(out, tl.reduce(v, 0, tl.standard._sum_combine))
        tl.store(out + 1, tl.reduce(v, 0, tl.standard._xor_combine))

    x = np.arange(8, dtype=np.int32) * 3
    assert result(kernel, np.int32, 2, x=x).tolist() == [84, np.bitwise_xor.reduce(x)]


@core.builtin
def doubled(x, times=2, _semantic=None):
    """A builtin of a library: Python that runs while the kernel is compiled."""
    return x * times


@core.extern
def library_tanh(arg0, _semantic=None):
    return core.extern_elementwise(
        "libdevice", "", [arg0],
        {(core.dtype("fp32"),): ("__nv_tanhf", core.dtype("fp32")),
         (core.dtype("fp64"),): ("__nv_tanh", core.dtype("fp64"))},
        is_pure=True, _semantic=_semantic,
    )  # fmt: skip


@core.extern
def foreign(arg0, _semantic=None):
    table = {(core.dtype("fp32"),): ("their_gelu", core.dtype("fp32"))}
    return core.extern_elementwise("theirs", "a.bc", [arg0], table, is_pure=True)


@core.builtin
def scaled(x, by, dim: tl.constexpr = 0, _semantic=None):
    """A builtin that hands on what it was handed, as Triton's own functions want it."""
    assert isinstance(dim, int | tl.constexpr)
    total = tl.sum(_semantic.to_tensor(x), axis=dim, _semantic=_semantic)
    return tl.fma(total, by.value, tl.full((), dim, tl.float32, _semantic=_semantic))


def test_builtins_of_a_library_hand_on_hidden_arguments_and_constexprs():
    def kernel(out, x):
        v = tl.load(x + tl.arange(0, 4), _semantic=None)
        tl.store(out, scaled(v, 2.0))
        tl.store(out + 1, scaled(v, 3.0, dim=0))

    x = np.arange(4, dtype=np.float32)
    assert result(kernel, np.float32, 2, x=x).tolist() == [12, 18]


def test_builtins_and_externs_of_a_library():
    kernel = from_text(
        """
        def kernel(out, x):
            i = tl.arange(0, 4)
            v = tl.load(x + i)
            tl.store(out + i, library_tanh(doubled(v)) + doubled(v, times=3))
        """,
        doubled=doubled,
        library_tanh=library_tanh,
    )
    x = np.array([-1, 0, 0.5, 2], np.float32)
    want = np.tanh(2 * x) + 3 * x
    assert np.allclose(result(kernel, np.float32, 4, x=x), want, rtol=1e-6)
    kernel = from_text("def kernel(x):\n    foreign(tl.load(x))\n", foreign=foreign)
    error = error_of(kernel, x=np.zeros(1, np.float32))
    assert "the library function 'their_gelu' is not known" in error.message


# -- tuples and aggregates ----------------------------------------------------------------------
def test_tuples_are_made_indexed_joined_and_carried():
    def kernel(out, n):
        t = tl.tuple((n, n + 1, 2.5))
        tl.static_assert(isinstance(t, tl.tuple) and len(t) == 3)
        pair = t[:2] + (t[0] * t[1],)  # noqa: RUF005 - what '+' does
        for _ in range(3):
            pair = (pair[0] + 1, pair[1], pair[2])
        a, b, c = pair
        tl.store(out, a)
        tl.store(out + 1, b)
        tl.store(out + 2, c)
        tl.store(out + 3, (pair == (n + 3, n + 1, n * (n + 1))).to(tl.int32))

    assert result(kernel, np.int32, 4, n=5).tolist() == [8, 6, 30, 1]
    assert tl.tuple([1, 2]) == (1, 2)


def test_named_tuples_keep_their_fields():
    def kernel(out, p):
        q = p._replace(second=p.first) if False else p
        tl.store(out, q.first - q.second)

    from tests.language.harness import run
    from workbench.frontend import Argument

    out = np.zeros(1, np.int32)
    items = (Argument("i32"), Argument(None, 3))
    module, _ = lowered(kernel, out=out, p=Argument(None, Pair, items=items))
    from tests.execution import default_target, execute

    execute(module, (1,), [out, 10], default_target())
    assert out.tolist() == [7]
    assert callable(run)


@core._aggregate
class Range:
    start: tl.tensor
    stop: tl.tensor
    step: tl.constexpr

    def __init__(self, start, stop, step=1):
        self.start = start
        self.stop = stop
        self.step = step

    def length(self):
        return (self.stop - self.start) // self.step

    @jit
    def moved(self, by):
        return Range(self.start + by, self.stop + by, self.step)


def test_aggregates_hold_fields_and_have_methods():
    kernel = from_text(
        """
        def kernel(out, n):
            r = Range(n, n + 12, 3)
            for _ in range(2):
                r = r.moved(10)
            tl.store(out, r.start)
            tl.store(out + 1, r.stop)
            tl.store(out + 2, r.length())
            tl.store(out + tl.arange(3, 3 + r.step), 1)
        """,
        Range=Range,
    )
    assert result(kernel, np.int32, 6, n=1).tolist() == [21, 33, 4, 1, 1, 1]


@core._aggregate
class Interval:
    low: tl.tensor
    high: tl.tensor
    width: tl.constexpr

    def __init__(self, low, high, _semantic=None):
        self.low = tl.add(low, 0, _semantic=_semantic)
        self.high = high
        self.width = tl.constexpr(self.twice(2))

    @constexpr_function
    def twice(self, n):
        return 2 * n

    def end(self, which: tl.constexpr, _semantic=None):
        if not isinstance(which, tl.constexpr):
            raise TypeError("builtins get constexprs")
        return self.low if which == 0 else self.high

    def __getitem__(self, place, _semantic=None):
        return self.low if place == 0 else self.high

    @jit
    def __add__(self, other):
        return Interval(self.low + other[0], self.high + other[1])

    @jit
    def __lt__(self, other):
        return self.high < other.low

    @jit
    def __neg__(self):
        return Interval(-self.high, -self.low)

    @jit
    def __call__(self, x):
        return (x >= self.low) & (x <= self.high)

    def __len__(self):
        return 17


def test_aggregates_say_what_their_operators_mean():
    kernel = from_text(
        """
        def kernel(out, n):
            a = Interval(n, n + 2)
            b = a + a
            b += a
            c = -b
            tl.store(out, b[0])
            tl.store(out + 1, b[1])
            tl.store(out + 2, c.low)
            tl.store(out + 3, (a < b).to(tl.int32))
            tl.store(out + 4, c.end(1))
            tl.store(out + 5, a(n + 1).to(tl.int32) + a(n + 3))
            tl.store(out + 6, a.width)
        """,
        Interval=Interval,
    )
    assert result(kernel, np.int32, 7, n=5).tolist() == [15, 21, -21, 1, -15, 1, 4]


# -- the target -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("target", "want"), [("sm_90a", [1, 1, 1, 90]), ("sm_80", [1, 1, 0, 80]), ("cpu", [0, 0, 0, 0])]
)
def test_a_kernel_may_ask_what_it_is_compiled_for(target, want):
    def kernel(out):
        info: tl.constexpr = tl.target_info.current_target()
        tl.static_assert(not (tl.target_info.is_hip() or tl.target_info.is_hip_cdna3()))
        tl.static_assert(not tl.target_info.is_hip_cdna4())
        tl.store(out, tl.target_info.is_cuda())
        tl.store(out + 1, tl.target_info.cuda_capability_geq(8))
        tl.store(out + 2, tl.target_info.cuda_capability_geq(9, 0))
        tl.store(out + 3, info.arch)

    from workbench.interpreter import run_module

    out = np.zeros(4, np.int32)
    module, _ = lowered(kernel, out=out, options=Options(target=target))
    run_module(module, (1,), [out])
    assert out.tolist() == want


def test_the_compiler_tells_kernels_their_target():
    import workbench as wb

    def kernel(out, B: tl.constexpr):
        if tl.target_info.is_cuda():
            tl.store(out + tl.arange(0, B), 1.0)
        else:
            tl.store(out + tl.arange(0, B), 2.0)

    texts = {
        target: wb.compile(kernel, signature="*fp32", constexprs={"B": 4}, target=target)
        for target in ("sm_90a", "cpu")
    }
    assert "value = 1.0" in texts["sm_90a"].asm["tile"]
    assert "value = 2.0" in texts["cpu"].asm["tile"]
