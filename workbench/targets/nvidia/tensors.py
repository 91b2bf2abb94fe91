"""Tensor maps, copies of boxes, barriers that count what arrives: how they are written in PTX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from workbench.ir import Builder, Module, Op, Scalar, Shared, Value, element_of, layout_of
from workbench.layouts import (
    SWIZZLES,
    TensorPlan,
    swizzle_width,
    swizzled,
    tensor_fits,
)
from workbench.layouts.box_stores import BoxPiece, BoxStores, VectorPlan, box_stores_fit
from workbench.ops import Constant
from workbench.source import KernelTypeError
from workbench.targets.nvidia.box_plans import UNBOUNDED
from workbench.targets.nvidia.ops import (
    Arrive,
    Await,
    AwaitStores,
    Barriers,
    ClusterArrive,
    ClusterWait,
    Expect,
    HasPeers,
    MakeTensorMap,
    RenewBarriers,
    TensorCopy,
    TensorLoad,
    TensorStore,
)
from workbench.targets.nvidia.ops.tensors import GRAIN, outermost
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.simt.copying import Ahead, Box, Lasting
from workbench.targets.simt.lowering import Lowering, at, llvm_type
from workbench.targets.simt.rules import Device, Scratch, Setting, as_they_are
from workbench.targets.simt.shared import Addresses, slot_base, store_vector

#: A place in a tile, and the bytes in front of it in the buffer.
Piece = tuple[tuple[int, ...], int]
#: The barrier at which the first warps meet that make boxes together; roles have those below.
_FIRST_GROUP = 8
#: So many copies are worth a branch to each warp.
_EACH = 2

NVIDIA.layouts(MakeTensorMap, TensorLoad, TensorCopy, TensorStore, AwaitStores)(as_they_are)
NVIDIA.layouts(Barriers, RenewBarriers, Expect, Arrive, Await)(as_they_are)
NVIDIA.layouts(ClusterArrive, ClusterWait, HasPeers)(as_they_are)
NVIDIA.unsupported[TensorLoad] = "is left to copies into shared memory, or to loads by pointers"


def tensor_maps(module: Module) -> list[MakeTensorMap]:
    """Return the tensor maps of a kernel, each a parameter of its code, in this order."""
    return [op for op in module.walk() if isinstance(op, MakeTensorMap)]


@NVIDIA.lower(MakeTensorMap)
def lower_map(low: Lowering, op: MakeTensorMap) -> None:
    """The launch has made it: it is a parameter, and lies where the copies can read it.

    What copies is told to fetch it while the block begins. PTX ISA 9.0, prefetch.tensormap.
    """
    number = [found.id for found in tensor_maps(low.module)].index(op.id)
    low.set_scalar(op.result, f"%map{number}")
    _one_does(low, "prefetch.tensormap [$0];", [f"ptr %map{number}"], None)


def tensor_plan(
    buffer: Shared, axes: Sequence[int], rank: int, *, over: bool, parts: int = 1, blocks: int = 1
) -> TensorPlan | None:
    """Return how copies fill a buffer with boxes whose axes are those of a map of some rank.

    `over`: whether they may bring what lies beyond the box along the map's last axis. `parts`: how
    many boxes lie one behind the other along the other axis, `blocks`: how many make them, each
    as many of its rows.
    """
    if buffer.layout is None or rank - 1 not in axes:
        return None
    inner = axes.index(rank - 1)
    if len(buffer.shape) == 1 and blocks > 1:
        return None
    most = buffer.shape[1 - inner] // (parts * blocks) if len(buffer.shape) == 2 else None
    return tensor_fits(buffer.layout, buffer.element.itemsize, inner, over=over, most=most)


def _width(source: MakeTensorMap, extent: int) -> int:
    """Return the bytes from row to row of a box for a tile of so many elements along the last axis.

    As wide as there are, where that makes fewer rows: the last box may be narrower than that. What
    it brings beyond the tile, if that ends amid 16 bytes, is the array's, or reads as zero, if the
    map says where the array ends.
    """
    size = source.type.element.itemsize
    narrow, row = swizzle_width(extent, size), extent * size
    wide = min(max(SWIZZLES), (1 << (extent - 1).bit_length()) * size)
    if wide not in SWIZZLES or (row % GRAIN and not _is_bounded(source)):
        return narrow
    return wide if -(-row // wide) < -(-row // narrow) else narrow


def _is_bounded(source: MakeTensorMap) -> bool:
    """Say whether a map says where the array ends along its last axis."""
    end = source.extents[-1].op
    return not isinstance(end, Constant) or end.value != UNBOUNDED


def piece_of(box: Sequence[int], axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return the box of one copy of a tile by the axes of its map."""
    found = [1] * rank
    for axis, extent in zip(axes, box, strict=True):
        found[axis] = extent
    return tuple(found)


