"""What may be raised to boxes of tensor maps, of loads and of stores, found out of a whole module.

Forms and geometry are planned as plain data (targets/nvidia/raising.py). Here stand the questions
that only a module answers: which loads feed a product together, whether what they read is stored
meanwhile, which store has its array to itself. What is written of it: `raise_tma.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from workbench.analysis.affine import Affine, tile_forms
from workbench.analysis.demanded import Demanded
from workbench.analysis.forms import Atom, Form, number
from workbench.analysis.hulls import FormSteps, UnknownForm, known_intervals
from workbench.analysis.memory import ANYWHERE, Memory
from workbench.analysis.ranges import FULL32, MARGIN, Interval
from workbench.analysis.transfer import renamed, rewritten
from workbench.ir import (
    I32,
    Block,
    Effect,
    Module,
    Op,
    Value,
    element_of,
    layout_of,
    shape_of,
    walk,
)
from workbench.layouts.box_stores import BoxStores
from workbench.ops import For
from workbench.passes.manager import Remarks
from workbench.passes.rules import constant_of
from workbench.targets.nvidia.box_plans import UNBOUNDED, NotRaised, Plan, TileRead, together
from workbench.targets.nvidia.form_intervals import AnyForm, KnownForm
from workbench.targets.nvidia.form_names import Names
from workbench.targets.nvidia.ops.tensors import GRAIN
from workbench.targets.nvidia.passes.feeders import Feeders, Feeding
from workbench.targets.nvidia.raising import Request, plan
from workbench.targets.nvidia.tensors import box_stores_of
from workbench.targets.nvidia.tile_parts import Splitter
from workbench.targets.simt.copying import Sent
from workbench.targets.simt.corners import is_known

#: Bytes of a row of the boxes that are stored unasked, and of an access that boxes do not better: a
#: multiprocessor takes a turn for each line of memory that an access meets.
_ROW_BYTES = 64
#: Bytes of elements from which on fragments are stored as they are, unless boxes do.
_DIRECT = 4


@dataclass(frozen=True, slots=True)
class PlannedStore:
    """A store that is raised: of the tile before it goes to other threads."""

    store: Op
    tile: Value
    plan: Plan
    exact: tuple[Form, ...]
    boxes: BoxStores

    def room(self, module: Module) -> int:
        """Return the bytes of shared memory without which threads had better store it themselves.

        Of the tile, so that no box waits for another, where they would turn it there as well. Where
        they store what they have, of a box of each warp.
        """
        each = module.attributes["num_warps"] // self.boxes.together * self.boxes.bytes
        return each if self.tile in self.store.operands else len(self.boxes.pieces) * each


@dataclass(frozen=True, slots=True)
class PlannedLoad(Feeding):
    """One that is raised, and its loop if it has one.

    exact: forms that 32 bits hold all over its tile.
    """

    plan: Plan
    exact: tuple[Form, ...]
    loop: For | None


class Plans:
    """Finds out what may be raised of a module, and to what."""

    def __init__(self, module: Module, feeders: Feeders) -> None:
        self.module = module
        self.feeders = feeders
        self.facts: Affine = tile_forms(module)
        self.memory = Memory(module)
        self.parameters = {p.name: p.value for p in module.parameters}
        self.names = Names(module, self.facts)
        self._observed: Demanded | None = None
        #: Intervals of what is asked, as far as they are known now.
        self.known = KnownForm(module, self.facts)
        self.anything = AnyForm(module, self.facts)

    # -- which loads ----------------------------------------------------------------------
    def of(
        self, groups: Iterable[tuple[For | None, list[Feeding]]], remarks: Remarks
    ) -> list[PlannedLoad]:
        """Return everything of some loops that can be raised."""
        return [one for loop, loads in groups for one in self._together(loop, loads, remarks)]

    def _together(
        self, loop: For | None, loads: list[Feeding], remarks: Remarks
    ) -> list[PlannedLoad]:
        """Return loads of a loop with their plans, none if one of them has none.

        What operands are computed of comes by boxes if all of it does, but for what threads load a
        round ahead: beside other copies boxes gain nothing (an H100, 4096 rows of words 0.94). What
        no copy brings as a product reads it, and threads store, is no reason to copy the rest.
        """
        found: list[PlannedLoad] = []
        missed: list[Op] = []
        computed: list[Op] = []
        for one in loads:
            try:
                plans = self._plan(loop, one)
                found.append(PlannedLoad(one.load, one.how, one.tile, one.computed, *plans, loop))
            except NotRaised as why:
                (computed if one.computed else missed).append(one.load)
                kind = "note" if one.computed else "missed"
                remarks.note(one.load, f"not raised to a tensor map: {why}", kind)
        if missed and loop is not None:
            stored = self.feeders.stored_by_threads(loop)
            missed = [load for load in missed if load not in stored]
        if computed and loop is not None:
            soon = self.feeders.loaded_soon(loop)
            computed = [load for load in computed if load not in soon]
        kept = [one for one in found if not (missed or (one.computed and computed))]
        for raised in found:
            if raised in kept:
                remarks.note(raised.load, self._told(raised.plan), "applied")
                _answer_hints(raised, remarks)
                continue
            other = self.names.of((missed or computed)[0].result)
            text = f"not raised to a tensor map: {other}, loaded in the same loop, is not"
            remarks.note(raised.load, text, "note" if raised.computed else "missed")
        return kept

    # -- which stores ---------------------------------------------------------------------
    def stores(self, remarks: Remarks) -> list[PlannedStore]:
        """Return the stores that can be raised."""
        found: list[PlannedStore] = []
        for op in self.module.walk():
            how = self.feeders.rules.sent_of(op)
            if how is None or len(shape_of(how.tile.type)) != 2:
                continue
            converted = how.tile.op is not None and how.tile.op.converts
            if not converted and element_of(how.tile.type).itemsize < _DIRECT:
                continue  # its threads have the rows that they store
            try:
                raised = self._stored(op, how)
            except NotRaised as why:
                if converted:
                    remarks.note(op, f"not stored by boxes of a tensor map: {why}", "missed")
                continue
            if not converted and _row_bytes(raised) >= _ROW_BYTES:
                continue
            found.append(raised)
            text = self._told(raised.plan).replace("raised to a tensor map", "stored by boxes of")
            remarks.note(op, text, "applied")
            for name, word in how.unheard.items():
                text = "the store is copies of boxes, which take none here"
                remarks.note(op, f"{name} '{word}' is not obeyed: {text}", "missed")
        return found

    def _stored(self, op: Op, how: Sent) -> PlannedStore:
        """Return the plan of a store; raises NotRaised where it has none."""
        if how.obstacle:
            raise NotRaised(how.obstacle)
        self._is_alone(op)
        made = how.tile.op
        tile = made.operands[0] if made is not None and made.converts else how.tile
        request, exact = self._request(how.pointers, how.mask, tile)
        found = plan(self.facts, request)
        if found.windows:
            raise NotRaised("its rows are places of several axes, one behind the other")
        if any(axis.told == () for axis in found.axes):
            raise NotRaised("its mask or its address depends on what is read from memory")
        for axis, start in found.begins:
            # The hardware copies nothing to memory from in front of an array, unlike from memory.
            if axis.bounded_below and not axis.within and self._known(start)[0] < 0:
                held = self.names.spelled(start)
                raise NotRaised(f"a box may begin at {held}, in front of where its mask is on")
        end, size = found.axes[-1].extent, request.itemsize
        if self.facts.divisor(end) * size % GRAIN:
            held = self.names.spelled(end)
            raise NotRaised(f"rows end at {held}, not known to be a multiple of {GRAIN} bytes")
        boxes = box_stores_of(tile, found.places, len(found.axes))
        wanted = self.module.attributes.get("tma_stores")
        if boxes is None:
            raise NotRaised("no warp has boxes of it with rows of 64 bytes")
        if not wanted and (boxes.swizzle < _ROW_BYTES or boxes.together > 1):
            takes = "takes 32" if boxes.together == 1 else "has several make them together"
            raise NotRaised(f"no warp has boxes of it with rows of 64 bytes (tma_stores {takes})")
        self._may_begin(found)
        return PlannedStore(op, tile, found, exact, boxes)

    def _is_alone(self, store: Op) -> None:
        """Raise NotRaised where the order of a store and other accesses can be told."""
        before, after = _around(self.module.body, store)
        (own,) = store.own_effects()
        orders = (e for e in (*before, *after) if e.space == "global" and e.order != "plain")
        if not all(e.is_wait for e in orders):  # who stores has waited itself
            raise NotRaised("the kernel waits for other programs or signals to them")

        others = [*(e for e in before if e.writes), *(e for e in after if e.reads or e.writes)]
        for e in others:
            if e.space == "global" and self.memory.may_meet(own, e):
                names = ", ".join(sorted(self.memory.roots(e)))
                raise NotRaised(f"what the kernel accesses through {names} may be the same memory")

    def _told(self, plan: Plan) -> str:
        """Say what a load was raised to."""
        told = [*plan.told]
        shown = ", ".join(self.names.spelled(start) for start, _ in told)
        extents = ", ".join(
            "any" if end == number(UNBOUNDED) else self.names.spelled(end) for _, end in told
        )
        text = f"raised to a tensor map: {plan.root}[{shown}] of extents [{extents}]"
        if plan.parts:
            text += f", the first of {len(plan.parts)} boxes"
        for atom in plan.dropped:
            index = self.names.spelled(Form({(atom,): 1})).removeprefix("(").removesuffix(")")
            text += f"; {index} dropped: nobody looks past it"
        return text

    def _plan(self, loop: For | None, feeding: Feeding) -> tuple[Plan, tuple[Form, ...]]:
        """Return the box of a load, and which forms have to fit 32 bits for it."""
        how, tile = feeding.how, feeding.tile
        self._obstacle(loop, feeding)
        request, exact = self._request(how.pointers, how.mask, feeding.load.result)
        shape = shape_of(tile.type)
        if tile is not feeding.load.result:
            held = self._without_axes(feeding.load, (request.form, *request.conjuncts))
            request = replace(request, form=held[0], conjuncts=tuple(held[1:]), shape=shape)

        def never(held: Form) -> bool:
            return self._never(held, shape)

        def looked_at(axis: int) -> str:
            return self._looked_at(tile, axis)

        request = replace(
            request, demanded=lambda: self._demanded(tile), never=never, looked_at=looked_at
        )
        try:
            found = plan(self.facts, request)
        except TileRead as why:
            found = self._plan_of_parts(request, feeding.load, why)
        if not self.feeders.feeds(feeding, found.axes[-1].axis):
            raise NotRaised("the product does not read it in the order that memory has")
        self._may_begin(found)
        return found, exact

    def _request(
        self, pointers: Value, mask: Value | None, tile: Value
    ) -> tuple[Request, tuple[Form, ...]]:
        """Return an access of a tile's elements, and which forms have to fit 32 bits for it."""
        form, shape = self.facts.form(pointers), shape_of(tile.type)
        if form is None:
            raise NotRaised("its address is not known as a form of indices")
        form, exact = self._unwrapped(form, shape)
        elements = {name: element_of(v.type) for name, v in self.parameters.items()}
        request = Request(
            form=form,
            shape=shape,
            itemsize=element_of(tile.type).itemsize,
            conjuncts=() if mask is None else tuple(self.facts.conjuncts(mask)),
            demanded=tuple,
            pointers=[name for name, element in elements.items() if element.kind == "pointer"],
            words=self.names.spelled,
            never=lambda held: self._never(held, shape),
            narrow=self.fits,
            known=self._known,
        )
        return request, exact

    def _may_begin(self, found: Plan) -> None:
        """Raise NotRaised where boxes begin at what no launch can be asked about."""
        for held in found.at_least_0:
            self._provable(held)
        for axis, coordinate in found.begins:
            # A box of one element may begin at any number of 32 bits, longer ones not at the last.
            if axis.within:
                continue
            if axis.bounded_below and (axis.axis is not None or not self.fits(coordinate)):
                self._provable(coordinate)

    def _plan_of_parts(self, request: Request, load: Op, why: TileRead) -> Plan:
        """Return the boxes that a load's tile is whose rows lie where another one says."""

        def loads(op: Op) -> tuple[Value, Value | None] | None:
            access = self.feeders.rules.access_of(op)
            reads = all(e.reads and e.removable for e in op.own_effects())
            reads = reads and all(is_known(value, ()) for value in op.operands)
            reads = reads and self.memory.is_kept(op, load)
            return (access.pointers, access.mask) if access is not None and reads else None

        splitter = Splitter(self.facts, loads, lambda form: self._known(form)[0] >= 0)
        reason: NotRaised = why
        for found in splitter.splits(request.form, request.conjuncts, request.shape):
            parts = (
                replace(request, form=form, conjuncts=held, shape=found.shape, demanded=tuple)
                for form, held in found.parts
            )
            try:
                return together([plan(self.facts, part) for part in parts], found.axis)
            except NotRaised as other:
                reason = other
        raise reason

    def _known(self, form: Form) -> Interval:
        """Return the least and the greatest number that a form may be, whatever is loaded."""
        step = self.anything.of(form)
        return known_intervals(self.anything.steps)[step]

    def _unwrapped(self, form: Form, shape: tuple[int, ...]) -> tuple[Form, tuple[Form, ...]]:
        """Return a form with products of 32 bits as what they are where these hold them.

        With those of which a launch can be asked that they do, all over a tile of a shape.
        """
        exact: list[Form] = []

        def leaf(atom: Atom) -> Form | None:
            found = self.facts.unwrapped(atom)
            if found is None:
                return None
            found = rewritten(self.facts, found, leaf)
            try:
                self.known.of(found, shape)
            except UnknownForm:
                return None
            exact.append(found)
            return found

        return rewritten(self.facts, form, leaf), tuple(exact)

    def _without_axes(self, load: Op, forms: Sequence[Form]) -> list[Form]:
        """Return forms over a load's tile as forms over that without its axes of extent 1."""
        kept = [d for d, extent in enumerate(shape_of(load.result.type)) if extent != 1]

        def place(axis: int) -> Form:
            return self.facts.coordinate(kept.index(axis)) if axis in kept else number(0)

        return [renamed(self.facts, form, place) for form in forms]

    def _obstacle(self, loop: For | None, feeding: Feeding) -> None:
        """Raise NotRaised where a load must not be read before its turn, or with other zeros."""
        how = feeding.how
        if how.other is not None and how.mask is not None:
            other = constant_of(how.other)
            if other != 0:
                held = self.names.of(how.other) if other is None else other
                raise NotRaised(f"other={held} feeds a product, outside of a map is 0")
        if how.obstacle:
            raise NotRaised(how.obstacle)
        inside = [e for e in (loop.effects() if loop else ()) if e.space == "global"]
        for effect in feeding.load.own_effects():
            if effect.order != "plain":
                raise NotRaised("the load is volatile")
            roots = self.memory.roots(effect)
            if roots & self.memory.written or ANYWHERE in self.memory.written:
                raise NotRaised("the kernel stores through the same argument")
            if any(e.writes and self.memory.may_meet(effect, e) for e in inside):
                raise NotRaised("the loop stores to memory it might load")
            # An order that others may see is kept for what they may write.
            if any(e.order != "plain" for e in inside) and not self.memory.is_settled(effect):
                raise NotRaised("the loop waits for other programs or signals to them")

    def follows_stores(self, loop: For, load: Op) -> bool:
        """Say whether what a load of a loop reads may have been stored before the loop."""

        def before(block: Block, again: bool) -> Iterator[Op]:
            """Yield ops that may run before the loop; `again`: the block is run round by round."""
            inside = [op is loop or any(o is loop for o in _inside(op)) for op in block.ops]
            place = inside.index(True)
            for n, op in enumerate(block.ops):
                if n == place and op is not loop:
                    for region in op.regions:
                        if any(o is loop for o in walk(region)):
                            yield from before(region, again or op.repeats)
                elif n < place or again:
                    yield from (op, *_inside(op))

        reads = load.own_effects()
        first = [e for op in before(self.module.body, again=False) for e in op.own_effects()]
        # Whoever waited for other programs sees what they stored anywhere in the kernel.
        if any(e.order != "plain" and e.space == "global" for e in first):
            first = [e for op in self.module.walk() for e in op.own_effects()]
        return any(
            e.space == "global" and e.writes and any(self.memory.may_meet(r, e) for r in reads)
            for e in first
        )

    def _demanded(self, tile: Value) -> list[Form]:
        if self._observed is None:
            self._observed = Demanded(self.module, self.facts)
        demand = self._observed.of(tile) or {}
        return [held for forms in demand.values() for held in forms]

    def _looked_at(self, tile: Value, axis: int) -> str:
        op = None if self._observed is None else self._observed.observer(tile, axis)
        if op is None:
            return ""
        line = f" at line {op.span.line}" if op.span is not None else ""
        return f"{op.name}{line}"

    # -- what the launch is asked ---------------------------------------------------------
    def _provable(self, held: Form) -> bool:
        """Say whether a form is known not to be negative and to fit 32 bits; else a launch says.

        Raises NotRaised where that depends on what the kernel reads.
        """
        low, high = self._known(held)
        fits = high <= FULL32[1] - MARGIN or self.fits(held)
        if low >= 0 and fits:
            return True
        try:
            self.known.of(held)
        except UnknownForm:
            raise NotRaised(
                f"it begins at {self.names.spelled(held)}, which is read from memory or has no "
                "closed form and may be negative"
            ) from None
        return False

    def is_small(self, form: Form) -> bool:
        """Say whether 32 bits are known to hold a form."""
        if self.fits(form):
            return True
        low, high = self._known(form)
        if FULL32[0] <= low and high <= FULL32[1]:
            return True
        atom = next(iter(form.atoms()), None)
        if atom is None or atom.kind not in ("div", "rem") or form != Form({(atom,): 1}):
            return False
        # No quotient and no remainder of a number that is not negative is larger.
        return self._known(atom.parts[0])[0] >= 0 and all(map(self.is_small, atom.parts))

    def _never(self, held: Form, shape: tuple[int, ...]) -> bool:
        """Say whether a form is known to be below 0 all over a tile."""
        try:
            step = self.known.of(held, shape)
        except UnknownForm:
            return False
        return known_intervals(self.known.steps)[step][1] < 0

    def fits(self, form: Form) -> bool:
        """Say whether the kernel computes a form in 32 bits, which then hold it."""
        atoms = [*form.atoms()]
        if len(atoms) == 1 and atoms[0].kind == "element" and form == Form({(atoms[0],): 1}):
            return element_of(atoms[0].key[0].type) == I32
        return self.names.narrow(form)

    def ask(self, plan: Plan, facts: FormSteps) -> Iterator[int]:
        for held in plan.at_least_0:
            if not self._provable(held):
                yield facts.of(held)
        for axis, coordinate in plan.begins:
            if axis.bounded_below and not (axis.within or self.fits(coordinate)):
                facts.of(coordinate)


