"""The copies of one round of a loop, and its loads into registers, as they are started ahead."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from workbench.ir import Builder, Op, Value, copy_op, layout_of, shape_of
from workbench.ops import Elementwise, Select, Splat
from workbench.targets.nvidia.ops import CommitCopies, Expect
from workbench.targets.simt.passes.rounds import ends_with, reached
from workbench.targets.simt.passes.staged_loads import Early, Staged
from workbench.targets.simt.rules import Access


@dataclass(frozen=True, slots=True)
class LookedUp:
    """What values of a loop are in a round that is started ahead, and whether it is reached.

    `done`: of the ops that addresses are made of, how many are there.
    """

    values: dict[Value, Value]
    runs: Value
    done: int


class Ahead:
    """Starts the copies of one round, given the counter and the carried values of that round."""

    def __init__(
        self, early: Early, found: list[Staged], buffers: list[Value], barriers: Value | None,
        ops: list[Op], carries: list[int], builder: Builder,
    ) -> None:  # fmt: skip
        self.loop = early.loop
        self.rules = early.known.rules
        self.facts = early.known.on.facts
        self.found = found
        self.buffers = buffers
        self.barriers = barriers
        self.ops = ops
        self.carries = carries
        self.builder = builder
        #: What threads have loaded in the latest round that was started, in the order of the loads.
        self.loaded: list[tuple[Value, Value]] = []
        #: What copies of a whole tile read, by load.
        self.prepared = {
            id(staged.load): staged.box.prepare(builder, staged.ahead.buffer)
            for staged in found
            if staged.box is not None
        }

    def start(
        self, index: Value, state: dict[Value, Value], slot: Value, stage: int = 0,
        runs: Value | None = None, commit: bool = True,
    ) -> dict[Value, Value]:  # fmt: skip
        """Start all copies and loads of the round and return the carried values of the next.

        `stage`: minus the rounds that they are ahead of the round they stand in. `runs`: whether
        the loop reaches the round, where the counter does not tell. `commit`: they are the last of
        those that are waited for together.
        """
        return self.copy(self.looked_up(index, state, runs), slot, stage, commit)

    def looked_up(
        self, index: Value, state: dict[Value, Value], runs: Value | None = None
    ) -> LookedUp:
        """Read the tables that addresses of the round are made of."""
        values = {self.loop.body.arguments[0]: index, **state}
        runs = reached(self.loop, index, self.builder) if runs is None else runs
        read = [number for number, op in enumerate(self.ops) if not op.pure]
        found = LookedUp(values, runs, read[-1] + 1 if read else 0)
        self._compute(self.ops[: found.done], found)
        return found

    def _compute(self, ops: Sequence[Op], found: LookedUp) -> None:
        for op in ops:
            copied = copy_op(op, found.values, self.builder)
            access = self.rules.access_of(copied)
            if access is not None:
                copied = access.under(self._under(found.runs, access))
                found.values[op.results[0]] = copied.result
            self.builder.insert(copied)

    def copy(
        self, found: LookedUp, slot: Value, stage: int = 0, commit: bool = True
    ) -> dict[Value, Value]:
        """Start all copies and loads of a round whose tables are read, as `start` does."""
        builder, values, runs = self.builder, found.values, found.runs
        self._compute(self.ops[found.done :], found)
        pairs = list(zip(self.found, self.buffers, strict=True))
        self.loaded = [
            (self._load(staged, values, runs), buffer)
            for staged, buffer in pairs
            if staged.through_registers
        ]
        vectors = [(staged, buffer) for staged, buffer in pairs if staged.is_vectors]
        for staged, buffer in vectors:
            with self._for(staged):
                self._start_vectors(staged, buffer, (slot, stage), values, runs)
        if vectors and commit:
            builder.insert(CommitCopies())
        if self.barriers is not None:
            self._start_boxes(pairs, (slot, stage), values, runs)
        body = self.loop.body
        return {
            body.arguments[1:][i]: values.get(body.yields[i], body.yields[i]) for i in self.carries
        }

    def _load(self, staged: Staged, values: dict[Value, Value], runs: Value) -> Value:
        """Load what goes through registers."""
        with self._for(staged):
            access = self.rules.access_of(copy_op(staged.load, values, self.builder))
            assert access is not None
            return self.builder.insert(access.under(self._under(runs, access))).results[0]

    @contextmanager
    def _for(self, staged: Staged) -> Generator[None]:
        """Have ops that are written come from a load."""
        builder = self.builder
        before = builder.span, builder.origins
        builder.span, builder.origins = staged.load.span, (staged.load.id,)
        yield
        builder.span, builder.origins = before

    def _start_vectors(
        self, staged: Staged, buffer: Value, at: tuple[Value, int], values: dict[Value, Value],
        runs: Value,
    ) -> None:  # fmt: skip
        old, copy = staged.access, staged.ahead.copy
        assert old is not None
        assert copy is not None
        mask = values.get(old.mask, old.mask) if old.mask is not None else None
        access = replace(old, pointers=values.get(old.pointers, old.pointers), mask=mask)
        slot, stage = at
        if old.mask is None or not ends_with(self.loop, old.mask, self.facts):
            mask = self._under(runs, access)
        self.builder.insert(copy(access.pointers, mask, buffer, slot).changed(stage=stage))

    def _start_boxes(
        self, pairs: Sequence[tuple[Staged, Value]], at: tuple[Value, int],
        values: dict[Value, Value], runs: Value,
    ) -> None:  # fmt: skip
        """Have the slot's barrier expect the bytes of all boxes, and start their copies."""
        assert self.barriers is not None
        slot, stage = at
        boxes = [(staged, box, buffer) for staged, buffer in pairs if (box := staged.box)]
        total = sum(box.bytes(staged.ahead.buffer) for staged, box, _ in boxes)
        with self._for(boxes[0][0]):
            self.builder.insert(Expect(self.barriers, slot, runs, bytes=total))
        for staged, box, buffer in boxes:
            with self._for(staged):
                reads = [values.get(v, v) for v in box.reads]
                source = self.prepared[id(staged.load)]
                counted = self.barriers, slot
                copy = box.copy(source, reads, (buffer, slot), counted, runs)
                self.builder.insert(copy.changed(stage=stage))

    def _under(self, runs: Value, access: Access) -> Value:
        """Return a mask for an access, off in rounds that the loop does not reach."""
        type = access.pointers.type
        if shape_of(type):
            runs = self.builder.add(Splat(runs, shape_of(type), layouts=(layout_of(type),)))
        if access.mask is None:
            return runs
        if self.loop.may_wrap:  # off, whatever a counter makes of the mask that left its type
            return self.builder.add(Select(runs, access.mask, runs))
        return self.builder.add(Elementwise("and", (runs, access.mask)))
