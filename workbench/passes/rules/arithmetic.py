"""Rules of elementwise functions and selection."""

from __future__ import annotations

from collections.abc import Callable

from workbench.ir import Builder, Op, Scalar, Value, element_of, shape_of
from workbench.ops import Broadcast, Constant, Elementwise, ExpandDims, Select, Splat
from workbench.ops.numbers import loses_infinities
from workbench.passes.rules.folding import FOLD
from workbench.passes.rules.known import constant_of, scalar_of
from workbench.passes.rules.rule import Rule


# -- neutral elements ---------------------------------------------------------------------------
def _neutral(op: Elementwise, builder: Builder) -> Value | None:
    """Return the other operand where one is the neutral element of the function."""
    a, b = op.inputs
    element = element_of(a.type)
    if not isinstance(element, Scalar) or op.row.identity is None:
        return None
    # Of floats, x * 1 is exact; x + 0 is not (it turns -0 into +0), min and max have NaNs.
    if element.is_float and (op.function != "mul" or loses_infinities(element)):
        return None
    neutral = int(op.row.identity(element))
    if constant_of(b) == neutral:
        return a
    return b if constant_of(a) == neutral else None


def _neutral_right(number: int) -> Callable[[Elementwise, Builder], Value | None]:
    """Return the rewrite for `x f number = x` of integers."""

    def rewrite(op: Elementwise, builder: Builder) -> Value | None:
        a, b = op.inputs
        return a if constant_of(b) == number and _is_integer(a) else None

    return rewrite


def _divided_by_one(op: Elementwise, builder: Builder) -> Value | None:
    a, b = op.inputs
    element = element_of(a.type)
    if not isinstance(element, Scalar) or element.kind == "bool" or loses_infinities(element):
        return None
    return a if constant_of(b) == 1 else None


# -- integers -----------------------------------------------------------------------------------
def _is_integer(value: Value) -> bool:
    element = element_of(value.type)
    return isinstance(element, Scalar) and not element.is_float


def _zero(op: Elementwise, builder: Builder) -> Constant | None:
    a, b = op.inputs
    if _is_integer(a) and 0 in (constant_of(a), constant_of(b)):
        return Constant(0, a.type)
    return None


def _remainder_by_one(op: Elementwise, builder: Builder) -> Constant | None:
    a, b = op.inputs
    return Constant(0, a.type) if _is_integer(a) and constant_of(b) == 1 else None


def _with_itself(op: Elementwise, builder: Builder) -> Value | None:
    a, b = op.inputs
    return a if a is b and _is_integer(a) else None


def _constants_together(op: Elementwise, builder: Builder) -> Op | Value | None:
    """Add two constants to each other first, where their sum is a number of the type."""
    outer = _plus_constant(op)
    inner = None if outer is None else _plus_constant(outer[0].op)
    if outer is None or inner is None:
        return None
    value, total = inner[0], inner[1] + outer[1]
    element = element_of(value.type)
    assert isinstance(element, Scalar)
    if abs(total) >> (element.bits - 1):
        return None
    if not total:
        return value
    number = builder.add(Constant(abs(total), value.type))
    return Elementwise("add" if total > 0 else "sub", (value, number))


def _plus_constant(op: Op | None) -> tuple[Value, int] | None:
    """Return an integer and the number that an op adds to it, None if it does something else."""
    if not isinstance(op, Elementwise) or op.function not in ("add", "sub"):
        return None
    a, b = op.inputs
    if op.function == "add" and constant_of(a) is not None:
        a, b = b, a
    number, element = constant_of(b), element_of(a.type)
    if number is None or not _is_integer(a) or element.kind == "bool":
        return None
    return a, int(number) if op.function == "add" else -int(number)


# -- equal elements -----------------------------------------------------------------------------
def _on_scalars(op: Elementwise, builder: Builder) -> Op | None:
    return per_scalar(op, op.inputs, builder, lambda new: _simplest(op.function, new, builder))


def _simplest(function: str, inputs: tuple[Value, ...], builder: Builder) -> Value:
    """Insert a function of values, or what the rules about single values make of it."""
    new = Elementwise(function, inputs)
    for rule in VALUES:
        if rule.concerns(new) and (found := rule.rewrite(new, builder)) is not None:
            assert isinstance(found, Op | Value)
            return found if isinstance(found, Value) else builder.add(found)
    return builder.add(new)


def per_scalar(
    op: Op,
    inputs: tuple[Value, ...],
    builder: Builder,
    add: Callable[[tuple[Value, ...]], Value],
) -> Op | None:
    """Write an op on uniform tiles as a splat of what `add` makes of the scalars."""
    shape = shape_of(op.result.type)
    if not shape or not all(isinstance(v.op, Splat | Constant) for v in inputs):
        return None
    scalars = [scalar_of(v, builder) for v in inputs]
    return Splat(add(tuple(s for s in scalars if s is not None)), shape)


