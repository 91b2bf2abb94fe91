"""What a watched launch finds, whatever way a kernel reaches memory; what it must not find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.runtime.test_interpreted import line_of
from workbench import tl
from workbench.source import LaunchError
from workbench.source.files import shown_file


def floats(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


# -- outside every argument -----------------------------------------------------------------------
@wb.jit
def helped_load(pointer, offsets):
    return tl.load(pointer + offsets)


@wb.jit
def through_helper(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    first = helped_load(x_ptr, offsets)
    second = helped_load(x_ptr, offsets + 1)  # the bad call
    tl.store(out_ptr + offsets, first + second)


@wb.jit
def through_block(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * BLOCK
    block = tl.make_block_ptr(x_ptr, (n,), (1,), (start,), (BLOCK,), (0,))
    tl.store(out_ptr + start + tl.arange(0, BLOCK), tl.load(block))  # unchecked


@wb.jit
def through_moved_block(out_ptr, n, BLOCK: tl.constexpr):
    block = tl.make_block_ptr(out_ptr, (n, n), (n, 1), (0, 0), (BLOCK, BLOCK), (1, 0))
    block = tl.advance(block, (0, 2))
    tl.store(block, tl.full((BLOCK, BLOCK), 1.0, tl.float32), boundary_check=(0,))


@wb.jit
def through_descriptor(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    window = tl.make_tensor_descriptor(x_ptr, (n + 8, 4), (4, 1), (BLOCK, 4))
    rows = window.load([n, 0])  # the shape is not the array's
    tl.store(out_ptr + tl.arange(0, BLOCK)[:, None] * 4 + tl.arange(0, 4)[None, :], rows)


@wb.jit
def through_atomic(out_ptr, last, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + offsets, 1.0, mask=offsets <= last)


@wb.jit
def through_exchange(lock_ptr, place):
    tl.atomic_cas(lock_ptr + place, 0.0, 1.0)


@wb.jit
def through_moving_pointers(x_ptr, out_ptr, rounds, BLOCK: tl.constexpr):
    pointers = x_ptr + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(rounds):
        total += tl.load(pointers)
        pointers += BLOCK
    tl.store(out_ptr + tl.arange(0, BLOCK), total)


@wb.jit
def before_the_start(x_ptr, out_ptr):
    tl.store(out_ptr, tl.load(x_ptr - 1))


BOX = "name every axis that a block may leave in boundary_check"
MASK = "mask the access"
OUTSIDE: dict[str, tuple[Any, int, tuple[Any, ...], str, str, str]] = {
    "helper": (through_helper, 1, (floats(4), floats(4)), "pointer + off", "x_ptr[4]", MASK),
    "block": (through_block, 3, (floats(10), floats(12), 10), "unchecked", "x_ptr[10]", BOX),
    "moved": (through_moved_block, 1, (floats(4, 4), 4), "tl.store(", "out_ptr[16]", BOX),
    "descriptor": (
        through_descriptor, 1, (floats(4, 4), floats(4, 4), 4), "window.load", "x_ptr[16]", BOX,
    ),
    "atomic": (through_atomic, 2, (floats(5), 5), "tl.atomic_add", "out_ptr[5]", MASK),
    "exchange": (through_exchange, 1, (floats(5), 5), "tl.atomic_cas", "lock_ptr[5]", MASK),
    "loop": (
        through_moving_pointers, 1, (floats(10), floats(4), 3), "tl.load", "x_ptr[10]", MASK,
    ),
    "before": (before_the_start, 1, (floats(4), floats(4)), "tl.load", "x_ptr[-1]", MASK),
}  # fmt: skip


def settings(kernel: Any) -> dict[str, int]:
    names = [parameter.name for parameter in kernel.kernel_source.parameters]
    return {"BLOCK": 4} if "BLOCK" in names else {}


@pytest.mark.parametrize("way", OUTSIDE)
def test_accesses_outside_are_found_with_line_and_element(way: str):
    kernel, programs, given, text, element, hint = OUTSIDE[way]
    with pytest.raises(LaunchError) as e:
        kernel.interpret[(programs,)](*given, **settings(kernel))
    assert e.value.code == "K502"
    assert e.value.span.line == line_of(helped_load if way == "helper" else kernel, text)
    assert f"is {element}; " in str(e.value)
    assert hint in e.value.hint


def test_an_access_in_a_helper_names_the_call():
    with pytest.raises(LaunchError) as e:
        through_helper.interpret[(1,)](floats(4), floats(4), BLOCK=4)
    (call,) = e.value.span.calls
    assert call.line == line_of(through_helper, "the bad call")


def test_lanes_that_are_off_go_anywhere():
    out = floats(6)
    assert not through_atomic.interpret[(2,)](out, 5, BLOCK=4).findings
    assert out.tolist() == [1.0] * 6


# -- two programs, one element --------------------------------------------------------------------
@wb.jit
def put(pointer, offsets, value):
    tl.store(pointer + offsets, value)  # in the helper


@wb.jit
def racing_in_helper(out_ptr, BLOCK: tl.constexpr):
    put(out_ptr, tl.arange(0, BLOCK), 1.0)


@wb.jit
def racing_blocks(out_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0) * (BLOCK - 1)
    block = tl.make_block_ptr(out_ptr, (n,), (1,), (start,), (BLOCK,), (0,))
    tl.store(block, tl.full((BLOCK,), 1.0, tl.float32), boundary_check=(0,))


@wb.jit
def racing_windows(out_ptr, n, BLOCK: tl.constexpr):
    window = tl.make_tensor_descriptor(out_ptr, (n, 4), (4, 1), (BLOCK, 4))
    window.store([tl.program_id(0) * (BLOCK - 1), 0], tl.full((BLOCK, 4), 1.0, tl.float32))


@wb.jit
def cleared_by_one(out_ptr):
    if tl.program_id(0) == 0:
        tl.store(out_ptr, 0.0)
    tl.atomic_add(out_ptr, 1.0)


@wb.jit
def stored_by_last(out_ptr):
    if tl.program_id(0) < 2:
        tl.atomic_add(out_ptr, 1.0)
    else:
        tl.store(out_ptr, 0.0)


RACES: dict[str, tuple[Any, int, tuple[Any, ...], str, str]] = {
    "helper": (racing_in_helper, 2, (floats(4),), "in the helper", "out_ptr[0]"),
    "block": (racing_blocks, 3, (floats(10), 10), "tl.store", "out_ptr[3]"),
    "descriptor": (racing_windows, 2, (floats(7, 4), 7), "window.store", "out_ptr[12]"),
    "atomic after store": (cleared_by_one, 2, (floats(1),), "tl.atomic_add", "out_ptr[0]"),
    "store after atomic": (stored_by_last, 3, (floats(1),), "tl.store", "out_ptr[0]"),
}


@pytest.mark.parametrize("way", RACES)
def test_races_are_found_with_line_and_element(way: str):
    kernel, programs, given, text, element = RACES[way]
    run = kernel.interpret[(programs,)](*given, **settings(kernel), report="remark")
    assert {f.kind for f in run.findings} == {"race"}
    assert run.findings[0].span.line == line_of(put if way == "helper" else kernel, text)
    assert f"{element} was already stored by program" in run.findings[0].message


def test_a_race_in_a_helper_names_the_call():
    run = racing_in_helper.interpret[(2,)](floats(4), BLOCK=4, report="remark")
    line = line_of(racing_in_helper, "put(out_ptr")
    assert f"note: called from {shown_file(run.findings[0].span.file)}:{line}:" in run.report()


@wb.jit
def counted_down(out_ptr, counter_ptr, programs):
    program = tl.program_id(0)
    tl.atomic_add(out_ptr, 1.0)
    if tl.atomic_add(counter_ptr, 1) == programs - 1:
        tl.store(out_ptr, tl.load(out_ptr) * 2)  # the last one alone
        tl.store(counter_ptr, 0)
    tl.store(out_ptr + 1 + program, 1.0)


@wb.jit
def without_overlap(out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    offsets = tl.program_id(0) * (BLOCK - 1) + lanes
    tl.store(out_ptr + offsets, 1.0, mask=lanes < BLOCK - 1)
    tl.store(out_ptr + offsets, 2.0, mask=lanes < BLOCK - 1)


def test_what_is_ordered_or_apart_is_no_race():
    out, counter = floats(5), np.zeros(1, np.int32)
    assert not counted_down.interpret[(4,)](out, counter, 4).findings
    assert (out[0], counter[0]) == (8.0, 0)
    assert not without_overlap.interpret[(3,)](floats(12), BLOCK=4).findings


# -- what nobody wrote ----------------------------------------------------------------------------
@wb.jit
def read_in_part(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets >= n)
    tl.store(out_ptr + offsets, x, mask=offsets != 2)
    tl.store(out_ptr + offsets, tl.load(out_ptr + offsets) + 1)  # reads what it left out


@wb.jit
def accumulated(out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + offsets, 1.0, mask=offsets < 2)


@wb.jit
def read_as_block(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    block = tl.make_block_ptr(x_ptr, (n,), (1,), (2,), (BLOCK,), (0,))
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.load(block, boundary_check=(0,)))


UNWRITTEN: dict[str, tuple[Any, tuple[Any, ...], str, str, list[int]]] = {
    "masked store": (read_in_part, (floats(4), floats(4), 0), "out_ptr", "left out", [2]),
    "masked load": (read_in_part, (floats(4), floats(4), 3), "x_ptr", "x = tl.load", [3]),
    "atomic": (accumulated, (floats(4),), "out_ptr", "tl.atomic_add", [0, 1]),
    "block": (read_as_block, (floats(5), floats(4), 5), "x_ptr", "tl.load", [2, 3, 4]),
}


@pytest.mark.parametrize("way", UNWRITTEN)
def test_reads_of_what_nobody_wrote_are_found(way: str):
    kernel, given, name, text, elements = UNWRITTEN[way]
    run = kernel.interpret[(1,)](*given, BLOCK=4, uninitialised=(name,), report="remark")
    found = [f.message for f in run.findings]
    assert found == [f"{name}[{n}] is read before anything wrote it" for n in elements]
    assert {f.span.line for f in run.findings} == {line_of(kernel, text)}


def test_only_array_parameters_can_be_uninitialised():
    with pytest.raises(LaunchError, match="'n', which is no array parameter") as e:
        read_as_block.interpret[(1,)](floats(5), floats(4), 5, BLOCK=4, uninitialised=("n",))
    assert e.value.hint == "its array parameters are: x_ptr, out_ptr"


# -- what the author promised ---------------------------------------------------------------------
@wb.jit
def promised_in_helper(number):
    return tl.multiple_of(number, 16)  # the promise


@wb.jit
def promises_in_helper(out_ptr, number):
    tl.store(out_ptr, promised_in_helper(number))


@wb.jit
def promises_rows(out_ptr, pitch, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)[:, None] * pitch + tl.arange(0, BLOCK)[None, :]
    tl.store(out_ptr + tl.multiple_of(offsets, (1, 4)), 1.0)


@wb.jit
def promises_equal(out_ptr, run, BLOCK: tl.constexpr):
    offsets = tl.max_constancy(tl.arange(0, BLOCK) // run, 4)
    tl.store(out_ptr + tl.arange(0, BLOCK), offsets)


@wb.jit
def promises_a_pointer(x_ptr, out_ptr, start):
    tl.store(out_ptr, tl.load(tl.multiple_of(x_ptr + start, 16)))


def check_promise(run: Any, owner: Any, text: str, said: str) -> None:
    assert [f.kind for f in run.findings] == ["promise"]
    assert said in run.findings[0].message
    assert run.findings[0].span.line == line_of(owner, text)


def test_promises_are_looked_at_wherever_they_are_made():
    out = np.zeros(64, np.int32)
    run = promises_in_helper.interpret[(1,)](out, 3, report="remark")
    check_promise(run, promised_in_helper, "the promise", "multiples of 16 are promised")
    run = promises_rows.interpret[(1,)](floats(64), 5, BLOCK=4, report="remark")
    check_promise(run, promises_rows, "tl.multiple_of", "along axis 1, but there is 5")
    run = promises_equal.interpret[(1,)](out, 2, BLOCK=8, report="remark")
    check_promise(run, promises_equal, "tl.max_constancy", "element 2 is 1 after 0")
    # A pointer's promise is in bytes: where the array begins on a multiple of 16 it cannot hold.
    shift = (16 - out.ctypes.data % 16) // 4 % 4
    run = promises_a_pointer.interpret[(1,)](out[shift:], out[32:33].copy(), 1, report="remark")
    check_promise(run, promises_a_pointer, "tl.multiple_of", "multiples of 16 are promised")


@wb.jit
def promises_as_products_do(out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    offsets = tl.where(offsets < n, offsets, 0)
    offsets = tl.max_contiguous(tl.multiple_of(offsets, BLOCK), BLOCK)
    tl.store(out_ptr + offsets, 1.0)


def test_runs_that_begin_elsewhere_are_found():
    run = promises_as_products_do.interpret[(2,)](floats(64), 20, BLOCK=16, report="remark")
    # The second program has 16, 17, 18, 19, 0, 0, ...: that is no run of 16.
    assert {f.program for f in run.findings if f.kind == "promise"} == {(1,)}
    assert any("runs of 16 consecutive numbers" in f.message for f in run.findings)


@wb.jit
def promises_pointers(x_ptr, BLOCK: tl.constexpr):
    pointers = x_ptr + tl.arange(0, BLOCK)
    tl.store(tl.max_contiguous(tl.multiple_of(pointers, 4), BLOCK), 1.0)


HOLDS: list[Callable[[], Any]] = [
    lambda: promises_in_helper.interpret[(1,)](np.zeros(1, np.int32), 48),
    lambda: promises_rows.interpret[(1,)](floats(64), 8, BLOCK=4),
    lambda: promises_as_products_do.interpret[(2,)](floats(32), 32, BLOCK=16),
    lambda: promises_equal.interpret[(1,)](np.zeros(8, np.int32), 4, BLOCK=8),
    lambda: promises_pointers.interpret[(1,)](floats(32), BLOCK=16),
]


def test_promises_that_hold_are_not_findings():
    assert [launch().findings for launch in HOLDS] == [[]] * len(HOLDS)