@NVIDIA.ahead(TensorLoad)
def ring_of_load(op: TensorLoad, on: Setting) -> Ahead | None:
    """Boxes are written in the order that memory has, as wgmma reads them."""
    shape, element, box = op.type.shape, op.type.element, box_of_load(op)
    if len(shape) not in (1, 2) or not isinstance(element, Scalar) or box is None:
        return None
    source, size = op.map.op, element.itemsize
    assert isinstance(source, MakeTensorMap)
    rank = len(source.type.box)
    inner = op.axes.index(rank - 1) if rank - 1 in op.axes else len(shape) - 1
    over = _is_bounded(source)
    if len(shape) == 1:
        layout = swizzled(shape, size)
    else:
        width = _width(source, shape[inner])
        layout = swizzled(shape, size, (inner, 1 - inner), exchange=False, width=width)
    buffer = Shared(shape, element, layout)
    plan = tensor_plan(buffer, op.axes, rank, over=over, parts=op.parts)
    # Where the next places of a walk are is not known before it has been walked.
    fits = plan is not None and not (
        source.type.walked and piece_of(plan.box, op.axes, rank)[-2] < source.type.box[-2]
    )
    return Ahead(
        buffer=buffer,
        box=box,
        obstacle="" if fits else f"no boxes fill a tile of {' x '.join(map(str, shape))} {element}",
    )


@NVIDIA.boxes(TensorLoad)
def box_of_load(op: TensorLoad) -> Box | None:
    """The map for a buffer lies as that does; coordinates begin where the load's do."""
    return _box(op, 1)


def _box(op: TensorLoad, blocks: int) -> Box | None:
    """Return how a load copies its tile, which so many blocks copy together."""
    source = op.map.op
    if not isinstance(source, MakeTensorMap):
        return None
    rank, over = len(source.type.box), _is_bounded(source)

    def planned(buffer: Shared) -> TensorPlan:
        plan = tensor_plan(buffer, op.axes, rank, over=over, parts=op.parts, blocks=blocks)
        assert plan is not None
        return plan

    def made(
        builder: Builder, plan: TensorPlan, box: Sequence[int], last: int, rest: Value | None = None
    ) -> Value:
        """Make the map of boxes of a tile that has so many elements along the last axis."""
        piece = piece_of(box, op.axes, rank)
        type = replace(source.type, box=(*source.type.box[:-1], last))
        found = MakeTensorMap(
            source.base, source.extents, source.strides, source.windows, rest, type=type,
            swizzle=plan.swizzle, piece=() if piece == type.box else piece,
            span=source.span, origins=(source.id,),
        )  # fmt: skip
        return builder.add(found, source.result.hint)

    def prepare(builder: Builder, buffer: Shared) -> Value:
        plan, rest = planned(buffer), None
        if plan.narrower is not None:
            last = piece_of(plan.narrower, op.axes, rank)[-1]
            rest = made(builder, plan, plan.narrower, last)
        return made(builder, plan, plan.box, source.type.box[-1], rest)

    def copy(
        held: Value, coordinates: Sequence[Value], to: tuple[Value, Value],
        counted: tuple[Value, Value], when: Value | None,
    ) -> Op:  # fmt: skip
        (buffer, slot), (barriers, turn) = to, counted
        return TensorCopy(
            held, tuple(coordinates), buffer, barriers, turn, slot, when, axes=op.axes,
            parts=op.parts, blocks=blocks,
        )  # fmt: skip

    def shared(buffer: Shared, many: int) -> Box | None:
        if rank - 1 not in op.axes or op.parts > 1 or source.type.walked:
            return None  # where a walk goes on is not known before it has been walked
        plan = tensor_plan(buffer, op.axes, rank, over=over, blocks=many)
        whole = plan is not None and buffer.shape[1 - op.axes.index(rank - 1)] % many == 0
        return _box(op, many) if plan is not None and whole else None

    return Box(
        source=op.map,
        kind=(op.map.type, op.axes, op.parts),
        reads=op.coordinates,
        bytes=lambda held: planned(held).elements * held.element.itemsize,
        slots=op.slots,
        decided=lambda channel, slots: {"role": "producer", "channel": channel, "slots": slots},
        prepare=prepare,
        copy=copy,
        shared=shared,
        steps=source.strides,
    )


