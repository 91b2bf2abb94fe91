"""Casts of floats on every target: all 16-bit patterns, ties, boundaries, NaN and infinities."""

from __future__ import annotations

import math
import re
import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from tests.language.harness import Typed, from_text
from tests.passes.corpus import tile_ir
from tests.targets.everywhere import TARGETS, run_on
from workbench.ir import F32
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.nvidia import pipeline

BLOCK = 2048
FLOATS = {
    "float64": torch.float64, "float32": torch.float32, "float16": torch.float16,
    "bfloat16": torch.bfloat16, "float8e4nv": torch.float8_e4m3fn, "float8e5": torch.float8_e5m2,
}  # fmt: skip
BITS = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
NARROW = ("float16", "bfloat16", "float8e4nv", "float8e5")
PAIRS = [
    ("float64", "float32"),
    *((s, t) for s in ("float64", "float32") for t in NARROW),
    *((s, t) for s in ("float16", "bfloat16") for t in NARROW if s != t),
    ("float8e4nv", "float8e5"),
    ("float8e5", "float8e4nv"),
]


@cache
def every(word: str) -> torch.Tensor:
    """Return all values of a type of 8 or 16 bits, by code."""
    dtype = FLOATS[word]
    codes = torch.arange(1 << 8 * dtype.itemsize, dtype=torch.int32)
    return codes.to(BITS[dtype.itemsize]).view(dtype)


@cache
def magnitudes(word: str) -> np.ndarray:
    """Return the finite values from 0 upwards, and what would follow the largest."""
    values = every(word)[: 1 << (8 * FLOATS[word].itemsize - 1)].double().numpy()
    values = values[np.isfinite(values)]
    return np.append(values, 2 * values[-1] - values[-2])


@cache
def probes(source: str, to: str) -> torch.Tensor:
    """Return values of a type that show how a conversion rounds."""
    dtype = FLOATS[source]
    if dtype.itemsize <= 2:
        return every(source)
    random = np.random.default_rng(7)
    special = [0, math.inf, math.nan, 1e-320, 1e-45, 1e-40, 2.0**-127, 3.4e38, 1e39, 1.7e308, 65504,
               65519.99, 65520, 57344, 61440, 61439.9, 448, 464, 463.99, 480]  # fmt: skip
    if to == "float32":
        near = random.standard_normal(4000).astype(np.float32)
        steps = np.nextafter(near, np.float32(9)).astype(np.float64)
        points = [near, (near.astype(np.float64) + steps) / 2, random.standard_normal(4000)]
        points.append(np.ldexp(random.random(4000), -random.integers(120, 152, 4000)))
    else:
        table = magnitudes(to)
        points = [table, (table[1:] + table[:-1]) / 2]
    with np.errstate(all="ignore"):
        held = np.concatenate([*points, special]).astype(source)
    # A hair beside a tie: what rounding twice would make one.
    hair = [held * (1 + step) for step in (2.0**-40, -(2.0**-40))] if source == "float64" else []
    beside = [np.nextafter(held, held.dtype.type(d)) for d in (0, math.inf)]
    found = np.concatenate([held, *beside, *hair])
    return torch.from_numpy(np.concatenate([found, -found]))


def rounded(x: np.ndarray, to: str, rounding: str) -> np.ndarray:
    """Return float64 numbers as those of a narrower type, by comparing with all of its values."""
    if to == "float32":
        near = x.astype(np.float32)
        inward = np.nextafter(near, np.float32(0))
        away = np.abs(near.astype(np.float64)) > np.abs(x)
        return np.where(away & (rounding == "rtz"), inward, near).astype(np.float64)
    table, size = magnitudes(to), np.abs(np.where(np.isnan(x), 0, x))
    small = FLOATS[to].itemsize == 1
    below = np.clip(np.searchsorted(table, size, side="right") - 1, 0, table.size - 2)
    low, high = size - table[below], table[below + 1] - size
    up = (high < low) | ((high == low) & (below % 2 == 1))
    code = below + (up & (rounding == "rtne"))
    largest = table[-2] if small else np.inf
    result = np.where(code > table.size - 2, largest, table[np.minimum(code, table.size - 2)])
    result = np.where(np.isinf(size), largest, result)
    return np.where(np.isnan(x), np.nan, np.copysign(result, x))


