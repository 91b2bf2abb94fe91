"""The table of what a kernel printed, from the lines that every target writes."""

from __future__ import annotations

import os
import threading

import pytest

import workbench as wb
from workbench import tl
from workbench.devices.printed import MOST_VALUES, PrintedTable, captured

torch = pytest.importorskip("torch")


@wb.jit
def show(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.device_print("x at", tl.load(x_ptr + offsets), offsets)
    tl.device_print("sum", tl.sum(tl.load(x_ptr + offsets)))


def printed(lines: list[str]) -> PrintedTable:
    compiled = wb.compile(show, "*f32", {"BLOCK": 4}, target="interpreter")
    return PrintedTable(lines, compiled.module)


def elements(values: list[float]) -> list[str]:
    return [f"pid (0, 0, 0) idx ({i},) x at: {value}" for i, value in enumerate(values)]


def test_two_tiles_of_one_print_are_two_lines_of_its_cell():
    pairs = zip(elements([5, 6, 7]), elements([0, 1, 2]), strict=True)
    lines = [line for pair in pairs for line in pair]
    table = printed([*lines, "pid (0, 0, 0) sum: 18"])
    assert repr(table).splitlines() == [
        "program  x at   sum",
        "0        5 6 7  18",
        "         0 1 2",
    ]
    assert printed([*elements([5, 6, 7]), *elements([0, 1, 2])]).rows != []
    assert "<pre>5 6 7\n0 1 2</pre>" in table._repr_html_()


def test_rounds_of_a_loop_stand_below_each_other():
    table = printed([*elements([1, 2]), *elements([3, 4]), *elements([5, 6])])
    assert [line.split()[-2:] for line in repr(table).splitlines()[1:]] == [
        ["1", "2"],
        ["3", "4"],
        ["5", "6"],
    ]


def test_what_is_too_much_is_counted():
    table = printed(elements(list(range(MOST_VALUES))) + elements([1, 2, 3]))
    assert repr(table).splitlines()[-1].split("  ")[-1].strip() == "… 3 more"


def test_two_threads_that_collect_lines_give_the_descriptor_back():
    before = os.fstat(1).st_ino
    inside, over = threading.Event(), threading.Event()
    second: list[str] = []

    def collect() -> None:
        with captured() as lines:
            inside.set()
            over.wait(60)
            os.write(1, b"second\n")
        second.extend(lines)

    thread = threading.Thread(target=collect, daemon=True)
    with captured() as first:
        thread.start()
        inside.wait(0.2)
        os.write(1, b"first\n")
    over.set()
    thread.join(60)
    assert (first, second) == (["first"], ["second"])
    assert os.fstat(1).st_ino == before
