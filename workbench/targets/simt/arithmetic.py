"""Constants, counting, elementwise functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from workbench.analysis.at_most import is_at_most
from workbench.analysis.transfer import counts
from workbench.ir import F32, U32, U64, Scalar, Value, element_of, shape_of
from workbench.ops import Constant, Elementwise, Iota, Select
from workbench.ops.numbers import truncated_quotient, truncated_remainder
from workbench.source import TargetError
from workbench.targets.llvm.emit import Emitter, float_literal, is_integer, wrap
from workbench.targets.simt import narrow
from workbench.targets.simt.compared_together import compared_together
from workbench.targets.simt.fields import differences_of_fields
from workbench.targets.simt.functions import exp_of_at_most_0, float_function
from workbench.targets.simt.hardware import Hardware, Rule
from workbench.targets.simt.lowering import Held, Lowering, element_scalar, llvm_type, split_limit
from workbench.targets.simt.passes.costs import quotient_cost
from workbench.targets.simt.room import room_in
from workbench.targets.simt.rules import Layouts, Setting, elementwise
from workbench.targets.simt.short_division import short_quotient
from workbench.targets.simt.table import SIMT

SIMT.layouts(Constant, Iota, Select)(elementwise)

_COMPARE = {"lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "eq": "eq", "ne": "ne"}


@SIMT.layouts(Elementwise)
def function_layouts(op: Elementwise, on: Setting) -> Layouts:
    """As all elementwise ops; what divides by what nobody knows is written seldom."""
    plan = elementwise(op, on)
    if op.function not in ("div", "rem") or not counts(element_of(op.result.type)):
        return plan
    divisor = on.facts.form(op.inputs[1])
    if divisor is not None and divisor.constant is not None:
        return plan
    return replace(plan, cost=partial(quotient_cost, on, op.result))


@SIMT.lower(Constant)
def lower_constant(low: Lowering, op: Constant) -> None:
    text = literal(op.value, element_of(op.type))
    low.set_lazy(op.result, lambda r: text)


def literal(value: float | int | bool, element: object) -> str:
    """Return the LLVM literal of a number of a type."""
    assert isinstance(element, Scalar)
    if element.bits == 8 and element.is_float:
        import numpy as np

        from workbench.ops.numbers import encode, round_to

        return wrap(int(encode(round_to(np.asarray([value]), element), element)[0]), "i8")
    if element.is_float:
        return float_literal(float(value), llvm_type(element))
    return wrap(int(value), llvm_type(element))


@SIMT.lower(Iota)
def lower_iota(low: Lowering, op: Iota) -> None:
    layout, type = low.layout(op.result), llvm_type(op.type.element)

    def register(r: int) -> tuple[str, int]:
        root, constant = low.coordinate(layout, 0, r)
        return low.emit.zext(root, "i32", type) if type != "i32" else root, constant + op.start

    low.set_lazy(op.result, register)


@SIMT.lower(Select)
def lower_select(low: Lowering, op: Select) -> None:
    type = llvm_type(element_of(op.result.type))

    def register(r: int) -> str:
        condition = low.register(op.condition, r)
        then, otherwise = low.register(op.then, r), low.register(op.otherwise, r)
        if condition in ("true", "1"):
            return then
        if condition in ("false", "0"):
            return otherwise
        if then == otherwise:
            return then
        return low.emit.pure(f"select i1 {condition}, {type} {then}, {type} {otherwise}")

    _define(low, op, register)


@SIMT.lower(Elementwise)
def lower_elementwise(low: Lowering, op: Elementwise) -> None:
    element = element_scalar(op.inputs[0])
    if element.is_float:
        known = differences_of_fields(low, op)
        if known is not None:
            low.set_registers(op.result, known)
        else:
            _define(low, op, float_rule(low, op))
    elif op.row.compares:
        _define_comparison(low, op, element)
    elif op.function in ("div", "rem") and element.bits >= 32 and shape_of(op.result.type):
        _define_quotient(low, op, element)
    elif op.function in ("div", "rem"):
        _define(low, op, lambda r: _quotient(low, op, element, _inputs(low, op, r)))
    elif (
        op.function in ("mul", "mulhi")
        and element == U32
        and (frozenset(op.inputs) in low.wide_products)
    ):
        _define(low, op, lambda r: _half_of_product(low, op.function, *_inputs(low, op, r)))
    elif op.function in ("add", "sub", "mul", "shl", "neg") and element.bits >= 32:
        low.set_lazy(op.result, lambda r: _linear(low, op, element, r))
    else:
        _define(low, op, lambda r: integer_function(low.emit, low.chip, op.function, element,
                                                    _inputs(low, op, r)))  # fmt: skip


def _define_comparison(low: Lowering, op: Elementwise, element: Scalar) -> None:
    inside = _inside_run(low, op)
    first = sorted({r & ~inside for r in low.live(op.result)})
    together = compared_together(low, op, element, first)

    def register(r: int) -> str:
        r &= ~inside
        found = together(r)
        return found or compare_integers(low.emit, op.function, element, *_inputs(low, op, r))

    _define(low, op, register)


def _inside_run(low: Lowering, op: Elementwise) -> int:
    """Return the register bits that lead from the first element of a run to its others.

    A comparison gives the same along aligned runs that its sides' forms tell (as a mask does whose
    bound a number divides), so that the first element's answer is that of all.
    """
    if not shape_of(op.result.type):
        return 0
    layout, found = low.layout(op.result), 0
    for axis, extent in enumerate(layout.shape):
        run = low.affine.mask_run(op.result, axis, extent)
        for bit, place in enumerate(layout.bases["register"]):
            step = place[axis]
            if 0 < step < run and not any(place[:axis]) and not any(place[axis + 1 :]):
                found |= 1 << bit
    return found


def _half_of_product(low: Lowering, function: str, a: str, b: str) -> str:
    """Return the low or high half of a product of which both are read: it is computed once."""
    emit = low.emit
    product = low.chip.wide_product(emit, *sorted((a, b)))
    half = emit.pure(f"lshr i64 {product}, 32") if function == "mulhi" else product
    return emit.pure(f"trunc i64 {half} to i32")


def _define_quotient(low: Lowering, op: Elementwise, element: Scalar) -> None:
    """Divide the first element of each run that counts up; the others lie a number further."""
    steps = _steps(low, op)
    inside = sum(steps)
    # Shifts and masks do for numbers without a sign, and what they leave is alike in registers.
    # Of 64 bits only if none wraps for sure: forms take for exact what an author computes in these.
    divided = element
    if all(low.affine.not_negative(v) and _has_room(low, v) for v in op.inputs):
        divided = U32 if element.bits == 32 else U64

    def register(r: int) -> Held:
        if r & inside:
            operand, constant = low.pair(op.result, r & ~inside)
            return operand, constant + sum(step for bit, step in steps.items() if r & bit)
        return _quotient(low, op, divided, _inputs(low, op, r))

    low.set_lazy(op.result, register)


def _quotient(low: Lowering, op: Elementwise, element: Scalar, inputs: list[str]) -> str:
    short = short_quotient(low, op, inputs)
    if short is not None:
        return short
    if element.bits >= 32:
        type, signed = llvm_type(element), element.kind == "int"
        # -2^31 / -1 leaves 32 bits: whose sign is known on one side is not that.
        fits = not signed or any(map(low.affine.not_negative, op.inputs))
        return _divide(low.emit, op.function, type, signed, *inputs, fits=fits)
    return integer_function(low.emit, low.chip, op.function, element, inputs)


def _has_room(low: Lowering, value: Value) -> bool:
    """Say whether a number is exact, or a quotient or remainder of one that is."""
    while isinstance(value.op, Elementwise) and value.op.function in ("div", "rem"):
        value = value.op.inputs[0]
    return room_in(low.module).has(value)


def _steps(low: Lowering, op: Elementwise) -> dict[int, int]:
    """Return what each bit of a register's number adds, for those that lead along runs."""
    layout, form = low.layout(op.result), low.affine.form(op.result)
    places = [place for name in ("register", "lane", "warp") for place in layout.bases[name]]
    found: dict[int, int] = {}
    for axis, extent in enumerate(layout.shape if form is not None else ()):
        assert form is not None
        stride, run, _ = low.affine.run(form, axis, extent)
        for bit, place in enumerate(layout.bases["register"]):
            step = place[axis]
            # One bit of a coordinate, that is 0 in what a run's first register holds.
            alone = step.bit_count() == 1 and sum(other[axis] & step > 0 for other in places) == 1
            if alone and step < run and stride is not None and sum(map(bool, place)) == 1:
                found[1 << bit] = stride * step
    return found


