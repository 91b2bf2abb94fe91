"""Reads a signature given without data: `--sig` text or a dict, constants, assumptions.

    "*f16:16 *f16:16 *f32 i32:16"         one word per run-time parameter, in order
    {"x_ptr": "*fp32:16", "n": "i32"}     by name
    assume=["n % 16 == 0", "stride == 1", "0 <= n < 4096", "x_ptr % 16 == 0"]

A word is a type, in our spelling or Triton's; `:16` says that 16 divides the value (of a pointer:
the address), `=7` fixes it. What is not stated is not assumed.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import lcm
from typing import Any

from workbench.source import (
    ArgumentError,
    KernelSource,
    OptionError,
    Parameter,
    literal,
    parsed_expression,
)
from workbench.source.arguments import Argument, constant
from workbench.source.elements import parse_type
from workbench.source.given import by_name, several

Words = str | Sequence[str] | Mapping[str, str] | None


def read_signature(
    source: KernelSource,
    signature: Words,
    constexprs: Mapping[str, Any] | None = None,
    assume: Sequence[str] = (),
) -> tuple[tuple[str, Argument], ...]:
    """Return what is known about each parameter, in order.

    Raises:
        OptionError: a word or assumption that cannot be read (K113), an unknown name (K112).
        ArgumentError: a parameter without type or value (K220).
    """
    constants = by_name(
        constexprs if constexprs is not None else {},
        "constexprs are given by name", '{"BLOCK": 1024}',
    )  # fmt: skip
    assume = several(assume, "assume is a list of texts", 'e.g. ["n % 16 == 0"]', str)
    words = _by_name(source, signature, constants)
    _check_names(source, constants)
    arguments = {p.name: _parameter(source, p, words, constants) for p in source.parameters}
    for fact in assume:
        apply_assumption(fact, arguments)
    return tuple(arguments.items())


def _parameter(
    source: KernelSource,
    parameter: Parameter,
    words: Mapping[str, Argument],
    constants: dict[str, Any],
) -> Argument:
    name = parameter.name
    if name in constants:
        return constant(constants[name])
    if name in words:
        return words[name]
    if not parameter.required:
        return constant(parameter.default)
    kind = "constexpr" if parameter.is_constexpr else "type"
    example = f"constexprs={{'{name}': ...}}" if parameter.is_constexpr else f"{{'{name}': 'i32'}}"
    where = "constexprs" if parameter.is_constexpr else "the signature"
    raise ArgumentError(
        f"{source.name}: no {kind} given for '{name}'",
        parameter_span(source, name),
        hint=f"add it to {where}: {example}",
    )


def _by_name(
    source: KernelSource, signature: Words, constants: Mapping[str, Any]
) -> dict[str, Argument]:
    if signature is None:
        return {}
    if isinstance(signature, Mapping):
        names = {p.name for p in source.parameters}
        for name in signature:
            if name not in names:
                known = ", ".join(p.name for p in source.parameters)
                raise OptionError(
                    f"signature names '{name}', {source.name} takes {known}", code="K113"
                )
        found: dict[str, Argument] = {}
        for name, word in signature.items():
            if word != "constexpr":
                found[name] = _read_member(word, f"signature of {name}")
        return found
    if isinstance(signature, str):
        given = [(m[0], m.start() + 1) for m in re.finditer(r"[^\s,]+", signature)]
    else:
        what = "a signature is a text, a list of words, or a dict of them by name"
        given = [(word, 0) for word in several(signature, what, 'e.g. "*f32 i32"', str)]
    names = [p.name for p in source.parameters if not p.is_constexpr and p.name not in constants]
    if len(given) > len(names):
        raise OptionError(
            f"--sig gives {len(given)} types, {source.name} takes {len(names)}: {', '.join(names)}",
            hint="constexprs are given with --set, not in the signature",
            code="K113",
        )
    pairs = zip(names, given, strict=False)
    return {name: read_word(word, "--sig", column) for name, (word, column) in pairs}


def _read_member(word: Any, where: str) -> Argument:
    """Read a word, or a tuple of words for a tuple; `=value` alone is a constant."""
    if isinstance(word, tuple | list):
        return Argument(items=tuple(_read_member(item, where) for item in word))
    text = str(word)
    if text.startswith("="):
        return constant(_literal(text[1:], where, text))
    return read_word(text, where)


def read_word(word: str, where: str = "--sig", column: int = 0) -> Argument:
    """Return what one word of a signature says; raises OptionError K113."""
    match = re.fullmatch(r"(\**\w*)((?::\d+)?)((?:=.*)?)", word)
    type_word, divisible, value = match.groups() if match else (word, "", "")
    name = parse_type(type_word)
    if name is None:
        place = f" at column {column}" if column else ""
        known = f"an integer that is always {word} is i32={word}; " if word.isdigit() else ""
        raise OptionError(
            f"{where}: unknown type {type_word!r}{place}",
            hint=f"{known}types are i1 i8 i16 i32 i64 u8 … u64 f16 bf16 f32 f64 f8e4m3 f8e5m2, "
            "with * before them for pointers",
            code="K113",
        )
    if value:
        return constant(_fixed(name, value[1:], where, word))
    factor = int(divisible[1:]) if divisible else 1
    if factor < 1 or (factor > 1 and name.lstrip("*")[0] in "fb" and not name.startswith("*")):
        raise OptionError(
            f"{where}: {word!r} states divisibility, which only integers and pointers have",
            code="K113",
        )
    return Argument(name, divisible=factor)


def _literal(text: str, where: str, word: str) -> Any:
    try:
        return literal(text)
    except ValueError as error:
        raise OptionError(f"{where}: {word!r} has no value after '='", code="K113") from error


def _fixed(name: str, text: str, where: str, word: str) -> Any:
    value = _literal(text, where, word)
    wanted = (int, float) if name.startswith(("f", "bf")) else (int, bool)
    if not isinstance(value, wanted) and value is not None:
        raise OptionError(f"{where}: {text} is no value of type {name}", code="K113")
    return value


def _check_names(source: KernelSource, constants: Mapping[str, Any]) -> None:
    from workbench.launch.options import unknown_option

    names = {p.name for p in source.parameters}
    for name in constants:
        if name not in names:
            raise unknown_option(name, source)


def parameter_span(source: KernelSource, name: str) -> Any:
    """Return the place of a parameter in the kernel's `def`, None if the text has none."""
    from workbench.source import Span

    try:
        arguments = source.tree.args
    except (SyntaxError, IndexError):
        return None
    for node in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        if node.arg == name:
            line, column = source.first_line - 1, source.indent + 1
            end = (node.end_lineno or node.lineno) + line
            end_column = (node.end_col_offset or 0) + column
            return Span(source.file, node.lineno + line, node.col_offset + column, end, end_column)
    return None


