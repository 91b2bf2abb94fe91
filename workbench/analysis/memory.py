"""Which memory the accesses of a kernel may touch: parameters behind pointers, and who meets whom.

Everything here is asked of effects (ir/effects.py), so it holds for any op that says what it does.
A pointer's *roots* are the parameters from which it may have been made by arithmetic, selection,
loops; a pointer that was read from memory or made from an integer has no known root, it may lead
anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from workbench.ir import (
    Block,
    Effect,
    Module,
    Op,
    Pointer,
    Value,
    element_of,
    has_pointers,
    walk,
)
from workbench.source import deep

Role = Literal["in", "out", "inout", "scalar"]

#: The root of pointers of which nobody knows where they lead.
ANYWHERE = "anywhere"
_NOWHERE: frozenset[str] = frozenset()
_ANYWHERE = frozenset((ANYWHERE,))


class Memory:
    """What the accesses of a module may touch."""

    def __init__(self, module: Module) -> None:
        self._parameters = {p.name: p for p in module.parameters}
        self._roots = _Roots(module)
        self._body = module.body
        read: set[str] = set()
        written: set[str] = set()
        awaits = False
        for op in module.walk():
            for effect in op.own_effects():
                if effect.space == "global" and effect.acquires and effect.scope == "sys":
                    awaits = True
                if effect.space == "global" and effect.reads:
                    read |= self.roots(effect)
                if effect.space == "global" and effect.writes:
                    written |= self.roots(effect)
        #: Roots that the kernel reads and writes somewhere.
        self.read, self.written = frozenset(read), frozenset(written)
        #: Whether it waits for other launches, or for the host: they may write what it does not.
        self._awaits = awaits

    def roots(self, effect: Effect) -> frozenset[str]:
        """Return the parameters behind an access to global memory; ANYWHERE stands for any."""
        return _ANYWHERE if effect.through is None else self._roots.of(effect.through)

    def may_meet(self, one: Effect, other: Effect) -> bool:
        """Say whether two accesses to global memory, one of them a write, may touch one byte.

        Different arguments may overlap unless a fact says that they do not.
        """
        if self.is_constant(one) or self.is_constant(other):
            return False
        mine, theirs = self.roots(one), self.roots(other)
        if ANYWHERE in mine or ANYWHERE in theirs:
            return True
        return any(p == q or self._may_overlap(p, q) for p in mine for q in theirs)

    def _may_overlap(self, one: str, other: str) -> bool:
        return not (self._parameters[one].noalias or self._parameters[other].noalias)

    def is_constant(self, effect: Effect) -> bool:
        """Say whether an access goes through a pointer to constant memory."""
        if effect.through is None:
            return False
        element = element_of(effect.through.type)
        return isinstance(element, Pointer) and element.constant

    def is_settled(self, effect: Effect) -> bool:
        """Say whether nobody writes the arguments that an access touches while the launch runs.

        All programs run the same kernel, so what none of its ops writes stays as it is, unless it
        waits for others than them. This asks which arguments are written, not whether two
        arguments overlap.
        """
        if self._awaits:
            return False
        if self.is_constant(effect):
            return True
        roots = self.roots(effect)
        return not (ANYWHERE in self.written or ANYWHERE in roots or roots & self.written)

    def may_repeat(self, op: Op) -> bool:
        """Say whether several warps may do what an op does, each for itself, and get the same."""
        return all(map(self._is_same_again, op.effects()))

    def _is_same_again(self, effect: Effect) -> bool:
        if effect.space == "outside":  # a loop may not end: then it does for none of them
            return not (effect.reads or effect.writes)
        return effect.removable and self.is_settled(effect)

    def is_kept(self, op: Op, until: Op) -> bool:
        """Say whether an op would read the same from memory if it came right before a later one."""
        reads = [effect for effect in op.effects() if effect.space == "global"]
        between = [
            effect
            for other in _between(self._body, op, until)
            for effect in other.effects()
            if effect.space == "global"
        ]
        ordered = any(effect.order != "plain" for effect in between)
        if ordered and not all(map(self.is_settled, reads)):
            return False  # other programs may have written it
        return not any(w.writes and self.may_meet(r, w) for r in reads for w in between)


def _between(block: Block, op: Op, until: Op) -> Iterator[Op]:
    """Yield the ops that may run behind an op and before a later one; with what is around that."""
    if op not in block.ops:
        for other in block.ops:
            for region in other.regions:
                yield from _between(region, op, until)
        return
    for other in block.ops[block.ops.index(op) + 1 :]:
        if other is until:
            return
        yield other
        if any(inner is until for region in other.regions for inner in walk(region)):
            return


@deep
def parameter_roles(module: Module) -> dict[str, Role]:
    """Return each parameter's role; a pointer that is never used counts as "in"."""
    memory = Memory(module)
    return {
        p.name: _role(p.value, p.name in memory.read, p.name in memory.written)
        for p in module.parameters
    }


def _role(value: Value, read: bool, written: bool) -> Role:
    if not isinstance(value.type, Pointer):
        return "scalar"
    if written:
        return "inout" if read else "out"
    return "in"


class _Roots:
    """For each pointer value the parameters it may have been made from."""

    def __init__(self, module: Module) -> None:
        self._found: dict[Value, set[str]] = {
            p.value: {p.name} for p in module.parameters if has_pointers(p.value.type)
        }
        #: From what to what pointers are handed, in the order of the program.
        self._flows: list[tuple[Value, Value]] = []
        self._block(module.body)
        self._changed = True
        while self._changed:  # carried pointers need a second round; sets only grow
            self._changed = False
            for source, target in self._flows:
                self._flow(self._found.get(source, set()), target)

    def of(self, value: Value) -> frozenset[str]:
        return frozenset(self._found.get(value, _NOWHERE)) or _ANYWHERE

    def _flow(self, names: set[str], target: Value) -> None:
        known = self._found.setdefault(target, set())
        if not names <= known:
            known |= names
            self._changed = True

    def _block(self, block: Block) -> None:
        for op in block.ops:
            self._op(op)

    def _op(self, op: Op) -> None:
        flows = op.flows()
        self._flows += [flow for flow in flows if has_pointers(flow[1].type)]
        for region in op.regions:
            self._block(region)
        if flows:
            return
        for result in op.results:
            if not has_pointers(result.type):
                continue
            sources = [v for v in op.operands if has_pointers(v.type)]
            reads = any(e.reads for e in op.own_effects())
            if reads or not sources:  # it came out of memory, or was made from a number
                self._flow({ANYWHERE}, result)
            self._flows += [] if reads else [(source, result) for source in sources]
