"""Arithmetic on 8-bit floats: all pairs of codes, computed in f32 and rounded as casts round."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.language.harness import from_text
from tests.passes.corpus import tile_ir
from tests.targets.everywhere import TARGETS, run_on
from workbench.ir import Scalar
from workbench.ops.numbers import round_to
from workbench.ops.small_floats import SMALL_FLOATS, table
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.nvidia import pipeline

KINDS = {"float8e4nv": "f8e4m3", "float8e5": "f8e5m2", "float8e4b8": "f8e4b8",
         "float8e5b16": "f8e5b16", "float8e4b15": "f8e4b15"}  # fmt: skip
ELEMENTS = {str(element): element for element in SMALL_FLOATS}

FLOATS = {
    "a + b": np.add, "a - b": np.subtract, "a * b": np.multiply, "a / b": np.divide,
    "a % b": np.fmod, "tl.maximum(a, b)": np.fmax, "tl.minimum(a, b)": np.fmin,
    "-a": lambda a, b: 0 - a, "a * 0.3": None,
    "tl.fma(a, b, a)": lambda a, b: (np.float64(a) * b + a).astype(np.float32),
}  # fmt: skip
TRUTHS = {"a < b": np.less, "a <= b": np.less_equal, "a > b": np.greater,
          "a >= b": np.greater_equal, "a == b": np.equal, "a != b": np.not_equal}  # fmt: skip


def kernel(kind: str):
    """Return a kernel that stores the codes of each function of all pairs of codes."""
    stores = [f"({text}).to(tl.uint8, bitcast=True)" for text in FLOATS]
    stores += [f"({text}).to(tl.uint8)" for text in TRUTHS]
    lines = [f"    tl.store(out + {n} * 65536 + i, {text})" for n, text in enumerate(stores)]
    body = "\n".join(lines)
    return from_text(
        "def kernel(out, B: tl.constexpr):\n"
        "    i = tl.program_id(0) * B + tl.arange(0, B)\n"
        f"    a = (i % 256).to(tl.uint8).to(tl.{kind}, bitcast=True)\n"
        f"    b = (i // 256).to(tl.uint8).to(tl.{kind}, bitcast=True)\n{body}\n"
    )


@cache
def expected(element: Scalar) -> np.ndarray:
    """Return the codes, of NaN the one that conversions give, as `kernel` stores them."""
    values = table(element)
    a, b = np.tile(values, 256), np.repeat(values, 256)
    with np.errstate(all="ignore"):
        weak = round_to(0.3, element)
        floats = [a * weak if f is None else f(a, b) for f in FLOATS.values()]
        # A choice of one is not rounded, nor is a change of sign: both are among the codes.
        chosen = [text.startswith(("tl.m", "-")) for text in FLOATS]
        truths = [f(a, b) for f in TRUTHS.values()]
        found = [x if c else np.asarray(round_to(x, element))
                 for x, c in zip(floats, chosen, strict=True)]  # fmt: skip
    return np.concatenate([*found, *truths]).astype(np.float32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_pair_of_codes(kind: str, target: str):
    element = ELEMENTS[KINDS[kind]]
    out = np.zeros((len(FLOATS) + len(TRUTHS)) * 65536, np.uint8)
    run_on(target, kernel(kind), grid=(16,), out=out, B=4096)
    floats = len(FLOATS) * 65536
    held = np.concatenate([table(element)[out[:floats]], out[floats:].astype(np.float32)])
    for n, text in enumerate([*FLOATS, *TRUTHS]):
        part = slice(n * 65536, (n + 1) * 65536)
        np.testing.assert_array_equal(held[part], expected(element)[part], text)


TILED = """
    def kernel(out, B: tl.constexpr):
        i = tl.arange(0, B)
        a = (i * 3).to(tl.uint8).to(tl.KIND, bitcast=True)
        b = (i * 5 + 1).to(tl.uint8).to(tl.KIND, bitcast=True)
        tl.store(out + i, (a + b).to(tl.uint8, bitcast=True))
        tl.store(out + i, (a * 0.5 - tl.minimum(a, b)).to(tl.uint8, bitcast=True), a < b)
        tl.store(out + i, tl.where(a == b, a, -b).to(tl.uint8, bitcast=True), a != 1.0)
        tl.store(out, tl.sum(a, 0).to(tl.uint8, bitcast=True))
        tl.store(out + 1, tl.max(a, 0).to(tl.float32).to(tl.uint8))
        tl.store(out + 2, tl.argmin(b, 0).to(tl.uint8))
        tl.store(out + i, tl.cumsum(a, 0).to(tl.KIND).to(tl.uint8, bitcast=True))
        tl.store(out + i, tl.sort(b).to(tl.uint8, bitcast=True))
"""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
def test_gpus_compile_all_of_it(kind: str, chip: str):
    module = tile_ir(from_text(TILED.replace("KIND", kind)), "*u8", {"B": 256})
    recorder = Recorder()
    built = pipeline.build(tile_passes(module, recorder), chip, recorder)
    assert ".visible .entry kernel" in built.texts["ptx"]().text


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", KINDS)
def test_sorting_has_nan_behind_all_numbers(kind: str, target: str):
    function = from_text(f"""
        def kernel(out, B: tl.constexpr):
            codes = ((tl.arange(0, B) * 37) % 256).to(tl.uint8)
            sorted = tl.sort(codes.to(tl.{kind}, bitcast=True))
            tl.store(out + tl.arange(0, B), sorted.to(tl.uint8, bitcast=True))
    """)
    out = np.zeros(256, np.uint8)
    run_on(target, function, out=out, B=256)
    values = table(ELEMENTS[KINDS[kind]])
    np.testing.assert_array_equal(values[out], np.sort(values))
