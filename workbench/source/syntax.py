"""Python's own parser and code generator, whatever they are given."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import CodeType
from typing import Any, Literal

from workbench.source.depth import deep

_TOO_MUCH = "this nests deeper than Python's own parser goes"


def parsed(text: str, file: str = "<unknown>") -> ast.Module:
    """Return the syntax tree of a text, however long its chains of operators are.

    Raises SyntaxError for whatever Python cannot parse: null bytes, halves of surrogate pairs and
    what its parser gives up on included.
    """
    return _with_room(ast.parse, text, file)


def compiled(tree: ast.Module | str, file: str, mode: Literal["exec", "eval"] = "exec") -> CodeType:
    """Return the code of a syntax tree or a text; raises SyntaxError as `parsed` does."""
    return _with_room(compile, tree, file, mode)


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
