"""Every function of tl.extra.libdevice against float64 torch or NumPy, and its other paths."""

import numpy as np
import pytest
import torch

import workbench.language as tl
from tests.execution import execute
from tests.language.harness import from_text, lowered, result
from workbench.language.extra.libdevice import LIBRARY
from workbench.language.table import LIBDEVICE
from workbench.passes.expand_functions import expand_functions
from workbench.passes.manager import Remarks

RANDOM = np.random.default_rng(5)
ANY = np.concatenate([RANDOM.uniform(-3, 3, 24), [0.0, -0.0, 0.5, -1.5, 2.5, 1, -1, 3]])
POSITIVE = np.abs(ANY) + 0.01
UNIT = np.concatenate([RANDOM.uniform(-1, 1, 28), [0.0, 0.999, -0.5, 0.25]])
ABOVE_ONE = np.abs(ANY) + 1
WHOLE = RANDOM.integers(-(2**31), 2**31, 32)


def _words(text):
    return text.split()


def _torch(name):
    function = getattr(torch, name, None) or getattr(torch.special, name)
    return lambda *x: function(*map(torch.from_numpy, x)).numpy()


def _away(x):
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


#: Name -> (reference in float64, arguments).
FLOATS = {
    **{name: (_torch(name), [ANY]) for name in
       _words("atan asinh ceil cos cosh erf erfc exp exp2 expm1 floor sin sinh tan tanh trunc")},
    "abs": (np.abs, [ANY]),
    **{name: (_torch(name), [UNIT]) for name in _words("acos asin atanh erfinv")},
    **{name: (_torch(name), [POSITIVE]) for name in
       _words("lgamma log log10 log1p log2 rsqrt sqrt")},
    "acosh": (np.arccosh, [ABOVE_ONE]), "cbrt": (np.cbrt, [ANY]),
    "rcbrt": (lambda x: 1 / np.cbrt(x), [POSITIVE]), "exp10": (lambda x: 10.0**x, [ANY]),
    "rint": (np.rint, [ANY]), "nearbyint": (np.rint, [ANY]), "round": (_away, [ANY]),
    "sqrt_rn": (np.sqrt, [POSITIVE]), "rcp_rn": (lambda x: 1 / x, [POSITIVE]),
    "sinpi": (lambda x: np.sin(np.pi * x), [ANY]), "cospi": (lambda x: np.cos(np.pi * x), [ANY]),
    "rsqrt_rn": (lambda x: 1 / np.sqrt(x), [POSITIVE]),
    "fast_expf": (np.exp, [ANY]), "fast_exp10f": (lambda x: 10.0**x, [ANY]),
    "fast_logf": (np.log, [POSITIVE]), "fast_log2f": (np.log2, [POSITIVE]),
    "fast_log10f": (np.log10, [POSITIVE]), "fast_sinf": (np.sin, [ANY]),
    "fast_cosf": (np.cos, [ANY]), "fast_tanf": (np.tan, [UNIT]), "fast_tanhf": (np.tanh, [ANY]),
    "saturatef": (lambda x: np.clip(x, 0, 1), [ANY]),
    "atan2": (np.arctan2, [ANY, UNIT]), "copysign": (np.copysign, [ANY, UNIT]),
    "nextafter": (None, [ANY, UNIT]), "hypot": (np.hypot, [ANY, UNIT]),
    "rhypot": (lambda x, y: 1 / np.hypot(x, y), [POSITIVE, UNIT]),
    "fmod": (np.fmod, [ANY * 10, POSITIVE]), "pow": (np.power, [POSITIVE, ANY]),
    "fast_powf": (np.power, [POSITIVE, ANY]), "fast_dividef": (np.divide, [ANY, POSITIVE]),
    "div_rn": (np.divide, [ANY, POSITIVE]), "add_rn": (np.add, [ANY, UNIT]),
    "sub_rn": (np.subtract, [ANY, UNIT]), "mul_rn": (np.multiply, [ANY, UNIT]),
    "fdim": (lambda x, y: np.maximum(x - y, 0), [ANY, UNIT]),
    "fma": (lambda x, y, z: x * y + z, [ANY, UNIT, POSITIVE]),
    "fma_rn": (lambda x, y, z: x * y + z, [ANY, UNIT, POSITIVE]),
    "ldexp": (np.ldexp, [ANY, np.arange(-16, 16)]), "scalbn": (np.ldexp, [ANY, np.arange(-16, 16)]),
}  # fmt: skip
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.0, 1e30])
PREDICATES = {
    "isnan": np.isnan, "isinf": np.isinf, "finitef": np.isfinite, "isfinited": np.isfinite,
    "signbit": np.signbit,
}  # fmt: skip


