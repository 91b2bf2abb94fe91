"""Identities of rewrite rules as IR: "x + 0 = x" is read as Python and written as ops.

Names are values of the types that the rule declares, functions are mnemonics of ops with their
attributes behind the values, numbers are constants of the type that the place wants.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from workbench.ir import (
    F32,
    I1,
    I32,
    INDEX,
    Block,
    Builder,
    Module,
    Op,
    Pointer,
    Scalar,
    Type,
    Value,
    element_of,
    parse_module,
    shape_of,
    tile,
)
from workbench.ops import (
    FUNCTIONS,
    AddPointer,
    Broadcast,
    Cast,
    Constant,
    DevicePrint,
    Elementwise,
    ExpandDims,
    For,
    If,
    Reshape,
    Return,
    Select,
    Splat,
    Transpose,
    Yield,
)
from workbench.passes.rules import Rule

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Mod: "rem",
    ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr",
}  # fmt: skip
#: What splats and broadcasts of an identity are widened to where it does not say.
SPLAT, BROADCAST = (4,), (2, 4)


class Written:
    """One side of an identity written as ops; `given` holds what its names are.

    `instead` says which functions are written in the place of those that stand there.
    """

    def __init__(self, given: dict[str, Value], builder: Builder, instead: dict[str, str]) -> None:
        self.given = given
        self.builder = builder
        self.instead = instead

    def value(self, node: ast.expr, wanted: Type | None = None) -> Value:
        """Insert the ops of an expression; `wanted` is the type that the place wants."""
        number = literal(node)
        if number is not None:
            return self.builder.add(self.constant(number, wanted))
        if isinstance(node, ast.Name):
            return self.given[node.id]
        if isinstance(node, ast.BinOp):
            return self.operation(OPERATORS[type(node.op)], [node.left, node.right], wanted)
        assert isinstance(node, ast.Call)
        assert isinstance(node.func, ast.Name)
        build: Callable[..., Op] | None = getattr(self, f"_{node.func.id}", None)
        if build is None:
            return self.operation(node.func.id, node.args, wanted)
        return self.builder.add(build(node.args, wanted))

    def constant(self, number: Any, wanted: Type | None) -> Constant:
        type = wanted or (I1 if isinstance(number, bool) else I32)
        if isinstance(element_of(type), Pointer):
            type = tile(shape_of(type), INDEX)
        element = element_of(type)
        assert isinstance(element, Scalar)
        if element.kind == "uint":
            number &= (1 << element.bits) - 1
        return Constant(float(number) if element.is_float else number, type)

    def operation(self, name: str, nodes: list[ast.expr], wanted: Type | None) -> Value:
        """Insert an elementwise function: operands take the type of the first that has one."""
        first = next((n for n in nodes if literal(n) is None), nodes[0])
        value = self.value(first, wanted)
        inputs = [value if n is first else self.value(n, value.type) for n in nodes]
        if isinstance(element_of(inputs[0].type), Pointer):
            return self.builder.add(AddPointer(*inputs))
        return self.builder.add(Elementwise(self.instead.get(name, name), tuple(inputs)))

    def _splat(self, nodes: list[ast.expr], wanted: Type | None) -> Op:
        return Splat(self.value(nodes[0]), shape_of(wanted) if wanted else SPLAT)

    def _broadcast(self, nodes: list[ast.expr], wanted: Type | None) -> Op:
        return Broadcast(self.value(nodes[0]), integers(nodes[1:]) or BROADCAST)

    def _expand_dims(self, nodes: list[ast.expr], wanted: Type | None) -> Op:
        return ExpandDims(self.value(nodes[0]), *integers(nodes[1:]))

    def _reshape(self, nodes: list[ast.expr], wanted: Type | None) -> Op:
        return Reshape(self.value(nodes[0]), integers(nodes[1:]))

    def _transpose(self, nodes: list[ast.expr], wanted: Type | None) -> Op:
        return Transpose(self.value(nodes[0]), integers(nodes[1:]))

    def _select(self, nodes: list[ast.expr], wanted: Type | None) -> Op:
        return Select(*(self.value(n) for n in nodes))

    def _cast(self, nodes: list[ast.expr], wanted: Type | None) -> Op:
        assert isinstance(nodes[1], ast.Name)
        to = given_module(f"x: {nodes[1].id}").parameters[0].value.type
        assert isinstance(to, Scalar)
        return Cast(self.value(nodes[0]), to)

    def _loop(self, nodes: list[ast.expr], wanted: Type | None) -> Op:
        """A loop that doubles its only carried value in every round."""
        bounds = [self.value(n, INDEX) for n in nodes[:3]]
        start = self.value(nodes[3], F32)
        counter, carried = Value(INDEX), Value(start.type)
        with self.builder.block() as ops:
            twice = self.builder.add(Elementwise("add", (carried, carried)))
            self.builder.insert(Yield((twice,)))
        return For(*bounds, (start,), Block((counter, carried), tuple(ops)))

    def _branch(self, nodes: list[ast.expr], wanted: Type | None) -> Op:
        """A branch that doubles a value where its condition holds, and else leaves it."""
        condition, value = self.value(nodes[0], I1), self.value(nodes[1], F32)
        with self.builder.block() as then:
            twice = self.builder.add(Elementwise("add", (value, value)))
            self.builder.insert(Yield((twice,)))
        with self.builder.block() as otherwise:
            self.builder.insert(Yield((value,)))
        return If(condition, Block((), tuple(then)), Block((), tuple(otherwise)))


def literal(node: ast.expr) -> Any:
    """Return the number that a node is, None if it is none."""
    try:
        found = ast.literal_eval(node)
    except ValueError:
        return None
    return found if isinstance(found, int | float) else None


def integers(nodes: list[ast.expr]) -> tuple[int, ...]:
    """Return the attributes that numbers behind a value are."""
    return tuple(literal(node) for node in nodes)


def given_module(given: str) -> Module:
    """Return a kernel of nothing but parameters: "x: i32, y: tile<4xf32>"."""
    declared = ", ".join(f"%{word.strip()}" for word in given.split(",") if word.strip())
    return parse_module(f"kernel @identity({declared}) {{\n  tile.return\n}}")


def sides(rule: Rule) -> tuple[ast.expr, ast.expr]:
    """Return both expressions of a rule's identity."""
    left, right = rule.identity.split(" = ")
    return ast.parse(left, mode="eval").body, ast.parse(right, mode="eval").body


def function_of(node: ast.expr) -> str:
    """Return the elementwise function at the top of an expression, empty if there is none."""
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)]
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return node.func.id if node.func.id in FUNCTIONS else ""


def swapped(node: ast.expr) -> ast.expr:
    """Return an operation with its operands in the other order."""
    if isinstance(node, ast.BinOp):
        return ast.BinOp(node.right, node.op, node.left)
    assert isinstance(node, ast.Call)
    return ast.Call(node.func, node.args[::-1], [])


def module_of(
    node: ast.expr,
    given: str,
    wanted: Type | None = None,
    instead: dict[str, str] | None = None,
) -> Module:
    """Return a kernel that computes an expression of its parameters and prints its value."""
    module = given_module(given)
    builder = Builder(module.next_id)
    with builder.block() as ops:
        names = {parameter.name: parameter.value for parameter in module.parameters}
        value = Written(names, builder, instead or {}).value(node, wanted)
        builder.insert(DevicePrint((value,)))
        builder.insert(Return())
    return replace(module, body=Block(module.body.arguments, tuple(ops)), next_id=builder.next_id)