@NVIDIA.lower(TensorCopy)
def lower_copy(low: Lowering, op: TensorCopy) -> None:
    """PTX ISA 9.0, cp.async.bulk.tensor (sm_90): axes from the inner one outwards.

    Of a walked map it is `.im2col`, with the offsets in 16 bits. Of a tile that is many boxes each
    warp of a producer starts a share: it may before another one has said how many bytes there will
    be, since nobody has arrived for the phase until then.
    """
    source, buffer = op.map.op, op.buffer.type
    assert isinstance(source, MakeTensorMap)
    assert isinstance(buffer, Shared)
    rank = len(source.type.box)
    plan = tensor_plan(buffer, op.axes, rank, over=True, parts=op.parts, blocks=op.blocks)
    wanted = [one for one in (source, source.narrower) if one is not None]
    boxes = [] if plan is None else [box for box in (plan.box, plan.narrower) if box is not None]
    if plan is None or [(one.swizzle, one.copied) for one in wanted] != [
        (plan.swizzle, piece_of(box, op.axes, rank)) for box in boxes
    ]:
        raise KernelTypeError(f"{op.name} of {source.type} does not fill a {buffer}", op.span)
    pieces = [*plan.pieces, *plan.rest]
    base, counter = slot_base(low, op.buffer, op.slot), _place(low, op.barriers, op.turn)
    starts = [_i32(low, v) for v in op.coordinates]
    offsets = [low.emit.trunc(v, "i32", "i16") for v in reversed(starts[op.parts * rank :])]
    along = outermost(op.axes)

    rows, emit = 1 - op.axes.index(rank - 1), low.emit

    def start(
        where: Sequence[int], offset: int, *, together: bool = False, leader: str | None = None
    ) -> None:
        part, within = divmod(where[along], source.type.box[op.axes[along]])
        moved = starts[part * rank : (part + 1) * rank]
        for axis, step in zip(op.axes, _replaced(where, along, within), strict=True):
            moved[axis] = emit.add("i32", moved[axis], str(step))
        address = at(low, base, str(offset))
        if together:
            row = op.axes[rows]
            moved[row] = emit.add("i32", moved[row], _part_of(low, buffer.shape[rows], op))
            address = at(low, address, _part_of(low, buffer.shape[rows] * plan.swizzle, op))
        target = emit.pure(f"ptrtoint {low.shared_pointer} {address} to i32")
        held = source.rest if (tuple(where), offset) in plan.rest else op.map
        assert held is not None
        arguments = [f"i32 {target}", f"ptr {low.scalar(held)}"]
        arguments += [f"i32 {start}" for start in reversed(moved)]
        arguments += [f"i32 {counter}", *(f"i16 {offset}" for offset in offsets)]
        arguments += [f"i16 {(1 << op.blocks) - 1}"] if together else []
        text = _copying(rank, len(offsets), together=together)
        _one_does(low, text, arguments, op.when, leader)

    if op.together is None:
        _by_warps(low, pieces, start)
        return
    share, alone, end = (emit.fresh(word) for word in ("share", "alone", "copied"))
    emit.branch(low.scalar(op.together), share, alone)
    for label, together in ((share, True), (alone, False)):
        emit.label(label)
        with emit.scope():
            for where, offset in pieces:
                if not together or where[rows] < buffer.shape[rows] // op.blocks:
                    start(where, offset, together=together)
        emit.jump(end)
    emit.label(end)