def _inputs(low: Lowering, op: Elementwise, register: int) -> list[str]:
    return [low.register(value, register) for value in op.inputs]


def float_rule(low: Lowering, op: Elementwise) -> Callable[[int], str]:
    """Return what writes a register of a function of floats."""
    element = element_scalar(op.inputs[0])
    if op.row.compares:
        return lambda r: compare_floats(low.emit, op.function, element, *_inputs(low, op, r))
    rule = float_function(op.function, element, low)
    if op.function == "exp" and element == F32 and _is_at_most_0(op.inputs[0]):
        rule = exp_of_at_most_0(low) or rule
    if rule is None:
        raise TargetError(
            f"{op.name} on {element} values is not available on {low.chip.name}", op.span
        )
    if element == F32 and len(op.inputs) > 1 and shape_of(op.result.type):
        rule = _shared_rule(low, op) or rule
    return lambda r: rule(_inputs(low, op, r))


def _is_at_most_0(value: Value) -> bool:
    """Say whether a difference is known not to be above 0: of numbers and their maximum."""
    while value.op is not None and value.op.converts:
        (value,) = value.op.operands
    op = value.op
    return isinstance(op, Elementwise) and op.function == "sub" and is_at_most(*op.inputs)


def _shared_rule(low: Lowering, op: Elementwise) -> Rule | None:
    """Return the rule for several elements that share the last operand, where there are such.

    Constants are left to ptxas, and 1 divided by something is one instruction.
    """
    rule = low.chip.shared_rule(low.emit, op.function, "float")
    if rule is None:
        return None
    found = {tuple(_inputs(low, op, r)) for r in low.live(op.result)}
    if not all(operand.startswith("%") for inputs in found for operand in inputs):
        return None
    return rule if len(found) >= 2 * len({inputs[-1] for inputs in found}) else None


