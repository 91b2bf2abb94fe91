"""Random tile programs, for Hypothesis or from a seed: well defined, small, and deterministic.

A program reads `f` (f32), `h` (f16) and `g` (i32), is told `n` (small) and `m` (any i32), and
stores everything it computed: floats to `floats`, integers and truth values to `integers`, a
region per program instance and store. Exact integers may leave 32 bits but stay far inside 64;
every address that is dereferenced is in bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from tests.passes.leaves import LARGEST, ROOM, Leaves, Scope
from workbench.ir import (
    F16,
    F32,
    I1,
    I8,
    I32,
    I64,
    INDEX,
    Block,
    KernelParameter,
    Module,
    Op,
    Pointer,
    Scalar,
    Value,
    element_of,
    shape_of,
    tile,
)
from workbench.ops import (
    AddPointer,
    Cast,
    Constant,
    Elementwise,
    For,
    If,
    Iota,
    Load,
    ProgramId,
    Promise,
    Reduce,
    Reshape,
    Return,
    Select,
    Splat,
    Store,
    Transpose,
    While,
    Yield,
)

if TYPE_CHECKING:
    from hypothesis import strategies as st


def unrolling(ops: Sequence[Op]) -> tuple[tuple[str, int], ...]:
    """Return the hints of a loop: some are unrolled, as the length of the body decides."""
    factor = len(ops) % 5
    return (("loop_unroll_factor", factor),) if factor > 1 else ()


class Writer(Leaves):
    """Writes one program."""

    # -- one more op ----------------------------------------------------------------------
    def step(self) -> None:
        kinds = [self.index_step] * 5 + [self.float_step] * 4 + [self.integer_step] * 2
        kinds += [
            self.mask_step,
            self.select_step,
            self.cast_step,
            self.shape_step,
            self.reduce_step,
        ]
        if self.indices:
            kinds = [self.index_step] * 8 + [self.select_step, self.cast_step]
        if self.depth < 2:
            kinds += [self.loop, self.branch, self.pointer_loop, self.while_loop]
        self.pick(kinds)()

    def index_step(self) -> None:
        shape = self.any_shape()
        a, b = self.some(INDEX, shape), self.some(INDEX, shape)
        (a0, a1), (b0, b1) = self.bounds(a), self.bounds(b)
        name = self.pick(
            [
                "add",
                "sub",
                "mul",
                "div",
                "rem",
                "min",
                "max",
                "neg",
                "abs",
                "shl",
                "promise",
                "clamp",
                "clamp",
            ]
        )
        corners = [x * y for x in (a0, a1) for y in (b0, b1)]
        if name == "add":
            self._exact(name, (a, b), (a0 + b0, a1 + b1))
        elif name == "sub":
            self._exact(name, (a, b), (a0 - b1, a1 - b0))
        elif name == "mul":
            self._exact(name, (a, b), (min(corners), max(corners)))
        elif name in ("div", "rem"):
            number = self.pick([1, 2, 3, 4, 8, 16, -3])
            divisor = self.add(Constant(number, tile(shape, INDEX)), (number, number))
            if b0 > 0 and self.number(0, 1):
                divisor = b
            most = max(abs(a0), abs(a1))
            self._exact(name, (a, divisor), (-most, most))
        elif name in ("min", "max"):
            self._exact(name, (a, b), (min(a0, b0), max(a1, b1)))
        elif name in ("neg", "abs"):
            most = max(abs(a0), abs(a1))
            self._exact(name, (a,), (-most, most))
        elif name == "shl":
            by = self.number(0, 6)
            amount = self.add(Constant(by, tile(shape, INDEX)), (by, by))
            self._exact(name, (a, amount), (min(a0, a0 << by), max(a1, a1 << by)))
        elif name == "promise":
            self.promised(a)
        else:
            self.clamped(shape)

    def clamped(self, shape: tuple[int, ...]) -> None:
        """Bring an exact integer, one that may leave 32 bits if there is one, near 0."""
        known = [v for v in self.known(INDEX, shape) if not isinstance(v.op, Constant)]
        wide = [v for v in known if max(map(abs, self.bounds(v))) >= 1 << 31]
        value = self.pick(wide[-4:]) if wide else self.some(INDEX, shape)
        low, high = self.bounds(value)
        limit = self.pick([0, 5, -7, 1 << 20])
        bound = self.add(Constant(limit, tile(shape, INDEX)), (limit, limit))
        if self.number(0, 1):
            self._exact("max", (value, bound), (max(low, limit), max(high, limit)))
        else:
            self._exact("min", (value, bound), (min(low, limit), min(high, limit)))

    def promised(self, value: Value) -> None:
        """Multiply by 16 and say so."""
        shape = shape_of(value.type)
        low, high = self.bounds(value)
        if max(abs(low), abs(high)) > LARGEST >> 4:
            return
        factor = self.builder.add(Constant(16, tile(shape, INDEX)))
        multiple = self.builder.add(Elementwise("mul", (value, factor)))
        ones = (16,) * max(1, len(shape))
        self.add(Promise(multiple, divisible=ones), (min(low * 16, low), max(high * 16, high)))

    def _exact(self, name: str, inputs: tuple[Value, ...], bounds: tuple[int, int]) -> None:
        if max(map(abs, bounds)) <= LARGEST:
            self.add(Elementwise(name, inputs), bounds)

    def float_step(self) -> None:
        shape, element = self.any_shape(), self.pick([F32, F32, F16])
        names = ["add", "sub", "mul", "min", "max", "minimum", "neg", "abs", "fma"]
        name = self.pick([*names, "div"] if self.divisions else names)
        count = {"neg": 1, "abs": 1, "fma": 3}.get(name, 2)
        self.add(Elementwise(name, tuple(self.some(element, shape) for _ in range(count))))

    def integer_step(self) -> None:
        shape, element = self.any_shape(), self.pick([I32, I32, I64, I8])
        name = self.pick(
            ["add", "sub", "mul", "and", "or", "xor", "min", "max", "neg", "shr", "mulhi"]
        )
        inputs = [self.some(element, shape) for _ in range(1 if name == "neg" else 2)]
        if name == "shr":
            inputs[1] = self.add(Constant(self.number(0, 5), tile(shape, element)))
        if name == "mulhi" and element != I32:
            return
        self.add(Elementwise(name, tuple(inputs)))

    def mask_step(self) -> None:
        shape = self.any_shape()
        element = self.pick([INDEX, INDEX, F32, I32, I1])
        names = (
            ["and", "or", "xor", "eq"] if element == I1 else ["lt", "le", "gt", "ge", "eq", "ne"]
        )
        pair = (self.some(element, shape), self.some(element, shape))
        self.add(Elementwise(self.pick(names), pair))

    def select_step(self) -> None:
        shape, element = self.any_shape(), self.pick([INDEX, F32, INDEX, I32, I1])
        element = INDEX if self.indices else element
        condition = self.some(I1, shape if self.number(0, 2) else ())
        a, b = self.some(element, shape), self.some(element, shape)
        self.add(Select(condition, a, b), self._union([a, b]))

    def _union(self, values: list[Value]) -> tuple[int, int] | None:
        if element_of(values[0].type) != INDEX:
            return None
        found = [self.bounds(v) for v in values]
        return min(low for low, _ in found), max(high for _, high in found)

    def cast_step(self) -> None:
        shape = self.any_shape()
        source, target = self.pick(
            [(INDEX, I32), (INDEX, I64), (INDEX, F32), (I32, INDEX), (I8, INDEX), (I32, I64),
             (I64, I32), (F32, F16), (F16, F32), (F32, I32), (I32, F32), (I1, I32), (I32, I1),
             (I32, I8), (INDEX, I8), (INDEX, I1)]
        )  # fmt: skip
        value = self.some(source, shape)
        bounds = None
        if target == INDEX:
            bounds = (-(1 << source.bits - 1), (1 << source.bits - 1) - 1)
        self.add(Cast(value, target), bounds)

    def shape_step(self) -> None:
        rows, columns = self.shape2
        element = self.pick([F32, INDEX, I32])
        kind = self.number(0, 2)
        if kind == 0:
            value = self.some(element, (rows, columns))
            turned = self.add(Transpose(value, (1, 0)), self._same(value))
            self.add(Transpose(turned, (1, 0)), self._same(value))
        elif kind == 1:
            value = self.some(element, (rows, columns))
            flat = self.add(Reshape(value, (rows * columns,)), self._same(value))
            self.add(Reshape(flat, (rows, columns)), self._same(value))
        else:
            value = self.some(element, (columns,))
            self.add(Reshape(value, (1, columns)), self._same(value))

    def reduce_step(self) -> None:
        shape = self.pick([self.shape2, (self.shape2[1],)])
        element = self.pick([F32, I32])
        axis = self.number(0, len(shape) - 1)
        if self.number(0, 3) == 0:
            self.largest_with_place(element, shape, axis)
            return
        value = self.some(element, shape)
        name = self.pick(["add", "max", "min"])
        a, b = Value(element, "a"), Value(element, "b")
        with self.builder.block() as ops:
            self.builder.insert(Yield((self.builder.add(Elementwise(name, (a, b))),)))
        reduced = self.builder.insert(
            Reduce((value,), axis=axis, combine=Block((a, b), tuple(ops)))
        )
        self.know(reduced.results[0])

    def largest_with_place(self, element: Scalar, shape: tuple[int, ...], axis: int) -> None:
        """Reduce to the largest element and a number that came with it."""
        values, places = self.some(element, shape), self.some(I32, shape)
        names = [Value(t, n) for t, n in ((element, "a"), (I32, "i"), (element, "b"), (I32, "j"))]
        a, i, b, j = names
        with self.builder.block() as ops:
            first = self.builder.add(Elementwise("gt", (a, b)))
            same = self.builder.add(Elementwise("eq", (a, b)))
            smaller = self.builder.add(Elementwise("lt", (i, j)))
            tie = self.builder.add(Elementwise("and", (same, smaller)))
            left = self.builder.add(Elementwise("or", (first, tie)))
            best = self.builder.add(Select(left, a, b))
            place = self.builder.add(Select(left, i, j))
            self.builder.insert(Yield((best, place)))
        block = Block((a, i, b, j), tuple(ops))
        done = self.builder.insert(Reduce((values, places), axis=axis, combine=block))
        for result in done.results:
            self.know(result)

    # -- control flow ---------------------------------------------------------------------
    def body(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def trips(self) -> tuple[Value, Value, Value, int]:
        """Return the bounds of a loop of few rounds, and the most its counter reaches."""
        step = self.pick([1, 2, 3])
        lower, upper = self.number(0, 2), self.number(0, 6)
        values = [self.builder.add(Constant(v, INDEX)) for v in (lower, upper, step)]
        if self.number(0, 1):
            values[1] = self.parameters["n"]
        if self.number(0, 4) == 0:
            values[0], values[1] = values[1], values[0]
            values[2] = self.builder.add(Constant(-step, INDEX))
        return values[0], values[1], values[2], 8

    def loop(self) -> None:
        """A loop that carries a tile of numbers and an exact integer that advances evenly."""
        lower, upper, step, most = self.trips()
        element, shape = self.pick([F32, I32, F16]), self.any_shape()
        init, start = self.carried(self.some(element, shape)), self.some(INDEX, ())
        low, high = self.bounds(start)
        move = self.pick([1, -1, 4, 100, 1 << 29])
        counter, total, place = Value(INDEX, "k"), Value(init.type, "total"), Value(INDEX, "place")
        reach = move * most
        bounds = (low + min(0, reach), high + max(0, reach))
        outside = self.builder.add(Constant(move, INDEX))
        self.scopes.append(Scope())
        self.depth += 1
        with self.builder.block() as ops:
            self.know(counter, (-1, most))
            self.know(total)
            self.know(place, bounds)
            self.body(self.number(1, 3))
            other = self.some(element, shape)
            after = self.builder.add(Elementwise(self.pick(["add", "max"]), (total, other)))
            after = self.carried(after)
            by = outside if self.number(0, 1) else self.builder.add(Constant(move, INDEX))
            moved = self.builder.add(Elementwise("add", (place, by)))
            self.builder.insert(Yield((after, moved)))
        self.depth -= 1
        self.scopes.pop()
        block = Block((counter, total, place), tuple(ops))
        done = self.builder.insert(
            For(lower, upper, step, (init, start), block, hints=unrolling(ops))
        )
        self.know(done.results[0])
        self.know(done.results[1], bounds)

    def pointer_loop(self) -> None:
        """A loop that moves a tile of pointers as a whole and sums what they point at."""
        lower, upper, step, most = self.trips()
        shape = self.pick([(self.shape2[1],), self.shape2])
        count = prod(shape)
        line = self.builder.add(Iota(0, tile((count,), INDEX)))
        place = self.builder.add(Reshape(line, shape)) if len(shape) > 1 else line
        pointers = self.pointers("f", place)
        zero = self.builder.add(Constant(0.0, tile(shape, F32)))
        counter, total = Value(INDEX, "k"), Value(zero.type, "total")
        moving, where = Value(pointers.type, "p"), Value(place.type, "where")
        kind = self.pick([INDEX, I64])
        self.scopes.append(Scope())
        self.depth += 1
        with self.builder.block() as ops:
            self.know(counter, (-1, most))
            inside, _ = self.inside(where)
            loaded = self.builder.add(Load(moving, inside))
            self.know(loaded)
            self.body(self.number(0, 2))
            after = self.builder.add(Elementwise("add", (total, loaded)))
            scalar = self.pick([1, 2, 3, 16])
            by = self.builder.add(Constant(scalar, tile(shape, kind)))
            moved = self.builder.add(AddPointer(moving, by))
            again = self.builder.add(Constant(scalar, tile(shape, INDEX)))
            next_place = self.builder.add(Elementwise("add", (where, again)))
            if self.number(0, 1):
                more = self.builder.add(Splat(self.parameters["n"], shape))
                moved = self.builder.add(AddPointer(moved, more))
                next_place = self.builder.add(Elementwise("add", (next_place, more)))
            self.builder.insert(Yield((after, moved, next_place)))
        self.depth -= 1
        self.scopes.pop()
        block = Block((counter, total, moving, where), tuple(ops))
        done = self.builder.insert(
            For(lower, upper, step, (zero, pointers, place), block, hints=unrolling(ops))
        )
        self.know(done.results[0])
        self.know(done.results[2], (0, count + most * 32))

    def while_loop(self) -> None:
        """A while loop that counts up by an exact integer."""
        element = self.pick([F32, I32])
        init = self.carried(self.some(element, self.any_shape()))
        start = self.builder.add(Constant(0, INDEX))
        limit = self.builder.add(Constant(self.number(0, 5), INDEX))
        scale = self.pick([1, 3, 1 << 29])
        pair = [(Value(INDEX, "i"), Value(init.type, "t")) for _ in range(2)]
        factor = self.builder.add(Constant(scale, INDEX))
        end = self.builder.add(Elementwise("mul", (limit, factor)))
        with self.builder.block() as test:
            go = self.builder.add(Elementwise("lt", (pair[0][0], end)))
            self.builder.insert(Yield((go,)))
        self.scopes.append(Scope())
        self.depth += 1
        with self.builder.block() as ops:
            self.know(pair[1][0], (0, 5 * scale))
            self.know(pair[1][1])
            self.body(self.number(1, 2))
            after = self.builder.add(
                Elementwise("add", (pair[1][1], self.some(element, shape_of(init.type))))
            )
            after = self.carried(after)
            moved = self.builder.add(Elementwise("add", (pair[1][0], factor)))
            self.builder.insert(Yield((moved, after)))
        self.depth -= 1
        self.scopes.pop()
        blocks = (Block(pair[0], tuple(test)), Block(pair[1], tuple(ops)))
        done = self.builder.insert(While((start, init), *blocks))
        self.know(done.results[0], (0, 6 * scale))
        self.know(done.results[1])

    def branch(self) -> None:
        condition = self.some(I1, ())
        shape = self.any_shape()
        blocks, exact = [], []
        element = self.pick([F32, I32])
        for _ in range(2):
            self.scopes.append(Scope())
            self.depth += 1
            with self.builder.block() as ops:
                self.body(self.number(0, 2))
                place, value = self.some(INDEX, ()), self.carried(self.some(element, shape))
                exact.append(self.bounds(place))
                self.builder.insert(Yield((place, value)))
            self.depth -= 1
            self.scopes.pop()
            blocks.append(Block((), tuple(ops)))
        done = self.builder.insert(If(condition, *blocks))
        self.know(done.results[0], (min(b[0] for b in exact), max(b[1] for b in exact)))
        self.know(done.results[1])

    # -- the whole ------------------------------------------------------------------------
    def kept(self) -> list[Value]:
        """Return what is stored at the end, as far as there is room, the first ones first."""
        return self.scopes[0].values

    def store(self, value: Value) -> None:
        """Store a value where nothing else is stored."""
        shape, element = shape_of(value.type), element_of(value.type)
        count = prod(shape)
        if self.stored + count > ROOM:
            return
        builder = self.builder
        place = builder.add(Constant(self.stored, INDEX))
        place = builder.add(Elementwise("add", (place, self.region)))
        if shape:
            line = builder.add(Iota(0, tile((count,), INDEX)))
            tiled = builder.add(Reshape(line, shape)) if len(shape) > 1 else line
            place = builder.add(Elementwise("add", (builder.add(Splat(place, shape)), tiled)))
        name, to = ("floats", F32) if element.is_float else ("integers", I64)
        held = value if element == to else builder.add(Cast(value, to))
        builder.insert(Store(self.pointers(name, place), held))
        self.stored += count

    def module(self) -> Module:
        kinds = {"f": Pointer(F32), "h": Pointer(F16), "g": Pointer(I32), "floats": Pointer(F32),
                 "integers": Pointer(I64), "n": INDEX, "m": INDEX}  # fmt: skip
        self.parameters = {name: Value(kind, name) for name, kind in kinds.items()}
        with self.builder.block() as ops:
            self.know(self.parameters["n"], (0, 8))
            self.know(self.parameters["m"], (-(1 << 31), (1 << 31) - 1))
            program = self.builder.add(ProgramId(0))
            room = self.builder.add(Constant(ROOM, INDEX))
            self.region = self.builder.add(Elementwise("mul", (program, room)))
            for _ in range(self.size):
                self.step()
            for value in self.kept():
                if value not in (self.parameters["n"], self.parameters["m"]):
                    self.store(value)
            self.builder.insert(Return())
        parameters = tuple(
            KernelParameter(name, value, divisible=16 if isinstance(value.type, Pointer) else 1)
            for name, value in self.parameters.items()
        )
        return Module("random", parameters, Block((), tuple(ops)), {}, self.builder.next_id)


class _Drawn:
    """Choices that Hypothesis makes; its package is needed here and below only."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        from hypothesis import strategies

        self.draw, self.strategies = draw, strategies

    def choice(self, options: list[Any], /) -> Any:
        return self.draw(self.strategies.sampled_from(options))

    def randint(self, low: int, high: int, /) -> int:
        return self.draw(self.strategies.integers(low, high))


def modules(
    most: int = 20, indices: bool = False, divisions: bool = True
) -> st.SearchStrategy[Module]:
    """Programs of up to `most` top-level steps; with `indices` mostly exact integers."""
    from hypothesis import strategies as st

    @st.composite
    def written(draw: Any) -> Module:
        choices = _Drawn(draw)
        size = choices.randint(1, most)
        return Writer(choices, size, indices=indices, divisions=divisions).module()

    return written()
