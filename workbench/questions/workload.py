"""What one program of a launch asks of a multiprocessor: counted from GPU IR, loops and all.

Every op is counted once (`moves` of global and shared memory as `%access` shows them, products,
arithmetic); a block is the sum of its ops, and a loop repeats its body as often as the launch's
integers say. Where that depends on the program's number (causal attention), some programs spread
over the grid are asked and the mean is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from math import prod
from typing import Any, NamedTuple

from workbench.bench.work import ScalarFrame, UnknownValueError
from workbench.ir import (
    Array,
    Block,
    Module,
    Op,
    Scalar,
    Shared,
    Tile,
    Value,
    element_of,
    layout_of,
    shape_of,
)
from workbench.ops import (
    Barrier,
    Cast,
    Dot,
    Elementwise,
    For,
    If,
    Load,
    Reduce,
    Scan,
    While,
    count_rounds,
)
from workbench.targets.nvidia.chip import Chip
from workbench.targets.nvidia.moves import moves_in
from workbench.targets.nvidia.ops import (
    Await,
    ScaleProducts,
    TensorCopy,
    TensorStore,
    WaitCopies,
    WaitProducts,
    WarpgroupDot,
)
from workbench.targets.simt.moves import Move
from workbench.targets.simt.ops import BlockBarrier, Roles, SharedDot

#: At most so many programs are asked how long their loops are.
_SAMPLES = 16
#: What shared memory gives in a cycle.
_ROW_BYTES = 128
_SECTOR_BYTES = 32
#: Functions of floats that go to the special function unit; what each costs there, in results.
_SPECIAL = {
    "exp": 1, "exp2": 1, "log": 1, "log2": 1, "sin": 1, "cos": 1, "rsqrt": 1, "sqrt": 2, "div": 1,
    "tanh": 1, "erf": 2, "sigmoid": 2,
}  # fmt: skip


class Products(NamedTuple):
    """A kind of products: the instruction, the operands' type, and how they come to it.

    `rows`: rows of banks of shared memory that the instruction itself reads, an operation.
    """

    instruction: str
    operand: str
    rows: float = 0.0


@dataclass(frozen=True, slots=True)
class Work:
    """What a program, or a part of it, does; numbers are means over programs.

    Attributes:
        sectors: of 32 bytes that requests to global memory touch, by all warps.
        ideal_sectors: the fewest that could have moved the same elements.
        stored_sectors: those of `sectors` that stores and atomics touch.
        requests: to global memory, one for each warp and instruction.
        wavefronts: rows of banks that requests to shared memory take.
        ideal_wavefronts: the fewest.
        tensor: operations of products on tensor cores, by their kind.
        lanes: results of arithmetic, one for each lane that computes one.
        special: results of the special function unit.
        waits: times that the program waits for what it has just loaded.
        barriers: of the block.
        rounds: times that it waits for copies which began some rounds before; a producer's waits
            for slots to be free count as nothing.
        late: the same, each divided by the rounds that those copies had.
        lines: of 128 bytes that the rows of boxes of tensor maps touch.
        products: by warpgroups, how many.
        meets: times that warps wait for their products with no other one under way.
        unknown: something depends on data: a loop's rounds were taken to be 1.
    """

    sectors: float = 0.0
    ideal_sectors: float = 0.0
    stored_sectors: float = 0.0
    requests: float = 0.0
    wavefronts: float = 0.0
    ideal_wavefronts: float = 0.0
    tensor: Mapping[Products, float] = field(default_factory=dict[Products, float])
    lanes: float = 0.0
    special: float = 0.0
    waits: float = 0.0
    barriers: float = 0.0
    rounds: float = 0.0
    late: float = 0.0
    lines: float = 0.0
    products: float = 0.0
    meets: float = 0.0
    unknown: bool = False

    def plus(self, other: Work, times: float = 1.0) -> Work:
        """Return this and another so many times."""
        found: dict[str, Any] = {
            name: getattr(self, name) + times * getattr(other, name) for name in _SUMS
        }
        tensor = dict(self.tensor)
        for kind, operations in other.tensor.items():
            tensor[kind] = tensor.get(kind, 0.0) + times * operations
        return Work(**found, tensor=tensor, unknown=self.unknown or other.unknown)

    @property
    def conflicts(self) -> float:
        """By how much shared memory takes longer than without bank conflicts; 1: there are none."""
        return self.wavefronts / self.ideal_wavefronts if self.ideal_wavefronts else 1.0


_SUMS = [f.name for f in fields(Work) if f.name not in ("tensor", "unknown")]


@dataclass(slots=True)
class _Part:
    """A block: what its own ops do, and the loops and branches in it."""

    own: Work
    inner: list[tuple[Op, list[_Part]]]


def workload(module: Module, unit: Chip, grid: Sequence[int], integers: Mapping[str, int]) -> Work:
    """Return what a program of a launch does, in the mean over the grid.

    Args:
        module: GPU IR.
        unit: the chip it is for.
        grid: programs along each axis.
        integers: the launch's integers by parameter name; what follows from none is unknown.
    """
    moves: dict[int, list[Move]] = {}
    for op, move in moves_in(module, unit.name):
        moves.setdefault(op.id, []).append(move)
    tree = _Counter(module, unit, moves).part(module.body)
    samples = list(_samples(grid))
    total = Work()
    for place in samples:
        found = _evaluate(tree, _Frame(module, grid, integers, place))
        total = total.plus(found, 1 / len(samples))
        if not _depends_on_program(tree):
            return found
    return total


def _samples(grid: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield programs spread over a grid, in the middle of equal parts of it."""
    full = (*grid, 1, 1, 1)[:3]
    steps = [min(extent, _SAMPLES if axis == 0 else 2) for axis, extent in enumerate(full)]
    while prod(steps) > _SAMPLES:
        steps[steps.index(max(steps))] //= 2
    ranges = [[int((i + 0.5) * n / s) for i in range(s)] for n, s in zip(full, steps, strict=True)]
    yield from product(*ranges)


