"""Operands of warps' products that all rounds of a loop read: from shared memory, in each round.

Each warp holds a whole operand of a product along whose columns warps lie: queries of 16 x 576 are
144 registers of every thread, beside which a multiprocessor has one block of eight warps. A round
reads them again with a few instructions, which other blocks hide, if there are others by that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workbench.analysis.transfer import MOVES
from workbench.ir import (
    Block,
    Builder,
    Module,
    Op,
    Scalar,
    Shared,
    Tile,
    Value,
    element_of,
    layout_of,
    rebuild,
    shape_of,
)
from workbench.layouts import swizzled
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.chip import MOST_REGISTERS, Chip, chip_of, residency
from workbench.targets.nvidia.passes.kept_operands import made_in
from workbench.targets.nvidia.passes.stage_products import place_to_store
from workbench.targets.nvidia.told_blocks import ENOUGH_WARPS
from workbench.targets.simt.ops import SharedAllocate, SharedLoad, SharedStore, all_warps, roles_of
from workbench.targets.simt.passes.shared_memory import bytes_needed
from workbench.targets.simt.pressure import is_written_where_used, peak_in
from workbench.targets.simt.rules import Device

#: Registers of a thread beside tiles of floats, about; those in which it has pieces of an operand.
_BESIDE_TILES = 32
_PIECES = 16


def reread_operands(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Read operands that stay in a loop out of shared memory, if more blocks are resident then.

    Before:
        %2 = tile.for %low, %high, %step, [%0] {
        ^(%i: i32, %sums: tile<16x64xf32, #L1>):
          %1 = tile.dot %q, %k, %sums : tile<16x64xf32, #L1>
          tile.yield [%1]
        } : tile<16x64xf32, #L1>
    After:
        %3 = gpu.shared_allocate {type = shared<16x512xf16, #L3>} : shared<16x512xf16, #L3>
        gpu.shared_store %q, %3
        %2 = tile.for %low, %high, %step, [%0] {
        ^(%i: i32, %sums: tile<16x64xf32, #L1>):
          %q.1 = gpu.shared_load %3 {type = tile<16x512xf16, #L2>} : tile<16x512xf16, #L2>
          %1 = tile.dot %q.1, %k, %sums : tile<16x64xf32, #L1>
          tile.yield [%1]
        } : tile<16x64xf32, #L1>

    Needs: layouts. Keeps: every value.
    """
    unit, rules = chip_of(chip), chip.rules
    asked = module.attributes
    waits = any(rules.later_of(op) is not None for op in module.walk())
    if waits or roles_of(module) is not None or not asked.get("reread_operands", True):
        return module
    readers = _readers(module, unit)
    large = sorted(readers, key=_words, reverse=True)
    if not large:
        return module
    warps = all_warps(module)
    most = min(unit.most_registers(warps), asked.get("maxnreg") or MOST_REGISTERS)
    pieces, size = set(_in_pieces(module, unit)), bytes_needed(module, unit)

    def resident(taken: Sequence[Value]) -> int:
        needed = _BESIDE_TILES + _PIECES + peak_in(module.body, pieces.union(taken))
        bytes_ = size + sum(_buffer(tile).bytes for tile in taken)
        return residency(unit, warps, min(needed, most), bytes_).warps

    before = resident(())
    ways = [large[:count] for count in range(1, len(large) + 1)]
    best = max(ways, key=lambda taken: (min(resident(taken), ENOUGH_WARPS), -len(taken)))
    if before >= ENOUGH_WARPS or resident(best) <= before:
        return module
    for tile in best:
        text = (
            f"read from shared memory in each round: {_words(tile)} registers of a thread less "
            f"leave room for {resident(best)} warps on a multiprocessor, not {before} "
            "(reread_operands=False keeps them)"
        )
        remarks.note(readers[tile][0], text, "applied")
    return _Rereader(module, {tile: readers[tile] for tile in best}, unit).written()


