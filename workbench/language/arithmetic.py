"""Operators, comparisons and mathematical functions (README.md, rules 3 to 9, 18, 24).

The functions themselves stand in functions.py; what is here are operators and what they need.
"""

from __future__ import annotations

import enum
from typing import Any

from workbench.ir import INDEX
from workbench.language.casts import cast_tensor, widen_bfloat16
from workbench.language.constexprs import is_tuple
from workbench.language.dots import dot
from workbench.language.dtypes import (
    DTYPES,
    dtype,
    float32,
    float64,
    int1,
    int32,
    number_type,
    uint8,
)
from workbench.language.floats import elementwise, real, real_functions
from workbench.language.promotion import common_dtype, promote
from workbench.language.shapes import broadcast_value, common_shape, operand
from workbench.language.state import active, current
from workbench.language.table import builtin
from workbench.language.values import (
    describe,
    emit,
    fit_number,
    is_number,
    kind_of,
    made,
    static,
    tensor,
    to_tensor,
    wrap,
)
from workbench.ops import AddPointer, Bitcast, Elementwise, Select
from workbench.ops.numbers import truncated_quotient, truncated_remainder
from workbench.ops.small_floats import SMALL_FLOATS
from workbench.source import KernelTypeError, shown
from workbench.source.evaluation import OPERATORS

_RING = {"+": "add", "-": "sub", "*": "mul"}
_BITWISE = {"&": "and", "|": "or", "^": "xor", "<<": "shl", ">>": "shr"}
_COMPARES = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}


class PropagateNan(enum.Enum):
    """What maximum and minimum do with a NaN: NONE lets it lose, ALL lets it win."""

    NONE = 0
    ALL = 0xFFFF


# -- operators ------------------------------------------------------------------------------
def binary(symbol: str, a: Any, b: Any) -> Any:
    """Return `a symbol b`; two Python values are computed in Python."""
    if not isinstance(a, tensor) and not isinstance(b, tensor):
        if is_tuple(a) and is_tuple(b) and symbol in ("==", "!="):
            return _compare_tuples(symbol, a, b)
        return _in_python(symbol, a, b)
    if symbol == "@":
        current().superset("the operator '@'; write tl.dot")
        return dot(a, b)
    for side in (a, b):
        if not isinstance(side, tensor) and not is_number(side):
            return _with_object(symbol, a, b, side)
    if symbol in _COMPARES:
        return compare(symbol, a, b)
    if symbol == "**":
        return _power(a, b)
    if (isinstance(a, tensor) and a.dtype.is_ptr()) or (isinstance(b, tensor) and b.dtype.is_ptr()):
        return _move_pointer(symbol, a, b)
    return arithmetic(symbol, a, b)


def _in_python(symbol: str, a: Any, b: Any) -> Any:
    try:
        return OPERATORS[symbol](a, b)
    except ZeroDivisionError as error:
        raise KernelTypeError(
            f"{shown(a)} {symbol} {shown(b)} divides by zero at compile time",
            hint="choose another constexpr, or ask first: a // b if b else 0",
        ) from error
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise KernelTypeError(
            f"'{symbol}' does not take {kind_of(a)} and {kind_of(b)}: "
            f"{shown(a)} {symbol} {shown(b)}",
            hint=_for_object(symbol, a, b) or _for_constants(symbol, a, b),
        ) from error


def _compare_tuples(symbol: str, a: tuple[Any, ...], b: tuple[Any, ...]) -> Any:
    """Compare element by element: known now if every element is."""
    equal: Any = len(a) == len(b)
    if equal:
        for x, y in zip(a, b, strict=True):
            one = binary("==", x, y)
            if isinstance(one, tensor) and one.constant is not None:
                one = one.constant
            if not isinstance(one, tensor) and not one:
                equal = False
                break
            equal = logical("and", equal, one) if isinstance(one, tensor) else equal
    return equal if symbol == "==" else logical_not(equal)


def _with_object(symbol: str, a: Any, b: Any, side: Any) -> Any:
    """A tensor met None, a dtype, a string or a tuple."""
    if symbol in ("==", "!="):
        if isinstance(side, str):
            current().remark(f"this value of a run is never equal to a text: {shown(side)}")
        return symbol == "!="
    raise KernelTypeError(
        f"'{symbol}' does not take {describe(a)} and {describe(b)}",
        hint=_for_object(symbol, a, b) or "pass a number or a tensor there",
    )


