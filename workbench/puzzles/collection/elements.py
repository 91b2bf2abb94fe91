"""Puzzles 1 to 4: programs, masks, strides, two axes, who touches what."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.puzzles import facts
from workbench.puzzles.puzzle import Case, Data, Puzzle, Question, prime
from workbench.runtime.host import cdiv

Sizes = Mapping[str, int]


def floats(draw: np.random.Generator, *shape: int, dtype: str = "float32") -> Any:
    """Return normal numbers, of which no two launches have the same."""
    return draw.normal(size=shape).astype(dtype)


# -- 1 ----------------------------------------------------------------------------------------
def _along(draw: random.Random) -> tuple[Case, ...]:
    n = prime(draw)
    return (
        Case("zero", {"n": 0}), Case("one", {"n": 1}), Case("prime", {"n": n}),
        Case("whole blocks", {"n": 12}), Case("tail", {"n": 3 * draw.randint(20, 40) + 2}),
    )  # fmt: skip


SEVEN = Puzzle(
    number=1,
    name="add_ten",
    title="Seven in threes",
    task="""\
Add 10 to each of `n` floats: `out[i] = x[i] + 10`.

A program works on `BLOCK = 3` elements, and there are just enough programs for all of them. Seven
elements need three programs; the last one has two lanes too many. A lane that is *off* (its mask
is false) touches no memory.""",
    parameters=("x_ptr", "out_ptr", "n"),
    strides={},
    constants={"BLOCK": 3},
    grid=lambda n, BLOCK: (cdiv(n, BLOCK),),
    shown=Case("shown", {"n": 7}),
    hidden=_along,
    data=lambda draw, sizes: {
        "x_ptr": Data(floats(draw, sizes["n"])),
        "out_ptr": Data(floats(draw, sizes["n"]), "out"),
    },
    reference=lambda x_ptr: x_ptr + 10,
    widest=4,
    hints=(
        "`tl.program_id(0)` says which program this is; its first element is `BLOCK` times that.",
        "`offsets < n` is the mask; both the load and the store need it.",
    ),
    start="""\
