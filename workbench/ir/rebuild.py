"""rebuild: how a pass makes a new module out of an old one.

A rewrite sees every op once, inner before outer, with its operands already replaced, and returns
`None` to keep it, a value or values to use instead of its results, another op to put in its
place, or DROP to leave it out. Ops that the rewrite inserts through the builder get the next free
ids, the old op's place and its id as origin; an op that only got new operands keeps its id. Parts
in which nothing changed are shared with the old module, so a rebuild that does nothing costs one
walk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from workbench.ir.build import Builder
from workbench.ir.module import Module
from workbench.ir.operation import Block, Op, Value


class Drop:
    """Returned by a rewrite to leave an op out; nothing may use its results any more."""


DROP = Drop()
Replacement = Op | Value | tuple[Value, ...] | Drop | None
Rewrite = Callable[[Op, Builder], Replacement]


class Rebuilder:
    """One rebuild in progress: the builder and what each old value has become."""

    def __init__(self, module: Module, rewrite: Rewrite) -> None:
        self.builder = Builder(module.next_id)
        self.rewrite = rewrite
        self.values: dict[Value, Value] = {}

    def argument(self, value: Value) -> Value:
        """Return what a block argument becomes; the same value here, others in subclasses."""
        return value

    def block(self, block: Block) -> Block:
        """Return the rebuilt block, the same object if nothing in it changed."""
        arguments = tuple(map(self.argument, block.arguments))
        for old, new in zip(block.arguments, arguments, strict=True):
            if old is not new:
                self.values[old] = new
        with self.builder.block() as ops:
            for op in block.ops:
                self.op(op)
        now = tuple(ops)
        if arguments == block.arguments and now == block.ops:  # values and ops equal themselves
            return block
        return Block(arguments, now)

    def op(self, op: Op) -> None:
        """Put into the block being written what the rewrite makes of one op."""
        current = self.with_new_operands(op)
        builder = self.builder
        before = builder.span, builder.origins
        builder.span, builder.origins = op.span, (op.id,)
        done = self.rewrite(current, builder)
        if done is None:
            builder.insert(current)
            self._map(op, current.results)
        elif isinstance(done, Op):
            # An op with another op's id is in the block already.
            if not done.id or done.id == op.id:
                builder.insert(done)
            self._map(op, done.results)
        elif not isinstance(done, Drop):
            self._map(op, done if isinstance(done, tuple) else (done,))
        builder.span, builder.origins = before

    def with_new_operands(self, op: Op) -> Op:
        """Return the op with replaced operands and rebuilt regions, itself if none changed."""
        values = self.values
        fields: dict[str, Any] = {}
        if values and not values.keys().isdisjoint(op.operands):
            fields = self._replaced_operands(op)
        if op.regions:
            for spec in op.fields:
                if spec.role == "region":
                    old = op.__dict__[spec.name]
                    new = self.block(old)
                    if new is not old:
                        fields[spec.name] = new
        return op.changed(**fields) if fields else op

    def _replaced_operands(self, op: Op) -> dict[str, Any]:
        values = self.values
        fields: dict[str, Any] = {}
        for spec in op.fields:
            found = op.__dict__[spec.name]
            if spec.role in ("operand", "optional") and found in values:
                fields[spec.name] = values[found]
            elif spec.role == "operands":
                fields[spec.name] = tuple(values.get(v, v) for v in found)
        return fields

    def _map(self, op: Op, new: tuple[Value, ...]) -> None:
        if new is op.results:
            return
        for old, now in zip(op.results, new, strict=True):
            if old is not now:
                self.values[old] = now
                if old.hint and not now.hint:
                    now.hint = old.hint


def rebuild(module: Module, rewrite: Rewrite, **attributes: Any) -> Module:
    """Return the module that `rewrite` makes of `module`; see the top of this file."""
    rebuilder = Rebuilder(module, rewrite)
    body = rebuilder.block(module.body)
    if body is module.body and not attributes:
        return module
    return replace(
        module,
        body=body,
        next_id=rebuilder.builder.next_id,
        attributes={**module.attributes, **attributes} if attributes else module.attributes,
    )


def clone_into(
    block: Block, arguments: Mapping[Value, Value], builder: Builder
) -> tuple[Value, ...]:
    """Insert copies of a block's ops (all but the last) and return what its last op would give.

    Copies get new ids with the originals as origins. Used to inline combine regions and to unroll.
    """
    values = dict(arguments)
    for op in block.ops[:-1]:
        builder.insert(copy_op(op, values, builder))
    return tuple(values.get(v, v) for v in block.ops[-1].operands)


def copy_op(op: Op, values: dict[Value, Value], builder: Builder) -> Op:
    """Return a fresh copy of `op` reading replaced values; records its results in `values`."""
    fields: dict[str, Any] = {}
    for spec in op.fields:
        found: Any = op.__dict__[spec.name]
        if spec.role == "operands":
            fields[spec.name] = tuple(values.get(v, v) for v in found)
        elif spec.role == "region":
            fields[spec.name] = _copy_block(found, values, builder)
        elif spec.role != "attribute" and found is not None:
            fields[spec.name] = values.get(found, found)
    new = op.changed(**fields)
    new.__dict__["id"], new.__dict__["origins"] = 0, (op.id,)
    values.update(zip(op.results, new.results, strict=True))
    return new


def _copy_block(block: Block, values: dict[Value, Value], builder: Builder) -> Block:
    arguments = tuple(Value(a.type, a.hint) for a in block.arguments)
    values.update(zip(block.arguments, arguments, strict=True))
    with builder.block() as ops:
        for op in block.ops:
            builder.insert(copy_op(op, values, builder))
    return Block(arguments, tuple(ops))
