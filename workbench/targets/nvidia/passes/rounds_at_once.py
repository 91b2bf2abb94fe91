"""Loads of all rounds of short loops become one copy, where what they read is one run of memory.

Weights (K, C, R, S) of a convolution are read for one tap in each round: every ninth number, for
R * S = 9 rounds. Together the rounds read rows from end to end:

    for r: for s:                       gpu.copy_rounds w(0, 0) -> nine slots
      ... load w(r, s) ...       ->     for r: for s:
                                          ... slot 3 * r + s ...

What is no number at compile time (the strides of r and c) is what it is in an array without gaps,
or the rounds load for themselves as before: a question in front of the loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from workbench.analysis.affine import Affine, tile_forms
from workbench.analysis.forms import OPAQUE, Atom, Form, Monomial, all_atoms
from workbench.analysis.products import multiplied
from workbench.ir import (
    Block,
    Builder,
    Module,
    Op,
    Scalar,
    Shared,
    Tile,
    Value,
    copy_op,
    rebuild,
    shape_of,
    walk,
)
from workbench.layouts import swizzled
from workbench.ops import Constant, Elementwise, For, If, Yield, counted
from workbench.passes.cleanup import drop_dead
from workbench.passes.manager import Remarks
from workbench.passes.rules import constant_of
from workbench.targets.nvidia.copied_rounds import (
    ITEMSIZE,
    VECTOR,
    layout_for,
)
from workbench.targets.nvidia.ops import CopyRounds, FenceProducts
from workbench.targets.simt.ops import BlockBarrier, SharedAllocate, SharedLoad
from workbench.targets.simt.rules import Device

OPTION = "rounds_at_once"
#: The part of a block's shared memory that the slots of one load may take, in thirds.
_THIRDS = 2


@dataclass(frozen=True, slots=True)
class _Plan:
    """A load whose rounds are copied at once.

    loops: those whose rounds these are, outermost first; around: the loop around them, or the first
    of them. axis: along which elements are as far apart as there are rounds. places: by how many
    slots a round of each loop moves. strides: parameters that have to be these numbers.
    """

    load: Op
    loops: tuple[For, ...]
    around: For
    axis: int
    places: tuple[int, ...]
    strides: tuple[tuple[str, int], ...]

    @property
    def rounds(self) -> int:
        """How many rounds there are, and slots."""
        return prod(filter(None, map(_trips, self.loops)))


def copy_rounds_at_once(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Copy what all rounds of short loops load in front of these, where it is a run of memory.

    Needs: tile IR, num_warps. Keeps: every value.
    """
    if not module.attributes.get(OPTION, True) or not chip.least_copied_bytes:
        return module
    found = {plan.around.id: plan for plan in _plans(module, chip)}
    if not found:
        return module
    module, plans = _asked(module, found)
    buffers = {plan.load.id: _buffer(plan) for plan in plans}
    by_load = {plan.load.id: plan for plan in plans}
    by_loop = {plan.loops[0].id: plan for plan in plans}

    def rewrite(op: Op, builder: Builder) -> Value | None:
        if (plan := by_load.get(op.id)) is not None:
            type = op.result.type
            assert isinstance(type, Tile)
            slot = _slot(plan, builder)
            return builder.add(SharedLoad(buffers[op.id].result, slot, type=type), op.result.hint)
        if (plan := by_loop.get(op.id)) is not None:
            buffer = builder.add(buffers[plan.load.id], plan.load.result.hint)
            _copy(plan, buffer, builder, chip)
            text = f"{plan.rounds} rounds copied at once: they read one run of memory"
            remarks.note(plan.load, text, "applied")
        return None

    return rebuild(module, rewrite)


# -- which loads -----------------------------------------------------------------------------------
def _plans(module: Module, chip: Device) -> Iterator[_Plan]:
    """Yield the loads whose rounds read a run of memory."""
    loops = [*_nested(module.body, ())]
    if not any(_trips(stack[-1]) for _, stack in loops):
        return
    facts, wanted = tile_forms(module), multiplied(module)
    for op, stack in loops:
        if op.results and op.results[0] in wanted:
            plan = _plan(op, stack, facts, module, chip)
            if plan is not None:
                yield plan


def _nested(block: Block, stack: tuple[For, ...]) -> Iterator[tuple[Op, tuple[For, ...]]]:
    """Yield the ops in counted loops with these, outermost first."""
    for op in block.ops:
        loop = counted(op)
        if loop is not None:
            yield from _nested(loop.body, (*stack, loop))
        elif stack:
            yield op, stack
        for region in () if loop is not None else op.regions:
            yield from _nested(region, ())


def _trips(loop: For) -> int:
    """Return how many rounds a loop has that counts from 0 on by 1; 0 if nobody knows."""
    lower, upper, step = map(constant_of, (loop.lower, loop.upper, loop.step))
    return int(upper) if (lower, step) == (0, 1) and upper is not None and upper > 0 else 0


