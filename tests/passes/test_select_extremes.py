"""A choice by the sign of a number is an extreme, of every number there is, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.meaning import first_difference, meaning
from workbench.ir import Module, parse_module, walk
from workbench.ops import Select
from workbench.passes.manager import Remarks
from workbench.passes.select_extremes import select_extremes

#: 1.0001 is 1 in f16, 1e-9 is 0, 1e5 is infinite.
FACTORS = (0.01, 0.3333, 1.0, 1.0001, 2.5, 6e4, 6e-8, 1e-9, 0.0, 1e5, -0.25)
PROVEN = FACTORS[:7]
ALL = 1 << 16


def choice(
    comparison: str, factor: float, element: str = "f16", *, first: bool, zero_first: bool
) -> Module:
    """Return a kernel that chooses between x and a multiple of it; `first`: x where that holds."""
    compared = "%none, %x" if zero_first else "%x, %none"
    chosen = "%x, %multiple" if first else "%multiple, %x"
    tile = f"tile<{ALL}x{element}>"
    return parse_module(f"""
kernel @choose(%p: ptr<{element}>, %q: ptr<{element}>) {{num_warps = 4}} {{
  %i = tile.iota {{start = 0, type = tile<{ALL}xi32>}} : tile<{ALL}xi32>
  %ps = tile.splat %p {{shape = ({ALL},)}} : tile<{ALL}xptr<{element}>>
  %pp = tile.add_pointer %ps, %i : tile<{ALL}xptr<{element}>>
  %x = tile.load %pp : {tile}
  %none = tile.constant {{value = 0, type = {tile}}} : {tile}
  %factor = tile.constant {{value = {factor}, type = {tile}}} : {tile}
  %asked = tile.{comparison} [{compared}] : tile<{ALL}xi1>
  %multiple = tile.mul [%x, %factor] : {tile}
  %chosen = tile.select %asked, {chosen} : {tile}
  %qs = tile.splat %q {{shape = ({ALL},)}} : tile<{ALL}xptr<{element}>>
  %qp = tile.add_pointer %qs, %i : tile<{ALL}xptr<{element}>>
  tile.store %qp, %chosen
  tile.return
}}
""")


def is_chosen(module: Module) -> bool:
    return any(isinstance(op, Select) for op in walk(module.body))


@pytest.mark.parametrize("zero_first", [False, True])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("comparison", ["ge", "gt", "lt", "le"])
def test_every_half_comes_out_as_before(comparison: str, first: bool, zero_first: bool):
    values = np.arange(ALL, dtype=np.uint16).view(np.float16)
    for factor in FACTORS:
        before = choice(comparison, factor, first=first, zero_first=zero_first)
        after = select_extremes(before, Remarks())
        assert is_chosen(after) == (factor not in PROVEN), factor
        held = [
            meaning(module, (1,), [values.copy(), np.zeros_like(values)])
            for module in (before, after)
        ]
        assert not first_difference(*held), factor


@pytest.mark.parametrize("comparison", ["eq", "ne"])
def test_other_questions_stay(comparison: str):
    module = choice(comparison, 0.5, first=True, zero_first=False)
    assert select_extremes(module, Remarks()) is module


def test_integers_stay():
    module = choice("ge", 2, "i32", first=True, zero_first=False)
    assert is_chosen(select_extremes(module, Remarks()))
