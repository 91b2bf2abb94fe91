"""The order of accesses that other programs may see: polls are kept, needless order goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from workbench.analysis.memory import Memory
from workbench.ir import Builder, Module, Op, Value, rebuild, walk
from workbench.ops import AtomicCompareExchange, AtomicUpdate, Load, While
from workbench.passes.manager import Remarks


def keep_polls(module: Module, remarks: Remarks) -> Module:
    """Repeat, round by round, the loads that decide whether a loop goes on.

    Before:
        %0 = tile.constant {value = 0, type = i32} : i32
        tile.while [] {
          %1 = tile.load %flag : i32
          %2 = tile.eq [%1, %0] : i1
          tile.yield [%2]
        } {
          tile.yield []
        }
    After:
        %0 = tile.constant {value = 0, type = i32} : i32
        tile.while [] {
          %1 = tile.load %flag {volatile = True} : i32
          %2 = tile.eq [%1, %0] : i1
          tile.yield [%2]
        } {
          tile.yield []
        }

    Keeps: every value that one program alone can see. A loop that reads one place again and again
    waits for somebody else to write it; so may a loop whose exit depends on memory that the launch
    writes. Such loads become volatile: they happen in every round, past the L1 cache. A loop that
    walks through memory which the launch only reads is left alone.
    """
    memory = Memory(module)
    polls: set[int] = set()
    for op in module.walk():
        if isinstance(op, While):
            polls |= {load.id for load in _polls(op, memory)}
    if not polls:
        return module
    effects = [effect for op in module.walk() for effect in op.own_effects()]
    acquired = {root for e in effects if e.acquires and e.reads for root in memory.roots(e)}

    def rewrite(op: Op, builder: Builder) -> Op | None:
        if op.id not in polls or not isinstance(op, Load) or op.volatile:
            return None
        (effect,) = op.own_effects()
        text = "the loop ends by what this load reads, so it is repeated in every round"
        if memory.roots(effect).isdisjoint(acquired):
            text += (
                "; it orders nobody's data: acquire missing, "
                "e.g. tl.atomic_add(flag, 0, sem='acquire')"
            )
        remarks.note(op, text)
        return op.changed(volatile=True)

    return rebuild(module, rewrite)


def _polls(loop: While, memory: Memory) -> list[Load]:
    """Return the plain loads of a loop that decide its exit and whose memory may change."""
    inside = [*walk(loop.condition), *walk(loop.body)]
    varying = _varying(loop, inside)
    found: list[Load] = []
    for op in _deciding(loop, inside):
        if not isinstance(op, Load) or op.volatile:
            continue
        (effect,) = op.own_effects()
        same_place = op.pointers not in varying
        if not memory.is_constant(effect) and (same_place or not memory.is_settled(effect)):
            found.append(op)
    return found


def waiting_loops(module: Module) -> set[int]:
    """Return the ids of loops whose exit depends on what other programs do meanwhile."""
    found: set[int] = set()
    for loop in module.walk():
        if not isinstance(loop, While):
            continue
        deciding = _deciding(loop, [*walk(loop.condition), *walk(loop.body)])
        effects = [effect for op in deciding for effect in op.own_effects()]
        if any(e.space == "global" and e.reads and e.order != "plain" for e in effects):
            found.add(loop.id)
    return found


def _varying(loop: While, inside: list[Op]) -> set[Value]:
    """Return the values of a loop that may differ from round to round."""
    found = {*loop.condition.arguments, *loop.body.arguments}
    for op in inside:
        found.update(argument for region in op.regions for argument in region.arguments)
        if not op.pure or op.regions or not found.isdisjoint(op.operands):
            found.update(op.results)
    return found


def _deciding(loop: While, inside: list[Op]) -> list[Op]:
    """Return the ops of a loop from which its condition follows, carried values included."""
    makers = {result: op for op in inside for result in op.results}
    given: dict[Value, list[Value]] = {}
    for op in (loop, *inside):
        for source, received in op.flows():
            given.setdefault(received, []).append(source)
    work, seen = list(loop.condition.yields), set[Value]()
    found: dict[Op, None] = {}
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        work += given.get(value, ())
        op = makers.get(value)
        if op is None:
            continue
        found[op] = None
        work += op.operands
        for region in op.regions:
            work += region.yields
    return list(found)


def standing(loop: While, still: Callable[[Op], bool]) -> list[Op]:
    """Return the ops for which a loop waits for ever if what they read is always the same.

    They decide its exit, and beside them nothing does that changes: no memory, no value that a
    round makes of the round before.
    """
    inside = [*walk(loop.condition), *walk(loop.body)]
    deciding = _deciding(loop, inside)
    found = [op for op in deciding if still(op)]
    if not found or any(op.own_effects() for op in deciding if not still(op)):
        return []
    made: dict[Value, set[Value]] = {}
    for op in deciding:
        for result in op.results:
            made.setdefault(result, set()).update(op.operands)
    for op in (loop, *inside):
        for source, received in op.flows():
            if source != received:
                made.setdefault(received, set()).add(source)
    return [] if _goes_round(loop.condition.yields, made) else found


def _goes_round(values: Iterable[Value], made: dict[Value, set[Value]]) -> bool:
    """Whether values follow from one that follows from itself."""
    left = set(made)
    while ready := {value for value in left if not made[value] & left}:
        left -= ready
    work, seen = list(values), set[Value]()
    while work:
        value = work.pop()
        if value not in seen:
            seen.add(value)
            work += made.get(value, ())
    return bool(seen & left)


def relax_atomics(module: Module, remarks: Remarks) -> Module:
    """Take the order from atomics where nobody can tell.

    Before:
        %1 = tile.atomic %p, %x {function = "add"} : f32
    After:
        %2 = tile.atomic %p, %x {function = "add", order = "relaxed"} : f32

    Keeps: everything that a program, this one or another, can see. An atomic orders the program's
    other accesses. If its result is not used and the program touches nothing else that the launch
    writes, there is nothing to order. What is asked for in the scope of the whole system is kept.
    """
    memory = Memory(module)
    touching = [
        op
        for op in module.walk()
        if any(
            e.space == "global" and (e.reads or e.writes) and not memory.is_settled(e)
            for e in op.own_effects()
        )
    ]
    if len(touching) != 1:
        return module
    used = {operand for op in module.walk() for operand in op.operands}

    def rewrite(op: Op, builder: Builder) -> Op | None:
        if op.id != touching[0].id or not isinstance(op, AtomicUpdate | AtomicCompareExchange):
            return None
        if op.order == "relaxed" or op.scope == "sys" or op.result in used:
            return None
        remarks.note(op, "relaxed: the program touches nothing else that it could order")
        return op.changed(order="relaxed")

    return rebuild(module, rewrite)
