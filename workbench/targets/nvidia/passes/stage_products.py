"""Stores operands of products to shared memory where nothing has brought them there."""

from __future__ import annotations

from workbench.ir import Builder, Module, Op, Shared, Value, rebuild
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.ops import FenceProducts
from workbench.targets.simt.ops import SharedAllocate, SharedStore
from workbench.targets.simt.rules import Device, RuleTable, Setting


def stage_products(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Give every operand that an op reads out of a buffer, and that is a tile, a buffer.

    It is stored where it is computed, so once for a loop that does not change it. Remarks say how
    products are carried out.

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

    def rewrite(self, op: Op, builder: Builder) -> tuple[Value, ...] | None:
        """Store what the op computes, and let it read what is stored."""
        old, buffers = self.original[op.id], dict[str, Value]()
        for one in self.missing[op.id]:
            buffer = self.stored.get((one.tile, one.buffer))
            if buffer is None:  # an argument of a block
                buffer = _store(getattr(op, one.field), one.buffer, builder)
            buffers[one.field] = buffer
        if not buffers and self.wanted.keys().isdisjoint(old.results):
            return None
        new = builder.insert(op.changed(**buffers) if buffers else op)
        for value, now in zip(old.results, new.results, strict=True):
            for type in self.wanted.get(value, ()):
                self.stored[value, type] = _store(now, type, builder)
        return new.results


def _store(tile: Value, type: Shared, builder: Builder) -> Value:
    buffer = builder.add(SharedAllocate(type=type), tile.hint)
    builder.insert(SharedStore(tile, buffer))
    builder.insert(FenceProducts())
    return buffer
