"""How long a launch will take, told from its code and its sizes: the model of `%whatif`.

Everything is counted in cycles of one multiprocessor, for one program (`workload.py`), from what a
chip does in a cycle (`targets/nvidia/speeds.py`):

    tensor   = for each product the longer of: operations / what tensor cores do, by instruction and
               type; rows of banks that the instruction reads its operands from
    copies   = sectors of global memory * 32 bytes / COPY_BYTES
               (of boxes of tensor maps: lines of 128 bytes * LINE, if that is more)
    shared   = wavefronts (a row of banks takes one cycle)
    own      = the longer of: (ISSUE * results of arithmetic and of exp, log, division ...
               + MOVES * rounds of warps that have another product under way) / lanes;
               results of exp, log, division ... / SPECIAL

What a program waits for without keeping any unit busy:

    delays   = waits * LATENCY + barriers * BARRIER, and ROUND for each wait for its own products
    begin    = START, + LATENCY until its first copies have come

Where products are waited for and arithmetic follows (attention), groups of four warps go to and
fro between tensor cores and their own arithmetic: customers of a closed queue with two servers,
whose throughput is found by mean value analysis (Reiser and Lavenberg 1980), `begin` and `delays`
being the time they think. Groups of a block that meet at barriers in each round do everything at
the same time: then a block is one customer. Where products are under way all the time (matrix
products), nothing queues. With r programs side by side, as registers and shared memory allow,

    alone    = tensor + own + ROUND * meets of one customer, or the longer of tensor and
               own + ROUND * rounds where products are under way all the time
    chain    = begin + delays + the longer of: late * FETCH (a ring's copies), alone
    wave(r)  = the longest of: the queue, r * copies, r * shared, chain
    time     = LAUNCH + (wave(r) * whole waves + wave(the rest)) / clock
    time    >= (bytes that the arrays have + bytes that are spilled) / the speed of memory
    time    >= operations of products / (SUSTAINED of what tensor cores do): power

A wave is multiprocessors * r programs. Blocks that stay begin once: each takes its share of the
programs one after the other, with TURN in the place of `begin`, since copies for the next program
come while this one ends. "The longest" is a norm of the power P, and of SHARPLY among the last
three.

Constants were fitted on 12 runs of an H200 (`FITTED` in tests/bench/whatif.py); rows of 13 further
runs had been looked at when the form of the model was chosen (`LOOKED_AT`).
`MOVES` and that special functions are issued, too, came later, from code alone.
`python -m tests.bench.whatif` holds it against all that are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from workbench.launch.grids import blocks_for
from workbench.questions.workload import Products, Work, workload
from workbench.runtime.compiled import CompiledKernel
from workbench.targets.nvidia.chip import chip, residency
from workbench.targets.nvidia.speeds import Speeds, share, speeds

COPY_BYTES = 68.0
LINE = 1.55
SPECIAL = 12.0
ISSUE = 1.05
#: Instructions of a warp in a round beside those on tiles, where the next product is under way: its
#: numbers are copied, descriptors made. Counted in the SASS of attention's loops (84, 84, 114, 136
#: for 64x64, 128x64, 64x32 and 128x32, heads of 64, full), fitted to no time.
MOVES = 100.0
LATENCY = 1700.0
FETCH = 1050.0
BARRIER = 70.0
START = 550.0
ROUND = 210.0
TURN = 400.0
LAUNCH_MICROSECONDS = 2.25
P = 10.0
_WARP = 32
#: What share of the data sheet's speed a copy gets.
MEMORY_SHARE = 0.92
#: How much of what tensor cores do they may do for long.
SUSTAINED = 0.93
#: How sharply a launch that is bound by memory or power is bound by nothing else.
SHARPLY = 2.9


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
        rounds: how many programs a block takes at most, 0 where each has a block of its own.
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
    rounds: int = 0


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
        fits.warps, unit.warps, fits.limit, work, warps - built.num_warps, launch.most_rounds,
    )  # fmt: skip


def units_of(facts: Facts, speed: Speeds) -> dict[str, float]:
    """Return the cycles that one program keeps each unit of a multiprocessor busy."""
    work = facts.work
    assert work is not None
    written = work.stored_sectors if work.lines else 0.0
    beside = _waited(work) * min(work.meets, max(0.0, work.products - work.meets))
    moves = MOVES * beside * facts.num_warps * _WARP
    return {
        "tensor cores": sum(n * _cycles(kind, speed) for kind, n in work.tensor.items()),
        "copies": max(
            work.sectors * 32 / COPY_BYTES, work.lines * LINE + written * 32 / COPY_BYTES
        ),
        "shared memory": work.wavefronts,
        "arithmetic": (ISSUE * (work.lanes + work.special) + moves) / speed.lanes,
        "special functions": work.special / SPECIAL,
    }  # fmt: skip


def _cycles(kind: Products, speed: Speeds) -> float:
    """Return the cycles of one operation: of multiplying, or of reading what is multiplied."""
    reached = 1.0 if kind.instruction == "wgmma" else speed.warp_share
    return max(1 / (speed.tensor * share(kind.operand) * reached), kind.rows)


def predict(
    facts: Facts, target: str, grid: Sequence[int], moved: float = 0.0, speed: Speeds | None = None
) -> Prediction | None:
    """Return how long a launch will take by the model above; None where nothing is launched.

    Args:
        facts: of the compilation.
        target: the chip.
        grid: programs along each axis.
        moved: bytes that the launch must move at the least; 0: nobody knows.
        speed: the numbers of a GPU, those of the chip's data-centre product if None.
    """
    work, programs = facts.work, prod(grid)
    if work is None or not facts.resident or not programs:
        return None
    speed = speed or speeds(target)
    units = units_of(facts, speed)
    side_by_side = max(1, facts.resident // (facts.num_warps + facts.producers))
    one = _Program(work, units, facts.num_warps)
    most = speed.multiprocessors * side_by_side
    rounds = -(-programs // blocks_for(programs, most, facts.rounds)) if facts.rounds else 1
    if rounds > 1:
        resident = min(side_by_side, -(-programs // speed.multiprocessors))
        cycles = one.begin - TURN + rounds * one.together(resident, TURN)
    else:
        full, rest = divmod(programs, most)
        cycles = full * one.together(side_by_side, one.begin)
        if rest:
            cycles += one.together(-(-rest // speed.multiprocessors), one.begin)
    spilled = 32 * (facts.spill_bytes or 0) * facts.num_warps * programs * max(1.0, work.rounds)
    least = (moved + spilled) / (speed.memory_gbps * MEMORY_SHARE * 1e3)
    cool = units["tensor cores"] * programs / (
        SUSTAINED * speed.multiprocessors * speed.gigahertz * 1e3
    )  # fmt: skip
    took = cycles / (speed.gigahertz * 1e3)
    bound = max(units, key=units.__getitem__)
    resident = min(side_by_side, -(-programs // speed.multiprocessors))
    if one.chain(resident, one.begin) > one.served(resident, one.begin):
        bound = "waiting"
    if least > took:
        bound = "memory"
    time = LAUNCH_MICROSECONDS + _norm((took, least, cool), SHARPLY)
    return Prediction(time, bound, programs / most)


@dataclass(frozen=True, slots=True)
class _Program:
    """One program: what it asks of the units, by `num_warps` warps that hold tiles."""

    work: Work
    units: Mapping[str, float]
    num_warps: int

    @property
    def begin(self) -> float:
        """Cycles until it has what it begins with."""
        return START + (LATENCY if self.work.rounds else 0.0)

    def together(self, resident: int, begin: float) -> float:
        """Return the cycles that so many programs take side by side."""
        return _norm((self.served(resident, begin), self.chain(resident, begin)), P)

    def served(self, resident: int, begin: float) -> float:
        """Return the cycles that units need for so many programs side by side."""
        tensor, own = self._products_and_own
        queue = resident * max(tensor, own)
        if _waited(self.work) > 0.5:
            customers = self._customers(resident)
            part = resident / customers
            thinks = begin + self._delays + ROUND * self.work.meets
            queue = _queue(customers, thinks, (part * tensor, part * own))
        copies, shared = self.units["copies"], self.units["shared memory"]
        return _norm((queue, resident * copies, resident * shared), P)

    def chain(self, resident: int, begin: float) -> float:
        """Return the cycles of one program whose steps wait for each other."""
        part = resident / self._customers(resident)
        tensor, own = (part * cycles for cycles in self._products_and_own)
        own *= max(1.0, 4 / self.num_warps)  # at the rate of its own warps
        waiting = tensor + own + ROUND * self.work.meets
        under_way = max(tensor, own + ROUND * self.work.rounds)
        share = _waited(self.work)
        alone = share * waiting + (1 - share) * under_way
        return begin + self._delays + max(self.work.late * FETCH, alone)

    @property
    def _products_and_own(self) -> tuple[float, float]:
        own = _norm((self.units["arithmetic"], self.units["special functions"]), P)
        return self.units["tensor cores"], own

    @property
    def _delays(self) -> float:
        return self.work.waits * LATENCY + self.work.barriers * BARRIER

    def _customers(self, resident: int) -> int:
        """Return how many go their own way: blocks that meet at barriers, else groups of warps."""
        in_step = 2 * self.work.barriers > max(self.work.meets, 1.0)
        return resident * (1 if in_step else max(1, self.num_warps // 4))


def _waited(work: Work) -> float:
    """Return how much of the products is waited for with no other one under way, 0 to 1.

    Of two that take turns one wait is enough to hold up both.
    """
    return min(1.0, 2 * work.meets / work.products) if work.products else 1.0


def _norm(parts: Sequence[float], power: float) -> float:
    """Return what takes these parts at once, each of them the more the longer it is."""
    most = max(parts)
    return most * sum((part / most) ** power for part in parts) ** (1 / power) if most else 0.0


def _queue(customers: int, thinks: float, demands: Sequence[float]) -> float:
    """Return the cycles in which all customers of a closed queue come round once.

    Args:
        customers: how many there are.
        thinks: cycles that each spends away from the servers.
        demands: cycles of each server for one customer.
    """
    waiting, rate = [0.0] * len(demands), 0.0
    for there in range(1, customers + 1):
        stays = [demand * (1 + queued) for demand, queued in zip(demands, waiting, strict=True)]
        rate = there / (thinks + sum(stays))
        waiting = [rate * stay for stay in stays]
    return customers / rate
