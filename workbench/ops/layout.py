"""Ops that exist once values have layouts (GPU IR)."""

from __future__ import annotations

from workbench.ir import NONE, Array, Frame, Op, Tile, Type, Value
from workbench.layouts import LinearLayout


class ConvertLayout(Op, mnemonic="gpu.convert_layout", effects=NONE, moves=True, converts=True):
    """The same elements, held by other registers, lanes and warps.

    %1 = gpu.convert_layout %0 {layout = linear<2, lane=[(1)]>} : tile<2xf32, linear<2, lane=[(1)]>>
    """

    source: Value
    layout: LinearLayout

    def infer(self) -> Type:
        assert isinstance(self.source.type, Tile)
        return self.source.type.with_layout(self.layout)

    def interpret(self, frame: Frame) -> Array:
        return frame[self.source]
