"""Sinks: what needs every element of some tiles, and what happens to each point of them."""

from __future__ import annotations

from workbench.ir import Op, Value, shape_of
from workbench.targets.cpu.chunks import Point
from workbench.targets.cpu.writer import Buffer, Writer

#: Partial results of a sink: (LLVM type, text) each.
Partial = list[tuple[str, str]]
#: Partial results of one piece of an axis, and over how many lanes they are spread.
Part = tuple[list[str], int]


class Sink:
    """Something that needs all elements of a shape; the defaults do nothing.

    Attributes:
        op: the op that the code belongs to.
        shape: the shape of the nest.
        axis: the axis that is reduced, None if none.
        roots: the tiles that are read at each point.
        results: the values that exist once the nest has run.
        mask: the mask without which nothing happens, None if there is none.
        lanes: the wanted width of vectors, 0: any.
        matrix: whether the last two axes are a matrix and those before it a batch.
    """

    axis: int | None = None
    results: tuple[Value, ...] = ()
    mask: Value | None = None
    lanes: int = 0
    matrix: bool = False

    def __init__(self, op: Op, shape: tuple[int, ...], roots: tuple[Value, ...]) -> None:
        self.op = op
        self.shape = shape
        self.roots = roots

    def types(self, w: Writer, lanes: int) -> list[str]:
        """Return the types of the partial results."""
        return []

    def carried(self, w: Writer, lanes: int) -> Partial | None:
        """Return the start of the partial results; None: the first point is the start."""
        return []

    def visit(self, w: Writer, point: Point, carried: list[str] | None) -> list[str]:
        """Take a point; return the partial results after it (`carried` None: there are none)."""
        return []

    def finish(self, w: Writer, point: Point, parts: list[Part], *, lanes_along: bool) -> None:
        """End one run along `axis`; `lanes_along`: the lanes lay along it too."""

    def streams(self, w: Writer, first: Point) -> str | None:
        """Return whether a row from `first` on should bypass the caches (i1); None: never."""
        return None

    def publish(self, w: Writer) -> None:
        """Let others read the results, once the nest is written."""


class Fill(Sink):
    """Keeps a tile: writes every element to scratch memory."""

    def __init__(self, value: Value, buffer: Buffer, op: Op | None = None) -> None:
        found = op or value.op
        assert found is not None
        super().__init__(found, shape_of(value.type), (value,))
        self.value = value
        self.buffer = buffer
        self.results = (value,)

    def visit(self, w: Writer, point: Point, carried: list[str] | None) -> list[str]:
        w.write(self.buffer, point, w.chunk(self.value, point))
        return []

    def publish(self, w: Writer) -> None:
        w.buffers[self.value] = self.buffer


class Copy(Fill):
    """Writes a tile to memory that stands for something else than the tile itself."""

    def __init__(self, value: Value, buffer: Buffer, op: Op) -> None:
        super().__init__(value, buffer, op)
        self.results = ()

    def publish(self, w: Writer) -> None:
        """Leave the tile as it was."""
