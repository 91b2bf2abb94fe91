"""Writes what authors say about their indices, all of it true, and how they keep them inside.

Promises of contiguous, constant and divisible numbers beside the arithmetic that makes them so;
assumptions that hold; clamps by `min`, `where` and `%` in front of contiguous loads; extents that
are multiples of 8 and not of 16; pointers that a `while` or an `if` hands on; tiles that a loop
loads once and reads in several ways.
"""

from __future__ import annotations

from typing import Any

from tests.fuzz.exact import DIGITS
from tests.fuzz.rounding import RoundingWriter
from tests.passes.leaves import SIZE, Scope
from workbench.ir import F16, F32, I1, I32, INDEX, Block, Value, element_of, shape_of, tile
from workbench.ops import (
    AddPointer,
    Assume,
    Broadcast,
    Cast,
    Constant,
    Dot,
    Elementwise,
    For,
    If,
    Load,
    Promise,
    Reduce,
    Reshape,
    Select,
    Splat,
    Transpose,
    While,
    Yield,
)

BASES = {"f": F32, "h": F16, "g": I32}


class HintWriter(RoundingWriter):
    """A RoundingWriter with promises, clamps, and loops as kernels have them."""

    def hint(self) -> None:
        """One more hint, or what hints stand beside."""
        kinds = [self.run_of_numbers, self.equal_runs, self.assumption, self.clamped_rows,
                 self.clamped_rows, self.rows_of_eights, self.rows_of_eights]  # fmt: skip
        if self.depth < 2:
            kinds += [self.pointer_while, self.pointer_branch]
        if not self.depth:
            kinds += [self.shared_operands, self.shared_operands]
        self.pick(kinds)()

    def number_of(self, value: int, like: Value | None = None) -> Value:
        return self.builder.add(Constant(value, INDEX if like is None else like.type))

    def plus(self, a: Value, b: Value, name: str = "add") -> Value:
        """Return an op of two indices, the second widened to the first's shape."""
        shape = shape_of(a.type)
        if shape and not shape_of(b.type):
            b = self.builder.add(Splat(b, shape))
        return self.builder.add(Elementwise(name, (a, b)))

    def start(self, step: int) -> tuple[Value, int]:
        """Return a scalar multiple of a number, and what it is at most."""
        which = self.number(0, 2)
        if which == 0:
            number = step * self.number(0, 4)
            return self.number_of(number), number
        factor = self.number_of(step)
        if which == 1:
            return self.plus(self.parameters["n"], factor, "mul"), 8 * step
        low = self.plus(self.plus(self.some(INDEX, ()), self.number_of(0), "max"),
                        self.number_of(5), "min")  # fmt: skip
        return self.plus(low, factor, "mul"), 5 * step

    def load_here(self, place: Value, name: str | None = None, **options: Any) -> Value:
        """Load from an input at places that are all inside."""
        name = name or self.pick(list(BASES))
        loaded = self.builder.add(Load(self.pointers(name, place), **options))
        if BASES[name] in DIGITS:
            self.sizes[loaded] = (8, 1)
        self.know(loaded)
        return loaded

    def kept_inside(self, place: Value) -> Value:
        """Return a place as an element of an input, in one of the ways that authors know."""
        build = self.builder
        limit = build.add(Constant(self.pick([SIZE, SIZE - 1, 1000, 992, 24, 1]), place.type))
        zero = build.add(Constant(0, place.type))
        low = build.add(Elementwise("max", (place, zero)))
        which = self.number(0, 2)
        if which == 0:
            return build.add(Elementwise("rem", (low, limit)))
        below = build.add(Elementwise("lt", (low, limit)))
        if which == 1:
            return build.add(Select(below, low, zero))
        one = build.add(Constant(1, place.type))
        most = build.add(Elementwise("sub", (limit, one)))
        return build.add(Elementwise("min", (low, most)))

    # -- promises -------------------------------------------------------------------------
    def run_of_numbers(self) -> None:
        """start + 0, 1, 2, ...: contiguous, its first one a multiple, and said to be so."""
        (count,) = shape = (self.shape2[1],)
        step = self.pick([1, 2, 4, 8, 16])
        start, most = self.start(step)
        if self.number(0, 1):
            start = self.builder.add(Promise(start, divisible=(step,)))
        place = self.plus(self.line(shape), start)
        facts: dict[str, Any] = {"contiguous": (count,)}
        if self.number(0, 1):
            facts["divisible"] = (step,)
        if self.number(0, 3) == 0:
            facts["constant"] = (1,)
        place = self.builder.add(Promise(place, **facts))
        self.know(place, (0, most + count))
        inside = self.builder.add(Elementwise("lt", (place, self.number_of(SIZE, place))))
        mask = {"mask": inside} if most + count >= SIZE or self.number(0, 1) else {}
        self.load_here(place, **mask)

    def equal_runs(self) -> None:
        """Numbers that come in runs of equal ones: a row's scale, a group's index."""
        shape = (self.shape2[1],)
        run = self.pick([2, 4, 8, 16])
        line = self.line(shape)
        groups = self.plus(line, self.number_of(run), "div")
        groups = self.builder.add(Promise(groups, constant=(run,)))
        self.know(groups, (0, shape[0]))
        by = self.number_of(self.pick([1, 8, 16]))
        start, _ = self.start(self.pick([1, 16]))
        place = self.plus(self.plus(groups, by, "mul"), start)
        self.load_here(self.kept_inside(place))

    def assumption(self) -> None:
        """Say of a number of the launch what is so."""
        build = self.builder
        n = self.parameters["n"]
        wide = self.plus(n, self.number_of(16), "mul")
        rest = self.plus(wide, self.number_of(self.pick([2, 8, 16])), "rem")
        kinds = [
            ("ge", n, 0), ("le", n, 8), ("lt", n, 100), ("eq", rest, 0), ("le", wide, 128),
        ]  # fmt: skip
        name, value, limit = self.pick(kinds)
        build.insert(Assume(self.plus(value, self.number_of(limit), name)))
        if value is rest:
            self.know(wide, (0, 128))
            self.load_here(self.kept_inside(self.plus(self.line((self.shape2[1],)), wide)))

    # -- rows -----------------------------------------------------------------------------
    def rows(self, rows: Value, columns: Value, pitch: Value, shape: tuple[int, ...]) -> Value:
        """Return row * pitch + column for each element."""
        build = self.builder
        parts = []
        for axis, line in ((0, self.plus(rows, pitch, "mul")), (1, columns)):
            thin = (shape[0], 1) if axis == 0 else (1, shape[1])
            parts.append(build.add(Broadcast(build.add(Reshape(line, thin)), shape)))
        return build.add(Elementwise("add", tuple(parts)))

    def clamped_rows(self) -> None:
        """A box whose rows or columns are brought inside before they are used."""
        shape = self.shape2
        high, wide = self.pick([3, 7, 16, 20]), self.pick([8, 16, 24, 33])
        lines = []
        for axis, extent in ((0, high), (1, wide)):
            start, _ = self.start(self.pick([1, 8, 16]))
            line = self.plus(self.line((shape[axis],)), start)
            limit = self.number_of(extent, line)
            which = self.number(0, 3)
            if which == 0:
                line = self.builder.add(Elementwise("rem", (line, limit)))
            elif which == 1:
                line = self.builder.add(
                    Elementwise("min", (line, self.number_of(extent - 1, line)))
                )
            else:
                below = self.builder.add(Elementwise("lt", (line, limit)))
                line = self.builder.add(Select(below, line, self.number_of(0, line)))
            if which in (0, 2) and self.number(0, 1) and shape[axis] + 128 < extent:
                line = self.builder.add(Promise(line, contiguous=(shape[axis],)))
            lines.append(line)
        place = self.rows(*lines, self.number_of(wide), shape)
        self.load_here(place)

    def rows_of_eights(self) -> None:
        """Rows whose length is a multiple of 8 and perhaps of nothing more, masked at their end."""
        shape, build = self.shape2, self.builder
        length = self.plus(self.parameters["n"], self.number_of(8), "mul")
        if self.number(0, 1):
            length = build.add(Promise(length, divisible=(8,)))
        else:
            rest = self.plus(length, self.number_of(8), "rem")
            build.insert(Assume(self.plus(rest, self.number_of(0), "eq")))
        start, _ = self.start(8)
        columns = self.plus(self.line((shape[1],)), start)
        rows = self.line((shape[0],))
        place = self.rows(rows, columns, length, shape)
        inside = build.add(Reshape(self.plus(columns, length, "lt"), (1, shape[1])))
        inside = build.add(Broadcast(inside, shape))
        there = build.add(Elementwise("lt", (place, self.number_of(SIZE, place))))
        mask = build.add(Elementwise("and", (inside, there)))
        self.know(mask)
        self.load_here(place, mask=mask)

    # -- pointers -------------------------------------------------------------------------
    def pointer_while(self) -> None:
        """Walk through an input with pointers, and perhaps their places, that a `while` carries."""
        build = self.builder
        shape = self.pick([(), (self.shape2[1],), self.shape2])
        name = self.pick(list(BASES))
        element = BASES[name]
        rounds, by = self.number(0, 4), self.pick([1, 3, 8, 16])
        place = self.line(shape)
        room = SIZE - 1 - 4 * 16
        place = build.add(Elementwise("rem", (place, build.add(Constant(room, place.type)))))
        pointers = self.pointers(name, place)
        zero = build.add(Constant(0 if element is I32 else 0.0, tile(shape, element)))
        start, end = self.number_of(0), self.number_of(rounds)
        inits = (start, pointers, zero)
        tested, inside = ([Value(v.type, w) for v, w in zip(inits, "ipt", strict=True)]
                          for _ in range(2))  # fmt: skip
        with build.block() as test:
            build.insert(Yield((build.add(Elementwise("lt", (tested[0], end))),)))
        self.scopes.append(Scope())
        self.depth += 1
        with build.block() as ops:
            count, moving, total = inside
            self.know(count, (0, 4))
            loaded = build.add(Load(moving))
            if element in DIGITS:
                self.sizes[loaded] = (8, 1)
            self.know(loaded)
            self.body(self.number(0, 1))
            after = self.carried(build.add(Elementwise("add", (total, loaded))))
            step = build.add(Constant(by, tile(shape, INDEX)))
            moved = build.add(AddPointer(moving, step))
            one = self.number_of(1)
            build.insert(Yield((build.add(Elementwise("add", (count, one))), moved, after)))
        self.depth -= 1
        self.scopes.pop()
        blocks = Block(tuple(tested), tuple(test)), Block(tuple(inside), tuple(ops))
        done = build.insert(While(inits, *blocks)).results
        self.know(done[2])
        last = build.add(Load(done[1]))
        if element in DIGITS:
            self.sizes[last] = (8, 1)
        self.know(last)

    def pointer_branch(self) -> None:
        """Choose where to load from by an `if`, or by a select."""
        build = self.builder
        shape = self.pick([(), (self.shape2[1],)])
        name = self.pick(list(BASES))
        pair = [self.pointers(name, self.kept_inside(self.some(INDEX, shape))) for _ in range(2)]
        condition = self.some(I1, ())
        if self.number(0, 1):
            chosen = build.add(Select(condition, *pair))
        else:
            blocks = []
            for pointers in pair:
                with build.block() as ops:
                    build.insert(Yield((pointers,)))
                blocks.append(Block((), tuple(ops)))
            chosen = build.insert(If(condition, *blocks)).results[0]
        loaded = build.add(Load(chosen))
        if BASES[name] in DIGITS:
            self.sizes[loaded] = (8, 1)
        self.know(loaded)

    # -- loops over tiles -------------------------------------------------------------------
    def shared_operands(self) -> None:
        """A loop whose loaded tiles are operands, turned operands, and are summed as well."""
        rows, columns = self.shape2
        if rows * columns > 2048:
            return
        build, inner, name = self.builder, self.pick([8, 16, 32]), self.pick("hhf")
        rounds = self.number(1, 4)
        lower, upper, step = (self.number_of(k) for k in (0, rounds, 1))
        if self.number(0, 1):
            upper = self.plus(self.parameters["n"], upper, "min")
        sums = [(rows, columns), (inner, inner), (rows,), (rows, inner)]
        zeros = [build.add(Constant(0.0, tile(shape, F32))) for shape in sums]
        counter = Value(INDEX, "k")
        carried = [Value(zero.type, f"s{n}") for n, zero in enumerate(zeros)]
        a0 = self.rows(
            self.line((rows,)), self.line((inner,)), self.number_of(inner), (rows, inner)
        )
        b0 = self.rows(self.line((inner,)), self.line((columns,)), self.number_of(columns),
                       (inner, columns))  # fmt: skip
        self.scopes.append(Scope())
        self.depth += 1
        with build.block() as ops:
            self.know(counter, (0, rounds))
            tiles = []
            for place in (a0, b0):
                ahead = self.plus(counter, self.number_of(self.pick([8, 16, 64])), "mul")
                moved = self.plus(place, ahead)
                if self.number(0, 1):
                    mask = build.add(Elementwise("lt", (moved, self.number_of(1000, moved))))
                    tiles.append(self.load_here(moved, name, mask=mask))
                else:
                    tiles.append(self.load_here(self.kept_inside(moved), name))
            a, b = tiles
            after = [build.add(Dot(a, b, carried[0], precision="ieee"))]
            if self.number(0, 1):
                turned = build.add(Transpose(a, (1, 0)))
                after.append(build.add(Dot(turned, a, carried[1], precision="ieee")))
            else:
                turned = build.add(Transpose(b, (1, 0)))
                after.append(build.add(Dot(b, turned, carried[1], precision="ieee")))
            wide = a if element_of(a.type) == F32 else build.add(Cast(a, F32))
            self.sizes[wide] = (8, 1)
            row = self._folded(Reduce, wide, 1, self.pick(["add", "max"]))
            after.append(build.add(Elementwise("add", (carried[2], row))))
            after.append(build.add(Elementwise("add", (carried[3], wide))))
            self.body(self.number(0, 1))
            build.insert(Yield(tuple(after)))
        self.depth -= 1
        self.scopes.pop()
        block = Block((counter, *carried), tuple(ops))
        stages = {"stages": self.number(1, 4)} if self.number(0, 1) else {}
        loop = For(lower, upper, step, tuple(zeros), block, **stages)
        most = (64.0 * inner, 64.0 * max(rows, columns), 8.0 * inner, 8.0)
        for value, size in zip(build.insert(loop).results, most, strict=True):
            self.sizes[value] = (size * rounds, 2)
            self.know(value)


__all__ = ["HintWriter"]
