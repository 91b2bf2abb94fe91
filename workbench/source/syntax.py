"""Python's own parser and code generator, whatever they are given and whoever else uses them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import CodeType
from typing import Any, Literal

from workbench.source.depth import deep

_TOO_MUCH = "this nests deeper than Python's own parser goes"
#: What Python 3.11 says of one of two trees that threads make at a time: they count the depth of
#: both in one place (python/cpython#106905). Nothing is wrong with the text.
_DISTURBED = "recursion depth mismatch"
#: Trees made in vain before that is believed.
_TRIES = 100


def parsed(text: str, file: str = "<unknown>") -> ast.Module:
    """Return the syntax tree of a text, however long its chains of operators are.

    Raises SyntaxError for whatever Python cannot parse: null bytes, halves of surrogate pairs and
    what its parser gives up on included.
    """
    return _with_room(_tree, text, file, "exec")


def parsed_expression(text: str) -> ast.expr:
    """Return the syntax tree of an expression; raises SyntaxError as `parsed` does."""
    return _with_room(_tree, text, "<unknown>", "eval").body


def literal(text: str) -> Any:
    """Return the value of a literal of Python; raises ValueError where it is none."""
    try:
        return ast.literal_eval(parsed_expression(text.lstrip(" \t")))
    except (SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(str(error)) from error


def compiled(tree: ast.Module | str, file: str, mode: Literal["exec", "eval"] = "exec") -> CodeType:
    """Return the code of a syntax tree or a text; raises SyntaxError as `parsed` does."""
    return _with_room(compile, tree, file, mode)


def _tree(text: str, file: str, mode: str) -> Any:
    for _ in range(_TRIES):
        try:
            return ast.parse(text, file, mode)
        except SystemError as error:
            if _DISTURBED not in str(error):
                raise
    return ast.parse(text, file, mode)


def _with_room(work: Callable[..., Any], *args: Any) -> Any:
    try:
        try:
            return work(*args)
        except RecursionError:
            return deep(work)(*args)
    except (RecursionError, MemoryError) as error:
        raise SyntaxError(_TOO_MUCH) from error
    except ValueError as error:  # null bytes, halves of surrogate pairs
        raise SyntaxError(str(error)) from error
