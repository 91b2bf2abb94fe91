"""How long a launch will take, told from its code and its sizes: the model of `%whatif`.

Everything is counted in cycles of one multiprocessor, for one program (`workload.py`), from what a
chip does in a cycle (`targets/nvidia/speeds.py`):

    tensor   = operations of products / what tensor cores do, by instruction and type
    copies   = sectors of global memory * 32 bytes / COPY_BYTES
               (of boxes of tensor maps: lines of 128 bytes * LINE, if that is more)
    shared   = wavefronts (a row of banks takes one cycle)
    own      = ISSUE * (results of arithmetic + spilled registers, once each round) / lanes
               + results of exp, log, division ... / SPECIAL
    chain    = START + waits * LATENCY + barriers * BARRIER
               + max(late * LATENCY, tensor - beside + max(beside, serial))

Groups of four warps go to and fro between tensor cores and their own arithmetic. With g of them
side by side, each waiting for two servers in turn (a closed queue: with rho the shorter of the
two demands over the longer, and GROUPS * g customers, since products go on beside arithmetic),

    work     = longest of the two * (1 - rho ** (n + 1)) / (1 - rho ** n),  n = GROUPS * g

`chain` is how long a program takes alone, because one step waits for another: a group of four warps
waits for its own products and its own arithmetic (`serial`, at the rate of its warps; some products
go on `beside` that), or for copies. With r programs side by side, as registers and shared memory
allow,

    busy     = (work ** P + copies ** P + shared ** P) ** (1 / P)
    wave(r)  = ((r * busy) ** P + chain ** P) ** (1 / P)
    time     = LAUNCH + (wave(r) * whole waves + wave(the rest)) / clock
    time    >= bytes that the arrays have / the speed of memory
    time    >= operations of products / (SUSTAINED of what tensor cores do): power

A wave is multiprocessors * r programs. Constants were fitted on runs of an H200: products nt and
tn, attention with heads of 128, 14 runs in all. What is counted was chosen with others in view, too
(that a box costs by the lines of memory that its rows touch: with products nn).
`python -m tests.bench.whatif` holds the model against the runs that are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from workbench.questions.workload import Work, workload
from workbench.runtime.compiled import CompiledKernel
from workbench.targets.nvidia.chip import chip, residency
from workbench.targets.nvidia.speeds import Speeds, share, speeds

COPY_BYTES = 62.0
LINE = 1.85
SPECIAL = 12.4
ISSUE = 1.2
LATENCY = 1400.0
BARRIER = 39.0
START = 2100.0
LAUNCH_MICROSECONDS = 2.25
P = 6.0
GROUPS = 1.7
#: How much of the data sheet's speed a copy gets.
MEMORY_SHARE = 0.92
#: How much of what tensor cores do they may do for long.
SUSTAINED = 0.95
#: How sharply a launch that is bound by memory or power is bound by nothing else.
SHARPLY = 4.0
#: Results that a warp's lane gives in a cycle when it is alone.
ALONE = 1.5


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one compilation before it runs.

    Attributes:
        registers: of a thread, as ptxas says; None where there is no ptxas.
        spill_bytes: stored and loaded by a thread in all, as ptxas counts.
        shared_bytes: of a program.
        num_warps: of a program.
        resident: warps on one multiprocessor, of `most` that it can have.
        limit: what keeps more from fitting.
        work: what a program does; None where the launch is not known.
        producers: warps of a program besides those, which hold no tiles.
    """

    registers: int | None
    spill_bytes: int | None
    shared_bytes: int
    num_warps: int
    resident: int
    most: int
    limit: str
    work: Work | None
    producers: int = 0


@dataclass(frozen=True, slots=True)
class Prediction:
    """A predicted time, and what it is made of.

    Attributes:
        microseconds: of the launch.
        bound: the unit that is busiest, "waiting" where programs wait, "memory" for its speed.
        waves: programs for one place each.
    """

    microseconds: float
    bound: str
    waves: float


def look(kernel: CompiledKernel, integers: Mapping[str, int] | None, grid: Any) -> Facts:
    """Return what is known of a kernel that was just compiled for an NVIDIA chip."""
    built = kernel.compiled.built
    launch = kernel.launch
    unit = chip(kernel.target)
    warps = built.threads // unit.lanes
    fits = residency(unit, warps, launch.registers or 0, built.shared_bytes)
    work = None
    if grid is not None and built.gpu is not None:
        work = workload(built.gpu, unit, grid, integers or {})
    return Facts(
        launch.registers, launch.spill_bytes, built.shared_bytes, built.num_warps,
        fits.warps, unit.warps, fits.limit, work, warps - built.num_warps,
    )  # fmt: skip