def _reversed(x):
    return np.array([int(f"{int(v) & 0xFFFFFFFF:032b}"[::-1], 2) for v in x], np.uint32)


INTEGERS = {
    "popc": lambda x: np.bitwise_count(x.view(np.uint32)), "brev": _reversed,
    "clz": lambda x: np.array([32 - int(v).bit_length() for v in x.view(np.uint32)]),
    "ffs": lambda x: np.array([(int(v) & -int(v)).bit_length() for v in x.view(np.uint32)]),
}  # fmt: skip
ROUNDINGS = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
KINDS = {"int": np.int32, "uint": np.uint32, "ll": np.int64, "ull": np.uint64,
         "float": np.float32, "double": np.float64}  # fmt: skip


def _apply(name, arrays, out):
    names = [f"x{i}" for i in range(len(arrays))]
    loads = ", ".join(f"tl.load({n} + i)" for n in names)
    kernel = from_text(f"""
        def kernel(out, {", ".join(names)}):
            i = tl.arange(0, {len(arrays[0])})
            tl.store(out + i, tl.extra.libdevice.{name}({loads}))
    """)
    return result(kernel, out, len(arrays[0]), **dict(zip(names, arrays, strict=True)))


@pytest.mark.parametrize("name", sorted(FLOATS))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_of_floats(name, dtype):
    reference, arguments = FLOATS[name]
    arrays = [a.astype(dtype if a.dtype.kind == "f" else np.int32) for a in arguments]
    if reference is None:
        assert np.array_equal(_apply(name, arrays, dtype), np.nextafter(*arrays))
        return
    want = reference(*(a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays))
    got = _apply(name, arrays, dtype)
    # fp32 has 2^-24 and some steps; sums of several terms lose where they cancel.
    bound = 2e-6 if dtype == "float32" else 1e-14
    assert np.allclose(got, want, rtol=bound, atol=bound / 10)


@pytest.mark.parametrize("name", sorted(PREDICATES))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_predicates(name, dtype):
    x = SPECIAL.astype(dtype)
    assert np.array_equal(_apply(name, [x], bool), PREDICATES[name](x))


@pytest.mark.parametrize("name", sorted(INTEGERS))
def test_bits_of_integers(name):
    x = np.concatenate([WHOLE[:28], [0, 1, -1, -(2**31)]]).astype(np.int32)
    got = _apply(name, [x], np.int32)
    assert np.array_equal(got.view(np.uint32), INTEGERS[name](x).astype(np.uint32))


def test_the_high_half_of_a_product():
    x, y = WHOLE.astype(np.int32), WHOLE[::-1].astype(np.int32)
    want = (x.astype(np.int64) * y >> 32).astype(np.int32)
    assert np.array_equal(_apply("mulhi", [x, y], np.int32), want)


@pytest.mark.parametrize("name", [n for n, tier in LIBDEVICE.items() if tier == 2 and "2" in n
                                  and n.split("2")[0] in KINDS])  # fmt: skip
def test_conversions(name):
    source, _, rest = name.partition("2")
    kind, mode = rest.split("_")
    if source in ("float", "double"):
        x = ANY.astype(KINDS[source])
        want = x if kind == "float" else ROUNDINGS[mode](x)
    else:
        x = WHOLE.astype(KINDS[source])
        want = x
    if "u" in kind:
        x, want = np.abs(x), np.abs(want)
        want = want if source not in ("float", "double") else ROUNDINGS[mode](x)
    assert np.array_equal(_apply(name, [x], KINDS[kind]), want.astype(KINDS[kind]))


@pytest.mark.parametrize(
    ("name", "source", "to"),
    [("float_as_int", "float32", "int32"), ("float_as_uint", "float32", "uint32"),
     ("int_as_float", "int32", "float32"), ("uint_as_float", "uint32", "float32"),
     ("double_as_longlong", "float64", "int64"), ("longlong_as_double", "int64", "float64")],
)  # fmt: skip
def test_bits_as_another_type(name, source, to):
    x = ANY.astype(np.float64 if "64" in source else np.float32).view(source)
    assert np.array_equal(_apply(name, [x], to), x.view(to))


