"""Masks of scores are applied in the rounds that need them.

A loop over blocks of keys masks each block, though only those at an edge (the diagonal, the last
one, both ends of a window) have something to mask. Numbers tell, as for full blocks: where all
comparisons of a mask hold at the element that holds last, a tile is taken as it is, and what makes
the mask is not computed.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import cached_property

from workbench.analysis.affine import Affine, tile_forms
from workbench.ir import I1, Block, Module, Op, Value, copy_op, element_of, layout_of, shape_of
from workbench.ir.rebuild import Rebuilder
from workbench.ops import Elementwise, If, Yield
from workbench.passes.manager import Remarks
from workbench.targets.simt.corners import Elements, comparisons, corner, is_known

#: Instructions of a thread below which a branch costs what it saves: nothing is moved across it,
#: and what a loop carries is copied where its two ends meet.
_FEWEST_INSTRUCTIONS = 16


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
    loops = (op for op in module.walk() if op.repeats and not op.per_program)
    blocks = [block for op in loops for block in op.regions]
    if not any(_choices(op) for block in blocks for op in block.ops):
        return module
    return _Skipper(module, remarks).run(blocks)


def _choices(op: Op) -> list[tuple[Value, Value]]:
    """Return (mask, tile) of an op that comes down to a tile where a mask holds everywhere.

    What two masks make is one more of them: who asks that of it has to see what it is made of.
    """
    if any(element_of(result.type) == I1 for result in op.results if shape_of(result.type)):
        return []
    masks = [v for v in op.operands if shape_of(v.type) and element_of(v.type) == I1]
    found = [(mask, op.where_on((mask,))) for mask in masks if op.pointwise]
    return [(mask, taken) for mask, taken in found if isinstance(taken, Value)]


class _Skipper(Rebuilder):
    def __init__(self, module: Module, remarks: Remarks) -> None:
        super().__init__(module, lambda op, builder: None)
        self.module = module
        self.remarks = remarks
        #: Ops to be put under a branch: mask, tile where it holds, what makes it in its block.
        self.found: dict[int, tuple[Value, Value, tuple[Op, ...]]] = {}

    @cached_property
    def facts(self) -> Affine:
        """What is known of the module's tiles; of most kernels nobody asks."""
        return tile_forms(self.module)

    @cached_property
    def users(self) -> defaultdict[Value, list[Op]]:
        """The ops that have a value as operand, once for each time they have it."""
        found: defaultdict[Value, list[Op]] = defaultdict(list)
        for op in self.module.walk():
            for value in op.operands:
                found[value].append(op)
        return found

    def run(self, blocks: list[Block]) -> Module:
        """Return the module with a branch for each mask that rounds may skip."""
        for block in blocks:
            self._find(block)
        if not self.found:
            return self.module
        body = self.block(self.module.body)
        return replace(self.module, body=body, next_id=self.builder.next_id)

    def _find(self, block: Block) -> None:
        made = {value: op for op in block.ops for value in op.results}
        for op in block.ops:
            for mask, taken in _choices(op):
                slice_ = _slice(mask, made)
                if not slice_ or not self._pays(op, taken, slice_, block):
                    continue
                if all(map(self._is_told, comparisons(mask))):
                    keep = {id(one) for one in slice_}
                    making = tuple(one for one in block.ops if id(one) in keep)
                    self.found[id(op)] = mask, taken, making

    def _pays(self, op: Op, taken: Value, making: list[Op], block: Block) -> bool:
        """Say whether a tile that is computed is chosen element by element, and enough is saved.

        That is what chooses, and of what makes the mask what nobody else asks for.
        """
        if taken.op is not None and not any(shape_of(v.type) for v in taken.op.operands):
            return False
        saved = 0 if self._is_predicated(op, taken, block) else _registers(op)
        here, makes = {id(op)}, set(map(id, making))
        for one in reversed([one for one in block.ops if id(one) in makes]):
            if all(id(user) in here for user in self.users[one.results[0]]):
                here.add(id(one))
                saved += 0 if one.moves else _registers(one)
        return saved >= _FEWEST_INSTRUCTIONS

    def _is_predicated(self, op: Op, taken: Value, block: Block) -> bool:
        """Say whether what a loop carries is computed anew where a mask allows, kept elsewhere.

        An instruction with a predicate does both: to choose costs nothing.
        """
        kept = [v for v in op.operands if v in block.arguments]
        ends = block.ops[-1].operands
        return bool(kept) and op.results[0] in ends and self.users[taken] == [op]

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
        mask, taken, making = self.found[id(op)]
        builder, values = self.builder, self.values
        before = builder.span, builder.origins
        builder.span, builder.origins = op.span, (op.id,)
        elements = Elements(builder, values)
        full: Value | None = None
        for comparison in dict.fromkeys(comparisons(mask)):
            place = corner(comparison, self.facts) if shape_of(comparison.type) else ()
            assert place is not None
            on = elements.at(comparison, place)
            full = on if full is None else builder.add(Elementwise("and", (full, on)))
        assert full is not None
        with builder.block() as then:
            builder.insert(Yield((values.get(taken, taken),)))
        inside = dict(values)
        with builder.block() as otherwise:
            for one in (*making, op):
                builder.insert(copy_op(one, inside, builder))
            builder.insert(Yield((inside[op.results[0]],)))
        made = builder.insert(If(full, Block((), tuple(then)), Block((), tuple(otherwise))))
        made.results[0].hint = op.results[0].hint
        values[op.results[0]] = made.results[0]
        builder.span, builder.origins = before
        self.remarks.note(made, "rounds in which nothing is masked skip the mask", "applied")


def _registers(op: Op) -> int:
    """Return how many elements of its result a thread computes."""
    layout = layout_of(op.results[0].type)
    return layout.registers() if layout is not None else 0


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
