"""How each row of the elementwise table is computed on chunks."""

from __future__ import annotations

from collections.abc import Callable

from workbench.ir import F16, I1, Scalar
from workbench.targets.cpu.arithmetic import Arithmetic
from workbench.targets.cpu.chunks import register_type
from workbench.targets.cpu.numbers import NARROW_FLOATS, round_register
from workbench.targets.cpu.polynomials import POLYNOMIALS

_FLOAT_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv", "div_rn": "fdiv"}
_INTEGER_BINARY = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_BOOL_BINARY = {
    "add": "xor", "sub": "xor", "mul": "and", "min": "and", "max": "or", "minimum": "and",
    "maximum": "or", "and": "and", "or": "or", "xor": "xor",
}  # fmt: skip
_FLOAT_INTRINSICS = {
    "min": "minnum", "max": "maxnum", "minimum": "minimum", "maximum": "maximum", "abs": "fabs",
    "floor": "floor", "ceil": "ceil", "sqrt": "sqrt", "sqrt_rn": "sqrt", "fma": "fma",
    "trunc": "trunc", "rint": "rint", "round": "round", "copysign": "copysign",
}  # fmt: skip
_COMPARISONS = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq", "ne": "ne"}
#: Results of these need no rounding: they are one of the operands, or its mirror image.
_EXACT = frozenset(
    (
        "min",
        "max",
        "minimum",
        "maximum",
        "abs",
        "neg",
        "floor",
        "ceil",
        "trunc",
        "rint",
        "round",
        "copysign",
    )
)


def apply_function(a: Arithmetic, name: str, element: Scalar, inputs: list[str]) -> str:
    """Return `name` of registers of one element type."""
    if name in _COMPARISONS:
        return _compare(a, name, element, inputs)
    if element.is_float:
        result = _float(a, name, element, inputs)
        if element in NARROW_FLOATS and name not in _EXACT:
            return round_register(a, result, element)
        return result
    if element == I1:
        return _bool(a, name, inputs)
    return _integer(a, name, element, inputs)


def _compare(a: Arithmetic, name: str, element: Scalar, inputs: list[str]) -> str:
    x, y = inputs
    if element.is_float:
        word = "fcmp une" if name == "ne" else f"fcmp o{name}"
    elif name in ("eq", "ne"):
        word = f"icmp {name}"
    else:
        word = f"icmp {'s' if element.kind in ('int', 'index') else 'u'}{name}"
    return a.compare(word, register_type(element), x, y)


def _float(a: Arithmetic, name: str, element: Scalar, inputs: list[str]) -> str:
    type = register_type(element)
    if name in _FLOAT_BINARY:
        return a.binary(_FLOAT_BINARY[name], type, *inputs)
    if name in _FLOAT_INTRINSICS and not (name == "fma" and type == "half"):
        return a.intrinsic(_FLOAT_INTRINSICS[name], type, inputs)
    if name == "neg":
        return a.unary("fneg", type, inputs[0])
    if element == F16:
        single = [a.cast("fpext", x, "half", "float") for x in inputs]
        return a.cast("fptrunc", _transcendental(a, name, "float", single), "float", "half")
    return _transcendental(a, name, type, inputs)


def _transcendental(a: Arithmetic, name: str, type: str, inputs: list[str]) -> str:
    if name == "fma":
        return a.fma(inputs[0], inputs[1], inputs[2], type)
    if name == "rsqrt":
        return a.binary("fdiv", type, a.real(1.0, type), a.intrinsic("sqrt", type, inputs))
    if name == "rem":
        return a.libm("fmod" if type == "double" else "fmodf", inputs, type)
    if type == "float":
        return POLYNOMIALS[name](a, inputs[0])
    return a.libm(name, inputs, type)


def _bool(a: Arithmetic, name: str, inputs: list[str]) -> str:
    if name in _BOOL_BINARY:
        x, y = inputs
        if not a.lanes:
            return a.emit.bitwise(_BOOL_BINARY[name], "i1", x, y)
        return a.binary(_BOOL_BINARY[name], "i1", x, y)
    if name in ("abs", "neg"):
        return inputs[0]
    if name == "div":
        return a.emit.pure(f"and {a.type('i1')} {inputs[0]}, {inputs[1]}")
    zero = a.integer(0, "i1")
    if name in ("shl", "shr"):
        return a.select(inputs[1], zero, inputs[0], "i1")
    return zero  # rem, mulhi


def _integer(a: Arithmetic, name: str, element: Scalar, inputs: list[str]) -> str:
    type = register_type(element)
    if name in _INTEGER_BINARY:
        if not a.lanes and name in ("and", "or", "xor"):
            return a.emit.bitwise(name, type, *inputs)
        return a.binary(_INTEGER_BINARY[name], type, *inputs)
    signed = element.kind in ("int", "index")
    if name in ("min", "max", "minimum", "maximum"):
        return a.intrinsic(("s" if signed else "u") + name[:3], type, inputs)
    return _INTEGER_RULES[name](a, type, signed, inputs)


def _divide(a: Arithmetic, type: str, signed: bool, inputs: list[str]) -> str:
    return _quotient(a, type, signed, *inputs)


