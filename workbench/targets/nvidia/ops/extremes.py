"""Extremes of rows that a loop carries on, and that mostly stay what they are."""

from __future__ import annotations

import numpy as np

from workbench.ir import NONE, Array, Block, Frame, Op, Type, Value, attribute, element_of, shape_of
from workbench.source import ShapeError


class Kept(Op, mnemonic="gpu.kept", effects=NONE):
    """What becomes of a carried number for each row, which its elements may raise (or lower).

    `combine` gives one of the elements that it combines, the extreme of a row along `axis`; `after`
    makes of it, and of the row's elements of `others`, what `carried` becomes. A thread first asks
    that of the elements that it has itself: where that lies within `slack` of `carried`, counted in
    units of 1 / `unit`, in all threads of a warp, `carried` stays, and no number goes from lane to
    lane. So it may: what comes of the extremes would be as right.

    %1 = gpu.kept %0, %x, [%0] {axis = 1} {
    ^(%a: f32, %b: f32):
      %c = tile.max [%a, %b] : f32
      tile.yield [%c]
    } {
    ^(%d: f32, %e: f32):
      %f = tile.max [%e, %d] : f32
      tile.yield [%f]
    } : tile<64xf32>
    """

    carried: Value
    source: Value
    others: tuple[Value, ...] = ()
    unit: Value | None = None
    axis: int = attribute()
    slack: float = attribute(default=0.0)
    combine: Block = attribute()
    after: Block = attribute()

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The tile that is combined, as a reduction has it."""
        return (self.source,)

    def infer(self) -> Type:
        return self.carried.type

    def verify(self) -> None:
        if self.unit is not None and self.unit.type != element_of(self.carried.type):
            text = f"{self.name} of {self.carried.type} in units of a {self.unit.type}"
            raise ShapeError(text, self.span)
        shape = list(shape_of(self.source.type))
        if not 0 <= self.axis < len(shape):
            raise ShapeError(f"{self.name} along axis {self.axis} of {shape}", self.span)
        del shape[self.axis]
        for value in (self.carried, *self.others):
            if shape_of(value.type) != tuple(shape):
                text = f"{self.name} of rows {tuple(shape)} beside {shape_of(value.type)}"
                raise ShapeError(text, self.span)

    def interpret(self, frame: Frame) -> Array:
        part = np.moveaxis(frame[self.source], self.axis, 0)
        while (n := part.shape[0]) > 1:
            even = n // 2 * 2
            (merged,) = frame.run(self.combine, [part[0:even:2], part[1:even:2]])
            part = np.concatenate([merged, part[even:]])
        (found,) = frame.run(self.after, [part[0], *(frame[v] for v in self.others)])
        return found
