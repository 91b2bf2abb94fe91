"""Code for full blocks beside code for the block at the edge, where that makes accesses wider.

A mask `offsets < n` is constant over runs as long as n is known to be divisible. Where nothing is
known of n, every element would be accessed for itself. But all blocks except the last are full:
a comparison of numbers tells at run time that the last element of a tile is inside, and then all
of it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from workbench.analysis.affine import tile_forms
from workbench.analysis.forms import all_atoms
from workbench.ir import Block, Module, Op, Value, copy_op, shape_of, walk
from workbench.ir.rebuild import Rebuilder
from workbench.ops import Constant, Elementwise, If, Yield, pointee_of
from workbench.passes.manager import Remarks
from workbench.targets.simt.corners import Elements, comparisons, corner, is_known
from workbench.targets.simt.rules import Device

#: More ops than this are not written twice.
_MOST_OPS = 160


@dataclass(frozen=True, slots=True)
class _Region:
    """Neighbouring ops of a block, from `first` up to `last`, and the masks to get rid of."""

    first: int
    last: int
    masks: tuple[Value, ...]
    accesses: tuple[Op, ...]


def split_full_blocks(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Write ops twice, without masks for programs in which they are all on, and as they are.

    Before:
        %m = tile.lt [%offsets, %ns] : tile<256xi1>
        %v = tile.load %q mask %m : tile<256xf32>
        tile.store %r, %v mask %m
    After:
        %m = tile.lt [%offsets, %ns] : tile<256xi1>
        %last = tile.add [%first, %255] : i32
        %full = tile.lt [%last, %n] : i1
        tile.if %full {
          %w = tile.load %q : tile<256xf32>
          tile.store %r, %w
          tile.yield []
        } {
          %v = tile.load %q mask %m : tile<256xf32>
          tile.store %r, %v mask %m
          tile.yield []
        }

    Only where accesses get wider by it, outside of what feeds a product, once for neighbouring
    ops. Needs: num_warps. Keeps: every value.
    """
    accesses = filter(None, map(chip.rules.access_of, module.walk()))
    if all(access.mask is None for access in accesses):
        return module
    return _Splitter(module, remarks, chip).run()


