"""Looks at a cell: what is wrong with it, and what its expressions hold."""

from __future__ import annotations

import ast
import inspect
import re
import time
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.frontend.activation import POISON, Activation, ErrorLimitError
from workbench.frontend.lowering import lower_kernel
from workbench.frontend.observing import check_unlowered
from workbench.frontend.specialization import Options, Specialization
from workbench.language.constexprs import is_tuple
from workbench.language.dtypes import dtype
from workbench.language.values import describe_type, is_number, tensor
from workbench.magics.body import check_imports
from workbench.magics.cells import default_names
from workbench.magics.while_typing.arguments import arguments_for
from workbench.magics.while_typing.functions import (
    Written,
    bind_functions,
    entry_of,
    others_of,
)
from workbench.magics.while_typing.known import names_of
from workbench.magics.while_typing.line import check_line, read_line
from workbench.magics.while_typing.written import UNKNOWN, Cell, read_body, read_cell
from workbench.passes.manager import Remarks
from workbench.source import KernelError, KernelSource, Span, deep, shown
from workbench.source.arguments import constant

FILE = "the cell"  # no file of that name exists: what is written is registered nowhere
SECONDS = 0.3  # of this thread's own work: a busy machine is told no less
_MOST_SEEN = 4000
_MOST_LETTERS = 700


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong, with its place in the cell: lines and columns from 1, the end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int
    severity: str
    code: str
    text: str
    help: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What an expression holds, or a name that is assigned, in words; its place as a Problem's.

    `name` is the variable's; `kind` says what it is: tensor, constant, function or other.
    """

    line: int
    column: int
    end_line: int
    end_column: int
    text: str
    name: str = ""
    kind: str = "other"


@dataclass(slots=True)
class Look:
    """What a look at a cell found; `partial` if it took too long and was ended."""

    problems: list[Problem] = field(default_factory=list[Problem])
    seen: list[Seen] = field(default_factory=list[Seen])
    partial: bool = False


@deep
def look(text: str, namespace: Mapping[str, Any], seconds: float = SECONDS) -> Look | None:
    """Return what is known of a cell, running nothing of it; None if it is no `%%kernel` cell."""
    cell = read_cell(text)
    if cell is None:
        return None
    found = Look()
    watcher = _Watcher(time.thread_time() + seconds)
    errors = [(error, error.code != "K104") for error in _look(cell, namespace, watcher)]
    errors += watcher.doubts
    found.problems = _problems(errors)
    found.seen = watcher.told()
    found.partial = watcher.partial
    return found


def _look(cell: Cell, namespace: Mapping[str, Any], watcher: _Watcher) -> Iterator[KernelError]:
    names = {**default_names(), **namespace, UNKNOWN: POISON}
    tree, text, broken = read_body(cell, FILE)
    request, wrong = read_line(cell, FILE)
    yield from wrong
    yield from broken
    if tree is None:
        return
    try:
        check_imports(tree, FILE)
    except KernelError as error:
        yield from (error, *error.others)
    names = names_of(tree, names)
    bind_functions(tree, text, FILE, names)
    entry = entry_of(tree, request.name)
    yield from check_line(request, tree, entry, names)
    written = names[entry.name] if entry is not None else None
    if entry is not None and isinstance(written, Written):
        source = written.kernel_source
        arguments, options = arguments_for(source, request, entry, tree, names)
        target = "" if request.target == "auto" else request.target
        spec = Specialization(arguments, Options.of({**options, "target": target}))
        yield from _lowered(source, spec, watcher)
    for node in others_of(tree, entry):
        if node.name not in watcher.functions:
            yield from watcher.read_alone(names[node.name].kernel_source)


def _lowered(source: KernelSource, spec: Specialization, watcher: _Watcher) -> list[KernelError]:
    """Return the errors of a kernel; what our own code cannot do with half a kernel is none."""
    try:
        lower_kernel(source, spec, Remarks(), watcher)
    except KernelError as error:
        return [error, *error.others]
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
        return []
    return []


class _Watcher:
    """Notes what a kernel's expressions hold while it is lowered, until the time is over."""

    def __init__(self, end: float) -> None:
        self.end = end
        self.partial = False
        self.doubts: list[tuple[KernelError, bool]] = []
        #: The cell's functions that were lowered.
        self.functions: set[str] = set()
        self._held: dict[tuple[int, int, int, int], tuple[str, Any]] = {}

    def spend(self) -> None:
        if time.thread_time() >= self.end:
            self.partial = True
            raise ErrorLimitError

    def saw(self, act: Activation, node: ast.AST, value: Any) -> None:
        if act.source.file != FILE:
            return
        self.functions.add(act.source.name)
        if isinstance(node, ast.Constant | ast.Tuple | ast.List) or len(self._held) >= _MOST_SEEN:
            return
        place = act.span(node)
        key = place.line, place.column, place.end_line, place.end_column
        # The first time counts: unrolled loops and functions called twice have others later.
        name = node.id if isinstance(node, ast.Name) else getattr(node, "arg", "")
        if key not in self._held:
            self._held[key] = name, _noted(act, name, value)

    def skipped(self, act: Activation, node: ast.stmt) -> None:
        if act.source.file == FILE:
            self.doubts += check_unlowered(act, node)

    def read_alone(self, source: KernelSource) -> list[KernelError]:
        """Return what is wrong with a function that nothing calls, whatever its arguments are."""
        unknown = tuple((p.name, _UNKNOWN_ARGUMENT) for p in source.parameters)
        errors = _lowered(source, Specialization(unknown), self)
        return [error for error in errors if error.code in ("K203", "K215", "K220")]

    def told(self) -> list[Seen]:
        """Return what was noted, in words."""
        found = [Seen(*place, *_words(*held)) for place, held in self._held.items()]
        return [seen for seen in found if seen.text]


