"""What is said never makes code worse, and works wherever it is said."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from tests.bench.hints import HINTS, Hint, Kernel, checked, code_of, corpus, watched, with_loops
from tests.language.harness import from_text
from tests.passes.corpus import Case, cases
from tests.passes.corpus import tile_ir as lowered
from workbench.ir import Module
from workbench.ops import Load, Store
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes

#: Kernels that each had a hint which made them worse, and others unlike them; the rest are for
#: `python -m tests.bench.hints`.
SAMPLE = ("max_pool2d", "avg_pool2d", "chunked", "rope_half", "cross_entropy", "swiglu")


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_what_is_true_may_be_said_anywhere(case: Case):
    """No access gets narrower, and the kernel hardly longer."""
    kernel = watched(case)
    assert kernel.runs
    few = [hint for hint in HINTS if hint.name in ("all promises", "assumptions")]
    assert not list(checked(kernel, few))


@pytest.mark.parametrize("name", SAMPLE)
def test_no_hint_makes_code_worse(name: str):
    for kernel in corpus(name):
        assert not list(checked(kernel, HINTS))


def test_what_is_worse_is_found():
    def unaligned(kernel: Kernel) -> Module:
        parameters = [replace(p, divisible=1) for p in kernel.module.parameters]
        return replace(kernel.module, parameters=tuple(parameters))

    kernels = {case.name: case for case in cases()}
    found = list(checked(watched(kernels["add fp32 1000 by 512"]), [Hint("none", unaligned)]))
    assert len(found) == 3
    assert "ld of 4 bytes, 16 before" in found[0]
    late = Hint("num_stages=1", partial(with_loops, stages=1))
    found = [text for product in corpus("wide_blocks") for text in checked(product, [late])]
    assert any("not copied ahead any more" in text for text in found)


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
    last = [op.id for op in module.walk() if isinstance(op, Load)][-1]
    return len(code_of(module, {}).accesses[last, "ld"])


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
    found = code_of(module, {}).accesses
    last = [op.id for op in module.walk() if isinstance(op, Load)][-1]
    inner = next(op.id for op in module.walk() if isinstance(op, Store))
    assert len(found[last, "ld"]) == 8
    assert len(found[inner, "st"]) == 1


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


@pytest.mark.parametrize("said", ["tl.multiple_of(n, 32)", "tl.assume(n % 32 == 0)"])
def test_more_than_an_access_needs_is_for_what_is_divided_later(said: str):
    text = """
def rows(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    SAID
    row, byte = tl.program_id(0) * (n // 2), tl.arange(0, BLOCK)
    tl.store(out_ptr + row + byte, tl.load(x_ptr + row + byte))
"""
    types = "*i8:16 *i8:16 i32:16"
    kernels = [from_text(text.replace("SAID", word)) for word in (said, "pass")]
    wide, narrow = (loads_of(lowered(kernel, types, {"BLOCK": 2048})) for kernel in kernels)
    assert (wide, narrow) == (1, 2)
