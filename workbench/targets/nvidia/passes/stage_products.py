"""Stores operands of products to shared memory where nothing has brought them there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from workbench.ir import Block, Builder, Module, Op, Shared, Value, rebuild
from workbench.layouts import LinearLayout
from workbench.ops import ConvertLayout
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.ops import FenceProducts
from workbench.targets.nvidia.passes.kept_operands import kept_operands
from workbench.targets.simt.ops import SharedAllocate, SharedStore
from workbench.targets.simt.rules import Device, InRegisters, RuleTable, Setting, Stored

#: Attribute of a kernel: of how many blocks a multiprocessor is to have the registers, at least.
BLOCKS_WANTED = "blocks_wanted"


def stage_products(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Give every operand that an op reads out of a buffer, and that is a tile, a buffer.

    It is stored where it is computed, so once for a loop that does not change it; or it stays in
    registers there, if these suffice (kept_operands.py). With `loads_first` what is loaded before
    such a loop is stored right in front of it: who stores it waits for it, and copies that fill
    rings start before that. Remarks say how products are carried out.

    Needs: layouts. Keeps: every value.
    """
    tried: dict[frozenset[int], Module] = {}

    def staged(kept: Mapping[int, InRegisters]) -> Module:
        """Return the module with these operands in registers, made once: it is asked about much."""
        key = frozenset(kept)  # an op holds at most one, in one way
        if key not in tried:
            tried[key] = _staged(module, chip.rules, kept)
        return tried[key]

    kept, blocks = kept_operands(module, remarks, chip, staged)
    made = staged(kept)
    if blocks:
        made = replace(made, attributes={**made.attributes, BLOCKS_WANTED: blocks})
    on = Setting(made, chip)
    for op in made.walk():
        if (told := chip.rules.told_of(op, on)) is not None:
            remarks.note(op, told.text, told.severity)
    return made


def _staged(module: Module, rules: RuleTable, kept: Mapping[int, InRegisters]) -> Module:
    stager = _Stager(module, rules, kept)
    return rebuild(module, stager.rewrite) if stager.wanted else module


class _Stager:
    """`kept`: the operands that stay in registers, by the ids of the ops that read them."""

    def __init__(self, module: Module, rules: RuleTable, kept: Mapping[int, InRegisters]) -> None:
        self.original = {op.id: op for op in module.walk()}
        self.kept = kept
        self.missing = {
            name: [one for one in rules.stored_of(op) if not _stays(one, kept.get(name))]
            for name, op in self.original.items()
        }
        #: The buffers that a tile is stored to, and the layouts in which it stays.
        self.wanted: dict[Value, dict[Shared | LinearLayout, None]] = {}
        for all_of_one in self.missing.values():
            for one in all_of_one:
                self.wanted.setdefault(one.tile, {})[one.buffer] = None
        for how in kept.values():
            self.wanted.setdefault(how.operand, {})[how.layout] = None
        self.stored: dict[tuple[Value, Shared | LinearLayout], Value] = {}
        #: The tiles that are stored behind an op, by its id, and what they have become.
        self.behind: dict[int, list[Value]] = {}
        self.now: dict[Value, Value] = {}
        for block in _blocks(module.body):
            for number, op in enumerate(block.ops):
                tiles = [value for value in op.results if value in self.wanted]
                if tiles:
                    delayed = rules.access_of(op) and module.attributes.get("loads_first", True)
                    place = place_to_store(block.ops, number) if delayed else number
                    self.behind.setdefault(block.ops[place].id, []).extend(tiles)

    def rewrite(self, op: Op, builder: Builder) -> tuple[Value, ...] | None:
        """Store what the op computes, and let it read what is stored."""
        old, fields = self.original[op.id], dict[str, Any]()
        for one in self.missing[op.id]:
            buffer = self.stored.get((one.tile, one.buffer))
            if buffer is None:  # an argument of a block
                buffer = _store(getattr(op, one.field), one.buffer, builder)
            fields[one.field] = buffer
        if (how := self.kept.get(op.id)) is not None:
            fields |= how.fields(self.stored[how.operand, how.layout])
        behind = self.behind.get(op.id, ())
        if not fields and not behind and self.wanted.keys().isdisjoint(old.results):
            return None
        new = builder.insert(op.changed(**fields) if fields else op)
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


def place_to_store(ops: Sequence[Op], number: int) -> int:
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


def _stays(one: Stored, how: InRegisters | None) -> bool:
    """Say whether what an op would read out of a buffer stays in registers for it."""
    return how is not None and one.tile is how.operand and one.field in how.fields(how.operand)


def _store(tile: Value, type: Shared | LinearLayout, builder: Builder) -> Value:
    if isinstance(type, LinearLayout):
        held = builder.add(ConvertLayout(tile, type), tile.hint)
        # Copies of boxes may fill the bytes that threads have just written on the way.
        builder.insert(FenceProducts())
        return held
    buffer = builder.add(SharedAllocate(type=type), tile.hint)
    builder.insert(SharedStore(tile, buffer))
    builder.insert(FenceProducts())
    return buffer
