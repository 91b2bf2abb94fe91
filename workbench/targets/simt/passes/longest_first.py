"""Programs whose loops are longest begin first, where each has a block of its own.

Blocks begin in the order of their numbers, axis 0 first, as others end. Where a program's loop is
the longer the further along that axis it is (causal attention: a block of queries sees all keys
before it), each head's longest program begins last, and so does the launch's: in the end most of
the device waits for a few. So programs are taken in another order: those of several columns of the
grid (heads) together, the longest of all of them first. Columns are as many as read no more in
their loops than the cache holds, since programs of a column mostly read the same.

Where a loop's length is loaded, nobody knows which programs are long: with sequences of very
different lengths behind each other (decoding and prefill together) that order was 15 to 18 %
slower, with equal ones 3 to 5 % faster, so there it is taken only if asked for (`reorder`). But
what is loaded may say no more than where programs begin to grow. Blocks that draw them
(nvidia/passes/staying.py) take the last half of the columns so, and the others as the author has
them: then a launch ends with short ones as well, and until then programs of all kinds run beside
each other (those that wait for memory, and those that multiply).

Which program a block is decides its code alone (lowering.py): in the IR a program's number stays
what it is.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from workbench.analysis.affine import Affine, tile_forms
from workbench.analysis.forms import Form
from workbench.ir import Effect, Module, Op, Value, shape_of, walk
from workbench.ops import For, counted_loops, pointee_of
from workbench.passes.manager import Remarks
from workbench.targets.simt.ops import is_drawn, is_persistent
from workbench.targets.simt.rules import Device

#: Bytes that stay in the cache while programs read them again, about (hopper_attention: 32 MB).
_CACHED = 32 << 20
#: The most programs of a group, as a power of two: numbers of 32 bits hold twice as many.
_MOST = 24


def longest_first(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Say in which order programs begin (`longest_first`), if some are known to be longer.

    A positive number, where programs grow along axis 0, or a negative one, where they shrink: one
    more than the power of two of the programs that are taken together. What is loaded is taken to
    be the same for neighbours: then the number is for blocks that draw alone (`longest_drawn`).

    Keeps: every value. Nothing that waits for other programs or signals to them is reordered.
    """
    del remarks
    asked: bool | None = module.attributes.get("reorder")
    if asked is False or _orders_programs(module):
        return module
    facts, growth, each, loaded = tile_forms(module), 0.0, 0, False
    for loop in counted_loops(module.walk()):
        loaded |= decided_by_memory(loop, module) is not None
        lower, upper, by = map(facts.form, (loop.lower, loop.upper, loop.step))
        step = None if by is None else by.constant
        if lower is None or upper is None or step is None or step <= 0:
            continue
        growth += (_along(upper, facts) - _along(lower, facts)) / step
        each = max(each, _loaded(loop, chip))
    if not growth or not each:
        return module
    if loaded and asked is None:
        attributes = {**module.attributes, "longest_drawn": 1 if growth > 0 else -1}
        return replace(module, attributes=attributes)
    together = max(1, int(_CACHED / (abs(growth) * each))).bit_length() - 1
    found = 1 + min(together, _MOST)
    attributes = {**module.attributes, "longest_first": found if growth > 0 else -found}
    return replace(module, attributes=attributes)


def told_order(module: Module, remarks: Remarks) -> Module:
    """Drop the order that nobody asked for where blocks stay, which share better; tell of it.

    They take programs back and forth, so that each has short and long ones.

    Keeps: every value.
    """
    order, stay = module.attributes.get("longest_first"), is_persistent(module)
    drawn = module.attributes.get("longest_drawn")
    if drawn is not None:
        if is_drawn(module):
            text = "of half the columns the programs with the longest loops are drawn first"
            remarks.note(None, text, "applied")
            return module
        rest = {name: held for name, held in module.attributes.items() if name != "longest_drawn"}
        return replace(module, attributes=rest)
    asked = module.attributes.get("reorder", False)
    if asked and order is None:
        why = "no program's loops are known to be longer than others', or programs wait for others"
        remarks.note(None, f"reorder=True is not obeyed: {why}", "missed")
    if order is None:
        return module
    if stay and not asked:
        rest = {name: held for name, held in module.attributes.items() if name != "longest_first"}
        return replace(module, attributes=rest)
    text = f"programs with the longest loops begin first, about {1 << abs(order) - 1} together"
    remarks.note(None, text, "applied")
    return module


def decided_by_memory(loop: For, module: Module) -> Op | None:
    """Return an op that reads memory and decides how many rounds a loop has, if one does."""
    made = {result: op for op in module.walk() for result in op.results}
    work, seen = [loop.lower, loop.upper, loop.step], set[Value]()
    while work:
        value = work.pop()
        op = made.get(value)
        if op is None or value in seen:
            continue
        seen.add(value)
        inner = [op, *inner_ops(op)]
        effects = [effect for one in inner for effect in one.own_effects()]
        if any(effect.reads and effect.space == "global" for effect in effects):
            return op
        work += [operand for one in inner for operand in one.operands]
    return None


def inner_ops(op: Op) -> list[Op]:
    """Return the ops inside of an op."""
    return [inner for region in op.regions for inner in walk(region)]


def _along(form: Form, facts: Affine, most: int = 8) -> int:
    """Return by how much a number grows from one program to the next along axis 0, about.

    Numbers are taken not to wrap. `most`: as many are looked through one behind the other.
    """
    found = 0
    for monomial, coefficient in form.terms.items():
        if len(monomial) != 1 or not most:
            continue
        (atom,) = monomial
        if atom.kind == "pid" and atom.key == 0:
            found += coefficient
        elif atom.kind in ("min", "max"):
            parts = (_along(part, facts, most - 1) for part in atom.parts)
            found += coefficient * max(parts, key=abs)
        elif atom.kind == "value" and (inner := facts.unwrapped(atom)) is not None:
            found += coefficient * _along(inner, facts, most - 1)
    return found


def _loaded(loop: For, chip: Device) -> int:
    """Return the bytes that a loop loads in a round."""
    found = 0
    for op in loop.body.ops:
        access = chip.rules.access_of(op)
        if access is not None and op.results:
            pointers = access.pointers
            found += prod(shape_of(pointers.type)) * pointee_of(pointers.type).itemsize
    return found


def _orders_programs(module: Module) -> bool:
    """Say whether a kernel waits for other programs, signals to them, or asks which block it is."""
    ops = [*module.walk()]
    return any(op.names_block for op in ops) or any(
        orders_programs(effect) for op in ops for effect in op.own_effects()
    )


def orders_programs(effect: Effect) -> bool:
    """Say whether an effect puts programs of a launch in an order.

    A fence that only acquires puts none: it reads nothing that another program has released.
    """
    touches, releases = effect.reads or effect.writes, effect.releases and effect.scope != "cta"
    return effect.space == "global" and effect.order != "plain" and (touches or releases)