class _Splitter(Rebuilder):
    def __init__(self, module: Module, remarks: Remarks, chip: Device) -> None:
        super().__init__(module, lambda op, builder: None)
        self.module = module
        self.remarks = remarks
        self.chip = chip
        self.rules = chip.rules
        self.facts = tile_forms(module)
        self.threads = chip.lanes * module.attributes["num_warps"]
        #: The ops of the region that is written twice now.
        self._written: set[int] = set()

    def run(self) -> Module:
        """Return the module with all regions of the body and of loops split."""
        body = self.block(self.module.body)
        if body is self.module.body:
            return self.module
        return replace(self.module, body=body, next_id=self.builder.next_id)

    def block(self, block: Block) -> Block:
        """Return the block with its regions split, and those of blocks inside of it."""
        regions = {region.first: region for region in self._regions(block)}
        if not regions or self._written:
            return super().block(block)
        with self.builder.block() as ops:
            place = 0
            while place < len(block.ops):
                region = regions.get(place)
                if region is None:
                    self.op(block.ops[place])
                    place += 1
                else:
                    self._split(block, region)
                    place = region.last + 1
        return Block(block.arguments, tuple(ops))

    # -- what is worth it -----------------------------------------------------------------
    def _regions(self, block: Block) -> Iterator[_Region]:
        """Yield regions, apart from each other, in which accesses get wider without masks.

        What is loaded beside a product, for it, is copied ahead in one piece or not at all.
        """
        if any(map(self.rules.staged_of, block.ops)):
            return
        segment: list[int] = []
        for place, op in enumerate(block.ops):
            if op.ends_block or any(map(self.rules.staged_of, (op, *_inside(op)))):
                yield from self._region(block, segment, to_the_end=op.ends_block)
                segment = []
            else:
                segment.append(place)

    def _region(self, block: Block, places: list[int], *, to_the_end: bool) -> Iterator[_Region]:
        found: list[tuple[int, Value]] = []
        for place in places:
            op = block.ops[place]
            access = self.rules.access_of(op)
            if access is None or access.mask is None:
                continue
            if any(effect.order != "plain" for effect in op.effects()):
                continue
            if self._gains(access.pointers, access.mask):
                first = found[0][0] if found else place
                inside = {id(inner) for inner in block.ops[first:place]}
                if self._is_plain(access.mask, inside):
                    found.append((place, access.mask))
        if not found:
            return
        first = found[0][0]
        last = places[-1] if to_the_end else found[-1][0]
        size = sum(1 + sum(1 for _ in _inside(op)) for op in block.ops[first : last + 1])
        if size <= _MOST_OPS:
            masks = dict.fromkeys(mask for _, mask in found)
            yield _Region(first, last, tuple(masks), tuple(block.ops[p] for p, _ in found))

    def _gains(self, pointers: Value, mask: Value) -> bool:
        """Say whether only the mask keeps an access from being wider."""
        shape = shape_of(pointers.type)
        if shape != shape_of(mask.type) or not shape:
            return False
        each = prod(1 << (extent - 1).bit_length() for extent in shape) // self.threads
        most = min(max(1, each), self.chip.widest_bytes // pointee_of(pointers.type).itemsize)
        now = full = 1
        for axis, extent in enumerate(shape):
            width = min(most, extent & -extent, self.facts.vector(pointers, axis, mask))
            full = max(full, width)
            now = max(now, min(width, self.facts.mask_run(mask, axis, extent)))
        return full > now

    def _is_plain(self, mask: Value, inside: set[int]) -> bool:
        """Say whether a number before the region tells that a mask is on everywhere, or not.

        `inside`: the ops of the region that come before the access.
        """
        for comparison in comparisons(mask):
            if shape_of(comparison.type) and corner(comparison, self.facts) is None:
                return False
            if not is_known(comparison, inside):
                return False
        return any(map(self._varies, comparisons(mask)))

    def _varies(self, comparison: Value) -> bool:
        """Say whether a comparison is another one in another program or round.

        Where it is not, its block is the only one, and hardly ever full: with as many elements as
        the block has, their number would be known to be divisible.
        """
        atoms = (atom for h in self.facts.conjuncts(comparison) for atom in all_atoms(h))
        return any(atom.kind in ("pid", "trip", "moved", "value") for atom in atoms)

    # -- writing it twice -----------------------------------------------------------------
    def _split(self, block: Block, region: _Region) -> None:
        builder = self.builder
        old = block.ops[region.first : region.last + 1]
        before = builder.span, builder.origins
        builder.span, builder.origins = region.accesses[0].span, (region.accesses[0].id,)
        self._written = set(map(id, old))
        elements = Elements(builder, self.values, self._written)
        full: Value | None = None
        for comparison in dict.fromkeys(c for m in region.masks for c in comparisons(m)):
            place = corner(comparison, self.facts) if shape_of(comparison.type) else ()
            assert place is not None
            on = elements.at(comparison, place)
            full = on if full is None else builder.add(Elementwise("and", (full, on)))
        assert full is not None
        ops: list[Op] = []
        for op in old:
            ops.append(self.with_new_operands(op))
            self.values.update(zip(op.results, ops[-1].results, strict=True))
        self._written = set()
        after = (i for op in block.ops[region.last + 1 :] for i in (op, *_inside(op)))
        used = {v for op in after for v in op.operands}
        outer = [r for op in old for r in op.results if r in used]
        given = [self.values[r] for r in outer]
        with builder.block() as then:
            copies = self._without_masks(ops, region)
            builder.insert(Yield(tuple(copies.get(v, v) for v in given)))
        with builder.block() as otherwise:
            for op in ops:
                builder.insert(op)
            builder.insert(Yield(tuple(given)))
        made = builder.insert(If(full, Block((), tuple(then)), Block((), tuple(otherwise))))
        self.values.update(zip(outer, made.results, strict=True))
        builder.span, builder.origins = before
        self.remarks.note(
            region.accesses[0],
            f"full blocks access memory {len(region.accesses)} times without a mask, in wide "
            "pieces; the block at the edge does it element by element",
            "applied",
        )

    def _without_masks(self, ops: list[Op], region: _Region) -> dict[Value, Value]:
        """Insert copies of the region's ops in which the masks are on; return what became what."""
        builder = self.builder
        masks = {self.values.get(m, m): None for m in region.masks}
        copies: dict[Value, Value] = {
            m: builder.add(Constant(value=True, type=m.type)) for m in masks
        }
        for op in ops:
            if any(result in masks for result in op.results):
                continue
            now = op.where_on(masks)
            if isinstance(now, Value):
                copies[op.result] = copies.get(now, now)
                continue
            copy = builder.insert(copy_op(now, copies, builder))
            copies.update(zip(op.results, copy.results, strict=True))
        return copies


def _inside(op: Op) -> Iterator[Op]:
    """Yield all ops in an op's regions."""
    for region in op.regions:
        yield from walk(region)
