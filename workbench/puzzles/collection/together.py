"""Puzzles 7 and 9: programs that work on the same memory."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np

from workbench.puzzles import facts
from workbench.puzzles.collection.elements import floats
from workbench.puzzles.puzzle import Case, Data, Puzzle, Question, prime
from workbench.runtime.host import cdiv

Sizes = Mapping[str, int]


def _many(draw: random.Random) -> tuple[Case, ...]:
    n = prime(draw)
    return (
        Case("zero", {"n": 0}), Case("one", {"n": 1}), Case("prime", {"n": n}),
        Case("whole blocks", {"n": 64}), Case("tail", {"n": 16 * draw.randint(10, 20) + 3}),
        Case("strided", {"n": draw.randint(50, 90)}, "strided"),
    )  # fmt: skip


# -- 7 ----------------------------------------------------------------------------------------
def _votes(draw: np.random.Generator, sizes: Sizes) -> dict[str, Data]:
    keys = np.minimum(draw.geometric(0.45, sizes["n"]) - 1, 7)  # most votes go to few
    return {
        "keys_ptr": Data(keys.astype(np.int32)),
        "counts_ptr": Data(draw.integers(0, 1000, 8).astype(np.int32), "inout"),
    }


def _counted(keys_ptr: object, counts_ptr: object) -> object:
    return counts_ptr + keys_ptr.bincount(minlength=8)  # type: ignore[attr-defined, operator]


VOTES = Puzzle(
    number=7,
    name="votes",
    title="Votes",
    task="""\
Count votes: each of `n` keys is a number from 0 to 7, and `counts[k]` grows by the number of keys
that are `k`. `counts` has 8 elements and holds earlier votes.

There is a program for `BLOCK = 16` keys; key `i` lies `i * stride` elements behind the first one.
The votes are skewed: many programs count for the same few keys at the same time.""",
    parameters=("keys_ptr", "counts_ptr", "n", "stride"),
    strides={"keys_ptr": ("stride",)},
    constants={"BLOCK": 16},
    grid=lambda n, BLOCK: (cdiv(n, BLOCK),),
    shown=Case("shown", {"n": 40}),
    hidden=_many,
    data=_votes,
    reference=_counted,
    widest=256,
    hints=(
        "`tl.atomic_add(pointers, 1, mask=...)` adds to what other programs count, too.",
        "A lane that is off must not vote for key 0.",
        "`tl.histogram` counts a whole tile first; then there is one atomic for each of 8 counts.",
    ),
    start="""\
@wb.jit
def votes(keys_ptr, counts_ptr, n, stride, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ...
""",
    solution="""\
@wb.jit
def votes(keys_ptr, counts_ptr, n, stride, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keys = tl.load(keys_ptr + i * stride, mask=i < n, other=0)
    tl.atomic_add(counts_ptr + keys, 1, mask=i < n)
""",
    question=Question(
        "How many elements do atomics update in your launch, all programs together, and what is "
        "their scope?",
        "a number and a word, e.g. 8, 'cta'",
        "`puzzles.record(7)` counts the lanes that are on; the op in `%tile votes` has the scope "
        'where it is not the default, "gpu".',
        facts.atomics,
    ),
)


# -- 9 ----------------------------------------------------------------------------------------
#: Partial results for which there is room.
ROOM = 64

LAST_ONE = Puzzle(
    number=9,
    name="mean",
    title="Last one adds up",
    task="""\
The mean of `n` floats, in one launch: `out[0] = (x[0] + … + x[n - 1]) / n`.

There is a program for `BLOCK = 32` elements, and at least one. Nobody knows which program is the
last to finish, but a counter can tell: `arrived[0]` is 0 at first. `partial` has room for 64
floats. The program that finds all others done adds their sums up. The mean of nothing is 0 / 0.""",
    parameters=("x_ptr", "partial_ptr", "arrived_ptr", "out_ptr", "n", "stride"),
    strides={"x_ptr": ("stride",)},
    constants={"BLOCK": 32},
    grid=lambda n, BLOCK: (max(1, cdiv(n, BLOCK)),),
    shown=Case("shown", {"n": 70}),
    hidden=_many,
    data=lambda draw, sizes: {
        "x_ptr": Data(floats(draw, sizes["n"])),
        "partial_ptr": Data(floats(draw, ROOM), "scratch"),
        "arrived_ptr": Data(np.zeros(1, np.int32), "inout"),
        "out_ptr": Data(floats(draw, 1), "out"),
    },
    reference=lambda x_ptr, arrived_ptr, BLOCK: {
        "out_ptr": x_ptr.sum().reshape(1) / x_ptr.numel()
        if x_ptr.numel()
        else x_ptr.new_full((1,), float("nan"))
    },
    widest=64,
    hints=(
        "`before = tl.atomic_add(arrived_ptr, 1)` gives each program another number; the last one "
        "gets `tl.num_programs(0) - 1`.",
        "Store your sum first, count second: an atomic releases what came before it, and acquires "
        "what others released.",
        "`if before == tl.num_programs(0) - 1:` and a load of all partial sums.",
    ),
    start="""\
@wb.jit
def mean(x_ptr, partial_ptr, arrived_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ...
""",
    solution="""\
@wb.jit
def mean(x_ptr, partial_ptr, arrived_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * stride, mask=i < n, other=0.0)
    tl.store(partial_ptr + tl.program_id(0), tl.sum(x))
    before = tl.atomic_add(arrived_ptr, 1)
    programs = tl.num_programs(0)
    if before == programs - 1:
        total = 0.0
        for p in range(programs):
            total += tl.load(partial_ptr + p)
        tl.store(out_ptr, total / n)
""",
    question=Question(
        "You wrote no barrier; on a GPU your kernel has some. Which ops stand right behind a "
        "`gpu.barrier`?",
        "the names of the ops in their order, e.g. 'tile.load', 'tile.store'",
        "`%gpu mean` shows the GPU IR for sm_90a.",
        facts.after_barriers,
    ),
)
