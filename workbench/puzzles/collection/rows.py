"""Puzzles 5, 6 and 8: loops, what they carry, reductions and scans."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np

from workbench.puzzles import facts
from workbench.puzzles.collection.elements import floats
from workbench.puzzles.puzzle import Case, Data, Puzzle, Question, prime

Sizes = Mapping[str, int]


# -- 5 ----------------------------------------------------------------------------------------
def _long(draw: random.Random) -> tuple[Case, ...]:
    rows, columns = prime(draw), prime(draw)
    return (
        Case("zero", {"rows": 0, "columns": 4}), Case("empty rows", {"rows": 3, "columns": 0}),
        Case("one", {"rows": 1, "columns": 1}), Case("prime", {"rows": rows, "columns": columns}),
        Case("whole blocks", {"rows": 3, "columns": 96}),
        Case("tail", {"rows": 5, "columns": 32 * draw.randint(20, 30) + 5}, "pitch"),
        Case("strided", {"rows": 4, "columns": draw.randint(40, 90)}, "strided"),
    )  # fmt: skip


LONG_ROWS = Puzzle(
    number=5,
    name="row_sums",
    title="Long rows",
    task="""\
Sum each row of a matrix: `out[i]` is the sum of row `i`, however long rows are.

There is one program for a row, and a tile may have at most 256 elements, so a row takes several
rounds of a loop. Element `(i, j)` lies `i * stride_row + j * stride_column` elements behind the
first one. The sum of an empty row is 0.""",
    parameters=("x_ptr", "out_ptr", "rows", "columns", "stride_row", "stride_column"),
    strides={"x_ptr": ("stride_row", "stride_column")},
    constants={"BLOCK": 32},
    grid=lambda rows: (rows,),
    shown=Case("shown", {"rows": 3, "columns": 70}),
    hidden=_long,
    data=lambda draw, sizes: {
        "x_ptr": Data(floats(draw, sizes["rows"], sizes["columns"])),
        "out_ptr": Data(floats(draw, sizes["rows"]), "out"),
    },
    reference=lambda x_ptr: x_ptr.sum(1),
    widest=256,
    once=("x_ptr",),
    hints=(
        "`for start in range(0, columns, BLOCK):` goes round the row.",
        "Lanes behind the end of the row should add 0: `tl.load(..., mask=..., other=0.0)`.",
        "The loop may carry a tile of BLOCK partial sums, or one number.",
    ),
    start="""\
