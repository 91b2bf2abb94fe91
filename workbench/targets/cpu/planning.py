"""Which tiles are computed once and kept in scratch memory, and which wherever they are needed.

A tile is normally computed element by element inside the loop of whoever needs it. It is kept
where that would be wrong or slow:

- a load, if memory that it may read is written before its last use (where only the store that
  needs it is in doubt, the code looks at the addresses and has both ways), or if other programs
  may write it once something in between has told them to;
- a costly tile (an exp, say) that two loops need, that a loop inside needs again and again, that
  is broadcast along an axis, or that is gathered from and needed otherwise too;
- every so often in a long chain of ops, as unrolled loops make them: one loop body holds no more.

Tiles made by reductions, scans, products and control flow always have memory of their own.
"""

from __future__ import annotations

from math import prod

from workbench.analysis.affine import Affine
from workbench.analysis.distinct import is_one_to_one
from workbench.analysis.memory import Memory
from workbench.ir import Block, Module, Op, Scalar, Value, element_of, shape_of
from workbench.ops import (
    Bitcast,
    Broadcast,
    Cast,
    CheckAccess,
    Elementwise,
    Gather,
    Load,
    Promise,
    Store,
)
from workbench.targets.cpu.table import STATEMENTS

#: Vector instructions per element, roughly; everything else is 1.
_COSTS = {
    "exp": 12, "exp2": 11, "log": 20, "log2": 20, "sin": 30, "cos": 30, "tanh": 25, "erf": 25,
    "div": 4, "div_rn": 4, "rem": 12, "sqrt": 4, "sqrt_rn": 4, "rsqrt": 8,
}  # fmt: skip
#: A tile that costs less is cheaper to compute again than to write and read.
_HEAVY = 10
#: Ops one after the other that a loop body holds; code is written by recursion over them.
_DEEP = 64