def _plan(
    op: Op, stack: Sequence[For], facts: Affine, module: Module, chip: Device
) -> _Plan | None:
    raised = chip.rules.raised_of(op)
    if raised is None or raised.obstacle or raised.unheard or raised.element.itemsize != ITEMSIZE:
        return None
    form, other = facts.form(raised.pointers), raised.other
    if form is None or not (other is None or constant_of(other) == 0):
        return None
    loops, places, strides, rounds = list[For](), list[int](), list[tuple[str, int]](), 1
    for loop in reversed(stack):
        trips = _trips(loop)
        asked = _is(_moved(form, [facts.atom("trip", loop.counter)]), rounds, facts)
        if not trips or asked is None:
            break
        loops, places, rounds = [loop, *loops], [rounds, *places], rounds * trips
        strides += asked
    if rounds == 1 or not _is_quiet(loops[0]) or not _is_before(op, raised.pointers, loops, True):
        return None
    if raised.mask is not None and not _is_before(op, raised.mask, loops, False):
        return None
    shape = shape_of(op.result.type)
    warps: int = module.attributes["num_warps"]
    trips_of = [facts.atom("trip", loop.counter) for loop in loops]
    if not _moves_evenly(form, trips_of, loops[0]):
        return None
    for axis, extent in enumerate(shape):
        step = _apart(form, axis)
        asked = None if step is None else _is(step, rounds, facts)
        rest = Form(
            {
                monomial: coefficient
                for monomial, coefficient in form.terms.items()
                if not any(atom in trips_of or axis in atom.axes for atom in monomial)
            }
        )
        vector = VECTOR // ITEMSIZE
        if (
            asked is None
            or layout_for(shape, axis, warps, chip.lanes) is None
            or facts.divisor(rest) % vector
            or facts.mask_run(raised.mask, axis, extent) < vector
            or not _has_room(shape, rounds, chip)
        ):
            continue
        around = stack[max(0, len(stack) - len(loops) - 1)]
        return _Plan(op, tuple(loops), around, axis, tuple(places), (*strides, *asked))
    return None


def _moved(form: Form, atoms: Sequence[Atom]) -> Form:
    """Return by how much a form moves where an atom of its own rises by 1."""
    terms: dict[Monomial, int] = {}
    for monomial, coefficient in form.terms.items():
        rest = tuple(atom for atom in monomial if atom not in atoms)
        if len(rest) < len(monomial):
            terms[rest] = terms.get(rest, 0) + coefficient * (len(monomial) - len(rest))
    return Form(terms)


def _moves_evenly(form: Form, trips: Sequence[Atom], loop: For) -> bool:
    """Say whether all of a form but the rounds of loops stays the same in them."""
    made = {result for op in walk(loop.body) for result in op.results}
    plain = {"arg", "x", "pid", "programs", "trip"}
    inside = {part for atom in form.atoms() for own in atom.parts for part in all_atoms(own)}
    once = all(sum(atom in trips for atom in monomial) <= 1 for monomial in form.terms)
    return (
        once
        and inside.isdisjoint(trips)
        and all(
            atom.kind in plain
            or atom.kind in OPAQUE
            or (atom.kind == "value" and atom.key not in made)
            for atom in {*form.atoms(), *inside}
        )
    )


def _apart(form: Form, axis: int) -> Form | None:
    """Return how far all neighbours along an axis lie apart; None where that differs."""
    moving = [atom for atom in form.atoms() if axis in atom.axes]
    if {atom.kind for atom in moving} != {"x"}:
        return None
    alone = all(sum(atom in moving for atom in monomial) <= 1 for monomial in form.terms)
    return _moved(form, moving) if alone else None


def _is(step: Form, wanted: int, facts: Affine) -> tuple[tuple[str, int], ...] | None:
    """Return what has to be asked of a launch so that a step is a number; None: it never is."""
    if step.constant is not None:
        return () if step.constant == wanted else None
    ((monomial, coefficient), *more) = step.terms.items()
    if more or coefficient != 1 or len(monomial) != 1 or monomial[0].kind != "arg":
        return None
    return None if wanted % facts.divisor(step) else ((monomial[0].key, wanted),)


def _is_quiet(loop: For) -> bool:
    """Say whether nothing in a loop writes memory, or orders what others write."""
    effects = [effect for op in walk(loop.body) for effect in op.own_effects()]
    return not any(effect.writes or effect.order != "plain" for effect in effects)


def _is_before(op: Op, value: Value, loops: Sequence[For], counts: bool) -> bool:
    """Say whether a value can be computed in front of loops, for their first rounds (`counts`)."""
    counters = {loop.counter for loop in loops} if counts else set[Value]()
    carried = {value for loop in loops for value in loop.body.arguments} - counters
    made = {result: one for one in walk(loops[0].body) for result in one.results}
    pending, seen = [value], set[Value]()
    while pending:
        one = pending.pop()
        if one in carried:
            return False
        if one in seen or one not in made:
            continue
        seen.add(one)
        if not made[one].pure or made[one].regions:
            return False
        pending += made[one].operands
    return True


def _has_room(shape: Sequence[int], rounds: int, chip: Device) -> bool:
    slots = prod(shape) * ITEMSIZE * rounds
    return slots <= chip.shared_bytes * _THIRDS // 3


