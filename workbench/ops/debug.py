"""Output and checks for debugging."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from workbench.ir import SEEN_OUTSIDE, Broken, Frame, Op, Value, attribute
from workbench.ops.program import first_element


class DevicePrint(Op, mnemonic="tile.print", effects=SEEN_OUTSIDE, exact=True):
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


class DeviceAssert(Op, mnemonic="tile.assert", effects=SEEN_OUTSIDE, exact=True):
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

    def broken(self, frame: Frame) -> Iterator[Broken]:
        condition, mask = np.asarray(frame[self.condition]), np.asarray(frame.get(self.mask, True))
        failed = (condition == 0) & mask
        if failed.any():
            words = f": {self.message}" if self.message else ""
            count = f"{int(failed.sum())} of {failed.size} elements fail"
            notes = (count,) if failed.ndim else ()
            yield Broken("assertion", f"{first_element(failed)}{words}", notes)
