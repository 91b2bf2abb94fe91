"""Writes stores whose order matters: in nested regions, between programs, before loads they meet.

A window is a piece of the output that one program stores to and loads from, at places that
overlap and depend on loop counters, in any region; a load must see what the stores before it in
the program's order left there. What programs tell each other goes through atomics that release
and acquire: a lock, a flag that one program waits for, a count by which the last one knows itself.
The first program waits for nobody, so that programs may also run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from tests.fuzz.exact import DIGITS
from tests.fuzz.maps import MapWriter
from tests.fuzz.wide import RESERVED, SHARED
from tests.passes.leaves import GRID, ROOM, Scope
from workbench.ir import (
    F16,
    F32,
    I1,
    I8,
    I16,
    I32,
    I64,
    INDEX,
    U8,
    Block,
    Pointer,
    Scalar,
    Value,
    element_of,
    shape_of,
    tile,
)
from workbench.ops import (
    AddPointer,
    AtomicCompareExchange,
    AtomicUpdate,
    Barrier,
    Bitcast,
    Constant,
    Dot,
    Elementwise,
    For,
    If,
    Load,
    ProgramId,
    Splat,
    Store,
    While,
    Yield,
)

#: What a window may hold, and in which output it lies.
HELD = {I64: "integers", I32: "integers", I16: "integers", I8: "integers", U8: "integers",
        F16: "integers", F32: "floats"}  # fmt: skip
#: Floats in windows: at most this, in steps of 1/2.
SMALL = (4, 1)


@dataclass(frozen=True)
class Window:
    """So many elements of a type in a program's own part of an output, from a place on."""

    element: Scalar
    name: str
    start: int
    count: int