def _define(low: Lowering, op: Elementwise | Select, register: Callable[[int], str]) -> None:
    """Write floats now, integers, masks and pointers when they are needed."""
    element = element_of(op.result.type)
    if isinstance(element, Scalar) and element.is_float and shape_of(op.result.type):
        live = set(low.live(op.result))
        count = low.layout(op.result).registers()
        low.set_registers(op.result, [register(r) if r in live else None for r in range(count)])
    else:
        low.set_lazy(op.result, register)


def _linear(low: Lowering, op: Elementwise, element: Scalar, r: int) -> tuple[str, int] | str:
    """Add, subtract or multiply pairs: the constants stay apart as long as nothing may wrap."""
    emit, type = low.emit, llvm_type(element)
    if op.near_end and op.function in ("add", "sub", "mul"):
        write = {"add": emit.add, "sub": emit.sub, "mul": emit.mul}[op.function]
        left, right = _inputs(low, op, r)
        return write(type, left, right, "nsw ")
    if not op.no_wrap or op.function in ("neg", "shl"):
        return integer_function(emit, low.chip, op.function, element, _inputs(low, op, r))
    (a, x), (b, y) = (low.pair(v, r) for v in op.inputs)
    constant = x * y if op.function == "mul" else x - y if op.function == "sub" else x + y
    # What is left without a constant fits if that is small: others that do not wrap stay so far
    # from the ends of 32 bits (`near_end`). Else it may wrap, and the constant undoes that.
    flags = "nsw " if element.bits == 64 or split_limit(constant) else ""
    if op.function == "add":
        root = emit.add(type, a, b, flags)
    elif op.function == "sub":
        root = emit.sub(type, a, b, flags)
    elif b == "0":
        root = emit.mul(type, a, str(y), flags)
    elif a == "0":
        root = emit.mul(type, b, str(x), flags)
    else:
        # (a + x)(b + y): products with the constants are shared between registers. Of 32 bits the
        # parts may wrap where the whole does not: a may be as large as x is below 0.
        flags = flags if x == y == 0 or element.bits == 64 else ""
        root = emit.mul(type, a, b, flags)
        root = emit.add(type, root, emit.mul(type, a, str(y), flags), flags)
        root = emit.add(type, root, emit.mul(type, b, str(x), flags), flags)
    if is_integer(root):
        return "0", int(root) + constant
    if not split_limit(constant):
        return emit.add(type, root, str(constant), flags)
    return root, constant


