"""A kernel function as data: what the front end needs to know of a Python function."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from workbench.interrupts import unforked
from workbench.source.budgets import shown
from workbench.source.errors import CompileError, UnsupportedSyntaxError
from workbench.source.parameters import Parameter, parameters_of
from workbench.source.spans import Source, Span, source_rows
from workbench.source.syntax import parsed
from workbench.source.undisturbed import found_lines, found_source


@dataclass(eq=False)
class KernelSource:
    """A device function: its text, its place, and the names it captured.

    `text` starts at the `def` line (decorators stripped, dedented by `indent` columns), so a node
    of its tree at line 1, column 0 stands at `first_line`, column `indent` + 1 of `file`.
    """

    name: str
    text: str
    file: str
    first_line: int
    indent: int
    function: Callable[..., Any]
    names: Mapping[str, Any] = field(repr=False)
    #: Whether `text` is not the one that `function` was made of.
    edited: bool = False

    @cached_property
    def tree(self) -> ast.FunctionDef:
        """The function's AST; raises CompileError if the text does not parse."""
        with unforked:  # Python 3.11 loses count where threads do this at once
            node = parsed(self.text).body[0]
        if not isinstance(node, ast.FunctionDef):
            raise CompileError(
                f"'{self.name}' is not a plain function definition",
                hint="write it with def, neither async nor as a lambda",
                code="K215",
            )
        return node

    @property
    def source(self) -> Source:
        """The text with its place in the file."""
        return Source(self.file, self.text, self.first_line)

    def lookup(self, name: str) -> Any:
        """Return what `name` means outside the function; raises KeyError if nothing."""
        closure: Mapping[str, Any] = {}
        if self.function.__closure__:
            closure = inspect.getclosurevars(self.function).nonlocals
        scopes: tuple[Mapping[str, Any], ...] = (closure, self.names, vars(builtins))
        for scope in scopes:
            if name in scope:
                return scope[name]
        raise KeyError(name)

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Parameters in order, as the text alone declares them."""
        return parameters_of(inspect.signature(self.function))

    def refuse_variadic(self) -> None:
        """Raise UnsupportedSyntaxError where the kernel takes as many arguments as it is given."""
        spec = self.tree.args
        for stars, node in (("*", spec.vararg), ("**", spec.kwarg)):
            if node is not None:
                row, column = self.first_line + node.lineno - 1, self.indent + node.col_offset + 1
                end = self.indent + (node.end_col_offset or 0) + 1
                raise UnsupportedSyntaxError(
                    f"kernel '{self.name}' has * or ** parameters: {stars}{node.arg}",
                    Span(self.file, row, column, row, end),
                    hint="name each parameter; a tuple is one argument",
                )


def kernel_source(
    function: Callable[..., Any], read: tuple[list[str], int] | None = None
) -> KernelSource:
    """Read a function's text once; raises CompileError (K216) where there is none to read.

    Args:
        function: the function.
        read: its lines and where they begin, if somebody has read them already.
    """
    if not hasattr(function, "__code__"):  # another decorator's object, around a kernel perhaps
        raise _unreadable(function)
    try:
        lines, first_line = read or source_lines(function)
    except (OSError, TypeError) as error:
        raise _unreadable(function) from error
    except SyntaxError as error:  # a lambda in the middle of something, say
        raise _unreadable(function) from error
    text = "".join(lines)
    indent = len(lines[0]) - len(lines[0].lstrip())
    dedented = textwrap.dedent(text)
    try:
        skipped = _decorator_lines(dedented)
    except (SyntaxError, IndexError) as error:
        raise _unreadable(function) from error
    kept = source_rows(dedented, ends=True)[skipped:]
    return KernelSource(
        name=function.__name__,
        text="".join(kept),
        file=function.__code__.co_filename,
        first_line=first_line + skipped,
        indent=indent,
        function=function,
        names=function.__globals__,
    )


def _unreadable(function: Any) -> CompileError:
    return CompileError(
        f"the source of {getattr(function, '__name__', None) or shown(function)} cannot be read "
        "as that of a function",
        hint="define the kernel with def in a file or a cell, or register its text in linecache",
        code="K216",
    )


def source_lines(function: Callable[..., Any]) -> tuple[list[str], int]:
    """Return a function's lines, decorators included, and the number of the first.

    As `inspect.getsourcelines` does, whose tokenizer costs more than compiled code takes to load;
    it is asked only where the indentation does not say where the function ends.

    Raises:
        OSError, TypeError: there is no text.
    """
    inner = inspect.unwrap(function)
    lines, start = found_source(inner)
    block = _block_by_indentation(lines[start:])
    return (block, start + 1) if block is not None else found_lines(inner)


def _block_by_indentation(lines: Sequence[str]) -> list[str] | None:
    """Return the lines of the `def` at their start; None unless they parse as just that."""
    margin = len(lines[0]) - len(lines[0].lstrip())
    inside, end = False, 0
    for number, line in enumerate(lines):
        code = line.strip()
        if not code or code.startswith("#"):
            continue
        if inside and len(line) - len(line.lstrip()) <= margin and code[0] not in ")]}":
            break
        inside = inside or code.startswith(("def ", "async def "))
        end = number + 1
    block = list(lines[:end])
    try:
        body = parsed(textwrap.dedent("".join(block))).body
    except SyntaxError:
        return None
    alone = len(body) == 1 and isinstance(body[0], ast.FunctionDef)
    return block if alone else None


def _decorator_lines(text: str) -> int:
    """Return how many lines stand before the `def`."""
    if text.startswith("def "):
        return 0
    node = parsed(text).body[0]
    return node.lineno - 1


def register_text(file: str, text: str) -> None:
    """Make `text` known to linecache as `file`, so tracebacks and errors show it."""
    linecache.cache[file] = (len(text), None, source_rows(text, ends=True), file)