def _row_bytes(raised: PlannedStore) -> int:
    """Return the bytes of a row of memory that one access of a warp stores of a tile as it is."""
    layout, size = layout_of(raised.tile.type), element_of(raised.tile.type).itemsize
    assert layout is not None
    inner = raised.plan.places.index(len(raised.plan.axes) - 1)
    below = sum(layout.bits[inner + 1 :])
    lanes, registers, run = set(layout.flat("lane")), set(layout.flat("register")), 0
    while run < layout.bits[inner]:
        column = 1 << below + run
        if column not in lanes and (column not in registers or size << run >= GRAIN):
            break
        run += 1
    return size << run


def _answer_hints(raised: PlannedLoad, remarks: Remarks) -> None:
    for name, word in raised.how.unheard.items():
        text = "the load is a copy of a box, which takes none here"
        remarks.note(raised.load, f"{name} '{word}' is not obeyed: {text}", "missed")


def _around(block: Block, op: Op) -> tuple[list[Effect], list[Effect]]:
    """Return the effects of what may run before an op, and of what may run after it.

    Of a loop around it that is all of the loop, the op too.
    """
    for place, other in enumerate(block.ops):
        if other is not op and not any(inner is op for inner in _inside(other)):
            continue
        before = [e for one in block.ops[:place] for e in one.effects()]
        after = [e for one in block.ops[place + 1 :] for e in one.effects()]
        if other.repeats:
            before, after = [*before, *other.effects()], [*after, *other.effects()]
        elif other is not op:
            for region in other.regions:
                first, last = _around(region, op)
                before, after = [*before, *first], [*last, *after]
        return before, after
    return [], []


def _inside(op: Op) -> Iterator[Op]:
    """Yield all ops in an op's regions."""
    for region in op.regions:
        yield from walk(region)
