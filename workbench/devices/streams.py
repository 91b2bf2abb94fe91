"""Devices by number, and torch's current stream of each; torch is never imported here."""

from __future__ import annotations

import sys
from collections.abc import Callable

#: The number of host memory among devices.
HOST = -1
#: Numbers of devices for which the host answers meanwhile (`as_triton(cuda="cpu")`).
STAND_INS: set[int] = set()


def current_device() -> int:
    """Return torch's current CUDA device, the first one without torch."""
    torch = sys.modules.get("torch")
    return torch.cuda.current_device() if torch is not None else 0


def current_stream(device: int) -> int:
    """Return torch's current stream of a device as a number (0: the default stream)."""
    if device == HOST:
        return 0
    raw = raw_stream()
    return raw(device) if raw is not None else 0


def raw_stream() -> Callable[[int], int] | None:
    """Return torch's function for the current stream, None without a CUDA build of torch."""
    torch = sys.modules.get("torch")
    return getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
