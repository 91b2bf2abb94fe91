"""What random programs begin with: values in scope, constants, indices, what is loaded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from workbench.ir import (
    F16,
    F32,
    I1,
    I32,
    INDEX,
    Builder,
    Op,
    Scalar,
    Value,
    element_of,
    shape_of,
    tile,
)
from workbench.ops import (
    AddPointer,
    Broadcast,
    Cast,
    Constant,
    Elementwise,
    ExpandDims,
    Iota,
    Load,
    NumPrograms,
    ProgramId,
    Splat,
)

#: Elements of each input array.
SIZE = 1024
#: Exact integers stay below this, so that every intermediate fits 64 bits.
LARGEST = 1 << 52
GRID = (2,)
EXTENTS = (1, 2, 3, 4, 5, 7, 8, 16)
#: Elements that one program instance may store.
ROOM = 1 << 13


@dataclass
class Scope:
    """Values that may be used here, by element type; bounds of exact integers."""

    values: list[Value] = field(default_factory=list)
    bounds: dict[Value, tuple[int, int]] = field(default_factory=dict)


class Choices(Protocol):
    """Who decides: a `random.Random`, or Hypothesis, which can make what fails smaller."""

    def choice(self, options: list[Any], /) -> Any: ...
    def randint(self, low: int, high: int, /) -> int: ...


class Leaves:
    """Chooses values that there are, or makes new ones out of nothing and of inputs."""

    #: The program's parameters by name, once there are any.
    parameters: dict[str, Value]

    def __init__(
        self,
        choices: Choices,
        size: int,
        *,
        indices: bool = False,
        divisions: bool = True,
    ) -> None:
        self.choices = choices
        self.size = size
        #: Write index arithmetic and control flow only, mostly of scalars.
        self.indices = indices
        #: Write divisions of floats, which targets may round differently.
        self.divisions = divisions
        self.builder = Builder()
        self.scopes = [Scope()]
        self.depth = 0
        self.shape2 = (self.pick(EXTENTS), self.pick(EXTENTS))
        self.stored = 0

    # -- choices --------------------------------------------------------------------------
    def pick(self, options: Any) -> Any:
        return self.choices.choice(list(options))

    def number(self, low: int, high: int) -> int:
        return self.choices.randint(low, high)

    def carried(self, value: Value) -> Value:
        """Return what a loop or a branch hands on of a value; writers that need more say so."""
        return value

    def any_shape(self) -> tuple[int, ...]:
        """Return a scalar's shape half of the time, so that values meet."""
        rows, columns = self.shape2
        if self.indices:
            return self.pick([(), (), (), (columns,)])
        shapes = [(), (), (), (columns,), (columns,), (rows, columns), (rows,), (rows, 1)]
        return self.pick([*shapes, (1, columns)])

    # -- values ---------------------------------------------------------------------------
    def add(self, op: Op, bounds: tuple[int, int] | None = None, hint: str = "") -> Value:
        value = self.builder.add(op, hint)
        self.know(value, bounds)
        return value

    def know(self, value: Value, bounds: tuple[int, int] | None = None) -> None:
        scope = self.scopes[-1]
        scope.values.append(value)
        if bounds is not None:
            scope.bounds[value] = bounds

    def bounds(self, value: Value) -> tuple[int, int]:
        for scope in reversed(self.scopes):
            if value in scope.bounds:
                return scope.bounds[value]
        raise KeyError(value)

    def known(self, element: Scalar, shape: tuple[int, ...] | None = None) -> list[Value]:
        return [
            v
            for scope in self.scopes
            for v in scope.values
            if element_of(v.type) == element and (shape is None or shape_of(v.type) == shape)
        ]

    def some(self, element: Scalar, shape: tuple[int, ...]) -> Value:
        """Return a value of a type: one there is, or a new leaf."""
        there = self.known(element, shape)
        if there and self.number(0, 3):
            # The latest values most often, so that chains get long.
            return there[-1 - min(len(there) - 1, self.number(0, 5))]
        return self.leaf(element, shape)

    def leaf(self, element: Scalar, shape: tuple[int, ...]) -> Value:
        if shape and self.number(0, 2) == 0:
            return self.stretched(element, shape)
        if element == INDEX:
            return self.index_leaf(shape)
        if element == I1:
            low, high = self.some(INDEX, shape), self.some(INDEX, shape)
            return self.add(Elementwise(self.pick(["lt", "le", "ge", "ne"]), (low, high)))
        if self.number(0, 2) == 0:
            number = self.number(-9, 9)
            return self.add(
                Constant(number / 2 if element.is_float else number, tile(shape, element))
            )
        return self.loaded(element, shape)

    def index_leaf(self, shape: tuple[int, ...]) -> Value:
        kind = self.number(0, 7)
        if kind < 4 and not shape:
            return self.parameters[self.pick("mmn")]
        if kind < 5 and len(shape) == 1:
            start = self.number(-4, 40)
            return self.add(Iota(start, tile(shape, INDEX)), (start, start + shape[0] - 1))
        if kind == 4 and not shape:
            return self.add(ProgramId(0), (0, GRID[0] - 1))
        if kind == 5 and not shape:
            return self.add(NumPrograms(0), GRID * 2)
        number = self.pick([0, 1, 2, 3, 7, 8, -1, -5, 16, 1000, 1 << 20, (1 << 31) - 1, 5 << 30])
        return self.add(Constant(number, tile(shape, INDEX)), (number, number))

    def stretched(self, element: Scalar, shape: tuple[int, ...]) -> Value:
        """Return a tile made from a smaller value."""
        if len(shape) == 2 and self.number(0, 1):
            axis = self.number(0, 1)
            line = self.some(element, (shape[1 - axis],))
            column = self.add(ExpandDims(line, axis), self._same(line))
            return self.add(Broadcast(column, shape), self._same(line))
        source = self.some(element, ())
        return self.add(Splat(source, shape), self._same(source))

    def _same(self, value: Value) -> tuple[int, int] | None:
        return self.bounds(value) if element_of(value.type) == INDEX else None

    def loaded(self, element: Scalar, shape: tuple[int, ...]) -> Value:
        base = {F32: "f", F16: "h", I32: "g"}.get(element)
        if base is None:
            source = self.some(self.pick([F32, I32, I1]), shape)
            return self.add(Cast(source, element))
        place = self.some(INDEX, shape)
        inside, clamped = self.inside(place)
        other = self.some(element, shape) if self.number(0, 1) else None
        pointers = self.pointers(base, place if self.number(0, 1) else clamped)
        options = {"other": other} if other is not None else {}
        return self.add(Load(pointers, inside, **options))

    def inside(self, place: Value) -> tuple[Value, Value]:
        """Return where an index is an element of an input, and the index clamped to one."""
        shape = shape_of(place.type)
        low = self.builder.add(Constant(0, tile(shape, INDEX)))
        high = self.builder.add(Constant(SIZE - 1, tile(shape, INDEX)))
        above = self.builder.add(Elementwise("ge", (place, low)))
        below = self.builder.add(Elementwise("le", (place, high)))
        clamped = self.builder.add(Elementwise("max", (place, low)))
        clamped = self.builder.add(Elementwise("min", (clamped, high)))
        return self.add(Elementwise("and", (above, below))), clamped

    def pointers(self, name: str, place: Value) -> Value:
        base = self.parameters[name]
        shape = shape_of(place.type)
        if shape:
            base = self.builder.add(Splat(base, shape))
        return self.builder.add(AddPointer(base, place))
