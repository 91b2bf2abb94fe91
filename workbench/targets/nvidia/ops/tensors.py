"""Tensor maps, and copies of boxes of a tensor to and from shared memory.

A tensor map says how an array lies in global memory: where it begins, how long its axes are and how
far apart. A launch makes it, so all of it must follow from the launch's arguments. Axes are listed
as those of tiles are, from the outermost to the one along which elements lie side by side. What a
box has outside the array reads as zero.

The box of a map that is *walked* is a number of places, one after the other: along the last axis
but one, then in the next row of it, and so on outwards. Each axis between the first and the last
has a window: the coordinate of its first place, how many there are, and how far they are apart.
The box begins at one place, and an offset of each of those axes leads from places to what is read,
so that the columns of a convolution as a product are boxes: places are its results, offsets its
taps ("im2col" to the hardware).

What the hardware asks for is asked here as well, with KernelErrors that name it: a pass that raises
a load to a map must have proven it, or have the launch ask. PTX ISA 9.0, "Tensors" and
"cp.async.bulk.tensor" (sm_90); encoding: cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd, prod
from typing import NamedTuple

import numpy as np

from workbench.ir import (
    NONE,
    Array,
    Effect,
    Effects,
    Frame,
    Op,
    Pointer,
    Scalar,
    TensorMap,
    Tile,
    Type,
    Value,
    attribute,
    element_of,
    reads,
    shape_of,
)
from workbench.ops.numbers import round_to
from workbench.source import KernelTypeError, LaunchError, ShapeError
from workbench.targets.nvidia.ops.barriers import barrier_of, verify_barriers, verify_integers
from workbench.targets.nvidia.ops.clusters import verify_cluster
from workbench.targets.simt.ops.shared import slot_of, verify_slot

#: Bytes that memory is asked for at once.
_LINE = 128
#: Base, strides and the inner coordinate are multiples of so many bytes.
GRAIN = 16
#: The most axes, elements along one, and bytes between two of one axis, plus one.
MOST_AXES, MOST_EXTENT, STRIDE_END = 5, 1 << 32, 1 << 40
#: Of walked maps, by the number of axes with a window: what the first place of one and its distance
#: from the last element are at least and less than, and offsets less than. And the most places of a
#: box, elements of its row, and elements between two places.
CORNERS = {1: 1 << 15, 2: 1 << 7, 3: 1 << 4}
OFFSETS = {1: 1 << 16, 2: 1 << 8, 3: 1 << 5}
MOST_PLACES, MOST_IN_PLACE, MOST_STEP = 1024, 256, 8


class MakeTensorMap(Op, mnemonic="gpu.tensor_map", effects=NONE, exact=True, begins=True):
    """How an array lies in memory from `base` on, for copies of boxes of the type's extents.

    extents: elements of each axis; strides: elements from one to the next, of each axis but the
    last, whose elements lie side by side. All operands must be the same throughout a launch.

    With `swizzle` = 32, 64 or 128 the copies write the rows of a piece, which are then no longer
    than so many bytes, with the 16-byte chunks of eight of them exchanged (layouts.SWIZZLES).
    `piece`: the box of one copy, where a box of the type is several; () for the whole. `rest`: the
    map of the last of them along the last axis, where these are narrower; without it they may reach
    beyond the box. Copies that are narrower than the swizzle leave the rest of its rows alone.
    `windows` of a walked map: first place, how many and how far apart, of each axis that has one.

        %4 = gpu.tensor_map %0, [%1, %2], [%3] {type = tensor_map<16x8xf16>} : tensor_map<16x8xf16>
    """

    base: Value
    extents: tuple[Value, ...]
    strides: tuple[Value, ...]
    windows: tuple[Value, ...] = ()
    rest: Value | None = None
    type: TensorMap = attribute()
    swizzle: int = attribute(default=0)
    piece: tuple[int, ...] = attribute(default=())

    def infer(self) -> Type:
        return self.type

    def verify(self) -> None:
        rank, held = len(self.type.box), self.base.type
        if not isinstance(held, Pointer) or held.pointee != self.type.element:
            raise KernelTypeError(f"{self.name} of {self.type} at a {held}", self.span)
        if not 1 <= rank <= MOST_AXES:
            raise ShapeError(f"{self.name} has 1 to {MOST_AXES} axes, not {rank}", self.span)
        if (len(self.extents), len(self.strides)) != (rank, rank - 1):
            raise ShapeError(
                f"{self.name} of {rank} axes has {len(self.extents)} extents and "
                f"{len(self.strides)} strides",
                self.span,
            )
        verify_integers(self, (*self.extents, *self.strides, *self.windows))
        self._verify_windows()
        if self.swizzle not in (0, 32, 64, 128):
            raise ShapeError(f"{self.name} has no swizzle of {self.swizzle} bytes", self.span)
        if self.piece and (
            len(self.piece) != rank
            or any(p < 1 for p in self.piece)
            or any(b % p for b, p in zip(self.type.box[:-1], self.piece[:-1], strict=True))
        ):
            raise ShapeError(f"{self.name} of {self.type} in pieces of {self.piece}", self.span)
        self._verify_rest()

    def _verify_rest(self) -> None:
        if self.rest is None:
            return
        held, (*outer, last) = self.narrower, self.type.box
        left = last % self.copied[-1]
        same = held is not None and (
            (held.base, held.extents, held.strides, held.windows, held.swizzle, held.copied[:-1])
            == (self.base, self.extents, self.strides, self.windows, self.swizzle, self.copied[:-1])
            and held.type == replace(self.type, box=(*outer, held.type.box[-1]))
        )
        if held is None or not same or held.rest is not None or not (
            0 < left <= held.copied[-1] == held.type.box[-1] < self.copied[-1]
        ):  # fmt: skip
            raise ShapeError(
                f"{self.name} of {self.type} in pieces of {self.copied}, the last of them of "
                f"{self.rest.type}",
                self.span,
            )

    def _verify_windows(self) -> None:
        box, count = self.type.box, windowed(self.type)
        if len(self.windows) != 3 * count:
            raise ShapeError(
                f"{self.name} of {self.type} has windows of {len(self.windows)} numbers, "
                f"not {3 * count}",
                self.span,
            )
        if self.type.walked and (
            count not in CORNERS
            or any(extent != 1 for extent in box[:-2])
            or self.copied[-2] != box[-2]
            or box[-2] > MOST_PLACES
            or self.copied[-1] > MOST_IN_PLACE
        ):
            raise ShapeError(
                f"{self.name} walks over boxes of 1 x ... x places x elements, at most "
                f"{MOST_PLACES} x {MOST_IN_PLACE}, not {self.type}",
                self.span,
            )

    @property
    def copied(self) -> tuple[int, ...]:
        """The extents of what one copy moves."""
        return self.piece or self.type.box

    @property
    def narrower(self) -> MakeTensorMap | None:
        """The map of the last copies of a box along the last axis, where they have their own."""
        held = None if self.rest is None else self.rest.op
        return held if isinstance(held, MakeTensorMap) else None

    @property
    def _own(self) -> int:
        """How many elements this map's copies bring of a row of a box."""
        wide, row = self.copied[-1], self.type.box[-1]
        return (-(-row // wide) if self.rest is None else row // wide) * wide

    @property
    def copied_bytes(self) -> int:
        """How many bytes the copies of a box move, with what they bring beyond it."""
        rest = self.narrower
        own = prod(self.type.box[:-1]) * self._own * self.type.element.itemsize
        return own + (rest.copied_bytes if rest is not None else 0)

    @property
    def lines(self) -> float:
        """How many lines of 128 bytes the rows of the copies touch, each asked for by itself.

        In the mean over boxes that begin at multiples of their extent.
        """
        size, rest = self.type.element.itemsize, self.narrower
        row, rows = self.copied[-1] * size, prod(self.type.box[:-1])
        apart = gcd(_LINE, self.type.box[-1] * size)
        own = rows * self._own // self.copied[-1] * (1 + max(0, row - apart) / _LINE)
        return own + (rest.lines if rest is not None else 0)

    def interpret(self, frame: Frame) -> Array:
        base = int(frame[self.base])
        extents = [int(frame[v]) for v in self.extents]
        strides = [int(frame[v]) for v in self.strides]
        size = self.type.element.itemsize
        if base % GRAIN:
            raise self._refused(f"begins at {base:#x}, no multiple of {GRAIN} bytes")
        for axis, extent in enumerate(extents):
            if not 1 <= extent <= MOST_EXTENT:
                raise self._refused(f"has {extent} elements along axis {axis}")
        for axis, stride in enumerate(strides):
            if stride * size % GRAIN or not 0 <= stride * size < STRIDE_END:
                raise self._refused(f"has elements {stride * size} bytes apart along axis {axis}")
        windows = [int(frame[v]) for v in self.windows]
        for axis in range(len(windows) // 3):
            first, count, step = windows[3 * axis : 3 * axis + 3]
            last = first + (count - 1) * step - (extents[axis + 1] - 1)
            most = CORNERS[len(windows) // 3]
            if not all(-most <= n < most for n in (first, last)):
                raise self._refused(f"begins at {first} and ends {last} behind its last element")
            if not (1 <= step <= MOST_STEP and count >= 1):
                raise self._refused(f"has {count} places {step} apart along axis {axis + 1}")
        return np.array([base, *extents, *strides, *windows], np.int64)

    def _refused(self, why: str) -> LaunchError:
        return LaunchError(f"{self.name}: no tensor map can be made of an array that {why}",
                           self.span, code="K509")  # fmt: skip


class TensorLoad(Op, mnemonic="gpu.tensor_load", exact=True):
    """Read the box of a tensor map that begins at some coordinates; zero outside the array.

    Axis i of the tile is the map's axis `axes[i]`; of the others the box has one element. The last
    coordinate is a multiple of 16 bytes. With `parts` the tile is so many boxes, one behind the
    other along its outermost axis of the map, and coordinates are those of one after the other.
    Behind the coordinates of a walked map come the offsets of its axes with windows.
    Addresses are numbers of 64 bits: what sums of steps have beyond these is lost. A box that lies
    outside of the extents as a whole reads nothing, but the map's base has to be in memory.
    `role`, `channel` and `slots` say what has been decided (passes/roles.py): a producer's warps
    copy it through a ring of so many slots.

        %3 = gpu.tensor_load %0, [%1, %2] {axes = (0, 1), type = tile<16x8xf16>} : tile<16x8xf16>
    """

    map: Value
    coordinates: tuple[Value, ...]
    axes: tuple[int, ...] = attribute()
    type: Tile = attribute()
    parts: int = attribute(default=1)
    role: str = attribute(default="")
    channel: int = attribute(default=0)
    slots: int = attribute(default=0)

    def infer(self) -> Type:
        return self.type

    def verify(self) -> None:
        box = _verify_boxes(self, self.map, self.coordinates, self.axes, self.parts)
        found = self.type.shape, self.type.element
        if found != box:
            raise ShapeError(f"{self.name} of boxes of {box[0]} gives no {self.type}", self.span)

    def own_effects(self) -> Effects:
        return (reads("global", self.map),)

    def interpret(self, frame: Frame) -> Array:
        return _boxes(self, frame, self.map, self.coordinates, self.axes, self.parts)


class TensorStore(Op, mnemonic="gpu.tensor_store", exact=True):
    """Write a tile to the box of a tensor map that begins at some coordinates, if it is inside.

    Axis i of the tile is the map's axis `axes[i]`; of the others the box has one element. Each warp
    puts what it has of the tile into shared memory, piece by piece, and one of its threads (or of
    several that make boxes together) starts the copies, which go on until the kernel ends: nobody
    may count on them, or on their order with other stores, before. The op waits until shared memory
    has been read, unless with `kept` that is nobody else's: then only before it is written again,
    and `gpu.await_stores` waits at the end.
    The last coordinate and the extent of the last axis are multiples of 16 bytes: it is by these
    that the hardware leaves out. No coordinate is below 0: a copy to global memory may not begin in
    front of an array, it ends the kernel (an illegal instruction on an H100).
    PTX ISA 9.0, cp.async.bulk.tensor, .global.shared::cta (sm_90); CUDA C++ Programming Guide 13.0,
    "Tensor Memory Access": corners with negative indices.

        gpu.tensor_store %0, [%1, %2], %3 {axes = (0, 1)}
    """

    map: Value
    coordinates: tuple[Value, ...]
    source: Value
    axes: tuple[int, ...] = attribute()
    kept: bool = attribute(default=False)

    def verify(self) -> None:
        box = _verify_boxes(self, self.map, self.coordinates, self.axes, 1)
        found = shape_of(self.source.type), element_of(self.source.type)
        if found != box:
            raise ShapeError(f"{self.name} of a {self.source.type} to boxes of {box[0]}", self.span)
        if isinstance(self.map.type, TensorMap) and self.map.type.walked:
            raise ShapeError(f"{self.name} of a walked map", self.span)

    def own_effects(self) -> Effects:
        return (Effect("global", writes=True, through=self.map, later=True),)

    def interpret(self, frame: Frame) -> None:
        places = _places(self, frame, self.map, self.coordinates, self.axes)
        element = places.element
        for coordinate in self.coordinates:
            if int(frame[coordinate]) < 0:
                raise LaunchError(
                    f"{self.name} begins at {int(frame[coordinate])}, in front of its array",
                    self.span,
                )
        if places.end * element.itemsize % GRAIN:
            raise LaunchError(
                f"{self.name} to rows of {places.end} elements, no multiple of {GRAIN} bytes",
                self.span,
            )
        frame.write(self, places.addresses, places.live, frame[self.source], element)


class AwaitStores(Op, mnemonic="gpu.await_stores", exact=True):
    """Wait until the copies to global memory that the block's warps started have read their source.

    PTX ISA 9.0, cp.async.bulk.wait_group.read.

        gpu.await_stores
    """

    def own_effects(self) -> Effects:
        return (Effect("shared", order="acquire", scope="cta"),)

    def interpret(self, frame: Frame) -> None:
        del frame


class TensorCopy(Op, mnemonic="gpu.tensor_copy", exact=True):
    """Start copying a box of a tensor map into slot `slot` of a buffer; see gpu.tensor_load.

    One thread starts it, if `when` holds. It ends when the phase of barrier `turn` ends, which has
    been told to expect its bytes: those of the whole box, however much of it is inside the array.
    `stage` -2: in its loop it copies what is read two rounds later; a producer (`role`) at most so.
    Where `together` holds, each of a cluster's `blocks` copies a part of it to all of them, if all
    do so for the same box: the part of its number, of the tile's rows along the other axis than
    that whose elements lie side by side. All bytes arrive at the barrier of each, then, too.

        gpu.tensor_copy %0, [%1, %2], %3, %4, %5 slot %6 {axes = (0, 1)}
    """

    map: Value
    coordinates: tuple[Value, ...]
    buffer: Value
    barriers: Value
    turn: Value
    slot: Value | None = None
    when: Value | None = None
    together: Value | None = None
    axes: tuple[int, ...] = attribute()
    parts: int = attribute(default=1)
    blocks: int = attribute(default=1)
    role: str = attribute(default="")
    stage: int = attribute(default=0)

    def verify(self) -> None:
        verify_cluster(self, self.blocks)
        boxes = _verify_boxes(self, self.map, self.coordinates, self.axes, self.parts)
        shape, element = boxes
        verify_slot(self, self.buffer, shape, element, self.slot)
        verify_barriers(self, self.barriers)

    @property
    def bytes(self) -> int:
        """How many bytes arrive, those outside the array and beyond the box counted."""
        assert isinstance(self.map.op, MakeTensorMap)
        return self.parts * self.map.op.copied_bytes

    @property
    def lines(self) -> float:
        """How many lines of 128 bytes are asked for; see the map's."""
        assert isinstance(self.map.op, MakeTensorMap)
        return self.parts * self.map.op.lines

    def own_effects(self) -> Effects:
        return (
            Effect("global", reads=True, through=self.map, later=True),
            Effect("shared", writes=True, through=self.buffer, later=True),
            Effect("shared", reads=True, writes=True, through=self.barriers, later=True),
        )

    def interpret(self, frame: Frame) -> None:
        if not frame.get(self.when, True):
            return
        values = _boxes(self, frame, self.map, self.coordinates, self.axes, self.parts)
        where = slot_of(frame, self.buffer, self.slot)
        # What is in flight reads as poison until it has been waited for.
        where[...] = np.nan if element_of(self.buffer.type).is_float else 0x5A
        barrier = barrier_of(frame, self.barriers, self.turn)
        barrier.copy(frame, self, where, values, self.bytes)


def windowed(type: TensorMap) -> int:
    """Return how many axes of a map have a window: all between the first and the last."""
    return len(type.box) - 2 if type.walked else 0


def outermost(axes: Sequence[int]) -> int:
    """Return the axis of a tile, of those of a map, along which it may be several boxes."""
    return axes.index(min(axes))


def _verify_boxes(
    op: Op, source: Value, coordinates: Sequence[Value], axes: Sequence[int], parts: int
) -> tuple[tuple[int, ...], Scalar]:
    """Return shape and element of the tile that boxes are; raise ShapeError if they are none."""
    type = source.type
    if not isinstance(type, TensorMap):
        raise KernelTypeError(f"{op.name} needs a tensor map, not a {type}", op.span)
    verify_integers(op, coordinates)
    count = len(type.box) + windowed(type)
    if parts < 1 or len(coordinates) != parts * count or (type.walked and parts > 1):
        raise ShapeError(
            f"{op.name} names {len(coordinates)} coordinates of {parts} x {type}", op.span
        )
    rest = [extent for axis, extent in enumerate(type.box) if axis not in axes]
    known = all(0 <= axis < len(type.box) for axis in axes)
    if not known or len(set(axes)) != len(axes) or not axes or any(n != 1 for n in rest):
        raise ShapeError(f"{op.name} of axes {tuple(axes)} of {type}", op.span)
    shape = [type.box[axis] for axis in axes]
    shape[outermost(axes)] *= parts
    return tuple(shape), type.element


def _boxes(
    op: Op, frame: Frame, source: Value, coordinates: Sequence[Value], axes: Sequence[int],
    parts: int,
) -> Array:  # fmt: skip
    """Return the tile that boxes hold, one behind the other."""
    rank = len(coordinates) // parts
    starts = [coordinates[n * rank : (n + 1) * rank] for n in range(parts)]
    found = [_box(op, frame, source, own, axes) for own in starts]
    return np.concatenate(found, outermost(axes))


def _counted_on(starts: Sequence[int], box: Sequence[int]) -> list[Array]:
    """Return the coordinates of a box, those of each axis along that axis."""
    lines = (s + np.arange(n, dtype=np.int64) for s, n in zip(starts, box, strict=True))
    return list(np.meshgrid(*lines, indexing="ij"))


def _walked(
    op: Op, starts: Sequence[int], extents: Sequence[int], windows: Sequence[int],
    box: Sequence[int],
) -> list[Array]:  # fmt: skip
    """Return the coordinates of a walked box in the same form."""
    count = len(windows) // 3
    outer, *at = starts[: count + 1]
    offsets = starts[count + 2 :]
    turn = np.zeros((), np.int64)
    places = 1
    for axis in reversed(range(count)):
        first, many, step = windows[3 * axis : 3 * axis + 3]
        place, rest = divmod(at[axis] - first, step)
        if rest or not 0 <= place < many:
            why = f"begins at {at[axis]}, which is no place of axis {axis + 1}"
            raise LaunchError(f"{op.name} {why}", op.span)
        if not 0 <= offsets[axis] < OFFSETS[count]:
            raise LaunchError(
                f"{op.name} is offset by {offsets[axis]} along axis {axis + 1}", op.span
            )
        turn, places = turn + place * places, places * many
    turn = turn + np.arange(box[-2], dtype=np.int64)
    found: list[Array] = []
    for axis in reversed(range(count)):
        first, many, step = windows[3 * axis : 3 * axis + 3]
        found.insert(0, first + turn % many * step + offsets[axis])
        turn = turn // many
    shape = (*[1] * count, box[-2], 1)
    inner = starts[count + 1] + np.arange(box[-1], dtype=np.int64)
    whole = tuple(box)
    return [
        *(np.broadcast_to(line.reshape(shape), whole) for line in (outer + turn, *found)),
        np.broadcast_to(inner, whole),
    ]


class _Places(NamedTuple):
    # Where the elements of a box lie, and which of them are inside of the array.
    base: int
    addresses: Array
    live: Array
    element: Scalar
    end: int


def _places(
    op: Op, frame: Frame, source: Value, coordinates: Sequence[Value], axes: Sequence[int]
) -> _Places:
    """Return where the hardware finds the elements of a box, by the axes of its tile."""
    type = source.type
    assert isinstance(type, TensorMap)
    rank, element = len(type.box), type.element
    given = [int(n) for n in frame[source]]
    base, extents, strides = given[0], given[1 : 1 + rank], [*given[1 + rank : 2 * rank], 1]
    starts = [int(frame[v]) for v in coordinates]
    for start in starts:
        if not -(1 << 31) <= start < 1 << 31:
            raise LaunchError(f"{op.name}: the coordinate {start} has no 32 bits", op.span)
    into = starts[rank - 1] * element.itemsize
    if into % GRAIN:
        raise LaunchError(
            f"{op.name} begins {into} bytes into a row, no multiple of {GRAIN}",
            op.span,
        )
    if type.walked:
        along = _walked(op, starts, extents, given[2 * rank :], type.box)
    else:
        along = _counted_on(starts, type.box)
    offset, inside = np.zeros((), np.int64), np.ones((), bool)
    for axis, where in enumerate(along):
        inside = inside & (where >= 0) & (where < extents[axis])
        offset = offset + where * strides[axis]
    # An address that is not used may lie anywhere; all are numbers of 64 bits.
    addresses = base + np.where(inside, offset, 0) * element.itemsize
    order = [*axes, *(axis for axis in range(rank) if axis not in axes)]
    shape = tuple(type.box[axis] for axis in axes)
    held, live = (a.transpose(order).reshape(shape) for a in (addresses, inside))
    return _Places(base, held, live, element, extents[-1])


def _box(
    op: Op, frame: Frame, source: Value, coordinates: Sequence[Value], axes: Sequence[int]
) -> Array:
    """Return the tile that a box holds, read as the hardware reads it."""
    base, addresses, live, element, _ = _places(op, frame, source, coordinates, axes)
    if not live.any():  # the hardware translates the base's address then, and no other
        frame.read(op, np.array([base], np.int64), np.ones(1, bool), element)
    values = frame.read(op, addresses, live, element)
    return np.where(live, values, round_to(np.zeros(1), element))