def test_rounding_to_integers_of_64_bits():
    x = ANY.astype(np.float32)
    assert np.array_equal(_apply("llrint", [x], np.int64), np.rint(x).astype(np.int64))
    assert np.array_equal(_apply("llround", [x], np.int64), _away(x).astype(np.int64))


TESTED = {
    *FLOATS, *PREDICATES, *INTEGERS, "mulhi", "llrint", "llround", "float_as_int",
    "float_as_uint", "int_as_float", "uint_as_float", "double_as_longlong", "longlong_as_double",
    *(n for n in LIBDEVICE if "2" in n and n.split("2")[0] in KINDS),
}  # fmt: skip


def test_every_name_of_the_table_is_there_and_tested():
    """Those of tier 3 are in test_special.py."""
    assert set(LIBDEVICE) == set(LIBRARY)
    assert {n for n, tier in LIBDEVICE.items() if tier == 2} <= TESTED


@pytest.mark.parametrize("name", sorted(LIBRARY))
def test_every_function_is_in_tl_math_too(name):
    assert hasattr(tl.math, name)
    assert LIBRARY[name].__doc__
    assert getattr(tl.extra.libdevice, name) is LIBRARY[name]


def test_integers_beside_doubles_keep_all_their_bits():
    kernel = from_text("""
        def kernel(out, x, n):
            i = tl.arange(0, 2)
            tl.store(out + i, tl.extra.libdevice.pow(tl.load(x + i), tl.load(n + i)))
    """)
    x, n = np.array([-1.0, 1.0000001]), np.array([16777217, 16777217], np.int32)
    found = result(kernel, np.float64, 2, x=x, n=n)
    np.testing.assert_allclose(found, x ** n.astype(np.float64), rtol=1e-9)


def test_sixteen_bits_are_widened_with_a_remark():
    kernel = from_text("""
        def kernel(out, x):
            i = tl.arange(0, 4)
            tl.static_assert(tl.math.tanh(tl.load(x + i)).dtype == tl.float32)
            tl.store(out + i, tl.extra.libdevice.pow(tl.load(x + i), 2))
    """)
    x = np.array([1, 2, 3, 0.5], np.float16)
    assert result(kernel, np.float32, 4, x=x).tolist() == [1, 4, 9, 0.25]
    _, remarks = lowered(kernel, out=np.zeros(4, np.float32), x=x)
    texts = [r.text for r in remarks.items]
    assert "not portable to Triton: pow of fp16; it is computed in fp32" in texts


@pytest.mark.parametrize(
    ("x", "y"),
    [(0.0, 0.0), (0.0, -1.0), (-0.0, -1.0), (-0.0, 3.0), (-2.0, 3.0), (-2.0, 2.0), (-2.0, 0.5),
     (np.inf, -1.0), (-np.inf, 3.0), (-np.inf, 2.0), (1.0, np.nan), (np.nan, 0.0), (2.0, np.inf),
     (0.5, np.inf), (0.5, -np.inf), (-1.0, np.inf), (np.nan, 1.0), (3.0, np.nan), (2.0, 1000.0),
     (2.0, -1100.0), (1.0000001, 1e8), (-8.0, 1 / 3)],
)  # fmt: skip
def test_powers_at_the_ends(x, y):
    for dtype in ("float32", "float64"):
        a, b = np.full(1, x, dtype), np.full(1, y, dtype)
        with np.errstate(all="ignore"):
            want = np.power(a.astype(np.float64), b.astype(np.float64)).astype(dtype)
        got = _apply("pow", [a, b], dtype)
        assert np.allclose(got, want, rtol=2e-6 if dtype == "float32" else 1e-13, equal_nan=True)
        if want == 0:
            assert np.signbit(got) == np.signbit(want)


def test_an_odd_power_is_odd_beyond_what_a_float_holds():
    """int32 as an exponent of fp32: 2**24 + 1 is rounded to an even number."""
    x = np.array([-1, -1, -1, -1, 1, -np.inf, -0.0, np.nan], np.float32)
    n = [2**24 + 1, -(2**24) - 1, 2**24 + 2, 2**31 - 1, 2**31 - 1, 2**31 - 1, -(2**31) + 1, 0]
    want = [-1, -1, 1, -1, 1, -np.inf, -np.inf, 1]
    for kind in (np.int32, np.int64):
        got = _apply("pow", [x, np.array(n, kind)], "float32")
        assert np.array_equal(got, np.array(want, np.float32))


