"""What is promised never makes code worse, and works wherever it is said."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.analysis.watching import Watched, watch
from tests.language.harness import from_text
from tests.passes.corpus import Case, cases
from tests.passes.corpus import tile_ir as lowered
from tests.targets.nvidia.test_ptx import CODE
from workbench.ir import Array, Builder, Module, Op, Value, rebuild, shape_of, walk
from workbench.ops import AddPointer, If, Load, Promise, Store
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.nvidia.pipeline import build

_ACCESS = re.compile(r"\b((ld|st)\.(volatile\.)?global|cp\.async\.c|atom|red)")


def ptx(module: Module, **options: Any) -> tuple[Counter[int], int]:
    """Return how many instructions access global memory for each op, and how many there are.

    What is written a second time, for the block at the edge, is not counted again.
    """
    recorder = Recorder()
    given = {"num_warps": 4, "num_stages": 3, "narrow_index": True} | options
    module = replace(module, attributes={**module.attributes, **given})
    built = build(tile_passes(module, recorder), "sm_90a", recorder)
    assert built.gpu is not None
    rows, edge = built.texts["ptx"](), at_the_edge(built.gpu)
    lines = rows.text.splitlines()
    found: Counter[int] = Counter()
    for line, ops in zip(lines, rows.rows, strict=True):
        if _ACCESS.search(line):
            found.update(ops)
    code = [ops for line, ops in zip(lines, rows.rows, strict=True) if CODE["ptx"].match(line)]
    return found, sum(not edge.issuperset(ops) if ops else 1 for ops in code)


def at_the_edge(module: Module) -> set[int]:
    """Return the ops that have a copy, for full blocks, in the other branch."""
    found: set[int] = set()
    for op in module.walk():
        if isinstance(op, If):
            copied = {number for inner in walk(op.then) for number in inner.origins}
            here = {inner.id for inner in walk(op.otherwise)}
            if copied & here:
                found |= here
    return found


class Truths:
    """What holds of all tiles that were the offsets of pointers in a run."""

    def __init__(self, module: Module) -> None:
        self.offsets = {op.offset: op for op in module.walk() if isinstance(op, AddPointer)}
        self.held: dict[Value, list[tuple[int, int, int]]] = {}

    def look(self, frame: Watched, op: Op, value: Value, array: Array) -> None:
        """Note what is so now."""
        if value in self.offsets and shape_of(value.type):
            now = [_runs(np.moveaxis(array, axis, -1)) for axis in range(array.ndim)]
            before = self.held.setdefault(value, now)
            # Powers of two: what holds always is the least of each.
            self.held[value] = [
                (min(a, d), min(b, e), min(c, f))
                for (a, b, c), (d, e, f) in zip(before, now, strict=True)
            ]

    def promise(self, value: Value) -> Promise:
        """Return a promise of all that held of a value."""
        contiguous, constant, divisible = zip(*self.held[value], strict=True)
        return Promise(value, divisible=divisible, contiguous=contiguous, constant=constant)


def _runs(lines: Array) -> tuple[int, int, int]:
    """Return how long aligned runs of consecutive and of equal numbers are, and what divides."""
    lengths = []
    for step in (1, 0):
        length = 1
        while lines.shape[-1] % (2 * length) == 0:
            runs = lines.reshape(-1, 2 * length)
            if np.any(np.diff(runs) != step):
                break
            length *= 2
        lengths.append(length)
    first = np.ones(lines.shape, bool)
    first[..., 1:] = np.diff(lines) != 1
    divisor = int(np.gcd.reduce(lines[first].astype(np.int64), initial=64))
    return lengths[0], lengths[1], divisor & -divisor


def promising(case: Case) -> tuple[Module, int]:
    """Return a case with all that is so promised of all offsets, and how many promises it has."""
    module = case.module()
    truths = Truths(module)
    watch(module, case.grid, case.arguments(), truths.look)
    made = 0

    def rewrite(op: Op, builder: Builder) -> Op | None:
        nonlocal made
        if not isinstance(op, AddPointer) or op.offset not in truths.held:
            return None
        made += 1
        return op.changed(offset=builder.add(truths.promise(op.offset)))

    return rebuild(module, rewrite), made


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_what_is_true_may_be_promised_anywhere(case: Case):
    """No access gets more instructions, and the kernel hardly any."""
    module, made = promising(case)
    assert made
    before, count = ptx(case.module(), **case.options)
    after, promised_count = ptx(module, **case.options)
    worse = {op: (before[op], n) for op, n in after.items() if op in before and n > before[op]}
    assert not worse
    assert promised_count <= count * 1.03 + 4


# -- what promises are for ------------------------------------------------------------------------
GATHER = """
def gather(i_ptr, x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    start = tl.load(i_ptr + tl.program_id(0))
    offsets = start + tl.arange(0, BLOCK)
    FIRST
    pointers = x_ptr + offsets
    THEN
    out = out_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out, tl.load(pointers))
