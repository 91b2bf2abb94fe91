"""Loops around a product change places, so that rounds in a row read the same sectors of memory.

Where no axis of a tile lies side by side in memory, each element brings a sector of its own, of
which it needs a part. The rest is asked for again by the rounds that need it, from the second
cache if there are many between. Weights (K, C, R, S) of a convolution are read so: for each tap
every ninth number, in sectors that have all nine taps:

    for r: for s: for c:                for c: for r: for s:
      sums += x(c, r, s) @ w(c, r, s)     sums += x(c, r, s) @ w(c, r, s)

In the second order eight of nine rounds find their sectors in the first cache. Which loop moves
least in memory is known where its step is a number; of others a step of 64 strides is guessed to
be longer than one of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from workbench.analysis.affine import Affine, tile_forms
from workbench.analysis.forms import Atom, Form, Monomial
from workbench.ir import Block, Builder, Module, Op, Value, copy_op, rebuild, shape_of, walk
from workbench.ops import For, Yield, counted, counted_loops, pointee_of
from workbench.passes.cleanup import hoist_invariants
from workbench.passes.manager import Remarks
from workbench.targets.simt.rules import Access, Device

OPTION = "reorder_rounds"
#: An attribute of modules whose rounds read again what the first cache holds, if it has room.
READS_AGAIN = "reads_again"


def order_loops(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Put the loop inside whose rounds read the same sectors, of loops around one product.

    Needs: loops of which each only prepares the next, with bounds that do not depend on those
    around them; what they carry are sums of products, which nobody else reads; no writes, no order
    that others see; loads of which no axis lies side by side, so that sectors are read in part.
    Keeps: every product; sums are added up in another order (not under `exact`, nor where
    `reorder_rounds` is off).
    """
    attributes = module.attributes
    if attributes.get("exact") or not attributes.get(OPTION, True):
        return module
    nests = {nest.loops[0].id: nest for nest in _nests(module)}
    if not nests:
        return module
    facts = tile_forms(module)
    orders = {
        number: order
        for number, nest in nests.items()
        if (order := _order(nest, facts, chip)) is not None
    }
    if not orders:
        return module

    def rewrite(op: Op, builder: Builder) -> tuple[Value, ...] | None:
        order = orders.get(op.id)
        if order is None:
            return None
        nest = _nest(op)
        assert nest is not None
        counters = ", ".join(nest.loops[n].counter.hint or "?" for n in order)
        text = f"loops in the order {counters}: rounds in a row read the same sectors"
        remarks.note(op, text, "applied")
        return _written(nest, order, builder)

    # What the cache has is not worth the bytes of a ring, unless the author says so.
    ahead = attributes.get("through_registers", False)
    given = {READS_AGAIN: True, "through_registers": ahead}
    return hoist_invariants(rebuild(module, rewrite, **given), remarks)


@dataclass(frozen=True, slots=True)
class _Nest:
    """Loops of which each but the last only prepares the next one, outermost first.

    before: what stands in front of each inner loop, all of it pure.
    """

    loops: tuple[For, ...]
    before: tuple[Op, ...]


# -- which loops may change places ----------------------------------------------------------------
def _nests(module: Module) -> Iterator[_Nest]:
    """Yield the nests of a module, each as deep as it may be."""
    inside: set[int] = set()
    for loop in counted_loops(module.walk()):
        if loop.id not in inside and (nest := _nest(loop)) is not None:
            inside |= {inner.id for inner in nest.loops}
            yield nest


def _nest(op: Op) -> _Nest | None:
    """Return the nest that begins with a loop, if its rounds may come in any order."""
    loops, before = list[For](), list[Op]()
    made: set[Value] = set()
    loop = counted(op)
    while loop is not None:
        bounds = (loop.lower, loop.upper, loop.step)
        if loop.hints or loop.schedule or loop.stages is not None or not made.isdisjoint(bounds):
            return None
        loops.append(loop)
        *first, end = loop.body.ops
        inner = counted(first.pop()) if first else None
        if inner is None:
            break
        handed = loop.body.arguments[1:]
        plain = all(one.pure and one.results and not one.regions for one in first)
        if not plain or inner.inits != handed or end.operands != inner.results:
            return None
        made |= {*loop.body.arguments, *(value for one in first for value in one.results)}
        if any(value in handed for one in first for value in one.operands):
            return None
        before += first
        loop = inner
    nest = _Nest(tuple(loops), tuple(before))
    return nest if len(loops) > 1 and _is_a_sum(loops[-1].body) else None