@wb.jit
def add_ten(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ...
""",
    solution="""\
@wb.jit
def add_ten(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + 10, mask=mask)
""",
    question=Question(
        "How many lanes of your loads are off, over all programs of the shown launch?",
        "a number",
        "`puzzles.record(1)` lists the lanes of each access that are on and off, by program.",
        facts.lanes_off,
    ),
)


# -- 2 ----------------------------------------------------------------------------------------
def _planes(draw: random.Random) -> tuple[Case, ...]:
    rows, columns = prime(draw), prime(draw)
    return (
        Case("zero", {"rows": 0, "columns": 5}), Case("no columns", {"rows": 3, "columns": 0}),
        Case("one", {"rows": 1, "columns": 1}), Case("prime", {"rows": rows, "columns": columns}),
        Case("tail", {"rows": 9, "columns": 16 * draw.randint(2, 4) + 1}, "pitch"),
        Case("transposed", {"rows": 21, "columns": 10}, "transposed"),
        Case("strided", {"rows": 11, "columns": draw.randint(18, 40)}, "strided"),
    )  # fmt: skip


def _copied(draw: np.random.Generator, sizes: Sizes) -> dict[str, Data]:
    shape = sizes["rows"], sizes["columns"]
    return {"x_ptr": Data(floats(draw, *shape)), "out_ptr": Data(floats(draw, *shape), "out")}


ANY_STRIDE = Puzzle(
    number=2,
    name="copy",
    title="Any stride",
    task="""\
Copy a matrix that may be a view of another one: `out[i, j] = x[i, j]`.

Element `(i, j)` of `x` lies `i * stride_row + j * stride_column` elements behind its first one;
`out` has its rows one after another. In the shown launch `x` is a transposed view, so that
neighbours in a row of `x` are far apart.""",
    parameters=("x_ptr", "out_ptr", "rows", "columns", "stride_row", "stride_column"),
    strides={"x_ptr": ("stride_row", "stride_column")},
    constants={"BM": 16, "BN": 16},
    grid=lambda rows, columns, BM, BN: (cdiv(rows, BM), cdiv(columns, BN)),
    shown=Case("shown", {"rows": 16, "columns": 48}, "transposed"),
    hidden=_planes,
    data=_copied,
    reference=lambda x_ptr: x_ptr,
    widest=1024,
    hints=(
        "The grid has two axes: `program_id(0)` counts blocks of rows, `program_id(1)` of columns.",
        "`i[:, None] * stride_row + j[None, :] * stride_column` is a tile of BM × BN offsets.",
    ),
    start="""\
@wb.jit
def copy(x_ptr, out_ptr, rows, columns, stride_row, stride_column,
         BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    ...
""",
    solution="""\
@wb.jit
def copy(x_ptr, out_ptr, rows, columns, stride_row, stride_column,
         BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    mask = (i[:, None] < rows) & (j[None, :] < columns)
    x = tl.load(x_ptr + i[:, None] * stride_row + j[None, :] * stride_column, mask=mask)
    tl.store(out_ptr + i[:, None] * columns + j[None, :], x, mask=mask)
""",
    question=Question(
        "How many elements does one lane move at once on a GPU: in the load, in the store?",
        "two numbers: load, store",
        "`%access copy` shows bytes a lane as elements × bytes, predicted for sm_90a; where there "
        "are several rows for global memory, the widest counts.",
        facts.widths,
    ),
)


# -- 3 ----------------------------------------------------------------------------------------
def _table(draw: np.random.Generator, sizes: Sizes) -> dict[str, Data]:
    rows, columns = sizes["rows"], sizes["columns"]
    return {
        "x_ptr": Data(floats(draw, rows)), "y_ptr": Data(floats(draw, columns)),
        "out_ptr": Data(floats(draw, rows, columns), "out"),
    }  # fmt: skip


TABLE = Puzzle(
    number=3,
    name="table",
    title="Two into a table",
    task="""\
Make a table of sums: `out[i, j] = x[i] + y[j]`.

Neither extent is a multiple of the block, and a row of `out` starts `stride_out` elements behind
the one above. What lies between the rows belongs to somebody else.""",
    parameters=("x_ptr", "y_ptr", "out_ptr", "rows", "columns", "stride_out"),
    strides={"out_ptr": ("stride_out", "")},
    constants={"BM": 4, "BN": 8},
    grid=lambda rows, columns, BM, BN: (cdiv(rows, BM), cdiv(columns, BN)),
    shown=Case("shown", {"rows": 6, "columns": 13}, "pitch"),
    hidden=lambda draw: tuple(c for c in _planes(draw) if c.layout != "transposed"),
    data=_table,
    reference=lambda x_ptr, y_ptr: x_ptr[:, None] + y_ptr[None, :],
    widest=512,
    hints=(
        "`x[:, None] + y[None, :]` makes a tile of BM × BN of two vectors.",
        "The load of `x` needs the mask of rows only, the store needs both.",
    ),
    start="""\
@wb.jit
def table(x_ptr, y_ptr, out_ptr, rows, columns, stride_out, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    ...
""",
    solution="""\
@wb.jit
def table(x_ptr, y_ptr, out_ptr, rows, columns, stride_out, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    x = tl.load(x_ptr + i, mask=i < rows)
    y = tl.load(y_ptr + j, mask=j < columns)
    mask = (i[:, None] < rows) & (j[None, :] < columns)
    tl.store(out_ptr + i[:, None] * stride_out + j[None, :], x[:, None] + y[None, :], mask=mask)
""",
    question=Question(
        "How many elements does program (0, 0) of the shown launch load? (A tile loaded as a "
        "matrix counts each of its elements.)",
        "a number",
        "`puzzles.record(3)` lists the lanes that are on, by access and program.",
        facts.loaded_by_first,
    ),
)


# -- 4 ----------------------------------------------------------------------------------------
def _mirrored(draw: random.Random) -> tuple[Case, ...]:
    n = prime(draw)
    return (
        Case("zero", {"n": 0}), Case("one", {"n": 1}), Case("two", {"n": 2}),
        Case("prime", {"n": n}), Case("whole blocks", {"n": 16}),
        Case("tail", {"n": 8 * draw.randint(20, 30) + 3}),
        Case("strided", {"n": draw.randint(30, 60)}, "strided"),
    )  # fmt: skip


MIRROR = Puzzle(
    number=4,
    name="mirror",
    title="Mirror",
    task="""\
Reverse an array in its own place: afterwards `x[i]` holds what `x[n - 1 - i]` held.

Element `i` lies `i * stride` elements behind the first. Programs run in any order, and at the same
time: no program may touch an element that another one writes. There is no second array. By itself
the check launches one program for `BLOCK` elements of the first half; give it another `grid=` if
you want one, as a function of `n` and `BLOCK`.""",
    parameters=("x_ptr", "n", "stride"),
    strides={"x_ptr": ("stride",)},
    constants={"BLOCK": 4},
    grid=lambda n, BLOCK: (cdiv(n // 2, BLOCK),),
    shown=Case("shown", {"n": 10}),
    hidden=_mirrored,
    data=lambda draw, sizes: {"x_ptr": Data(floats(draw, sizes["n"]), "inout")},
    reference=lambda x_ptr: x_ptr.flip(0),
    widest=32,
    hints=(
        "A program that reads both ends of a pair may swap them: nobody else needs to.",
        "There are `n // 2` pairs; the middle of an odd `n` stays.",
        "Load both before you store either.",
    ),
    start="""\
@wb.jit
def mirror(x_ptr, n, stride, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ...
""",
    solution="""\
@wb.jit
def mirror(x_ptr, n, stride, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n // 2
    left = x_ptr + i * stride
    right = x_ptr + (n - 1 - i) * stride
    a = tl.load(left, mask=mask)
    b = tl.load(right, mask=mask)
    tl.store(left, b, mask=mask)
    tl.store(right, a, mask=mask)
""",
    question=Question(
        "Which programs touch `x[5]` in the shown launch?",
        "their numbers",
        '`puzzles.record(4, "x_ptr", 5)` lists who touches an element.',
        lambda trial: facts.touching(trial, "x_ptr", 5),
    ),
)
