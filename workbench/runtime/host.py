"""Small helpers of host code: division rounding up, powers of two."""

from __future__ import annotations

import operator


def cdiv(x: int, y: int) -> int:
    """Return x / y rounded up.

    >>> cdiv(7, 3), cdiv(6, 3)
    (3, 2)
    """
    return -(-x // y)


def next_power_of_2(n: int) -> int:
    """Return the smallest power of two that is at least n; 1 for n <= 1.

    >>> next_power_of_2(1000), next_power_of_2(1024)
    (1024, 1024)
    """
    # An index, so that sizes which torch traces symbolically count too.
    return 1 << max(0, operator.index(n) - 1).bit_length()


# In a kernel, cdiv of run-time values is tl.cdiv; the other works on constexprs only.
setattr(cdiv, "__device_name__", "cdiv")  # noqa: B010 - functions declare no attributes
setattr(next_power_of_2, "__compile_time__", True)  # noqa: B010
