"""`tl.extra.libdevice`: mathematical functions under the names of NVIDIA's device library.

They take fp32 and fp64 as there; 16-bit floats are widened to fp32. What each computes is a row
of the table of elementwise functions, or made of such rows here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.language import arithmetic as maths
from workbench.language import functions
from workbench.language.arithmetic import binary, where
from workbench.language.casts import bitcast_tensor, cast_tensor
from workbench.language.dtypes import (
    dtype,
    float32,
    float64,
    int1,
    int32,
    int64,
    uint32,
    uint64,
)
from workbench.language.extra import directed, special
from workbench.language.floats import float_function, real_functions
from workbench.language.functions import abs
from workbench.language.shapes import common_shape, operand
from workbench.language.table import LIBDEVICE, described
from workbench.language.values import describe, made, tensor, to_tensor
from workbench.language.versions import core_of
from workbench.ops import FUNCTIONS, Elementwise
from workbench.source import KernelTypeError

Function = Callable[..., Any]
#: Every function of this module by name.
LIBRARY: dict[str, Function] = {}


def _public(function: Function) -> Function:
    """Make a function known to the front end, which checks calls of it by its signature."""
    name = function.__name__
    if name not in LIBDEVICE:
        raise LookupError(f"libdevice.{name} is not in the table of names")
    LIBRARY[name] = described(function)
    return function


def _made(name: str, doc: str, function: Function) -> None:
    """Publish a function under a name."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    function.__module__ = __name__
    LIBRARY[name] = described(function)
    globals()[name] = function


def _one(name: str, row: str) -> None:
    def function(arg0: Any) -> tensor:
        return float_function(row, arg0)

    _made(name, f"Return {FUNCTIONS[row].doc}.", function)


def _two(name: str, row: str) -> None:
    def function(arg0: Any, arg1: Any) -> tensor:
        return real_functions(row, arg0, arg1)

    _made(name, f"Return {FUNCTIONS[row].doc}.", function)


# -- rows of the table ------------------------------------------------------------------------
_SAME = (
    "acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc erfinv exp exp10 exp2 expm1 "
    "floor lgamma log log10 log1p log2 rint round rsqrt sin sinh sqrt sqrt_rn tan tanh trunc"
)
for _name in _SAME.split():
    _one(_name, _name)
_FAST = {
    "fast_expf": "exp", "fast_exp10f": "exp10", "fast_logf": "log", "fast_log2f": "log2",
    "fast_log10f": "log10", "fast_sinf": "sin", "fast_cosf": "cos", "fast_tanf": "tan",
    "fast_tanhf": "tanh", "nearbyint": "rint", "rsqrt_rn": "rsqrt",
}  # fmt: skip
for _name, _row in _FAST.items():
    _one(_name, _row)
_PAIRS = {
    "atan2": "atan2", "copysign": "copysign", "nextafter": "nextafter", "hypot": "hypot",
    "fmod": "rem", "fast_powf": "pow", "fast_dividef": "div", "div_rn": "div_rn",
    "add_rn": "add", "sub_rn": "sub", "mul_rn": "mul",
}  # fmt: skip
for _name, _row in _PAIRS.items():
    _two(_name, _row)


@_public
def pow(arg0: Any, arg1: Any) -> tensor:
    """Return a to the power of b."""
    return maths.power_of(arg0, arg1)


@_public
def fma(arg0: Any, arg1: Any, arg2: Any) -> tensor:
    """Return arg0 * arg1 + arg2, rounded once."""
    return real_functions("fma", arg0, arg1, arg2)


@_public
def fma_rn(arg0: Any, arg1: Any, arg2: Any) -> tensor:
    """Return arg0 * arg1 + arg2, rounded once."""
    return real_functions("fma", arg0, arg1, arg2)


LIBRARY["abs"] = abs


# -- made of them -----------------------------------------------------------------------------
def _float(x: Any, name: str) -> tensor:
    """Return an operand as fp32 or fp64."""
    value = to_tensor(x)
    if not value.dtype.is_floating():
        raise KernelTypeError(
            f"{name} takes floats, got {describe(value)}",
            hint="cast it first, e.g. .to(tl.float32)",
        )
    return value if value.dtype in (float32, float64) else cast_tensor(value, float32)


@_public
def isnan(arg0: Any) -> tensor:
    """Say where a number is NaN."""
    x = _float(arg0, "isnan")
    return binary("!=", x, x)


@_public
def isinf(arg0: Any) -> tensor:
    """Say where a number is infinite."""
    return binary("==", abs(_float(arg0, "isinf")), float("inf"))


