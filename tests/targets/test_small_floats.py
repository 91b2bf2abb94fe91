"""8-bit floats that no chip of NVIDIA converts: all codes, and what rounds to each of them.

The reference is arithmetic in float64 over the table of a format's values, written out here.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.language.harness import from_text
from tests.targets.everywhere import TARGETS, run_on
from workbench.ops.small_floats import SMALL_FLOATS, table

#: name -> (exponent bits, mantissa bits, bias, code of the largest value conversions give)
FORMATS = {"float8e4b8": (4, 3, 8, 0x7F), "float8e5b16": (5, 2, 16, 0x7F),
           "float8e4b15": (4, 3, 15, 0x7E)}  # fmt: skip
BLOCK = 1024


@cache
def values(name: str) -> np.ndarray:
    """Return what each of the 256 codes stands for."""
    _, mantissa, bias, _ = FORMATS[name]
    codes = np.arange(256)
    exponent, fraction = (codes & 0x7F) >> mantissa, codes & ((1 << mantissa) - 1)
    scale = np.ldexp(1.0, np.maximum(exponent, 1) - bias - mantissa)
    number = (fraction + np.where(exponent > 0, 1 << mantissa, 0)) * scale
    number = np.where(codes & 0x80, -number, number)
    if name != "float8e4b15":
        number[0x80] = np.nan
    return number


def rounded(x: np.ndarray, name: str, rounding: str) -> np.ndarray:
    """Return the codes of float64 numbers."""
    largest = FORMATS[name][3]
    sizes = values(name)[: largest + 1]
    size = np.where(np.isnan(x), 0, np.minimum(np.abs(x), sizes[-1]))
    below = np.searchsorted(sizes, size, side="right") - 1
    above = np.minimum(below + 1, largest)
    low, high = size - sizes[below], sizes[above] - size
    up = (rounding == "rtne") & ((high < low) | ((high == low) & (below % 2 == 1)))
    code = np.where(up, above, below) | (np.signbit(x) << 7)
    if name == "float8e4b15":  # no NaN: the largest stands for it
        return np.where(np.isnan(x), largest | (np.signbit(x) << 7), code)
    return np.where(np.isnan(x), 0x80, np.where(code == 0x80, 0, code))


@cache
def probes(name: str, source: str) -> np.ndarray:
    """Return all half floats, or values, ties and their neighbours in both directions."""
    if source == "float16":
        return np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    sizes = np.sort(values(name)[:128])
    beyond = [sizes[-1] * f for f in (1.01, 1.1, 2, 1e9)] + [1e-30, np.inf, np.nan]
    points = np.concatenate([sizes, (sizes[1:] + sizes[:-1]) / 2, beyond]).astype(source)
    beside = [np.nextafter(points, np.array(d, source)) for d in (0, np.inf)]
    found = np.concatenate([points, *beside])
    found = np.concatenate([found, -found])
    return np.resize(found, -(-found.size // BLOCK) * BLOCK)


@pytest.mark.parametrize("name", FORMATS)
def test_the_table_of_values(name: str):
    element = {str(e): e for e in SMALL_FLOATS}[name.replace("float8", "f8")]
    assert np.array_equal(table(element).astype(np.float64), values(name), equal_nan=True)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", FORMATS)
def test_all_codes_widen_and_go_through_memory(name: str, target: str):
    function = from_text(f"""
        def widen(f16, f32, f64, back, x):
            i = tl.arange(0, 256)
            held = tl.load(x.to(tl.pointer_type(tl.{name})) + i)
            tl.store(f16 + i, held.to(tl.float16))
            tl.store(f32 + i, held.to(tl.float32))
            tl.store(f64 + i, held.to(tl.float64))
            tl.store(back.to(tl.pointer_type(tl.{name})) + i, held)
    """)
    outs: dict[str, Any] = {f"f{b}": np.zeros(256, f"float{b}") for b in (16, 32, 64)}
    codes, back = np.arange(256, dtype=np.uint8), np.zeros(256, np.uint8)
    run_on(target, function, **outs, back=back, x=codes)
    assert np.array_equal(back, codes)
    for got in outs.values():
        want = values(name)
        assert np.array_equal(got.astype(np.float64), want, equal_nan=True)
        assert (np.signbit(got) == np.signbit(want))[~np.isnan(want)].all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", FORMATS)
def test_numbers_round_once(name: str, source: str, target: str):
    function = from_text(f"""
        def narrow(near, cut, x, B: tl.constexpr):
            i = tl.program_id(0) * B + tl.arange(0, B)
            held = tl.load(x + i)
            tl.store(near.to(tl.pointer_type(tl.{name})) + i, held.to(tl.{name}))
            short = held.to(tl.{name}, fp_downcast_rounding="rtz")
            tl.store(cut.to(tl.pointer_type(tl.{name})) + i, short)
    """)
    x = probes(name, source).copy()
    outs = {word: np.zeros(x.size, np.uint8) for word in ("near", "cut")}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_on(target, function, grid=(x.size // BLOCK,), **outs, x=x, B=BLOCK)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
    for got, rounding in ((outs["near"], "rtne"), (outs["cut"], "rtz")):
        want = rounded(wide, name, rounding)
        wrong = np.flatnonzero((got != want) & ~((x != x) & (name == "float8e4b15")))
        assert not wrong.size, (rounding, wrong.size, x[wrong[:4]], got[wrong[:4]], want[wrong[:4]])
        assert (got[x != x] & 0x7F == want[x != x] & 0x7F).all()


@pytest.mark.parametrize("target", TARGETS)
def test_values_and_products_of_them(target: str):
    """abs, a cast between two of the formats, and a dot."""
    function = from_text("""
        def mixed(sizes, other, product, x):
            i = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
            held = tl.load(x + i).to(tl.float8e4b8, bitcast=True)
            tl.store(sizes + i, tl.abs(held).to(tl.uint8, bitcast=True))
            tl.store(other + i, held.to(tl.float8e5b16).to(tl.uint8, bitcast=True))
            small = tl.load(x + i * 0 + 0x38 + (i % 2)).to(tl.float8e4b8, bitcast=True)
            tl.store(product + i, tl.dot(small, small))
    """)
    codes = np.arange(256, dtype=np.uint8)
    sizes, other = np.zeros(256, np.uint8), np.zeros(256, np.uint8)
    product = np.zeros((16, 16), np.float32)
    run_on(target, function, sizes=sizes, other=other, product=product, x=codes)
    assert np.array_equal(sizes, np.where(codes == 0x80, 0x80, codes & 0x7F))
    assert np.array_equal(other, rounded(values("float8e4b8"), "float8e5b16", "rtne"))
    small = values("float8e4b8")[0x38 + np.arange(256).reshape(16, 16) % 2]
    assert np.array_equal(product, (small @ small).astype(np.float32))