def integer_function(
    emit: Emitter, chip: Hardware, function: str, element: Scalar, inputs: list[str]
) -> str:
    """Return an integer (or i1) function of operands."""
    if narrow.is_narrow(element) and function not in narrow.CLOSED:
        return _narrow_function(emit, chip, function, element, inputs)
    type = llvm_type(element)
    a, b = inputs[0], inputs[-1]
    match function:
        case "add" | "sub" | "mul" if element.kind == "bool":
            return emit.bitwise("and" if function == "mul" else "xor", type, a, b)
        case "add":
            return emit.add(type, a, b)
        case "sub":
            return emit.sub(type, a, b)
        case "neg":
            return emit.sub(type, "0", a)
        case "mul":
            return emit.mul(type, a, b)
        case "and" | "or" | "xor":
            return emit.bitwise(function, type, a, b)
        case "div" | "rem":
            return _divide(emit, function, type, element.kind == "int", a, b, fits=True)
        case _:
            return _signed_function(emit, chip, function, element, a, b)


def _narrow_function(
    emit: Emitter, chip: Hardware, function: str, element: Scalar, inputs: list[str]
) -> str:
    """Return a function of 8- or 16-bit integers, computed in 32 bits (see narrow.py)."""
    wide, words = narrow.wide_element(element), narrow.widened(emit, function, element, inputs)
    above = wide.bits - element.bits
    match function:
        case "mulhi":
            word = emit.shift("lshr", narrow.WIDE, emit.mul(narrow.WIDE, *words), element.bits)
        case "leading_zeros":
            counted = integer_function(emit, chip, function, wide, words)
            word = emit.sub(narrow.WIDE, counted, str(above))
        case "reverse_bits":
            reversed_word = integer_function(emit, chip, function, wide, words)
            word = emit.shift("lshr", narrow.WIDE, reversed_word, above)
        case _:
            word = integer_function(emit, chip, function, wide, words)
    return narrow.narrowed(emit, chip, word, narrow.WIDE, llvm_type(element))


def _signed_function(
    emit: Emitter, chip: Hardware, function: str, element: Scalar, a: str, b: str
) -> str:
    """Return a function that is another one on signed than on unsigned integers."""
    type, signed = llvm_type(element), element.kind == "int"
    match function:
        case "shl" | "shr":
            return _shift(emit, chip, function, element, a, b)
        case "min" | "max" | "minimum" | "maximum":
            name = f"llvm.{'s' if signed else 'u'}{function[:3]}.{type}"
            return emit.call(type, name, f"{type} {a}, {type} {b}", f"{type}, {type}")
        case "abs" if not signed:
            return a
        case "abs":
            return emit.call(type, f"llvm.abs.{type}", f"{type} {a}, i1 false", f"{type}, i1")
        case "popcount":
            return emit.call(type, f"llvm.ctpop.{type}", f"{type} {a}", type)
        case "leading_zeros":
            return emit.call(type, f"llvm.ctlz.{type}", f"{type} {a}, i1 false", f"{type}, i1")
        case "reverse_bits":
            return emit.call(type, f"llvm.bitreverse.{type}", f"{type} {a}", type)
        case "mulhi":
            wide = f"i{element.bits * 2}"
            extend = "sext" if signed else "zext"
            x, y = (emit.pure(f"{extend} {type} {v} to {wide}") for v in (a, b))
            high = emit.pure(f"lshr {wide} {emit.pure(f'mul {wide} {x}, {y}')}, {element.bits}")
            return emit.pure(f"trunc {wide} {high} to {type}")
        case _:
            raise TargetError(f"{function} does not take {element} values")


