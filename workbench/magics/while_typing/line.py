"""The option line of a cell that is written: read without evaluating, and what is wrong with it."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from workbench.frontend.activation import POISON, suggestion
from workbench.launch.options import DEFAULTS, SHORT_FORMS, WITHOUT_EFFECT, unknown_option
from workbench.launch.signature import read_word
from workbench.magics.body import bound_names
from workbench.magics.cells import MAGIC
from workbench.magics.grammar import Origin, read, split_words
from workbench.magics.options import Request
from workbench.magics.values import Expression, Token, part_span
from workbench.magics.while_typing.arguments import argument_texts, signed_parameters
from workbench.magics.while_typing.functions import Written, kernels_of
from workbench.magics.while_typing.written import Cell
from workbench.source import KernelError, KernelSource, OptionError, parsed_expression


def read_line(cell: Cell, file: str) -> tuple[Request, list[KernelError]]:
    """Return the option line as parsed, and what is wrong with it; `{expr}` is not evaluated.

    Of a line that is wrong, what stands before the wrong word counts.
    """
    try:
        tokens = split_words(cell.options, Origin(file, cell.line, len(MAGIC) + 1))
    except OptionError as error:
        return Request(), [error]
    errors: list[KernelError] = []
    while tokens:
        braced = [token for token in tokens if _braces(token)]
        try:
            return read("kernel", [_opaque(token) for token in tokens]), errors
        except (OptionError, TypeError, ValueError) as error:
            place = getattr(error, "span", None)
            if isinstance(error, OptionError) and all(place != token.span for token in braced):
                errors = errors or [error]
            tokens.pop()
    return Request(), errors


def _braces(token: Token) -> bool:
    return "{" in token.text


def _opaque(token: Token) -> Token:
    """Let a word that is evaluated at the run stand for a value that is not known."""
    text = token.text
    whole = text.startswith("{") and text.endswith("}") and not text.startswith("{{")
    return replace(token, value=POISON) if whole else token


def check_line(
    request: Request, tree: ast.Module, entry: ast.FunctionDef | None, names: Mapping[str, Any]
) -> Iterator[KernelError]:
    """Yield what is wrong with an option line beside the cell's body.

    A name that is not defined may be by then: K104 is no more than a warning.
    """
    kernels = kernels_of(tree)
    if request.name is not None and request.name not in kernels:
        known = ", ".join(kernels) or "none"
        yield OptionError(
            f"the cell defines no kernel '{request.name}'; it defines: {known}",
            request.place("names"), code="K131",
        )  # fmt: skip
    written = names[entry.name] if entry is not None else None
    if not isinstance(written, Written):
        return
    source = written.kernel_source
    parameters = {p.name: p for p in source.parameters}
    said = [(f"settings.{name}", name) for name, _ in request.settings]
    said += [(f"tune.{axis.name}", axis.name) for axis in request.tune]
    for place, name in said:
        if not {name} & {*parameters, *DEFAULTS, *SHORT_FORMS, *WITHOUT_EFFECT}:
            wrong = unknown_option(name, source)
            yield OptionError(wrong.message, request.place(place), hint=wrong.hint, code="K112")
    if request.args is not None and not request.args.is_object:
        given = len(argument_texts(request.args))
        runtime = [p for p in source.parameters if not p.is_constexpr]
        if not sum(p.required for p in runtime) <= given <= len(runtime):
            yield OptionError(
                f"--args gives {given} values, {source.name} takes {len(runtime)}: "
                f"{', '.join(p.name for p in runtime)}",
                request.place("args"), hint="constexpr parameters go to --set", code="K110",
            )  # fmt: skip
    yield from _check_signature(request, source)
    known = {*names, *vars(builtins), *parameters, *(axis.name for axis in request.axes)}
    known |= {*bound_names(tree), *(word for word in DEFAULTS)}
    if request.args is not None:  # plain names given as arguments may stand in --check
        known |= {"meta"}
    for expression in _expressions(request):
        yield from _check_expression(expression, known)


def _check_signature(request: Request, source: KernelSource) -> Iterator[KernelError]:
    """Yield the words of `--sig` that are no types, and those that no parameter is left for."""
    if request.sig is None or "{" in request.sig:
        return
    runtime = signed_parameters(source, [name for name, _ in request.settings])
    for number, match in enumerate(re.finditer(r"[^\s,]+", request.sig)):
        place = part_span(request.place("sig"), request.sig, match.start(), match.end())
        try:
            read_word(match[0])
        except KernelError as error:
            yield OptionError(error.message, place, hint=error.hint, code="K113")
        if number == len(runtime):
            names = ", ".join(p.name for p in runtime)
            yield OptionError(
                f"--sig gives more than {len(runtime)} types, {source.name} takes {names}", place,
                hint="constexprs are given with --set, not in the signature", code="K113",
            )  # fmt: skip


def _expressions(request: Request) -> Iterator[Expression]:
    for field in fields(request):
        value = getattr(request, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            match item:
                case Expression():
                    yield item
                case (str(), Expression() as inner):
                    yield inner
                case _ if hasattr(item, "expression") and not item.known:
                    yield item.expression
                case _:
                    pass


def _check_expression(expression: Expression, known: set[str]) -> Iterator[KernelError]:
    """Yield what is wrong with a Python expression: that it is none, and names that nobody has."""
    if expression.is_object or "{" in expression.text:
        return
    texts = argument_texts(expression) if expression.option == "--args" else [expression.text]
    start = 0
    for text in texts:
        start = max(start, expression.text.find(text, start))
        place = part_span(expression.span, expression.text, start, start + len(text))
        start += len(text)
        try:
            tree = parsed_expression(text.strip())
        except SyntaxError:
            yield OptionError(
                f"{expression.option}: {text!r} is no Python expression", place, code="K104"
            )
            continue
        bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and _stored(n)}
        bound |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and not _stored(node) and node.id not in known | bound:
                near = [name for name in known - {*vars(builtins)} if not name.startswith("_")]
                hint = suggestion(node.id, near)
                yield OptionError(
                    f"{expression.option}: name '{node.id}' is not defined", place, hint=hint,
                    code="K104",
                )  # fmt: skip


def _stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)
