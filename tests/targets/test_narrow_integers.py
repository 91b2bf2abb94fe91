"""Integers of 8 and 16 bits wrap on every target: all values, in every use that sees the wrap."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.language.harness import from_text
from tests.passes.corpus import tile_ir
from tests.targets.everywhere import TARGETS, run_on
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.nvidia import pipeline
from workbench.targets.nvidia.toolchain import find

TYPES = ("int8", "uint8", "int16", "uint16")
BLOCK = 2048

#: Functions of one operand; the same text is Python for NumPy. Negations in every disguise.
UNARY = (
    "-a", "0 - a", "~a + 1", "tl.abs(a)", "tl.abs(a + 1)", "a + 1", "a - 1", "a - 100", "100 - a",
    "a * 3", "a * a", "a << 1", "a << 7", "a * a * a + a", "tl.where(a < 0, 0 - a, a)",
    "tl.maximum(a, 0 - a)", "tl.minimum(a, 0 - a)", "(0 - a) >> 1", "tl.abs(a) >> 1",
    "tl.wrapped(0 - tl.wide(a))", "tl.wrapped(tl.wide(a) * 3)", "tl.abs(0 - a) + a",
)  # fmt: skip
SIGNED = ("a * -1", "a * -3", "(a ^ (a >> BITS)) - (a >> BITS)", "tl.wrapped(tl.abs(tl.wide(a)))")
BINARY = (
    "a + b", "a - b", "b - a", "a * b", "a * b + a", "a * b - b", "a << (b & 7)", "a >> (b & 7)",
    "tl.minimum(a - b, b)", "tl.maximum(a + b, b - a)", "tl.abs(a - b)", "(a - b) ^ (a + b)",
    "tl.quotient(a, b | 1)", "tl.remainder(a, b | 1)", "tl.quotient(a * b, b | 1)",
    "tl.quotient(a, 3)", "tl.remainder(a, 7)", "tl.quotient(a + b, 8)",
)  # fmt: skip

#: What is done with a result r, and the dtype that it is stored in.
USES = {
    "itself": ("r", None),
    "widened": ("r.to(tl.int32)", np.int32),
    "widened twice": ("r.to(tl.int64)", np.int64),
    "to float": ("r.to(tl.float32)", np.float32),
    "to double": ("r.to(tl.float64)", np.float64),
    "compared": ("(r < 0).to(tl.int32) + 2 * (r > 5).to(tl.int32)", np.int32),
    "shifted": ("(r >> 2).to(tl.int32)", np.int32),
    "divided": ("(r // 3).to(tl.int32)", np.int32),
}


def functions(word: str, arity: int) -> tuple[str, ...]:
    if arity == 2:
        return BINARY
    bits = np.iinfo(word).bits - 1
    signed = [text.replace("BITS", str(bits)) for text in SIGNED]
    return (*UNARY, *signed) if word.startswith("i") else UNARY


def in_kernel(text: str, word: str) -> str:
    """Return an expression as the kernel's text."""
    text = re.sub(r"tl\.quotient\((.*), (b \| 1|\d)\)", r"(\1) // (\2)", text)
    text = re.sub(r"tl\.remainder\((.*), (b \| 1|\d)\)", r"(\1) % (\2)", text)
    text = text.replace("tl.wide(a)", "a.to(tl.int32)")
    return re.sub(r"tl\.wrapped\((.*)\)$", rf"(\1).to(tl.{word})", text)


@cache
def kernel(word: str, arity: int, use: str) -> Any:
    """Return a kernel that stores one row of `out` per function."""
    rows = "\n".join(
        f"            r = {in_kernel(text, word)}\n"
        f"            tl.store(out + {row} * n + i, {USES[use][0]})"
        for row, text in enumerate(functions(word, arity))
    )
    return from_text(f"""
        def narrow(out, x, y, n, B: tl.constexpr):
            i = tl.program_id(0) * B + tl.arange(0, B)
            a = tl.load(x + i)
            b = tl.load(y + i)
{rows}
    """)