def box_stores_of(source: Value, axes: Sequence[int], rank: int) -> BoxStores | None:
    """Return the boxes that warps have of a tile whose axes are those of a map of some rank."""
    layout = layout_of(source.type)
    if layout is None or rank - 1 not in axes:
        return None
    return box_stores_fit(layout, element_of(source.type).itemsize, axes.index(rank - 1))


def stored_boxes(op: TensorStore) -> BoxStores:
    """Return the boxes of a store; raises KernelTypeError where its map is another's."""
    source, rank = op.map.op, len(op.coordinates)
    assert isinstance(source, MakeTensorMap)
    found = box_stores_of(op.source, op.axes, rank)
    maps = [one for one in (source, source.narrower) if one is not None]
    boxes = [] if found is None else [box for box in (found.box, found.narrower) if box is not None]
    if found is None or [(one.swizzle, one.copied) for one in maps] != [
        (found.swizzle, piece_of(box, op.axes, rank)) for box in boxes
    ]:
        raise KernelTypeError(f"{op.name} of a {op.source.type} to {source.type}", op.span)
    return found


def _boxes_at_once(found: BoxStores, chip: Device, num_warps: int) -> int:
    """Return how many boxes of a warp, or of those that make them together, have room at once."""
    each = num_warps // found.together * found.bytes
    return max(1, min(len(found.pieces), chip.most_scratch // each))


@NVIDIA.scratch(TensorStore)
def store_scratch(op: TensorStore, chip: Device, num_warps: int, used: bool) -> Scratch:
    """Some boxes of each warp; a box begins where the XOR of chunks does.

    Warps that make boxes together meet before and behind, as those do that have their own.
    """
    del used
    found = stored_boxes(op)
    name = op.source.hint or "a tile"
    size = num_warps // found.together * found.bytes * _boxes_at_once(found, chip, num_warps)
    return Scratch(
        size, f"{name} on its way to memory", alone=True, align=8 * found.swizzle, kept=op.kept
    )


@NVIDIA.lasting(TensorStore)
def lasting_store(op: TensorStore) -> Lasting:
    """What a copy reads is written over when the next tile is stored, or given up at the end."""
    return Lasting(op.changed(kept=True), AwaitStores())


@NVIDIA.lower(AwaitStores)
def lower_await_stores(low: Lowering, op: AwaitStores) -> None:
    _await_reads(low, 0)


@NVIDIA.lower(TensorStore)
def lower_store(low: Lowering, op: TensorStore) -> None:
    """PTX ISA 9.0, cp.async.bulk.tensor (sm_90), fence.proxy.async: box by box, as room is.

    Fragments of 16 bits go to shared memory as matrices, of 32 in vectors.
    Who wrote to shared memory makes that seen by copies before its warp meets, or those that make a
    box together; one lane starts them, and waits until they have read what is written over, or
    given up at the end.
    """
    emit, found = low.emit, stored_boxes(op)
    room = _boxes_at_once(found, low.chip, low.num_warps)
    turns, groups = _turns(len(found.pieces), room)
    part = emit.mul("i32", _group(low, found.together), str(room * found.bytes))
    base = at(low, low.shared(low.offset(op)), part)
    addresses = Addresses(low, base, found.how.lane, found.how.warp)
    starts = [_i32(low, value) for value in op.coordinates]
    for place, axis in enumerate(op.axes):
        moved = low.thread_part((0,) * low.lane_bits, [by[place] for by in found.warps])
        starts[axis] = emit.add("i32", starts[axis], moved)
    mask = str(found.together * low.lanes - 1)
    first = emit.pure(f"icmp eq i32 {emit.bitwise('and', 'i32', low.thread, mask)}, 0")
    reuses = op.kept and groups and len(turns) % groups == 0
    for number, turn in enumerate(turns):
        waits = groups and (number >= groups or reuses)
        if waits:
            _await_reads(low, groups - 1)
        elif op.kept and not number:  # those that the op has left going
            _await_reads(low, 0)
        if waits or not number:
            _meet_for_boxes(low, found.together)
        pieces = [found.pieces[n] for n in turn]
        first_place = turn[0] if not groups else number % groups * (room // groups)
        places = [(first_place + n) * found.bytes for n in range(len(pieces))]
        for piece, place in zip(pieces, places, strict=True):
            _store_box(low, op.source, found, piece, addresses, place)
        emit.do('call void asm sideeffect "fence.proxy.async.shared::cta;", "~{memory}"()')
        _meet_for_boxes(low, found.together)
        for piece, place in zip(pieces, places, strict=True):
            address = at(low, addresses.base, str(place))
            _start_box(low, op, starts, piece, address, first)
        _one_does(low, "cp.async.bulk.commit_group;", [], None, first)
    if not op.kept:
        _await_reads(low, 0)
        if found.together > 1:  # what comes next may write what another warp's copies have read
            _meet_for_boxes(low, found.together)


def _turns(pieces: int, room: int) -> tuple[list[range], int]:
    """Return which boxes are stored, and then copied, at a time, and how many of those have room.

    Where all have, 0: the first goes alone, since copying takes longer than storing does, and the
    others are stored meanwhile. Else half of those that have room are on their way while others
    are written.
    """
    if room == pieces:
        return [part for part in (range(1), range(1, pieces)) if part], 0
    each = max(1, room // 2)
    return [
        range(first, min(pieces, first + each)) for first in range(0, pieces, each)
    ], room // each


def _group(low: Lowering, together: int) -> str:
    """Return the number of this warp's group, of so many that make boxes together, i32."""
    return low.emit.shift("lshr", "i32", low.warp, together.bit_length() - 1)


def _meet_for_boxes(low: Lowering, together: int) -> None:
    """Have the lanes of warps that make a box together wait for each other."""
    if together == 1:
        low.chip.wait_for_warp(low.emit)
        return
    number = low.emit.add("i32", _group(low, together), str(_FIRST_GROUP))
    low.chip.wait_for_warps(low.emit, number, together)


def _start_box(
    low: Lowering, op: TensorStore, starts: Sequence[str], piece: BoxPiece, address: str, first: str
) -> None:
    """Start the copy of a box from an address of shared memory, in the thread that is `first`."""
    emit, where = low.emit, list(starts)
    for axis, by in zip(op.axes, piece.start, strict=True):
        where[axis] = emit.add("i32", where[axis], str(by))
    held = emit.pure(f"ptrtoint {low.shared_pointer} {address} to i32")
    names = ", ".join(f"${2 + n}" for n in range(len(where)))
    text = (
        f"cp.async.bulk.tensor.{len(where)}d.global.shared::cta.bulk_group [$1, {{{names}}}], [$0];"
    )
    source = op.map.op
    assert isinstance(source, MakeTensorMap)
    of_box = source.rest if piece.narrow else op.map
    assert of_box is not None
    arguments = [f"i32 {held}", f"ptr {low.scalar(of_box)}"]
    arguments += [f"i32 {one}" for one in reversed(where)]
    _one_does(low, text, arguments, None, first)


def _store_box(
    low: Lowering, source: Value, found: BoxStores, piece: BoxPiece, addresses: Addresses,
    place: int,
) -> None:  # fmt: skip
    """Store what a warp has of a box to shared memory, from `place` on.

    Beside the tile an instruction has anything: no copy reads it.
    """
    type, each = low.pack_of(source)
    for step in piece.steps(found.how):
        wanted = [[piece.registers[first + n] for n in range(each)] for first in step.registers]
        real = next(number for word in wanted for number in word if number is not None)
        held = [
            [low.register(source, real if number is None else number) for number in word]
            for word in wanted
        ]
        address = addresses(place + step.offset)
        if isinstance(found.how, VectorPlan):
            store_vector(low, address, [one for (one,) in held], type, 4)
        else:
            words = [low.packing.pack(word, type) for word in held]
            low.chip.store_matrices(low.emit, address, words, turned=found.how.trans)


def _await_reads(low: Lowering, groups: int) -> None:
    """Wait until all groups of copies but the latest have read shared memory."""
    text = f"cp.async.bulk.wait_group.read {groups};"
    low.emit.do(f'call void asm sideeffect "{text}", "~{{memory}}"()')


def _by_warps(low: Lowering, pieces: Sequence[Piece], start: Callable[..., None]) -> None:
    """Have each warp of a role start its share of the copies of a tile, one all if they are few."""
    emit, role = low.emit, low.role
    if role is None or role.warps == 1 or len(pieces) < _EACH * role.warps:
        for where, offset in pieces:
            start(where, offset)
        return
    end, each = emit.fresh("copied"), -(-len(pieces) // role.warps)
    for number, first in enumerate(range(0, len(pieces), each)):
        mine, others = emit.fresh("share"), emit.fresh("others")
        warp = role.first + number
        own = emit.pure(f"icmp eq i32 {role.warp}, {warp}")
        emit.branch(own, mine, others)
        emit.label(mine)
        with emit.scope():
            leader = emit.pure(f"icmp eq i32 {low.thread}, {warp * low.lanes}")
            for where, offset in pieces[first : first + each]:
                start(where, offset, leader=leader)
        emit.jump(end)
        emit.label(others)
    emit.jump(end)
    emit.label(end)


def _copying(rank: int, offsets: int, *, together: bool) -> str:
    names, more = (
        ", ".join(f"${n}" for n in range(first, first + count))
        for first, count in ((2, rank), (3 + rank, offsets))
    )
    walked, places = (".im2col", f", {{{more}}}") if offsets else ("", "")
    to, mask = (".multicast::cluster", f", ${3 + rank + offsets}") if together else ("", "")
    return (
        f"cp.async.bulk.tensor.{rank}d.shared::cluster.global{walked}.mbarrier::complete_tx::bytes"
        f"{to} [$0], [$1, {{{names}}}], [${2 + rank}]{places}{mask};"
    )


def _part_of(low: Lowering, whole: int, op: TensorCopy) -> str:
    """Return where the part of this block begins in what those of a cluster share evenly."""
    return low.emit.mul("i32", _rank(low, op.blocks), str(whole // op.blocks))


def _rank(low: Lowering, blocks: int) -> str:
    """Return the number of this block among those of its cluster, i32."""
    return low.emit.bitwise("and", "i32", low.chip.program(low.emit, 0), str(blocks - 1))


def _replaced(where: Sequence[int], place: int, by: int) -> list[int]:
    return [by if n == place else one for n, one in enumerate(where)]


@NVIDIA.lower(Barriers)
def lower_barriers(low: Lowering, op: Barriers) -> None:
    """PTX ISA 9.0, mbarrier.init; the fence lets copies see it."""
    low.set_scalar(op.result, low.shared(low.offset(op)))
    _begin(low, op.result, f"mbarrier.init.shared::cta.b64 {{}}, {op.arrivals};")


@NVIDIA.lower(RenewBarriers)
def lower_renewal(low: Lowering, op: RenewBarriers) -> None:
    """PTX ISA 9.0, mbarrier.init: undefined where a valid barrier is, so that is given up first."""
    begins = f"mbarrier.init.shared::cta.b64 {{}}, {op.arrivals};"
    _begin(low, op.barriers, f"mbarrier.inval.shared::cta.b64 {{}}; {begins}")


def _begin(low: Lowering, barriers: Value, text: str) -> None:
    """Have one thread do the same with each barrier of a ring.

    Behind a branch: where each instruction has a predicate ptxas fences and branches for each.
    """
    assert isinstance(barriers.type, Shared)
    emit = low.emit
    place = emit.pure(f"ptrtoint {low.shared_pointer} {low.scalar(barriers)} to i32")
    each = (text.replace("{}", f"[$0+{8 * n}]") for n in range(barriers.type.slots))
    one, begun = emit.fresh("one"), emit.fresh("begun")
    emit.branch(low.first_thread, one, begun)
    emit.label(one)
    emit.do(f'call void asm sideeffect "{" ".join(each)}", "r,~{{memory}}"(i32 {place})')
    emit.jump(begun)
    emit.label(begun)
    emit.do('call void asm sideeffect "fence.mbarrier_init.release.cluster;", "~{memory}"()')


@NVIDIA.lower(Expect)
def lower_expect(low: Lowering, op: Expect) -> None:
    text = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], {op.bytes};"
    _one_does(low, text, [f"i32 {_place(low, op.barriers, op.turn)}"], op.when)


@NVIDIA.lower(Arrive)
def lower_arrive(low: Lowering, op: Arrive) -> None:
    """PTX ISA 9.0, mbarrier.arrive, mapa: a lane for each block of a cluster."""
    place = _place(low, op.barriers, op.turn)
    if op.blocks == 1:
        text = "mbarrier.arrive.shared::cta.b64 _, [$0];"
        leader = low.emit.pure(f"icmp eq i32 {low.lane}, 0") if op.warps else None
        _one_does(low, text, [f"i32 {place}"], op.when, leader)
        return
    emit, mine = low.emit, _rank(low, op.blocks)
    other = emit.bitwise("xor", "i32", mine, low.lane)
    _, there = low.peer(low.lane)
    rank = emit.pure(f"select i1 {there}, i32 {other}, i32 {mine}")
    mapped = emit.pure(
        f'call i32 asm "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r"(i32 {place}, i32 {rank})'
    )
    leader = emit.pure(f"icmp ult i32 {low.lane}, {op.blocks}")
    text = "mbarrier.arrive.shared::cluster.b64 _, [$0];"
    _one_does(low, text, [f"i32 {mapped}"], op.when, leader)


@NVIDIA.lower(ClusterArrive)
def lower_cluster_arrive(low: Lowering, op: ClusterArrive) -> None:
    """PTX ISA 9.0, barrier.cluster: no release, which would wait for earlier stores."""
    _all_do(low, "barrier.cluster.arrive.relaxed;")


@NVIDIA.lower(ClusterWait)
def lower_cluster_wait(low: Lowering, op: ClusterWait) -> None:
    _all_do(low, "barrier.cluster.wait;")


def _all_do(low: Lowering, text: str) -> None:
    low.emit.do(f'call void asm sideeffect "{text}", "~{{memory}}"() convergent')


@NVIDIA.lower(HasPeers)
def lower_has_peers(low: Lowering, op: HasPeers) -> None:
    number = low.emit.bitwise("or", "i32", low.number, str(op.blocks - 1))
    low.set_scalar(op.result, low.is_program(number))


@NVIDIA.lower(Await)
def lower_await(low: Lowering, op: Await) -> None:
    """PTX ISA 9.0, mbarrier.try_wait: it sleeps for a while, and says whether it is over."""
    text = (
        "{ .reg .pred P; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 P, [$0], $1; "
        "@!P bra AGAIN; }"
    )
    place, parity = _place(low, op.barriers, op.turn), _i32(low, op.parity)
    low.emit.do(
        f'call void asm sideeffect "{text}", "r,r,~{{memory}}"(i32 {place}, i32 {parity}) '
        "convergent"
    )


def _place(low: Lowering, barriers: Value, turn: Value) -> str:
    """Return the address of one barrier of a ring, as 32 bits."""
    return low.emit.pure(f"ptrtoint {low.shared_pointer} {slot_base(low, barriers, turn)} to i32")


def _i32(low: Lowering, value: Value) -> str:
    held = low.scalar(value)
    return (
        low.emit.trunc(held, "i64", "i32") if llvm_type(element_of(value.type)) == "i64" else held
    )


#: How inline assembly names operands of a type.
_KINDS = {"ptr": "l", "i16": "h"}


def _one_does(
    low: Lowering,
    text: str,
    arguments: list[str],
    when: Value | None,
    leader: str | None = None,
) -> None:
    """Write an instruction that one thread of the block, or role, carries out, if `when` holds.

    `leader` holds in that thread, or in those that are to do it.
    """
    holds = None if when is None else low.scalar(when)
    condition = low.and_all([leader or low.first_thread, holds])
    kinds = [_KINDS.get(a.split()[0], "r") for a in arguments]
    low.emit.do(
        f'call void asm sideeffect "@${len(arguments)} {text}", '
        f'"{",".join([*kinds, "b"])},~{{memory}}"({", ".join([*arguments, f"i1 {condition}"])})'
    )


def map_parameters(module: Module) -> list[str]:
    """Return the parameters of a kernel's tensor maps as LLVM writes them, behind the others."""
    attributes = 'byval([128 x i8]) align 64 "nvvm.grid_constant"'
    return [f"ptr {attributes} %map{n}" for n in range(len(tensor_maps(module)))]


__all__ = [
    "box_stores_of",
    "map_parameters",
    "piece_of",
    "tensor_maps",
    "tensor_plan",
]
