"""Which elements of a tile anybody can observe, as conjuncts by axis.

The *demand* on a value maps an axis to forms that are below 0 at every coordinate whose element
reaches memory, another element, a decision or the outside; an axis without an entry is observed
everywhere. So `% M` on the rows of a product may go where only rows below M are stored: every row
of a product comes from that row of its first operand alone.

Law: replace the elements of a value at coordinates that its demand excludes by anything at all,
and every byte that the kernel stores stays the same. By induction from the end: the output of each
op at a demanded coordinate reads demanded inputs only, and no op fails for what it is given
(division by zero has a meaning).

| use | demand on the operand |
|---|---|
| stored value, atomic update | the conjuncts of the mask, by axis |
| elementwise | that on the result |
| select(c, a, b) | a: also the conjuncts of c |
| moved (broadcast, transposed …) | the image of the axes; an axis that merges or repeats: all |
| products | a: rows of the result, b: its columns; all of k |
| reduction, scan along d | d: all; other axes as the result's |
| handed on by loops and branches | that on whatever receives it |
| anything else | all |

A conjunct that names what changes from round to round of a loop says something about this round
alone, so it is dropped where a value goes on into the next, and outside of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from workbench.analysis.affine import Affine
from workbench.analysis.forms import Atom, Form, all_atoms
from workbench.analysis.transfer import renamed
from workbench.ir import Block, Module, Op, Product, Value, shape_of
from workbench.ops import (
    AtomicUpdate,
    Broadcast,
    ConvertLayout,
    Elementwise,
    ExpandDims,
    Promise,
    Reduce,
    Reshape,
    Scan,
    Select,
    Store,
    Transpose,
)

#: Forms below 0 wherever the axis is observed; all of it without an entry.
Demand = Mapping[int, frozenset[Form]]
ALL: Demand = {}
Given = Iterable[tuple[Value, Demand]]
#: (the analysis, op, demand on its results) -> demand on each operand that is not observed whole.
Rule = Callable[["Demanded", Any, Demand], Given]


class Demanded:
    """What of each value of a module is observed."""

    def __init__(self, module: Module, facts: Affine) -> None:
        self.facts = facts
        self._found: dict[Value, Demand] = {}
        #: The op that observes all of an axis, by value and axis.
        self._blame: dict[tuple[Value, int], Op] = {}
        self._loops: dict[Value, tuple[Op, ...]] = {}
        self._number(module.body, ())
        self._changed = True
        while self._changed:  # sets only shrink
            self._changed = False
            self._block(module.body)

    def of(self, value: Value) -> Demand | None:
        """Return the demand on a value, None if nobody observes it."""
        return self._found.get(value)

    def observer(self, value: Value, axis: int) -> Op | None:
        """Return the op because of which all of an axis is observed, if it is known."""
        return self._blame.get((value, axis))

    def moved(self, demand: Demand, place: Callable[[int], int | None]) -> Demand:
        """Return a demand whose axes are at other places; None: they are gone."""
        found: dict[int, frozenset[Form]] = {}
        for axis, held in demand.items():
            target = place(axis)
            if target is not None:
                x = self.facts.coordinate(target)
                found[target] = frozenset(renamed(self.facts, h, lambda _, x=x: x) for h in held)
        return found

    def by_axis(self, mask: Value | None) -> Demand:
        """Return what a mask says of each axis alone."""
        found: dict[int, frozenset[Form]] = {}
        for held in () if mask is None else self.facts.conjuncts(mask):
            if len(held.axes) == 1:
                (axis,) = held.axes
                found[axis] = found.get(axis, frozenset()) | {held}
        return found

    # -- the fixed point ------------------------------------------------------------------
    def _number(self, block: Block, loops: tuple[Op, ...]) -> None:
        """Note inside of which loops each value is defined."""
        self._loops.update(dict.fromkeys(block.arguments, loops))
        for op in block.ops:
            self._loops.update(dict.fromkeys(op.results, loops))
            for region in op.regions:
                self._number(region, (*loops, op) if op.repeats else loops)

    def _block(self, block: Block) -> None:
        for op in reversed(block.ops):
            flows = op.flows()
            for given, received in flows:
                self._flow(op, given, received)
            for value in op.decided_by():
                self._join(value, ALL, op, ALL)
            for region in op.regions:
                if not flows and not op.decided_by():
                    for value in region.yields:
                        self._join(value, ALL, op, ALL)
                self._block(region)
            if not flows and not op.ends_block:
                self._op(op)

    def _flow(self, op: Op, given: Value, received: Value) -> None:
        demand = self._found.get(received)
        if demand is None:
            return
        inside = self._loops.get(received, ())
        if op in inside and op in self._loops.get(given, ()):
            demand = {  # into the next round, where this round's numbers are others
                axis: kept
                for axis, held in demand.items()
                if (kept := frozenset(h for h in held if not self._names(h, op)))
            }
        self._join(given, demand, op, self._found[received], received)

    def _op(self, op: Op) -> None:
        wanted = [d for r in op.results if (d := self._found.get(r)) is not None]
        if not wanted and op.removable:
            return
        demand = _both(wanted) if wanted else ALL
        rule, product = RULES.get(type(op)), op.multiplies()
        given: dict[Value, list[Demand]] = {}
        if rule is not None:
            for value, found in rule(self, op, demand):
                given.setdefault(value, []).append(found)
        elif product is not None:
            for value, found in _of_product(product, demand):
                given.setdefault(value, []).append(found)
        elif op.pointwise and op.removable and len(op.results) == 1:
            shape = shape_of(op.results[0].type)
            for value in op.operands:
                same = shape_of(value.type) == shape
                given.setdefault(value, []).append(demand if same else ALL)
        result = op.results[0] if op.results else None
        for value in dict.fromkeys(op.operands):
            found = given.get(value, [])
            # An operand of which the rule says nothing is observed whole, all its places count.
            whole = len(found) < op.operands.count(value)
            self._join(value, ALL if whole else _both(found), op, demand, result)

    def _join(
        self, value: Value, demand: Demand, op: Op, above: Demand, result: Value | None = None
    ) -> None:
        """Let a value be observed by one more op, whose result is observed as `above` says."""
        shape, mine = shape_of(value.type), self._loops.get(value, ())
        demand = {
            axis: kept
            for axis, held in demand.items()
            if (kept := frozenset(h for h in held if self._means_the_same(h, mine)))
        }
        old = self._found.get(value)
        new = demand if old is None else _both([old, demand])
        if old is not None and new == old:
            return
        self._found[value] = new
        self._changed = True
        for axis in range(len(shape)):
            if axis in new or (value, axis) in self._blame or axis in demand:
                continue
            lost = axis in above or result is None or getattr(op, "axis", None) == axis
            passed = None if lost or result is None else self._blame.get((result, axis))
            self._blame[value, axis] = op if passed is None else passed

    def _names(self, form: Form, loop: Op) -> bool:
        """Say whether a form may differ between the rounds of a loop."""
        return any(loop in self._loops_of(atom) for atom in all_atoms(form))

    def _means_the_same(self, form: Form, loops: tuple[Op, ...]) -> bool:
        """Say whether a form has one value while what is defined inside of `loops` is held."""
        return all(_is_prefix(self._loops_of(atom), loops) for atom in all_atoms(form))

    def _loops_of(self, atom: Atom) -> tuple[Op, ...]:
        """Return the loops in whose rounds an atom may differ, outermost first."""
        if atom.kind in ("trip", "trips", "value"):
            return self._loops.get(atom.key, ())
        if atom.kind in ("promise", "moved"):
            return self._loops.get(atom.key[0], ())
        return ()


def _is_prefix(inner: tuple[Op, ...], outer: tuple[Op, ...]) -> bool:
    return len(inner) <= len(outer) and all(a is b for a, b in zip(inner, outer, strict=False))


def _both(demands: Iterable[Demand]) -> Demand:
    """Return the demand of several users: what holds for all of them."""
    first, *others = demands
    found = dict(first)
    for other in others:
        found = {d: both for d, held in found.items() if (both := held & other.get(d, frozenset()))}
    return found


# -- rules ------------------------------------------------------------------------------------
def _store(self: Demanded, op: Store, demand: Demand) -> Given:
    yield op.value, self.by_axis(op.mask)


def _atomic(self: Demanded, op: AtomicUpdate, demand: Demand) -> Given:
    """What it gives back depends on other lanes too, but on none that the mask leaves out."""
    yield op.value, self.by_axis(op.mask)


def _select(self: Demanded, op: Select, demand: Demand) -> Given:
    shape = shape_of(op.result.type)
    yield op.otherwise, demand if shape_of(op.otherwise.type) == shape else ALL
    if shape_of(op.condition.type) == shape:
        yield op.condition, demand
    if shape_of(op.then.type) == shape:
        more = self.by_axis(op.condition) if shape_of(op.condition.type) == shape else ALL
        both = {*demand, *more}
        none = frozenset[Form]()
        yield op.then, {d: demand.get(d, none) | more.get(d, none) for d in both}


def _elementwise(self: Demanded, op: Elementwise, demand: Demand) -> Given:
    shape = shape_of(op.result.type)
    if op.function in ("div", "rem"):  # a divisor of 0 is looked at wherever it is
        yield op.inputs[0], demand
        return
    for value in op.inputs:
        yield value, demand if shape_of(value.type) == shape else ALL


def _broadcast(self: Demanded, op: Broadcast, demand: Demand) -> Given:
    source = shape_of(op.source.type)
    yield op.source, {d: held for d, held in demand.items() if source[d] != 1}


def _reshape(self: Demanded, op: Reshape, demand: Demand) -> Given:
    """Only axes that stay as they are, counted from the front or from the back, keep theirs."""
    source, target = shape_of(op.source.type), op.shape
    same = {d: d for d in _common(source, target)}
    for d in _common(source[::-1], target[::-1]):
        same.setdefault(len(target) - 1 - d, len(source) - 1 - d)
    yield op.source, self.moved(demand, same.get)


def _common(a: tuple[int, ...], b: tuple[int, ...]) -> Iterator[int]:
    for d, (m, n) in enumerate(zip(a, b, strict=False)):
        if m != n:
            return
        yield d


def _reduce(self: Demanded, op: Reduce, demand: Demand) -> Given:
    kept = self.moved(demand, lambda d: d + (d >= op.axis))
    for value in op.inputs:
        yield value, kept


def _scan(self: Demanded, op: Scan, demand: Demand) -> Given:
    for value in op.inputs:
        yield value, {d: held for d, held in demand.items() if d != op.axis}


def _of_product(product: Product, demand: Demand) -> Given:
    rank = len(shape_of(product.sums.type))
    yield product.sums, demand
    yield product.a, {d: held for d, held in demand.items() if d != rank - 1}
    yield product.b, {d: held for d, held in demand.items() if d != rank - 2}


RULES: dict[type[Op], Rule] = {
    Store: _store,
    AtomicUpdate: _atomic,
    Select: _select,
    Elementwise: _elementwise,
    Broadcast: _broadcast,
    Reshape: _reshape,
    Reduce: _reduce,
    Scan: _scan,
    ConvertLayout: lambda self, op, demand: ((op.source, demand),),
    Promise: lambda self, op, demand: ((op.source, demand),),
    ExpandDims: lambda self, op, demand: (
        (op.source, self.moved(
            demand, lambda d: None if d == op.axis else d - (d > op.axis))),
    ),
    Transpose: lambda self, op, demand: (
        (op.source, self.moved(demand, lambda d: op.order[d])),
    ),
}  # fmt: skip
