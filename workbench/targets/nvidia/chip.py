"""What each NVIDIA chip has: the numbers and instructions that code generation asks about."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.layouts import BANKS
from workbench.layouts.predict import SECTOR_BYTES
from workbench.source import TargetError
from workbench.targets.nvidia.instructions import Instructions
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.simt.hardware import Costs
from workbench.targets.simt.rules import Device, RuleTable

#: sm_80 to sm_90: one access moves at most 128 bits; PTX ISA 9.0, instructions ld and st, .v4.
WIDEST_BYTES = 16
#: PTX ISA 9.0, cp.async (sm_80).
LEAST_COPIED_BYTES = 4

_MOST_SCRATCH = 64 * 1024
#: How often that is halved at most.
MOST_HALVINGS = 2

COSTS = Costs(
    sector_bytes=SECTOR_BYTES,
    access=0.5,
    line_bytes=128,
    again=0.25,
    quotient=1.5,
    shuffle=1.5,
    staging=2.0,
    warp_wait=10,
    block_wait=40,
    crossing=30,
    reduced=0.25,
    scanned=0.5,
)


@dataclass(frozen=True)
class Chip(Instructions):
    """One compute capability. `name` is e.g. "sm_90a"; the suffix a turns on its own features.

    shared_bytes: the most shared memory one block may have (CUDA C++ Programming Guide,
    "Technical Specifications per Compute Capability").
    """

    name: str
    shared_bytes: int
    ptx: str
    #: Of one multiprocessor: resident warps and blocks, bytes of shared memory.
    warps: int = 64
    blocks: int = 32
    multiprocessor_shared_bytes: int = 233_472
    #: How often what an op takes of shared memory at once is halved, for kernels with little left.
    halvings: int = 0

    lanes = 32
    most_warps = 32
    widest_bytes = WIDEST_BYTES
    least_copied_bytes = LEAST_COPIED_BYTES
    shared_space = 3  # LLVM's NVPTX back end
    banks = BANKS
    costs = COSTS

    @property
    def loads_ahead(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Measured where products by warpgroups read what is stored (H200, fp16, 4095)."""
        return self.has_warpgroups

    @property
    def stores_matrices(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """PTX ISA 9.0, stmatrix (sm_90)."""
        return self.capability >= 90

    @property
    def bounds_halves(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """PTX ISA 9.0, min.u16x2 (sm_90)."""
        return self.capability >= 90

    @property
    def most_scratch(self) -> int:
        """What one op takes of shared memory at once."""
        return _MOST_SCRATCH >> self.halvings

    @property
    def rules(self) -> RuleTable:
        """What is known of each op."""
        return NVIDIA

    @property
    def capability(self) -> int:
        """The compute capability as a number, e.g. 90."""
        return int(self.name[3:].rstrip("af"))

    @property
    def has_warpgroups(self) -> bool:
        """Whether four warps multiply together: wgmma, which sm_90a alone has."""
        return self.name == "sm_90a"

    @property
    def gives_registers(self) -> bool:
        """Whether warps give registers to others: setmaxnreg, which sm_90a has."""
        return self.has_warpgroups

    def most_registers(self, num_warps: int) -> int:
        """Return how many registers a thread can have for its program to fit a multiprocessor.

        Warps lie in turn on four parts of it, each with a quarter of the registers: nine warps get
        no more than twelve.

        >>> [chip("sm_80").most_registers(warps) for warps in (4, 9, 12, 16)]
        [255, 168, 168, 128]
        """
        return min(MOST_REGISTERS, REGISTERS // _PARTS // (32 * -(-num_warps // _PARTS)) // 8 * 8)


_SHARED = {
    75: 65_536, 80: 166_912, 86: 101_376, 87: 166_912, 89: 101_376, 90: 232_448,
    100: 232_448, 103: 232_448, 110: 232_448, 120: 101_376, 121: 101_376,
}  # fmt: skip
#: PTX versions that know a chip; the oldest that does, so that older drivers can still read it.
_PTX = {80: "70", 86: "71", 87: "74", 89: "78", 90: "80", 100: "86", 103: "88", 110: "90",
        120: "87", 121: "88"}  # fmt: skip


#: Resident warps, blocks and shared bytes of a multiprocessor, where they are not 64, 32, 233,472.
_MULTIPROCESSOR = {
    80: (64, 32, 167_936), 86: (48, 16, 102_400), 87: (48, 16, 167_936), 89: (48, 24, 102_400),
    120: (48, 24, 102_400), 121: (48, 24, 102_400),
}  # fmt: skip
#: Registers of a multiprocessor, and the parts of it that share them out to warps.
REGISTERS = 65_536
_PARTS = 4
#: What one thread of any chip can name; PTX ISA, ".maxnreg".
MOST_REGISTERS = 255
_REGISTER_UNIT = 256  # registers are given to warps in units of this many
_SHARED_UNIT = 128
_SHARED_RESERVED = 1024  # taken by the system for every block, sm_80 and later


@dataclass(frozen=True, slots=True)
class Residency:
    """How many warps of a kernel fit one multiprocessor, and what keeps more from fitting."""

    warps: int
    limit: str


def registers_of_warp(registers: int) -> int:
    """Return how many registers a warp is given whose threads use so many."""
    return -(-max(registers, 1) * 32 // _REGISTER_UNIT) * _REGISTER_UNIT


def residency(unit: Chip, warps: int, registers: int, shared_bytes: int) -> Residency:
    """Return the resident warps of a kernel with blocks of `warps` warps.

    `registers` are of one thread, `shared_bytes` of one block. CUDA C++ Programming Guide,
    "Hardware Multithreading".
    """
    per_warp = registers_of_warp(registers)
    per_block = -(-(shared_bytes + _SHARED_RESERVED) // _SHARED_UNIT) * _SHARED_UNIT
    fits = {
        "warps": unit.warps // warps,
        "blocks": unit.blocks,
        "registers": REGISTERS // _PARTS // per_warp * _PARTS // warps,
        "shared memory": unit.multiprocessor_shared_bytes // per_block,
    }
    limit = min(fits, key=fits.__getitem__)
    return Residency(fits[limit] * warps, limit)


def chip_of(device: Device) -> Chip:
    """Return a device as the chip that it is here: rules of this target get no other."""
    assert isinstance(device, Chip)
    return device


def chip(name: str) -> Chip:
    """Return the chip of a target name; raises TargetError (K114) for an unknown one."""
    try:
        number = int(name.removeprefix("sm_").rstrip("af"))
        return Chip(
            name, _SHARED[number], _PTX[number], *_MULTIPROCESSOR.get(number, (64, 32, 233_472))
        )
    except (KeyError, ValueError):
        known = ", ".join(f"sm_{n}" for n in _PTX)
        raise TargetError(f"unknown chip {name}", code="K114", hint=f"use one of {known}") from None