"""
SAYING = [
    ("tl.multiple_of(start, 8)", ""),
    ("tl.multiple_of(offsets, 8)", ""),
    ("offsets = tl.multiple_of(offsets, 8)", ""),
    ("offsets = tl.max_contiguous(tl.multiple_of(offsets, 8), BLOCK)", ""),
    ("", "tl.multiple_of(start, 8)"),
    ("", "tl.multiple_of(offsets, 8)"),
    ("", "tl.multiple_of(pointers, 16)"),
    ("", "pointers = tl.multiple_of(pointers, 16)"),
    ("offsets = tl.where(offsets < n, offsets, 0); tl.multiple_of(offsets, 8); "
     "tl.max_contiguous(offsets, 8)", ""),
    ("offsets = tl.max_contiguous(offsets % n, 8); tl.multiple_of(offsets, 8)", ""),
]  # fmt: skip


def gathering(first: str, then: str) -> Module:
    text = GATHER.replace("FIRST", first or "pass").replace("THEN", then or "pass")
    return lowered(from_text(text), "*i32:16 *fp16:16 *fp16:16 i32", {"BLOCK": 1024})


def loads_of(module: Module) -> int:
    """Return how many instructions load the tile."""
    found, _ = ptx(module)
    last = [op.id for op in module.walk() if isinstance(op, Load)][-1]
    return found[last]


@pytest.mark.parametrize(("first", "then"), SAYING)
def test_a_promise_widens_an_access_wherever_and_however_it_is_said(first: str, then: str):
    assert loads_of(gathering(first, then)) == 1


def test_without_a_promise_loaded_offsets_are_not_aligned():
    assert loads_of(gathering("", "")) == 8


def test_a_promise_in_a_branch_holds_there_only():
    text = GATHER.replace("FIRST", "pass").replace(
        "THEN", "if n > 5:\n        tl.multiple_of(start, 8)\n"
        "        tl.store(x_ptr + 4096 + start + tl.arange(0, BLOCK), 1.0)"
    )  # fmt: skip
    module = lowered(from_text(text), "*i32:16 *fp16:16 *fp16:16 i32", {"BLOCK": 1024})
    found, _ = ptx(module)
    last = [op.id for op in module.walk() if isinstance(op, Load)][-1]
    inner = next(op.id for op in module.walk() if isinstance(op, Store))
    assert found[last] == 8
    assert found[inner] == 1


@pytest.mark.parametrize(
    "said", ["tl.multiple_of(n, 16)", "tl.assume(n % 16 == 0)", "n = tl.multiple_of(n, 16)",
             "tl.assume((n > 0) & (n % 16 == 0))"],
)  # fmt: skip
def test_what_is_said_of_a_parameter_is_a_fact_of_it(said: str):
    text = """
def add(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    SAID
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)
"""
    kernel = from_text(text.replace("SAID", said))
    module = lowered(kernel, "*fp16:16 *fp16:16 i32", {"BLOCK": 1024})
    assert loads_of(module) == 1
    placed = tile_passes(module, Recorder())
    assert placed.parameters[2].divisible == 16
    assert placed.parameters[2].low == (1 if "n > 0" in said else None)
