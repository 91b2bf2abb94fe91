"""Rows that blocks go through again: which they are, and when few blocks are to keep them."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

import workbench
from tests.language.harness import from_text
from workbench.analysis.rows import Rows, rows_from_data
from workbench.devices import cuda
from workbench.launch.conditions import python_expressions
from workbench.launch.rows import Chosen, Held, rows_program

TWICE = """
def twice(x, w, o, n, step, BLOCK: tl.constexpr):
    row = x + tl.program_id(0) * n
    total = tl.zeros([BLOCK], tl.float32)
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        total += tl.load(row + at, mask=at < n, other=0.0)
    mean = tl.sum(total, axis=0) / n
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        x_ = tl.load(row + at, mask=at < n, other=0.0)
        w_ = tl.load(w + at, mask=at < n, other=0.0)
        tl.store(o + tl.program_id(0) * n + at, (x_ - mean) * w_, mask=at < n)
"""
ONCE = TWICE.replace("x_ = tl.load(row + at", "x_ = tl.load(row + 4 * n + at")
SHORTER = TWICE.replace("range(0, n, BLOCK):", "range(0, n // 2, BLOCK):", 1)
NARROW = TWICE.replace("row + at", "row + 3 * at")
COMMON = TWICE.replace("x + tl.program_id(0) * n", "x")
#: What the first loop does with a row is no reading.
WRITTEN = TWICE.replace(
    "total += tl.load(row + at, mask=at < n, other=0.0)", "tl.store(row + at, total, mask=at < n)"
)
EITHER = """
def either(x, w, o, n, step, BLOCK: tl.constexpr):
    row = x + tl.program_id(0) * n
    total = tl.zeros([BLOCK], tl.float32)
    if step > 1:
        for i in range(0, n, BLOCK):
            total += tl.load(row + i + tl.arange(0, BLOCK))
    else:
        for i in range(0, n, BLOCK):
            total += tl.exp(tl.load(row + i + tl.arange(0, BLOCK)))
    tl.store(o + tl.arange(0, BLOCK), total)
"""
#: Of an H100: 12 blocks of 40 registers, 7 where 8 kB are shared.
H100 = Held(blocks=12, few=7, room=228 << 10)


def compiled(text: str, **options: Any) -> Any:
    signature = "*fp32:16 *fp32:16 *fp32:16 i32:16 i32"
    shape = {"BLOCK": 512}
    return workbench.compile(from_text(text), signature, shape, "sm_90a", num_warps=4, **options)


def test_a_row_that_is_read_again_is_told_with_what_all_programs_read():
    rows = rows_from_data(compiled(TWICE).launch.extra["rows"])
    assert [size for _, size in rows.own] == [size for _, size in rows.common] == [2048]
    assert rows_from_data(rows.to_data()) == rows


@pytest.mark.parametrize("text", [ONCE, SHORTER, NARROW, COMMON, WRITTEN, EITHER])
def test_of_other_rows_nothing_is_told(text: str):
    assert "rows" not in compiled(text).launch.extra


def test_rows_that_are_no_data_are_refused():
    with pytest.raises(ValueError, match="of 0 steps a row is"):
        rows_from_data({"steps": [], "own": [[0, 4]], "common": []})
    assert rows_from_data(Rows((), ()).to_data()) == Rows((), ())


@pytest.mark.parametrize(
    ("columns", "few"),
    [(0, False), (1024, False), (3072, False), (4096, True), (8192, True), (12288, True),
     (16384, False), (-1, False)],
)  # fmt: skip
def test_few_blocks_are_chosen_where_they_keep_the_rows_and_all_do_not(columns: int, few: bool):
    kernel = compiled(TWICE)
    program = rows_program(kernel, H100)
    assert program is not None
    names = [f"a{n}" for n in range(len(kernel.launch.parameters))]
    (text,) = python_expressions(program, names)
    values = dict.fromkeys(names, 1) | {"a3": columns}
    assert eval(text, values) == few


def test_blocks_of_few_warps_stay_many():
    assert rows_program(compiled(TWICE), H100._replace(few=5)) is None
    assert rows_program(compiled(TWICE), H100._replace(blocks=7)) is None


#: The same between bounds that a program's number gives.
BETWEEN = (
    TWICE.replace("range(0, n, BLOCK)", "range(first, first + n, BLOCK)")
    .replace("    total = tl.zeros", "    first = tl.program_id(0) * 4096\n    total = tl.zeros")
    .replace("mask=at < n", "mask=at < first + n")
)


@pytest.mark.parametrize(
    ("text", "programs", "functions"),
    [(TWICE, 7, [16, 32, 16]), (BETWEEN, 1, [16, 32, 32]), (BETWEEN, 7, [16, 16, 16])],
)
def test_native_code_launches_the_function_that_is_chosen(
    text: str, programs: int, functions: list[int], monkeypatch: pytest.MonkeyPatch
):
    numbers = [ctypes.c_uint32] * 7
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *numbers, *[ctypes.c_void_p] * 3)
    launched: list[tuple[int, ...]] = []

    def launch(function: int, *rest: int) -> int:
        launched.append((function, *rest[:7]))
        return 3

    driver = kind(launch)
    address = ctypes.cast(driver, ctypes.c_void_p).value
    monkeypatch.setattr(cuda, "launch_address", lambda: address)
    chosen = Chosen(compiled(text), (16, 32), H100)
    start = kind(chosen.launch)
    for columns in (1024, 8192, 16384):
        slots = (ctypes.c_int64 * 5)(1, 2, 3, columns, 5)
        places = (ctypes.c_void_p * 5)(*(ctypes.addressof(slots) + 8 * n for n in range(5)))
        assert start(chosen.record, programs, 1, 1, 128, 1, 1, 16, None, places, None) == 3
    assert [function for function, *_ in launched] == functions
    assert launched[0][1:] == (programs, 1, 1, 128, 1, 1, 16)