def operands(word: str, arity: int) -> tuple[np.ndarray, np.ndarray]:
    """Return all values of a type; for two operands all pairs, or each with many others."""
    bits = np.iinfo(word).bits
    every = np.arange(1 << bits).astype(f"u{bits // 8}").view(word)
    if arity == 1:
        return np.resize(every, max(BLOCK, every.size)), np.ones(max(BLOCK, every.size), word)
    if bits == 8:
        return np.repeat(every, 256), np.tile(every, 256)
    low, high = np.iinfo(word).min, np.iinfo(word).max
    edges = np.array([low, low + 1, high, high - 1, 0, 1, 2, 3, 7, 127, 128, 255, 256, 182], word)
    partners = np.concatenate([edges, np.random.default_rng(5).permutation(every)[:17]])
    x, y = np.repeat(partners, partners.size), np.tile(partners, partners.size)
    x = np.concatenate([np.resize(every, 2 * every.size), np.resize(x, 2 * BLOCK)])
    shuffled = np.random.default_rng(6).permutation(every)
    return x, np.concatenate([shuffled, np.resize(edges, every.size), np.resize(y, 2 * BLOCK)])


def quotient(a: np.ndarray, b: Any) -> np.ndarray:
    """Truncating division in 64 bits, cut to the type."""
    wide, by = a.astype(np.int64), np.asarray(b).astype(np.int64)
    return (np.sign(wide) * np.sign(by) * (abs(wide) // abs(by))).astype(a.dtype)


def oracle(word: str) -> Any:
    return SimpleNamespace(
        abs=np.abs, where=np.where, maximum=np.maximum, minimum=np.minimum, quotient=quotient,
        remainder=lambda a, b: (a - quotient(a, b) * np.asarray(b, a.dtype)).astype(a.dtype),
        wide=lambda a: a.astype(np.int32), wrapped=lambda a: a.astype(word),
    )  # fmt: skip


def used(r: np.ndarray, use: str) -> np.ndarray:
    """Return what the kernel stores of a result."""
    if use == "compared":
        return (r < 0).astype(np.int32) + 2 * (r > 5).astype(np.int32)
    if use == "shifted":
        return (r >> 2).astype(np.int32)
    if use == "divided":
        return quotient(r, 3).astype(np.int32)
    return r.astype(USES[use][1] or r.dtype)


#: Every use on targets that make code of an op with its users; the interpreter takes op by op.
WAYS = [
    ("itself", "interpreter"),
    *((use, "cpu") for use in USES),
    *(pytest.param(use, "device", marks=pytest.mark.gpu) for use in USES),
]


@pytest.mark.parametrize(("use", "target"), WAYS)
@pytest.mark.parametrize("arity", [1, 2])
@pytest.mark.parametrize("word", TYPES)
def test_all_values_wrap_in_every_use(word: str, arity: int, use: str, target: str):
    x, y = operands(word, arity)
    texts = functions(word, arity)
    out = np.zeros((len(texts), x.size), USES[use][1] or word)
    function = kernel(word, arity, use)
    run_on(target, function, grid=(x.size // BLOCK,), out=out, x=x, y=y, n=x.size, B=BLOCK)
    for text, got in zip(texts, out, strict=True):
        with np.errstate(all="ignore"):
            r = eval(text, {"tl": oracle(word), "a": x, "b": y})
        assert r.dtype == word, text
        wrong = np.flatnonzero(got != used(r, use))
        assert not wrong.size, (text, x[wrong[:4]], y[wrong[:4]], got[wrong[:4]], r[wrong[:4]])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("word", TYPES)
def test_scalars_and_carried_values_wrap(word: str, target: str):
    """One value per program; negated and multiplied on the way round a loop."""
    function = from_text(f"""
        def walk(out, x, rounds):
            at = tl.program_id(0)
            a = tl.load(x + at)
            negated = 0 - a
            power = a
            total = tl.zeros((), tl.{word})
            for _ in range(rounds):
                negated = 0 - negated
                power = power * a
                total = total - power
            tl.store(out + at * 4, negated.to(tl.int64))
            tl.store(out + at * 4 + 1, power.to(tl.int64))
            tl.store(out + at * 4 + 2, total.to(tl.int64))
            tl.store(out + at * 4 + 3, (total < power).to(tl.int64))
    """)
    low, high = np.iinfo(word).min, np.iinfo(word).max
    x = np.array([low, low + 1, high, high - 1, 0, 1, 2, 3, 5, 100, 127], word)
    out = np.zeros((x.size, 4), np.int64)
    run_on(target, function, grid=(x.size,), out=out, x=x, rounds=4)
    with np.errstate(all="ignore"):
        power, total = x.copy(), np.zeros_like(x)
        for _ in range(4):
            power = power * x
            total = total - power
        want = np.stack([0 - x, power, total, total < power], 1).astype(np.int64)
    assert (out == want).all(), (x, out, want)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("text", ["-c", "0 - c", "tl.abs(c)", "c * 3", "c - 1", "c << 1"])
@pytest.mark.parametrize("word", TYPES)
def test_folded_and_run_time_values_are_the_same(word: str, text: str, target: str):
    number = np.iinfo(word).max if word.startswith("u") else np.iinfo(word).min
    function = from_text(f"""
        def both(out, x, C: tl.constexpr):
            c = tl.full((), C, tl.{word})
            folded = {text}
            c = tl.load(x)
            met = {text}
            tl.store(out, folded.to(tl.int64))
            tl.store(out + 1, met.to(tl.int64))
    """)
    out = np.zeros(2, np.int64)
    run_on(target, function, out=out, x=np.array([number], word), C=int(number))
    with np.errstate(all="ignore"):
        want = eval(text, {"tl": oracle(word), "c": np.array([number], word)}).astype(np.int64)
    assert out.tolist() == [want[0]] * 2


# -- what an assembler is given to read -----------------------------------------------------------
def ptx(word: str, arity: int, use: str) -> str:
    short = word.replace("uint", "u").replace("int", "i")
    stored = {None: short, np.int32: "i32", np.int64: "i64", np.float32: "fp32", np.float64: "fp64"}
    signature = f"*{stored[USES[use][1]]}:16 *{short}:16 *{short}:16 i32:16"
    module = tile_ir(kernel(word, arity, use), signature, {"B": 128}, num_warps=4)
    recorder = Recorder()
    built = pipeline.build(tile_passes(module, recorder), "sm_90a", recorder)
    return built.texts["ptx"]().text


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("arity", [1, 2])
@pytest.mark.parametrize("word", TYPES)
def test_no_arithmetic_is_left_to_16_bit_registers(word: str, arity: int, use: str):
    text = ptx(word, arity, use)
    risky = r"\b(?:neg|abs|div|rem)\.[su]16\b"
    if np.iinfo(word).bits == 16:
        risky = r"\b(?:neg|abs|add|sub|mul\.lo|mad\.lo|div|rem)\.[su]16\b|\bshl\.b16\b"
    assert not re.findall(risky, text)


def assemblers() -> list[str]:
    """Return every ptxas of this machine: they do not read 16-bit arithmetic alike."""
    places = [find("ptxas"), shutil.which("ptxas"), "/usr/local/cuda/bin/ptxas"]
    return list(dict.fromkeys(str(p) for p in places if p and Path(p).exists()))


NEGATIONS = ("-a", "0 - a", "~a + 1", "a * -1", "tl.abs(a)")


@pytest.mark.parametrize("word", ["int8", "int16"])
def test_machine_code_extends_the_sign_of_a_negation(word: str, tmp_path: Path):
    tools, reader = assemblers(), find("nvdisasm")
    if not tools or reader is None:
        pytest.skip("no ptxas and nvdisasm: pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm")
    rows = "\n".join(
        f"            a = tl.load(x + {32 * row} + i)\n"
        f"            tl.store(out + {32 * row} + i, ({text}).to(tl.int32))"
        for row, text in enumerate(NEGATIONS)
    )
    function = from_text(f"""
        def negations(out, x):
            i = tl.arange(0, 32)
{rows}
    """)
    short = word.replace("int", "i")
    module = tile_ir(function, f"*i32:16 *{short}:16", {}, num_warps=1)
    recorder = Recorder()
    built = pipeline.build(tile_passes(module, recorder), "sm_90a", recorder)
    (tmp_path / "k.ptx").write_text(built.texts["ptx"]().text)
    for tool in tools:
        cubin = tmp_path / "k.cubin"
        subprocess.run([tool, "-arch=sm_90a", tmp_path / "k.ptx", "-o", cubin], check=True)
        sass = subprocess.run([reader, "-c", cubin], check=True, capture_output=True, text=True)
        # PRMT with these selectors copies the sign of the second (first) byte upwards.
        selector = "0x9910" if word == "int16" else "0x8880"
        found = re.findall(rf"PRMT R\d+, R\d+, {selector}", sass.stdout)
        assert len(found) == len(NEGATIONS), (tool, sass.stdout)
