"""Loop nests: what runs over the elements of one shape, and for whom.

A *sink* needs every element of some tiles: a store, a reduction, a tile that is kept. Sinks of
one shape that do not wait for each other share one nest (a *group*), so that a tile which two of
them need is computed once.

One axis goes to the vector lanes: the one along which most accesses lie side by side. It runs in
vectors of two registers; where masks are prefixes of it, whole vectors run unmasked (masks.py).
A reduction along the lanes' axis keeps a vector of partial results; one along another axis runs
that axis innermost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.ir import Value, shape_of
from workbench.ops import AtomicUpdate, Store
from workbench.targets.cpu.chunks import ZERO, Coordinate, Point, uniform
from workbench.targets.cpu.lanes import cutting_masks, lane_axis, lane_count
from workbench.targets.cpu.masks import Axes, Extents, extents, moved_axes
from workbench.targets.cpu.sinks import Fill, Part, Sink
from workbench.targets.cpu.table import STATEMENTS
from workbench.targets.cpu.writer import Writer

#: Up to this many vectors along the lanes' axis are written out instead of looped over.
UNROLLED = 4


class Group:
    """Sinks of one shape that share a loop nest."""

    def __init__(self, sink: Sink) -> None:
        self.sinks: list[Sink] = [sink]
        self.shape = sink.shape

    # -- who may share --------------------------------------------------------------------
    def takes(self, w: Writer, sink: Sink) -> bool:
        """Say whether a sink may join: same shape and axis, and nothing to wait for."""
        axes = {s.axis for s in (*self.sinks, sink) if s.axis is not None}
        if sink.shape != self.shape or len(axes) > 1:
            return False
        if isinstance(sink.op, Store | AtomicUpdate) or isinstance(self.sinks[-1].op, Store):
            return False
        own: Axes = tuple(range(len(self.shape)))
        return not self._waits(w, [(value, own) for value in sink.roots], own)

    def _waits(self, w: Writer, needed: list[tuple[Value, Axes | None]], own: Axes) -> bool:
        """Say whether values, seen along axes of the nest, need what this group computes.

        Each pair is looked at once: many ways may lead to it.
        """
        seen = set(needed)
        while needed:
            value, axes = needed.pop()
            made = next((sink for sink in self.sinks if value in sink.results), None)
            if made is not None:
                # A kept tile may be used at the very point at which it is computed.
                if isinstance(made, Fill) and axes == own:
                    continue
                return True
            op = value.op
            if op is None or value in w.buffers or value in w.scalars:
                continue
            if STATEMENTS.rule(type(op)) is not None:
                continue
            inner = None if axes is None else moved_axes(op, axes)
            for operand in op.operands:
                pair = (operand, inner if shape_of(operand.type) else None)
                if pair not in seen:
                    seen.add(pair)
                    needed.append(pair)
        return False

    def feeds(self, w: Writer, value: Value) -> bool:
        """Say whether a value needs what this group will have computed."""
        return self._waits(w, [(value, None)], ())

    # -- writing --------------------------------------------------------------------------
    def write(self, w: Writer) -> None:
        """Write the nest and hand out its results."""
        nest = Nest(w, self)
        with w.body(0):
            nest.write()
        for sink in self.sinks:
            sink.publish(w)


def schedule(w: Writer, sink: Sink) -> None:
    """Let a sink run in the pending loop if it fits there, else in the next one."""
    pending = w.pending
    if isinstance(pending, Group) and pending.takes(w, sink):
        pending.sinks.append(sink)
        return
    w.flush()
    w.pending = Group(sink)


class Nest:
    """One loop nest being written."""

    def __init__(self, w: Writer, group: Group) -> None:
        self.w = w
        self.sinks = group.sinks
        self.shape = group.shape
        axes = [s.axis for s in self.sinks if s.axis is not None]
        self.reduced = axes[0] if axes else None
        self.axis = lane_axis(w, self.sinks, self.shape)
        self.extent = self.shape[self.axis] if self.shape else 1
        self.width = lane_count(w, self.sinks, self.extent)
        self.masks = cutting_masks(w, self.sinks, self.shape)

    def write(self, batch: Coordinate | None = None) -> None:
        """Write the nest; `batch` fixes the first axis."""
        point = [ZERO] * len(self.shape)
        skipped = {self.axis, self.reduced}
        if batch is not None:
            point[0] = batch
            skipped.add(0)
        outer = [d for d, extent in enumerate(self.shape) if extent > 1 and d not in skipped]
        self._outer(outer, point)

    def _outer(self, axes: list[int], point: list[Coordinate]) -> None:
        if not axes:
            if self.reduced is not None and self.reduced != self.axis:
                self._across(point)
            else:
                self._along(point)
            return
        axis, *rest = axes

        def body(i: str, _: list[str]) -> None:
            inner = list(point)
            inner[axis] = uniform(i)
            self._outer(rest, inner)

        self.w.loop("0", str(self.shape[axis]), 1, body)

    # -- the lanes' axis ------------------------------------------------------------------
    def _along(self, point: list[Coordinate]) -> None:
        """Run the lanes' axis; reductions along it keep a vector of partial results."""
        w, lanes = self.w, self.width
        starts = [sink.carried(w, lanes if self.extent > 1 else 0) for sink in self.sinks]
        whole = self.extent // lanes * lanes
        tail = self.extent - whole
        parts: list[list[Part]] = [[] for _ in self.sinks]
        first = "0"
        if any(start is None for start in starts):
            # No neutral element: the first vector is where the partial results start.
            starts = self._peel(point, starts)
            first = str(lanes)
        counts = [len(start or ()) for start in starts]
        carried = [pair for start in starts for pair in start or ()]

        def visit(coordinate: str, texts: list[str]) -> list[str]:
            return self._visit(point, coordinate, lanes, texts, counts)

        names = self._pieces(point, first, whole, visit, carried)
        for part, texts in zip(parts, _split(names, counts), strict=True):
            part.append((texts, lanes if self.extent > 1 else 0))
        if tail:
            width = tail if tail > 1 else 0
            found = self._tail(point, whole, width)
            for part, texts in zip(parts, found, strict=True):
                part.append((texts, width))
        for sink, part in zip(self.sinks, parts, strict=True):
            sink.finish(w, tuple(point), part, lanes_along=True)

    def _peel(
        self, point: list[Coordinate], starts: Sequence[list[tuple[str, str]] | None]
    ) -> list[list[tuple[str, str]] | None]:
        w, lanes = self.w, self.width if self.extent > 1 else 0
        found: list[list[tuple[str, str]] | None] = []
        with w.body(lanes):
            place = self._at(point, "0", lanes)
            for sink, start in zip(self.sinks, starts, strict=True):
                w.emit.at(sink.op)
                if start is None:
                    texts = sink.visit(w, place, None)
                    types = sink.types(w, lanes)
                    found.append(list(zip(types, texts, strict=True)))
                else:
                    texts = sink.visit(w, place, [text for _, text in start])
                    found.append([(t, x) for (t, _), x in zip(start, texts, strict=True)])
        return found

    def _tail(self, point: list[Coordinate], start: int, lanes: int) -> list[list[str]]:
        w = self.w
        found: list[list[str]] = []
        with w.body(lanes):
            place = self._at(point, str(start), lanes)
            for sink in self.sinks:
                w.emit.at(sink.op)
                carried = sink.carried(w, lanes)
                texts = None if carried is None else [text for _, text in carried]
                found.append(sink.visit(w, place, texts))
        return found

    def _at(self, point: list[Coordinate], coordinate: str, lanes: int) -> Point:
        if not self.shape:
            return ()
        place = list(point)
        place[self.axis] = Coordinate("lanes" if lanes else "uniform", coordinate)
        return tuple(place)

    def _visit(
        self,
        point: list[Coordinate],
        coordinate: str,
        lanes: int,
        texts: list[str],
        counts: list[int],
    ) -> list[str]:
        w = self.w
        new: list[str] = []
        lanes = lanes if self.extent > 1 else 0
        with w.body(lanes):
            place = self._at(point, coordinate, lanes)
            for sink, own in zip(self.sinks, _split(texts, counts), strict=True):
                w.emit.at(sink.op)
                new += sink.visit(w, place, own)
        return new

    def _pieces(
        self,
        point: list[Coordinate],
        first: str,
        whole: int,
        visit: Callable[[str, list[str]], list[str]],
        carried: list[tuple[str, str]],
    ) -> list[str]:
        """Run whole vectors from `first` to `whole`, unmasked as far as masks allow."""
        w, lanes = self.w, self.width
        w.emit.at(self.sinks[0].op)
        found = None
        if self.masks and not w.compact:
            found = extents(w, self.masks, self.axis, self.extent, tuple(point))
        if found is None:
            return self._run(point, first, str(whole), whole // lanes, visit, carried)
        if whole // lanes <= UNROLLED:
            return self._few(point, found, first, whole, visit, carried)
        return self._many(point, found, first, whole, visit, carried)

    def _run(
        self,
        point: list[Coordinate],
        first: str,
        last: str,
        count: int,
        visit: Callable[[str, list[str]], list[str]],
        carried: list[tuple[str, str]],
    ) -> list[str]:
        w = self.w
        if count <= (1 if w.compact else UNROLLED):
            texts = [text for _, text in carried]
            for number in range(int(first) // self.width, count):
                texts = visit(str(number * self.width), texts)
            return texts
        return self._streamed(point, first, last, visit, carried, whole=True)

    def _few(
        self,
        point: list[Coordinate],
        found: Extents,
        first: str,
        whole: int,
        visit: Callable[[str, list[str]], list[str]],
        carried: list[tuple[str, str]],
    ) -> list[str]:
        """Few vectors: all of them unmasked, or all masked."""
        w = self.w
        types = [type for type, _ in carried]

        def side(known: bool) -> list[tuple[str, str]]:
            with self._knowing(found.masks, True if known else None):
                texts = self._run(point, first, str(whole), whole // self.width, visit, carried)
            return list(zip(types, texts, strict=True))

        if found.live == str(self.extent):
            return [text for _, text in side(True)]
        full = w.emit.pure(f"icmp sge i64 {found.live}, {whole}")
        return w.either(full, lambda: side(True), lambda: side(False))

    def _many(
        self,
        point: list[Coordinate],
        found: Extents,
        first: str,
        whole: int,
        visit: Callable[[str, list[str]], list[str]],
        carried: list[tuple[str, str]],
    ) -> list[str]:
        """Three loops: all masks on, some lanes on, all masks off."""
        w, lanes = self.w, self.width
        emit, a = w.emit, w.arithmetic(0)
        types = [type for type, _ in carried]
        down = emit.pure(f"and i64 {found.live}, {-lanes}") if _is_power(lanes) else (
            emit.mul("i64", emit.pure(f"udiv i64 {found.live}, {lanes}"), str(lanes))
        )  # fmt: skip
        live = a.intrinsic("smin", "i64", [down, str(whole)])
        up = emit.add("i64", found.dead, str(lanes - 1))
        up = emit.mul("i64", emit.pure(f"udiv i64 {up}, {lanes}"), str(lanes))
        dead = a.intrinsic("smin", "i64", [up, str(whole)])
        names = [text for _, text in carried]
        for start, stop, known in ((first, live, True), (live, dead, None), (dead, whole, False)):
            if known is False and not self._needs_dead(found):
                continue
            if start != "0" and first != "0" and start != first:
                start = a.intrinsic("smax", "i64", [start, first])
            with self._knowing(found.masks, known):
                pairs = list(zip(types, names, strict=True))
                names = self._streamed(point, start, str(stop), visit, pairs, whole=known is True)
        return names

    def _streamed(
        self,
        point: list[Coordinate],
        start: str,
        stop: str,
        visit: Callable[[str, list[str]], list[str]],
        carried: list[tuple[str, str]],
        *,
        whole: bool,
    ) -> list[str]:
        """Write a loop; one that only stores also past the caches, for outputs larger than them."""
        w = self.w
        streams = None
        if whole and len(self.sinks) == 1 and isinstance(self.sinks[0].op, Store):
            lanes = self.width
            with w.body(lanes):
                streams = self.sinks[0].streams(w, self._at(point, "0", lanes))
        if streams is None:
            return w.loop(start, stop, self.width, visit, carried)

        def past_caches() -> list[tuple[str, str]]:
            w.streaming = True
            w.loop(start, stop, self.width, visit)
            w.streaming = False
            return []

        def through_caches() -> list[tuple[str, str]]:
            w.loop(start, stop, self.width, visit)
            return []

        w.either(streams, past_caches, through_caches)
        return []

    def _needs_dead(self, found: Extents) -> bool:
        """Say whether anything happens where all masks are off."""
        return any(sink.mask not in found.masks for sink in self.sinks)

    def _knowing(self, masks: tuple[Value, ...], known: bool | None) -> _Knowing:
        return _Knowing(self.w, masks, known)

    # -- reductions along another axis ----------------------------------------------------
    def _across(self, point: list[Coordinate]) -> None:
        """Run the lanes' axis outside, the reduced one inside."""
        lanes = self.width
        assert self.reduced is not None
        whole = self.extent // lanes * lanes

        def visit(coordinate: str, _: list[str]) -> list[str]:
            self._column(point, coordinate, lanes)
            return []

        # Masks that change along the reduced axis are not known to be on for all of it.
        moving = list(point)
        moving[self.reduced] = Coordinate("lanes", "0")
        self._pieces(moving, "0", whole, visit, [])
        if whole < self.extent:
            width = self.extent - whole
            self._column(point, str(whole), width if width > 1 else 0)

    def _column(self, point: list[Coordinate], coordinate: str, lanes: int) -> None:
        w, reduced = self.w, self.reduced
        assert reduced is not None
        lanes = lanes if self.extent > 1 else 0
        base = list(self._at(point, coordinate, lanes))
        starts = [sink.carried(w, lanes) for sink in self.sinks]
        first = 0
        if any(start is None for start in starts):
            starts = self._peel_column(base, starts, lanes)
            first = 1
        counts = [len(start or ()) for start in starts]

        def body(i: str, texts: list[str]) -> list[str]:
            new: list[str] = []
            with w.body(lanes):
                place = list(base)
                place[reduced] = uniform(i)
                for sink, own in zip(self.sinks, _split(texts, counts), strict=True):
                    w.emit.at(sink.op)
                    new += sink.visit(w, tuple(place), own)
            return new

        carried = [pair for start in starts for pair in start or ()]
        names = w.loop(str(first), str(self.shape[reduced]), 1, body, carried)
        for sink, texts in zip(self.sinks, _split(names, counts), strict=True):
            with w.body(lanes):
                sink.finish(w, tuple(base), [(texts, lanes)], lanes_along=False)

    def _peel_column(
        self,
        base: list[Coordinate],
        starts: Sequence[list[tuple[str, str]] | None],
        lanes: int,
    ) -> list[list[tuple[str, str]] | None]:
        w = self.w
        assert self.reduced is not None
        place = list(base)
        place[self.reduced] = ZERO
        found: list[list[tuple[str, str]] | None] = []
        with w.body(lanes):
            for sink, start in zip(self.sinks, starts, strict=True):
                texts = sink.visit(
                    w, tuple(place), None if start is None else [text for _, text in start]
                )
                types = sink.types(w, lanes) if start is None else [t for t, _ in start]
                found.append(list(zip(types, texts, strict=True)))
        return found


class _Knowing:
    """While open, masks are known to be on or off."""

    def __init__(self, w: Writer, masks: tuple[Value, ...], known: bool | None) -> None:
        self.w = w
        self.masks = masks
        self.on = known
        self.before: dict[Value, bool] = {}

    def __enter__(self) -> None:
        self.before = self.w.known
        self.w.known = dict(self.before)
        for mask in self.masks:
            if self.on is None:
                self.w.known.pop(mask, None)
            else:
                self.w.known[mask] = self.on

    def __exit__(self, *_: object) -> None:
        self.w.known = self.before


def _split(texts: Sequence[str], counts: Sequence[int]) -> list[list[str]]:
    found: list[list[str]] = []
    start = 0
    for count in counts:
        found.append(list(texts[start : start + count]))
        start += count
    return found


def _is_power(number: int) -> bool:
    return number & (number - 1) == 0
