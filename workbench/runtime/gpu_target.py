"""Targets as Triton describes them, and our names of them."""

from __future__ import annotations

import platform
from dataclasses import dataclass

#: The chip that is looked at where there is none.
SHOWN_CHIP = "sm_90a"


@dataclass(frozen=True, slots=True)
class GPUTarget:
    """What code is compiled for.

    Attributes:
        backend: "cuda" or "cpu".
        arch: 90 for sm_90; the machine's name for a CPU.
        warp_size: threads of a warp.
    """

    backend: str
    arch: int | str
    warp_size: int


def name_of(target: GPUTarget) -> str:
    """Return our name of a target: "sm_90a", "cpu"."""
    if target.backend != "cuda":
        return target.backend
    arch = str(target.arch).removeprefix("sm_").removeprefix("sm")
    return f"sm_{arch}a" if arch.isdigit() and int(arch) >= 90 else f"sm_{arch}"


def target_of(name: str) -> GPUTarget:
    """Return the target with one of our names."""
    if name.startswith("sm_"):
        return GPUTarget("cuda", int(name.removeprefix("sm_").rstrip("af")), 32)
    return GPUTarget(name, platform.machine(), 1)
