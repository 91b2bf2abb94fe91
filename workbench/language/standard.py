"""`tl.standard`: functions that Triton writes in its own language, under their path there."""

from __future__ import annotations

from typing import Any

from workbench.language.constexprs import unwrap
from workbench.language.core import CONSTEXPR_0, _unwrap_if_constexpr, constexpr, get_int_dtype
from workbench.language.table import mark


def _log2(i: Any) -> int:
    """Return the logarithm to base 2 of a power of two known at compile time."""
    number = int(unwrap(i))
    if number < 1 or number & (number - 1):
        raise ValueError(f"{number} is not a power of two")
    return number.bit_length() - 1


def _is_power_of_two(i: Any) -> bool:
    """Say whether a number known at compile time is a power of two."""
    number = int(unwrap(i))
    return number > 0 and not number & (number - 1)


mark(_log2, __compile_time__=True)
mark(_is_power_of_two, __compile_time__=True)


# Combine functions of reductions and scans.
def _sum_combine(a: Any, b: Any) -> Any:
    return a + b


def _prod_combine(a: Any, b: Any) -> Any:
    return a * b


def _xor_combine(a: Any, b: Any) -> Any:
    return a ^ b


def _or_combine(x: Any, y: Any) -> Any:
    return x | y


def __getattr__(name: str) -> Any:
    """Return a name of the language that Triton keeps in this module too."""
    import workbench.language as tl

    if name in tl.__all__:
        return getattr(tl, name)
    raise AttributeError(f"tl.standard has no {name!r}")


__all__ = [
    "CONSTEXPR_0", "_is_power_of_two", "_log2", "_or_combine", "_prod_combine", "_sum_combine",
    "_unwrap_if_constexpr", "_xor_combine", "constexpr", "get_int_dtype",
]  # fmt: skip
