"""Floats that are put together of fields: all 256 bytes, on every target and by plain LLVM."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from tests.language.harness import from_text
from tests.targets.everywhere import TARGETS, run_on
from tests.targets.simt.pretend import llvm_text
from tests.targets.test_fields import MACHINE, WHO, on_machine, on_pretended
from workbench.ir import F16, shape_of
from workbench.ops import Bitcast
from workbench.targets.simt.bits import bits_of

#: e2m1 of the low and the high half of `w`, sixteen bits of a byte; one that is more than a field.
LOW = "(w << 9 & 0x0E00 | w << 12 & 0x8000)"
HIGH = "(w << 5 & 0x0E00 | w << 8 & 0x8000)"
#: What is made of a byte `x` and of `w`, and whether its bits are fields.
FORMS = {
    LOW: True, HIGH: True, "w << 8": True, "w << 7 & 0x3F80 | w << 8 & 0x8000": True,
    "w & 15 | 0x6400": True, "(w >> 4) ^ 0x6400": True, "(w & 3) + (w << 6 & 0xFC00)": True,
    "((x & 7).to(tl.uint32) << 9 | (x & 8).to(tl.uint32) << 12).to(tl.uint16)": True,
    # Bits of two fields that meet, a field of 32 bits that 16 do not hold, two bytes.
    "w << 9 & 0x1E00 | w << 12 & 0x9000": False, "(w & 7) + (w & 3)": False,
    "((x & 255).to(tl.uint32) << 9 | (x & 8).to(tl.uint32) << 12).to(tl.uint16)": False,
    "w & 15 | v << 4 & 0xF0": False, "w & 15 | 8": False,
    # Bits that a type on the way cuts off: then what it leaves has the field.
    "(w << 1 & 0x1E).to(tl.uint8)": True, "(w << 4).to(tl.uint8)": True,
    "(w << 1 & 0x1FE).to(tl.uint8)": True, "(x.to(tl.uint32) << 8).to(tl.uint8)": True,
    "(x & 0x60).to(tl.int8).to(tl.int16)": True, "((w & 15) << 8 | (w & 16)).to(tl.uint8)": True,
    # Signs are repeated, which no NaN's bits are asked for.
    "((x & 0xC0).to(tl.int8).to(tl.int16) - 1) & 0x3FFF": False,
    "((w << 3 & 0x1F8).to(tl.int8).to(tl.int32) & 0x3FFF)": False,
    "((w & 0xF0) | (w & 1)).to(tl.int8).to(tl.int16) & 0x3FFF": False,
}  # fmt: skip
#: Numbers that become neighbours; `v` is of another byte.
PAIRS = [
    (LOW, HIGH), (HIGH, LOW), (LOW, LOW.replace("w", "v")), (HIGH.replace("w", "v"), LOW),
    (LOW, "w << 8"), ("w & 15 | 0x6400", "w >> 4 | 0x6400"), ("w & 15 | 0x6400", "w >> 4 | 0x6800"),
]  # fmt: skip


def _stores(rows: list[str], size: int, at: str) -> str:
    return "\n            ".join(
        f"tl.store(out + {size * place} + {at}, {row})" for place, row in enumerate(rows)
    )


def _float(form: str, to: str) -> str:
    return f"({form}).to(tl.uint16).to(tl.{to}, bitcast=True)"


@cache
def kernel(to: str) -> Any:
    """A function that stores each form of the bytes, 256 numbers after 256."""
    return from_text(f"""
        def put_together(out, x_ptr, y_ptr, B: tl.constexpr):
            i = tl.arange(0, B)
            x = tl.load(x_ptr + i)
            w, v = x.to(tl.uint16), tl.load(y_ptr + i).to(tl.uint16)
            {_stores([_float(form, to) for form in FORMS], 256, "i")}
    """)


@cache
def kernel_of_pairs(to: str) -> Any:
    """A function that stores each pair of forms, 256 pairs after 256."""
    rows = [f"tl.join({_float(a, to)}, {_float(b, to)})" for a, b in PAIRS]
    return from_text(f"""
        def put_pairs_together(out, x_ptr, y_ptr, B: tl.constexpr):
            i = tl.arange(0, B)
            w, v = tl.load(x_ptr + i).to(tl.uint16), tl.load(y_ptr + i).to(tl.uint16)
            at = i[:, None] * 2 + tl.arange(0, 2)[None, :]
            {_stores(rows, 512, "at")}
    """)


@cache
def kernel_of_words(to: str, who: str) -> Any:
    """A function that stores e2m1 of the words' fields: of four bits, and of some of two bytes."""
    j, word = WHO[who]
    forms = ["x >> s", "x >> 4", "x >> 6", "x >> (28 - s)"]
    rows = [_float(f"((({form}) & 7) << 9 | (({form}) & 8) << 12)", to) for form in forms]
    return from_text(f"""
        def put_words_together(out, x_ptr, B: tl.constexpr):
            i = tl.arange(0, B)
            j = {j}
            s = j % 8 * 4
            x = {word}
            {_stores(rows, 256, "i")}
    """)