def _quotient(a: Arithmetic, type: str, signed: bool, x: str, y: str) -> str:
    """Truncated quotient; 0 by zero, and never the trap of a hardware division."""
    bits = int(type[1:])
    constant = _constant(y)
    word = "sdiv" if signed else "udiv"
    if constant is not None:
        if constant == 0:
            return a.integer(0, type)
        if constant == -1 and signed:
            return a.binary("sub", type, a.integer(0, type), x)
        if constant == 1:
            return x
        return a.emit.pure(f"{word} {a.type(type)} {x}, {y}")
    zero = a.compare("icmp eq", type, y, a.integer(0, type))
    safe = a.select(zero, a.integer(1, type), y, type)
    minus = a.compare("icmp eq", type, y, a.integer(-1, type))
    if signed:
        safe = a.select(minus, a.integer(1, type), safe, type)
    if a.lanes and bits <= 32:
        # Exact: a quotient of 32-bit integers is never closer than 2^-32 to the next integer.
        to, back = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
        wide = [a.cast(to, v, type, "double") for v in (x, safe)]
        ratio = a.emit.pure(f"fdiv {a.type('double')} {wide[0]}, {wide[1]}")
        result = a.cast("trunc", a.cast(back, ratio, "double", "i32"), "i32", type)
    else:
        result = a.emit.pure(f"{word} {a.type(type)} {x}, {safe}")
    if signed:
        negated = a.binary("sub", type, a.integer(0, type), x)
        result = a.select(minus, negated, result, type)
    return a.select(zero, a.integer(0, type), result, type)


def _constant(text: str) -> int | None:
    word = text[text.index(" ") + 1 : -1].split()[-1] if text.startswith("splat (") else text
    try:
        return int(word)
    except ValueError:
        return None


def _remainder(a: Arithmetic, type: str, signed: bool, inputs: list[str]) -> str:
    """X - quotient * y; by zero it is x, as the quotient is 0 then."""
    x, y = inputs
    constant = _constant(y)
    if constant is not None and constant not in (0, -1):
        return a.emit.pure(f"{'srem' if signed else 'urem'} {a.type(type)} {x}, {y}")
    return a.binary("sub", type, x, a.binary("mul", type, _quotient(a, type, signed, x, y), y))


def _shift_left(a: Arithmetic, type: str, signed: bool, inputs: list[str]) -> str:
    return _shift_or_zero(a, "shl", type, inputs)


def _shift_right(a: Arithmetic, type: str, signed: bool, inputs: list[str]) -> str:
    if not signed:
        return _shift_or_zero(a, "lshr", type, inputs)
    amount = a.intrinsic("umin", type, [inputs[1], a.integer(int(type[1:]) - 1, type)])
    return a.binary("ashr", type, inputs[0], amount)


def _shift_or_zero(a: Arithmetic, name: str, type: str, inputs: list[str]) -> str:
    """Return a shift that leaves nothing where its amount, read as unsigned, is the width or more.

    LLVM says nothing of such amounts (poison).
    """
    x, amount = inputs
    bits, constant = int(type[1:]), _constant(amount)
    if constant is not None:
        inside = 0 <= constant < bits
        return a.binary(name, type, x, amount) if inside else a.integer(0, type)
    inside = a.compare("icmp ult", type, amount, a.integer(bits, type))
    safe = a.select(inside, amount, a.integer(0, type), type)
    return a.select(inside, a.binary(name, type, x, safe), a.integer(0, type), type)


def _multiply_high(a: Arithmetic, type: str, signed: bool, inputs: list[str]) -> str:
    bits = int(type[1:])
    wide = f"i{2 * bits}"
    x, y = (a.cast("sext" if signed else "zext", v, type, wide) for v in inputs)
    high = a.emit.pure(f"lshr {a.type(wide)} {_product(a, wide, x, y)}, {a.integer(bits, wide)}")
    return a.cast("trunc", high, wide, type)


def _product(a: Arithmetic, type: str, x: str, y: str) -> str:
    return a.emit.pure(f"mul {a.type(type)} {x}, {y}")


def _absolute(a: Arithmetic, type: str, signed: bool, inputs: list[str]) -> str:
    return a.intrinsic("abs", type, inputs, "i1 false") if signed else inputs[0]


def _negate(a: Arithmetic, type: str, signed: bool, inputs: list[str]) -> str:
    return a.binary("sub", type, a.integer(0, type), inputs[0])


_INTEGER_RULES: dict[str, Callable[[Arithmetic, str, bool, list[str]], str]] = {
    "div": _divide,
    "rem": _remainder,
    "shl": _shift_left,
    "shr": _shift_right,
    "mulhi": _multiply_high,
    "abs": _absolute,
    "neg": _negate,
    "popcount": lambda a, type, signed, inputs: a.intrinsic("ctpop", type, inputs),
    "leading_zeros": lambda a, type, signed, inputs: a.intrinsic("ctlz", type, inputs, "i1 false"),
    "reverse_bits": lambda a, type, signed, inputs: a.intrinsic("bitreverse", type, inputs),
}


def has_function(function: str, element: Scalar) -> bool:
    """Say whether a function that has a formula is written here without it.

    f64 has the C library's, one element at a time; f32, in which 16-bit types are computed, has
    polynomials on vectors.
    """
    if element.bits == 64:
        return function != "erfinv"
    return function in POLYNOMIALS or function == "rem"
