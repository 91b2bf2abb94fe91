"""Loop-carried pointer and index tiles that move as a whole become one moving scalar."""

from __future__ import annotations

from workbench.ir import (
    I64,
    INDEX,
    Block,
    Builder,
    Module,
    Op,
    Scalar,
    Value,
    element_of,
    rebuild,
    shape_of,
)
from workbench.ops import AddPointer, Cast, Constant, Elementwise, For, Promise, Splat
from workbench.passes.manager import Remarks
from workbench.passes.rules import scalar_of


def scalar_inductions(module: Module, remarks: Remarks) -> Module:
    """Carry `tile + offset` instead of the tile where a round adds the same to every element.

    Before:
        %ps = tile.splat %p {shape = (4,)} : tile<4xptr<f32>>
        %r = tile.for %lo, %hi, %one, [%ps] {
        ^(%i: index, %q: tile<4xptr<f32>>):
          %v = tile.load %q : tile<4xf32>
          tile.store %q, %v
          %d = tile.splat %s {shape = (4,)} : tile<4xindex>
          %n = tile.add_pointer %q, %d : tile<4xptr<f32>>
          tile.yield [%n]
        } : tile<4xptr<f32>>
    After:
        %ps = tile.splat %p {shape = (4,)} : tile<4xptr<f32>>
        %0 = tile.constant {value = 0, type = index} : index
        %end = tile.for %lo, %hi, %one, [%0] {
        ^(%i: index, %moved: index):
          %all = tile.splat %moved {shape = (4,)} : tile<4xindex>
          %q = tile.add_pointer %ps, %all : tile<4xptr<f32>>
          %v = tile.load %q : tile<4xf32>
          tile.store %q, %v
          %m = tile.add [%moved, %s] : index
          tile.yield [%m]
        } : index
        %far = tile.splat %end {shape = (4,)} : tile<4xindex>
        %r = tile.add_pointer %ps, %far : tile<4xptr<f32>>

    Keeps: every value. A tile of pointers then costs one register in the loop, not one an element.
    """

    def rewrite(op: Op, builder: Builder) -> tuple[Value, ...] | None:
        if not isinstance(op, For):
            return None
        arguments = op.body.arguments[1:]
        found: dict[int, list[Value]] = {}
        for i, (argument, after) in enumerate(zip(arguments, op.body.yields, strict=True)):
            moves = _moves(argument, after)
            if moves:
                found[i] = moves
        if not found:
            return None
        return _carry_scalars(op, found, builder, remarks)

    return rebuild(module, rewrite)


def _moves(argument: Value, after: Value) -> list[Value]:
    """Return the uniform offsets that a round adds to a carried tile; empty if it does more."""
    if not shape_of(argument.type):
        return []
    moves: list[Value] = []
    while after is not argument:
        op = after.op
        if isinstance(op, Promise):
            after = op.source
            continue
        if isinstance(op, AddPointer):
            before, offset = op.pointer, op.offset
        elif (
            isinstance(op, Elementwise) and op.function == "add" and element_of(after.type) == INDEX
        ):
            before, offset = op.inputs
            if isinstance(before.op, Splat | Constant):
                before, offset = offset, before
        else:
            return []
        if not isinstance(offset.op, Splat | Constant) or element_of(offset.type) not in (
            INDEX,
            I64,
        ):
            return []
        moves.append(offset)
        after = before
    return moves


def _carry_scalars(
    op: For, found: dict[int, list[Value]], builder: Builder, remarks: Remarks
) -> tuple[Value, ...]:
    kinds = {i: _kind(moves) for i, moves in found.items()}
    inits, carried = list(op.inits), list(op.body.arguments[1:])
    for i, kind in kinds.items():
        inits[i] = builder.add(Constant(0, kind))
        carried[i] = Value(kind, carried[i].hint)
    with builder.block() as ops:
        replaced: dict[Value, Value] = {}
        for i in found:
            argument = op.body.arguments[1 + i]
            replaced[argument] = current = _moved(op.inits[i], carried[i], builder)
            current.hint = argument.hint
        for inner in op.body.ops[:-1]:
            builder.insert(_with(inner, replaced))
        yields = [replaced.get(v, v) for v in op.body.yields]
        for i, moves in found.items():
            total = carried[i]
            for move in reversed(moves):
                scalar = scalar_of(replaced.get(move, move), builder)
                assert scalar is not None
                if element_of(scalar.type) != kinds[i]:
                    scalar = builder.add(Cast(scalar, kinds[i]))
                total = builder.add(Elementwise("add", (total, scalar)))
            yields[i] = total
        builder.insert(op.body.terminator.changed(values=tuple(yields)))
    body = Block((op.body.arguments[0], *carried), tuple(ops))
    new = builder.insert(op.changed(inits=tuple(inits), body=body))
    remarks.note(op, f"{len(found)} carried tiles move as a whole: carried as scalars", "applied")
    results = list(new.results)
    for i in found:
        results[i] = _moved(op.inits[i], results[i], builder)
    return tuple(results)


def _kind(moves: list[Value]) -> Scalar:
    """Return the type in which offsets add up: exact, unless one of them is an i64."""
    return INDEX if all(element_of(move.type) == INDEX for move in moves) else I64


def _moved(start: Value, offset: Value, builder: Builder) -> Value:
    shape = shape_of(start.type)
    everywhere = builder.add(Splat(offset, shape))
    if element_of(start.type).kind == "pointer":
        return builder.add(AddPointer(start, everywhere))
    return builder.add(Elementwise("add", (start, everywhere)))


def _with(op: Op, replaced: dict[Value, Value]) -> Op:
    """Return an op of the body reading replaced values, regions included; results stay known."""
    fields = {}
    for spec in op.fields:
        held = op.__dict__[spec.name]
        if spec.role in ("operand", "optional") and held in replaced:
            fields[spec.name] = replaced[held]
        elif spec.role == "operands" and any(v in replaced for v in held):
            fields[spec.name] = tuple(replaced.get(v, v) for v in held)
        elif spec.role == "region":
            ops = tuple(_with(inner, replaced) for inner in held.ops)
            if any(a is not b for a, b in zip(ops, held.ops, strict=True)):
                fields[spec.name] = Block(held.arguments, ops)
    if not fields:
        return op
    new = op.changed(**fields)
    replaced.update(zip(op.results, new.results, strict=True))
    return new
