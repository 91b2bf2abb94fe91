"""Loops whose author asked for it do several rounds in one."""

from __future__ import annotations

from typing import Any

from workbench.ir import (
    I64,
    INDEX,
    U64,
    Block,
    Builder,
    Module,
    Op,
    Scalar,
    Value,
    clone_into,
    element_of,
    rebuild,
)
from workbench.ops import Cast, Constant, Elementwise, For, Select, Yield, count_rounds
from workbench.passes.manager import Remarks
from workbench.passes.rules import constant_of

HINT = "loop_unroll_factor"
#: Ops of an unrolled body beyond which a loop is left as it is: compiling would take minutes.
MOST_OPS = 10_000


def unroll_loops(module: Module, remarks: Remarks) -> Module:
    """Obey `loop_unroll_factor`: a loop of that many rounds at once, and one for those left over.

    Before:
        %0 = tile.constant {value = 0, type = index} : index
        %7 = tile.constant {value = 7, type = index} : index
        %1 = tile.constant {value = 1, type = index} : index
        %r = tile.for %0, %7, %1, [%x] {hints = (("loop_unroll_factor", 2),)} {
        ^(%i: index, %a: f32):
          %2 = tile.add [%a, %y] : f32
          tile.yield [%2]
        } : f32
    After:
        %0 = tile.constant {value = 0, type = index} : index
        %7 = tile.constant {value = 7, type = index} : index
        %1 = tile.constant {value = 1, type = index} : index
        %s = tile.constant {value = 2, type = index} : index
        %6 = tile.constant {value = 6, type = index} : index
        %3 = tile.for %0, %6, %s, [%x] {
        ^(%i.1: index, %a.1: f32):
          %4 = tile.add [%a.1, %y] : f32
          %5 = tile.add [%4, %y] : f32
          tile.yield [%5]
        } : f32
        %r = tile.for %6, %7, %1, [%3] {stages = 1} {
        ^(%i: index, %a: f32):
          %2 = tile.add [%a, %y] : f32
          tile.yield [%2]
        } : f32

    Needs: constants folded. Keeps: the order of all rounds, for any bounds and either sign of the
    step; bounds of 64 bits must lie less than 2^63 apart. What is left over is not pipelined.
    """

    def rewrite(op: Op, builder: Builder) -> Op | tuple[Value, ...] | None:
        if not isinstance(op, For):
            return None
        factor = dict(op.hints).get(HINT)
        if factor is None:
            return None
        plain = op.changed(hints=tuple(hint for hint in op.hints if hint[0] != HINT))
        count = _count(op.body) * factor
        if count > MOST_OPS:
            text = f"{HINT}={factor} is not obeyed: the body would have {count:,} ops"
            remarks.note(op, f"{text}, {MOST_OPS:,} are the most", "missed")
            return plain
        if factor == 1:
            remarks.note(op, f"{HINT}=1: one round after the other", "applied")
            return plain
        results = _Unrolling(plain, factor, builder).split(remarks)
        return plain if results is None else results

    return rebuild(module, rewrite)


def _count(block: Block) -> int:
    return sum(1 + sum(map(_count, op.regions)) for op in block.ops)