@pytest.mark.parametrize(
    ("low", "high", "y", "bound"),
    [(0.5, 10.0, 1.5, 1.0), (2.0**-75, 2.0**-63, 2.0, 1.0), (1.8e19, 1.9e19, 2.0, 1.0),
     (1e-44, 1e-38, -0.7, 1.0), (0.999, 1.001, 80000.0, 1.0), (0.72, 1.4, 240.0, 4.5)],
)  # fmt: skip
def test_powers_in_f32_are_right_to_the_ulp(low, high, y, bound):
    """Within 2, and within 6 where the logarithm of the result is large beside that of x."""
    x = np.geomspace(low, high, 4096).astype(np.float32)
    want = np.power(x.astype(np.longdouble), np.longdouble(np.float32(y)))
    with np.errstate(all="ignore"):
        got = _apply("pow", [x, np.full_like(x, y)], "float32")
        rounded = want.astype(np.float32)
        unit = np.spacing(np.maximum(rounded, np.float32(2.0**-126))).astype(np.longdouble)
        off = np.where(got == rounded, 0.0, np.abs(got.astype(np.longdouble) - want) / unit)
    assert off.max() <= bound


def test_functions_at_the_ends():
    ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], np.float64)
    names = "exp expm1 exp2 exp10 log log2 log10 log1p tanh sinh cosh asinh acosh atanh atan "
    for name in _words(names + "asin acos erf erfc erfinv lgamma cbrt"):
        row = {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "asin": "arcsin",
               "acos": "arccos", "atan": "arctan"}.get(name, name)  # fmt: skip
        with np.errstate(all="ignore"):
            if name == "exp10":
                want = 10.0**ends
            elif hasattr(np, row):
                want = getattr(np, row)(ends)
            else:
                want = _torch(name)(ends)
        for dtype in ("float32", "float64"):
            got = _apply(name, [ends.astype(dtype)], dtype)
            bound = 2e-6 if dtype == "float32" else 1e-14
            assert np.allclose(got, want, rtol=bound, atol=1e-7 if bound > 1e-7 else 1e-15,
                               equal_nan=True), (name, dtype, got, want)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cube_roots_of_subnormal_numbers_are_near(dtype: str):
    module, _ = lowered(from_text("""
        def kernel(out, x):
            i = tl.arange(0, 512)
            tl.store(out + i, tl.extra.libdevice.cbrt(tl.load(x + i)))
    """), out=np.zeros(1, dtype), x=np.zeros(1, dtype))  # fmt: skip
    written = expand_functions(module, Remarks(), lambda name, _: name != "cbrt")
    lowest = np.finfo(dtype).minexp - np.finfo(dtype).nmant
    x = np.ldexp(np.linspace(1, 2, 512), np.arange(512) % 140 + lowest).astype(dtype)
    x[0] = np.finfo(dtype).smallest_subnormal
    out = np.zeros(512, dtype)
    execute(written, (1,), [out, x], "interpreter")
    want = np.cbrt(x.astype(np.longdouble))
    off = np.abs(out.astype(np.longdouble) - want) / np.spacing(want.astype(dtype))
    assert off.max() < 1.5


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_remainders_at_the_ends(dtype: str):
    module, _ = lowered(from_text("""
        def kernel(out, x, y):
            i = tl.arange(0, 256)
            tl.store(out + i, tl.load(x + i) % tl.load(y + i))
    """), out=np.zeros(1, dtype), x=np.zeros(1, dtype), y=np.zeros(1, dtype))  # fmt: skip
    written = expand_functions(module, Remarks(), lambda name, _: name != "rem")
    ends = np.array([0, 1, 1.5, 3, 1e-30, 1e20, np.inf, np.nan], dtype)
    ends = np.concatenate([ends, -ends])
    x, y, out = np.repeat(ends, 16), np.tile(ends, 16), np.zeros(256, dtype)
    execute(written, (1,), [out, x, y], "interpreter")
    with np.errstate(all="ignore"):
        want, near = np.fmod(x, y), np.abs(x / y) < 2.0**80
    held = near | ~np.isfinite(x) | ~np.isfinite(y) | (y == 0)
    np.testing.assert_array_equal(out[held], want[held])