def _for_object(symbol: str, a: Any, b: Any) -> str | None:
    """Say what to do about an operand that is no number, as far as that is known."""
    if a is None or b is None:
        return "ask first: if x is not None (an argument that is left out may be None)"
    if isinstance(a, str) and symbol == "%":
        return 'texts hold no values of a run: tl.device_print("n =", n) shows one'
    return None


def _for_constants(symbol: str, a: Any, b: Any) -> str:
    if symbol in ("<<", ">>") and isinstance(b, int) and b < 0:
        return "shift by 0 or more, or the other way"
    if any(hasattr(side, "window") for side in (a, b)):
        return "a block pointer moves by tl.advance(p, (i, j))"
    if isinstance(a, str) or isinstance(b, str):
        return "write texts as f-strings of constexprs, compare them by == and in"
    return "pass numbers there"


def arithmetic(symbol: str, a: Any, b: Any) -> tensor:
    """Return `a symbol b` for numbers, at least one of them a tensor."""
    division = symbol in ("/", "//", "%")
    to = common_dtype(a, b, symbol, division=division)
    if symbol == "/":
        to = to if to.is_floating() else float32
    elif symbol == "//" and to.is_floating():
        raise KernelTypeError(
            f"'//' takes integers, got {describe(a)} and {describe(b)}",
            hint="use '/' and tl.floor for floats",
        )
    elif symbol in _BITWISE:
        return _bitwise(symbol, a, b, to)
    if division:
        _check_divisor(symbol, b, to)
    folded = _folded(symbol, a, b, to)
    if folded is not None:
        return folded
    shape = common_shape(a, b, what=f"'{symbol}'")
    exact = to == int32 and _is_exact(symbol, a, b)
    x, y = operand(a, to, shape, exact=exact), operand(b, to, shape, exact=exact)
    name = _RING.get(symbol) or ("rem" if symbol == "%" else "div")
    return made(Elementwise(name, (x, y)), to)


def _is_exact(symbol: str, *operands: Any) -> bool:
    """Say whether an operation on int32 keeps its exact value."""
    state = current()
    grows = symbol in _RING and not state.wrap_loaded
    return state.exact_index and (grows or _any_exact(*operands))


def _any_exact(*operands: Any) -> bool:
    return any(isinstance(x, tensor) and x.is_exact for x in operands)


def _bitwise(symbol: str, a: Any, b: Any, to: dtype) -> tensor:
    if to.is_floating():
        raise KernelTypeError(
            f"'{symbol}' takes integers; invalid operands of type {describe(a)} and {describe(b)}",
            hint="bitcast with .to(tl.int32, bitcast=True) to work on the bits of a float",
        )
    if symbol in ("<<", ">>"):
        _check_shift(symbol, b, to)
    folded = _folded(symbol, a, b, to)
    if folded is not None:
        return folded
    shape = common_shape(a, b, what=f"'{symbol}'")
    inputs = operand(a, to, shape), operand(b, to, shape)
    signed = isinstance(a, tensor) and a.dtype.is_int_signed()
    if symbol == ">>" and signed and to.is_int_unsigned():
        # The left operand says whether the sign comes along, also where the result has none.
        signed_type = DTYPES[f"int{to.int_bitwidth}"].element
        left, right = (emit(Bitcast(x, signed_type)) for x in inputs)
        return made(Bitcast(emit(Elementwise("shr", (left, right))), to.element), to)
    return made(Elementwise(_BITWISE[symbol], inputs), to)


def _check_divisor(symbol: str, divisor: Any, to: dtype) -> None:
    number = divisor.constant if isinstance(divisor, tensor) else divisor
    if number is not None and number == 0 and to.is_int():
        what = "0" if symbol == "//" else "the dividend"
        current().remark(f"'{symbol}' by 0 is undefined in Triton (here: it gives {what})")


def _check_shift(symbol: str, amount: Any, to: dtype) -> None:
    number = amount.constant if isinstance(amount, tensor) else amount
    if number is not None and number >= to.int_bitwidth:
        current().remark(
            f"'{symbol}' by {number} of {to} is undefined in Triton (here: all bits go)"
        )


