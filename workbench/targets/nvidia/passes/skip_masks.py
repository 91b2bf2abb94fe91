"""Masks of scores are applied in the rounds that need them.

A loop over blocks of keys masks each block, though only those at an edge (the diagonal, the last
one, both ends of a window) have something to mask. Numbers tell, as for full blocks: where all
comparisons of a mask hold at the element that holds last, a tile is taken as it is, and what makes
the mask is not computed.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.analysis.affine import Affine, tile_forms
from workbench.ir import Block, Module, Op, Value, copy_op, layout_of, shape_of
from workbench.ir.rebuild import Rebuilder
from workbench.ops import Constant, Elementwise, For, If, Select, Splat, While, Yield
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.passes.corners import Elements, comparisons, corner, is_known

#: Elements of a thread below which a branch costs what it saves.
_FEWEST_ELEMENTS = 8


def skip_masks(module: Module, remarks: Remarks) -> Module:
    """Choose in loops between a tile and another one under a branch, by numbers, where that skips.

    Before:
        %m = tile.lt [%offsets, %ns] : tile<64x64xi1>
        %s = tile.select %m, %scores, %nothing : tile<64x64xf32>
    After:
        %last = tile.add [%first, %63] : i32
        %full = tile.lt [%last, %n] : i1
        %s = tile.if %full {
          tile.yield [%scores]
        } {
          %m = tile.lt [%offsets, %ns] : tile<64x64xi1>
          %t = tile.select %m, %scores, %nothing : tile<64x64xf32>
          tile.yield [%t]
        } : tile<64x64xf32>

    Needs: layouts. Keeps: every value.
    """
    if not module.attributes.get("skip_masks", True):
        return module
    loops = [op for op in module.walk() if isinstance(op, For | While)]
    if not any(isinstance(op, Select) for loop in loops for op in loop.body.ops):
        return module
    return _Skipper(module, remarks).run(loops)


class _Skipper(Rebuilder):
    def __init__(self, module: Module, remarks: Remarks) -> None:
        super().__init__(module, lambda op, builder: None)
        self.module = module
        self.remarks = remarks
        self.facts: Affine = tile_forms(module)
        #: Selects to be put under a branch, with what makes their masks in their block.
        self.found: dict[int, tuple[Op, ...]] = {}

    def run(self, loops: list[For | While]) -> Module:
        """Return the module with a branch for each mask that rounds may skip."""
        for loop in loops:
            for block in loop.regions:
                self._find(block)
        if not self.found:
            return self.module
        body = self.block(self.module.body)
        return replace(self.module, body=body, next_id=self.builder.next_id)

    def _find(self, block: Block) -> None:
        made = {value: op for op in block.ops for value in op.results}
        for op in block.ops:
            if isinstance(op, Select) and self._pays(op):
                slice_ = _slice(op.condition, made)
                if slice_ and all(map(self._is_told, comparisons(op.condition))):
                    keep = {id(one) for one in slice_}
                    self.found[id(op)] = tuple(one for one in block.ops if id(one) in keep)

    @staticmethod
    def _pays(op: Select) -> bool:
        """Say whether a tile that is computed is chosen element by element, and has enough."""
        layout = layout_of(op.result.type)
        return (
            bool(shape_of(op.condition.type))
            and layout is not None
            and layout.registers() >= _FEWEST_ELEMENTS
            and not isinstance(op.then.op, Constant | Splat)
        )

    def _is_told(self, comparison: Value) -> bool:
        """Say whether numbers tell that a comparison holds everywhere."""
        if shape_of(comparison.type) and corner(comparison, self.facts) is None:
            return False
        return is_known(comparison, ())

    def op(self, op: Op) -> None:
        """Write an op, or a branch with it."""
        if id(op) not in self.found:
            super().op(op)
            return
        assert isinstance(op, Select)
        builder, values = self.builder, self.values
        before = builder.span, builder.origins
        builder.span, builder.origins = op.span, (op.id,)
        elements = Elements(builder, values)
        full: Value | None = None
        for comparison in dict.fromkeys(comparisons(op.condition)):
            place = corner(comparison, self.facts) if shape_of(comparison.type) else ()
            assert place is not None
            on = elements.at(comparison, place)
            full = on if full is None else builder.add(Elementwise("and", (full, on)))
        assert full is not None
        with builder.block() as then:
            builder.insert(Yield((values.get(op.then, op.then),)))
        inside = dict(values)
        with builder.block() as otherwise:
            for one in (*self.found[id(op)], op):
                builder.insert(copy_op(one, inside, builder))
            builder.insert(Yield((inside[op.result],)))
        made = builder.insert(If(full, Block((), tuple(then)), Block((), tuple(otherwise))))
        made.results[0].hint = op.result.hint
        values[op.result] = made.results[0]
        builder.span, builder.origins = before
        self.remarks.note(made, "rounds in which nothing is masked skip the mask", "applied")


def _slice(mask: Value, made: dict[Value, Op]) -> list[Op]:
    """Return what makes a mask in its block: tiles, of which each element is computed for itself.

    The rest stays where it is.
    """
    found: dict[int, Op] = {}
    work = [mask]
    while work:
        op = made.get(work.pop())
        if op is not None and id(op) not in found and _goes_along(op):
            found[id(op)] = op
            work += op.operands
    return list(found.values())


def _goes_along(op: Op) -> bool:
    place = tuple(0 for _ in shape_of(op.results[0].type)) if len(op.results) == 1 else ()
    return bool(place) and op.pure and not op.regions and op.element_from(place) is not None
