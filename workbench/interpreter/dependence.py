"""What values of a module are made of: the arguments behind a pointer, what decides a loop's exit.

Both are asked backwards, from one value to what it was computed of, and only when a run needs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from workbench.ir import Block, Module, Op, Value, has_pointers, walk


@dataclass(frozen=True, slots=True)
class Roots:
    """The parameters whose memory a pointer leads to.

    `open` says that it may lead elsewhere too: it was read from memory, or made of numbers.
    """

    parameters: frozenset[Value]
    open: bool


@dataclass(frozen=True, slots=True)
class Exit:
    """What decides whether a loop goes round again.

    `carried` are the places among the carried values that the decision, or anything that the loop
    does to memory, depends on; `reads` are the ops whose reading of memory decides.
    """

    carried: tuple[int, ...]
    reads: tuple[Op, ...]


class Dependence:
    """The values of one module, asked backwards."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._parameters = {p.value for p in module.parameters}
        #: What the arguments of regions, and the results of ops with regions, are handed.
        self._given: dict[Value, list[Value]] | None = None
        #: The op whose region an argument belongs to.
        self._owner: dict[Value, Op] = {}

    def _handed(self, value: Value) -> list[Value]:
        """Return what control flow hands to a value; most have nothing to do with it."""
        if self._given is None:
            self._given = {}
            self._enter(self._module.body)
        return self._given.get(value, [])

    def _enter(self, block: Block) -> None:
        assert self._given is not None
        for op in block.ops:
            if op.region_names:
                for given, received in op.flows():
                    self._given.setdefault(received, []).append(given)
                for region in op.regions:
                    for argument in region.arguments:
                        self._owner[argument] = op
                    self._enter(region)

    def roots(self, pointer: Value) -> Roots:
        """Return what a pointer, or a tile of pointers, was made from by moving and choosing.

        A pointer made of an integer leads where the pointers led that the integer was made of.
        """
        parameters: set[Value] = set()
        made_of_data = False
        seen: set[Value] = set()
        waiting = [pointer]
        while waiting:
            value = waiting.pop()
            if value in seen:
                continue
            seen.add(value)
            if value in self._parameters:
                if has_pointers(value.type):
                    parameters.add(value)
                continue
            if value.op is not None and reads_memory(value.op):
                made_of_data |= has_pointers(value.type)
                continue
            sources = self._sources(value, provenance=True)
            pointers = [source for source in sources if has_pointers(source.type)]
            waiting += pointers or sources
        return Roots(frozenset(parameters), made_of_data or not parameters)

    def exit(self, loop: Op, condition: Block, body: Block) -> Exit:
        """Return what decides whether a loop with a condition and a body goes round again."""
        waiting = list(condition.yields)
        for region in (condition, body):
            for op in walk(region):
                if any(effect.writes for effect in op.own_effects()):
                    waiting += op.operands
        decisive = self._decisive(condition.yields)
        matters = self._decisive(waiting)
        carried = tuple(
            place
            for place, pair in enumerate(zip(condition.arguments, body.arguments, strict=True))
            if any(value in matters for value in pair)
        )
        reads = tuple(
            op
            for region in (condition, body)
            for op in walk(region)
            if reads_memory(op) and not decisive.isdisjoint(op.results)
        )
        return Exit(carried, reads)

    def _decisive(self, values: Iterable[Value]) -> set[Value]:
        """Return values and all that they were computed of."""
        seen: set[Value] = set()
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            if value not in seen:
                seen.add(value)
                waiting += self._sources(value)
        return seen

    def _sources(self, value: Value, *, provenance: bool = False) -> Sequence[Value]:
        """Return what a value was computed of; `provenance`: what it was handed, if it was."""
        op = value.op
        if op is not None and not op.region_names:
            return op.operands
        given = self._handed(value)
        op = op or self._owner.get(value)
        if op is None or (given and provenance):
            return given
        if given:  # what is handed on, and whether it is
            return [*given, *op.decided_by()]
        return [*given, *op.operands, *(v for region in op.regions for v in region.yields)]


def reads_memory(op: Op) -> bool:
    """Say whether an op itself reads global memory."""
    return any(effect.reads and effect.space == "global" for effect in op.own_effects())


def accessed(op: Op) -> tuple[Value | None, bool]:
    """Return the pointers through which an op touches global memory, and whether it writes.

    None: it touches none, or nobody knows where.
    """
    effects = [e for e in op.own_effects() if e.space == "global" and e.through is not None]
    return effects[0].through if effects else None, any(effect.writes for effect in effects)


def unread(module: Module) -> frozenset[int]:
    """Return the ids of the ops that read global memory for nobody, e.g. for a dtype alone.

    They are in no target's code, so they may point anywhere.
    """
    ops, gone = {op.id: op for op in module.walk()}, dict[int, Op]()
    while True:
        left = [op for op in ops.values() if op.id not in gone]
        used = {operand for op in left for operand in op.operands}
        used.update(v for op in left for region in op.regions for v in region.yields)
        more = {op.id: op for op in left if op.removable and used.isdisjoint(op.results)}
        if not more:
            return frozenset(n for n, op in gone.items() if accessed(op)[0] is not None)
        gone |= more


def writers(module: Module) -> Iterator[Op]:
    """Yield the ops that may write global memory."""
    for op in module.walk():
        if any(effect.writes and effect.space == "global" for effect in op.own_effects()):
            yield op