def _folded(symbol: str, a: Any, b: Any, to: dtype) -> tensor | None:
    """Return the strong constant that two known integers give, None if that is not known."""
    numbers: list[int] = []
    for x in (a, b):
        number = x.constant if isinstance(x, tensor) else x
        if number is None or not isinstance(number, int) or (isinstance(x, tensor) and x.shape):
            return None
        numbers.append(number)
    if not to.is_int() or symbol == "/":
        return None
    left, right = numbers
    if symbol in ("//", "%"):
        if right == 0:
            return None
        divide = truncated_quotient if symbol == "//" else truncated_remainder
        number = divide(left, right)
    elif symbol in ("<<", ">>") and not 0 <= right < to.int_bitwidth:
        return None
    else:
        number = OPERATORS[symbol](left, right)
    exact = to == int32 and current().exact_index and symbol in ("+", "-", "*", "//", "%")
    return tensor(None, to, (), fit_number(number, INDEX if exact else to.element))


def _move_pointer(symbol: str, a: Any, b: Any) -> tensor:
    """Return a pointer moved by whole elements (rule 18)."""
    left = isinstance(a, tensor) and a.dtype.is_ptr()
    pointer, offset = (a, b) if left else (b, a)
    both = isinstance(offset, tensor) and offset.dtype.is_ptr()
    if both or symbol not in ("+", "-") or (symbol == "-" and not left):
        raise KernelTypeError(
            f"'{symbol}' does not take {describe(a)} and {describe(b)}",
            hint="a pointer takes + and - with integers (addresses are subtracted as tl.int64); "
            "the number that a tensor holds is passed as n.item(), or loaded by tl.load(n)",
        )
    offset = to_tensor(offset)
    if not offset.dtype.is_int() or offset.dtype == int1:
        raise KernelTypeError(
            f"a pointer moves by integers, got {describe(offset)}",
            hint="an offset is an integer (// divides integers, .to(tl.int64) casts); what a "
            "pointer points to is loaded first, e.g. tl.load(x + offsets)",
        )
    if symbol == "-":
        offset = negative(offset)
    shape = common_shape(pointer, offset, what=f"'{symbol}'")
    base = broadcast_value(pointer.value, shape)
    return made(AddPointer(base, operand(offset, offset.dtype, shape, exact=True)), pointer.dtype)


def compare(symbol: str, a: Any, b: Any) -> tensor:
    """Return `a symbol b` as int1; a number becomes a tensor of its own first (rule 4)."""
    x, y = to_tensor(a), to_tensor(b)
    if x.dtype.is_ptr() or y.dtype.is_ptr():
        raise KernelTypeError(
            f"'{symbol}' does not compare pointers: {describe(x)} and {describe(y)}",
            hint="cast both to tl.int64"
            if x.dtype.is_ptr() and y.dtype.is_ptr()
            else "the number that a tensor holds is passed as n.item(), or loaded by tl.load(n); "
            "whether there is one, pointer.to(tl.int1) says",
        )
    to = promote(x.dtype, y.dtype, symbol)
    if x.constant is not None and y.constant is not None and not x.shape and not y.shape:
        return tensor(None, int1, (), bool(OPERATORS[symbol](x.constant, y.constant)))
    shape = common_shape(x, y, what=f"'{symbol}'")
    exact = to == int32 and _any_exact(x, y)
    left, right = operand(x, to, shape, exact=exact), operand(y, to, shape, exact=exact)
    return made(Elementwise(_COMPARES[symbol], (left, right)), int1)


def negative(x: Any) -> Any:
    """Return 0 - x (so that -0.0 comes out as +0.0)."""
    if not isinstance(x, tensor):
        return -x
    if x.dtype.is_ptr():
        raise KernelTypeError(
            f"'-' does not take {describe(x)}", hint="negate numbers; a pointer goes back by p - n"
        )
    if x.constant is not None and not x.shape and x.dtype.is_int():
        return _folded("-", 0, x, x.dtype)
    if x.dtype.is_fp8():
        return _negative_code(x)
    exact = x.dtype == int32 and _is_exact("-", x)
    zero = operand(0, x.dtype, x.shape, exact=exact)
    return made(Elementwise("sub", (zero, operand(x, x.dtype, x.shape, exact=exact))), x.dtype)


def _negative_code(x: tensor) -> tensor:
    """Return 0 - x of an 8-bit float; rounding a difference would make a number of an infinity."""
    code = made(Bitcast(x.stored(), uint8.element), uint8)
    turned = arithmetic("^", code, 0x80)
    # Both zeros come out as +0.0. Where there is but one, 0x80 is NaN and stays that.
    magnitude = arithmetic("&", code, 0x7F)
    kept = magnitude if SMALL_FLOATS[number_type(x.dtype)].signed else code
    turned = where(compare("==", magnitude, 0), kept, turned)
    return made(Bitcast(turned.stored(), x.dtype.element), x.dtype)


