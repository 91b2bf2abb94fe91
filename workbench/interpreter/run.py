"""One run of a kernel: its arguments, their memory, what has been recorded, where ops may access.

Programs, the watcher and whoever gives turns share it, and know nothing of each other here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from workbench.interpreter.dependence import Dependence, Exit, unread
from workbench.interpreter.memory import Allocation, Memory
from workbench.interpreter.outside import Wrong, outside, pointers_of
from workbench.interpreter.recording import Access, Recording
from workbench.ir import Array, Element, Module, Op, Pointer, Scalar, Value
from workbench.ops.numbers import round_to
from workbench.source import LaunchError, Span, limit_of

#: Accesses beyond this many are not recorded: nobody looks at more of them.
MOST_ACCESSES = 200_000


class Homes(NamedTuple):
    """The allocations that an op may touch; `open`: and memory that is in no argument."""

    numbers: tuple[int, ...]
    open: bool


class Watching(Protocol):
    """Who looks at every access and claim of a run (`Watcher`)."""

    def before(self, op: Op, frame: Any) -> None:
        """Look at an op that a program (a frame) is about to run."""
        ...

    def read(
        self, op: Op, program: int, allocation: Allocation, addresses: Array, size: int
    ) -> None:
        """Look at a read of live addresses."""
        ...

    def write(
        self,
        op: Op,
        program: int,
        allocation: Allocation,
        addresses: Array,
        element: Element,
        same: Array,
        bits: Array,
    ) -> None:
        """Look at a write of bits; `same` says where it leaves memory as it was."""
        ...

    def outside_view(self, op: Op, program: int, allocation: Allocation) -> None:
        """Hear of an access that lies in an argument's storage but not in the argument."""
        ...

    def polls(self, decided: Exit) -> None:
        """Hear of a loop that may wait."""
        ...

    def ended(self, program: int) -> None:
        """Hear that a program has ended."""
        ...

    def last_written(self, address: int) -> tuple[int, Span | None] | None:
        """Return the program that wrote an address last, and where."""
        ...


class Turns(Protocol):
    """Who decides which program goes on (`Scheduler`); `frame` is the one that asks."""

    def wait(self, frame: Any, loop: Op, reads: Sequence[Any]) -> None:
        """Put a program aside until something that it read has changed."""
        ...

    def give_way(self, frame: Any) -> None:
        """Let others run first."""
        ...

    def meet(self, frame: Any) -> None:
        """Change over before an access that orders programs, if the schedule says so."""
        ...


class AbandonedError(BaseException):
    """Ends a program where the run is over."""