_UNKNOWN_ARGUMENT = constant(POISON)


_HOW_TO_KNOW = "type unknown until the cell has run; --args or --sig, and --set, tell it now"


@dataclass(frozen=True, slots=True)
class _Constexpr:
    value: Any


def _noted(act: Activation, name: str, value: Any) -> Any:
    return _Constexpr(value) if name in act.constexprs else value


def _words(name: str, value: Any) -> tuple[str, str, str]:
    """Return (text, name, kind) of what something holds."""
    start = f"{name}: " if name else ""
    if value is POISON or (isinstance(value, _Constexpr) and value.value is POISON):
        return f"{name}: {_HOW_TO_KNOW}", name, "other"
    match value:
        case _Constexpr(value=inner):
            return f"{name} = {_constant(inner)}  (constexpr)", name, "constant"
        case tensor(constant=number) if number is not None and not value.shape:
            return f"{start}{value.dtype} = {shown(number)}", name, "tensor"
        case tensor():
            return f"{start}{describe_type(value)}", name, "tensor"
    if is_number(value) or isinstance(value, str | dtype) or value is None:
        return f"{name} = {_constant(value)}" if name else _constant(value), name, "constant"
    if isinstance(value, types.ModuleType):
        return "", name, "other"
    row = getattr(getattr(value, "__func__", value), "__signature_row__", None)
    if row is not None:
        return described(value), name, "function"
    if hasattr(value, "kernel_source"):
        parameters = ", ".join(p.name for p in value.kernel_source.parameters)
        return f"{value.kernel_source.name}({parameters})", name, "function"
    if is_tuple(value):
        return f"{start}({', '.join(describe_type(item) for item in value)})", name, "other"
    return "", name, "other"


def _constant(value: Any) -> str:
    return value.spelling if isinstance(value, dtype) else shown(value)


def described(function: Any) -> str:
    """Return the signature of a tl function and what it does."""
    try:
        inner = inspect.unwrap(function)
        plain = inspect.signature(inner)
        parameters = [p.replace(annotation=p.empty) for p in plain.parameters.values()]
        head = str(plain.replace(parameters=parameters, return_annotation=plain.empty))
    except (TypeError, ValueError):
        head = "(...)"
    # Paragraphs are broken by who shows them; what is indented keeps its lines.
    about = re.sub(r"(?<=\S)\n(?=\S)", " ", inspect.cleandoc(function.__doc__ or ""))
    return f"{function.__name__}{head}\n{about}"[:_MOST_LETTERS].rstrip()


# -- problems ---------------------------------------------------------------------------------
def _problems(errors: list[tuple[KernelError, bool]]) -> list[Problem]:
    """Return errors as problems of the cell, each place and text once."""
    found: dict[tuple[Any, ...], Problem] = {}
    for error, counts in errors:
        place = _here(error.span)
        if place is None:
            continue
        text = "\n".join([error.message, *(note.text for note in error.notes[:2])])
        key = place.line, place.column, error.message
        severity = "error" if counts else "warning"
        made = Problem(
            place.line, place.column, place.end_line, place.end_column,
            severity, error.code, text[:_MOST_LETTERS], (error.hint or "")[:_MOST_LETTERS],
        )  # fmt: skip
        found.setdefault(key, made)
    return sorted(found.values(), key=lambda problem: (problem.line, problem.column))


def _here(span: Span | None) -> Span | None:
    """Return the place in the cell from which an error's place was reached."""
    if span is None:
        return None
    return next((place for place in (span, *reversed(span.calls)) if place.file == FILE), None)
