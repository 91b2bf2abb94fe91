"""How float functions are written for NVIDIA chips.

f32 uses the special function unit where it is within 2 ulp (ex2, lg2, rsqrt, sqrt, rcp; PTX ISA
9.0, `.approx` forms); 16-bit types compute in f32 and round once, except where the chip has the
instruction itself. f64 goes through LLVM's own expansions or is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.ir import Scalar
from workbench.targets.llvm.emit import float_literal

if TYPE_CHECKING:
    from workbench.targets.nvidia.lowering import Lowering

Rule = Callable[[list[str]], str]
_ERF_NEAR = (
    -9.728409506310374e-06, 0.00011288175128281621, -0.000848726778043254, 0.005221261499014712,
    -0.026865517445686004, 0.11283784111862756, -0.3761263859043286, 0.12837916708228542,
)  # fmt: skip
_ERF_FAR = (
    0.0905286697240336, -0.37278728395493194, 0.4206182624770756, 0.010146859162569632,
    0.29390830659040934, 0.2748551048268264, 0.28256481885505086,
)  # fmt: skip
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
    if function in ("min", "max"):
        name = f"llvm.{function}num.{'f32' if type == 'bfloat' else _suffix(type)}"
        return _in(low, "float" if type == "bfloat" else type, type, _intrinsic(low, name, 2))
    if function in ("minimum", "maximum"):
        name = f"llvm.{function}.{'f32' if type == 'bfloat' else _suffix(type)}"
        return _in(low, "float" if type == "bfloat" else type, type, _intrinsic(low, name, 2))
    if function == "fma":
        name = f"llvm.fma.{'f32' if type == 'bfloat' else _suffix(type)}"
        return _in(low, "float" if type == "bfloat" else type, type, _intrinsic(low, name, 3))
    if function == "abs":
        return _in(low, "float" if type == "bfloat" else type, type,
                   _intrinsic(low, f"llvm.fabs.{'f32' if type == 'bfloat' else _suffix(type)}", 1))  # fmt: skip
    if type == "double":
        return _double(function, low)
    rule = _single(function, low)
    return None if rule is None else _in(low, "float", type, rule)


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


def _single(function: str, low: Lowering) -> Rule | None:
    emit = low.emit

    def f(value: float) -> str:
        return float_literal(value, "float")

    def fmul(a: str, b: str) -> str:
        return emit.pure(f"fmul float {a}, {b}")

    def fadd(a: str, b: str) -> str:
        return emit.pure(f"fadd float {a}, {b}")

    def fma(a: str, b: str, c: str) -> str:
        return _intrinsic(low, "llvm.fma.f32", 3)([a, b, c])

    exp2 = _asm(low, "ex2.approx.f32 $0, $1", 1)
    log2 = _asm(low, "lg2.approx.f32 $0, $1", 1)
    divide = _asm(low, "div.full.f32 $0, $1, $2", 2)

    def exp(v: list[str]) -> str:
        """exp(x) = 2^t · (1 + r ln 2), where t + r = x · log2 e to twice the precision.

        2^t alone would be wrong by |x| · 2^-24 relatively: 4 ulp at x = 9. The clamps keep
        infinities out of r; they let a NaN through.
        """
        low_end = _intrinsic(low, "llvm.maximum.f32", 2)([v[0], f(-105.0)])
        x = _intrinsic(low, "llvm.minimum.f32", 2)([low_end, f(89.0)])
        log2e = 1.4426950216293335  # float32(log2 e); the rest is 1.925963033500e-8
        product = fmul(x, f(log2e))
        error = fma(x, f(log2e), emit.pure(f"fneg float {product}"))
        error = fma(x, f(1.925963033500e-8), error)
        # A product, not an fma with 2^t: infinity times a negative rest would be NaN.
        return fmul(exp2([product]), fma(error, f(math.log(2)), f(1.0)))

    def tanh(v: list[str]) -> str:
        """tanh |x| = 1 - 2 / (e^2|x| + 1); near 0 an odd polynomial keeps the relative error."""
        magnitude = _intrinsic(low, "llvm.fabs.f32", 1)(v)
        power = exp2([fmul(magnitude, f(2 / math.log(2)))])
        far = fma(divide([f(-2.0), fadd(power, f(1.0))]), f(1.0), f(1.0))
        square = fmul(v[0], v[0])
        near = f(-0.00886323552990220)
        for c in (0.0218694885361552, -0.0539682539682540, 0.133333333333333, -0.333333333333333):
            near = fma(near, square, f(c))
        near = fma(fmul(near, square), magnitude, magnitude)
        small = emit.pure(f"fcmp olt float {magnitude}, {f(0.55)}")
        chosen = emit.pure(f"select i1 {small}, float {near}, float {far}")
        return emit.call(
            "float", "llvm.copysign.f32", f"float {chosen}, float {v[0]}", "float, float"
        )

    def erf(v: list[str]) -> str:
        """Below 1 an odd polynomial in x, above 1 - t·p(t)·e^(-x²) with t = 1 / (1 + x/2).

        Both polynomials are least-squares fits in float64 with errors of 4e-11 and 3e-9.
        """
        magnitude = _intrinsic(low, "llvm.fabs.f32", 1)(v)
        square = fmul(v[0], v[0])
        near = f(_ERF_NEAR[0])
        for c in _ERF_NEAR[1:]:
            near = fma(near, square, f(c))
        near = fma(near, v[0], v[0])
        t = divide([f(1.0), fma(magnitude, f(0.5), f(1.0))])
        poly = f(_ERF_FAR[0])
        for c in _ERF_FAR[1:]:
            poly = fma(poly, t, f(c))
        tail = exp2([fmul(emit.pure(f"fneg float {square}"), f(1 / math.log(2)))])
        far = fma(emit.pure(f"fneg float {fmul(poly, t)}"), tail, f(1.0))
        signed = emit.call(
            "float", "llvm.copysign.f32", f"float {far}, float {v[0]}", "float, float"
        )
        small = emit.pure(f"fcmp olt float {magnitude}, {f(1.0)}")
        return emit.pure(f"select i1 {small}, float {near}, float {signed}")

    rules: dict[str, Rule] = {
        "exp": exp,
        "exp2": exp2,
        "log2": log2,
        "log": lambda v: fmul(log2(v), f(math.log(2))),
        "sqrt": _asm(low, "sqrt.approx.f32 $0, $1", 1),
        "sqrt_rn": _asm(low, "sqrt.rn.f32 $0, $1", 1),
        "rsqrt": _asm(low, "rsqrt.approx.f32 $0, $1", 1),
        "div": divide,
        "div_rn": _asm(low, "div.rn.f32 $0, $1, $2", 2),
        "floor": _intrinsic(low, "llvm.floor.f32", 1),
        "ceil": _intrinsic(low, "llvm.ceil.f32", 1),
        "rem": lambda v: _remainder(low, v, divide),
        "sin": lambda v: _circular(low, v[0], 0),
        "cos": lambda v: _circular(low, v[0], 1),
        "tanh": tanh,
        "erf": erf,
    }
    return rules.get(function)


def _remainder(low: Lowering, v: list[str], divide: Rule) -> str:
    """fmod: LLVM expands frem exactly enough by a - trunc(a / b)·b with an fma."""
    emit = low.emit
    quotient = emit.call(
        "float", "llvm.trunc.f32", f"float {emit.pure(f'fdiv float {v[0]}, {v[1]}')}", "float"
    )
    negated = emit.pure(f"fneg float {quotient}")
    return _intrinsic(low, "llvm.fma.f32", 3)([negated, v[1], v[0]])


def _circular(low: Lowering, x: str, shift: int) -> str:
    """sin (shift 0) or cos (shift 1): reduction by π/2 in three parts, then two polynomials.

    Error below 2 ulp for |x| < 1e5; beyond, the reduction loses bits.
    """
    emit = low.emit
    fma = _intrinsic(low, "llvm.fma.f32", 3)

    def f(value: float) -> str:
        return float_literal(value, "float")

    turns = emit.call(
        "float", "llvm.rint.f32", f"float {emit.pure(f'fmul float {x}, {f(2 / math.pi)}')}", "float"
    )
    quadrant = emit.pure(f"fptosi float {turns} to i32")
    quadrant = emit.add("i32", quadrant, str(shift))
    negative = emit.pure(f"fneg float {turns}")
    r = x
    for part in (1.57079601287841796875, 3.1391647326017846e-07, 5.390302529957764e-15):
        r = fma([negative, f(part), r])
    square = emit.pure(f"fmul float {r}, {r}")
    sine = f(2.608315980978659354150e-6)
    for c in (
        -1.981069071916863322258e-4,
        8.33307858556509017944336e-3,
        -0.166666597127914428710938,
    ):
        sine = fma([sine, square, f(c)])
    sine = fma([emit.pure(f"fmul float {sine}, {square}"), r, r])
    cosine = f(2.44331571e-5)
    for c in (-1.38873162e-3, 4.16666456e-2, -0.5, 1.0):
        cosine = fma([cosine, square, f(c)])
    odd = emit.pure(f"icmp ne i32 {emit.bitwise('and', 'i32', quadrant, '1')}, 0")
    value = emit.pure(f"select i1 {odd}, float {cosine}, float {sine}")
    flip = emit.pure(f"icmp ne i32 {emit.bitwise('and', 'i32', quadrant, '2')}, 0")
    return emit.pure(f"select i1 {flip}, float {emit.pure(f'fneg float {value}')}, float {value}")


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
