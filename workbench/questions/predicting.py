"""How long a launch will take, told from its code and its sizes: the model of `%whatif`.

Everything is counted in cycles of one multiprocessor, for one program (`workload.py`), from what a
chip does in a cycle (`targets/nvidia/speeds.py`):

    tensor   = operations of products / what tensor cores do, by instruction and type
    copies   = sectors of global memory * 32 bytes / COPY_BYTES
    shared   = wavefronts (a row of banks takes one cycle)
    issue    = (results of arithmetic + spilled registers, once each round) / lanes
    special  = results of exp, log, division … / SPECIAL
    busy     = (sum of unit ** P) ** (1 / P) over these units: the busiest one, and a bit
    chain    = START + waits * LATENCY + barriers * BARRIER
             + max(late * LATENCY, tensor * 4 / warps + serial)

`busy` is what a program keeps a multiprocessor busy with; `chain` is how long it takes alone,
because one step waits for another: a group of four warps waits for its own products and its own
arithmetic (`serial`, at the rate of its warps), or for copies. With r programs side by side, as
registers and shared memory allow,

    wave(r)  = ((r * busy) ** P + chain ** P) ** (1 / P)
    time     = LAUNCH + (wave(r) * whole waves + wave(the rest)) / clock
    time    >= bytes that the arrays have / the speed of memory

A wave is multiprocessors * r programs. Constants below were chosen on eight of the sixteen tuning
runs of an H200 in `tests/bench/results/tuned/h200.json` (products of two layouts, attention with
heads of 64); what is counted was chosen with all of them in view. Those runs are of code without
tensor maps. On 28 later runs, of code with them and in no fit, it ranks (mean of Spearman's
correlation) products with 0.70 and attention with 0.70, and its best is within 10 % of the measured
one in 21; of blocks of odd extents it knows least. Times that memory bounds are good to a tenth
from some megabytes on.
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

COPY_BYTES = 64.0
SPECIAL = 12.0
LATENCY = 1100.0
BARRIER = 160.0
START = 2000.0
LAUNCH_MICROSECONDS = 2.5
P = 4.0
#: How much of the data sheet's speed a copy gets.
MEMORY_SHARE = 0.92
#: Results that a warp's lane gives in a cycle when it is alone, for it waits for its own results.
ALONE = 0.7


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
        bound: the unit that is busiest, "chain" where programs wait, "memory" for its speed.
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
    return {
        "tensor cores": tensor,
        "copies": work.sectors * 32 / COPY_BYTES,
        "shared memory": work.wavefronts,
        "arithmetic": (work.lanes + 2 * spilled) / speed.lanes,
        "special functions": work.special / SPECIAL,
    }


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
    if work is None or not facts.resident:
        return None
    speed = speed or speeds(target)
    units = units_of(facts, speed)
    busy = sum(v**P for v in units.values()) ** (1 / P)
    chain = _chain(facts, units, speed)
    programs = prod(grid)
    side_by_side = max(1, facts.resident // (facts.num_warps + facts.producers))

    def wave(resident: float) -> float:
        return ((resident * busy) ** P + chain**P) ** (1 / P)

    full, rest = divmod(programs, speed.multiprocessors * side_by_side)
    cycles = full * wave(side_by_side)
    if rest:
        cycles += wave(-(-rest // speed.multiprocessors))
    least = moved / (speed.memory_gbps * MEMORY_SHARE * 1e3)
    took = cycles / (speed.gigahertz * 1e3)
    bound = max(units, key=units.__getitem__)
    resident = min(side_by_side, programs / speed.multiprocessors)
    if chain > resident * busy:
        bound = "waiting"
    if least > took:
        bound = "memory"
    time = LAUNCH_MICROSECONDS + (took**P + least**P) ** (1 / P)
    return Prediction(time, bound, programs / (speed.multiprocessors * side_by_side))


def _chain(facts: Facts, units: Mapping[str, float], speed: Speeds) -> float:
    work = facts.work
    assert work is not None
    warps = facts.num_warps
    serial = work.lanes / (32 * warps * ALONE) + work.special / min(SPECIAL, 4.0 * warps)
    products = units["tensor cores"] * 4 / warps
    waiting = max(work.late * LATENCY, products + serial)
    return START + work.waits * LATENCY + work.barriers * BARRIER + waiting