class _Frame(ScalarFrame):
    """Evaluates scalars of one program."""

    def __init__(
        self, module: Module, grid: Sequence[int], integers: Mapping[str, int],
        place: tuple[int, ...],
    ) -> None:  # fmt: skip
        super().__init__(module, grid, integers)
        self.place = place

    def program_id(self, axis: int) -> int:
        return self.place[axis]

    def known_value(self, value: Value) -> Array | None:
        try:
            return self.value(value)
        except UnknownValueError:
            return None


def _depends_on_program(part: _Part) -> bool:
    """Say whether programs may differ: a loop's bound or a branch follows from their number."""
    for op, parts in part.inner:
        deciding = op.decided_by() if isinstance(op, For) else op.operands[:1]
        if any(_reads_program(value, set()) for value in deciding):
            return True
        if any(map(_depends_on_program, parts)):
            return True
    return False


def _reads_program(value: Value, seen: set[Value]) -> bool:
    if value in seen or value.op is None:
        return False
    seen.add(value)
    return value.op.name == "tile.program_id" or any(
        _reads_program(operand, seen) for operand in value.op.operands
    )


def _evaluate(part: _Part, frame: _Frame) -> Work:
    total = part.own
    for op, parts in part.inner:
        if isinstance(op, For):
            bounds = [frame.known_value(v) for v in (op.lower, op.upper, op.step)]
            lower, upper, step = (None if b is None else int(b) for b in bounds)
            unknown = lower is None or upper is None or not step
            trips = 1 if unknown else count_rounds(lower, upper, step)  # type: ignore[arg-type]
            body = _evaluate(parts[0], frame)
            total = total.plus(replace(body, unknown=True) if unknown else body, trips)
        elif isinstance(op, If):
            chosen = frame.known_value(op.condition)
            taken = parts if chosen is None else parts[:1] if bool(chosen) else parts[1:2]
            for branch in taken:  # not known which: half of each
                total = total.plus(_evaluate(branch, frame), 1 / len(taken))
        elif isinstance(op, Roles):  # side by side: who consumes waits for who produces
            producer, consumers = (_evaluate(region, frame) for region in parts)
            total = total.plus(replace(producer, waits=0.0, barriers=0.0, rounds=0.0, late=0.0))
            total = total.plus(consumers)
        else:
            for branch in parts:
                unknown_work = replace(_evaluate(branch, frame), unknown=isinstance(op, While))
                total = total.plus(unknown_work)
    return total