# -- assumptions ------------------------------------------------------------------------------
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_MIRRORED = {"==": "==", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}  # fmt: skip


def apply_assumption(text: str, arguments: dict[str, Argument]) -> None:
    """Enter one stated fact, a Python expression over parameter names, into `arguments`.

    Understood are `name % number == 0`, `name == number`, comparisons of a name with numbers
    (also chained), joined by `and`; numbers may be written with constant parameters. Anything
    else is refused, since an assumption without effect would look like one.
    """
    try:
        tree = parsed_expression(text.strip())
    except SyntaxError as error:
        raise OptionError(f"--assume: {text!r} is not an expression", code="K113") from error
    parts = tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]
    for part in parts:
        if not isinstance(part, ast.Compare):
            raise _not_understood(text)
        for left, relation, right in _links(part, text):
            _apply(text, left, relation, right, arguments)


def _links(node: ast.Compare, text: str) -> Iterator[tuple[ast.expr, str, ast.expr]]:
    sides = [node.left, *node.comparators]
    for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
        relation = _COMPARE.get(type(op))
        if relation is None:
            raise _not_understood(text)
        yield left, relation, right


def _apply(
    text: str, left: ast.expr, relation: str, right: ast.expr, arguments: dict[str, Argument]
) -> None:
    number = _number(right, arguments)
    if number is None:
        left, right, relation = right, left, _MIRRORED[relation]
        number = _number(right, arguments)
    if number is None:
        raise _not_understood(text)
    fixed = _number(left, arguments)
    if fixed is not None:
        _check_constant(text, fixed, relation, number)
        return
    match left:
        case ast.BinOp(left=ast.Name(id=name), op=ast.Mod(), right=divisor) if relation == "==":
            factor = _number(divisor, arguments)
            if number != 0 or factor is None or factor < 1:
                raise _not_understood(text)
            known = _named(text, name, arguments)
            arguments[name] = replace(known, divisible=lcm(known.divisible, factor))
        case ast.Name(id=name):
            arguments[name] = _bounded(text, _named(text, name, arguments), relation, number)
        case _:
            raise _not_understood(text)


def _bounded(text: str, known: Argument, relation: str, number: int) -> Argument:
    if known.is_pointer:
        raise _not_understood(text)
    if relation == "==":
        return constant(number)
    low, high = known.low, known.high
    if relation in (">", ">="):
        bound = number + (relation == ">")
        low = bound if low is None else max(low, bound)
    else:
        bound = number - (relation == "<")
        high = bound if high is None else min(high, bound)
    if low is not None and high is not None and low > high:
        raise OptionError(f"--assume: {text!r} leaves no value", code="K113")
    return replace(known, low=low, high=high)


def _check_constant(text: str, value: int, relation: str, number: int) -> None:
    compare = {"==": operator.eq, "<": operator.lt, "<=": operator.le}
    compare |= {">": operator.gt, ">=": operator.ge}
    if not compare[relation](value, number):
        raise OptionError(f"--assume: {text!r} is false for the given constants", code="K113")


def _named(text: str, name: str, arguments: Mapping[str, Argument]) -> Argument:
    known = arguments.get(name)
    if known is None:
        raise OptionError(
            f"--assume: {text!r} names '{name}', which is no parameter; parameters are "
            f"{', '.join(arguments)}",
            code="K113",
        )
    if known.type is None or known.type.startswith(("f", "bf")):
        raise OptionError(f"--assume: {text!r}: {name} is not an integer or pointer", code="K113")
    return known


def _number(node: ast.expr, arguments: Mapping[str, Argument]) -> int | None:
    """Return the value of an expression of numbers and constant parameters, None otherwise."""
    match node:
        case ast.Constant(value=int() as value):
            return value
        case ast.Name(id=name):
            known = arguments.get(name)
            found = known.value if known is not None and known.is_constant else None
            return found if isinstance(found, int) else None
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            value = _number(inner, arguments)
            return None if value is None else -value
        case ast.BinOp(left=a, op=op, right=b) if type(op) in _ARITHMETIC:
            x, y = _number(a, arguments), _number(b, arguments)
            if x is None or y is None or (isinstance(op, ast.Mod | ast.FloorDiv) and y == 0):
                return None
            return _ARITHMETIC[type(op)](x, y)
        case _:
            return None


def _not_understood(text: str) -> OptionError:
    return OptionError(
        f"--assume: {text!r} is not a fact that the compiler can use",
        hint='state divisibility, equality or bounds of one parameter, e.g. "n % 16 == 0"',
        code="K113",
    )
