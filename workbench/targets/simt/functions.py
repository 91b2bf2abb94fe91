"""How float functions are written.

f32 goes by one table: what the GPU computes itself (`Hardware.float_rule`) or a formula made of
such pieces. 16-bit types compute in f32 and round once, except where LLVM has the instruction for
them. f64 goes through LLVM's own expansions or is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from workbench.ir import Scalar
from workbench.targets.llvm.emit import Emitter, float_literal
from workbench.targets.simt.hardware import Hardware, Rule
from workbench.targets.simt.lowering import Lowering

_ERF_NEAR = (
    -9.728409506310374e-06, 0.00011288175128281621, -0.000848726778043254, 0.005221261499014712,
    -0.026865517445686004, 0.11283784111862756, -0.3761263859043286, 0.12837916708228542,
)  # fmt: skip
_ERF_FAR = (
    0.0905286697240336, -0.37278728395493194, 0.4206182624770756, 0.010146859162569632,
    0.29390830659040934, 0.2748551048268264, 0.28256481885505086,
)  # fmt: skip
#: Intrinsics that LLVM has for f16, f32 and f64, and how many operands they take.
_ANY_FLOAT = {
    "min": ("minnum", 2), "max": ("maxnum", 2), "minimum": ("minimum", 2),
    "maximum": ("maximum", 2), "fma": ("fma", 3), "abs": ("fabs", 1),
}  # fmt: skip
#: Intrinsics for f32 and f64; 16-bit types go through f32.
_ROUNDING = {"trunc": 1, "rint": 1, "copysign": 2, "floor": 1, "ceil": 1}
#: Functions that have formulas and that f32 (and what is computed in it) does without.
_OWN_SINGLE = frozenset(("exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf"))
# (tanh x / x - 1) / x^2 in x^2 up to x = 0.55, highest power first: an error of 4e-8 in it.
_TANH_NEAR = (-0.006591692423, 0.02129948654, -0.05390780715, 0.1333310545, -0.3333333194)
_HALF_PI = (1.57079601287841796875, 3.1391647326017846e-07, 5.390302529957764e-15)
_SINE = (
    2.608315980978659354150e-6, -1.981069071916863322258e-4, 8.33307858556509017944336e-3,
    -0.166666597127914428710938,
)  # fmt: skip
_COSINE = (2.44331571e-5, -1.38873162e-3, 4.16666456e-2, -0.5, 1.0)
_INFIX = {"add": "fadd", "sub": "fsub", "mul": "fmul"}


def float_function(function: str, element: Scalar, low: Lowering) -> Rule | None:
    """Return a rule that writes `function` on operands of a float type; None if there is none."""
    type = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}[element.name]
    emit = low.emit
    contract = "contract " if low.allow_contract else ""
    if function in _INFIX:
        word = _INFIX[function]
        return lambda v: emit.pure(f"{word} {contract}{type} {v[0]}, {v[1]}")
    if function == "neg":
        return lambda v: emit.pure(f"fneg {type} {v[0]}")
    if function in _ANY_FLOAT:
        name, arity = _ANY_FLOAT[function]
        wide = "float" if type == "bfloat" else type
        return _in(low, wide, type, _intrinsic(emit, f"llvm.{name}.{_suffix(wide)}", arity))
    if function in _ROUNDING:
        wide = "double" if type == "double" else "float"
        name = f"llvm.{function}.{_suffix(wide)}"
        return _in(low, wide, type, _intrinsic(emit, name, _ROUNDING[function]))
    if function == "round":
        wide = "double" if type == "double" else "float"
        return _in(low, wide, type, lambda v: low.chip.half_away(emit, v[0], wide))
    if type == "double":
        return _double(function, low)
    rule = _single(function, low)
    return None if rule is None else _in(low, "float", type, rule)


def has_function(function: str, element: Scalar) -> bool:
    """Say whether a function that has a formula is written here without it."""
    return element.bits < 64 and function in _OWN_SINGLE


def _suffix(type: str) -> str:
    return {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}[type]


def _intrinsic(emit: Emitter, name: str, arity: int) -> Rule:
    type = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}[
        name.rsplit(".", 1)[1]
    ]

    def rule(v: Sequence[str]) -> str:
        arguments = ", ".join(f"{type} {x}" for x in v)
        return emit.call(type, name, arguments, ", ".join([type] * arity))

    return rule


def _in(low: Lowering, inner: str, outer: str, rule: Rule) -> Rule:
    """Compute a rule for `inner` on values of `outer`, rounding once at the end."""
    if inner == outer:
        return rule
    emit = low.emit

    def widened(v: Sequence[str]) -> str:
        result = rule([emit.pure(f"fpext {outer} {x} to {inner}") for x in v])
        return emit.pure(f"fptrunc {inner} {result} to {outer}")

    return widened


class _Single:
    """What formulas of f32 are made of."""

    def __init__(self, emit: Emitter, chip: Hardware) -> None:
        self.emit = emit
        self.chip = chip

    def own(self, function: str, *operands: str) -> str:
        """Return a function that every GPU computes itself."""
        rule = self.chip.float_rule(self.emit, function, "float")
        assert rule is not None, f"{self.chip.name} says nothing of {function}"
        return rule(operands)

    def intrinsic(self, name: str, *operands: str) -> str:
        """Return one of LLVM's functions."""
        return _intrinsic(self.emit, f"llvm.{name}.f32", len(operands))(operands)

    # -- pieces ---------------------------------------------------------------------------
    def multiply(self, a: str, b: str) -> str:
        return self.emit.pure(f"fmul float {a}, {b}")

    def fma(self, a: str, b: str, c: str) -> str:
        return self.intrinsic("fma", a, b, c)

    def negate(self, a: str) -> str:
        return self.emit.pure(f"fneg float {a}")

    def polynomial(self, coefficients: Sequence[float], x: str) -> str:
        """Return the polynomial by Horner's rule, the highest power's coefficient first."""
        total = _f32(coefficients[0])
        for coefficient in coefficients[1:]:
            total = self.fma(total, x, _f32(coefficient))
        return total

    def with_sign(self, magnitude: str, sign: str) -> str:
        arguments = f"float {magnitude}, float {sign}"
        return self.emit.call("float", "llvm.copysign.f32", arguments, "float, float")