def positive(x: Any) -> Any:
    """Return x itself."""
    return x if isinstance(x, tensor) else +x


def inverted(x: Any) -> Any:
    """Return x with all bits flipped; floats have none."""
    if not isinstance(x, tensor):
        return ~x
    if not x.dtype.is_int():
        raise KernelTypeError(
            f"'~' takes integers, got {describe(x)}",
            hint="compare first, e.g. ~(x > 0), or bitcast with .to(tl.int32, bitcast=True)",
        )
    ones = 1 if x.dtype == int1 else -1 if x.dtype.is_int_signed() else x.dtype.int_limits()[1]
    return made(Elementwise("xor", (x.stored(), operand(ones, x.dtype, x.shape))), x.dtype)


def logical_not(x: Any) -> Any:
    """Return `not x`: of a tensor only where it is int1 (rule 8)."""
    if not isinstance(x, tensor):
        return not x
    _need_bool(x, "not")
    if x.constant is not None and not x.shape:
        return tensor(None, int1, (), not x.constant)
    return inverted(x)


def logical(word: str, a: Any, b: Any) -> tensor:
    """Return `a and b` or `a or b` where one is a tensor: both were evaluated (rule 9)."""
    for x in (a, b):
        if not isinstance(x, tensor) and not is_number(x):
            raise KernelTypeError(
                f"'{word}' does not take {describe(a)} and {describe(b)}",
                hint="compare first, e.g. x != 0 and y != 0",
            )
    x, y = to_tensor(a), to_tensor(b)
    _need_bool(x, word)
    _need_bool(y, word)
    if (x.shape or y.shape) and not (x.constant is not None or y.constant is not None):
        symbol = "&" if word == "and" else "|"
        current().remark(f"'{word}' on blocks works element by element; write '{symbol}'")
    return arithmetic("&" if word == "and" else "|", x, y)


def logical_and(self: Any, other: Any) -> tensor:
    """Return `self and other` element by element, both int1."""
    return logical("and", self, other)


def logical_or(self: Any, other: Any) -> tensor:
    """Return `self or other` element by element, both int1."""
    return logical("or", self, other)


def _need_bool(x: tensor, word: str) -> None:
    if x.dtype != int1:
        raise KernelTypeError(
            f"'{word}' needs a condition (int1), got {describe(x)}",
            hint="cast it first: pointer.to(tl.int1)"
            if x.dtype.is_ptr()
            else "compare it first, e.g. x != 0",
        )


def _power(a: Any, b: Any) -> tensor:
    """Return a ** b: whole powers by multiplication, others by exp2 and log2."""
    current().superset("the operator '**' on tensors")
    power = b.constant if isinstance(b, tensor) and not b.shape else b
    if isinstance(power, int) and abs(power) <= 64:
        base = to_tensor(a)
        if power < 0:
            return arithmetic("/", 1.0, _whole_power(base, -power))
        return _whole_power(base, power)
    if power == 0.5:
        return elementwise("sqrt", real(to_tensor(a), "**"))
    return power_of(a, b)


def power_of(a: Any, b: Any) -> tensor:
    """Return a to the power of b; a whole b that no float holds says still whether it is odd."""
    x, n = to_tensor(a), to_tensor(b)
    held = 53 if x.dtype == float64 else 24
    if not n.dtype.is_int() or n.constant is not None or n.dtype.int_bitwidth <= held:
        return real_functions("pow", a, b)
    size = real_functions("pow", _absolute(x), n)
    odd = compare("!=", arithmetic("&", n, 1), 0)
    return real_functions("copysign", size, where(odd, x, 1.0))


def _absolute(x: tensor) -> tensor:
    return x if x.dtype.is_int_unsigned() else made(Elementwise("abs", (x.value,)), x.dtype)


def _whole_power(base: tensor, power: int) -> tensor:
    result: tensor | None = None
    while power:
        if power & 1:
            result = base if result is None else arithmetic("*", result, base)
        power >>= 1
        if power:
            base = arithmetic("*", base, base)
    if result is None:
        return wrap(operand(1, base.dtype, base.shape), base.dtype)
    return result


# -- named arithmetic -----------------------------------------------------------------------
@builtin
def add(x: Any, y: Any, sanitize_overflow: Any = True) -> Any:
    """Return x + y."""
    return binary("+", x, y)


@builtin
def sub(x: Any, y: Any, sanitize_overflow: Any = True) -> Any:
    """Return x - y."""
    return binary("-", x, y)


