"""Which program instance this is, and what the author promises about values."""

from __future__ import annotations

import numpy as np

from workbench.ir import INDEX, Array, Frame, Op, Scalar, Type, Value, attribute
from workbench.ops.numbers import value_dtype


class ProgramId(Op, mnemonic="tile.program_id"):
    """The index of this program instance along a grid axis.

    %0 = tile.program_id {axis = 0} : index
    """

    axis: int
    type: Scalar = attribute(default=INDEX)

    def infer(self) -> Type:
        return self.type

    def interpret(self, frame: Frame) -> Array:
        return np.asarray(frame.program_id(self.axis), value_dtype(self.type))


class NumPrograms(Op, mnemonic="tile.num_programs"):
    """How many program instances there are along a grid axis.

    %0 = tile.num_programs {axis = 0} : index
    """

    axis: int
    type: Scalar = attribute(default=INDEX)

    def infer(self) -> Type:
        return self.type

    def interpret(self, frame: Frame) -> Array:
        return np.asarray(frame.num_programs(self.axis), value_dtype(self.type))


class Promise(Op, mnemonic="tile.promise"):
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


class Assume(Op, mnemonic="tile.assume", pure=False):
    """The author's promise that a condition holds.

    tile.assume %0
    """

    condition: Value

    def interpret(self, frame: Frame) -> None:
        if not np.all(frame[self.condition]):
            frame.emit(self, "the assumption does not hold")


class Barrier(Op, mnemonic="tile.barrier", pure=False):
    """All threads of the program instance wait for each other; orders their memory accesses.

    tile.barrier
    """

    def interpret(self, frame: Frame) -> None:
        return None
