"""What passes over loops share: ops read other values, and which rounds are reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from workbench.analysis.affine import Affine
from workbench.analysis.masks import implies
from workbench.ir import (
    I32,
    U32,
    U64,
    Block,
    Builder,
    Op,
    Scalar,
    Value,
    element_of,
    shape_of,
    walk,
)
from workbench.ops import Bitcast, Constant, Elementwise, For, Select
from workbench.passes.rules import constant_of


def reached(loop: For, index: Value, builder: Builder) -> Value:
    """Return whether a loop reaches a round with this counter, one that its type holds."""
    step = constant_of(loop.step)
    up = builder.add(Elementwise("lt", (index, loop.upper)))
    if step is not None and step > 0:
        return up
    down = builder.add(Elementwise("gt", (index, loop.upper)))
    if step is not None:
        return down
    zero = builder.add(Constant(0, element_of(loop.step.type)))
    rises = builder.add(Elementwise("gt", (loop.step, zero)))
    return builder.add(Select(rises, up, down))


def counts_ahead(loop: For) -> bool:
    """Say whether `another` can tell which rounds follow."""
    return not loop.may_wrap or constant_of(loop.step) is not None


def another(loop: For, index: Value, following: Value, builder: Builder) -> Value:
    """Return whether a round, of counter `following`, comes behind one that a loop reaches.

    The counter's type may not hold `following`: the distance to the end, which fits without a
    sign, is compared with the step.
    """
    if not loop.may_wrap:
        return reached(loop, following, builder)
    step, element = constant_of(loop.step), element_of(index.type)
    assert step is not None
    assert isinstance(element, Scalar)
    unsigned = U64 if element.bits == 64 else U32
    ends = (loop.upper, index) if step > 0 else (index, loop.upper)
    distance = builder.add(Elementwise("sub", ends))
    if element != unsigned:
        distance = builder.add(Bitcast(distance, unsigned))
    return builder.add(Elementwise("gt", (distance, builder.add(Constant(abs(step), unsigned)))))


def ends_with(loop: For, mask: Value, facts: Affine) -> bool:
    """Say whether a mask is off in all rounds behind the last one of a loop: it need not be asked.

    `mask` is one of the loop's; where its round is another, its numbers are that one's.
    """
    step = constant_of(loop.step)
    if loop.may_wrap:  # so may what is compared there
        return False
    index, upper = (facts.form(v) for v in (loop.body.arguments[0], loop.upper))
    if step is None or step <= 0 or index is None or upper is None:
        return False
    shape = shape_of(mask.type)
    return any(implies(held, index - upper, shape) for held in facts.conjuncts(mask))


def next_slot(slot: Value, stages: int, builder: Builder) -> tuple[Value, Value]:
    """Return slot + 1, or 0 after the last; and whether it was the last."""
    one = builder.add(Constant(1, I32))
    following = builder.add(Elementwise("add", (slot, one), no_wrap=True))
    count = builder.add(Constant(stages, I32))
    past = builder.add(Elementwise("ge", (following, count)))
    zero = builder.add(Constant(0, I32))
    return builder.add(Select(past, zero, following)), past


def read_by(op: Op) -> Iterator[Value]:
    """Yield what an op reads, in its regions too."""
    yield from op.operands
    for region in op.regions:
        for inner in walk(region):
            yield from inner.operands


def reading_from(
    op: Op, replaced: Mapping[Value, Value], given: Mapping[str, Any] | None = None
) -> Op:
    """Return an op, and what stands in its regions, with replaced operands and given fields."""
    fields: dict[str, Any] = dict(given or {})
    for spec in op.fields:
        if spec.name in fields:
            continue
        held = op.__dict__[spec.name]
        if spec.role in ("operand", "optional") and held in replaced:
            fields[spec.name] = replaced[held]
        elif spec.role == "operands" and any(v in replaced for v in held):
            fields[spec.name] = tuple(replaced.get(v, v) for v in held)
        elif spec.role == "region":
            block = _block_reading(held, replaced)
            if block is not held:
                fields[spec.name] = block
    return op.changed(**fields) if fields else op


def _block_reading(block: Block, replaced: Mapping[Value, Value]) -> Block:
    inner = dict(replaced)
    ops: list[Op] = []
    for op in block.ops:
        new = reading_from(op, inner)
        if new is not op:
            inner.update(zip(op.results, new.results, strict=True))
        ops.append(new)
    same = all(new is old for new, old in zip(ops, block.ops, strict=True))
    return block if same else Block(block.arguments, tuple(ops))
