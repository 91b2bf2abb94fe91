"""Loop-carried values that never change are no loop-carried values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from workbench.ir import Builder, Module, Op, Value
from workbench.ir.rebuild import Rebuilder
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
        #: By loop: what the carried values that go always were, by place.
        self.starts: dict[int, dict[int, Value]] = {}

    def with_new_operands(self, op: Op) -> Op:
        """Let what is carried unchanged stand for its start value before the body is rebuilt."""
        places = op.handed_on()
        if any(places):
            self.starts[op.id] = dict(self._unchanged(op, places))
        return super().with_new_operands(op)

    def _unchanged(
        self, op: Op, places: tuple[tuple[Value, ...], ...]
    ) -> Iterator[tuple[int, Value]]:
        given: dict[Value, list[Value]] = {}
        for value, received in op.flows():
            given.setdefault(received, []).append(value)
        for place, arguments in enumerate(places):
            init, *later = given[arguments[0]]
            if all(value is init or value in arguments for value in later):
                start = self.values.get(init, init)
                self.values.update(dict.fromkeys(arguments, start))
                yield place, start

    def _drop(self, op: Op, builder: Builder) -> tuple[Value, ...] | None:
        starts = self.starts.get(op.id)
        if not starts:
            return None
        keep = [place for place in range(len(op.results)) if place not in starts]
        new = builder.insert(op.keeping(keep))
        found = starts | dict(zip(keep, new.results, strict=True))
        return tuple(found[place] for place in range(len(op.results)))
