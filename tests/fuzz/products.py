"""Writes products of tiles: batched, of every type, and in loops that load their operands."""

from __future__ import annotations

from tests.fuzz.exact import DIGITS, ExactWriter, Size
from tests.passes.leaves import SIZE, Scope
from workbench.ir import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I8,
    I32,
    INDEX,
    Block,
    Scalar,
    Value,
    shape_of,
    tile,
)
from workbench.ops import (
    Broadcast,
    Cast,
    Constant,
    Dot,
    Elementwise,
    For,
    Iota,
    Load,
    Reshape,
    Splat,
    Transpose,
    Yield,
)


class ProductWriter(ExactWriter):
    """An ExactWriter with more kinds of products."""

    def operand(self, element: Scalar, shape: tuple[int, ...], size: Size) -> Value:
        """Return a tile of small numbers."""
        if element in (F8E4M3, F8E5M2):
            return self.builder.add(Cast(self.settled(self.some(F32, shape), size), element))
        return self.settled(self.some(element, shape), size)

    def product(self, a: Value, b: Value, total: Scalar, size: Size) -> Value:
        shape = (*shape_of(a.type)[:-1], shape_of(b.type)[-1])
        c = self.settled(self.some(total, shape), (32, 1))
        precision = self.pick(["ieee", "tf32"])
        done = self.builder.add(Dot(a, b, c, precision=precision))
        most, digits = size
        self.sizes[done] = (32 + shape_of(a.type)[-1] * most**2, max(1, 2 * digits))
        self.know(done)
        return done

    def batched_dot(self) -> None:
        batch, rows, columns = self.pick([1, 2, 3, 4]), *self.shape2
        if batch * rows * columns > 4096:
            return
        inner = self.pick([2, 16, 16, 32])
        element, total = self.pick([(F16, F32), (F32, F32), (I8, I32), (BF16, F32), (F64, F64)])
        size = (4, 1)
        a = self.operand(element, (batch, rows, inner), size)
        b = self.operand(element, (batch, inner, columns), size)
        self.product(a, b, total, size)

    def small_dot(self) -> None:
        """Types whose sums are short, and operands that come turned."""
        rows, columns = self.shape2
        element, total = self.pick(
            [(F8E4M3, F32), (F8E5M2, F32), (F16, F16), (F64, F64), (F16, F32), (I8, I32)]
        )
        inner, size = self.pick([16, 32, 32, 64]), (2, 0)
        a = self.operand(element, (rows, inner), size)
        b = self.operand(element, (columns, inner), size)
        turned = self.builder.add(Transpose(b, (1, 0)))
        if element in DIGITS:
            self.sizes[turned] = size
        self.product(a, turned, total, size)

    def dot_loop(self) -> None:
        """Sum products of tiles that each round loads, as a matrix product does."""
        rows, columns = self.shape2
        if self.depth or rows * columns > 2048:
            return
        inner = self.pick([8, 16, 32])
        name = self.pick("hhf")
        build = self.builder
        a0, a1 = self.places((rows, inner), inner), self.places((inner, columns), columns)
        zero = build.add(Constant(0.0, tile((rows, columns), F32)))
        lower, step = build.add(Constant(0, INDEX)), build.add(Constant(1, INDEX))
        rounds = self.pick([2, 3, 4])
        upper = build.add(Constant(rounds, INDEX))
        if self.number(0, 1):
            limit = build.add(Elementwise("min", (self.parameters["n"], upper)))
            upper = limit
        counter, total = Value(INDEX, "k"), Value(zero.type, "total")
        self.scopes.append(Scope())
        self.depth += 1
        with build.block() as ops:
            tiles = []
            for place, ahead in ((a0, inner), (a1, inner * columns)):
                by = build.add(Constant(self.pick([ahead, 8]), INDEX))
                moved = build.add(Elementwise("mul", (counter, by)))
                shape = shape_of(place.type)
                moved = build.add(Elementwise("add", (build.add(Splat(moved, shape)), place)))
                inside, clamped = self.inside(moved)
                where = self.pick([moved, clamped])
                loaded = build.add(Load(self.pointers(name, where), inside))
                self.sizes[loaded] = (8, 1)
                tiles.append(loaded)
            if self.number(0, 1):
                tiles[0] = self.settled(tiles[0], (4, 1))
            summed = build.add(Dot(*tiles, total, precision="ieee"))
            self.know(counter, (0, rounds))
            self.body(self.number(0, 1))
            build.insert(Yield((summed,)))
        self.depth -= 1
        self.scopes.pop()
        done = build.insert(For(lower, upper, step, (zero,), Block((counter, total), tuple(ops))))
        self.sizes[done.results[0]] = (64.0 * inner * rounds, 2)
        self.know(done.results[0])

    def places(self, shape: tuple[int, int], pitch: int) -> Value:
        """Return row * pitch + column for each element, from a start."""
        build, parts = self.builder, []
        for axis, factor in ((0, pitch), (1, 1)):
            line = build.add(Iota(0, tile((shape[axis],), INDEX)))
            scale = build.add(Constant(factor, line.type))
            line = build.add(Elementwise("mul", (line, scale)))
            thin = (shape[0], 1) if axis == 0 else (1, shape[1])
            parts.append(build.add(Broadcast(build.add(Reshape(line, thin)), shape)))
        start = build.add(Constant(self.pick([0, 0, 8, 3, SIZE - 40]), tile(shape, INDEX)))
        return build.add(Elementwise("add", (build.add(Elementwise("add", tuple(parts))), start)))


__all__ = ["ProductWriter"]
