"""Small helpers of host code: division rounding up, powers of two, where arrays should lie."""

from __future__ import annotations

import sys
from contextvars import ContextVar

#: What `workbench.device` says while a target was chosen for a cell or command.
chosen_device: ContextVar[str | None] = ContextVar("chosen_device", default=None)


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
    return 1 << max(0, n - 1).bit_length()


def default_device() -> str:
    """Return "cuda" or "cpu": the chosen target's, else cuda where torch finds a device."""
    chosen = chosen_device.get()
    if chosen is not None:
        return chosen
    torch = sys.modules.get("torch")
    if torch is None:
        import torch
    return "cuda" if torch.cuda.is_available() else "cpu"
