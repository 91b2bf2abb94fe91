"""`tl.extra.hip.libdevice`: the functions that AMD's library has too, as they are elsewhere."""

from workbench.language.extra.libdevice import LIBRARY
from workbench.language.versions import core_of

_NAMES = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "cyl_bessel_i0",
    "cyl_bessel_i1",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "fast_dividef",
    "fast_expf",
    "fast_tanhf",
    "floor",
    "fma",
    "fmod",
    "hypot",
    "ilogb",
    "isinf",
    "isnan",
    "j0",
    "j1",
    "ldexp",
    "lgamma",
    "llrint",
    "log",
    "log10",
    "log1p",
    "log2",
    "nearbyint",
    "nextafter",
    "pow",
    "round",
    "rsqrt",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
    "y0",
    "y1",
]
_LATER = {"3.7.0": ("finitef", "isfinited", "rint"), "3.8.0": ("clz", "popc")}

globals().update({name: LIBRARY[name] for name in _NAMES})

__all__ = [*_NAMES]  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__ = core_of("tl.extra.hip.libdevice", {
    name: (first, None, lambda name=name: LIBRARY[name])
    for first, names in _LATER.items()
    for name in names
})  # fmt: skip
