"""Texts are parsed whatever they hold and whoever else parses; see test_depth.py for deep ones."""

from __future__ import annotations

import ast
import gc
import threading
import time

import pytest

from workbench.source import literal, parsed, parsed_expression

TEXT = "x = " + " + ".join(["(a * b)"] * 50)


def test_threads_parse_at_a_time():
    """Python 3.11 counts the depth of trees of all threads in one place, and may then complain."""
    raised: list[BaseException] = []

    def parse() -> None:
        try:
            for _ in range(100):
                assert isinstance(parsed(TEXT).body[0], ast.Assign)
                assert isinstance(parsed_expression(TEXT[4:]), ast.BinOp)
        except BaseException as error:
            raised.append(error)

    def give_way(phase: str, info: dict[str, int]) -> None:
        time.sleep(0)

    usual = gc.get_threshold()
    gc.callbacks.append(give_way)
    gc.set_threshold(20)
    try:
        threads = [threading.Thread(target=parse) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.set_threshold(*usual)
        gc.callbacks.remove(give_way)
    assert raised == []


def test_a_disturbed_tree_is_made_again(monkeypatch):
    told = "AST constructor recursion depth mismatch (before=39, after=55)"
    raised = [SystemError(told), SystemError(told)]
    parse = ast.parse

    def disturbed(*args: object) -> object:
        if raised:
            raise raised.pop()
        return parse(*args)  # type: ignore[call-overload]

    monkeypatch.setattr(ast, "parse", disturbed)
    assert ast.unparse(parsed_expression("a+1")) == "a + 1"
    assert raised == []
    raised.append(SystemError("bad argument to internal function"))
    with pytest.raises(SystemError, match="bad argument"):
        parsed("a")


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), (" (1, 'a')", (1, "a")), ("-2.5", -2.5), ("None", None), ("{'a': [1]}", {"a": [1]})],
)
def test_literals(text, value):
    assert literal(text) == value


@pytest.mark.parametrize(
    "text", ["a", "1 +", "f(1)", "", "\0", "\ud800", "1 + 'a'", "[" * 300, "-" * 9000 + "1", "{[]}"]
)
def test_what_is_no_literal_is_refused(text):
    with pytest.raises(ValueError, match=r"string|syntax|codec|nest|unhashable"):
        literal(text)
