"""Programs that blocks draw: which one a block takes next is decided when it asks.

A launch counts what has been drawn. Blocks begin with the programs of their own numbers, and draw
the rest: who was given long ones draws seldom. One thread draws, and hands the number over in a
ring of slots to all that take the program, by barriers as those of copies.
"""

from __future__ import annotations

import numpy as np

from workbench.ir import I32, Array, Effect, Effects, Frame, Op, Type, Value
from workbench.ir.effects import Order
from workbench.targets.simt.ops.shared import slot_of, verify_slot


class Draw(Op, mnemonic="gpu.draw", exact=True):
    """Draw the number of a program that no block has taken, and store it in a slot of a buffer.

    One thread does. A number that is not below the count of all programs says that none is left; a
    block that gets one draws no more.

        gpu.draw %0, %1
    """

    buffer: Value
    slot: Value

    def verify(self) -> None:
        verify_slot(self, self.buffer, (1,), I32, self.slot)

    def own_effects(self) -> Effects:
        return (_handed(self.buffer, "release"),)

    def interpret(self, frame: Frame) -> None:
        slot_of(frame, self.buffer, self.slot)[...] = frame.draw()


class Drawn(Op, mnemonic="gpu.drawn", exact=True):
    """Return the number that has been drawn for a slot of a buffer.

    %2 = gpu.drawn %0, %1 : i32
    """

    buffer: Value
    slot: Value

    def infer(self) -> Type:
        return I32

    def verify(self) -> None:
        verify_slot(self, self.buffer, (1,), I32, self.slot)

    def own_effects(self) -> Effects:
        return (_handed(self.buffer, "acquire"),)

    def interpret(self, frame: Frame) -> Array:
        return np.asarray(slot_of(frame, self.buffer, self.slot)[0])


def _handed(buffer: Value, order: Order) -> Effect:
    """Barriers order what draws and what reads it."""
    return Effect("shared", reads=True, writes=True, through=buffer, order=order, scope="cta")