def _words(tile: Value) -> int:
    layout = layout_of(tile.type)
    assert layout is not None
    return -(-layout.registers() * element_of(tile.type).itemsize // 4)


def _buffer(tile: Value) -> Shared:
    """Return a buffer of which warps read matrices."""
    layout, element = layout_of(tile.type), element_of(tile.type)
    assert layout is not None
    assert isinstance(element, Scalar)
    axes = range(layout.rank)
    order = tuple(sorted(axes, key=lambda axis: -layout.side_by_side("register", axis)))
    return Shared(layout.shape, element, swizzled(layout.shape, element.itemsize, order))


def _in_pieces(module: Module, unit: Chip) -> Iterator[Value]:
    """Yield the tiles of which a thread has a piece at a time, as products take them, or none."""
    for op in module.walk():
        if is_written_where_used(op):
            yield from op.results
        for value in unit.rules.staged_of(op):
            chain = [value]
            while chain[-1].op is not None and type(chain[-1].op) in MOVES:
                chain.append(chain[-1].op.operands[0])
            made = chain[-1].op
            if made is not None and made.buffer_moved() is not None:
                yield from chain


def _readers(module: Module, unit: Chip) -> dict[Value, list[Op]]:
    """Return the tiles that are more than pieces, and the products that read them in all rounds."""
    found: dict[Value, list[Op]] = {}
    for loop in module.walk():
        if not loop.repeats:
            continue
        made = made_in(loop)
        for op in (op for region in loop.regions for op in region.ops):
            for value in unit.rules.staged_of(op):
                stays = value not in made and value.op is not None
                if stays and _is_large(value) and value.type != op.result.type:
                    found.setdefault(value, []).append(op)
    return found


def _is_large(tile: Value) -> bool:
    """Say whether a tile is one of matrices of 16-bit elements, and more than pieces."""
    is_matrix = isinstance(tile.type, Tile) and len(shape_of(tile.type)) == 2
    return is_matrix and element_of(tile.type).itemsize == 2 and _words(tile) > 2 * _PIECES


class _Rereader:
    def __init__(self, module: Module, readers: dict[Value, list[Op]], unit: Chip) -> None:
        self.module = module
        self.reads = {op.id: tile for tile, ops in readers.items() for op in ops}
        self.original = {op.id: op for op in module.walk()}
        self.buffers: dict[Value, Value] = {}
        self.now: dict[Value, Value] = {}
        self.behind: dict[int, list[Value]] = {}
        loads_first = module.attributes.get("loads_first", True)
        for block in _blocks(module.body):
            for number, op in enumerate(block.ops):
                tiles = [value for value in op.results if value in readers]
                if tiles:
                    late = unit.rules.access_of(op) is not None and loads_first
                    place = place_to_store(block.ops, number) if late else number
                    self.behind.setdefault(block.ops[place].id, []).extend(tiles)

    def written(self) -> Module:
        return rebuild(self.module, self._rewrite)

    def _rewrite(self, op: Op, builder: Builder) -> tuple[Value, ...] | None:
        tile, behind = self.reads.get(op.id), self.behind.get(op.id, ())
        results = self.original[op.id].results
        kept = any(value in self.buffers or value in _all(self.behind) for value in results)
        if tile is None and not behind and not kept:
            return None
        if tile is not None:
            assert isinstance(tile.type, Tile)
            loaded = builder.add(SharedLoad(self.buffers[tile], type=tile.type), tile.hint)
            old = self.now.get(tile, tile)
            op = op.with_operands(tuple(loaded if v is old else v for v in op.operands))
        new = builder.insert(op)
        self.now.update(zip(results, new.results, strict=True))
        for one in behind:
            buffer = builder.add(SharedAllocate(type=_buffer(one)), one.hint)
            builder.insert(SharedStore(self.now.get(one, one), buffer))
            self.buffers[one] = buffer
        return new.results


def _all(behind: dict[int, list[Value]]) -> set[Value]:
    return {value for tiles in behind.values() for value in tiles}


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for op in block.ops:
        for region in op.regions:
            yield from _blocks(region)
