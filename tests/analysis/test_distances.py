"""How far apart scalars are, found from what they are made of alone."""

from __future__ import annotations

from typing import Any

import pytest

import workbench.language as tl
from tests.passes.corpus import tile_ir
from workbench.analysis.distances import Distances
from workbench.ops import For


def loops(x_ptr, n, FORM: tl.constexpr):
    """A loop between two scalars of some form."""
    block = tl.program_id(0)
    if FORM == "blocks":
        first, last = block * 64, (block + 1) * 64
    elif FORM == "rest":
        first, last = n // 64 * 64, n // 64 * 64 + 63
    elif FORM == "loaded":
        first = tl.load(x_ptr + block)
        last = first + 5
    elif FORM == "chosen":
        first, last = tl.minimum(n, block), tl.minimum(n, block) - 2
    elif FORM == "others":
        first, last = block, n
    elif FORM == "squares":
        first, last = block * block, (block + 1) * (block + 1)
    else:  # a sum of itself so often that nobody may go each way to its parts
        first = n % 2
        for _ in tl.static_range(40):
            first = first + first
        last = first + 1
    for i in range(first, last):
        tl.store(x_ptr + i, i)


DISTANCES = {
    "blocks": 64, "rest": 63, "loaded": 5, "chosen": -2, "others": None, "squares": None,
}  # fmt: skip


def distance(form: str) -> int | None:
    module = tile_ir(loops, "*i32 i32", {"FORM": form})
    (loop,) = (op for op in module.walk() if isinstance(op, For))
    return Distances(module).between(loop.lower, loop.upper)


@pytest.mark.parametrize(("form", "wanted"), DISTANCES.items())
def test_distances_of_bounds(form: str, wanted: Any):
    assert distance(form) == wanted


def test_shared_parts_are_looked_at_once():
    assert distance("doubled") in (None, 1)
