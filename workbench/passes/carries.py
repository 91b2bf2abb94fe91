"""Loop-carried values that never change are no loop-carried values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from workbench.ir import Block, Builder, Module, Op, Value
from workbench.ir.rebuild import Rebuilder
from workbench.ops import For, While
from workbench.passes.manager import Remarks


def drop_constant_carries(module: Module, remarks: Remarks) -> Module:
    """Read a carried value that every round hands on as it is where it comes from.

    Before:
        %r = tile.for %lo, %hi, %one, [%x] {
        ^(%i: index, %a: f32):
          tile.store %p, %a
          tile.yield [%a]
        } : f32
    After:
        tile.for %lo, %hi, %one, [] {
        ^(%i: index):
          tile.store %p, %x
          tile.yield []
        }

    Keeps: every value. Whatever is made of several values (a block pointer, a tuple) is carried as
    a whole, though a round often changes one of them.
    """
    del remarks
    worker = _Dropper(module)
    body = worker.block(module.body)
    if body is module.body:
        return module
    return replace(module, body=body, next_id=worker.builder.next_id)


class _Dropper(Rebuilder):
    def __init__(self, module: Module) -> None:
        super().__init__(module, self._drop)
        #: By loop: the places of the carried values that stay.
        self.kept: dict[int, list[int]] = {}

    def with_new_operands(self, op: Op) -> Op:
        """Let what is carried unchanged stand for its start value before the body is rebuilt."""
        if isinstance(op, For | While) and op.inits:
            own = op.body.arguments[_first(op) :]
            keep: list[int] = []
            for i, (init, argument, after) in enumerate(
                zip(op.inits, own, op.body.yields, strict=True)
            ):
                if after is not argument and after is not init:
                    keep.append(i)
                    continue
                start = self.values.get(init, init)
                self.values[argument] = start
                if isinstance(op, While):
                    self.values[op.condition.arguments[i]] = start
            self.kept[op.id] = keep
        return super().with_new_operands(op)

    def _drop(self, op: Op, builder: Builder) -> tuple[Value, ...] | None:
        if not isinstance(op, For | While) or len(self.kept.get(op.id, op.inits)) == len(op.inits):
            return None
        keep = self.kept[op.id]
        end = op.body.terminator.changed(values=tuple(op.body.yields[i] for i in keep))
        fields: dict[str, Any] = {
            "inits": tuple(op.inits[i] for i in keep),
            "body": _with(op.body, _first(op), keep, (*op.body.ops[:-1], end)),
        }
        if isinstance(op, While):
            fields["condition"] = _with(op.condition, 0, keep, op.condition.ops)
        new = builder.insert(op.changed(**fields))
        left = dict(zip(keep, new.results, strict=True))
        return tuple(left.get(i, init) for i, init in enumerate(op.inits))


def _first(op: For | While) -> int:
    """Return the place of the first carried value among the body's arguments."""
    return 1 if isinstance(op, For) else 0


def _with(block: Block, first: int, keep: list[int], ops: tuple[Op, ...]) -> Block:
    own = block.arguments[first:]
    return Block((*block.arguments[:first], *(own[i] for i in keep)), ops)
