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

from collections.abc import Iterable
from dataclasses import replace

from workbench.analysis.forms import Form
from workbench.analysis.hulls import Asked
from workbench.analysis.ranges import Step
from workbench.ir import (
    DROP,
    I1,
    I32,
    I64,
    Block,
    Drop,
    Module,
    Op,
    Scalar,
    TensorMap,
    Tile,
    Value,
    element_of,
    layout_of,
    shape_of,
)
from workbench.ir.rebuild import Rebuilder
from workbench.ops import AddPointer
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.box_plans import Plan
from workbench.targets.nvidia.form_intervals import KnownForm
from workbench.targets.nvidia.form_values import Scalars
from workbench.targets.nvidia.ops import (
    FenceProducts,
    MakeTensorMap,
    TensorLoad,
    TensorStore,
)
from workbench.targets.nvidia.passes.feeders import Feeders
from workbench.targets.nvidia.passes.roles import left_by_rings, will_stay
from workbench.targets.nvidia.passes.tma_plans import PlannedLoad, PlannedStore, Plans
from workbench.targets.nvidia.tensors import piece_of
from workbench.targets.simt.rules import Device


def raise_tma(module: Module, remarks: Remarks, chip: Device, room: int | None = None) -> Module:
    """Replace loads that products by warpgroups read in a ring by boxes of tensor maps.

    Before:
        %p = tile.add_pointer %arrays, %offsets : tile<64x64xptr<f16>>
        %a = tile.load %p mask %inside other %zeros : tile<64x64xf16>
    After:
        %a = gpu.tensor_load %map, [%row, %k] {axes = (0, 1), type = tile<64x64xf16>} : tile<64x64xf16>

    Needs: layouts, 32-bit indices. Keeps: every byte that is stored, in launches of which what is
    `asked` (below) holds. All loads of a loop that products read are raised, or none, and with them
    what an operand is computed of, tiles and rows of scales, where boxes bring it. Loads before
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


def _why_left(raised: Module, stores: list[PlannedStore], chip: Device, room: int | None) -> str:
    """Say why stores that were raised had better be left as they are; "" if they had not."""
    if not will_stay(raised, chip, room):
        return "no next program begins meanwhile"
    if sum(one.room(raised) for one in stores) > left_by_rings(raised, chip, room):
        return "rings leave no room for all at once, who stores would wait for copies"
    return ""


def asked(module: Module) -> Asked | None:
    """Return what a launch of a module with tensor maps must be asked; None without any."""
    stored = module.attributes.get("tensor_facts")
    if stored is None:
        return None
    steps, at_least_0 = stored
    return Asked(tuple(Step(*step) for step in steps), tuple(at_least_0))


class Raiser(Rebuilder):
    """Writes what is raised of a module."""

    def __init__(self, module: Module, plans: Plans) -> None:
        super().__init__(module, lambda op, builder: self._replacement(op))
        self.module = module
        self.plans = plans
        self.facts = plans.facts
        self.found: dict[int, PlannedLoad] = {}
        self.stored: dict[int, PlannedStore] = {}
        #: Loops before which what was stored is made seen.
        self.fenced: set[int] = set()
        #: What becomes of the tiles of loads that lose axes of extent 1, by their ids.
        self.views: dict[int, int] = {}
        self.boxes: dict[int, Value] = {}
        self.maps: dict[int, Value] = {}
        #: Scalars that exist where ops are being written, by what they are.
        self.scopes: list[dict[Form, Value]] = []

    def written(
        self, planned: Iterable[PlannedLoad], stores: Iterable[PlannedStore] = ()
    ) -> Module:
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
            pieces = [
                piece_of(box, found.places, len(found.axes))
                for box in (one.boxes.box, one.boxes.narrower)
                if box is not None
            ]
            self.maps[place] = self._tensor_map(found, type, one.boxes.swizzle, *pieces)
        builder.span, builder.origins = before

    def _tensor_map(
        self, found: Plan, type: TensorMap, swizzle: int = 0, piece: tuple[int, ...] = (),
        narrower: tuple[int, ...] = (),
    ) -> Value:  # fmt: skip
        base = self.plans.parameters[found.root]
        write = self._scalars(I64)
        if found.base.terms:
            base = self.builder.add(AddPointer(base, write.value(found.base)))
        extents = tuple(write.value(axis.extent) for axis in found.axes)
        strides = tuple(write.value(axis.stride) for axis in found.axes[:-1])
        windows = tuple(
            write.value(form) for w in found.windows for form in (w.first, w.count, w.step)
        )

        def made(type: TensorMap, piece: tuple[int, ...], rest: Value | None) -> Value:
            piece = () if piece == type.box else piece
            op = MakeTensorMap(
                base, extents, strides, windows, rest, type=type, swizzle=swizzle, piece=piece
            )
            return self.builder.add(op, "map")

        rest = None
        if narrower:
            rest = made(replace(type, box=(*type.box[:-1], narrower[-1])), narrower, None)
        return made(type, piece, rest)

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

    def _sent(self, raised: PlannedStore) -> Drop:
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