# -- writing ---------------------------------------------------------------------------------------
def _asked(module: Module, found: dict[int, _Plan]) -> tuple[Module, list[_Plan]]:
    """Write loops twice of which a launch has to say something; returns plans for the first."""
    parameters = {parameter.name: parameter.value for parameter in module.parameters}
    copied: dict[int, dict[int, Op]] = {}

    def twice(op: Op, builder: Builder) -> tuple[Value, ...] | None:
        plan = found.get(op.id)
        if plan is None or not plan.strides:
            return None
        with builder.block() as then:
            first = builder.insert(copy_op(op, {}, builder))
            builder.insert(Yield(first.results))
        with builder.block() as otherwise:
            builder.insert(op)
            builder.insert(Yield(op.results))
        copied[op.id] = {
            number: one for one in walk(Block((), tuple(then))) for number in one.origins
        }
        holds = _holds([(parameters[name], number) for name, number in plan.strides], builder)
        made = If(holds, Block((), tuple(then)), Block((), tuple(otherwise)))
        return builder.insert(made).results

    module = rebuild(module, twice)
    plans: list[_Plan] = []
    for plan in found.values():
        new = copied.get(plan.around.id)
        if new is not None:
            loops = tuple(loop for one in plan.loops if (loop := counted(new[one.id])) is not None)
            plan = replace(plan, load=new[plan.load.id], loops=loops)
        plans.append(plan)
    return module, plans


def _holds(strides: Sequence[tuple[Value, int]], builder: Builder) -> Value:
    """Return whether values are these numbers."""
    found: Value | None = None
    for value, number in dict.fromkeys(strides):
        wanted = builder.add(Constant(number, value.type))
        one = builder.add(Elementwise("eq", (value, wanted)))
        found = one if found is None else builder.add(Elementwise("and", (found, one)))
    assert found is not None
    return found


def _buffer(plan: _Plan) -> SharedAllocate:
    type = plan.load.result.type
    assert isinstance(type, Tile)
    assert isinstance(type.element, Scalar)
    order = (plan.axis, 1 - plan.axis)
    layout = swizzled(type.shape, ITEMSIZE, order, exchange=False)
    return SharedAllocate(type=Shared(type.shape, type.element, layout, plan.rounds))


def _slot(plan: _Plan, builder: Builder) -> Value:
    """Return the slot of a round."""
    found: Value | None = None
    for loop, places in zip(plan.loops, plan.places, strict=True):
        value = loop.counter
        if places != 1:
            by = builder.add(Constant(places, value.type))
            value = builder.add(Elementwise("mul", (value, by)))
        found = value if found is None else builder.add(Elementwise("add", (found, value)))
    assert found is not None
    return found


def _copy(plan: _Plan, buffer: Value, builder: Builder, chip: Device) -> None:
    """Insert the copy of all rounds: where the first round's pointers point, and from there on."""
    raised = chip.rules.raised_of(plan.load)
    assert raised is not None
    values = {loop.counter: builder.add(Constant(0, loop.counter.type)) for loop in plan.loops}
    inside = {result: op for op in walk(plan.loops[0].body) for result in op.results}

    def first(value: Value) -> Value:
        op = inside.get(value)
        if op is None or value in values:
            return values.get(value, value)
        for operand in op.operands:
            first(operand)
        builder.insert(copy_op(op, values, builder))
        return values[value]

    mask = None if raised.mask is None else first(raised.mask)
    builder.insert(CopyRounds(first(raised.pointers), buffer, mask, axis=plan.axis))


# -- reading ---------------------------------------------------------------------------------------
def read_in_place(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Have products read slots where they lie, which threads would bring there once more.

    Whoever reads a slot meets those who filled it: nobody else places barriers of rings.

    Needs: layouts. Keeps: every value.
    """
    read: set[Value] = set()

    def rewrite(op: Op, builder: Builder) -> Op | None:
        for operand in op.operands:
            held = operand.op
            buffer = None if held is None else held.buffer_moved()
            if held is None or buffer is None or len(held.operands) == 1:
                continue
            type, slot = buffer.type, held.operands[1]
            assert isinstance(type, Shared)
            how = chip.rules.in_place_of(op, operand, replace(type, slots=0), False)
            if how is not None and replace(how.buffer, slots=type.slots) == type:
                read.add(buffer)
                return op.changed(**how.fields(buffer, slot))
        return None

    def met(op: Op, builder: Builder) -> tuple[Value, ...] | None:
        written = {effect.through for effect in op.own_effects() if effect.space == "shared"}
        if op.results or not any(buffer and _is_ring(buffer) for buffer in written):
            return None
        builder.insert(op)
        if not written.isdisjoint(read):
            builder.insert(FenceProducts())
        builder.insert(BlockBarrier())
        return ()

    if not any(_is_ring(value) for op in module.walk() for value in op.results):
        return module
    return drop_dead(rebuild(rebuild(module, rewrite), met), remarks)


def _is_ring(value: Value) -> bool:
    return isinstance(value.type, Shared) and value.type.slots > 0


__all__ = ["copy_rounds_at_once", "read_in_place"]