def _before_broadcast(op: Elementwise, builder: Builder) -> Op | None:
    shape = shape_of(op.inputs[0].type)
    inner = _on_smaller(op, Broadcast, builder)
    return Broadcast(inner, shape) if inner is not None else None


def _before_expansion(op: Elementwise, builder: Builder) -> Op | None:
    axes = {v.op.axis for v in op.inputs if isinstance(v.op, ExpandDims)}
    inner = _on_smaller(op, ExpandDims, builder) if len(axes) == 1 else None
    return ExpandDims(inner, axes.pop()) if inner is not None else None


def _on_smaller(
    op: Elementwise, kind: type[Broadcast | ExpandDims], builder: Builder
) -> Value | None:
    """Compute on what equally repeated tiles are made of; uniform operands come along."""
    varying = [v.op for v in op.inputs if not isinstance(v.op, Splat | Constant)]
    repeated = [o for o in varying if isinstance(o, kind)]
    shapes = {shape_of(o.source.type) for o in repeated}
    if len(repeated) < len(varying) or len(shapes) != 1:
        return None
    small = shapes.pop()
    operands: list[Value] = []
    for value in op.inputs:
        if isinstance(value.op, kind):
            operands.append(value.op.source)
        else:
            scalar = scalar_of(value, builder)
            assert scalar is not None
            operands.append(builder.add(Splat(scalar, small)) if small else scalar)
    return builder.add(Elementwise(op.function, tuple(operands)))


# -- selection ----------------------------------------------------------------------------------
def _known_condition(op: Select, builder: Builder) -> Value | None:
    condition = constant_of(op.condition)
    return None if condition is None else op.then if condition else op.otherwise


def _either_way(op: Select, builder: Builder) -> Value | None:
    return op.then if op.then is op.otherwise else None


def _select_scalars(op: Select, builder: Builder) -> Op | None:
    if not shape_of(op.condition.type):
        return None
    inputs = (op.condition, op.then, op.otherwise)
    return per_scalar(op, inputs, builder, lambda new: builder.add(Select(*new)))


#: Rules that give a value or a constant, of scalars too.
VALUES: tuple[Rule, ...] = (
    Rule("add-zero", "x + 0 = x", "x: i32", Elementwise, _neutral, ("add",)),
    Rule("multiply-by-one", "x * 1 = x", "x: f32", Elementwise, _neutral, ("mul",)),
    Rule("and-ones", "x & -1 = x", "x: i32", Elementwise, _neutral, ("and",)),
    Rule("or-zero", "x | 0 = x", "x: i32", Elementwise, _neutral, ("or",)),
    Rule("xor-zero", "x ^ 0 = x", "x: i32", Elementwise, _neutral, ("xor",)),
    Rule("min-of-highest", "min(x, 127) = x", "x: i8", Elementwise, _neutral, ("min", "minimum")),
    Rule("max-of-lowest", "max(x, 0) = x", "x: u8", Elementwise, _neutral, ("max", "maximum")),
    Rule("subtract-zero", "x - 0 = x", "x: i32", Elementwise, _neutral_right(0), ("sub",)),
    Rule("add-constants", "(x + 3) + 1 = x + 4", "x: i32", Elementwise, _constants_together,
         ("add", "sub")),
    Rule("shift-by-zero", "x << 0 = x", "x: i32", Elementwise, _neutral_right(0), ("shl", "shr")),
    Rule("divide-by-one", "x / 1 = x", "x: f32", Elementwise, _divided_by_one, ("div",)),
    Rule("multiply-by-zero", "x * 0 = 0", "x: i32", Elementwise, _zero, ("mul",)),
    Rule("and-zero", "x & 0 = 0", "x: i32", Elementwise, _zero, ("and",)),
    Rule("remainder-by-one", "x % 1 = 0", "x: i32", Elementwise, _remainder_by_one, ("rem",)),
    Rule("combine-with-itself", "x & x = x", "x: i32", Elementwise, _with_itself,
         ("and", "or", "min", "max")),
    FOLD,
)  # fmt: skip

RULES: tuple[Rule, ...] = (
    *VALUES,
    Rule("compute-on-scalars", "splat(x) + splat(y) = splat(x + y)", "x: f32, y: f32",
         Elementwise, _on_scalars),
    Rule("compute-before-broadcast", "broadcast(x) + broadcast(y) = broadcast(x + y)",
         "x: tile<1x4xf32>, y: tile<1x4xf32>", Elementwise, _before_broadcast),
    Rule("compute-before-expansion", "expand_dims(x, 1) + splat(y) = expand_dims(x + splat(y), 1)",
         "x: tile<4xf32>, y: f32", Elementwise, _before_expansion),
    Rule("select-known", "select(True, x, y) = x", "x: f32, y: f32", Select, _known_condition),
    Rule("select-equal", "select(c, x, x) = x", "c: i1, x: f32", Select, _either_way),
    Rule("select-scalars", "select(splat(c), splat(x), splat(y)) = splat(select(c, x, y))",
         "c: i1, x: f32, y: f32", Select, _select_scalars),
)  # fmt: skip