class _Counter:
    """Counts the ops of a module, each once."""

    def __init__(self, module: Module, unit: Chip, moves: Mapping[int, list[Move]]) -> None:
        self._warps: int = module.attributes["num_warps"]
        self._unit = unit
        self._moves = moves

    def part(self, block: Block) -> _Part:
        """Return what a block does."""
        own, inner = Work(), list[tuple[Op, list[_Part]]]()
        depth: dict[Value, int] = {}
        for op in block.ops:
            if isinstance(op, For | If | While | Roles) or op.per_program:  # of a program
                inner.append((op, [self.part(region) for region in op.regions]))
                continue
            own = own.plus(self._op(op))
            level = max((depth.get(v, 0) for v in op.operands), default=0) + isinstance(op, Load)
            depth.update(dict.fromkeys(op.results, level))
        # Loads that do not follow from each other are under way together.
        return _Part(replace(own, waits=max(depth.values(), default=0)), inner)

    def _op(self, op: Op) -> Work:
        work = Work()
        for move in self._moves.get(op.id, ()):
            work = work.plus(self._move(op, move))
        if isinstance(op, WaitProducts | ScaleProducts):
            return work.plus(Work(meets=float(op.pending == 0)))
        if isinstance(op, Dot | WarpgroupDot | SharedDot):
            return work.plus(self._product(op))
        if isinstance(op, Barrier | BlockBarrier):
            return work.plus(Work(barriers=1))
        if isinstance(op, WaitCopies):
            return work.plus(Work(rounds=1, late=1 / (op.pending + 1)))
        if isinstance(op, Await) and isinstance(op.barriers.type, Shared):
            # As a ring of asynchronous copies: the others of its slots are under way meanwhile.
            return work.plus(Work(rounds=1, late=1 / max(1, op.barriers.type.slots - 1)))
        if isinstance(op, TensorCopy | TensorStore):
            return work.plus(_boxes(op))
        if isinstance(op, Reduce | Scan):
            return work.plus(Work(lanes=self._lanes(op.operands[0]) + self._shuffles(op)))
        if isinstance(op, Elementwise | Cast) and _is_float_tile(op.result):
            lanes = self._lanes(op.result)
            special = _SPECIAL.get(op.name.removeprefix("tile."), 0)
            return work.plus(Work(lanes=lanes, special=special * lanes))
        return work

    def _move(self, op: Op, move: Move) -> Work:
        del op
        requests = float(move.requests * self._warps)
        if move.space == "shared":
            taken = requests * (move.wavefronts or 1)
            return Work(wavefronts=taken, ideal_wavefronts=requests * move.ideal)
        moved = requests * (move.sectors or 1)
        stored = 0.0 if move.direction == "load" else moved
        return Work(
            sectors=moved, ideal_sectors=requests * move.ideal, stored_sectors=stored,
            requests=requests,
        )  # fmt: skip

    def _product(self, op: Dot | WarpgroupDot | SharedDot) -> Work:
        (*_, inner), result = shape_of(op.a.type), prod(shape_of(op.result.type))
        element = element_of(op.a.type)
        word = str(element)
        if word == "f32":
            word = "tf32" if getattr(op, "precision", "") == "tf32" else "f32"
        operations = 2.0 * result * inner
        if isinstance(op, WarpgroupDot):
            # Every 64 rows read all of B; A comes from shared memory, too, unless it is computed.
            rows, columns = shape_of(op.result.type)[-2:]
            read = -(-rows // 64) * inner * columns
            read += 0 if isinstance(op.a.type, Tile) else rows * inner
            reads = read * element_of(op.a.type).itemsize / _ROW_BYTES
            tensor = {Products("wgmma", word, reads / operations): operations}
            return Work(
                tensor=tensor, wavefronts=reads, ideal_wavefronts=reads, products=1,
                meets=float(op.in_flight == 0),
            )  # fmt: skip
        if isinstance(op, SharedDot) or word in ("f32", "f64"):
            words = 2 * result * inner / 4  # a thread keeps what it reads for some results
            return Work(lanes=result * inner, wavefronts=words / 32, ideal_wavefronts=words / 32)
        return Work(tensor={Products("mma", word): operations})

    def _lanes(self, value: Value) -> float:
        layout = layout_of(value.type)
        if layout is None:
            return float(self._unit.lanes * self._warps)
        return float(len(layout.live_registers()) * self._unit.lanes * self._warps)

    def _shuffles(self, op: Op) -> float:
        """Return what combining across lanes takes, in results: five steps of every value left."""
        return sum(self._lanes(result) for result in op.results) * 2 * 5


def _boxes(op: TensorCopy | TensorStore) -> Work:
    """Return what copies of boxes do: one thread asks, every byte is needed."""
    if isinstance(op, TensorCopy):
        sectors = op.bytes / _SECTOR_BYTES
        return Work(sectors=sectors, ideal_sectors=sectors, requests=1, lines=op.lines)
    sectors = prod(shape_of(op.source.type)) * element_of(op.source.type).itemsize / _SECTOR_BYTES
    return Work(sectors=sectors, ideal_sectors=sectors, stored_sectors=sectors, requests=1)


def _is_float_tile(value: Value) -> bool:
    element = element_of(value.type)
    return isinstance(value.type, Tile) and isinstance(element, Scalar) and element.is_float


__all__ = ["Products", "Work", "workload"]
