"""How float functions are written for NVIDIA chips.

f32 uses the special function unit where it is within 2 ulp (ex2, lg2, rsqrt, sqrt, rcp; PTX ISA
9.0, `.approx` forms); 16-bit types compute in f32 and round once, except where the chip has the
instruction itself. f64 goes through LLVM's own expansions or is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from workbench.ir import Scalar
from workbench.targets.llvm.emit import float_literal

if TYPE_CHECKING:
    from workbench.targets.simt.lowering import Lowering

Rule = Callable[[list[str]], str]
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
_ROUNDING = {"trunc": 1, "rint": 1, "round": 1, "copysign": 2, "floor": 1, "ceil": 1}
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
        return _in(low, wide, type, _intrinsic(low, f"llvm.{name}.{_suffix(wide)}", arity))
    if function in _ROUNDING:
        wide = "double" if type == "double" else "float"
        name = f"llvm.{function}.{_suffix(wide)}"
        return _in(low, wide, type, _intrinsic(low, name, _ROUNDING[function]))
    if type == "double":
        return _double(function, low)
    rule = _Single(low).rule(function)
    return None if rule is None else _in(low, "float", type, rule)


def has_function(function: str, element: Scalar) -> bool:
    """Say whether a function that has a formula is written here without it."""
    return element.bits < 64 and function in _OWN_SINGLE


def _suffix(type: str) -> str:
    return {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64"}[type]


def _intrinsic(low: Lowering, name: str, arity: int) -> Rule:
    type = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}[
        name.rsplit(".", 1)[1]
    ]

    def rule(v: list[str]) -> str:
        arguments = ", ".join(f"{type} {x}" for x in v)
        return low.emit.call(type, name, arguments, ", ".join([type] * arity))

    return rule


def _in(low: Lowering, inner: str, outer: str, rule: Rule) -> Rule:
    """Compute a rule for `inner` on values of `outer`, rounding once at the end."""
    if inner == outer:
        return rule
    emit = low.emit

    def widened(v: list[str]) -> str:
        result = rule([emit.pure(f"fpext {outer} {x} to {inner}") for x in v])
        return emit.pure(f"fptrunc {inner} {result} to {outer}")

    return widened


def _asm(low: Lowering, text: str, arity: int, type: str = "float", letter: str = "f") -> Rule:
    """Return a rule for one PTX instruction without effects."""
    constraints = ",".join([f"={letter}"] + [letter] * arity)

    def rule(v: list[str]) -> str:
        arguments = ", ".join(f"{type} {x}" for x in v)
        return low.emit.pure(f'call {type} asm "{text};", "{constraints}"({arguments})')

    return rule


class _Single:
    """Writes functions of f32 operands."""

    def __init__(self, low: Lowering) -> None:
        self.low = low
        self.emit = low.emit
        # Subnormal results are 0 (.ftz): the exact form costs three more instructions.
        self.exp2 = _asm(low, "ex2.approx.ftz.f32 $0, $1", 1)
        self.log2 = _asm(low, "lg2.approx.f32 $0, $1", 1)
        self.multiply_down = _asm(low, "mul.rm.f32 $0, $1, $2", 2)
        self.full_divide = _asm(low, "div.full.f32 $0, $1, $2", 2)
        self.reciprocal = _asm(low, "rcp.approx.ftz.f32 $0, $1", 1)

    def rule(self, function: str) -> Rule | None:
        """Return the rule for a function; None if there is none."""
        low = self.low
        rules: dict[str, Rule] = {
            "exp": self.exp,
            "exp2": self.exp2,
            "log2": self.log2,
            "log": lambda v: self.multiply(self.log2(v), _f32(math.log(2))),
            "sqrt": _asm(low, "sqrt.approx.f32 $0, $1", 1),
            "sqrt_rn": _asm(low, "sqrt.rn.f32 $0, $1", 1),
            "rsqrt": _asm(low, "rsqrt.approx.f32 $0, $1", 1),
            "div": self.divide,
            "div_rn": _asm(low, "div.rn.f32 $0, $1, $2", 2),
            "floor": _intrinsic(low, "llvm.floor.f32", 1),
            "ceil": _intrinsic(low, "llvm.ceil.f32", 1),
            "rem": self.remainder,
            "sin": lambda v: self.circular(v[0], 0),
            "cos": lambda v: self.circular(v[0], 1),
            "tanh": self.tanh,
            "erf": self.erf,
        }
        return rules.get(function)

    def divide(self, v: list[str]) -> str:
        """Within 2 ulp; 1 / x is one instruction (its subnormal results are 0)."""
        return self.reciprocal(v[1:]) if v[0] == _f32(1.0) else self.full_divide(v)

    # -- pieces ---------------------------------------------------------------------------
    def multiply(self, a: str, b: str) -> str:
        return self.emit.pure(f"fmul float {a}, {b}")

    def fma(self, a: str, b: str, c: str) -> str:
        return _intrinsic(self.low, "llvm.fma.f32", 3)([a, b, c])

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

    # -- functions ------------------------------------------------------------------------
    def exp(self, v: list[str]) -> str:
        """e^x = 2^t · (1 + r), where t is x · log2 e rounded down and r = x - t · ln 2.

        2^t alone would be wrong by |x| · 2^-24 relatively: 4 ulp at x = 9. Rounding down keeps r
        above 0 where 2^t is infinite, so that their product is. Where x itself is infinite r is
        NaN; the minimum, in which a NaN loses, makes it a number again.
        """
        down = self.multiply_down([v[0], _f32(1.4426950216293335)])  # float32(log2 e), below it
        rest = self.fma(down, _f32(-0.6931471824645996), v[0])  # -float32(ln 2)
        rest = self.fma(down, _f32(1.904654323148e-9), rest)  # and what that is too large by
        rest = _intrinsic(self.low, "llvm.minnum.f32", 2)([rest, _f32(0.5)])
        power = self.exp2([down])
        return self.fma(power, rest, power)

    def tanh(self, v: list[str]) -> str:
        """1 - 2 / (e^2|x| + 1) with x's sign; near 0 an odd polynomial keeps the relative error."""
        magnitude = _intrinsic(self.low, "llvm.fabs.f32", 1)(v)
        power = self.exp2([self.multiply(magnitude, _f32(2 / math.log(2)))])
        inverse = self.reciprocal([self.emit.pure(f"fadd float {power}, {_f32(1.0)}")])
        far = self.fma(inverse, _f32(-2.0), _f32(1.0))
        square = self.multiply(v[0], v[0])
        near = self.polynomial(_TANH_NEAR, square)
        near = self.fma(self.multiply(near, square), magnitude, magnitude)
        small = self.emit.pure(f"fcmp olt float {magnitude}, {_f32(0.55)}")
        chosen = self.emit.pure(f"select i1 {small}, float {near}, float {far}")
        return self.with_sign(chosen, v[0])

    def erf(self, v: list[str]) -> str:
        """Below 1 an odd polynomial in x, above 1 - t·p(t)·e^(-x²) with t = 1 / (1 + x/2).

        Both polynomials are least-squares fits in float64 with errors of 4e-11 and 3e-9.
        """
        magnitude = _intrinsic(self.low, "llvm.fabs.f32", 1)(v)
        square = self.multiply(v[0], v[0])
        near = self.fma(self.polynomial(_ERF_NEAR, square), v[0], v[0])
        t = self.divide([_f32(1.0), self.fma(magnitude, _f32(0.5), _f32(1.0))])
        poly = self.polynomial(_ERF_FAR, t)
        tail = self.exp2([self.multiply(self.negate(square), _f32(1 / math.log(2)))])
        far = self.fma(self.negate(self.multiply(poly, t)), tail, _f32(1.0))
        signed = self.with_sign(far, v[0])
        small = self.emit.pure(f"fcmp olt float {magnitude}, {_f32(1.0)}")
        return self.emit.pure(f"select i1 {small}, float {near}, float {signed}")

    def remainder(self, v: list[str]) -> str:
        """As fmod: a - trunc(a / b)·b with an fma, which is how LLVM expands frem."""
        ratio = self.emit.pure(f"fdiv float {v[0]}, {v[1]}")
        quotient = _intrinsic(self.low, "llvm.trunc.f32", 1)([ratio])
        return self.fma(self.negate(quotient), v[1], v[0])

    def circular(self, x: str, shift: int) -> str:
        """Sine (shift 0) or cosine (shift 1): x less multiples of π/2, then two polynomials.

        Error below 2 ulp for |x| < 1e5; beyond, the reduction loses bits.
        """
        emit = self.emit
        turns = _intrinsic(self.low, "llvm.rint.f32", 1)([self.multiply(x, _f32(2 / math.pi))])
        quadrant = emit.pure(f"fptosi float {turns} to i32")
        quadrant = emit.add("i32", quadrant, str(shift))
        negative = self.negate(turns)
        r = x
        for part in _HALF_PI:
            r = self.fma(negative, _f32(part), r)
        square = self.multiply(r, r)
        sine = self.polynomial(_SINE, square)
        sine = self.fma(self.multiply(sine, square), r, r)
        cosine = self.polynomial(_COSINE, square)
        odd = emit.pure(f"icmp ne i32 {emit.bitwise('and', 'i32', quadrant, '1')}, 0")
        value = emit.pure(f"select i1 {odd}, float {cosine}, float {sine}")
        flip = emit.pure(f"icmp ne i32 {emit.bitwise('and', 'i32', quadrant, '2')}, 0")
        return emit.pure(f"select i1 {flip}, float {self.negate(value)}, float {value}")


def _f32(value: float) -> str:
    return float_literal(value, "float")


def _double(function: str, low: Lowering) -> Rule | None:
    emit = low.emit
    if function in ("div", "div_rn"):
        return lambda v: emit.pure(f"fdiv double {v[0]}, {v[1]}")
    if function in ("sqrt", "sqrt_rn"):
        return _asm(low, "sqrt.rn.f64 $0, $1", 1, "double", "d")
    if function in ("floor", "ceil"):
        return _intrinsic(low, f"llvm.{function}.f64", 1)
    if function == "rsqrt":
        root = _asm(low, "sqrt.rn.f64 $0, $1", 1, "double", "d")
        return lambda v: emit.pure(f"fdiv double {float_literal(1.0, 'double')}, {root(v)}")
    return None