@_public
def finitef(arg0: Any) -> tensor:
    """Say where a number is neither infinite nor NaN."""
    return binary("<", abs(_float(arg0, "finitef")), float("inf"))


@_public
def isfinited(arg0: Any) -> tensor:
    """Say where a number is neither infinite nor NaN."""
    return finitef(arg0)


@_public
def signbit(arg0: Any) -> tensor:
    """Say where the sign bit is set, of -0.0 and NaN too."""
    x = _float(arg0, "signbit")
    return binary("<", bitcast_tensor(x, _integer_of(x.dtype)), 0)


def _integer_of(kind: dtype) -> dtype:
    return int64 if kind == float64 else int32


@_public
def llrint(arg0: Any) -> tensor:
    """Return the nearest integer, halves to even, as int64."""
    return cast_tensor(float_function("rint", arg0), int64)


@_public
def llround(arg0: Any) -> tensor:
    """Return the nearest integer, halves away from zero, as int64."""
    return cast_tensor(float_function("round", arg0), int64)


@_public
def rcp_rn(arg0: Any) -> tensor:
    """Return 1 / x, correctly rounded."""
    return functions.div_rn(1.0, _float(arg0, "rcp_rn"))


@_public
def rcbrt(arg0: Any) -> tensor:
    """Return 1 / cube root."""
    return functions.div_rn(1.0, float_function("cbrt", arg0))


@_public
def rhypot(arg0: Any, arg1: Any) -> tensor:
    """Return 1 / sqrt(x * x + y * y)."""
    return functions.div_rn(1.0, real_functions("hypot", arg0, arg1))


@_public
def fdim(arg0: Any, arg1: Any) -> tensor:
    """Return x - y where that is positive, else 0; NaN if one of them is."""
    x, y = _float(arg0, "fdim"), _float(arg1, "fdim")
    return where(binary("<=", x, y), 0.0, binary("-", x, y))


@_public
def saturatef(arg0: Any) -> tensor:
    """Return x held between 0 and 1; NaN gives 0."""
    x = _float(arg0, "saturatef")
    return where(binary(">", x, 0.0), where(binary("<", x, 1.0), x, 1.0), 0.0)


def _of_pi(arg0: Any, row: str) -> tensor:
    x = _float(arg0, f"{row}pi")
    turns = float_function("rint", binary("*", x, 0.5))
    rest = binary("-", x, binary("*", turns, 2.0))
    return float_function(row, binary("*", rest, 3.141592653589793))


@_public
def sinpi(arg0: Any) -> tensor:
    """Return the sine of pi * x."""
    return _of_pi(arg0, "sin")


@_public
def cospi(arg0: Any) -> tensor:
    """Return the cosine of pi * x."""
    return _of_pi(arg0, "cos")


@_public
def ldexp(arg0: Any, arg1: Any) -> tensor:
    """Return x * 2^n for an integer n."""
    x, n = _float(arg0, "ldexp"), to_tensor(arg1)
    if not n.dtype.is_int() or n.dtype == int1:
        raise KernelTypeError(
            f"ldexp takes an integer power, got {describe(n)}",
            hint="cast the second operand, .to(tl.int32)",
        )
    # Three factors, so that each is a normal number of fp64 whatever n is.
    held = maths.maximum(maths.minimum(cast_tensor(n, int32), 2200), -2200)
    third = binary("//", held, 3)
    last = binary("-", held, binary("*", third, 2))
    wide = cast_tensor(x, float64)
    for part in (third, third, last):
        wide = binary("*", wide, _power_of_two(part))
    return cast_tensor(wide, x.dtype)


def _power_of_two(exponent: Any) -> tensor:
    biased = binary("+", cast_tensor(exponent, int64), 1023)
    return bitcast_tensor(binary("<<", biased, 52), float64)


@_public
def scalbn(arg0: Any, arg1: Any) -> tensor:
    """Return x * 2^n for an integer n."""
    return ldexp(arg0, arg1)


# -- integers ---------------------------------------------------------------------------------
def _integer(x: Any, name: str) -> tensor:
    value = to_tensor(x)
    if not value.dtype.is_int() or value.dtype.int_bitwidth not in (32, 64):
        raise KernelTypeError(
            f"{name} takes 32- and 64-bit integers, got {describe(value)}",
            hint="cast it first, e.g. .to(tl.int32)",
        )
    return value


