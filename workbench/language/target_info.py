"""`tl.target_info`: what a kernel may ask, while it is compiled, about what it is compiled for."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from typing import Any

from workbench.language.state import current
from workbench.language.table import described
from workbench.language.values import static_int
from workbench.language.versions import versioned


@dataclass(frozen=True, slots=True)
class Target:
    """What code is made for: backend "cuda", "cpu" or "interpreter", and a chip's capability."""

    backend: str
    arch: int
    warp_size: int


def current_target() -> Target:
    """Return what the kernel is compiled for."""
    name = current().target
    match = re.fullmatch(r"sm_(\d+)[af]?", name)
    if match:
        return Target("cuda", int(match[1]), 32)
    return Target(name or "interpreter", 0, 1)


def is_cuda() -> bool:
    """Say whether the kernel is compiled for an NVIDIA chip."""
    return current_target().backend == "cuda"


def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """Say whether it is compiled for an NVIDIA chip of at least this compute capability."""
    wanted = 10 * static_int(major, "major") + static_int(minor, "minor")
    return is_cuda() and current_target().arch >= wanted


def is_hip() -> bool:
    """Say whether it is compiled for an AMD chip: there is no such target."""
    return False


def is_hip_cdna3() -> bool:
    """Say whether it is compiled for such an AMD chip: there is no such target."""
    return False


def is_hip_cdna4() -> bool:
    """Say whether it is compiled for such an AMD chip: there is no such target."""
    return False


for _function in (
    current_target, is_cuda, cuda_capability_geq, is_hip, is_hip_cdna3, is_hip_cdna4
):  # fmt: skip
    described(_function)

_HOST = {
    "constexpr_function": ("workbench.runtime.callables", "constexpr_function"),
    "driver": ("workbench.triton.runtime.driver", "driver"),
}


def __getattr__(name: str) -> Any:
    """Return what Triton's module of this name imports from its runtime, when it is asked for."""
    if name in _HOST:
        module, attribute = _HOST[name]
        return getattr(importlib.import_module(module), attribute)
    return _later(name)


_later = versioned("tl.target_info", {"is_hip_gfx1250": ("3.8.0", None, lambda: is_hip_cdna4)})

__all__ = [
    "Target", "cuda_capability_geq", "current_target", "is_cuda", "is_hip", "is_hip_cdna3",
    "is_hip_cdna4",
]  # fmt: skip