class _Unrolling:
    """One loop that is split in two."""

    def __init__(self, loop: For, factor: int, builder: Builder) -> None:
        self.loop, self.factor, self.builder = loop, factor, builder
        element = element_of(loop.lower.type)
        assert isinstance(element, Scalar)
        self.element = element
        #: The type in which rounds are counted: the distance of two bounds fits.
        self.wide = element if element in (INDEX, U64) else I64

    def split(self, remarks: Remarks) -> tuple[Value, ...] | None:
        """Insert both loops and return the results; one is left out where it never runs.

        None for a loop of fewer rounds than are to become one.
        """
        loop, factor = self.loop, self.factor
        known = [constant_of(value) for value in (loop.lower, loop.upper, loop.step)]
        text = f"{HINT}={factor}: {factor} rounds at once"
        if None in known:
            remarks.note(loop, f"{text}, a second loop for up to {factor - 1} left over", "applied")
            middle, stride = self._middle()
            return self._rest(middle, self._main(middle, stride))
        rounds = count_rounds(*known)
        whole, over = divmod(rounds, factor)
        if not whole:
            text = f"{HINT}={factor} is not obeyed: the loop has {rounds} rounds"
            remarks.note(loop, text, "missed")
            return None
        remarks.note(loop, f"{text}, {whole} times, and {over} left over", "applied")
        stride = self._number(known[2] * factor, self.element)
        middle = self._number(known[0] + whole * factor * known[2], self.element)
        results = self._main(middle, stride)
        return self._rest(middle, results) if over else results

    # -- the two loops ----------------------------------------------------------------------------
    def _main(self, middle: Value, stride: Value) -> tuple[Value, ...]:
        loop, builder = self.loop, self.builder
        steps = [self._multiple(number) for number in range(1, self.factor)]
        arguments = tuple(Value(a.type, a.hint) for a in loop.body.arguments)
        counter, values = arguments[0], arguments[1:]
        with builder.block() as ops:
            for number in range(self.factor):
                at = counter
                if number:
                    at = builder.add(Elementwise("add", (counter, steps[number - 1])), counter.hint)
                given = dict(zip(loop.body.arguments, (at, *values), strict=True))
                values = clone_into(loop.body, given, builder)
            builder.insert(Yield(values))
        made = For(
            loop.lower, middle, stride, loop.inits, Block(arguments, tuple(ops)),
            stages=loop.stages, hints=loop.hints,
        )  # fmt: skip
        return builder.insert(made).results

    def _rest(self, middle: Value, values: tuple[Value, ...]) -> tuple[Value, ...]:
        loop = self.loop
        rest = For(
            middle, loop.upper, loop.step, values, loop.body, stages=1, hints=loop.hints
        )  # fmt: skip
        return self.builder.insert(rest).results

    # -- arithmetic -------------------------------------------------------------------------------
    def _number(self, value: int, element: Scalar) -> Value:
        return self.builder.add(Constant(value, element))

    def _multiple(self, number: int) -> Value:
        """Return the step times a number, in the counter's type."""
        step = constant_of(self.loop.step)
        if step is not None:
            return self._number(step * number, self.element)
        if number == 1:
            return self.loop.step
        return self._of("mul", self.loop.step, self._number(number, self.element))

    def _of(self, function: str, *inputs: Value) -> Value:
        return self.builder.add(Elementwise(function, inputs))

    def _cast(self, value: Value, to: Scalar) -> Value:
        return value if element_of(value.type) == to else self.builder.add(Cast(value, to))

    def _select(self, condition: Value | bool, then: Value, otherwise: Value) -> Value:
        if isinstance(condition, bool):
            return then if condition else otherwise
        return self.builder.add(Select(condition, then, otherwise))

    def _middle(self) -> tuple[Value, Value]:
        """Return where the left-over rounds begin, and how far a round of the first loop goes.

        rounds = (last - first - 1) // |step| + 1 where first < last, else 0
        """
        loop, wide = self.loop, self.wide
        lower, upper, step = (self._cast(v, wide) for v in (loop.lower, loop.upper, loop.step))
        zero, one = self._number(0, wide), self._number(1, wide)
        up: Value | bool = True
        if wide != U64:
            known: Any = constant_of(loop.step)
            up = self._of("gt", step, zero) if known is None else bool(known > 0)
        first, last = self._select(up, lower, upper), self._select(up, upper, lower)
        size = step if up is True else self._select(up, step, self._of("sub", zero, step))
        whole = self._of("div", self._of("sub", self._of("sub", last, first), one), size)
        rounds = self._select(self._of("lt", first, last), self._of("add", whole, one), zero)
        factor = self._number(self.factor, wide)
        stride = self._of("mul", step, factor)
        way = self._of("mul", self._of("div", rounds, factor), stride)
        middle = self._cast(self._of("add", lower, way), self.element)
        return middle, self._multiple(self.factor)
