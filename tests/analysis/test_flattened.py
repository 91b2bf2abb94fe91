"""Indices flattened into one and taken apart by // and %: claims about them, by brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.analysis.test_affine import facts_of, look_at
from tests.passes.corpus import tile_ir
from workbench.analysis.affine import Affine
from workbench.ops import Load
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes


def taps(x_ptr, y_ptr, H, W, C, D, BK: tl.constexpr, FORM: tl.constexpr):
    """Taps and channels of a convolution of 2 x 3 as one index, and other ways to flatten."""
    for start in range(0, 6 * C, BK):
        k = start + tl.arange(0, BK)
        if FORM == "from outside":
            r, rest = k // (3 * C), k % (3 * C)
            s, c = rest // C, rest % C
        elif FORM == "from inside":
            r, s, c = k // C // 3, k // C % 3, k % C
        else:
            r, s, c = k // (3 * C), (k // C) % 3, k % C
        h, w = r - 1 + tl.program_id(0), s - 1
        mask = (h >= 0) & (h < H) & (w >= 0) & (w < W) & (k < 6 * C)
        if FORM == "groups":  # scales of groups beside what they scale
            at, mask = (k // C) * D + k % C, k < 6 * C
        else:
            at = (h * W + w) * D + c
        tl.store(y_ptr + k, tl.load(x_ptr + at, mask=mask, other=0.0), mask=k < 6 * C)


@pytest.mark.parametrize("form", ["from outside", "from inside", "mixed", "groups"])
@pytest.mark.parametrize(("divisible", "width"), [(16, 4), (4, 4), (2, 2), (1, 1)])
def test_flattened_indices_are_as_wide_as_what_divides_them(form: str, divisible: int, width: int):
    words = f"*fp32:16 *fp32:16 i32 i32 i32:{divisible} i32:{divisible}"
    module = tile_passes(tile_ir(taps, words, {"BK": 16, "FORM": form}), Recorder())
    facts = Affine(module, tiles=True)
    (load,) = (op for op in module.walk() if isinstance(op, Load))
    found = facts.vector(load.pointers, 0, load.mask)
    assert load.mask is not None
    assert min(found, facts.mask_run(load.mask, 0, 16)) == width
    if divisible in (1, 4):
        for c in (divisible, 5 * divisible):
            x, y = np.arange(4096, dtype=np.float32), np.zeros(4096, np.float32)
            look_at(module, (2,), [x, y, 3, 4, c, 6 * divisible])


CARRIED: str = """
  %zero = tile.constant {{value = 0, type = i32}} : i32
  %one = tile.constant {{value = 1, type = i32}} : i32
  %x = tile.iota {{start = 0, type = tile<16xi32>}} : tile<16xi32>
  %two = tile.constant {{value = 2, type = tile<16xi32>}} : tile<16xi32>
  %half = tile.div [%x, %two] : tile<16xi32>
  %steps = tile.splat %s {{shape = (16,)}} : tile<16xi32>
  %rows = tile.mul [%half, %steps] {{no_wrap = True}} : tile<16xi32>
  %a, %b = tile.for %zero, %n, %one, [%rows, %s] {{
  ^(%k: i32, %held: tile<16xi32>, %by: i32):
    %odd = tile.rem [%k, %n] : i32
    %past = tile.gt [%odd, %one] : i1
    %anew, %other = tile.if %past {{
      %moved = tile.mul [%k, %s] {wrap} : i32
      %far = tile.splat %moved {{shape = (16,)}} : tile<16xi32>
      %next = tile.add [%rows, %far] {{no_wrap = True}} : tile<16xi32>
      tile.yield [%next, %moved]
    }} {{
      tile.yield [%held, %by]
    }} : tile<16xi32>, i32
    tile.yield [%anew, %other]
  }} : tile<16xi32>, i32
"""


@pytest.mark.parametrize(("divisible", "found"), [(16, 16), (12, 4), (1, 1)])
@pytest.mark.parametrize("wrap", ["", "{no_wrap = True}"])
def test_what_a_branch_gives_is_divided_by_what_divides_both(wrap: str, divisible: int, found: int):
    """Whether it is a tile or a number that a loop carries through branches; products may wrap."""
    parameters = f", %n: i32, %s: i32 {{divisible = {divisible}}}"
    facts, values = facts_of(CARRIED.format(wrap=wrap), parameters, tiles=True)
    for name in ("a", "b", "anew", "held"):
        value: Any = values.get(name) or next(
            v
            for v in facts._forms
            if v.hint == name  # pyright: ignore[reportPrivateUsage]
        )
        form = facts.form(value)
        assert form is not None
        assert facts.divisor(form) % found == 0
        assert wrap == "" or divisible == 1 or facts.divisor(form) % divisible == 0
    assert facts.divisor(facts.form(values["b"])) in (found, divisible)  # type: ignore[arg-type]
