"""Runs a module: one program instance after the other, every op by its own meaning."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from workbench.interpreter.memory import Memory
from workbench.interpreter.recording import Access, Recording
from workbench.interpreter.watching import Races, Watcher
from workbench.ir import Array, Block, Element, Module, Op, Pointer, Scalar, Value, shape_of
from workbench.ops import (
    AddPointer,
    Bitcast,
    Broadcast,
    Constant,
    ExpandDims,
    For,
    Iota,
    Load,
    Splat,
    While,
)
from workbench.ops.numbers import round_to
from workbench.source import LaunchError

#: Accesses beyond this many are not recorded: nobody looks at more of them.
MOST_ACCESSES = 200_000


def run_module(
    module: Module,
    grid: Sequence[int],
    arguments: Sequence[Any],
    *,
    record: bool = False,
    watch: bool = False,
    uninitialised: Collection[str] = (),
) -> Recording:
    """Run a kernel over a grid and return what it printed and, if asked for, what it accessed.

    `arguments` are in the order of the module's parameters: arrays (see `describe_argument`) for
    pointers, numbers for the rest. What the kernel stores is in the arrays afterwards. With
    `watch` races, false promises, and reads of elements that nobody wrote are found too, the last
    in the arguments that `uninitialised` names.

    Raises:
        LaunchError: a wrong argument (K501), an access outside every argument (K502), or, where it
            is watched, an assertion that fails (K510).
    """
    machine = Machine(
        module, grid, arguments, record=record, watch=watch, uninitialised=uninitialised
    )
    machine.run_all()
    return machine.recording


class Machine:
    """One run in progress: memory, the values of parameters, what has been recorded."""

    def __init__(
        self,
        module: Module,
        grid: Sequence[int],
        arguments: Sequence[Any],
        *,
        record: bool = False,
        watch: bool = False,
        uninitialised: Collection[str] = (),
    ) -> None:
        self.module = module
        self.grid = (*grid, 1, 1, 1)[:3]
        self.global_memory = Memory()
        self.recording = Recording()
        self.recorder = _Recorder(self) if record else None
        #: Values that are the same in every program instance.
        self.shared_values: dict[Value, Array] = {}
        if len(arguments) != len(module.parameters):
            names = ", ".join(p.name for p in module.parameters)
            raise LaunchError(
                f"{module.name} takes {len(module.parameters)} arguments ({names}), "
                f"got {len(arguments)}"
            )
        for parameter, argument in zip(module.parameters, arguments, strict=True):
            self.shared_values[parameter.value] = self._bind(
                parameter.name, parameter.value, argument
            )
        self.watcher = Watcher(self, uninitialised) if watch else None

    def shown_program(self, number: int) -> tuple[int, ...]:
        """Return the coordinates of a program as far as the grid has them."""
        x, y, _ = self.grid
        whole = (number % x, number // x % y, number // (x * y))
        return tuple(whole[axis] for axis in self.module_axes(whole))

    def _bind(self, name: str, value: Value, argument: Any) -> Array:
        if isinstance(value.type, Pointer):
            if isinstance(argument, int | np.integer):
                return np.asarray(argument, np.int64)
            try:
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

    def run_all(self) -> None:
        """Run every program instance, axis 0 fastest."""
        x, y, z = self.grid
        for k, j, i in itertools.product(range(z), range(y), range(x)):
            self.run_program((i, j, k))

    def run_program(self, program: tuple[int, int, int]) -> None:
        """Run one program instance."""
        frame = _ProgramFrame(self, program)
        frame.run(self.module.body, ())

    def out_of_bounds(
        self, op: Op, program: tuple[int, ...], lane: int, address: int, size: int
    ) -> None:
        """Raise LaunchError K502 that says what was accessed where."""
        word = "load" if op.name == "tile.load" else op.name.removeprefix("tile.")
        used = len(self.module_axes(program))
        where = tuple(program[:used])
        root = self.root_name(op.operands[0])
        known = {a.name: a for a in self.global_memory.allocations}
        nearest = known.get(root) or self.global_memory.nearest(address)
        shape = shape_of(op.operands[0].type)
        place = (
            f"element {tuple(int(i) for i in np.unravel_index(lane, shape))} of the tile"
            if shape
            else ""
        )
        if nearest is None:
            raise LaunchError(
                f"{word} at address {address:#x}, but no argument is an array", op.span, code="K502"
            )
        element = nearest.element_at(address)
        if address >= nearest.start:
            past = address - nearest.end
            text = f"{past} to {past + size} bytes past the end of {nearest.name}"
        else:
            before = nearest.start - address
            text = f"{before} bytes before the start of {nearest.name}"
        whole = f"{nearest.name}[{element}]"
        raise LaunchError(
            f"{word} outside every argument: {text}",
            op.span,
            code="K502",
            notes=[
                f"program {where}{', ' + place if place else ''} is {whole}; "
                f"{nearest.name} has {nearest.elements} elements"
            ],
            hint=(
                "give the block pointer or descriptor the array's own shape, and name every axis "
                "that a block may leave in boundary_check"
                if getattr(op, "box", False)
                else "mask the access so that every live element lies inside, e.g. mask=offsets < n"
            ),
        )

    def module_axes(self, program: tuple[int, ...]) -> tuple[int, ...]:
        """Return the axes up to the last one with more than one program."""
        last = max((axis for axis in range(3) if self.grid[axis] > 1), default=0)
        return tuple(range(last + 1))

    def root_name(self, value: Value | None) -> str:
        """Return the parameter that a pointer was made from, "" if it is not one of them."""
        names = {p.value: p.name for p in self.module.parameters}
        root = self._root(value)
        return names.get(root, "") if root is not None else ""

    def is_made_of_data(self, pointer: Value) -> bool:
        """Say whether a pointer was read from memory or made of an integer.

        What it points to then need not be in an argument.
        """
        root = self._root(pointer)
        return root is not None and isinstance(root.op, Load | Bitcast)

    def _root(self, value: Value | None) -> Value | None:
        """Return what a pointer was made from by going to other elements of the same memory."""
        came_from: dict[Value, Value] = {}
        for op in self.module.walk():
            if isinstance(op, For):
                came_from.update(zip(op.body.arguments[1:], op.inits, strict=True))
                came_from.update(zip(op.results, op.inits, strict=True))
            elif isinstance(op, While):
                for region in (op.condition, op.body):
                    came_from.update(zip(region.arguments, op.inits, strict=True))
                came_from.update(zip(op.results, op.inits, strict=True))
        while value is not None:
            if value in came_from:
                value = came_from[value]
            elif isinstance(value.op, AddPointer):
                value = value.op.pointer
            elif isinstance(value.op, Splat | Broadcast | ExpandDims):
                value = value.op.source
            else:
                return value
        return None


class _ProgramFrame:
    """The state of one program instance (a `Frame`)."""

    def __init__(self, machine: Machine, program: tuple[int, int, int]) -> None:
        self.machine = machine
        self.program = program
        self.number = program[0] + machine.grid[0] * (program[1] + machine.grid[1] * program[2])
        self.values: dict[Value, Array] = dict(machine.shared_values)
        self._memory: dict[Any, Any] = {}

    @property
    def memory(self) -> dict[Any, Any]:
        return self._memory

    def __getitem__(self, value: Value) -> Array:
        return self.values[value]

    def get(self, value: Value | None, default: Any) -> Array:
        return np.asarray(default) if value is None else self.values[value]

    def program_id(self, axis: int) -> int:
        return self.program[axis]

    def num_programs(self, axis: int) -> int:
        return self.machine.grid[axis]

    def emit(self, op: Op, text: str) -> None:
        self.machine.recording.output.append(text)

    def run(self, block: Block, arguments: Sequence[Array]) -> tuple[Array, ...]:
        values = self.values
        shared = self.machine.shared_values
        watcher = self.machine.watcher
        for name, array in zip(block.arguments, arguments, strict=True):
            values[name] = array
        for op in block.ops:
            if isinstance(op, Constant | Iota):
                result = op.results[0]
                known = shared.get(result)
                if known is None:
                    known = shared[result] = np.asarray(op.interpret(_as_frame(self)))
                values[result] = known
                continue
            if watcher is not None:
                watcher.before(op, self)
            results = op.interpret(_as_frame(self))
            if isinstance(results, tuple):
                for result, array in zip(op.results, results, strict=True):
                    values[result] = array
            elif op.results:
                values[op.results[0]] = np.asarray(results)
        return tuple(values[value] for value in block.ops[-1].operands)

    # -- memory ---------------------------------------------------------------------------
    def read(self, op: Op, addresses: Array, live: Array, element: Element) -> Array:
        flat, on, where = self._check(op, addresses, live, element)
        if self.machine.recorder is not None:
            self.machine.recorder.note(op, self.number, flat, on, element, write=False)
        if self.machine.watcher is not None:
            self.machine.watcher.access(op, self.number, flat[on], where[on], write=False)
        values = self.machine.global_memory.read(flat, where, element)
        return values.reshape(np.shape(addresses))

    def write(self, op: Op, addresses: Array, live: Array, values: Array, element: Element) -> None:
        flat, on, where = self._check(op, addresses, live, element)
        if self.machine.recorder is not None:
            self.machine.recorder.note(op, self.number, flat, on, element, write=True)
        if self.machine.watcher is not None:
            self.machine.watcher.access(op, self.number, flat[on], where[on], write=True)
        spread = np.broadcast_to(values, np.shape(addresses)).ravel()
        self.machine.global_memory.write(flat, where, spread, element)

    def _check(
        self, op: Op, addresses: Array, live: Array, element: Element
    ) -> tuple[Array, Array, Array]:
        flat = np.asarray(addresses, np.int64).ravel()
        on = np.broadcast_to(live, np.shape(addresses)).ravel()
        memory = self.machine.global_memory
        where = memory.locate(flat, element.itemsize)
        lost = on & (where < 0)
        if lost.any() and self.machine.is_made_of_data(op.operands[0]):
            memory.adopt(flat[lost], element.itemsize)
            where = memory.locate(flat, element.itemsize)
            lost = on & (where < 0)
        if lost.any():
            lane = int(np.argmax(lost))
            self.machine.out_of_bounds(op, self.program, lane, int(flat[lane]), element.itemsize)
        return flat, on, np.where(on, where, -1)


def _as_frame(frame: _ProgramFrame) -> Any:
    return frame


class _Recorder:
    """Writes accesses down and finds elements that two programs write."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.races = Races(machine)

    def note(
        self, op: Op, program: int, flat: Array, on: Array, element: Element, *, write: bool
    ) -> None:
        recording = self.machine.recording
        memory = self.machine.global_memory
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
        recording.races += self.races.entered(op, program, flat[on], where[on], write=write)