def units_of(facts: Facts, speed: Speeds) -> dict[str, float]:
    """Return the cycles that one program keeps each unit of a multiprocessor busy."""
    work = facts.work
    assert work is not None
    tensor = sum(
        operations / (speed.tensor * share(word) * (1 if kind == "wgmma" else speed.warp_share))
        for (kind, word), operations in work.tensor.items()
    )
    spilled = (facts.spill_bytes or 0) / 4 * 32 * facts.num_warps * max(1.0, work.rounds)
    written = work.stored_sectors if work.lines else 0.0
    return {
        "tensor cores": tensor,
        "copies": max(
            work.sectors * 32 / COPY_BYTES, work.lines * LINE + written * 32 / COPY_BYTES
        ),
        "shared memory": work.wavefronts,
        "arithmetic": ISSUE * (work.lanes + 2 * spilled) / speed.lanes,
        "special functions": work.special / SPECIAL,
    }  # fmt: skip


def predict(
    facts: Facts, target: str, grid: Sequence[int], moved: float = 0.0, speed: Speeds | None = None
) -> Prediction | None:
    """Return how long a launch will take by the model above; None where the launch is not known.

    Args:
        facts: of the compilation.
        target: the chip.
        grid: programs along each axis.
        moved: bytes that the launch must move at the least; 0: nobody knows.
        speed: the numbers of a GPU, those of the chip's data-centre product if None.
    """
    work = facts.work
    if work is None or not facts.resident or not prod(grid):
        return None
    speed = speed or speeds(target)
    units = units_of(facts, speed)
    chain = _chain(facts, units, speed)
    programs = prod(grid)
    side_by_side = max(1, facts.resident // (facts.num_warps + facts.producers))

    def busy(resident: float) -> float:
        work = _in_turn(units, resident * facts.num_warps / 4)
        return _norm((work, units["copies"], units["shared memory"]), P)

    def wave(resident: float) -> float:
        return _norm((resident * busy(resident), chain), P)

    full, rest = divmod(programs, speed.multiprocessors * side_by_side)
    cycles = full * wave(side_by_side)
    if rest:
        cycles += wave(-(-rest // speed.multiprocessors))
    least = moved / (speed.memory_gbps * MEMORY_SHARE * 1e3)
    cool = units["tensor cores"] * programs / (
        SUSTAINED * speed.multiprocessors * speed.gigahertz * 1e3
    )  # fmt: skip
    took = cycles / (speed.gigahertz * 1e3)
    bound = max(units, key=units.__getitem__)
    resident = min(side_by_side, programs / speed.multiprocessors)
    if chain > resident * busy(resident):
        bound = "waiting"
    if least > took:
        bound = "memory"
    time = LAUNCH_MICROSECONDS + _norm((took, least, cool), SHARPLY)
    return Prediction(time, bound, programs / (speed.multiprocessors * side_by_side))


def _norm(parts: Sequence[float], power: float) -> float:
    """Return what takes these parts at once, each of them the more the longer it is."""
    return sum(part**power for part in parts) ** (1 / power)


def _in_turn(units: Mapping[str, float], groups: float) -> float:
    """Return the cycles of products and arithmetic of a program, of `groups` side by side."""
    own = units["arithmetic"] + units["special functions"]
    short, long = sorted((units["tensor cores"], own))
    if not short:
        return long
    customers, rho = GROUPS * max(1.0, groups), min(short / long, 0.999)
    return long * (1 - rho ** (customers + 1)) / (1 - rho**customers)


def _chain(facts: Facts, units: Mapping[str, float], speed: Speeds) -> float:
    work = facts.work
    assert work is not None
    warps = facts.num_warps
    serial = work.lanes / (32 * warps * ALONE) + work.special / min(SPECIAL, 4.0 * warps)
    tensor = units["tensor cores"]
    beside = tensor * work.beside / sum(work.tensor.values()) if work.beside else 0.0
    waiting = max(work.late * LATENCY, tensor - beside + max(beside, serial))
    return START + work.waits * LATENCY + work.barriers * BARRIER + waiting
