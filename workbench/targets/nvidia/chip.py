"""What each NVIDIA chip has: the numbers and instructions that code generation asks about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from workbench.source import TargetError


@dataclass(frozen=True)
class Chip:
    """One compute capability. `name` is e.g. "sm_90a"; the suffix a turns on its own features.

    shared_bytes: the most shared memory one block may have (CUDA C++ Programming Guide,
    "Technical Specifications per Compute Capability").
    """

    name: str
    shared_bytes: int
    ptx: str

    @cached_property
    def capability(self) -> int:
        """The compute capability as a number, e.g. 90."""
        return int(self.name[3:].rstrip("af"))


_SHARED = {
    75: 65_536, 80: 166_912, 86: 101_376, 87: 166_912, 89: 101_376, 90: 232_448,
    100: 232_448, 103: 232_448, 110: 232_448, 120: 101_376, 121: 101_376,
}  # fmt: skip
#: PTX versions that know a chip; the oldest that does, so that older drivers can still read it.
_PTX = {80: "70", 86: "71", 87: "74", 89: "78", 90: "80", 100: "86", 103: "88", 110: "90",
        120: "87", 121: "88"}  # fmt: skip


def chip(name: str) -> Chip:
    """Return the chip of a target name; raises TargetError (K114) for an unknown one."""
    try:
        number = int(name.removeprefix("sm_").rstrip("af"))
        return Chip(name, _SHARED[number], _PTX[number])
    except (KeyError, ValueError):
        known = ", ".join(f"sm_{n}" for n in _PTX)
        raise TargetError(f"unknown chip {name}", code="K114", hint=f"use one of {known}") from None
