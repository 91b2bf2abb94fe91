"""Work that nests deeply has room for it, on a thread that behaves like the caller's own."""

from __future__ import annotations

import ast
import sys
from contextvars import ContextVar

import pytest

from workbench.source import deep, parsed
from workbench.source.syntax import compiled

LEVELS = 20_000
_word: ContextVar[str] = ContextVar("word", default="nobody's")


@deep
def down(levels: int) -> int:
    return 0 if not levels else 1 + down(levels - 1)


@deep
def word() -> str:
    return _word.get()


@deep
def fail() -> None:
    raise LookupError("as it was")


def test_calls_nest_deeper_than_the_caller_could():
    limit = sys.getrecursionlimit()
    assert down(LEVELS) == LEVELS
    assert sys.getrecursionlimit() == limit


def test_it_sees_the_callers_context():
    token = _word.set("the caller's")
    try:
        assert word() == "the caller's"
    finally:
        _word.reset(token)


def test_it_raises_what_the_work_raises():
    with pytest.raises(LookupError, match="as it was"):
        fail()


def test_what_never_ends_still_ends_in_an_error():
    with pytest.raises(RecursionError):
        down(10**9)


@pytest.mark.parametrize(
    "text", ["x = " + "+".join(["x"] * LEVELS), "x = x" + ".a" * LEVELS, "x = " + "-" * 1000 + "x"]
)
def test_python_parses_and_compiles_long_chains(text: str):
    tree = parsed(text)
    assert isinstance(tree, ast.Module)
    assert compiled(tree, "long")


@pytest.mark.parametrize(
    "text", ["x = \0", "x = '\ud800'", "x = " + "(" * 300, "x = 1" + "**1" * 5000, "\t x\n x = ("]
)
def test_what_python_cannot_parse_is_a_syntax_error(text: str):
    with pytest.raises(SyntaxError):
        parsed(text)