def arguments(count: int, to: str) -> dict[str, Any]:
    """All bytes, forwards and backwards, and room for `count` numbers of each."""
    x = torch.arange(256).to(torch.uint8)
    out = torch.zeros(count, 256, dtype=getattr(torch, to))
    return {"out": out, "x_ptr": x, "y_ptr": x.flip(0), "B": 256}


def arguments_of_words(to: str) -> dict[str, Any]:
    words = np.random.default_rng(5).integers(-(1 << 31), 1 << 31, 32).astype(np.int32)
    out = torch.zeros(4, 256, dtype=getattr(torch, to))
    return {"out": out, "x_ptr": torch.from_numpy(words), "B": 256}


def found_on(target: str, made: Any, given: dict[str, Any]) -> torch.Tensor:
    if target == "pretend":
        return on_pretended(made, given)
    run_on(target, made, **given)
    return given["out"].view(torch.int16)


@pytest.mark.parametrize("target", [*TARGETS, "pretend"])
@pytest.mark.parametrize("to", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", ["alone", "pairs", *WHO])
def test_they_have_the_bits_that_the_text_says(kind: str, to: str, target: str):
    if kind in WHO:
        made, count = kernel_of_words(to, kind), 0
    else:
        made, count = (kernel(to), len(FORMS)) if kind == "alone" else (kernel_of_pairs(to), 2 * 7)
    wanted, given = (arguments(count, to) if count else arguments_of_words(to) for _ in range(2))
    run_on("interpreter", made, **wanted)
    assert torch.equal(found_on(target, made, given), wanted["out"].view(torch.int16))


def test_which_are_known():
    """Else the test above tests nothing."""
    module = on_machine(kernel("float16"), arguments(len(FORMS), "float16"))
    made = [op for op in module.walk() if isinstance(op, Bitcast) and op.to == F16]
    known = [bits_of(op.source) is not None for op in made if shape_of(op.result.type)]
    assert dict(zip(FORMS, known, strict=True)) == FORMS


@pytest.mark.parametrize(("who", "together"), [("registers", True), ("apart", False)])
def test_upper_bytes_are_put_together_four_at_once(who: str, together: bool):
    """Where a thread has whole words of them, and none two bytes apart, which take no permute."""
    text = llvm_text(on_machine(kernel_of_words("float16", who), arguments_of_words("float16")),
                     MACHINE)  # fmt: skip
    assert (f", {0x0E0E0E0E}" in text) == together
    assert (f", {0x80808080 - (1 << 32)}" in text) == together


def test_the_halves_of_a_byte_lie_alike_once_one_is_shifted():
    """A shift for all four bytes of a word; then one shift and two masks for two numbers."""
    low, high = "(w << 6 & 0x01C0 | w << 12 & 0x8000)", "(w << 2 & 0x01C0 | w << 8 & 0x8000)"
    made = from_text(f"""
        def of_bfloats(out, x_ptr, y_ptr, B: tl.constexpr):
            i = tl.arange(0, B)
            w = tl.load(x_ptr + i).to(tl.uint16)
            at = i[:, None] * 2 + tl.arange(0, 2)[None, :]
            tl.store(out + at, tl.join({_float(low, "bfloat16")}, {_float(high, "bfloat16")}))
    """)
    text = llvm_text(on_machine(made, arguments(2, "bfloat16")), MACHINE)
    assert f", {0x01C001C0}" in text
    assert f", {0x80008000 - (1 << 32)}" in text
