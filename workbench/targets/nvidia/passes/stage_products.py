"""Stores operands of products to shared memory where nothing has brought them there."""

from __future__ import annotations

from workbench.ir import Builder, Module, Op, Shared, Tile, Value, rebuild
from workbench.ops import Dot
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.chip import Chip
from workbench.targets.nvidia.ops import FenceProducts, WarpgroupDot
from workbench.targets.nvidia.warpgroups import fragment_of, obstacle, stored_buffer
from workbench.targets.simt.ops import SharedAllocate, SharedStore


def stage_products(module: Module, remarks: Remarks, chip: Chip) -> Module:
    """Give every operand of a product that is neither in shared memory nor a fragment a buffer.

    It is stored where it is computed, so once for a loop that does not change it. Remarks say which
    products go by warpgroups, and why others do not.

    Needs: layouts. Keeps: every value.
    """
    if chip.has_warpgroups:
        _explain(module, remarks, chip)
    stager = _Stager(module)
    return rebuild(module, stager.rewrite) if stager.wanted else module


def _explain(module: Module, remarks: Remarks, chip: Chip) -> None:
    for op in module.walk():
        if isinstance(op, WarpgroupDot):
            held = "a in registers" if fragment_of(op, module.attributes["num_warps"]) else ""
            remarks.note(op, f"product by warpgroups (wgmma){held and ', '}{held}", "applied")
        elif isinstance(op, Dot):
            reason = obstacle(op, chip, module.attributes)
            remarks.note(op, f"product by warps, not warpgroups (wgmma): {reason}", "missed")


class _Stager:
    def __init__(self, module: Module) -> None:
        self.warps: int = module.attributes["num_warps"]
        self.original = {op.id: op for op in module.walk()}
        self.stored: dict[tuple[Value, Shared], Value] = {}
        #: The buffers that a tile is stored to.
        self.wanted: dict[Value, dict[Shared, None]] = {}
        for op in self.original.values():
            for _, value, type in self.missing(op):
                self.wanted.setdefault(value, {})[type] = None

    def missing(self, op: Op) -> list[tuple[str, Value, Shared]]:
        """Return (field, tile, type of its buffer) for the operands that have to be stored."""
        return _missing(op, self.warps) if isinstance(op, WarpgroupDot) else []

    def rewrite(self, op: Op, builder: Builder) -> tuple[Value, ...] | None:
        """Store what the op computes, and let it read what is stored."""
        old, buffers = self.original[op.id], dict[str, Value]()
        for name, value, type in self.missing(old):
            buffer = self.stored.get((value, type))
            if buffer is None:  # an argument of a block
                buffer = _store(getattr(op, name), type, builder)
            buffers[name] = buffer
        if not buffers and self.wanted.keys().isdisjoint(old.results):
            return None
        new = builder.insert(op.changed(**buffers) if buffers else op)
        for value, now in zip(old.results, new.results, strict=True):
            for type in self.wanted.get(value, ()):
                self.stored[value, type] = _store(now, type, builder)
        return new.results


def _missing(op: WarpgroupDot, num_warps: int) -> list[tuple[str, Value, Shared]]:
    """Return (field, tile, type of its buffer) for the operands that have to be stored."""
    names = ["b"] if fragment_of(op, num_warps) is not None else ["a", "b"]
    tiles = [(name, getattr(op, name)) for name in names]
    return [
        (name, tile, stored_buffer(op, tile, is_a=name == "a"))
        for name, tile in tiles
        if isinstance(tile.type, Tile)
    ]


def _store(tile: Value, type: Shared, builder: Builder) -> Value:
    buffer = builder.add(SharedAllocate(type=type), tile.hint)
    builder.insert(SharedStore(tile, buffer))
    builder.insert(FenceProducts())
    return buffer