def _is_a_sum(body: Block) -> bool:
    """Say whether a body adds products to what it is handed, and does nothing else that shows."""
    ops = [*walk(body)]
    if any(op.repeats or not (op.removable or op.ends_block) for op in ops):
        return False
    effects = [effect for op in ops for effect in op.own_effects()]
    if any(effect.writes or effect.order != "plain" for effect in effects):
        return False
    read = [value for op in ops for value in op.operands]
    adds = {p.sums: op.results[0] for op in body.ops if (p := op.multiplies()) is not None}
    for begun, given in zip(body.arguments[1:], body.yields, strict=True):
        value, length = begun, 0
        while read.count(value) == 1 and value in adds:
            value, length = adds[value], length + 1
        if value is not given or not length or read.count(given) != 1:
            return False
    return True


# -- which order --------------------------------------------------------------------------------
def _order(nest: _Nest, facts: Affine, chip: Device) -> list[int] | None:
    """Return the places of a nest's loops in the order that pays; None if that is theirs."""
    found: list[tuple[int, list[int]]] = []
    for op in nest.loops[-1].body.ops:
        access = chip.rules.access_of(op)
        if access is None or not shape_of(access.pointers.type):
            continue
        if (order := _order_for(access, nest, facts, chip.costs.sector_bytes)) is not None:
            elements = 1
            for extent in shape_of(access.pointers.type):
                elements *= extent
            found.append((elements, order))
    return max(found, key=lambda one: one[0])[1] if found else None


def _order_for(access: Access, nest: _Nest, facts: Affine, sector: int) -> list[int] | None:
    """Return the order in which a load's rounds move least; None if it reads whole sectors."""
    pointers, mask = access.pointers, access.mask
    shape, itemsize = shape_of(pointers.type), pointee_of(pointers.type).itemsize
    form = facts.form(pointers)
    if form is None:
        return None
    for axis, extent in enumerate(shape):
        stride = facts.usual_stride(pointers, axis, mask)
        if extent > 1 and (stride is None or stride in (1, -1)):
            return None
    steps = [_step(form, facts.atom("trip", loop.counter)) for loop in nest.loops]
    *_, last = keys = [_distance(step) for step in steps]
    near = (0, sector // itemsize)
    if last < near or not any(key < near for key in keys):
        return None
    return sorted(range(len(keys)), key=lambda n: keys[n], reverse=True)


def _step(form: Form, trip: Atom) -> Form:
    """Return by how much a form moves in a round of a loop."""
    terms: dict[Monomial, int] = {}
    for monomial, coefficient in form.terms.items():
        if trip in monomial:
            rest = [*monomial]
            rest.remove(trip)
            terms[tuple(rest)] = coefficient
    return Form(terms)


def _distance(step: Form) -> tuple[int, int]:
    """Return how far a step goes: a known number of elements, or how many of unknown strides."""
    if step.constant is not None:
        return 0, abs(step.constant)
    return 1, max(abs(coefficient) for coefficient in step.terms.values())


# -- writing --------------------------------------------------------------------------------------
def _written(nest: _Nest, order: Sequence[int], builder: Builder) -> tuple[Value, ...]:
    """Insert a nest's loops in an order, all that they prepare in the innermost one."""
    first, values = nest.loops[0], dict[Value, Value]()

    def write(depth: int, sums: Sequence[Value]) -> tuple[Value, ...]:
        if depth == len(order):
            innermost = nest.loops[-1].body
            values.update(zip(innermost.arguments[1:], sums, strict=True))
            for op in (*nest.before, *innermost.ops[:-1]):
                builder.insert(copy_op(op, values, builder))
            return tuple(values.get(value, value) for value in innermost.yields)
        loop = nest.loops[order[depth]]
        counter, *_ = loop.body.arguments
        held = values[counter] = Value(counter.type, counter.hint)
        carried = [Value(value.type, value.hint) for value in first.body.arguments[1:]]
        with builder.block() as ops:
            builder.insert(Yield(write(depth + 1, carried)))
        made = loop.changed(inits=tuple(sums), body=Block((held, *carried), tuple(ops)))
        made.__dict__["id"], made.__dict__["origins"] = 0, (loop.id,)
        return builder.insert(made).results

    return write(0, first.inits)


__all__ = ["READS_AGAIN", "order_loops"]
