"""Mathematical functions, element by element (README.md, rules 18 and 24)."""

from __future__ import annotations

from typing import Any

from workbench.language.arithmetic import arithmetic, binary, negative, where
from workbench.language.casts import bitcast_tensor
from workbench.language.dtypes import number_type, uint8, uint32, uint64
from workbench.language.floats import float_function
from workbench.language.promotion import common_dtype, promote
from workbench.language.shapes import common_shape, operand
from workbench.language.table import builtin
from workbench.language.values import describe, is_number, made, static, tensor, to_tensor, wrap
from workbench.ops import Elementwise
from workbench.ops.small_floats import SMALL_FLOATS
from workbench.source import KernelTypeError


@builtin
def exp(x: Any) -> tensor:
    """Return e to the power of x."""
    return float_function("exp", x)


@builtin
def exp2(x: Any) -> tensor:
    """Return 2 to the power of x."""
    return float_function("exp2", x)


@builtin
def log(x: Any) -> tensor:
    """Return the natural logarithm."""
    return float_function("log", x)


@builtin
def log2(x: Any) -> tensor:
    """Return the logarithm to base 2."""
    return float_function("log2", x)


@builtin
def sqrt(x: Any) -> tensor:
    """Return the square root, by an approximate form where the target has one."""
    return float_function("sqrt", x)


@builtin
def sqrt_rn(x: Any) -> tensor:
    """Return the correctly rounded square root."""
    return float_function("sqrt_rn", x)


@builtin
def rsqrt(x: Any) -> tensor:
    """Return 1 / square root."""
    return float_function("rsqrt", x)


@builtin
def sin(x: Any) -> tensor:
    """Return the sine."""
    return float_function("sin", x)


@builtin
def cos(x: Any) -> tensor:
    """Return the cosine."""
    return float_function("cos", x)


@builtin
def erf(x: Any) -> tensor:
    """Return the error function."""
    return float_function("erf", x)


@builtin
def floor(x: Any) -> tensor:
    """Return the largest integer not above x, as a float."""
    return float_function("floor", x)


@builtin
def ceil(x: Any) -> tensor:
    """Return the smallest integer not below x, as a float."""
    return float_function("ceil", x)


@builtin
def abs(x: Any) -> Any:
    """Return the absolute value, in the dtype of x."""
    if is_number(x):
        return -x if x < 0 else x
    value = to_tensor(x)
    if value.dtype.is_ptr():
        raise KernelTypeError(
            f"abs does not take {describe(value)}",
            hint="pass a number or a tensor; what a pointer points to is loaded first",
        )
    if value.dtype.is_int_unsigned():
        return value
    if value.dtype.is_fp8():
        code = bitcast_tensor(value, uint8)
        bare = arithmetic("&", code, 0x7F)
        if not SMALL_FLOATS[number_type(value.dtype)].signed:  # 0x80 is NaN
            bare = where(binary("==", bare, 0), code, bare)
        return bitcast_tensor(bare, value.dtype)
    return made(Elementwise("abs", (value.value,)), value.dtype)


@builtin
def sigmoid(x: Any) -> tensor:
    """Return 1 / (1 + exp(-x))."""
    return arithmetic("/", 1, arithmetic("+", 1, exp(negative(to_tensor(x)))))


@builtin
def fma(x: Any, y: Any, z: Any) -> tensor:
    """Return x * y + z, rounded once."""
    operands = [to_tensor(v) for v in (x, y, z)]
    to = promote(promote(operands[0].dtype, operands[1].dtype, "fma"), operands[2].dtype, "fma")
    if not to.is_floating():
        raise KernelTypeError(
            f"fma takes floats, got {', '.join(map(describe, operands))}",
            hint="cast them first, e.g. .to(tl.float32); integers take a * b + c",
        )
    shape = common_shape(*operands, what="fma")
    inputs = tuple(operand(v, to, shape) for v in operands)
    return made(Elementwise("fma", inputs), to)


@builtin
def fdiv(x: Any, y: Any, ieee_rounding: Any = False) -> tensor:
    """Return x / y for floats, correctly rounded if `ieee_rounding`."""
    a, b = to_tensor(x), to_tensor(y)
    to = promote(a.dtype, b.dtype, "fdiv")
    if not to.is_floating():
        raise KernelTypeError(
            f"fdiv takes floats, got {describe(a)} and {describe(b)}",
            hint="cast them first, e.g. .to(tl.float32); integers take //",
        )
    shape = common_shape(a, b, what="fdiv")
    function = "div_rn" if static(ieee_rounding, "ieee_rounding") else "div"
    return made(Elementwise(function, (operand(a, to, shape), operand(b, to, shape))), to)


@builtin
def div_rn(x: Any, y: Any) -> tensor:
    """Return x / y, correctly rounded."""
    return fdiv(x, y, True)


@builtin
def umulhi(x: Any, y: Any) -> tensor:
    """Return the high half of the unsigned product of two integers."""
    for side in (x, y):
        to_tensor(side)  # which says what is no number
    to = common_dtype(x, y, "umulhi")
    if to.int_bitwidth not in (32, 64):
        raise KernelTypeError(
            f"umulhi takes 32- and 64-bit integers, got {describe(x)}",
            hint="cast both first, e.g. .to(tl.uint32)",
        )
    unsigned = uint32 if to.int_bitwidth == 32 else uint64
    shape = common_shape(x, y, what="umulhi")
    sides = [bitcast_tensor(wrap(operand(v, to, shape), to), unsigned).value for v in (x, y)]
    return bitcast_tensor(made(Elementwise("mulhi", tuple(sides)), unsigned), to)