def padded(values: torch.Tensor) -> torch.Tensor:
    raw = values.view(BITS[values.element_size()]).numpy()
    whole = np.resize(raw, -(-raw.size // BLOCK) * BLOCK)
    return torch.from_numpy(whole).view(values.dtype)


def same(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    nan = np.isnan(a) & np.isnan(b)
    return nan | ((a == b) & (np.signbit(a) == np.signbit(b)))


@cache
def cast_kernel(to: str, rounding: str) -> Any:
    tail = "" if rounding == "rtne" else ', fp_downcast_rounding="rtz"'
    return from_text(f"""
        def convert(out, x, B: tl.constexpr):
            i = tl.program_id(0) * B + tl.arange(0, B)
            tl.store(out + i, tl.load(x + i).to(tl.{to}{tail}))
    """)


def narrows(source: str, to: str) -> bool:
    return FLOATS[to].itemsize < FLOATS[source].itemsize


ROUNDED = [(*p, r) for p in PAIRS for r in ("rtne", "rtz") if r == "rtne" or narrows(*p)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "to", "rounding"), ROUNDED)
def test_floats_round_once_to_narrower_floats(source: str, to: str, rounding: str, target: str):
    x = padded(probes(source, to))
    out = torch.zeros(x.numel(), dtype=FLOATS[to])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_on(target, cast_kernel(to, rounding), grid=(x.numel() // BLOCK,), out=out, x=x, B=BLOCK)
    with np.errstate(all="ignore"):
        want = rounded(x.double().numpy(), to, rounding)
    got = out.double().numpy()
    wrong = np.flatnonzero(~same(got, want))
    assert not wrong.size, (wrong.size, x[wrong[:4]], got[wrong[:4]], want[wrong[:4]])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("to", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("source", ["bfloat16", "float16", "float8e4nv", "float8e5"])
def test_floats_widen_exactly(source: str, to: str, target: str):
    if FLOATS[to].itemsize <= FLOATS[source].itemsize:
        pytest.skip("not wider")
    x = padded(every(source))
    out = torch.zeros(x.numel(), dtype=FLOATS[to])
    run_on(target, cast_kernel(to, "rtne"), grid=(x.numel() // BLOCK,), out=out, x=x, B=BLOCK)
    assert same(out.double().numpy(), x.double().numpy()).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("source", "to", "rounding"), ROUNDED)
def test_scalars_and_constants_round_like_tiles(source: str, to: str, rounding: str, target: str):
    """One value: loaded as a scalar, and known when the kernel is compiled."""
    tail = "" if rounding == "rtne" else ', fp_downcast_rounding="rtz"'
    numbers = (0.3, -2.7, 60000.0, 1e9, -1e300, 463.0, 1e-6, math.inf, 0.0)
    rows = "\n".join(
        f"            c = tl.full((), {number!r}, tl.{source})\n"
        f"            tl.store(out + {2 * row}, tl.load(x + {row}).to(tl.{to}{tail}))\n"
        f"            tl.store(out + {2 * row + 1}, c.to(tl.{to}{tail}))"
        for row, number in enumerate(numbers)
    ).replace("inf", 'float("inf")')
    function = from_text(f"""
        def convert(out, x):
{rows}
    """)
    with np.errstate(all="ignore"):
        held = np.array(numbers)
        held = held if source == "float64" else rounded(held, source, "rtne")
    held = torch.from_numpy(held).to(FLOATS[source])
    out = torch.zeros(2 * len(numbers), dtype=FLOATS[to])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_on(target, function, out=out, x=held)
    with np.errstate(all="ignore"):
        want = np.repeat(rounded(held.double().numpy(), to, rounding), 2)
    assert same(out.double().numpy(), want).all(), (held, out, want)


# -- floats to integers ---------------------------------------------------------------------------
NUMBERS = (
    0.0, -0.0, 0.5, -0.5, 0.999, -0.999, 1.0, -1.0, 1.5, -1.5, 126.9, 127.0, 127.5, 128.0, -128.0,
    -128.9, -129.0, 255.0, 255.9, 256.0, 32767.5, 32768.0, -32768.5, -32769.0, 65535.5, 65536.0,
    2147483520.0, 2147483647.0, 2147483648.0, -2147483648.0, -2147483904.0, 4294967040.0,
    4294967295.0, 4294967296.0, 9.2e18, 2.0**63, -(2.0**63), -9.3e18, 1.8e19, 2.0**64, 1e30, -1e30,
    1e300, -1e300, 5e-324, math.inf, -math.inf, math.nan,
)  # fmt: skip


def whole(x: float, word: str) -> int:
    """Return a float as an integer, in Python's exact arithmetic."""
    if x != x:
        return 0
    info = np.iinfo(word)
    if math.isinf(x):
        return int(info.max if x > 0 else info.min)
    return min(max(int(x), int(info.min)), int(info.max))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", FLOATS)
def test_floats_saturate_to_integers(source: str, target: str):
    values = every(source) if FLOATS[source].itemsize <= 2 else torch.tensor(NUMBERS).double()
    x = padded(values.to(FLOATS[source]))
    rows = "\n".join(f"            tl.store({word}_out + i, x.to(tl.{word}))" for word in INTEGERS)
    function = from_text(f"""
        def convert(x_in, bool_out, {", ".join(f"{w}_out" for w in INTEGERS)}, B: tl.constexpr):
            i = tl.program_id(0) * B + tl.arange(0, B)
            x = tl.load(x_in + i)
            tl.store(bool_out + i, x.to(tl.int1))
{rows}
    """)
    outs: dict[str, Any] = {f"{w}_out": np.zeros(x.numel(), w) for w in (*INTEGERS, "bool")}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        grid = (x.numel() // BLOCK,)
        run_on(target, function, grid=grid, **{"x_in": x, **arranged(outs), "B": BLOCK})
    numbers = x.double().tolist()
    assert (outs["bool_out"] == np.array([n != 0 for n in numbers])).all()
    for word in INTEGERS:
        want = np.array([whole(n, word) for n in numbers], word)
        wrong = np.flatnonzero(outs[f"{word}_out"] != want)
        assert not wrong.size, (word, x[wrong[:4]], outs[f"{word}_out"][wrong[:4]])


def arranged(outs: dict[str, Any]) -> dict[str, Any]:
    """Return outputs in the order of the kernel's parameters."""
    return {"bool_out": outs["bool_out"], **{f"{w}_out": outs[f"{w}_out"] for w in INTEGERS}}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("word", INTEGERS)
def test_folded_floats_become_the_integers_of_run_time(word: str, target: str):
    """Scalar constants, blocks of a constant, and scalar arguments."""
    numbers = [n for n in NUMBERS if n in (0.0, 1e300, -1e300) or n != n or abs(n) > 0.9]
    rows = "\n".join(
        f"            block = tl.full((2,), {number!r}, tl.{kind})\n"
        f"            tl.store(out + {4 * row} + j, block.to(tl.{word}))\n"
        f"            scalar = tl.full((), {number!r}, tl.{kind})\n"
        f"            tl.store(out + {4 * row + 2}, scalar.to(tl.{word}))\n"
        f"            tl.store(out + {4 * row + 3}, tl.load({kind}_in + {row}).to(tl.{word}))"
        for row, number in enumerate(numbers)
        for kind in [kind_of(number)]
    )
    rows = re.sub(r"(-?)\b(inf|nan)\b", r'\1float("\2")', rows)
    function = from_text(f"""
        def convert(out, float32_in, float64_in):
            j = tl.arange(0, 2)
{rows}
    """)
    out = np.zeros((len(numbers), 4), word)
    x = np.array(numbers)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(all="ignore"):
            single = x.astype(np.float32)
        run_on(target, function, out=out, float32_in=single, float64_in=x)
    held = [
        float(s) if kind_of(n) == "float32" else n for n, s in zip(numbers, single, strict=True)
    ]
    want = np.array([[whole(n, word)] * 4 for n in held], word)
    wrong = np.flatnonzero((out != want).any(1))
    assert not wrong.size, [(numbers[i], out[i], want[i]) for i in wrong]


def kind_of(number: float) -> str:
    """Return the type that holds a number of the list: fp32 unless it is out of its range."""
    return "float64" if 1e38 < abs(number) < math.inf or 0 < abs(number) < 1e-30 else "float32"


def test_an_argument_of_a_kernel_is_converted_the_same():
    function = from_text("""
        def convert(out, x):
            tl.store(out, x.to(tl.uint64))
            tl.store(out + 1, x.to(tl.uint8))
    """)
    out = np.zeros(2, np.uint64)
    run_on("interpreter", function, out=out, x=Typed(-3.5, F32))
    assert out.tolist() == [0, 0]


# -- what the device is given ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ("source", "to", "rounding", "wanted"),
    [
        ("fp64", "float16", "rtne", r"cvt\.rn\.f16\.f64"),
        ("fp64", "float16", "rtz", r"cvt\.rz\.f16\.f64"),
        ("fp64", "bfloat16", "rtne", r"cvt\.rz\.f32\.f64(?s:.*)cvt\.rn\.bf16\.f32"),
        ("fp64", "bfloat16", "rtz", r"cvt\.rz\.f32\.f64(?s:.*)cvt\.rz\.bf16\.f32"),
        ("fp64", "float32", "rtz", r"cvt\.rz\.f32\.f64"),
        ("fp64", "float8e5", "rtne", r"cvt\.rz\.f32\.f64(?s:.*)cvt\.rn\.satfinite\.e5m2x2\.f32"),
        ("fp32", "float16", "rtz", r"cvt\.rz\.f16\.f32"),
        ("fp32", "bfloat16", "rtz", r"cvt\.rz\.bf16\.f32"),
    ],
)
def test_instructions_that_round(source: str, to: str, rounding: str, wanted: str):
    short = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32", "float8e5": "fp8e5"}[to]
    module = tile_ir(cast_kernel(to, rounding), f"*{short}:16 *{source}:16", {"B": 128})
    recorder = Recorder()
    built = pipeline.build(tile_passes(module, recorder), "sm_90a", recorder)
    text = built.texts["ptx"]().text
    assert re.search(wanted, text)
    assert "cvt.rn.f32.f64" not in text  # twice to nearest is not once