def _divide(s: _Single, v: Sequence[str]) -> str:
    """Within 2 ulp; 1 / x is one instruction (its subnormal results may be 0)."""
    return s.own("reciprocal", v[1]) if v[0] == _f32(1.0) else s.own("div", *v)


def _log(s: _Single, v: Sequence[str]) -> str:
    return s.multiply(s.own("log2", v[0]), _f32(math.log(2)))


def _exp(s: _Single, v: Sequence[str]) -> str:
    """e^x = 2^t · (1 + r), where t is x · log2 e rounded down and r = x - t · ln 2.

    2^t alone would be wrong by |x| · 2^-24 relatively: 4 ulp at x = 9. Rounding down keeps r
    above 0 where 2^t is infinite, so that their product is. Where x itself is infinite r is
    NaN; the minimum, in which a NaN loses, makes it a number again.
    """
    down = s.own("multiply_down", v[0], _f32(1.4426950216293335))  # float32(log2 e), below it
    rest = s.fma(down, _f32(-0.6931471824645996), v[0])  # -float32(ln 2)
    rest = s.fma(down, _f32(1.904654323148e-9), rest)  # and what that is too large by
    rest = s.intrinsic("minnum", rest, _f32(0.5))
    power = s.own("exp2", down)
    return s.fma(power, rest, power)


def exp_of_at_most_0(low: Lowering) -> Rule | None:
    """Return the rule of exp for f32 that are not above 0; None where the chip has none.

    As above, but log2 e is rounded up, so that r is above 0 here too, and no product is infinite:
    of the NaN that is left where x is -inf, saturation makes 0 in the instruction that is there.
    Of all floats below 0 either way is off by up to 2.6 ulp on an H100, where ex2.approx is.
    """
    saturated = low.chip.float_rule(low.emit, "fma_saturated", "float")
    if saturated is None:
        return None
    s = _Single(low.emit, low.chip)

    def rule(v: Sequence[str]) -> str:
        down = s.own("multiply_down", v[0], _f32(1.4426951408386230))
        rest = s.fma(down, _f32(-0.6931471824645996), v[0])
        rest = saturated([down, _f32(1.904654323148e-9), rest])
        power = s.own("exp2", down)
        return s.fma(power, rest, power)

    return rule


def _tanh(s: _Single, v: Sequence[str]) -> str:
    """1 - 2 / (e^2|x| + 1) with x's sign; near 0 an odd polynomial keeps the relative error."""
    magnitude = s.intrinsic("fabs", *v)
    power = s.own("exp2", s.multiply(magnitude, _f32(2 / math.log(2))))
    inverse = s.own("reciprocal", s.emit.pure(f"fadd float {power}, {_f32(1.0)}"))
    far = s.fma(inverse, _f32(-2.0), _f32(1.0))
    square = s.multiply(v[0], v[0])
    near = s.polynomial(_TANH_NEAR, square)
    near = s.fma(s.multiply(near, square), magnitude, magnitude)
    small = s.emit.pure(f"fcmp olt float {magnitude}, {_f32(0.55)}")
    chosen = s.emit.pure(f"select i1 {small}, float {near}, float {far}")
    return s.with_sign(chosen, v[0])


