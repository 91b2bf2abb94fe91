"""Puts what the author promises where everybody who may use it sees it, and nothing else."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd, lcm

from workbench.analysis.affine import Affine
from workbench.ir import (
    Block,
    Builder,
    KernelParameter,
    Module,
    Op,
    Pointer,
    Value,
    element_of,
    shape_of,
)
from workbench.ir.rebuild import Rebuilder, Replacement
from workbench.ops import Assume, Constant, Elementwise, Promise
from workbench.passes.manager import Remarks

#: Longer runs and larger divisors than those of the widest access (16 bytes of single-byte
#: elements) change nothing, so that promising them is no reason to keep a promise.
_MOST = 16


@dataclass
class _Promised:
    """All that is promised of one value: the first op that did, and for each axis the most."""

    first: Promise
    divisible: list[int]
    contiguous: list[int]
    constant: list[int]

    def add(self, op: Promise) -> None:
        """Let another promise about the value hold too."""
        for held, given, both in (
            (self.divisible, op.divisible, lcm),
            (self.contiguous, op.contiguous, max),
            (self.constant, op.constant, max),
        ):
            held[:] = map(both, held, given or held)

    def about(self, value: Value) -> Promise:
        """Return the promise about a value."""
        return self.first.changed(
            source=value,
            divisible=tuple(self.divisible),
            contiguous=tuple(self.contiguous),
            constant=tuple(self.constant),
        )


def place_promises(module: Module, remarks: Remarks) -> Module:
    """Make promises in the block of a value hold for all its uses; drop those that say nothing.

    Before:
        %1 = tile.iota {start = 0, type = tile<4xindex>} : tile<4xindex>
        %2 = tile.promise %1 {contiguous = (4,)} : tile<4xindex>
        %3 = tile.neg [%2] : tile<4xindex>
    After:
        %1 = tile.iota {start = 0, type = tile<4xindex>} : tile<4xindex>
        %3 = tile.neg [%1] : tile<4xindex>

    A promise in a branch or loop about a value from outside holds there, from its place on. One
    about a parameter, by `tl.assume` too, becomes a fact of the parameter. One that the index
    arithmetic or an earlier promise shows anyway, or that says more than an access can use, is
    dropped: a promise never stands in the way of other passes for nothing. Keeps: every value.
    """
    del remarks
    if not any(isinstance(op, Promise | Assume) for op in module.walk()):
        return module
    placer = _Placer(module)
    parameters = tuple(map(placer.parameter, module.parameters))
    body = placer.block(module.body)
    if body is module.body and parameters == module.parameters:
        return module
    return replace(module, parameters=parameters, body=body, next_id=placer.builder.next_id)


class _Placer(Rebuilder):
    def __init__(self, module: Module) -> None:
        super().__init__(module, self._place)
        self.facts = Affine(module, tiles=True)
        #: The parameters by value, and what is assumed of them.
        self.known = {p.value: p for p in module.parameters}
        self.promised: dict[Value, _Promised] = {}
        self._home = dict.fromkeys(self.known, module.body)
        #: Promises about values from outside their block, by id: what they are about.
        self._elsewhere: dict[int, Value] = {}
        self._undo: list[list[tuple[Value, Value]]] = []
        self._collect(module.body, module.body)

    # -- what is promised -----------------------------------------------------------------
    def _collect(self, block: Block, top: Block) -> None:
        self._home.update(dict.fromkeys(block.arguments, block))
        for op in block.ops:
            self._home.update(dict.fromkeys(op.results, block))
            if isinstance(op, Promise):
                self._note(op, self.root(op.source), block)
            elif isinstance(op, Assume) and block is top:
                for part in _parts(op.condition):
                    self._assume(part)
            for region in op.regions:
                self._collect(region, top)

    def root(self, value: Value) -> Value:
        """Return the value that a promised one is."""
        while isinstance(value.op, Promise):
            value = value.op.source
        return value

    def _note(self, op: Promise, root: Value, block: Block) -> None:
        parameter = self.known.get(root) if self._home[root] is block else None
        if parameter is not None:  # a fact takes no op: what is divided later needs all of it
            divisor = lcm(parameter.divisible, *op.divisible)
            self.known[root] = replace(parameter, divisible=divisor)
        elif not self._says_something(op):
            return
        elif self._home[root] is not block:
            self._elsewhere[op.id] = root
        elif root in self.promised:
            self.promised[root].add(op)
        else:
            ones = [1] * max(1, len(shape_of(root.type)))
            self.promised[root] = found = _Promised(op, ones[:], ones[:], ones[:])
            found.add(op)

    def _says_something(self, op: Promise) -> bool:
        """Say whether a promise adds to what index arithmetic and earlier promises show."""
        told = self.facts.told
        return self._adds(op, self.facts) and (told is None or self._adds(op, told))

    def _adds(self, op: Promise, facts: Affine) -> bool:
        form, shape = facts.form(op.source), shape_of(op.source.type)
        if form is None:
            return False
        element = element_of(op.source.type)
        size = element.pointee.itemsize if isinstance(element, Pointer) else 1
        multiples = [gcd(d // gcd(d, size), _MOST) for d in op.divisible]
        if not shape:
            return any(facts.divisor(form) % d for d in multiples)
        for axis, extent in enumerate(shape):
            stride, run, start = facts.run(form, axis, extent)
            longest = min(_MOST, extent & -extent)
            if op.divisible and start % multiples[axis]:
                return True
            for lengths, wanted in ((op.contiguous, 1), (op.constant, 0)):
                length = min(lengths[axis], longest) if lengths else 1
                if length > 1 and (stride != wanted or run < length):
                    return True
        return False

    def _assume(self, condition: Value) -> None:
        """Note what a condition says of a parameter: divisibility, or a bound."""
        op = condition.op
        if not isinstance(op, Elementwise) or len(op.inputs) != 2:
            return
        (a, b), function = op.inputs, op.function
        if isinstance(a.op, Constant):
            a, b, function = b, a, _MIRRORED.get(function, "")
        number = b.op.value if isinstance(b.op, Constant) else None
        if not isinstance(number, int):
            return
        if a in self.known:
            if not isinstance(a.type, Pointer):
                self.known[a] = _bounded(self.known[a], function, number)
        elif function == "eq" and number == 0 and isinstance(a.op, Elementwise):
            dividend, divisor = a.op.inputs[0], a.op.inputs[-1].op
            if a.op.function == "rem" and dividend in self.known and isinstance(divisor, Constant):
                parameter, factor = self.known[dividend], abs(int(divisor.value)) or 1
                self.known[dividend] = replace(
                    parameter, divisible=lcm(parameter.divisible, factor)
                )

    # -- rebuilding -----------------------------------------------------------------------
    def parameter(self, parameter: KernelParameter) -> KernelParameter:
        """Return a parameter with what is promised of it."""
        return self.known[parameter.value]

    def block(self, block: Block) -> Block:
        """Return the block with promises about its arguments first."""
        self._undo.append([])
        with self.builder.block() as ops:
            for argument in block.arguments:
                self._promise(argument, argument)
            for op in block.ops:
                self.op(op)
                for result in op.results:
                    self._promise(result, self.values.get(result, result))
        for value, before in reversed(self._undo.pop()):
            self.values[value] = before
        same = len(ops) == len(block.ops) and all(map(operator.is_, ops, block.ops))
        return block if same else Block(block.arguments, tuple(ops))

    def _promise(self, old: Value, new: Value) -> None:
        """Insert what is promised of a value that was just computed; all its uses read that."""
        found = self.promised.get(old)
        if found is not None:
            self.values[old] = self.builder.insert(found.about(new)).results[0]

    def _place(self, op: Op, builder: Builder) -> Replacement:
        """Take each promise from its place; one about a value from outside the block stays."""
        if not isinstance(op, Promise):
            return None
        old = self._elsewhere.get(op.id)
        if old is None:
            return op.source
        self._undo[-1].append((old, self.values.get(old, old)))
        self.values[old] = op.results[0]
        return None


_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq"}


def _parts(condition: Value) -> Iterator[Value]:
    """Yield the conditions that are joined by `and`."""
    op = condition.op
    if isinstance(op, Elementwise) and op.function == "and":
        for value in op.inputs:
            yield from _parts(value)
    else:
        yield condition


def _bounded(parameter: KernelParameter, function: str, bound: int) -> KernelParameter:
    """Return an integer parameter that compares so with a number."""
    low, high = parameter.low, parameter.high
    if function in ("gt", "ge", "eq"):
        least = bound + (function == "gt")
        low = least if low is None else max(low, least)
    if function in ("lt", "le", "eq"):
        most = bound - (function == "lt")
        high = most if high is None else min(high, most)
    return replace(parameter, low=low, high=high)
