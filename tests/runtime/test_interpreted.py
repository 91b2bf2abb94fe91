"""What a watched launch in the interpreter finds, and how it says it."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import workbench as wb
from workbench import tl
from workbench.source import LaunchError


def line_of(kernel, text: str) -> int:
    """Return the line of a kernel's file on which a text stands."""
    source = kernel.kernel_source
    place = next(n for n, line in enumerate(source.text.splitlines()) if text in line)
    return source.first_line + place


@wb.jit
def overlapping(out_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * (BLOCK - 1) + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, offsets.to(tl.float32))


@wb.jit
def locked(out_ptr, lock_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(out_ptr, tl.load(out_ptr) + 1.0)
    tl.atomic_xchg(lock_ptr, 0)


@wb.jit
def promising(out_ptr, start):
    first = tl.multiple_of(start, 16)
    offsets = tl.max_contiguous(tl.arange(0, 8) * 2, 8)
    tl.assume(start > 100)
    tl.store(out_ptr + offsets, first)


@wb.jit
def promising_rows(x_ptr, out_ptr, stride, WIDTH: tl.constexpr):
    columns = tl.arange(0, WIDTH)
    row = x_ptr + tl.program_id(0) * stride + columns
    row = tl.max_contiguous(tl.multiple_of(row, WIDTH), WIDTH)
    tl.store(out_ptr + tl.program_id(0) * WIDTH + columns, tl.load(row))


@wb.jit
def printing(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_print("x = ", tl.load(x_ptr + offsets))
    tl.device_print("program ", tl.program_id(0))


@wb.jit
def asserting(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_assert(tl.load(x_ptr + offsets) >= 0, "x is negative")


def test_two_programs_that_store_one_element_are_a_race():
    run = overlapping.interpret[(3,)](np.zeros(10, np.float32), BLOCK=4, report="remark")
    races = [
        (r.argument, r.element, r.first_program, r.second_program) for r in run.recording.races
    ]
    assert races == [("out_ptr", 3, 0, 1), ("out_ptr", 6, 1, 2)]
    assert {f.span.line for f in run.findings} == {line_of(overlapping, "tl.store")}
    assert "out_ptr[3] was already stored by program (0,)" in run.report()
    assert run.report() == run.report().strip()


def test_programs_that_a_lock_orders_do_not_race():
    out, lock = np.zeros(1, np.float32), np.zeros(1, np.int32)
    run = locked.interpret[(4,)](out, lock)
    assert out[0] == 4
    assert not run.findings
    assert "nothing found" in repr(run)


def test_promises_that_do_not_hold_are_found():
    run = promising.interpret[(1,)](np.zeros(16, np.int32), 40, report="remark")
    found = {f.kind: f for f in run.findings}
    said = [f.message for f in run.findings]
    assert "multiples of 16 are promised along axis 0, but there is 40" in said
    assert any("runs of 8 consecutive numbers are promised" in text for text in said)
    assert found["assumption"].span.line == line_of(promising, "tl.assume")
    run = promising.interpret[(1,)](np.zeros(16, np.int32), 112, report="remark")
    assert not run.findings[1:]


@pytest.mark.parametrize("start", [0, 16, 64, 144])
def test_promises_about_rows_do_not_depend_on_where_the_host_put_the_array(start: int):
    raw = np.zeros(4096 + 512, np.uint8)
    start += -raw.ctypes.data % 256
    # An array that owns its memory, wherever that begins; nothing of `raw` is known to it.
    memory = (ctypes.c_float * 1024).from_address(raw.ctypes.data + start)
    x, out = np.frombuffer(memory, np.float32), np.zeros(1024, np.float32)
    assert not promising_rows.interpret[(4,)](x, out, 256, WIDTH=256).findings
    # Rows that begin elsewhere, and a view that begins within its memory, break the promise.
    found = promising_rows.interpret[(3,)](x, out, 260, WIDTH=256, report="remark").findings
    assert "multiples of 256 are promised along axis 0, but there is byte 1040" in {
        f.message for f in found
    }
    found = promising_rows.interpret[(3,)](x[1:], out, 256, WIDTH=256, report="remark").findings
    assert "byte 4" in found[0].message


def test_reads_of_what_nobody_wrote_are_found():
    out, lock = np.zeros(2, np.float32), np.zeros(1, np.int32)
    unwritten = {"uninitialised": ("out_ptr",), "report": "remark"}
    run = locked.interpret[(1,)](out, lock, **unwritten)
    assert [f.message for f in run.findings] == ["out_ptr[0] is read before anything wrote it"]
    assert run.findings[0].span.line == line_of(locked, "tl.load")
    assert len(locked.interpret[(3,)](out, lock, **unwritten).findings) == 1


def test_a_failing_assertion_says_program_line_and_element():
    x = np.arange(8, dtype=np.float32)
    asserting.interpret[(2,)](x, BLOCK=4)
    x[6] = -1
    said = r"assertion failed in program \(1,\) at element \(2,\)"
    with pytest.raises(LaunchError, match=said) as e:
        asserting.interpret[(2,)](x, BLOCK=4)
    assert e.value.code == "K510"
    assert e.value.span.line == line_of(asserting, "tl.device_assert")


def test_prints_are_a_table_by_program(capsys):
    x = np.arange(6, dtype=np.float32)
    run = printing.interpret[(2,)](x, BLOCK=3)
    assert [row.value for row in run.printed.values((1,), "x = ")] == ["3.0", "4.0", "5.0"]
    assert capsys.readouterr().out.splitlines() == [
        "program  x            program",
        "0        0.0 1.0 2.0  0",
        "1        3.0 4.0 5.0  1",
    ]
    html = run.printed._repr_html_()
    assert "<th>x</th>" in html
    assert "<pre>3.0 4.0 5.0</pre>" in html


@wb.jit
def printed_sum(a, b):
    tl.device_print("a = ", a)
    return a + b


@wb.jit
def printing_sums(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr, tl.reduce(tl.load(x_ptr + tl.arange(0, BLOCK)), 0, printed_sum))


def test_what_combines_elements_prints_once_for_each_call():
    run = printing_sums.interpret[(1,)](np.arange(4, dtype=np.float32), BLOCK=4)
    assert [row.value for row in run.printed.values((0,), "a = ")] == ["0.0", "1.0", "2.0"]


def test_cpu_prints_are_read_alike():
    from workbench.devices.printed import PrintedTable, captured

    x = np.arange(6, dtype=np.float32)
    with captured() as lines:
        kernel = printing[(2,)](x, BLOCK=3)
    table = PrintedTable(lines, kernel.module)
    assert [row.value for row in table.values((1,), "x = ")] == ["3", "4", "5"]
    assert not table.others