def _shift(emit: Emitter, chip: Hardware, function: str, element: Scalar, a: str, b: str) -> str:
    """Return a shift by any amount: by the width or more, read as unsigned, only signs are left.

    LLVM says nothing of such amounts (poison): the chip knows what to make of one that is known
    only at run time.
    """
    type, bits, signed = llvm_type(element), element.bits, element.kind == "int"
    if type == "i1":
        return emit.bitwise("and", type, a, emit.bitwise("xor", type, b, "true"))
    if is_integer(b):
        name = "shl" if function == "shl" else "ashr" if signed else "lshr"
        if 0 <= int(b) < bits:
            return emit.shift(name, type, a, int(b))
        return emit.shift(name, type, a, bits - 1) if name == "ashr" else "0"
    return chip.shift(emit, function, element, a, b)


def _divide(
    emit: Emitter, function: str, type: str, signed: bool, a: str, b: str, *, fits: bool
) -> str:
    """Divide integers; `fits` says that they are not the lowest one and -1, whose quotient wraps.

    LLVM says nothing of that quotient, nor of what is divided by 0.
    """
    if is_integer(b) and int(b) > 0 and int(b) & (int(b) - 1) == 0 and not signed:
        shift = int(b).bit_length() - 1
        if function == "div":
            return emit.shift("lshr", type, a, shift)
        return emit.bitwise("and", type, a, str(int(b) - 1))
    if not is_integer(b):
        # A division by zero lets LLVM think that there is none and drop what would look for it.
        zero = emit.pure(f"icmp eq {type} {b}, 0")
        divisor = emit.pure(f"select i1 {zero}, {type} 1, {type} {b}")
        minus = "" if fits else emit.pure(f"icmp eq {type} {b}, -1")
        if minus:  # by 1 nothing is left either
            divisor = emit.pure(f"select i1 {minus}, {type} 1, {type} {divisor}")
        found = emit.pure(f"{'s' if signed else 'u'}{function} {type} {a}, {divisor}")
        if minus and function == "div":
            negated = emit.sub(type, "0", a)
            found = emit.pure(f"select i1 {minus}, {type} {negated}, {type} {found}")
        return emit.pure(
            f"select i1 {zero}, {type} {'0' if function == 'div' else a}, {type} {found}"
        )
    if int(b) == 0:
        return "0" if function == "div" else a
    if int(b) == -1 and signed:
        return emit.sub(type, "0", a) if function == "div" else "0"
    if is_integer(a):
        divide = truncated_quotient if function == "div" else truncated_remainder
        x, y = int(a), int(b)
        if not signed:  # literals are written in the signed range
            x, y = x % (1 << int(type[1:])), y % (1 << int(type[1:]))
        return wrap(divide(x, y), type)
    return emit.pure(f"{'s' if signed else 'u'}{function} {type} {a}, {b}")


def compare_integers(emit: Emitter, function: str, element: Scalar, a: str, b: str) -> str:
    """Return an i1: the comparison of two integers by the signedness of their type."""
    name = _COMPARE[function]
    if name not in ("eq", "ne"):
        name = ("s" if element.kind == "int" else "u") + name
    if is_integer(a) and is_integer(b):
        x, y = int(a), int(b)
        if name.startswith("u"):
            x, y = x % (1 << element.bits), y % (1 << element.bits)
        result = {"lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y, "eq": x == y, "ne": x != y}
        return "true" if result[function] else "false"
    return emit.pure(f"icmp {name} {llvm_type(element)} {a}, {b}")


def compare_floats(emit: Emitter, function: str, element: Scalar, a: str, b: str) -> str:
    """Return an i1: an ordered comparison, unordered (true on NaN) for `ne`."""
    type = llvm_type(element)
    if type == "bfloat":
        a, b = (emit.pure(f"fpext bfloat {v} to float") for v in (a, b))
        type = "float"
    name = f"u{function}" if function == "ne" else f"o{function}"
    return emit.pure(f"fcmp {name} {type} {a}, {b}")