def _erf(s: _Single, v: Sequence[str]) -> str:
    """Below 1 an odd polynomial in x, above 1 - t·p(t)·e^(-x²) with t = 1 / (1 + x/2).

    Both polynomials are least-squares fits in float64 with errors of 4e-11 and 3e-9.
    """
    magnitude = s.intrinsic("fabs", *v)
    square = s.multiply(v[0], v[0])
    near = s.fma(s.polynomial(_ERF_NEAR, square), v[0], v[0])
    t = _divide(s, [_f32(1.0), s.fma(magnitude, _f32(0.5), _f32(1.0))])
    poly = s.polynomial(_ERF_FAR, t)
    tail = s.own("exp2", s.multiply(s.negate(square), _f32(1 / math.log(2))))
    far = s.fma(s.negate(s.multiply(poly, t)), tail, _f32(1.0))
    signed = s.with_sign(far, v[0])
    small = s.emit.pure(f"fcmp olt float {magnitude}, {_f32(1.0)}")
    return s.emit.pure(f"select i1 {small}, float {near}, float {signed}")


def _remainder(s: _Single, v: Sequence[str]) -> str:
    """As fmod: a - trunc(a / b)·b with an fma, which is how LLVM expands frem."""
    ratio = s.emit.pure(f"fdiv float {v[0]}, {v[1]}")
    quotient = s.intrinsic("trunc", ratio)
    return s.fma(s.negate(quotient), v[1], v[0])


def _circular(s: _Single, x: str, shift: int) -> str:
    """Sine (shift 0) or cosine (shift 1): x less multiples of π/2, then two polynomials.

    Error below 2 ulp for |x| < 1e5; beyond, the reduction loses bits.
    """
    emit = s.emit
    turns = s.intrinsic("rint", s.multiply(x, _f32(2 / math.pi)))
    quadrant = emit.pure(f"fptosi float {turns} to i32")
    quadrant = emit.add("i32", quadrant, str(shift))
    negative = s.negate(turns)
    r = x
    for part in _HALF_PI:
        r = s.fma(negative, _f32(part), r)
    square = s.multiply(r, r)
    sine = s.polynomial(_SINE, square)
    sine = s.fma(s.multiply(sine, square), r, r)
    cosine = s.polynomial(_COSINE, square)
    odd = emit.pure(f"icmp ne i32 {emit.bitwise('and', 'i32', quadrant, '1')}, 0")
    value = emit.pure(f"select i1 {odd}, float {cosine}, float {sine}")
    flip = emit.pure(f"icmp ne i32 {emit.bitwise('and', 'i32', quadrant, '2')}, 0")
    return emit.pure(f"select i1 {flip}, float {s.negate(value)}, float {value}")


#: Functions of f32 that have a formula, where the GPU has nothing of its own for them.
FORMULAS: Mapping[str, Callable[[_Single, Sequence[str]], str]] = {
    "exp": _exp,
    "log": _log,
    "rem": _remainder,
    "sin": lambda s, v: _circular(s, v[0], 0),
    "cos": lambda s, v: _circular(s, v[0], 1),
    "tanh": _tanh,
    "erf": _erf,
}


def _single(function: str, low: Lowering) -> Rule | None:
    """Return the rule for a function of f32; None if there is none."""
    pieces = _Single(low.emit, low.chip)
    if function == "div":
        return lambda v: _divide(pieces, v)
    rule = low.chip.float_rule(low.emit, function, "float")
    if rule is not None or function not in FORMULAS:
        return rule
    formula = FORMULAS[function]
    return lambda v: formula(pieces, v)


def _f32(value: float) -> str:
    return float_literal(value, "float")


def _double(function: str, low: Lowering) -> Rule | None:
    emit, root = low.emit, low.chip.float_rule(low.emit, "sqrt_rn", "double")
    if function in ("div", "div_rn"):
        return lambda v: emit.pure(f"fdiv double {v[0]}, {v[1]}")
    if function in ("sqrt", "sqrt_rn"):
        return root
    if function == "rsqrt" and root is not None:
        return lambda v: emit.pure(f"fdiv double {float_literal(1.0, 'double')}, {root(v)}")
    return None