class Plan:
    """The decisions for one module; `kept` holds the tiles to keep where their op stands."""

    def __init__(self, module: Module, affine: Affine) -> None:
        self.affine = affine
        self.kept: set[Value] = set()
        #: Loads that are only safe where their tile does not overlap the one a store writes.
        self.checked: dict[Store, list[Load]] = {}
        #: The loads of tiles.
        self.loads: list[Load] = []
        self.users: dict[Value, list[Op]] = {}
        self._start: dict[Op, int] = {}
        self._end: dict[Op, int] = {}
        self._parents: dict[Op, Op | None] = {}
        self._memory = Memory(module)
        #: Ops that write global memory, and ops that put accesses into an order.
        self._writes: list[Op] = []
        self._orders: list[Op] = []
        self._sinks: dict[Value, frozenset[Op]] = {}
        self._moved: dict[Value, frozenset[Op]] = {}
        self._costs: dict[Value, int] = {}
        self._number(module.body, None, 0)
        self._cut_chains()
        for op in self._start:
            for result in op.results:
                if (
                    self._is_virtual(op)
                    and shape_of(result.type)
                    and self._is_worth_keeping(result)
                ):
                    self.kept.add(result)
                    self._costs[result] = 1
        self._sinks.clear()
        for op in self._start:
            if isinstance(op, Load) and shape_of(op.result.type):
                self.loads.append(op)
                self._judge(op)

    def _number(self, block: Block, parent: Op | None, number: int) -> int:
        for op in block.ops:
            number += 1
            self._start[op] = number
            self._parents[op] = parent
            for operand in op.operands:
                self.users.setdefault(operand, []).append(op)
            effects = [e for e in op.own_effects() if e.space == "global"]
            if any(e.writes for e in effects):
                self._writes.append(op)
            if any(e.order != "plain" for e in effects):
                self._orders.append(op)
            for region in op.regions:
                number = self._number(region, op, number)
            self._end[op] = number
        return number

    def _cut_chains(self) -> None:
        """Keep a tile wherever a chain of ops has grown long."""
        depths: dict[Value, int] = {}
        for op in self._start:
            if not self._is_virtual(op):
                continue
            depth = 1 + max((depths.get(value, 0) for value in op.operands), default=0)
            for result in op.results:
                if not shape_of(result.type):
                    continue
                if depth < _DEEP:
                    depths[result] = depth
                elif self.affine.form(result) is None:
                    self.kept.add(result)
                    self._costs[result] = 1

    def parent(self, op: Op) -> Op | None:
        """Return the op whose region an op stands in, None for the kernel's body."""
        return self._parents[op]

    def _is_virtual(self, op: Op) -> bool:
        return STATEMENTS.rule(type(op)) is None

    def touched_bytes(self, store: Store) -> int:
        """Return about how many bytes one program moves around a store; 0: it is in a loop."""
        op: Op | None = store
        while (op := self._parents[op]) is not None:
            if op.repeats:
                return 0
        shape = shape_of(store.pointers.type)
        size = prod(shape) * element_of(store.value.type).itemsize
        return size * (1 + sum(shape_of(load.result.type) == shape for load in self.loads))

    # -- memory ---------------------------------------------------------------------------
    def _judge(self, load: Load) -> None:
        """Keep a load whose memory may be written before its last use."""
        (reading,) = load.own_effects()
        settled = self._memory.is_settled(reading)
        doubtful: set[Store] = set()
        for sink in self.sinks(load.result):
            outermost = self._outermost_without(sink, load)
            last = self._end[outermost]
            if isinstance(sink, CheckAccess) and not settled:
                # What was checked is what is used, whatever other programs write meanwhile.
                self.kept.add(load.result)
                return
            # A store that a loop repeats writes what its next round would read again.
            once = outermost is sink
            between = range(self._start[load] + 1, last + 1)
            if not settled and any(self._start[op] in between for op in self._orders):
                self.kept.add(load.result)
                return
            writes = [op for op in self._writes if self._start[op] in between]
            found = {
                op for op in writes if not self.is_apart(load, op, same_place=op is sink and once)
            }
            if any(op is not sink or not once or not isinstance(op, Store) for op in found):
                self.kept.add(load.result)
                return
            doubtful |= {op for op in found if isinstance(op, Store)}
        if reading.order != "plain":
            self.kept.add(load.result)
        elif doubtful:
            if all(self.has_bounds(op.operands[0]) for op in (load, *doubtful)):
                for store in doubtful:
                    self.checked.setdefault(store, []).append(load)
            else:
                self.kept.add(load.result)

    def has_bounds(self, pointers: Value) -> bool:
        """Say whether the first and last address of a pointer tile can be computed."""
        form = self.affine.form(pointers)
        if form is None or any(atom.axes and atom.kind != "x" for atom in form.atoms()):
            return False
        return all(
            extent == 1 or self.affine.stride(pointers, axis) is not None
            for axis, extent in enumerate(shape_of(pointers.type))
        )

    def _outermost_without(self, op: Op, other: Op) -> Op:
        """Return the outermost op around `op` (or itself) that does not hold `other`."""
        around: set[Op] = set()
        parent = self._parents[other]
        while parent is not None:
            around.add(parent)
            parent = self._parents[parent]
        while (parent := self._parents[op]) is not None and parent not in around:
            op = parent
        return op

    def is_apart(self, load: Op, write: Op, *, same_place: bool) -> bool:
        """Say whether a write cannot change what a load reads.

        `same_place`: the write happens element by element right after the element was read. Then
        it may go where the load reads, if no other element of the tile lies there.
        """
        (reading,) = load.own_effects()
        writing = [e for e in write.own_effects() if e.space == "global" and e.writes]
        if not any(self._memory.may_meet(reading, effect) for effect in writing):
            return True
        if not same_place or not isinstance(write, Store):
            return False
        source, target = load.operands[0], write.pointers
        if source.type != target.type or self.is_moved(load, write):
            return False
        form = self.affine.form(target)
        if form is None or not is_one_to_one(form, shape_of(target.type)):
            return False
        return source is target or form == self.affine.form(source)

    def is_moved(self, load: Op, sink: Op) -> bool:
        """Say whether a sink's element may need another element of a loaded tile than its own."""
        return sink in self._moved_sinks(load.results[0])

    def _moved_sinks(self, value: Value) -> frozenset[Op]:
        """Return the sinks that a tile's elements reach in another place of their tile."""
        known = self._moved.get(value)
        if known is None:
            found: set[Op] = set()
            for user in self.users.get(value, ()):
                if not self._is_looked_through(user):
                    continue
                stays = user.pointwise or isinstance(user, Load | Promise)
                for result in user.results:
                    if shape_of(result.type):
                        found |= self._moved_sinks(result) if stays else self.sinks(result)
            known = self._moved[value] = frozenset(found)
        return known

    # -- cost -----------------------------------------------------------------------------
    def sinks(self, value: Value) -> frozenset[Op]:
        """Return the ops in whose loops a tile's elements are computed."""
        known = self._sinks.get(value)
        if known is None:
            found: set[Op] = set()
            for user in self.users.get(value, ()):
                if self._is_looked_through(user):
                    for result in user.results:
                        if shape_of(result.type):
                            found |= self.sinks(result)
                else:
                    found.add(user)
            known = self._sinks[value] = frozenset(found)
        return known

    def _is_looked_through(self, op: Op) -> bool:
        """Say whether an op's tiles are computed where they are needed."""
        shaped = any(shape_of(result.type) for result in op.results)
        return self._is_virtual(op) and shaped and op.results[0] not in self.kept

    def cost(self, value: Value) -> int:
        """Return roughly how many instructions an element of a tile takes."""
        known = self._costs.get(value)
        if known is None:
            self._costs[value] = 1
            op = value.op
            known = 1
            if op is not None and self._is_virtual(op) and shape_of(value.type):
                known = min(1000, self._own_cost(op) + sum(self.cost(v) for v in op.operands))
            self._costs[value] = known
        return known

    def _own_cost(self, op: Op) -> int:
        if isinstance(op, Elementwise):
            element = element_of(op.inputs[0].type)
            narrow = isinstance(element, Scalar) and element.is_float and element.bits < 32
            return _COSTS.get(op.function, 1) + (4 if narrow else 0)
        if isinstance(op, Cast | Bitcast):
            return 15 if op.to.bits == 8 and op.to.is_float else 2
        if isinstance(op, Load):
            return 1
        return 0

    def _is_worth_keeping(self, value: Value) -> bool:
        op, users = value.op, self.users.get(value, ())
        gathered = len(users) > 1 and any(isinstance(user, Gather) for user in users)
        # A gather wants other elements than who else needs the tile: chains of them multiply.
        limit = 3 if gathered else _HEAVY
        if op is None or self.cost(value) < limit or value in self.kept:
            return False
        if self.affine.form(value) is not None:
            return False  # an index: addresses are made from its form, not from its elements
        if gathered or any(isinstance(user, Broadcast) for user in users):
            return True
        sinks = self.sinks(value)
        if len(sinks) > 1 and len(users) > 1:
            return True
        return any(self._outermost_without(sink, op) is not sink for sink in sinks)


__all__ = ["Plan"]