@builtin
def mul(x: Any, y: Any, sanitize_overflow: Any = True) -> Any:
    """Return x * y."""
    return binary("*", x, y)


@builtin
def where(condition: Any, x: Any, y: Any) -> tensor:
    """Return x where the condition holds and y elsewhere; both are evaluated."""
    test = to_tensor(condition)
    if test.dtype != int1:
        current().remark("the condition of where is not int1; it is compared with 0")
        test = cast_tensor(test, int1)
    for side in (x, y):
        if not isinstance(side, tensor):
            to_tensor(side)
    to = _where_dtype(x, y)
    shape = common_shape(test, x, y, what="where")
    exact = to == int32 and _any_exact(x, y) and current().exact_index
    chosen = broadcast_value(test.value, shape if test.shape else ())
    then, otherwise = operand(x, to, shape, exact=exact), operand(y, to, shape, exact=exact)
    return made(Select(chosen, then, otherwise), to)


def _where_dtype(x: Any, y: Any) -> dtype:
    pointers = [v.dtype for v in (x, y) if isinstance(v, tensor) and v.dtype.is_ptr()]
    if len(pointers) == 2 and pointers[0] == pointers[1]:
        return pointers[0]
    return common_dtype(x, y, "where")


def _pair(x: Any, y: Any, name: str) -> tuple[tensor, tensor, dtype]:
    """Return two operands as tensors (rule 4), bf16 widened, with their common dtype."""
    a, b = widen_bfloat16(to_tensor(x)), widen_bfloat16(to_tensor(y))
    return a, b, promote(a.dtype, b.dtype, name)


def _extreme(x: Any, y: Any, propagate_nan: Any, name: str) -> Any:
    if is_number(x) and is_number(y):
        return max(x, y) if name == "maximum" else min(x, y)
    a, b, to = _pair(x, y, name)
    if a.constant is not None and b.constant is not None and not a.shape and not b.shape:
        pick = max if name == "maximum" else min
        return tensor(None, to, (), pick(a.constant, b.constant))
    shape = common_shape(a, b, what=name)
    exact = to == int32 and _any_exact(a, b)
    wins = static(propagate_nan, "propagate_nan")
    if not isinstance(wins, PropagateNan):
        raise KernelTypeError(
            f"propagate_nan is tl.PropagateNan.NONE or .ALL, got {wins!r}",
            hint="write tl.PropagateNan.ALL, or leave it out",
        )
    function = name if wins is PropagateNan.ALL and to.is_floating() else name[:3]
    inputs = operand(a, to, shape, exact=exact), operand(b, to, shape, exact=exact)
    return made(Elementwise(function, inputs), to)


@builtin
def maximum(x: Any, y: Any, propagate_nan: Any = PropagateNan.NONE) -> Any:
    """Return the larger of two, element by element; a NaN loses unless it is propagated."""
    return _extreme(x, y, propagate_nan, "maximum")


@builtin
def minimum(x: Any, y: Any, propagate_nan: Any = PropagateNan.NONE) -> Any:
    """Return the smaller of two, element by element; a NaN loses unless it is propagated."""
    return _extreme(x, y, propagate_nan, "minimum")


@builtin
def clamp(x: Any, min: Any, max: Any, propagate_nan: Any = PropagateNan.NONE) -> tensor:
    """Return x held between two bounds (floats only)."""
    value = widen_bfloat16(to_tensor(x))
    if not value.dtype.is_floating():
        raise KernelTypeError(
            f"clamp takes floats, got {describe(value)}", hint="use tl.maximum and tl.minimum"
        )
    return minimum(maximum(value, min, propagate_nan), max, propagate_nan)


@builtin
def cdiv(x: Any, div: Any) -> Any:
    """Return (x + div - 1) // div: how many pieces of size `div` cover `x`."""
    x, div = (
        getattr(x, "value", x) if not active() else x,
        getattr(div, "value", div) if not active() else div,
    )
    return binary("//", binary("+", x, binary("-", div, 1)), div)


@builtin
def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> tuple[Any, Any]:
    """Return the grouped order of tiles: columns of groups of `size_g` rows."""
    ij = binary("+", binary("*", i, size_j), j)
    size_gj = binary("*", size_g, size_j)
    group = binary("//", ij, size_gj)
    off_i = binary("*", group, size_g)
    rows = minimum(binary("-", size_i, off_i), size_g)
    ij = binary("%", ij, size_gj)
    return binary("+", off_i, binary("%", ij, rows)), binary("//", ij, rows)
