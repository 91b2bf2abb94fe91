"""Quotients of sums whose parts divide evenly are sums of quotients, and what is uniform moves on.

Words hold eight numbers, so the row of a word is `(start + i) // 8`: one part moves with the loop,
the other stays. Written as a quotient of the sum, each row of a thread divides and multiplies anew
in every round.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from workbench.analysis.affine import Affine
from workbench.ir import (
    INDEX,
    Builder,
    Module,
    Op,
    Pointer,
    Value,
    element_of,
    rebuild,
    shape_of,
    walk,
)
from workbench.ops import AddPointer, Broadcast, Constant, Elementwise, ExpandDims, Splat
from workbench.passes.cleanup import drop_dead
from workbench.passes.manager import Remarks
from workbench.passes.rules import constant_of, scalar_of


class _Parts(NamedTuple):
    """A tile as a sum of one scalar for all its elements and of the rest."""

    scalar: Value
    rest: Value


def part_quotients(module: Module, remarks: Remarks) -> Module:
    """Move the uniform part of a loop's quotient to the pointer that the quotient is added to.

    Before:
        %1 = tile.splat %start {shape = (16,)} : tile<16xindex>
        %2 = tile.add [%1, %i] : tile<16xindex>
        %3 = tile.div [%2, %eight] : tile<16xindex>
        %4 = tile.mul [%3, %strides] : tile<16xindex>
        %5 = tile.add_pointer %pointers, %4 : tile<16xptr<i32>>
    After:
        %6 = tile.div [%start, %8] : index
        %7 = tile.div [%i, %eight] : tile<16xindex>
        %9 = tile.mul [%6, %stride] : index
        %4 = tile.mul [%7, %strides] : tile<16xindex>
        %10 = tile.add_pointer %pointer, %9 : ptr<i32>
        %11 = tile.splat %10 {shape = (16,)} : tile<16xptr<i32>>
        %5 = tile.add_pointer %11, %4 : tile<16xptr<i32>>

    A remainder of such a sum is that of its other part, a table of constants if that counts: in a
    loop, and elsewhere unless it is for addresses alone, which have it beside the quotient.
    Needs: exact integers, none of the two parts below 0, the divisor divides the uniform one; no
    quotient times its divisor, which is put together again with the remainder, and none that asks a
    table for an address, by which boxes are found.
    Keeps: every value. With a = c * d, (a + b) / c = d + b / c, where neither is negative.
    """
    divided = [op for op in module.walk() if _divides_sum(op)]
    if not divided:
        return module
    # What lies in a loop changes with its rounds, what does not was moved out of it.
    loops = [region for op in module.walk() if op.repeats for region in op.regions]
    inside = {op.id for region in loops for op in walk(region)}
    addresses = _for_addresses(module)
    whole = {*_put_together(module), *_looked_up(module, addresses)}
    found = [
        op for op in divided
        if (op.id in inside or (_leaves_rest(op) and op.result not in addresses))
        and (op.operands[0], constant_of(op.operands[1])) not in whole
    ]  # fmt: skip
    if not found:
        return module
    facts = Affine(module)
    original = {op.id: op for op in found}
    parts: dict[Value, _Parts] = {}

    def rewrite(op: Op, builder: Builder) -> Op | Value | None:
        before = original.get(op.id)
        if before is not None and isinstance(op, Elementwise):
            made = _parted(op, before, facts, builder)
            if made is None or isinstance(made, Value):
                return made
            remarks.note(op, "the quotient of what is uniform is taken once", "applied")
        elif isinstance(op, AddPointer):
            known, base = parts.get(op.offset), op.pointer.op
            if known is None or not isinstance(base, Splat):
                return None
            moved = builder.add(AddPointer(base.source, known.scalar))
            return AddPointer(builder.add(Splat(moved, base.shape)), known.rest)
        else:
            made = _carried(op, parts, builder)
            if made is None:
                return None
        uniform = builder.add(Splat(made.scalar, shape_of(op.result.type)))
        value = builder.add(Elementwise("add", (uniform, made.rest)))
        parts[value] = made
        return value

    return drop_dead(rebuild(module, rewrite), remarks)


def _divides_sum(op: Op) -> bool:
    """Say whether an op divides a sum of exact integers by a number above 0."""
    if not isinstance(op, Elementwise) or op.function not in ("div", "rem"):
        return False
    if not shape_of(op.result.type):
        return False
    if element_of(op.result.type) != INDEX or not (constant_of(op.inputs[1]) or 0) > 0:
        return False
    made = op.inputs[0].op
    return isinstance(made, Elementwise) and made.function == "add"


def _leaves_rest(op: Op) -> bool:
    return isinstance(op, Elementwise) and op.function == "rem"


def _for_addresses(module: Module) -> set[Value]:
    """Return what offsets of pointers are made of element by element, and no shifts of words."""
    offsets, shifts = set[Value](), set[Value]()
    for op in reversed(list(module.walk())):  # users come first
        if isinstance(op, AddPointer):
            offsets.add(op.offset)
        elif isinstance(op, Elementwise) and op.function in ("shl", "shr"):
            shifts.add(op.inputs[1])
        for found in (offsets, shifts):
            if (op.pointwise or op.moves) and not found.isdisjoint(op.results):
                found.update(op.operands)
    return offsets - shifts


def _put_together(module: Module) -> Iterator[tuple[Value, int]]:
    """Yield sums whose quotients are multiplied by their divisors, with these."""
    for op in module.walk():
        if not isinstance(op, Elementwise) or op.function != "mul":
            continue
        for value, factor in (op.inputs, op.inputs[::-1]):
            made = value.op
            while made is not None and made.moves:
                made = made.operands[0].op
            if isinstance(made, Elementwise) and made.function == "div":
                by = constant_of(made.inputs[1])
                if by is not None and by == constant_of(factor):
                    yield made.inputs[0], by


def _looked_up(module: Module, addresses: set[Value]) -> Iterator[tuple[Value, int]]:
    """Yield sums of which the quotients say where an address is read, with their divisors.

    A table of pages is asked for a quotient, and the remainder is the row in the page: boxes of a
    tensor map are found by the two of one sum (`raise-tma`).
    """
    asking = set[Value]()
    for op in reversed(list(module.walk())):  # users come first
        made_alike = op.pointwise or op.moves
        if not made_alike and not addresses.isdisjoint(op.results):
            asking.update(v for v in op.operands if isinstance(element_of(v.type), Pointer))
        if made_alike and not asking.isdisjoint(op.results):
            asking.update(op.operands)
            if isinstance(op, Elementwise) and op.function == "div":
                by = constant_of(op.inputs[1])
                if by is not None:
                    yield op.inputs[0], by


def _parted(op: Elementwise, before: Op, facts: Affine, builder: Builder) -> _Parts | Value | None:
    """Return the parts of a quotient of a sum, a remainder, None if they do not divide for sure."""
    sum_, by = op.inputs[0].op, constant_of(op.inputs[1])
    assert isinstance(before, Elementwise)
    old = before.inputs[0].op
    if not isinstance(sum_, Elementwise) or sum_.function != "add" or old is None:
        return None
    if not all(map(facts.not_negative, old.operands)):
        return None
    for n, value in enumerate(sum_.inputs):
        form = facts.form(old.operands[n])
        if not isinstance(value.op, Splat) or form is None or facts.divisor(form) % by:
            continue
        rest = builder.add(Elementwise(op.function, (sum_.inputs[1 - n], op.inputs[1])))
        if _leaves_rest(op):
            return rest
        divisor = builder.add(Constant(by, INDEX))
        return _Parts(builder.add(Elementwise("div", (value.op.source, divisor))), rest)
    return None


def _carried(op: Op, parts: dict[Value, _Parts], builder: Builder) -> _Parts | None:
    """Return the parts of what is made of a value that has some."""
    if isinstance(op, ExpandDims | Broadcast) and (known := parts.get(op.source)) is not None:
        return _Parts(known.scalar, builder.add(op.duplicate([known.rest])))
    if not isinstance(op, Elementwise) or op.function != "mul":
        return None
    for value, factors in (op.inputs, op.inputs[::-1]):
        known = parts.get(value)
        factor = None if known is None else scalar_of(factors, builder)
        if known is None or factor is None:
            continue
        scalar = builder.add(Elementwise("mul", (known.scalar, factor)))
        return _Parts(scalar, builder.add(Elementwise("mul", (known.rest, factors))))
    return None


__all__ = ["part_quotients"]