def _bits(row: str, x: Any, name: str) -> tensor:
    value = _integer(x, name)
    return made(Elementwise(row, (value.stored(),)), value.dtype)


@_public
def popc(arg0: Any) -> tensor:
    """Return how many bits are set, as int32."""
    return cast_tensor(_bits("popcount", arg0, "popc"), int32)


@_public
def clz(arg0: Any) -> tensor:
    """Return how many high bits are 0, as int32."""
    return cast_tensor(_bits("leading_zeros", arg0, "clz"), int32)


@_public
def brev(arg0: Any) -> tensor:
    """Return the bits in opposite order."""
    return _bits("reverse_bits", arg0, "brev")


@_public
def ffs(arg0: Any) -> tensor:
    """Return the place of the lowest bit that is set, counted from 1; 0 if there is none."""
    value = _integer(arg0, "ffs")
    lowest = binary("&", value, maths.negative(value))
    width = value.dtype.int_bitwidth
    return binary("-", width, clz(lowest))


@_public
def mulhi(arg0: Any, arg1: Any) -> tensor:
    """Return the high half of the product, signed for signed operands."""
    x, y = _integer(arg0, "mulhi"), _integer(arg1, "mulhi")
    if x.dtype != y.dtype:
        raise KernelTypeError(
            f"mulhi of {describe(x)} and {describe(y)}: the dtypes differ",
            hint="cast one of them with .to(...)",
        )
    shape = common_shape(x, y, what="mulhi")
    return made(Elementwise("mulhi", (operand(x, x.dtype, shape), operand(y, x.dtype, shape))))


# -- conversions ------------------------------------------------------------------------------
def _as_bits(name: str, source: dtype, to: dtype) -> None:
    def function(arg0: Any) -> tensor:
        value = to_tensor(arg0)
        if value.dtype != source:
            raise KernelTypeError(
                f"{name} takes {source}, got {describe(value)}", hint="cast it first with .to(...)"
            )
        return bitcast_tensor(value, to)

    _made(name, f"Return the bits of {source} as {to}.", function)


def _to_integer(name: str, mode: str, to: dtype) -> None:
    row = {"rn": "rint", "rz": "trunc", "rd": "floor", "ru": "ceil"}[mode]
    words = {"rn": "nearest, halves to even", "rz": "towards zero", "rd": "down", "ru": "up"}[mode]

    def function(arg0: Any) -> tensor:
        return cast_tensor(float_function(row, arg0), to)

    _made(name, f"Return a float rounded ({words}) to {to}.", function)


def _to_float(name: str, to: dtype) -> None:
    def function(arg0: Any) -> tensor:
        return cast_tensor(to_tensor(arg0), to)

    _made(name, f"Return a number rounded to the nearest {to}.", function)


_as_bits("float_as_int", float32, int32)
_as_bits("float_as_uint", float32, uint32)
_as_bits("int_as_float", int32, float32)
_as_bits("uint_as_float", uint32, float32)
_as_bits("double_as_longlong", float64, int64)
_as_bits("longlong_as_double", int64, float64)
for _source in ("float", "double"):
    for _word, _to in (("int", int32), ("uint", uint32), ("ll", int64), ("ull", uint64)):
        for _mode in ("rn", "rz", "rd", "ru"):
            _to_integer(f"{_source}2{_word}_{_mode}", _mode, _to)
for _word in ("int", "uint", "ll", "ull"):
    _to_float(f"{_word}2float_rn", float32)
    _to_float(f"{_word}2double_rn", float64)
_to_float("double2float_rn", float32)


for _name, (_function, _doc) in directed.functions().items():
    _made(_name, _doc, _function)
for _function in special.FUNCTIONS:
    _made(_function.__name__, _function.__doc__ or "", _function)


# -- parts of numbers -------------------------------------------------------------------------
@_public
def ilogb(arg0: Any) -> tensor:
    """Return the exponent as int32: -2^31 for 0 and NaN, 2^31 - 1 for an infinity."""
    x = _float(arg0, "ilogb")
    exponent = cast_tensor(logb(x), int32)
    found = where(binary("==", x, 0.0), -(2**31), exponent)
    found = where(isinf(x), 2**31 - 1, found)
    return where(isnan(x), -(2**31), found)


@_public
def logb(arg0: Any) -> tensor:
    """Return the exponent as a float: -inf for 0, inf for an infinity."""
    x = _float(arg0, "logb")
    wide = abs(cast_tensor(x, float64))
    tiny = binary("<", wide, 2.0**-1022)
    held = where(tiny, binary("*", wide, 2.0**54), wide)
    field = binary(">>", bitcast_tensor(held, int64), 52)
    number = cast_tensor(binary("-", field, where(tiny, 1077, 1023)), x.dtype)
    found = where(binary("==", x, 0.0), float("-inf"), number)
    return where(finitef(x), found, binary("*", x, x))


