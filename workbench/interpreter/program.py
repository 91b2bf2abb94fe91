"""One program instance while it runs: its values, its accesses to memory, its loops that wait."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from itertools import chain, takewhile
from math import prod
from typing import Any, NamedTuple, Self

import numpy as np

from workbench.interpreter.dependence import Exit
from workbench.interpreter.memory import Allocation, Memory, Places
from workbench.interpreter.roles import Roles, never
from workbench.interpreter.run import AbandonedError, Run
from workbench.ir import Array, Block, Element, Op, Value
from workbench.ops import CheckAccess, Constant, Iota
from workbench.ops.numbers import decode, encode, memory_dtype, value_dtype
from workbench.source import LaunchError, Note, ResourceError, over_budget, refused

#: Where copies that nobody has waited for are kept, in a program's own memory.
UNDER_WAY = ("started", "groups")
#: A round of a loop that touches memory more often than this is not looked at as a wait.
MOST_STEPS = 64
#: Nor one that touches more elements than this at once.
MOST_ELEMENTS = 4096
#: After so many rounds a loop whose exit memory decides lets other programs run.
PATIENCE = 1000


class Part(NamedTuple):
    """The live lanes of an access that lie in one allocation; `lanes` None: all of the tile."""

    allocation: Allocation
    lanes: Array | None
    addresses: Array
    places: Places


class Step(NamedTuple):
    """An access in the current round of a loop that may wait; `old` is what a write replaced."""

    op: Op
    address: int
    places: Places
    old: Array | None


class ProgramFrame:
    """The state of one program instance (a `Frame`)."""

    def __init__(self, machine: Run, program: tuple[int, int, int]) -> None:
        self.machine = machine
        self.program = program
        self.number = program[0] + machine.grid[0] * (program[1] + machine.grid[1] * program[2])
        self.values: dict[Value, Array] = dict(machine.shared_values)
        self._memory: dict[Any, Any] = {}
        #: Rounds of all its loops.
        self.rounds = 0
        self._began = 0.0
        #: What the rounds of loops that may wait did, and those loops, the inner ones last.
        self.steps: list[Step] = []
        self.waiting: list[LoopRounds] = []
        #: What happens at a time of its own: copies that arrive.
        self.events: deque[Callable[[], None]] = deque()
        #: Those with whom this one takes turns, where the program's warps have parted.
        self.roles: Roles | None = None
        if machine.listener is not None:
            self.run = self._run_heard  # type: ignore[method-assign]

    @property
    def memory(self) -> dict[Any, Any]:
        """Storage for ops with state (shared buffers)."""
        return self._memory

    def __getitem__(self, value: Value) -> Array:
        return self.values[value]

    def get(self, value: Value | None, default: Any) -> Array:
        """Return the array of an optional operand, or `default`."""
        return np.asarray(default) if value is None else self.values[value]

    def program_id(self, axis: int) -> int:
        """Return which program instance this is along a grid axis."""
        return self.program[axis]

    def num_programs(self, axis: int) -> int:
        """Return how many program instances there are along a grid axis."""
        return self.machine.grid[axis]

    def programs(self, following: Callable[[], int] | None = None) -> Iterator[Self]:
        """Yield this frame as each program that the block of its number takes.

        There are `machine.blocks` of them, or one for each program.
        """
        mine, (x, y, z) = (self.program, self.number), self.machine.grid
        total, blocks = x * y * z, self.machine.blocks or x * y * z
        numbers = numbers_of(self.number, blocks, total)
        if following is not None and self.number < blocks:
            numbers = chain([self.number], iter(following, None))
        for number in takewhile(lambda number: number < total, numbers):
            self.program, self.number = (number % x, number // x % y, number // (x * y)), number
            yield self
        self.program, self.number = mine

    def draw(self) -> int:
        """Return the number of a program that no block has taken, or of none if there is none.

        Each block has taken that of its own number.
        """
        self.machine.drawn += 1
        return (self.machine.blocks or prod(self.machine.grid)) + self.machine.drawn - 1

    def emit(self, op: Op, text: str) -> None:
        """Deliver text that the kernel prints."""
        self.machine.recording.output.append(text)

    def storage(self, addresses: Array) -> int:
        """Return where the memory begins that holds one of the addresses, 0 if there is none."""
        memory: Memory = self.machine.global_memory
        last = int(memory.locate(np.ravel(addresses), 1).max(initial=-1))
        return memory.allocations[last].start if last >= 0 else 0

    def loop(self, op: Op) -> LoopRounds:
        """Return what is to be told of each round of a loop."""
        return LoopRounds(self, op, self.machine.exit_of(op))

    def round(self, op: Op) -> None:
        """Count a round of a loop. Raises ResourceError K406 where there are too many."""
        self.rounds += 1
        most, seconds = self.machine.most_rounds, self.machine.most_seconds
        if most is not None and self.rounds > most:
            raise runaway(self, op)
        if seconds is not None:
            now = time.monotonic()
            if self.rounds == 1:
                self._began = now
            # Who waits for others takes few rounds: not what runs away.
            elif now - self._began > seconds and self.rounds > PATIENCE:
                raise late(self, op, now - self._began)

    # -- roles ----------------------------------------------------------------------------
    def part(self, op: Op, regions: Mapping[str, Block]) -> None:
        """Run regions that take turns, each by a frame of its own that shares values and memory."""
        Roles(self, op, regions, self.machine.roles_seed).run()

    def of_role(self, roles: Roles) -> Self:
        """Return the frame of one role: what it waits for and goes round is its own."""
        own = copy(self)
        own.steps, own.waiting, own.roles = [], [], roles
        if self.machine.listener is not None:
            own.run = own._run_heard  # type: ignore[method-assign]
        return own

    def later(self, event: Callable[[], None]) -> None:
        """Let something happen at a time of its own."""
        self.events.append(event)

    def until(self, op: Op, holds: Callable[[], bool], words: Callable[[], str]) -> None:
        """Wait until something holds; what happens at its own time happens as late as possible.

        Raises LaunchError K515 where it never will.
        """
        if self.roles is not None:
            self.roles.until(op, holds, words)
            return
        while not holds():
            if not self.events:
                raise never(op, [(op, f"the program waits for {words()}")])
            self.events.popleft()()

    def finished(self, body: Block) -> None:
        """Hear that the program has ended. Raises LaunchError K515 for copies under way."""
        if self.events or any(any(self.memory.get(name, ())) for name in UNDER_WAY):
            raise LaunchError(
                "copies are still under way when the program ends: nobody waits for them",
                body.ops[-1].span,
                code="K515",
                hint="wait for every copy before its memory is given away",
            )

    def run(self, block: Block, arguments: Sequence[Array]) -> tuple[Array, ...]:
        """Run a block with its arguments bound; return what its last op gives back."""
        values = self.values
        shared = self.machine.shared_values
        watcher = self.machine.watcher
        frame: Any = self
        if self.machine.over:
            raise AbandonedError
        for name, array in zip(block.arguments, arguments, strict=True):
            values[name] = array
        for op in block.ops:
            if isinstance(op, Constant | Iota):
                result = op.results[0]
                known = shared.get(result)
                if known is None:
                    known = shared[result] = np.asarray(op.interpret(frame))
                values[result] = known
                continue
            if watcher is not None:
                watcher.before(op, self)
            results = op.interpret(frame)
            if isinstance(results, tuple):
                for result, array in zip(op.results, results, strict=True):
                    values[result] = array
            elif op.results:
                values[op.results[0]] = np.asarray(results)
        return tuple(values[value] for value in block.ops[-1].operands)

    def _run_heard(self, block: Block, arguments: Sequence[Array]) -> tuple[Array, ...]:
        """Run a block as `run` does, with somebody told of each op; what watches is left out."""
        values = self.values
        listener = self.machine.listener
        assert listener is not None
        frame: Any = self
        if self.machine.over:
            raise AbandonedError
        values.update(zip(block.arguments, arguments, strict=True))
        for op in block.ops:
            results = op.interpret(frame)
            if isinstance(results, tuple):
                values.update(zip(op.results, results, strict=True))
            elif op.results:
                values[op.results[0]] = np.asarray(results)
            listener(op, self)
        return tuple(values[value] for value in block.ops[-1].operands)

    # -- memory ---------------------------------------------------------------------------
    def read(self, op: Op, addresses: Array, live: Array, element: Element) -> Array:
        """Read one element through each live address, 0 elsewhere."""
        if op.id in self.machine.unread:
            live = live & self._inside(op, addresses, element)
        parts, count = self._reach(op, addresses, live, element, write=False)
        watcher = self.machine.watcher
        dtype = np.dtype(memory_dtype(element))
        if len(parts) == 1 and parts[0].lanes is None:
            bits = parts[0].places.read()
        else:
            bits = np.zeros(count, dtype)
            for part in parts:
                bits[part.lanes] = part.places.read()
        for part in parts:
            if watcher is not None:
                watcher.read(op, self.number, part.allocation, part.addresses, element.itemsize)
            if self.waiting:
                self._step(op, part, None)
        values = np.asarray(decode(bits, element), value_dtype(element))
        return values.reshape(np.shape(addresses))

    def write(self, op: Op, addresses: Array, live: Array, values: Array, element: Element) -> None:
        """Write one element through each live address."""
        parts, _ = self._reach(op, addresses, live, element, write=True)
        spread = np.broadcast_to(values, np.shape(addresses)).ravel()
        bits: Array = np.asarray(encode(spread, element)).view(memory_dtype(element))
        watcher = self.machine.watcher
        for part in parts:
            new = bits if part.lanes is None else bits[part.lanes]
            if watcher is not None:
                same = same_bits(part.places.read(), new)
                watcher.write(op, self.number, part.allocation, part.addresses, element, same, new)
            if self.waiting:
                self._step(op, part, part.places.read())
            part.places.write(new)

    def _inside(self, op: Op, addresses: Array, element: Element) -> Array:
        """Return which addresses lie where the op may read."""
        flat, homes = np.ravel(addresses), self.machine.homes(op)
        where = self.machine.locate(flat, element.itemsize, homes, write=False)
        return (where >= 0).reshape(np.shape(addresses))

    def check(self, op: Op, addresses: Array, live: Array, element: Element) -> None:
        """Look at the addresses of an access before it is made."""
        self._reach(op, addresses, live, element, write=bool(getattr(op, "writes", False)))

    def _reach(
        self, op: Op, addresses: Array, live: Array, element: Element, *, write: bool
    ) -> tuple[list[Part], int]:
        """Return where the live lanes of an access lie, and how many lanes the tile has.

        Raises LaunchError K502 for a lane not all of whose bytes are in the storage.
        """
        machine = self.machine
        flat = np.asarray(addresses, np.int64).ravel()
        on = np.broadcast_to(live, np.shape(addresses)).ravel()
        if machine.recorder is not None and not isinstance(op, CheckAccess):
            machine.recorder.note(op, self.number, flat, on, element, write=write)
        lanes = None if on.all() else np.flatnonzero(on)
        wanted = flat if lanes is None else flat[lanes]
        if not len(wanted):
            return [], len(flat)
        size, dtype = element.itemsize, np.dtype(memory_dtype(element))
        homes = machine.homes(op)
        allocations: list[Allocation] = machine.global_memory.allocations
        if len(homes.numbers) == 1:
            home = allocations[homes.numbers[0]]
            fits = wanted.min() >= home.start and wanted.max() <= home.end - size
            if fits and (home.writable or not write):
                self._look(op, home, wanted, size)
                return [Part(home, lanes, wanted, home.places(wanted, dtype))], len(flat)
        where = machine.locate(wanted, size, homes, write=write)
        if (lost := where < 0).any():
            lane = int(np.argmax(lost))
            shown = lane if lanes is None else int(lanes[lane])
            machine.out_of_bounds(op, self.program, shown, int(wanted[lane]), size, write=write)
        parts: list[Part] = []
        for number in np.unique(where):
            here = np.flatnonzero(where == number)
            place = allocations[int(number)]
            inside = wanted[here]
            own = here if lanes is None else lanes[here]
            self._look(op, place, inside, size)
            parts.append(Part(place, own, inside, place.places(inside, dtype)))
        return parts, len(flat)

    def _look(self, op: Op, allocation: Allocation, addresses: Array, size: int) -> None:
        """Tell the watcher of what is right but may not have been meant."""
        watcher = self.machine.watcher
        if watcher is not None and (
            allocation.owner is None or not allocation.views(addresses, size)
        ):
            watcher.outside_view(op, self.number, allocation)

    def _step(self, op: Op, part: Part, old: Array | None) -> None:
        """Remember what a round of a loop that may wait does to memory."""
        if len(self.steps) >= MOST_STEPS or len(part.addresses) > MOST_ELEMENTS:
            for loop in self.waiting:
                loop.busy = True
            return
        self.steps.append(Step(op, int(part.addresses[0]), part.places, old))


def numbers_of(block: int, blocks: int, total: int) -> Iterator[int]:
    """Yield the numbers of the programs that a block takes: back and forth over all blocks.

    >>> [list(numbers_of(block, 3, 8)) for block in range(4)]
    [[0, 5, 6], [1, 4, 7], [2, 3], []]
    """
    number, step = block, 2 * (blocks - block) - 1
    while block < blocks and number < total:
        yield number
        number, step = number + step, 2 * blocks - step


class LoopRounds:
    """One execution of a loop without a known end (`Rounds`), which may be a wait.

    A round that leaves memory and the values that matter as they were goes on for ever unless
    another program writes what it read. So the program is put aside until one has.
    """

    def __init__(self, frame: ProgramFrame, op: Op, decided: Exit) -> None:
        self.frame = frame
        self.op = op
        self.exit = decided
        self.count = 0
        #: The round did more than is remembered of it.
        self.busy = False
        self.first = len(frame.steps)
        if decided.reads:
            frame.waiting.append(self)

    def turned(self, before: Sequence[Array], after: Sequence[Array]) -> None:
        """Hear that a round is over; put the program aside if the next would be the same."""
        self.count += 1
        waits = bool(self.exit.reads)
        if not waits and self.count % PATIENCE:
            return
        frame, scheduler = self.frame, self.frame.machine.scheduler
        same = all(np.array_equal(before[i], after[i]) for i in self.exit.carried)
        steps = frame.steps[self.first :]
        if same and not self.busy and not _changed(steps):
            reads = [step for step in steps if step.old is None]
            scheduler.wait(frame, self.op, reads)
        elif self.count % PATIENCE == 0:
            scheduler.give_way(frame)
        if waits:
            del frame.steps[self.first :]
            self.busy = False
            for outer in frame.waiting[:-1]:
                outer.busy = True  # what this round did is forgotten

    def ended(self) -> None:
        """Hear that the loop is over."""
        if self.exit.reads:
            self.frame.waiting.pop()
            if not self.frame.waiting:
                self.frame.steps.clear()


def runaway(frame: ProgramFrame, op: Op) -> ResourceError:
    """Return ResourceError K406 for a loop that goes round though its program may no more.

    It says what decides whether a loop without a known end goes on, and what that is now.
    """
    machine = frame.machine
    who = f"program {machine.shown_program(frame.number)}"
    what = f"{who} goes round this loop for ever, or too often: its loops took"
    return _with_state(over_budget("interpreted", what, frame.rounds, op.span), frame, op)


def late(frame: ProgramFrame, op: Op, seconds: float) -> ResourceError:
    """Return the same for a loop whose program has gone round for longer than it may."""
    who = f"program {frame.machine.shown_program(frame.number)}"
    said = (
        f"{who} goes round this loop for ever, or too long: {frame.rounds - 1:,} rounds of its "
        f"loops in {seconds:.3g} seconds in the interpreter"
    )
    return _with_state(refused("checked", said, int(seconds), op.span), frame, op)


def _with_state(error: ResourceError, frame: ProgramFrame, op: Op) -> ResourceError:
    deciding = _deciding(frame, op)
    if deciding:
        note = Note(f"after {frame.rounds - 1:,} rounds {deciding}", op.span)
        error.notes = (note, *error.notes)
    return error


def _deciding(frame: ProgramFrame, op: Op) -> str:
    """Return the scalars that decide whether a loop goes round again, and what they are."""
    if len(op.regions) != 2:
        return ""
    carried = frame.machine.exit_of(op).carried
    arguments = op.regions[0].arguments  # those of the condition, which was just asked
    shown = [
        f"{value.hint} is {frame.values[value]}"
        for value in (arguments[i] for i in carried)
        if value in frame.values and not np.shape(frame.values[value]) and value.hint
    ]
    return ", ".join(shown)


def same_bits(one: Array, other: Array) -> Array:
    """Say for each element whether two arrays of one type hold the same bits there."""
    bits = f"u{one.dtype.itemsize}"
    return np.ascontiguousarray(one).view(bits) == np.ascontiguousarray(other).view(bits)


def _changed(steps: Sequence[Step]) -> bool:
    """Say whether what was written, all together, left memory other than it was."""
    writes = [step for step in steps if step.old is not None]
    final = [step.places.read() for step in writes]
    for step in reversed(writes):
        assert step.old is not None
        step.places.write(step.old)
    changed = any(
        not same_bits(step.places.read(), bits).all()
        for step, bits in zip(writes, final, strict=True)
    )
    for step, bits in zip(writes, final, strict=True):
        step.places.write(bits)
    return changed