class OrderWriter(MapWriter):
    """A MapWriter with windows and flags."""

    def __init__(self, seed: int, steps: int) -> None:
        super().__init__(seed, steps)
        self.windows: list[Window] = []
        #: The next element of the part that all programs share.
        self.common = {"integers": ROOM - RESERVED, "floats": ROOM - RESERVED}

    def memory_step(self) -> None:
        """One more access whose order matters."""
        kinds = [self.window_store, self.window_store, self.window_load, self.window_load]
        if self.number(0, 7) == 0:
            kinds.append(lambda: self.builder.insert(Barrier()))
        if self.depth < 2:
            kinds += [self.region_of_stores, self.region_of_stores]
        if not self.depth:
            kinds += [self.staged_loop, self.staged_loop, self.handshake, self.locked,
                      self.last_program, self.ticket]  # fmt: skip
        self.pick(kinds)()

    # -- windows --------------------------------------------------------------------------
    def window(self, element: Scalar | None = None, least: int = 1) -> Window | None:
        """Return a window that there is, or a new one."""
        fitting = [
            w for w in self.windows
            if element in (None, w.element) and w.count >= least
        ]  # fmt: skip
        if fitting and self.number(0, 3):
            return self.pick(fitting)
        element = element or self.pick(HELD)
        name = HELD[element]
        width = 64 if name == "integers" else 32
        words = max(self.pick([8, 32, 128]), -(-least * element.bits // width))
        if self.stored + words > ROOM - RESERVED:
            return self.pick(fitting) if fitting else None
        # Aligned, as arrays are, if there is room for it.
        aligned = -(-self.stored // 32) * 32
        self.stored = aligned if aligned + words <= ROOM - RESERVED else self.stored
        window = Window(element, name, self.stored, words * width // element.bits)
        self.stored += words
        self.windows.append(window)
        return window

    def shape_in(self, window: Window) -> tuple[int, ...]:
        shapes = [(), (self.shape2[1],), self.shape2, self.shape2, (self.shape2[0],)]
        return self.pick([shape for shape in shapes if prod(shape) <= window.count])

    def window_pointers(self, window: Window, place: Value) -> Value:
        build, shape = self.builder, shape_of(place.type)
        start = build.add(Constant(window.start, INDEX))
        start = build.add(Elementwise("add", (start, self.region)))
        base = build.add(AddPointer(self.parameters[window.name], start))
        if element_of(base.type) != Pointer(window.element):
            base = build.add(Bitcast(base, Pointer(window.element)))
        if shape:
            base = build.add(Splat(base, shape))
        return build.add(AddPointer(base, place))

    def offset(self, most: int) -> Value:
        """Return a scalar from 0 to `most`: a number, or one that the program computes."""
        if self.number(0, 1) == 0:
            return self.builder.add(Constant(self.number(0, most), INDEX))
        value = self.some(INDEX, ())
        for name, limit in (("max", 0), ("min", most)):
            edge = self.builder.add(Constant(limit, INDEX))
            value = self.builder.add(Elementwise(name, (value, edge)))
        return value

    def spread_place(self, window: Window, shape: tuple[int, ...]) -> Value:
        """Return a place for each element, no two the same, from an offset on."""
        build, count = self.builder, prod(shape)
        stride = self.pick([1, 1, 2, 3]) if count * 3 <= window.count else 1
        place = self.line(shape)
        if stride > 1:
            place = build.add(Elementwise("mul", (place, build.add(Constant(stride, place.type)))))
        span = (count - 1) * stride
        if self.number(0, 2) == 0:
            place = build.add(Elementwise("sub", (build.add(Constant(span, place.type)), place)))
        offset = self.offset(window.count - 1 - span)
        offset = build.add(Splat(offset, shape)) if shape else offset
        return build.add(Elementwise("add", (place, offset)))

    def any_place(self, window: Window, shape: tuple[int, ...]) -> Value:
        value = self.some(INDEX, shape)
        for name, limit in (("max", 0), ("min", window.count - 1)):
            edge = self.builder.add(Constant(limit, tile(shape, INDEX)))
            value = self.builder.add(Elementwise(name, (value, edge)))
        return value

    def held_value(self, element: Scalar, shape: tuple[int, ...]) -> Value:
        return self.settled(self.some(element, shape), SMALL)

    def window_store(self) -> None:
        if (window := self.window()) is not None:
            self.store_into(window, self.shape_in(window))

    def store_into(self, window: Window, shape: tuple[int, ...]) -> None:
        value = self.held_value(window.element, shape)
        place = self.spread_place(window, shape)
        mask = self.some(I1, shape) if self.number(0, 2) == 0 else None
        cache = self.pick(["", "", "", "wb", "cg", "cs", "wt"])
        pointers = self.window_pointers(window, place)
        self.builder.insert(Store(pointers, value, mask, cache=cache))

    def window_load(self) -> None:
        if (window := self.window()) is not None:
            self.load_from(window, self.shape_in(window))

    def load_from(self, window: Window, shape: tuple[int, ...]) -> Value:
        which = self.pick([self.spread_place, self.spread_place, self.any_place])
        pointers = self.window_pointers(window, which(window, shape))
        mask = self.some(I1, shape) if self.number(0, 2) == 0 else None
        options: dict[str, Any] = {"cache": self.pick(["", "", "", "ca", "cg", "cv"])}
        options["volatile"] = self.number(0, 7) == 0
        loaded = self.builder.add(Load(pointers, mask, **options))
        if window.element in DIGITS:
            self.sizes[loaded] = SMALL
        self.know(loaded)
        return loaded

    # -- regions that store -----------------------------------------------------------------
    def inside_of(self, write: Callable[[], Any]) -> tuple[Any, ...]:
        """Write ops into a block of their own; returns them."""
        self.scopes.append(Scope())
        self.depth += 1
        with self.builder.block() as ops:
            write()
            self.builder.insert(Yield())
        self.depth -= 1
        self.scopes.pop()
        return tuple(ops)

    def accesses(self, window: Window, shape: tuple[int, ...]) -> None:
        """Store into a window, and perhaps load from it before or after."""
        if self.number(0, 1):
            self.load_from(window, shape)
        self.store_into(window, shape)
        if self.number(0, 2) == 0:
            self.load_from(window, self.shape_in(window))

    def region_of_stores(self, window: Window | None = None) -> None:
        """An `if`, a loop or both around stores into a window that is loaded before and after."""
        window = window or self.window()
        if window is None:
            return
        shape = self.shape_in(window)
        if self.number(0, 1):
            self.load_from(window, shape)

        def write() -> None:
            if self.depth < 3 and self.number(0, 3) == 0:
                self.region_of_stores(window)
            self.accesses(window, shape)

        self.pick([self.if_around, self.for_around, self.while_around])(write)
        self.load_from(window, shape)

    def if_around(self, write: Callable[[], Any]) -> None:
        condition = self.some(I1, ())
        then = self.inside_of(write)
        otherwise = self.inside_of(write if self.number(0, 3) == 0 else lambda: None)
        self.builder.insert(If(condition, Block((), then), Block((), otherwise)))

    def for_around(self, write: Callable[[], Any]) -> None:
        lower, upper, step, most = self.trips()
        counter = Value(INDEX, "j")

        def rounds() -> None:
            self.know(counter, (-1, most))
            write()

        ops = self.inside_of(rounds)
        self.builder.insert(For(lower, upper, step, (), Block((counter,), ops)))

    def while_around(self, write: Callable[[], Any]) -> None:
        build = self.builder
        start, end, one = (build.add(Constant(k, INDEX)) for k in (0, self.number(1, 4), 1))
        tested, counter = Value(INDEX, "i"), Value(INDEX, "i")
        with build.block() as test:
            build.insert(Yield((build.add(Elementwise("lt", (tested, end))),)))
        self.scopes.append(Scope())
        self.depth += 1
        with build.block() as ops:
            self.know(counter, (0, 4))
            write()
            build.insert(Yield((build.add(Elementwise("add", (counter, one))),)))
        self.depth -= 1
        self.scopes.pop()
        build.insert(While((start,), Block((tested,), tuple(test)), Block((counter,), tuple(ops))))

    def staged_loop(self) -> None:
        """Sum products of tiles from a window that the loop stores to, in a region of its own.

        The tiles lie as those of matrices do, aligned, so that they may be copied some rounds
        ahead, as far as the stores allow.
        """
        rows, columns = self.shape2
        if rows * columns > 1024:
            return
        inner, build = self.pick([8, 16, 32]), self.builder
        element = self.pick([F16, F16, F32, F32])
        rounds, ahead = self.number(2, 5), self.pick([0, 8, 16, inner, inner * columns])
        shapes = ((rows, inner), (inner, columns))
        least = max(rows, columns) * inner + rounds * ahead
        windows = [self.window(element, least) for _ in shapes]
        if windows[0] is None or windows[1] is None:
            return
        for window, shape in zip(windows, shapes, strict=True):
            self.store_into(window, shape)
        zero = build.add(Constant(0.0, tile((rows, columns), F32)))
        lower, upper, step = (build.add(Constant(k, INDEX)) for k in (0, rounds, 1))
        counter, total = Value(INDEX, "k"), Value(zero.type, "total")
        self.scopes.append(Scope())
        self.depth += 1
        with build.block() as ops:
            self.know(counter, (0, rounds))
            early = self.number(0, 2) == 0
            if early:
                self.region_of_stores(self.pick(windows))
            tiles = []
            for window, shape in zip(windows, shapes, strict=True):
                moved = self.plus(counter, self.number_of(ahead), "mul")
                lines = (self.line(shape[:1]), self.line(shape[1:]))
                place = self.plus(self.rows(*lines, self.number_of(shape[1]), shape), moved)
                tiles.append(build.add(Load(self.window_pointers(window, place))))
            precision = self.pick(["ieee", "tf32"])
            summed = build.add(Dot(*tiles, total, precision=precision))
            if not early:
                self.region_of_stores(self.pick(windows))
            build.insert(Yield((summed,)))
        self.depth -= 1
        self.scopes.pop()
        block = Block((counter, total), tuple(ops))
        stages = {"stages": self.number(1, 4)} if self.number(0, 1) else {}
        done = build.insert(For(lower, upper, step, (zero,), block, **stages))
        self.sizes[done.results[0]] = (16.0 * inner * 5, 2)
        self.know(done.results[0])
        self.load_from(windows[0], shapes[0])

    # -- between programs ---------------------------------------------------------------------
    def shared_place(self, name: str, count: int) -> int | None:
        """Return the first of elements of an output that all programs may touch."""
        start = self.common[name]
        if start + count > ROOM - SHARED:
            return None
        self.common[name] = start + count
        return start

    def shared_pointers(self, name: str, start: int, shape: tuple[int, ...]) -> Value:
        build = self.builder
        place = build.add(Constant(start, INDEX))
        if shape:
            place = build.add(
                Elementwise("add", (build.add(Splat(place, shape)), self.line(shape)))
            )
        return self.pointers(name, place)

    def shared_tile(self) -> tuple[str, Scalar, tuple[int, ...]] | None:
        """Return an output, its type and a shape that fits what is left to share."""
        name, element = self.pick([("integers", I64), ("floats", F32)])
        shapes = [s for s in ((), (self.shape2[1],), (self.shape2[0],), self.shape2)
                  if prod(s) <= 64]  # fmt: skip
        return name, element, self.pick(shapes)

    def whole(self, number: int) -> Value:
        return self.builder.add(Constant(number, I64))

    def update(self, pointer: Value, number: int, function: str, order: str) -> Value:
        update = AtomicUpdate(
            pointer,
            self.whole(number),
            function=function,
            order=order,
            scope="gpu",  # type: ignore[arg-type]
        )
        return self.builder.add(update)

    def wait(self, test: Callable[[], Value]) -> None:
        """Do nothing while a test holds."""
        with self.builder.block() as ops:
            self.builder.insert(Yield((test(),)))
        with self.builder.block() as nothing:
            self.builder.insert(Yield())
        self.builder.insert(While((), Block((), tuple(ops)), Block((), tuple(nothing))))

    def is_zero(self, value: Value) -> Value:
        return self.builder.add(Elementwise("eq", (value, self.whole(0))))

    def handshake(self) -> None:
        """The first program stores a tile and says so; the others wait, and load it."""
        found = self.shared_tile()
        flag = self.shared_place("integers", 1)
        if found is None or flag is None:
            return
        name, element, shape = found
        data = self.shared_place(name, prod(shape))
        if data is None:
            return
        build = self.builder
        value = self.settled(self.some(element, shape), SMALL)
        first = build.add(Constant(0, INDEX))
        first = build.add(Elementwise("eq", (build.add(ProgramId(0)), first)))
        raised = self.pick([("exchange", "release"), ("add", "acq_rel"), ("or", "release")])
        polled = self.number(0, 3)
        with build.block() as then:
            build.insert(Store(self.shared_pointers(name, data, shape), value))
            self.update(self.shared_pointers("integers", flag, ()), 1, *raised)
            build.insert(Yield((value,)))
        with build.block() as otherwise:
            pointer = self.shared_pointers("integers", flag, ())
            if polled == 0:
                # A plain load ends the loop; what orders the tile is the update after it.
                self.wait(lambda: self.is_zero(build.add(Load(pointer))))
                self.update(pointer, 0, "add", "acquire")
            elif polled == 1:
                zero = self.whole(0)
                exchange = AtomicCompareExchange(pointer, zero, zero, order="acquire")
                self.wait(lambda: self.is_zero(build.add(exchange)))
            else:
                order = self.pick(["acquire", "acq_rel"])
                self.wait(lambda: self.is_zero(self.update(pointer, 0, "add", order)))
            loaded = build.add(Load(self.shared_pointers(name, data, shape)))
            build.insert(Yield((loaded,)))
        blocks = Block((), tuple(then)), Block((), tuple(otherwise))
        done = build.insert(If(first, *blocks)).results[0]
        if element in DIGITS:
            self.sizes[done] = SMALL
        self.know(done)

    def locked(self) -> None:
        """Take a lock, add to a tile that all programs add to, give it back."""
        found = self.shared_tile()
        lock = self.shared_place("integers", 1)
        if found is None or lock is None:
            return
        name, element, shape = found
        data = self.shared_place(name, prod(shape))
        if data is None:
            return
        build = self.builder
        mine = self.settled(self.some(element, shape), SMALL)
        pointer = self.shared_pointers("integers", lock, ())
        order = self.pick(["acquire", "acq_rel"])

        def taken() -> Value:
            exchange = AtomicCompareExchange(pointer, self.whole(0), self.whole(1), order=order)
            old = build.add(exchange)
            return build.add(Elementwise("ne", (old, self.whole(0))))

        self.wait(taken)
        pointers = self.shared_pointers(name, data, shape)
        there = build.add(Load(pointers))
        function = self.pick(["add", "add", "max"])
        build.insert(Store(pointers, build.add(Elementwise(function, (there, mine)))))
        self.update(pointer, 0, "exchange", self.pick(["release", "acq_rel"]))

    def last_program(self) -> None:
        """All programs store a tile; the one that counts last adds them up."""
        found = self.shared_tile()
        count = self.shared_place("integers", 1)
        if found is None or count is None:
            return
        name, element, shape = found
        size = prod(shape)
        data = self.shared_place(name, size * (GRID[0] + 1))
        if data is None:
            return
        build = self.builder
        value = self.settled(self.some(element, shape), SMALL)
        step = build.add(Constant(size, INDEX))
        start = build.add(Elementwise("mul", (build.add(ProgramId(0)), step)))
        start = build.add(Splat(start, shape)) if shape else start
        own = build.add(AddPointer(self.shared_pointers(name, data, shape), start))
        build.insert(Store(own, value))
        pointer = self.shared_pointers("integers", count, ())
        old = self.update(pointer, 1, "add", "acq_rel")
        last = build.add(Elementwise("eq", (old, self.whole(GRID[0] - 1))))
        with build.block() as then:
            parts = [
                build.add(Load(self.shared_pointers(name, data + k * size, shape)))
                for k in range(GRID[0])
            ]
            total = build.add(Elementwise("add", (parts[0], parts[1])))
            build.insert(Store(self.shared_pointers(name, data + GRID[0] * size, shape), total))
            build.insert(Yield())
        with build.block() as otherwise:
            build.insert(Yield())
        build.insert(If(last, Block((), tuple(then)), Block((), tuple(otherwise))))

    def ticket(self) -> None:
        """Each program takes a number and stores at its place what all store."""
        place = self.shared_place("integers", 1 + GRID[0])
        if place is None:
            return
        build = self.builder
        pointer = self.shared_pointers("integers", place, ())
        order = self.pick(["relaxed", "acq_rel", "acquire", "release"])
        old = self.update(pointer, 1, "add", order)
        own = build.add(AddPointer(self.shared_pointers("integers", place + 1, ()), old))
        build.insert(Store(own, self.whole(7)))


__all__ = ["OrderWriter", "Window"]