@wb.jit
def row_sums(x_ptr, out_ptr, rows, columns, stride_row, stride_column, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    ...
""",
    solution="""\
@wb.jit
def row_sums(x_ptr, out_ptr, rows, columns, stride_row, stride_column, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        j = start + tl.arange(0, BLOCK)
        x_ptrs = x_ptr + row * stride_row + j * stride_column
        sums += tl.load(x_ptrs, mask=j < columns, other=0.0)
    tl.store(out_ptr + row, tl.sum(sums))
""",
    question=Question(
        "What does your loop carry from round to round? Give the types as your tile IR has them.",
        "one type for each value, e.g. 'tile<8xf32>' or 'f32'",
        "`%tile row_sums` shows the tile IR; behind the brace that closes a `tile.for` stand the "
        "types of what it carries.",
        facts.carried_types,
    ),
)


# -- 6 ----------------------------------------------------------------------------------------
def _steep(draw: np.random.Generator, sizes: Sizes) -> dict[str, Data]:
    rows, columns = sizes["rows"], sizes["columns"]
    x = floats(draw, rows, columns)
    if x.size:
        x[draw.random(x.shape) < 0.2] = -np.inf
        x[np.arange(rows), draw.integers(0, columns, rows)] = 1e4
        x[::2] -= 2e4  # rows whose largest number is far below 0
        x[1::3] = floats(draw, len(x[1::3]), columns)
    return {"x_ptr": Data(x), "out_ptr": Data(floats(draw, rows, columns), "out")}


def _short(draw: random.Random) -> tuple[Case, ...]:
    rows, columns = prime(draw), prime(draw)
    return (
        Case("zero", {"rows": 0, "columns": 4}), Case("empty rows", {"rows": 3, "columns": 0}),
        Case("one", {"rows": 1, "columns": 1}), Case("prime", {"rows": rows, "columns": columns}),
        Case("whole block", {"rows": 3, "columns": 128}),
        Case("tail", {"rows": 5, "columns": draw.randint(65, 127)}, "pitch"),
    )  # fmt: skip


SOFTMAX = Puzzle(
    number=6,
    name="softmax",
    title="Steady softmax",
    task="""\
The softmax of each row: `out[i, j] = exp(x[i, j]) / sum over k of exp(x[i, k])`.

Rows have at most 128 elements. They hold numbers such as 1e4, whose `exp` is infinite in float32,
and −∞, whose share is 0; each row has at least one finite element. A row of `x` or `out` starts
`stride_x` or `stride_out` elements behind the one before.""",
    parameters=("x_ptr", "out_ptr", "rows", "columns", "stride_x", "stride_out"),
    strides={"x_ptr": ("stride_x", ""), "out_ptr": ("stride_out", "")},
    constants={"BLOCK": 128},
    grid=lambda rows: (rows,),
    shown=Case("shown", {"rows": 3, "columns": 20}, "pitch"),
    hidden=_short,
    data=_steep,
    reference=lambda x_ptr: x_ptr.softmax(1),
    widest=1024,
    hints=(
        "softmax(x) = softmax(x - c) for any c: take the largest element of the row.",
        "Lanes behind the end must neither be the maximum nor add to the sum: `other=-inf` does "
        "both.",
    ),
    start="""\
@wb.jit
def softmax(x_ptr, out_ptr, rows, columns, stride_x, stride_out, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    ...
""",
    solution="""\
@wb.jit
def softmax(x_ptr, out_ptr, rows, columns, stride_x, stride_out, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    mask = j < columns
    x = tl.load(x_ptr + row * stride_x + j, mask=mask, other=float("-inf"))
    shares = tl.exp(x - tl.max(x))
    tl.store(out_ptr + row * stride_out + j, shares / tl.sum(shares), mask=mask)
""",
    question=Question(
        "How many bytes of `x` does your launch read for each element of `x`?",
        "a number",
        "`puzzles.record(6)` says how many bytes each access moves; divide what is loaded by the "
        "number of elements (float32 has 4 bytes).",
        lambda trial: facts.loaded_bytes(trial) / trial.data["x_ptr"].values.size,
    ),
)


# -- 8 ----------------------------------------------------------------------------------------
def _totals(draw: random.Random) -> tuple[Case, ...]:
    n = prime(draw)
    return (
        Case("zero", {"n": 0}), Case("one", {"n": 1}), Case("prime", {"n": n}),
        Case("whole blocks", {"n": 96}), Case("tail", {"n": 32 * draw.randint(10, 16) + 7}),
        Case("strided", {"n": draw.randint(50, 90)}, "strided"),
    )  # fmt: skip


RUNNING_TOTAL = Puzzle(
    number=8,
    name="running_total",
    title="Running total",
    task="""\
The prefix sums of `n` floats: `out[i] = x[0] + … + x[i]`.

One program does it all, and a tile may have at most 64 elements, so it goes along the array block
by block and *carries* what came before. Element `i` of `x` lies `i * stride` elements behind the
first one; `out` has no gaps. No element of `x` may be read twice.""",
    parameters=("x_ptr", "out_ptr", "n", "stride"),
    strides={"x_ptr": ("stride",)},
    constants={"BLOCK": 32},
    grid=lambda: (1,),
    shown=Case("shown", {"n": 70}),
    hidden=_totals,
    data=lambda draw, sizes: {
        "x_ptr": Data(floats(draw, sizes["n"])),
        "out_ptr": Data(floats(draw, sizes["n"]), "out"),
    },
    reference=lambda x_ptr: x_ptr.cumsum(0),
    widest=64,
    once=("x_ptr",),
    hints=(
        "`tl.cumsum(x, 0)` gives the prefix sums of a tile.",
        "The sum of the whole block is what the next block has to add: `carry += tl.sum(x)`.",
    ),
    start="""\
@wb.jit
def running_total(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        ...
""",
    solution="""\
@wb.jit
def running_total(x_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    carry = 0.0
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i * stride, mask=i < n, other=0.0)
        tl.store(out_ptr + i, tl.cumsum(x, 0) + carry, mask=i < n)
        carry += tl.sum(x)
""",
    question=Question(
        "Which op of your tile IR makes the value that the loop carries into the next round?",
        "its name, e.g. 'tile.mul' (if the loop carries several values, all names)",
        "`%tile running_total` shows the tile IR: find the op whose result the `tile.yield` at the "
        "end of the loop hands on.",
        facts.carry_makers,
    ),
)