class Run:
    """See the top of this file."""

    scheduler: Turns

    def __init__(
        self, module: Module, grid: Sequence[int], arguments: Sequence[Any], *, record: bool = False
    ) -> None:
        self.module = module
        self.grid = (*grid, 1, 1, 1)[:3]
        #: The run is over: programs on other threads end before they run another block.
        self.over = False
        self.global_memory = Memory()
        self.recording = Recording()
        self.recorder = _Recorder(self) if record else None
        self.watcher: Watching | None = None
        #: The seed of the order in which the roles of a program take turns; 0: each goes on as far
        #: as it can, the producer first, and copies arrive as late as they can.
        self.roles_seed = 0
        #: Of a kernel whose blocks take several programs, how many blocks there are; 0: as many as
        #: programs. The frames of programs beyond them find nothing to do.
        self.blocks = 0
        #: How many programs blocks have drawn.
        self.drawn = 0
        #: The rounds that all loops of a program may take, None: any number.
        self.most_rounds: int | None = None
        #: The seconds that they may take, None: any number. Who asks something of a kernel gets an
        #: answer; a launch that the user made goes on until Stop (`run_module`).
        self.most_seconds: float | None = limit_of("checked")
        #: Told of every op that has run; its values are in the frame. Nothing is watched then.
        self.listener: Callable[[Op, Any], object] | None = None
        self._dependence: Dependence | None = None
        self._homes: dict[Value | None, Homes] = {}
        self._exits: dict[Op, Exit] = {}
        #: Values that are the same in every program instance.
        self.shared_values: dict[Value, Array] = {}
        if len(arguments) != len(module.parameters):
            names = ", ".join(p.name for p in module.parameters)
            raise LaunchError(
                f"{module.name} takes {len(module.parameters)} arguments ({names}), "
                f"got {len(arguments)}"
            )
        #: The allocation of each array parameter.
        self._home: dict[Value, int] = {}
        for parameter, argument in zip(module.parameters, arguments, strict=True):
            self.shared_values[parameter.value] = self._bind(
                parameter.name, parameter.value, argument
            )

    def shown_program(self, number: int) -> tuple[int, ...]:
        """Return the coordinates of a program as far as the grid has them."""
        x, y, _ = self.grid
        whole = (number % x, number // x % y, number // (x * y))
        return tuple(whole[axis] for axis in self.module_axes(whole))

    def element_at(self, address: int) -> tuple[str, int]:
        """Return the argument and the element that lie at an address."""
        number = int(self.global_memory.locate(np.asarray([address]), 1)[0])
        inside = self.global_memory.allocations[number]
        return inside.name, inside.element_at(address)

    def shown_place(self, address: int) -> str:
        """Return which element lies at an address, of all arguments that have it."""
        names = [
            f"{inside.name}[{inside.element_at(address)}]"
            for inside in self.global_memory.allocations
            if inside.start <= address < inside.end
        ]
        return names[0] + (f" ({', '.join(names[1:])})" if len(names) > 1 else "")

    def module_axes(self, program: tuple[int, ...]) -> tuple[int, ...]:
        """Return the axes up to the last one with more than one program."""
        last = max((axis for axis in range(3) if self.grid[axis] > 1), default=0)
        return tuple(range(last + 1))

    def _bind(self, name: str, value: Value, argument: Any) -> Array:
        if isinstance(value.type, Pointer):
            if isinstance(argument, int | np.integer):
                return np.asarray(argument, np.int64)
            try:
                self._home[value] = len(self.global_memory.allocations)
                return np.asarray(self.global_memory.add(name, argument), np.int64)
            except TypeError as error:
                raise LaunchError(
                    f"argument {name} is a {type(argument).__name__}, "
                    f"the kernel takes a {value.type}",
                    hint="pass a NumPy array, a CPU tensor, or an object that speaks DLPack",
                ) from error
        assert isinstance(value.type, Scalar)
        try:
            exact = np.uint64 if isinstance(argument, int) and argument >= 1 << 63 else None
            return round_to(np.asarray(argument, exact), value.type)
        except (TypeError, ValueError) as error:
            raise LaunchError(
                f"argument {name} is a {type(argument).__name__}, the kernel takes a {value.type}"
            ) from error

    # -- what ops depend on ---------------------------------------------------------------
    @property
    def dependence(self) -> Dependence:
        """What the module's values are made of."""
        if self._dependence is None:
            self._dependence = Dependence(self.module)
        return self._dependence

    def exit_of(self, loop: Op) -> Exit:
        """Return what decides whether a loop without a known end goes round again."""
        known = self._exits.get(loop)
        if known is None:
            condition, body = loop.regions
            known = self._exits[loop] = self.dependence.exit(loop, condition, body)
            if self.watcher is not None:
                self.watcher.polls(known)
        return known

    @cached_property
    def unread(self) -> frozenset[int]:
        """The ids of the ops that read memory for nobody: outside of it they find 0."""
        return unread(self.module)

    def homes(self, op: Op) -> Homes:
        """Return where an op may access memory."""
        pointer = pointers_of(op)
        known = self._homes.get(pointer)
        if known is None:
            known = self._homes[pointer] = self.homes_of(pointer)
        return known

    def homes_of(self, pointer: Value | None) -> Homes:
        """Return where a pointer may lead; None leads anywhere."""
        if pointer is None:
            return Homes((), True)
        roots = self.dependence.roots(pointer)
        numbers = [self._home[value] for value in roots.parameters if value in self._home]
        # A parameter may have been given as a number: nobody knows how much memory is there.
        known = len(numbers) == len(roots.parameters)
        return Homes(tuple(sorted(numbers)), roots.open or not known)

    def locate(self, addresses: Array, size: int, homes: Homes, *, write: bool) -> Array:
        """Return which allocation holds each access, -1 for one that leaves where it may go."""
        memory = self.global_memory
        where = memory.locate(addresses, size, None if homes.open else homes.numbers)
        if homes.open and (lost := where < 0).any():
            memory.adopt(addresses[lost], size, write=write)
            where = memory.locate(addresses, size)
        if write:
            for number in np.unique(where):
                if number >= 0 and not memory.allocations[int(number)].writable:
                    where[where == number] = -1
        return where

    def out_of_bounds(
        self, op: Op, program: tuple[int, ...], lane: int, address: int, size: int, *, write: bool
    ) -> None:
        """Raise LaunchError that says what was accessed where: K502, or K505 for a store."""
        where = tuple(program[: len(self.module_axes(program))])
        among = [self.global_memory.allocations[number] for number in self.homes(op).numbers]
        wrong = Wrong(where, lane, address, size, write)
        raise outside(op, wrong, self.global_memory, among, self.module)


class _Recorder:
    """Writes accesses down, lane by lane."""

    def __init__(self, run: Run) -> None:
        self.of = run

    def note(
        self, op: Op, program: int, flat: Array, on: Array, element: Element, *, write: bool
    ) -> None:
        recording = self.of.recording
        memory = self.of.global_memory
        where = memory.locate(flat, element.itemsize)
        room = MOST_ACCESSES - len(recording.accesses)
        recording.truncated |= room < flat.size
        for lane in range(min(flat.size, max(0, room))):
            number = int(where[lane])
            inside = memory.allocations[number] if number >= 0 else None
            recording.accesses.append(
                Access(
                    op.id,
                    program,
                    lane,
                    inside.name if inside else "",
                    inside.element_at(int(flat[lane])) if inside else -1,
                    bool(on[lane]),
                    write,
                )
            )
