"""Stores operands of products to shared memory where nothing has brought them there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from workbench.ir import Block, Builder, Module, Op, Shared, Value, rebuild
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.ops import FenceProducts
from workbench.targets.simt.ops import SharedAllocate, SharedStore
from workbench.targets.simt.rules import Device, RuleTable, Setting


def stage_products(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Give every operand that an op reads out of a buffer, and that is a tile, a buffer.

    It is stored where it is computed, so once for a loop that does not change it. With
    `loads_first` what is loaded before such a loop is stored right in front of it: who stores it
    waits for it, and copies that fill rings start before that. Remarks say how products are
    carried out.

    Needs: layouts. Keeps: every value.
    """
    on = Setting(module, chip)
    for op in module.walk():
        if (told := chip.rules.told_of(op, on)) is not None:
            remarks.note(op, told.text, told.severity)
    stager = _Stager(module, chip.rules)
    return rebuild(module, stager.rewrite) if stager.wanted else module


class _Stager:
    def __init__(self, module: Module, rules: RuleTable) -> None:
        self.original = {op.id: op for op in module.walk()}
        self.missing = {name: rules.stored_of(op) for name, op in self.original.items()}
        #: The buffers that a tile is stored to.
        self.wanted: dict[Value, dict[Shared, None]] = {}
        for all_of_one in self.missing.values():
            for one in all_of_one:
                self.wanted.setdefault(one.tile, {})[one.buffer] = None
        self.stored: dict[tuple[Value, Shared], Value] = {}
        #: The tiles that are stored behind an op, by its id, and what they have become.
        self.behind: dict[int, list[Value]] = {}
        self.now: dict[Value, Value] = {}
        for block in _blocks(module.body):
            for number, op in enumerate(block.ops):
                tiles = [value for value in op.results if value in self.wanted]
                if tiles:
                    delayed = rules.access_of(op) and module.attributes.get("loads_first", True)
                    place = _place(block.ops, number) if delayed else number
                    self.behind.setdefault(block.ops[place].id, []).extend(tiles)

    def rewrite(self, op: Op, builder: Builder) -> tuple[Value, ...] | None:
        """Store what the op computes, and let it read what is stored."""
        old, buffers = self.original[op.id], dict[str, Value]()
        for one in self.missing[op.id]:
            buffer = self.stored.get((one.tile, one.buffer))
            if buffer is None:  # an argument of a block
                buffer = _store(getattr(op, one.field), one.buffer, builder)
            buffers[one.field] = buffer
        behind = self.behind.get(op.id, ())
        if not buffers and not behind and self.wanted.keys().isdisjoint(old.results):
            return None
        new = builder.insert(op.changed(**buffers) if buffers else op)
        self.now.update(zip(old.results, new.results, strict=True))
        for tile in behind:
            for type in self.wanted[tile]:
                self.stored[tile, type] = _store(self.now[tile], type, builder)
        return new.results


def _blocks(block: Block) -> Iterator[Block]:
    """Yield a block and all that are inside of it."""
    yield block
    for op in block.ops:
        for region in op.regions:
            yield from _blocks(region)


def _place(ops: Sequence[Op], number: int) -> int:
    """Return the op behind which a tile that is loaded is stored: the one in front of a loop.

    Not past an op that tells others that this thread has come so far, or reads the tile itself.
    """
    loaded = ops[number].results
    for place in range(number, len(ops) - 1):
        following = ops[place + 1]
        if following.regions:
            return place
        tells = any(effect.releases for effect in following.effects())
        if tells or any(v in loaded for v in following.operands):
            break
    return number


def _store(tile: Value, type: Shared, builder: Builder) -> Value:
    buffer = builder.add(SharedAllocate(type=type), tile.hint)
    builder.insert(SharedStore(tile, buffer))
    builder.insert(FenceProducts())
    return buffer
