"""Writes workbench/language/extra/bessel_tables.py: Chebyshev coefficients made with mpmath.

python tests/language/write_bessel.py
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp

OUT = Path(__file__).parents[2] / "workbench" / "language" / "extra" / "bessel_tables.py"
mp.mp.dps = 50
NODES = 60


def coefficients(function: Callable[[Any], Any]) -> list[float]:
    """Return Chebyshev coefficients on [-1, 1], cut where they no longer count in fp64."""
    angles = [(mp.mpf(k) + 0.5) * mp.pi / NODES for k in range(NODES)]
    values = [function(mp.cos(angle)) for angle in angles]
    found = [2 * mp.fsum(v * mp.cos(n * a) for v, a in zip(values, angles, strict=True)) / NODES
             for n in range(NODES)]  # fmt: skip
    found[0] /= 2
    least = max(abs(c) for c in found) * mp.mpf(2) ** -56
    return [float(c) for c in found[: max(n for n, c in enumerate(found) if abs(c) > least) + 1]]


def near(function: Callable[[Any], Any]) -> list[float]:
    """A function of x * x for 0 <= x <= 8."""
    return coefficients(lambda t: function(mp.sqrt(32 * (t + 1))))


def far(function: Callable[[Any], Any]) -> list[float]:
    """A function of 1 / (x * x) for x >= 8."""
    return coefficients(lambda t: function(8 / mp.sqrt((t + 1) / 2) if t > -1 else mp.mpf(10) ** 9))


def phase(order: int, x: Any) -> tuple[Any, Any]:
    """Return P and x * Q of the Hankel form: J = sqrt(2 / pi x) (P cos - Q sin), Y likewise."""
    angle, scale = x - (2 * order + 1) * mp.pi / 4, mp.sqrt(mp.pi * x / 2)
    j, y = mp.besselj(order, x) * scale, mp.bessely(order, x) * scale
    c, s = mp.cos(angle), mp.sin(angle)
    return j * c + y * s, x * (y * c - j * s)


TABLES = {
    "J0": lambda: near(lambda x: mp.besselj(0, x)),
    "J1": lambda: near(lambda x: mp.besselj(1, x) / x),
    "Y0": lambda: near(lambda x: mp.bessely(0, x) - 2 / mp.pi * mp.log(x) * mp.besselj(0, x)),
    "Y1": lambda: near(lambda x: (mp.bessely(1, x) - 2 / mp.pi
                                  * (mp.log(x) * mp.besselj(1, x) - 1 / x)) / x),
    "P0": lambda: far(lambda x: phase(0, x)[0]), "Q0": lambda: far(lambda x: phase(0, x)[1]),
    "P1": lambda: far(lambda x: phase(1, x)[0]), "Q1": lambda: far(lambda x: phase(1, x)[1]),
    "I0": lambda: coefficients(lambda t: mp.exp(-4 * (t + 1)) * mp.besseli(0, 4 * (t + 1))),
    "I1": lambda: coefficients(lambda t: mp.exp(-4 * (t + 1)) * mp.besseli(1, 4 * (t + 1))
                               / (4 * (t + 1))),
    "I0_FAR": lambda: coefficients(lambda t: _scaled(0, t)),
    "I1_FAR": lambda: coefficients(lambda t: _scaled(1, t)),
}  # fmt: skip


def _scaled(order: int, t: Any) -> Any:
    x = 16 / (t + 1)
    return mp.sqrt(x) * mp.exp(-x) * mp.besseli(order, x)


def text() -> str:
    """Return the file."""
    rows = ['"""Chebyshev coefficients of Bessel functions, written by '
            'tests/language/write_bessel.py."""', ""]  # fmt: skip
    for name, make in TABLES.items():
        rows += ["# fmt: off", f"{name} = ("] if name == "J0" else [f"{name} = ("]
        rows += [f"    {c!r}," for c in make()] + [")"]
    return "\n".join([*rows, "# fmt: on", ""])


if __name__ == "__main__":
    OUT.write_text(text())
