"""Arrays of a launch lie between guards, with the strides that a kernel is told."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

pytest.importorskip("torch")

from workbench.interpreter import storage_of
from workbench.puzzles import PUZZLES
from workbench.puzzles.arguments import Arguments, strides_of
from workbench.puzzles.puzzle import Case

TABLE = PUZZLES[2]
CASE = Case("any", {"rows": 3, "columns": 4}, "pitch")


@pytest.fixture
def arguments():
    data = TABLE.data(np.random.default_rng(0), CASE.sizes)
    return Arguments(TABLE, CASE, data)


@pytest.mark.parametrize(
    ("layout", "named", "expected"),
    [
        ("dense", ("s", "t"), (4, 1)), ("pitch", ("s", ""), (9, 1)), ("pitch", (), (4, 1)),
        ("padded", ("s", ""), (16, 1)), ("transposed", ("s", "t"), (1, 3)),
        ("transposed", ("s", ""), (4, 1)), ("strided", ("s", "t"), (17, 3)),
        ("strided", ("s", ""), (9, 1)),
    ],
)  # fmt: skip
def test_only_strides_that_are_told_are_odd(layout, named, expected):
    assert strides_of((3, 4), named, layout) == expected


def test_arrays_and_numbers_come_in_the_order_of_the_signature(arguments):
    assert tuple(arguments.values) == TABLE.parameters
    out = arguments.values["out_ptr"]
    assert out.stride() == (arguments.values["stride_out"], 1) == (9, 1)
    assert out.isnan().all()
    storage = storage_of(out)  # nothing of the guards belongs to it
    assert storage.end - storage.start == 4 * (2 * 9 + 4)
    assert storage.start % 256 == 0


def test_elements_of_outputs_may_be_written_and_nothing_else(arguments):
    out, x = arguments.values["out_ptr"], arguments.values["x_ptr"]
    out[...] = 1.0
    assert arguments.damaged() is None
    out.as_strided((1,), (1,), 4)[0] = 2.0
    assert "between the elements of out_ptr" in arguments.damaged()
    arguments = Arguments(TABLE, CASE, arguments.data)
    ctypes.c_float.from_address(arguments.values["out_ptr"].data_ptr() - 4).value = 0.0
    assert "beside them" in arguments.damaged()
    arguments = Arguments(TABLE, CASE, arguments.data)
    arguments.values["x_ptr"][0] += 1
    assert arguments.damaged() == "something was written to x_ptr, which is there to be read"
    assert x[0] != arguments.values["x_ptr"][0]


def test_arrays_may_be_empty():
    for puzzle in PUZZLES:
        case = next(case for case in puzzle.cases(3) if case.name == "zero")
        data = puzzle.data(np.random.default_rng(0), case.sizes)
        assert Arguments(puzzle, case, data).damaged() is None
