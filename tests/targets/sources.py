"""Texts of kernels that are long or deep in one way each, of any size."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

_HEAD = """import math
def double(n: tl.constexpr):
    if n == 0:
        return 1
    return double(n - 1) + double(n - 1)
"""


def kernel(body: str) -> str:
    """Return a kernel k(p, o, n) around statements on `x`, a tile of 16 floats, and `i`."""
    return (
        _HEAD + "def k(p, o, n):\n    i = tl.arange(0, 16)\n    x = tl.load(p + i)\n"
        f"{textwrap.indent(body, '    ')}\n    tl.store(o + i, x)\n"
    )


def _lines(form: str) -> Callable[[int], str]:
    return lambda count: kernel("\n".join(form.format(j=j) for j in range(count)))


def _nested(count: int) -> str:
    heads = [f"{'    ' * j}for i{j} in range(n):" for j in range(count)]
    return kernel("\n".join([*heads, "    " * count + "x = x + 1"]))


def _in_loop(count: int) -> str:
    before = "\n".join(f"v{j} = x" for j in range(count))
    body = "\n".join(f"    v{j} = v{j} + {j}" for j in range(count))
    total = " + ".join(f"v{j}" for j in range(count))
    return kernel(f"{before}\nfor j in range(n):\n{body}\nx = {total}")


#: Ways to be long.
LONG: dict[str, Callable[[int], str]] = {
    "sum": lambda count: kernel("x = " + " + ".join(["x"] * count)),
    "sum of loads": lambda n: kernel(
        "x = " + " + ".join(f"tl.load(p + i + {j})" for j in range(n))
    ),
    "signs": lambda count: kernel("x = " + "-" * count + "x"),
    "methods": lambda count: kernel("x = x" + ".to(tl.float32)" * count),
    "ifs": _lines("if n > {j}:\n    x = x + {j}"),
    "early returns": _lines("if n == {j}:\n    return"),
    "elifs": lambda count: kernel(
        "if n == 0:\n    x = x + 1\n"
        + "\n".join(f"elif n == {j}:\n    x = x + {j}" for j in range(1, count))
    ),
    "choices": lambda n: kernel(
        "x = " + "".join(f"x + {j} if n == {j} else " for j in range(n)) + "x"
    ),
    "loops": _lines("for j{j} in range(n):\n    x = x + {j}"),
    "carried names": _in_loop,
    "chain in a loop": lambda count: kernel(
        "for j in range(n):\n"
        + "\n".join(f"    v{j} = x + {j}\n    x = x + v{j}" for j in range(count))
    ),
    "unrolled with a way out": lambda count: kernel(
        f"for j in tl.static_range({count}):\n    x = x + j\n    if n == j:\n        break"
    ),
}
NESTED = _nested


def sum_of_offsets(count: int) -> str:
    """Return a kernel that moves one pointer many times."""
    return kernel(f"x = tl.load(p + i + {' + '.join(['n'] * count)})")
