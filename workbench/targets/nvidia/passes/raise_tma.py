"""Loads that feed products by warpgroups, as boxes of tensor maps.

What may be raised, and to what, is planned as plain data (targets/nvidia/raising.py); here the plan
is written: the map at the beginning of the kernel, of the launch's arguments alone, and before the
load the coordinates, as scalars. A value that the kernel computes anyway is taken as it is.

A load that becomes a copy by hardware is read earlier than in its turn, as any load that
pipeline-loads copies ahead, and by another way (the asynchronous proxy) than the kernel's own
stores. So nothing that the kernel stores through the same argument is raised, and where arrays of
other arguments may overlap, what was stored before a loop is made seen before the loop.

Stores are raised where loads are and blocks stay: the next program begins while copies go on. Where
a block has one program they gain nothing (H100: 64 x 128 by 64 at 1024 loses 2 %), nor where rings
leave no room for a whole tile (128 x 256 by 64 from 4096 on loses 0.3 to 0.5 %); `tma_stores` does
it all the same. Raised is a tile that goes to other threads for the store alone, as sums of
products do: it is copied from where it lies in shared memory then, and no thread computes an
address (`TensorStore`). What is not masked off is written, nothing else: all of the mask must be
bounds, and rows end at multiples of 16 bytes, as the hardware cuts them there. Such a copy has no
order with what else the kernel stores, or reads later, so nothing of that may be the same memory: a
fence in between, and the barrier that it needs, cost attention 4 to 7 % (H100).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from workbench.analysis.affine import Affine, tile_forms
from workbench.analysis.demanded import Demanded
from workbench.analysis.forms import Atom, Form, number
from workbench.analysis.hulls import Asked, FormSteps, UnknownForm, known_intervals
from workbench.analysis.memory import ANYWHERE, Memory
from workbench.analysis.ranges import FULL32, MARGIN, Interval, Step
from workbench.analysis.transfer import renamed, rewritten
from workbench.ir import (
    DROP,
    I1,
    I32,
    I64,
    Block,
    Drop,
    Effect,
    Module,
    Op,
    Scalar,
    TensorMap,
    Tile,
    Value,
    element_of,
    layout_of,
    shape_of,
    walk,
)
from workbench.ir.rebuild import Rebuilder
from workbench.layouts.box_stores import BoxStores
from workbench.ops import AddPointer, For
from workbench.passes.manager import Remarks
from workbench.passes.rules import constant_of
from workbench.targets.nvidia.box_plans import UNBOUNDED, NotRaised, Plan, TileRead, together
from workbench.targets.nvidia.form_intervals import AnyForm, KnownForm
from workbench.targets.nvidia.form_names import Names
from workbench.targets.nvidia.form_values import Scalars
from workbench.targets.nvidia.ops import (
    FenceProducts,
    MakeTensorMap,
    TensorLoad,
    TensorStore,
)
from workbench.targets.nvidia.ops.tensors import GRAIN
from workbench.targets.nvidia.passes.feeders import Feeders, Feeding
from workbench.targets.nvidia.passes.roles import left_by_rings, will_stay
from workbench.targets.nvidia.raising import Request, plan
from workbench.targets.nvidia.tensors import box_stores_of, stored_piece
from workbench.targets.nvidia.tile_parts import Splitter
from workbench.targets.simt.corners import is_known
from workbench.targets.simt.rules import Device, Sent


@dataclass(frozen=True, slots=True)
class _PlannedStore:
    """A store that is raised: of the tile before it goes to other threads."""

    store: Op
    tile: Value
    plan: Plan
    exact: tuple[Form, ...]
    boxes: BoxStores

    @property
    def bytes(self) -> int:
        """Of the tile: what copies read, where no box waits for another."""
        return prod(shape_of(self.tile.type)) * element_of(self.tile.type).itemsize


@dataclass(frozen=True, slots=True)
class _Planned(Feeding):
    """One that is raised, and its loop if it has one.

    exact: forms that 32 bits hold all over its tile.
    """

    plan: Plan
    exact: tuple[Form, ...]
    loop: For | None


def raise_tma(module: Module, remarks: Remarks, chip: Device, room: int | None = None) -> Module:
    """Replace loads that products by warpgroups read in a ring by boxes of tensor maps.

    Before:
        %p = tile.add_pointer %arrays, %offsets : tile<64x64xptr<f16>>
        %a = tile.load %p mask %inside other %zeros : tile<64x64xf16>
    After:
        %a = gpu.tensor_load %map, [%row, %k] {axes = (0, 1), type = tile<64x64xf16>} : tile<64x64xf16>

    Needs: layouts, 32-bit indices. Keeps: every byte that is stored, in launches of which what is
    `asked` (below) holds. All loads of a loop that feed a product are raised, or none. Loads before
    all loops are raised where a producer will bring them: where blocks stay (`roles.will_stay`).
    """  # noqa: E501
    options = module.attributes
    if not options.get("tma", True):
        return _without_stores(module, remarks, "tma=False")
    feeders = Feeders(module, chip)
    groups = [*feeders.groups()]
    if not options.get("narrow_index"):
        for feeding in (feeding for _, loads in groups for feeding in loads):
            text = "not raised to a tensor map: indices are not known to fit 32 bits"
            remarks.note(feeding.load, text, "missed")
        return _without_stores(module, remarks, "indices are not known to fit 32 bits")
    plans = Plans(module, feeders)
    loops = plans.of(groups, remarks) if groups else []
    if not loops:
        return _without_stores(module, remarks, "no product reads what a tensor map brings")
    told, sent, wanted = remarks.aside(), remarks.aside(), options.get("tma_stores")
    stores = plans.stores(sent) if wanted is not False else []
    first = plans.of(feeders.first(), told)
    raised = Raiser(module, plans).written([*loops, *first], stores)
    if stores and not wanted and (why := _why_left(raised, stores, chip, room)):
        sent = remarks.aside()
        for one in stores:
            text = f"not stored by boxes of a tensor map: {why} (tma_stores does it)"
            sent.note(one.store, text, "note")
        stores, raised = [], Raiser(module, plans).written([*loops, *first])
    if first and not will_stay(raised, chip, room):
        first, raised = [], Raiser(module, plans).written(loops, stores)
    if first or options.get("persistent"):
        remarks.take(told)
    remarks.take(sent)
    return raised if stores else _without_stores(raised, remarks, "no store is one of boxes")


def _without_stores(module: Module, remarks: Remarks, why: str) -> Module:
    """Return a module that stores no boxes, which who has asked for them is told."""
    if module.attributes.get("tma_stores"):
        remarks.note(None, f"tma_stores=True is not obeyed: {why}", "missed")
    return module


def _why_left(raised: Module, stores: list[_PlannedStore], chip: Device, room: int | None) -> str:
    """Say why stores that were raised had better be left as they are; "" if they had not."""
    if not will_stay(raised, chip, room):
        return "no next program begins meanwhile"
    if sum(one.bytes for one in stores) > left_by_rings(raised, chip, room):
        return "rings leave no room for all at once, who stores would wait for copies"
    return ""


def asked(module: Module) -> Asked | None:
    """Return what a launch of a module with tensor maps must be asked; None without any."""
    stored = module.attributes.get("tensor_facts")
    if stored is None:
        return None
    steps, at_least_0 = stored
    return Asked(tuple(Step(*step) for step in steps), tuple(at_least_0))


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
    ) -> list[_Planned]:
        """Return everything of some loops that can be raised."""
        return [one for loop, loads in groups for one in self._together(loop, loads, remarks)]

    def _together(self, loop: For | None, loads: list[Feeding], remarks: Remarks) -> list[_Planned]:
        """Return loads of a loop with their plans, none if one of them has none."""
        found: list[_Planned] = []
        missed: list[Op] = []
        for one in loads:
            try:
                found.append(_Planned(one.load, one.how, one.tile, *self._plan(loop, one), loop))
            except NotRaised as why:
                missed.append(one.load)
                remarks.note(one.load, f"not raised to a tensor map: {why}", "missed")
        if not missed:
            for raised in found:
                remarks.note(raised.load, self._told(raised.plan), "applied")
                _answer_hints(raised, remarks)
            return found
        for raised in found:
            other = self.names.of(missed[0].result)
            text = f"not raised to a tensor map: {other}, loaded in the same loop, is not"
            remarks.note(raised.load, text, "missed")
        return []

    # -- which stores ---------------------------------------------------------------------
    def stores(self, remarks: Remarks) -> list[_PlannedStore]:
        """Return the stores that can be raised."""
        found: list[_PlannedStore] = []
        for op in self.module.walk():
            how = self.feeders.rules.sent_of(op)
            if how is None or len(shape_of(how.tile.type)) != 2:
                continue
            if how.tile.op is None or not how.tile.op.converts:
                continue  # its threads have the rows that they store
            try:
                raised = self._stored(op, how)
            except NotRaised as why:
                remarks.note(op, f"not stored by boxes of a tensor map: {why}", "missed")
                continue
            found.append(raised)
            text = self._told(raised.plan).replace("raised to a tensor map", "stored by boxes of")
            remarks.note(op, text, "applied")
            for name, word in how.unheard.items():
                text = "the store is copies of boxes, which take none here"
                remarks.note(op, f"{name} '{word}' is not obeyed: {text}", "missed")
        return found

    def _stored(self, op: Op, how: Sent) -> _PlannedStore:
        """Return the plan of a store; raises NotRaised where it has none."""
        if how.obstacle:
            raise NotRaised(how.obstacle)
        self._is_alone(op)
        assert how.tile.op is not None
        (tile,) = how.tile.op.operands
        request, exact = self._request(how.pointers, how.mask, tile)
        found = plan(self.facts, request)
        if found.windows:
            raise NotRaised("its rows are places of several axes, one behind the other")
        if any(axis.told == () for axis in found.axes):
            raise NotRaised("its mask or its address depends on what is read from memory")
        end, size = found.axes[-1].extent, request.itemsize
        if self.facts.divisor(end) * size % GRAIN:
            held = self.names.spelled(end)
            raise NotRaised(f"rows end at {held}, not known to be a multiple of {GRAIN} bytes")
        boxes = box_stores_of(tile, found.places, len(found.axes))
        if boxes is None:
            raise NotRaised("no warp has boxes of it with rows of 64 bytes")
        self._may_begin(found)
        return _PlannedStore(op, tile, found, exact, boxes)

    def _is_alone(self, store: Op) -> None:
        """Raise NotRaised where the order of a store and other accesses can be told."""
        before, after = _around(self.module.body, store)
        (own,) = store.own_effects()
        if any(e.order != "plain" and e.space == "global" for e in (*before, *after)):
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


def _answer_hints(raised: _Planned, remarks: Remarks) -> None:
    for name, word in raised.how.unheard.items():
        text = "the load is a copy of a box, which takes none here"
        remarks.note(raised.load, f"{name} '{word}' is not obeyed: {text}", "missed")


class Raiser(Rebuilder):
    """Writes what is raised of a module."""

    def __init__(self, module: Module, plans: Plans) -> None:
        super().__init__(module, lambda op, builder: self._replacement(op))
        self.module = module
        self.plans = plans
        self.facts = plans.facts
        self.found: dict[int, _Planned] = {}
        self.stored: dict[int, _PlannedStore] = {}
        #: Loops before which what was stored is made seen.
        self.fenced: set[int] = set()
        #: What becomes of the tiles of loads that lose axes of extent 1, by their ids.
        self.views: dict[int, int] = {}
        self.boxes: dict[int, Value] = {}
        self.maps: dict[int, Value] = {}
        #: Scalars that exist where ops are being written, by what they are.
        self.scopes: list[dict[Form, Value]] = []

    def written(self, planned: Iterable[_Planned], stores: Iterable[_PlannedStore] = ()) -> Module:
        """Return the module with loads and stores raised."""
        facts = KnownForm(self.module, self.facts)
        at_least_0: list[int] = []
        for one in stores:
            self.stored[one.store.id] = one
            at_least_0 += self.plans.ask(one.plan, facts)
            for form in one.exact:
                facts.of(form, shape_of(one.tile.type))
        for raised in planned:
            self.found[raised.load.id] = raised
            at_least_0 += self.plans.ask(raised.plan, facts)
            for form in raised.exact:
                facts.of(form, shape_of(raised.load.result.type))
            if raised.tile.op is not None and raised.tile.op is not raised.load:
                self.views[raised.tile.op.id] = raised.load.id
            if raised.loop is not None and self.plans.follows_stores(raised.loop, raised.load):
                self.fenced.add(raised.loop.id)
        body = self.block(self.module.body)
        steps = tuple((s.kind, s.inputs, s.data) for s in facts.steps)
        stored = (steps, tuple(dict.fromkeys(at_least_0)))
        attributes = {**self.module.attributes, "tensor_facts": stored}
        return replace(self.module, body=body, next_id=self.builder.next_id, attributes=attributes)

    def block(self, block: Block) -> Block:
        """Rebuild a block, with the scalars that exist in it at hand."""
        self.scopes.append({})
        for argument in block.arguments:
            self._offer(argument, argument)
        done = super().block(block)
        self.scopes.pop()
        return done

    def op(self, op: Op) -> None:
        """Put an op into the block, after all maps if it is the first."""
        if not self.maps:
            self._make_maps()
        super().op(op)
        for result in op.results:
            self._offer(result, self.values.get(result, result))

    def _offer(self, old: Value, new: Value) -> None:
        if old.type in (I32, I64):
            form = self.facts.form(old)
            if form is not None:
                self.scopes[-1].setdefault(form, new)
        elif old.type == I1:
            self.scopes[-1].setdefault(Form({(self.facts.atom("value", old),): 1}), new)

    def _scalars(self, type: Scalar) -> Scalars:
        """Return what writes forms where ops are being written."""
        return Scalars(
            self.builder, self.facts, self.plans.names, self.scopes, self.values, type,
            self.plans.is_small,
        )  # fmt: skip

    def _make_maps(self) -> None:
        for value in self.plans.parameters.values():
            self._offer(value, value)
        made: dict[object, Value] = {}
        builder = self.builder
        before = builder.span, builder.origins
        for place, raised in self.found.items():
            found, load, element = raised.plan, raised.load, raised.how.element
            box = found.box(shape_of(raised.tile.type))
            fields = tuple(
                (axis.stride, axis.extent, w and (w.first, w.count, w.step))
                for axis in found.axes
                for w in (axis.window,)
            )
            key = found.root, found.base, box, element, fields
            if key not in made:
                builder.span, builder.origins = load.span, (load.id,)
                walked = bool(found.windows)
                made[key] = self._tensor_map(found, TensorMap(box, element, walked))
            self.maps[place] = made[key]
        for place, one in self.stored.items():
            builder.span, builder.origins = one.store.span, (one.store.id,)
            element, found = element_of(one.tile.type), one.plan
            assert isinstance(element, Scalar)
            type = TensorMap(found.box(shape_of(one.tile.type)), element)
            piece = stored_piece(one.boxes, found.places, len(found.axes))
            self.maps[place] = self._tensor_map(found, type, one.boxes.swizzle, piece)
        builder.span, builder.origins = before

    def _tensor_map(
        self, found: Plan, type: TensorMap, swizzle: int = 0, piece: tuple[int, ...] = ()
    ) -> Value:
        base = self.plans.parameters[found.root]
        write = self._scalars(I64)
        if found.base.terms:
            base = self.builder.add(AddPointer(base, write.value(found.base)))
        extents = tuple(write.value(axis.extent) for axis in found.axes)
        strides = tuple(write.value(axis.stride) for axis in found.axes[:-1])
        windows = tuple(
            write.value(form) for w in found.windows for form in (w.first, w.count, w.step)
        )
        made = MakeTensorMap(
            base, extents, strides, windows, type=type, swizzle=swizzle,
            piece=() if piece == type.box else piece,
        )  # fmt: skip
        return self.builder.add(made, "map")

    def _replacement(self, op: Op) -> Value | Drop | None:
        if op.id in self.fenced:
            self.builder.insert(FenceProducts(arrays=True))
            return None
        if op.id in self.views:
            return self.boxes[self.views[op.id]]
        if op.id in self.stored:
            return self._sent(self.stored[op.id])
        raised = self.found.get(op.id)
        if raised is None:
            return None
        write = self._scalars(I32)
        starts = raised.plan.coordinates
        offsets = tuple(window.offset for window in raised.plan.windows)
        coordinates = tuple(write.value(form) for start in (*starts, offsets) for form in start)
        held = raised.tile.type
        tile = Tile(shape_of(held), raised.how.element, layout_of(held))
        box = TensorLoad(
            self.maps[op.id], coordinates, axes=raised.plan.places, type=tile, parts=len(starts)
        )
        held = self.boxes[op.id] = self.builder.add(box, raised.tile.hint)
        return held if raised.tile.op is raised.load else DROP

    def _sent(self, raised: _PlannedStore) -> Drop:
        """Write a store."""
        write = self._scalars(I32)
        ((*start,),) = raised.plan.coordinates
        sent = TensorStore(
            self.maps[raised.store.id],
            tuple(write.value(form) for form in start),
            self.values.get(raised.tile, raised.tile),
            axes=raised.plan.places,
        )
        self.builder.insert(sent)
        return DROP


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
