"""Output and checks for debugging."""

from __future__ import annotations

import numpy as np

from workbench.ir import Frame, Op, Value, attribute


class DevicePrint(Op, mnemonic="tile.print", pure=False):
    """Print values, one line per element, with program and index.

    tile.print [%0] {prefix = "x: "}
    """

    values: tuple[Value, ...]
    prefix: str = attribute(default="")
    hexadecimal: bool = attribute(default=False)

    def interpret(self, frame: Frame) -> None:
        program = tuple(frame.program_id(axis) for axis in range(3))
        if not self.values:
            frame.emit(self, f"pid {program} {self.prefix}")
        for value in self.values:
            array = np.asarray(frame[value])
            for place, item in np.ndenumerate(array):
                shown = hex(int(item)) if self.hexadecimal and array.dtype.kind in "iu" else item
                frame.emit(self, f"pid {program} idx {place} {self.prefix}{shown}")


class DeviceAssert(Op, mnemonic="tile.assert", pure=False):
    """Stop with a message where a condition does not hold and the mask is on.

    tile.assert %0 {message = "n is positive"}
    """

    condition: Value
    mask: Value | None = None
    message: str = attribute(default="")

    def interpret(self, frame: Frame) -> None:
        holds = np.asarray(frame[self.condition]) | ~np.asarray(frame.get(self.mask, True))
        if not np.all(holds):
            frame.emit(self, f"assertion failed: {self.message}")
