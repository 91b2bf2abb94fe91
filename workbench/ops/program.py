"""Which program instance this is, and what the author promises about values."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any, Self

import numpy as np

from workbench.ir import (
    BLOCK_FENCE,
    INDEX,
    NONE,
    SEEN_OUTSIDE,
    Array,
    Broken,
    Effect,
    Frame,
    Op,
    Pointer,
    Scalar,
    Type,
    Value,
    attribute,
    element_of,
    shape_of,
)
from workbench.ops.numbers import value_dtype

#: Where memory of the host begins at the least, in bytes.
HOST_ALIGNMENT = 16


class ProgramId(Op, mnemonic="tile.program_id", effects=NONE, exact=True, of_program=True):
    """The index of this program instance along a grid axis.

    With `peer` that of the program whose number differs from this one's in those bits; this one's
    where the launch has none of that number. Programs are numbered along the grid, axis 0 first.

        %0 = tile.program_id {axis = 0} : index
    """

    axis: int
    type: Scalar = attribute(default=INDEX)
    peer: int = attribute(default=0)

    def infer(self) -> Type:
        return self.type

    def at_peer(self, peer: int) -> Self:
        return self.changed(peer=self.peer ^ peer)

    def interpret(self, frame: Frame) -> Array:
        if not self.peer:
            return np.asarray(frame.program_id(self.axis), value_dtype(self.type))
        number, grid = number_of(frame), [frame.num_programs(axis) for axis in range(3)]
        if (number ^ self.peer) < prod(grid):
            number ^= self.peer
        place = number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1])
        return np.asarray(place[self.axis], value_dtype(self.type))


def number_of(frame: Frame) -> int:
    """Return the number of a program, which counts along the grid, axis 0 first."""
    (x, y, z), (wide, high) = map(frame.program_id, range(3)), map(frame.num_programs, range(2))
    return x + wide * (y + high * z)


class NumPrograms(Op, mnemonic="tile.num_programs", effects=NONE, exact=True):
    """How many program instances there are along a grid axis.

    %0 = tile.num_programs {axis = 0} : index
    """

    axis: int
    type: Scalar = attribute(default=INDEX)

    def infer(self) -> Type:
        return self.type

    def interpret(self, frame: Frame) -> Array:
        return np.asarray(frame.num_programs(self.axis), value_dtype(self.type))


class Promise(Op, mnemonic="tile.promise", effects=NONE, moves=True):
    """The value itself, about which the author promises something along each axis.

    `divisible`: the first of each aligned run of contiguous elements is a multiple;
    `contiguous`: elements come in aligned runs of consecutive numbers of this length;
    `constant`: elements come in aligned runs of equal numbers of this length.

        %1 = tile.promise %0 {divisible = (16,)} : tile<4xindex>
    """

    source: Value
    divisible: tuple[int, ...] = attribute(default=())
    contiguous: tuple[int, ...] = attribute(default=())
    constant: tuple[int, ...] = attribute(default=())

    def infer(self) -> Type:
        return self.source.type

    def interpret(self, frame: Frame) -> Array:
        return frame[self.source]

    def broken(self, frame: Frame) -> Iterator[Broken]:
        shape = shape_of(self.source.type) or (1,)
        held = np.reshape(frame[self.source], shape)
        element = element_of(self.source.type)
        # Pointers are consecutive where elements are; multiples are of bytes.
        one = element.pointee.itemsize if isinstance(element, Pointer) else 1
        for axis in range(len(shape)):
            line = np.moveaxis(held, axis, 0)
            for steps, words in ((self.contiguous, "consecutive"), (self.constant, "equal")):
                length = steps[axis] if steps else 1
                inside = np.arange(1, line.shape[0]) % max(1, length) != 0
                wrong = np.diff(line, axis=0) != (one if words == "consecutive" else 0)
                if (bad := wrong[inside]).any():
                    row = np.arange(1, line.shape[0])[inside][np.argwhere(bad)[0][0]]
                    text = f"element {row} is {_one(line[row])} after {_one(line[row - 1])}"
                    said = f"runs of {length} {words} numbers are promised along axis {axis}"
                    yield Broken("promise", f"{said}, but {text}")
            multiple = self.divisible[axis] if self.divisible else 1
            # What is promised is the first number of each run of consecutive ones:
            # multiple_of(start + arange(0, 16), 16) says that the runs begin at multiples of 16.
            first = np.ones(line.shape, bool)
            first[1:] = np.diff(line, axis=0) != one
            if not (first & (line % max(1, multiple) != 0)).any():
                continue
            # Arrays of the host begin at multiples of 16 to 64 bytes, those of a device at ones of
            # 512: what is promised of pointers is a matter of how far into their memory they are.
            begin = frame.storage(line) if isinstance(element, Pointer) else 0
            line = line - begin * (begin % HOST_ALIGNMENT == 0)
            if (bad := first & (line % max(1, multiple) != 0)).any():
                found = line[tuple(np.argwhere(bad)[0])]
                said = f"multiples of {multiple} are promised along axis {axis}"
                where = "byte " if isinstance(element, Pointer) else ""
                yield Broken("promise", f"{said}, but there is {where}{found}")


class Assume(Op, mnemonic="tile.assume", effects=SEEN_OUTSIDE, exact=True):
    """The author's promise that a condition holds.

    tile.assume %0
    """

    condition: Value

    def interpret(self, frame: Frame) -> None:
        if not np.all(frame[self.condition]):
            frame.emit(self, "the assumption does not hold")

    def broken(self, frame: Frame) -> Iterator[Broken]:
        wrong = ~np.asarray(frame[self.condition], bool)
        if wrong.any():
            yield Broken("assumption", f"the assumption is false{first_element(wrong)}")


class Barrier(Op, mnemonic="tile.barrier", effects=BLOCK_FENCE, exact=True):
    """All threads of the program instance wait for each other; orders their memory accesses.

    tile.barrier
    """

    def interpret(self, frame: Frame) -> None:
        return None


class GridDependencyWait(
    Op,
    mnemonic="tile.grid_dependency_wait",
    effects=(Effect("global", order="acquire", scope="sys"),),
    exact=True,
):
    """Wait until the launches that this one depends on are done and what they stored is there.

    Every thread waits for itself (CUDA C++ Programming Guide, "Programmatic Dependent Launch").

    tile.grid_dependency_wait
    """

    def interpret(self, frame: Frame) -> None:
        return None


class LaunchDependents(Op, mnemonic="tile.launch_dependents", effects=SEEN_OUTSIDE, exact=True):
    """Let launches that depend on this one begin, once all threads were here or are done.

    It orders nothing: who depends on what this launch stores waits until it is done.

    tile.launch_dependents
    """

    def interpret(self, frame: Frame) -> None:
        return None


def first_element(wrong: Array) -> str:
    """Say which element is the first wrong one, nothing for a scalar."""
    if not wrong.ndim:
        return ""
    return f" at element {tuple(int(i) for i in np.argwhere(wrong)[0])}"


def _one(values: Array) -> Any:
    return np.ravel(values)[0]