@_public
def double2hiint(arg0: Any) -> tensor:
    """Return the high 32 bits of an fp64."""
    return cast_tensor(binary(">>", _double_bits(arg0, "double2hiint"), 32), int32)


@_public
def double2loint(arg0: Any) -> tensor:
    """Return the low 32 bits of an fp64."""
    return cast_tensor(_double_bits(arg0, "double2loint"), int32)


def _double_bits(x: Any, name: str) -> tensor:
    value = to_tensor(x)
    if value.dtype != float64:
        raise KernelTypeError(
            f"{name} takes {float64}, got {describe(value)}", hint="cast it first, .to(tl.float64)"
        )
    return bitcast_tensor(value, int64)


@_public
def hiloint2double(arg0: Any, arg1: Any) -> tensor:
    """Return the fp64 made of its high and its low 32 bits."""
    high, low = (cast_tensor(_integer(x, "hiloint2double"), int64) for x in (arg0, arg1))
    bits = binary("|", binary("<<", high, 32), binary("&", low, 0xFFFFFFFF))
    return bitcast_tensor(bits, float64)


@_public
def rcp64h(arg0: Any) -> tensor:
    """Return 1 / x with its low 32 bits cleared."""
    bits = bitcast_tensor(functions.div_rn(1.0, cast_tensor(to_tensor(arg0), float64)), int64)
    return bitcast_tensor(binary("&", bits, -(2**32)), float64)


# -- averages and bytes -----------------------------------------------------------------------
def _pair(x: Any, y: Any, name: str) -> tuple[tensor, tensor]:
    a, b = _integer(x, name), _integer(y, name)
    if a.dtype != b.dtype:
        raise KernelTypeError(
            f"{name} of {describe(a)} and {describe(b)}: the dtypes differ",
            hint="cast one of them with .to(...)",
        )
    return a, b


@_public
def hadd(arg0: Any, arg1: Any) -> tensor:
    """Return (x + y) >> 1 without overflow."""
    a, b = _pair(arg0, arg1, "hadd")
    return binary("+", binary("&", a, b), binary(">>", binary("^", a, b), 1))


@_public
def rhadd(arg0: Any, arg1: Any) -> tensor:
    """Return (x + y + 1) >> 1 without overflow."""
    a, b = _pair(arg0, arg1, "rhadd")
    return binary("-", binary("|", a, b), binary(">>", binary("^", a, b), 1))


@_public
def sad(arg0: Any, arg1: Any, arg2: Any) -> tensor:
    """Return |x - y| + z, as uint32."""
    a, b = _pair(arg0, arg1, "sad")
    apart = abs(binary("-", cast_tensor(a, int64), cast_tensor(b, int64)))
    total = binary("+", apart, cast_tensor(_integer(arg2, "sad"), int64))
    return cast_tensor(total, uint32)


@_public
def mul24(arg0: Any, arg1: Any) -> tensor:
    """Return the low 32 bits of the product of the low 24 bits, with signs for int32."""
    a, b = _pair(arg0, arg1, "mul24")
    x, y = (cast_tensor(binary(">>", binary("<<", v, 8), 8), int64) for v in (a, b))
    return cast_tensor(binary("*", x, y), a.dtype)


@_public
def byte_perm(arg0: Any, arg1: Any, arg2: Any) -> tensor:
    """Return four bytes of x and y, chosen by the low 3 bits of each half byte of the third."""
    low, high = (binary("&", cast_tensor(_integer(v, "byte_perm"), int64), 0xFFFFFFFF)
                 for v in (arg0, arg1))  # fmt: skip
    both = binary("|", low, binary("<<", high, 32))
    chosen = cast_tensor(_integer(arg2, "byte_perm"), int64)
    found: Any = 0
    for place in range(4):
        number = binary("&", binary(">>", chosen, 4 * place), 7)
        byte = binary("&", binary(">>", both, binary("*", number, 8)), 0xFF)
        moved = binary("<<", byte, 8 * place)
        found = binary("|", moved, found)
    return cast_tensor(found, to_tensor(arg0).dtype)


__getattr__ = core_of("libdevice")

__all__ = ["LIBRARY", *LIBRARY]  # pyright: ignore[reportUnsupportedDunderAll]
