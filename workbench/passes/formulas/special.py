"""The error function and its relatives, the gamma function."""

from __future__ import annotations

import math

from workbench.ir import Value
from workbench.passes.formulas.exponentials import exp, log
from workbench.passes.formulas.terms import Formula, Terms

# erf x / x in x^2 for |x| <= 1: 1e-9 and 1e-19.
_ERF_SINGLE = (1.128379166, -0.3761262667, 0.1128359472, -0.02685421201, 0.005189087423,
               -0.0008016864287, 7.875875063e-5)  # fmt: skip
_ERF_DOUBLE = (
    1.12837916709551257, -0.376126389031837481, 0.112837916709548787, -0.0268661706450767932,
    0.00522397762481801447, -0.000854832698083378991, 0.000120553311116427109,
    -1.49255952668311816e-5, 1.6461000484121368e-6, -1.6350312701054695e-7, 1.46597752740474358e-8,
    -1.13728488567916737e-9, 5.9571761477489114e-11,
)  # fmt: skip
# (1 + 2 x) e^(x^2) erfc x in (x - K) / (x + K), K = 2 up to x = 11 and K = 4 up to 28: 2e-9, 1e-17.
_ERFCX_SINGLE = (
    1.276978382, -0.09276381352, -0.1660304774, 0.1640508436, -0.05421856297, -0.00802953634,
    0.008713559545, 0.001250119847, -0.001432145482, -0.0004019996748, 0.0001796296024,
    8.477311897e-5,
)  # fmt: skip
_ERFCX_DOUBLE = (
    1.23299511862555251, -0.139621116840562894, 0.0153796521026207413, 0.0680970542547373239,
    -0.101039066036352132, 0.0937328349967941159, -0.0663303658115293841, 0.037167515562492866,
    -0.0161977340591150071, 0.00503196975589542611, -0.000757773341413330045,
    -0.000199255507556149521, 0.000150622243948302992, -2.4403169244974075e-5,
    -1.12247891351547007e-5, 5.7178872846321852e-6, 3.01350499448753948e-7,
    -8.35161968869684708e-7, 6.27072715719831088e-8, 1.15349437457541573e-7,
    -7.71541861441783013e-9, -1.36709898633473824e-8, -1.82060986803086833e-9,
)  # fmt: skip
# erfinv x / x in w = -log(1 - x^2), about 2.5 below w = 5 and in sqrt(w) about 3 above
# (M. Giles, "Approximating the erfinv function", 2010): 1e-7.
_ERFINV_NEAR = (1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087,
                -4.39150654e-06, -3.5233877e-06, 3.43273939e-07, 2.81022636e-08)  # fmt: skip
_ERFINV_FAR = (2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773,
               -0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257)  # fmt: skip
# Lanczos' series with g = 607/128 (P. Godfrey, 2001): 1e-15.
_LANCZOS = (
    57.156235665862923517, -59.597960355475491248, 14.136097974741747174, -0.49191381609762019978,
    0.33994649984811888699e-4, 0.46523628927048575665e-4, -0.98374475304879564677e-4,
    0.15808870322491248884e-3, -0.21026444172410488319e-3, 0.21743961811521264320e-3,
    -0.16431810653676389022e-3, 0.84418223983852743293e-4, -0.26190838401581408670e-4,
    0.36899182659531622704e-5,
)  # fmt: skip


def _erfc_of(t: Terms, a: Value) -> Value:
    """Return erfc of a number >= 0: e^(-x^2) P / (1 + 2 x), with what x^2 lost put back."""
    middle, most = t.either((2.0, 11.0), (4.0, 28.0))
    a = t.held(a, 0.0, most)
    place = t.ratio(t.plus(a, -middle), t.plus(a, middle))
    series = t.horner(place, t.either(_ERFCX_SINGLE, _ERFCX_DOUBLE))
    series = t.ratio(series, t.fma(a, t.real(2.0), t.real(1.0)))
    square = t.mul(a, a)
    lost = t.fma(a, a, t.neg(square))
    tail = t.mul(series, exp(t, t.neg(square)))
    return t.fma(t.neg(lost), tail, tail)


def erfc(t: Terms, x: Value) -> Value:
    """Below 0: 2 less what it is at -x."""
    found = _erfc_of(t, t.abs(x))
    return t.select(t.test("lt", x, 0.0), t.sub(t.real(2.0), found), found)


def erf(t: Terms, x: Value) -> Value:
    """By the polynomial below 1, as 1 - erfc above."""
    a = t.abs(x)
    near = t.mul(x, t.horner(t.mul(x, x), t.either(_ERF_SINGLE, _ERF_DOUBLE)))
    far = t.signed(t.sub(t.real(1.0), _erfc_of(t, a)), x)
    return t.select(t.test("lt", a, 1.0), near, far)


def erfinv(t: Terms, x: Value) -> Value:
    """Two polynomials in log(1 - x^2); in f64 put right by two steps of Halley's method."""
    if not t.is_double:
        return t.in_double(erfinv, x)
    a = t.abs(x)
    w = t.neg(log(t, t.mul(t.sub(t.real(1.0), a), t.plus(a, 1.0))))
    near = t.horner(t.plus(w, -2.5), _ERFINV_NEAR)
    far = t.horner(t.plus(t.sqrt(w), -3.0), _ERFINV_FAR)
    y = t.mul(t.select(t.test("lt", w, 5.0), near, far), a)
    for _ in range(2):
        low = t.sub(erf(t, y), a)
        high = t.sub(t.sub(t.real(1.0), a), _erfc_of(t, y))
        error = t.select(t.test("lt", a, 0.5), low, high)
        step = t.mul(t.scaled(error, math.sqrt(math.pi) / 2), exp(t, t.mul(y, y)))
        y = t.sub(y, t.div(step, t.fma(step, y, t.real(1.0))))
    y = t.select(t.test("eq", a, 1.0), t.real(math.inf), y)
    return t.select(t.test("gt", a, 1.0), t.real(math.nan), t.signed(y, x))


def _lgamma_of(t: Terms, x: Value) -> Value:
    """Lanczos' approximation for x >= 1/2."""
    series = t.real(0.99999999999999709182)
    for number, coefficient in enumerate(_LANCZOS, 1):
        series = t.add(series, t.div(t.real(coefficient), t.plus(x, float(number))))
    base = t.plus(x, 5.2421875)
    head = t.sub(t.mul(t.plus(x, 0.5), log(t, base)), base)
    return t.add(head, log(t, t.div(t.scaled(series, math.sqrt(2 * math.pi)), x)))


def lgamma(t: Terms, x: Value) -> Value:
    """Lanczos' approximation, reflected below 1/2; near its zeros the error is absolute."""
    if not t.is_double:
        return t.in_double(lgamma, x)
    mirrored = t.test("lt", x, 0.5)
    inside = _lgamma_of(t, t.select(mirrored, t.sub(t.real(1.0), x), x))
    part = t.sub(x, t.rint(x))
    sine = t.abs(t.call("sin", t.scaled(part, math.pi)))
    reflected = t.sub(log(t, t.div(t.real(math.pi), sine)), inside)
    found = t.select(mirrored, reflected, inside)
    return t.select(t.test("eq", t.abs(x), math.inf), t.real(math.inf), found)


SPECIAL: dict[str, Formula] = {"erf": erf, "erfc": erfc, "erfinv": erfinv, "lgamma": lgamma}
