"""Loops that never end, or far too late, end the check by themselves, at their line."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("torch")

from workbench.puzzles import PUZZLES, api
from workbench.source.budgets import BUDGETS, limit_of, table

KERNEL = """
@wb.jit
def row_sums(x_ptr, out_ptr, rows, columns, stride_row, stride_column, BLOCK: tl.constexpr):
    x_ptr += tl.program_id(0) * stride_row
    total = 0.0
    start = FIRST
    while CONDITION:
        j = start + tl.arange(0, BLOCK)
        inside = (j >= 0) & (j < columns)
        total += tl.sum(tl.load(x_ptr + j * stride_column, mask=inside, other=0.0))
        STEP
    tl.store(out_ptr + tl.program_id(0), total)
"""
#: The loop's line of the kernel, counted with the empty one before it.
LINE = 7
FOR = """
@wb.jit
def row_sums(x_ptr, out_ptr, rows, columns, stride_row, stride_column, BLOCK: tl.constexpr):
    total = 0.0
    for i in range(0, columns + 10):
        for start in range(0, 1_000_000_000 * (columns + 1)):
            total += tl.load(x_ptr) * start
    tl.store(out_ptr + tl.program_id(0), total)
"""


@pytest.fixture(autouse=True)
def _fresh():
    api.begin(1)
    yield
    api.begin()


@pytest.fixture
def few(monkeypatch):
    """Let few rounds be too many; a right solution takes 40."""
    monkeypatch.setitem(BUDGETS, "interpreted", replace(BUDGETS["interpreted"], limit=300))


def judged(first: str, condition: str, step: str):
    text = KERNEL.replace("FIRST", first).replace("CONDITION", condition).replace("STEP", step)
    return api.check(5, api.kernel_of(PUZZLES[4], text))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("first", "condition", "step", "now"),
    [
        ("0", "start != columns", "start += BLOCK", "start is 9600"),
        ("0", "(start >= 0) | (columns > 0)", "start += 1", "start is 300"),
        ("0", "start < columns", "start -= BLOCK", "start is -9600"),
        ("1", "start != 0", "start = 3 - start", "start is 1"),
    ],
    ids=["runs away", "is never false", "goes the wrong way", "swings"],
)
def test_a_counter_that_never_arrives(first, condition, step, now):
    error = judged(first, condition, step).error
    assert error.code == "K406"
    assert error.span.line == LINE
    assert error.message == (
        "program (0,) goes round this loop for ever, or too often: its loops took 301 rounds, "
        "the limit is 300"
    )
    assert error.notes[0].text.startswith("after 300 rounds ")
    assert now in error.notes[0].text
    assert "come nearer to the loop's end" in error.hint


@pytest.mark.parametrize(
    ("first", "step"), [("0", "pass"), ("0", "start *= 2"), ("1", "start *= 1 << 16")],
    ids=["nothing changes", "twice nothing", "products that become 0"],
)  # fmt: skip
def test_a_loop_in_which_nothing_that_decides_changes(first, step):
    """Named as such, though its sums go on."""
    error = judged(first, "start < 2147483647", step).error
    assert error.code == "K515"
    assert error.span.line == LINE


@pytest.mark.usefixtures("few")
def test_a_range_that_is_far_too_long():
    error = api.check(5, api.kernel_of(PUZZLES[4], FOR)).error
    assert (error.code, error.span.line) == ("K406", 6)


def test_the_limit_is_listed():
    assert any(row.startswith("interpreted") and "rounds" in row for row in table().splitlines())
    assert limit_of("interpreted") == 5000
