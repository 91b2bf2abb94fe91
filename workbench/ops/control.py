"""Structured control flow. `break`, `continue` and early `return` are carried predicates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from workbench.ir import (
    NONE,
    Array,
    Block,
    Effect,
    Effects,
    Frame,
    Op,
    Type,
    Value,
    attribute,
    element_of,
    shape_of,
    tile,
)
from workbench.source import KernelTypeError, ShapeError

Kept = TypeVar("Kept", bound=Op)


def count_rounds(lower: int, upper: int, step: int) -> int:
    """Return how many rounds a loop with these bounds has, which may be more than len() counts."""
    rounds = range(lower, upper, step)
    return (rounds[-1] - lower) // step + 1 if rounds else 0


class Yield(Op, mnemonic="tile.yield", effects=NONE, ends_block=True, exact=True):
    """What a region gives back to the op it belongs to.

    tile.yield [%0]
    """

    values: tuple[Value, ...] = ()

    def interpret(self, frame: Frame) -> None:
        return None


class Return(Op, mnemonic="tile.return", effects=NONE, ends_block=True, exact=True):
    """The end of the kernel.

    tile.return
    """

    def interpret(self, frame: Frame) -> None:
        return None


class For(Op, mnemonic="tile.for", effects=NONE, repeats=True, exact=True):
    """Run the body with its counter at lower, lower + step, ... while below `upper`.

    A negative step counts down while above `upper`. The body's arguments are the counter and the
    carried values; it yields the next carried values, whose last ones are the results.

        %3 = tile.for %0, %1, %2, [%init] {
        ^(%k: index, %acc: f32):
          tile.yield [%acc]
        } : f32
    """

    lower: Value
    upper: Value
    step: Value
    inits: tuple[Value, ...]
    body: Block
    stages: int | None = attribute(default=None)
    hints: tuple[Any, ...] = attribute(default=())
    #: What a target has decided about how its rounds overlap: (name, value) pairs.
    schedule: tuple[Any, ...] = attribute(default=())
    #: The counter's type may not hold what follows the last round's, or what is as far ahead as
    #: copies are started (set by narrow-index): nobody may compare that with `upper`.
    may_wrap: bool = attribute(default=False)

    def hinted(self, name: str) -> Any:
        return dict(self.hints).get(name)

    @property
    def keeps_invariants(self) -> bool:
        """Whether the author wants what does not change to stay in the loop."""
        return bool(self.hinted("disable_licm"))

    @property
    def counter(self) -> Value:
        """What counts its rounds, inside."""
        return self.body.arguments[0]

    def stages_in(self, options: Mapping[str, Any]) -> int:
        """Return how many rounds may be under way: as asked of this loop, else of the kernel."""
        return options["num_stages"] if self.stages is None else self.stages

    def decided(self, name: str) -> Any:
        """Return what a target has decided of its rounds by a name; None if nothing."""
        return dict(self.schedule).get(name)

    def infer(self) -> tuple[Type, ...]:
        return tuple(value.type for value in self.inits)

    def verify(self) -> None:
        verify_carried(self, self.inits, self.body.arguments[1:], self.body)

    def flows(self) -> tuple[tuple[Value, Value], ...]:
        return carried(self.inits, self.body, self.body.arguments[1:], self.results)

    def decided_by(self) -> tuple[Value, ...]:
        return (self.lower, self.upper, self.step)

    def handed_on(self) -> tuple[tuple[Value, ...], ...]:
        return tuple((argument,) for argument in self.body.arguments[1:])

    def keeping(self, places: Sequence[int]) -> For:
        counter, *carried = self.body.arguments
        body = _kept(self.body, (counter, *_at(places, carried)), places)
        return _named(self, places, self.changed(inits=_at(places, self.inits), body=body))

    def interpret(self, frame: Frame) -> tuple[Array, ...]:
        lower, upper, step = (int(frame[v]) for v in (self.lower, self.upper, self.step))
        carried = tuple(frame[v] for v in self.inits)
        dtype = np.asarray(frame[self.lower]).dtype
        for i in range(lower, upper, step):
            frame.round(self)
            carried = frame.run(self.body, [np.asarray(i, dtype), *carried])
        return carried


def counted(op: Op) -> For | None:
    """Return an op as a loop whose rounds are counted before the first; None if it is none.

    What may be started rounds ahead is a matter of such loops: which round comes next is known.
    """
    return op if isinstance(op, For) else None


def counted_loops(ops: Iterable[Op]) -> Iterator[For]:
    """Yield those of some ops that are loops with a count."""
    return filter(None, map(counted, ops))


#: A loop without a bound may run for ever, which those who wait for the launch can tell.
_MAY_NOT_END: Effects = (Effect("outside", order="relaxed"),)


class While(Op, mnemonic="tile.while", effects=_MAY_NOT_END, repeats=True, exact=True):
    """Run the body while the condition region yields true; both see the carried values.

    %1 = tile.while [%0] {
    ^(%i: index):
      tile.yield [%go]
    } {
    ^(%i.1: index):
      tile.yield [%next]
    } : index
    """

    inits: tuple[Value, ...]
    condition: Block
    body: Block
    hints: tuple[Any, ...] = attribute(default=())

    def hinted(self, name: str) -> Any:
        return dict(self.hints).get(name)

    @property
    def keeps_invariants(self) -> bool:
        """Whether the author wants what does not change to stay in the loop."""
        return bool(self.hinted("disable_licm"))

    def infer(self) -> tuple[Type, ...]:
        return tuple(value.type for value in self.inits)

    def verify(self) -> None:
        verify_carried(self, self.inits, self.body.arguments, self.body)

    def flows(self) -> tuple[tuple[Value, Value], ...]:
        return carried(
            self.inits, self.body, self.condition.arguments, self.body.arguments, self.results
        )

    def decided_by(self) -> tuple[Value, ...]:
        return self.condition.yields

    def handed_on(self) -> tuple[tuple[Value, ...], ...]:
        return tuple(zip(self.condition.arguments, self.body.arguments, strict=True))

    def keeping(self, places: Sequence[int]) -> While:
        condition = Block(_at(places, self.condition.arguments), self.condition.ops)
        body = _kept(self.body, _at(places, self.body.arguments), places)
        new = self.changed(inits=_at(places, self.inits), condition=condition, body=body)
        return _named(self, places, new)

    def interpret(self, frame: Frame) -> tuple[Array, ...]:
        carried = tuple(frame[v] for v in self.inits)
        rounds = frame.loop(self)
        while bool(frame.run(self.condition, carried)[0]):
            frame.round(self)
            before, carried = carried, frame.run(self.body, carried)
            rounds.turned(before, carried)
        rounds.ended()
        return carried


class Map(Op, mnemonic="tile.map", effects=NONE):
    """Run the body once per element, on the elements of all inputs at one place.

    Each element takes its own way through branches and loops of the body, which touches no memory.

        %1 = tile.map [%0] {
        ^(%a: f32):
          %b = tile.add [%a, %a] : f32
          tile.yield [%b]
        } : tile<4xf32>
    """

    inputs: tuple[Value, ...]
    body: Block

    def infer(self) -> tuple[Type, ...]:
        shape = shape_of(self.inputs[0].type)
        return tuple(tile(shape, element_of(value.type)) for value in self.body.yields)

    def verify(self) -> None:
        shapes = {shape_of(value.type) for value in self.inputs}
        if len(shapes) != 1 or () in shapes:
            raise ShapeError(f"{self.name} of inputs with shapes {sorted(shapes)}", self.span)
        if any(shape_of(value.type) for value in self.body.yields):
            raise ShapeError(f"{self.name} yields tiles instead of numbers", self.span)

    def roundings(self) -> int:
        return sum(op.roundings() for op in self.body.ops)

    def interpret(self, frame: Frame) -> tuple[Array, ...]:
        parts = [np.asarray(frame[value]) for value in self.inputs]
        if not any(op.regions for op in self.body.ops):
            found = frame.run(self.body, parts)
            return tuple(np.broadcast_to(f, parts[0].shape) for f in found)
        shape = parts[0].shape
        rows = [frame.run(self.body, [np.asarray(x) for x in row])
                for row in zip(*(part.ravel() for part in parts), strict=True)]  # fmt: skip
        return tuple(np.array(column).reshape(shape) for column in zip(*rows, strict=True))


class If(Op, mnemonic="tile.if", effects=NONE, exact=True):
    """Run one of two regions; both yield values of the same types.

    %1 = tile.if %0 {
      tile.yield [%a]
    } {
      tile.yield [%b]
    } : f32
    """

    condition: Value
    then: Block
    otherwise: Block

    def infer(self) -> tuple[Type, ...]:
        return tuple(value.type for value in self.then.yields)

    def verify(self) -> None:
        then = [v.type for v in self.then.yields]
        otherwise = [v.type for v in self.otherwise.yields]
        if then != otherwise:
            raise KernelTypeError(
                f"the branches of an if give {_types(then)} and {_types(otherwise)}", self.span
            )

    def flows(self) -> tuple[tuple[Value, Value], ...]:
        return tuple(
            pair
            for region in self.regions
            for pair in zip(region.yields, self.results, strict=True)
        )

    def decided_by(self) -> tuple[Value, ...]:
        return (self.condition,)

    def handed_on(self) -> tuple[tuple[Value, ...], ...]:
        return ((),) * len(self.results)

    def keeping(self, places: Sequence[int]) -> If:
        then, otherwise = (_kept(region, (), places) for region in self.regions)
        return _named(self, places, self.changed(then=then, otherwise=otherwise))

    def interpret(self, frame: Frame) -> tuple[Array, ...]:
        return frame.run(self.then if bool(frame[self.condition]) else self.otherwise, [])


def _at(places: Sequence[int], values: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(values[place] for place in places)


def _named(old: Op, places: Sequence[int], new: Kept) -> Kept:
    """Return an op whose results have the names that another's have at some places."""
    for result, value in zip(new.results, _at(places, old.results), strict=True):
        result.hint = value.hint
    return new


def _kept(block: Block, arguments: tuple[Value, ...], places: Sequence[int]) -> Block:
    """Return a region with other arguments that yields only the values at some places."""
    end = block.terminator.changed(values=_at(places, block.yields))
    return Block(arguments, (*block.ops[:-1], end))


def carried(
    inits: tuple[Value, ...], body: Block, *receivers: tuple[Value, ...]
) -> tuple[tuple[Value, Value], ...]:
    """Return what `Op.flows` says of a loop: who receives its start values and what comes round."""
    return tuple(
        pair
        for given in (inits, body.yields)
        for received in receivers
        for pair in zip(given, received, strict=True)
    )


def _types(types: list[Type]) -> str:
    return "(" + ", ".join(map(str, types)) + ")"


def verify_carried(
    op: Op, inits: tuple[Value, ...], arguments: tuple[Value, ...], body: Block
) -> None:
    """Raise KernelTypeError unless what a loop carries has the same types all the way round."""
    entry = [v.type for v in inits]
    inside = [v.type for v in arguments]
    back = [v.type for v in body.yields]
    if entry != inside or entry != back:
        raise KernelTypeError(
            f"{op.name} carries {_types(entry)} in, {_types(inside)} inside "
            f"and {_types(back)} round",
            op.span,
        )
