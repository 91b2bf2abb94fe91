"""Fields of bytes that become floats: all 256 bytes, on every target and by plain LLVM."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from tests.language.harness import from_text, lowered
from tests.targets.everywhere import TARGETS, run_on
from tests.targets.simt.pretend import Pretend, gpu_ir, llvm_text
from tests.targets.simt.pretend import execute as pretend
from workbench.ir import F16, Module, layout_of
from workbench.ops import Cast
from workbench.targets.simt.fields import field_of, lies_apart, shifts_of

MACHINE = Pretend()
#: What is made of a byte, by type: an expression, and what it is in Python of an int.
FORMS: dict[str, list[str]] = {
    "int8": [
        "x", "x >> 4", "(x << 4) >> 4", "x & 15", "(x & 15) - 8", "(x >> 4) & 15", "x >> 7",
        "(x << 2) >> 5", "x & 16", "x & -16", "(x & 0x30) >> 4", "x << 4", "(x & 7) + 100",
        "(x & 127) + 1", "((x & 15) << 4) >> 4", "x + 1", "(x >> 3) & 127", "x >> 8", "x & 5",
    ],
    "uint8": [
        "x", "x >> 4", "x & 15", "(x << 4) >> 4", "(x >> 2) & 3", "x & 240", "x & 0", "x << 1",
        "(x & 1).to(tl.int8) - 1", "(x >> 4).to(tl.int32) - 8", "(x >> 4).to(tl.int8)",
        "x.to(tl.int8)", "x.to(tl.int32) << 4", "(x & 3) << 6", "x + 1",
        "((x & 15).to(tl.int8) << 2) & -8",
    ],
}  # fmt: skip


#: Numbers that become neighbours: of one byte, and of bytes of two arrays.
PAIRS: dict[str, list[tuple[str, str]]] = {
    "int8": [
        ("(x << 4) >> 4", "x >> 4"), ("x & 15", "(x >> 4) & 15"), ("(x >> 2) & 3", "x & -16"),
        ("x", "(x & 15) - 8"), ("x >> 4", "y >> 4"), ("y", "x"), ("x << 4", "(y & 7) + 100"),
    ],
    "uint8": [
        ("x & 15", "x >> 4"), ("(x & 3) << 6", "x.to(tl.int8)"), ("x >> 6", "(x >> 4) & 3"),
        ("x & 15", "y >> 4"), ("(y & 1).to(tl.int8) - 1", "x & 240"),
    ],
}  # fmt: skip


@cache
def kernel(source: str, to: str) -> Any:
    """A function that stores each form of the bytes, 256 numbers after 256."""
    stores = "\n            ".join(
        f"tl.store(out + {256 * row} + i, ({form}).to(tl.{to}))"
        for row, form in enumerate(FORMS[source])
    )
    return from_text(f"""
        def convert(out, x_ptr, B: tl.constexpr):
            i = tl.arange(0, B)
            x = tl.load(x_ptr + i)
            {stores}
    """)


@cache
def kernel_of_pairs(source: str, to: str) -> Any:
    """A function that stores each pair of forms of the bytes, 256 pairs after 256."""
    stores = "\n            ".join(
        f"tl.store(out + {512 * row} + at, tl.join(({a}).to(tl.{to}), ({b}).to(tl.{to})))"
        for row, (a, b) in enumerate(PAIRS[source])
    )
    return from_text(f"""
        def convert_pairs(out, x_ptr, y_ptr, B: tl.constexpr):
            i = tl.arange(0, B)
            x = tl.load(x_ptr + i)
            y = tl.load(y_ptr + i)
            at = i[:, None] * 2 + tl.arange(0, 2)[None, :]
            {stores}
    """)


def arguments_of_pairs(source: str, to: str) -> dict[str, Any]:
    """All bytes, forwards and backwards."""
    x = torch.arange(256).to(torch.uint8).view(getattr(torch, source))
    y = torch.arange(255, -1, -1).to(torch.uint8).view(getattr(torch, source))
    out = torch.zeros(len(PAIRS[source]), 256, 2, dtype=getattr(torch, to))
    return {"out": out, "x_ptr": x, "y_ptr": y, "B": 256}


def arguments(source: str, to: str) -> dict[str, Any]:
    """All bytes, and room for the results."""
    x = torch.arange(256).to(torch.uint8).view(getattr(torch, source))
    return {"out": torch.zeros(len(FORMS[source]), 256, dtype=getattr(torch, to)), "x_ptr": x,
            "B": 256}  # fmt: skip


def on_pretended(kernel: Any, given: dict[str, Any]) -> torch.Tensor:
    """What the rules in plain LLVM make, lane by lane on this machine."""
    module = on_machine(kernel, given)
    bits = np.zeros(given["out"].shape, np.uint16)
    assert "shufflevector" in llvm_text(module, MACHINE)
    read = [given[name].numpy() for name in ("x_ptr", "y_ptr") if name in given]
    pretend(module, MACHINE, (1,), [bits, *read])
    return torch.from_numpy(bits.view(np.int16))


def on_machine(kernel: Any, given: dict[str, Any]) -> Module:
    module, _ = lowered(kernel, **given)
    return gpu_ir(replace(module, attributes={"num_warps": 1}), MACHINE)


@pytest.mark.parametrize("target", [*TARGETS, "pretend"])
@pytest.mark.parametrize("to", ["float16", "bfloat16"])
@pytest.mark.parametrize("source", FORMS)
def test_a_field_is_the_number_that_the_text_says(source: str, to: str, target: str):
    wanted, given = arguments(source, to), arguments(source, to)
    run_on("interpreter", kernel(source, to), **wanted)
    if target == "pretend":
        found = on_pretended(kernel(source, to), given)
    else:
        run_on(target, kernel(source, to), **given)
        found = given["out"].view(torch.int16)
    for form, a, b in zip(FORMS[source], found, wanted["out"].view(torch.int16), strict=True):
        assert torch.equal(a, b), form


@pytest.mark.parametrize("target", [*TARGETS, "pretend"])
@pytest.mark.parametrize("to", ["float16", "bfloat16"])
@pytest.mark.parametrize("source", PAIRS)
def test_neighbours_are_the_numbers_that_the_text_says(source: str, to: str, target: str):
    wanted, given = arguments_of_pairs(source, to), arguments_of_pairs(source, to)
    made = kernel_of_pairs(source, to)
    run_on("interpreter", made, **wanted)
    if target == "pretend":
        found = on_pretended(made, given)
    else:
        run_on(target, made, **given)
        found = given["out"].view(torch.int16)
    for pair, a, b in zip(PAIRS[source], found, wanted["out"].view(torch.int16), strict=True):
        assert torch.equal(a, b), pair


def test_the_halves_of_a_byte_are_made_together():
    """1024 + low + 8 and 1024 + 16 (high + 8) in one word: one multiply-add for both."""
    module = on_machine(kernel_of_pairs("int8", "float16"), arguments_of_pairs("int8", "float16"))
    text = llvm_text(module, MACHINE)
    assert "<half 0xHE408, half 0xHD480>" in text  # -1032 and -72
    assert str(0x00F0000F) in text
    assert str(0x64806408) in text


def test_what_is_a_field_is_known():
    """Else the test above tests nothing."""
    module, _ = lowered(kernel("int8", "float16"), **arguments("int8", "float16"))
    casts = [op for op in module.walk() if isinstance(op, Cast) and op.to == F16]
    fields = [field_of(op.source) for op in casts]
    parts = {(f.start, f.width, f.signed) for f in fields if f is not None}
    assert {(0, 8, True), (4, 4, True), (0, 4, True), (0, 4, False), (4, 4, False)} <= parts


#: Fields of words, of which each of B elements has its own: an expression of `x` (a word for every
#: eight), `j` and `s` (4 * (j % 8)), where lanes count j, or registers do.
WORDS = [
    "(x >> s) & 15", "(x >> s & 15) - 8", "(x >> (28 - s)) & 15", "(x >> (j % 4 * 8)) & 127",
    "(x >> (j % 16 * 2)) & 3", "(x >> 4) & 15", "(x << 24) >> 28", "(x >> 30) & 3",
    "(x >> ((j % 2 * 4 + j // 2 % 4) * 4)) & 15",
    # No fields of one byte, or of none that all have.
    "(x >> (j % 8 * 3)) & 15", "(x >> (j % 3)) & 7", "x >> 26", "(x >> s) & 0x3F",
]  # fmt: skip


#: `j` and the word by who counts j: 64 lanes; registers, too; those of a word, 16 bits apart.
WHO = {
    "lanes": ("i", "tl.load(x_ptr + i // 8)"),
    "registers": ("i // 32", "tl.load(x_ptr + i % 32)"),
    "apart": (
        "i // 64 % 2 * 4 + i // 128 + i % 2 * 2",
        "tl.broadcast_to(tl.load(x_ptr + tl.arange(0, 64) // 2)[None, :], (4, 64)).reshape(256)",
    ),
}


#: What is taken from such a field, or added to it: exact in one step, and not (2047 + 1024).
SUMS = [
    *(f"((x >> s) & 15).to(T) {other}.to(T)"
      for other in ("- (y & 15)", "+ (y & 7)", "- (y & 2047)")),
    # Not exact before anything is taken from it.
    "((x >> s & 15) + 2040).to(T) - (y & 3).to(T)", "((x >> s & 15) + 250).to(T) - (y & 3).to(T)",
    "((x & 15) + 2040).to(T) - (y & 3).to(T)", "((x & 127) * 2 + 101).to(T) - (y & 7).to(T)",
]  # fmt: skip


@cache
def kernel_of_words(to: str, who: str) -> Any:
    """A function that stores each form of the words, B numbers after B numbers."""
    j, word = WHO[who]
    stores = "\n            ".join(
        f"tl.store(out + {256 * row} + i, ({form}).to(tl.{to}))"
        for row, form in enumerate([*WORDS, *(form.replace("T", f"tl.{to}") for form in SUMS)])
    )
    return from_text(f"""
        def convert_words(out, x_ptr, B: tl.constexpr):
            i = tl.arange(0, B)
            j = {j}
            s = j % 8 * 4
            x = {word}
            y = tl.load(x_ptr + i % 8)
            {stores}
    """)


def arguments_of_words(to: str) -> dict[str, Any]:
    random = np.random.default_rng(5)
    x = torch.from_numpy(random.integers(-(1 << 31), 1 << 31, 32).astype(np.int32))
    out = torch.zeros(len(WORDS + SUMS), 256, dtype=getattr(torch, to))
    return {"out": out, "x_ptr": x, "B": 256}


@pytest.mark.parametrize("target", [*TARGETS, "pretend"])
@pytest.mark.parametrize(
    ("to", "who"),
    [("float16", "lanes"), ("float16", "registers"), ("float16", "apart"), ("bfloat16", "apart")],
)
def test_fields_of_words_are_the_numbers_that_the_text_says(to: str, who: str, target: str):
    wanted, given = arguments_of_words(to), arguments_of_words(to)
    run_on("interpreter", kernel_of_words(to, who), **wanted)
    if target == "pretend":
        found = on_pretended(kernel_of_words(to, who), given)
    else:
        run_on(target, kernel_of_words(to, who), **given)
        found = given["out"].view(torch.int16)
    for form, a, b in zip(WORDS + SUMS, found, wanted["out"].view(torch.int16), strict=True):
        assert torch.equal(a, b), form


@pytest.mark.parametrize("who", WHO)
def test_which_fields_of_words_are_known(who: str):
    """Else the test above tests nothing: all but the last one, whose bits not all words have."""
    module = on_machine(kernel_of_words("float16", who), arguments_of_words("float16"))
    casts = [op for op in module.walk() if isinstance(op, Cast) and op.to == F16]
    fields = [field_of(op.source) for op in casts]
    widths = [field.width for field in fields if field is not None]
    assert widths[: len(WORDS)] == [4, 4, 4, 7, 2, 4, 4, 2, 4, 4, 3, 6, 32]
    layout, field = layout_of(casts[0].result.type), fields[0]
    assert field is not None
    assert layout is not None
    shifts = shifts_of(field, layout)
    assert shifts is not None
    assert shifts.by_thread
    of_registers = {"lanes": {0}, "registers": {0, 8, 16, 24}, "apart": {0, 4, 16, 20}}
    assert set(shifts.by_register) == of_registers[who]
    assert lies_apart(field, 0, 64) == (who == "apart")
