"""Floats whose bits are bytes high up: all 256 bytes, on every target and by plain LLVM."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from tests.language.harness import from_text, lowered
from tests.targets.everywhere import TARGETS, run_on
from tests.targets.simt.pretend import Pretend, execute, gpu_ir, llvm_text
from workbench.ir import F32, Module, shape_of
from workbench.ops import Bitcast
from workbench.targets.simt.upper_halves import halves_of


class Bounding(Pretend):
    """A machine that bounds two halves at once."""

    bounds_halves = True


MACHINE = Bounding()
#: What is made of a byte `x`, and whether only its upper half is none of zeros.
FORMS = {
    "x << 23": True, "(x << 23) + (14 << 23)": True, "x << 24": True, "x << 16": True,
    "tl.minimum((x << 23) + (14 << 23), 0x7FC00000)": True,
    "tl.minimum(x << 23, 0x7F800000) ": True, "tl.minimum(x << 24, 0xFF000000)": True,
    "tl.minimum(tl.minimum(x << 23, 0x60000000), 0x50000000)": True,
    "tl.minimum(x << 23, 0x10000)": True, "tl.minimum(x << 23, 0)": True,
    "(tl.minimum(x << 23, 0x20000000)) + 0x10000": False,  # a sum of what is bounded
    "x << 15": False, "(x << 23) + 1": False, "(x << 23) + (256 << 23)": True,
    "(x << 23) + (258 << 23)": False,
    "(x << 24) + (1 << 24)": False, "tl.minimum(x << 23, 0x7FC00001)": False,
    "tl.maximum(x << 23, 0x10000)": False,
}  # fmt: skip


@cache
def kernel() -> Any:
    """A function that stores each form of the bytes, 256 numbers after 256."""
    rows = "\n            ".join(
        f"tl.store(out + {256 * row} + i, ({form}).to(tl.float32, bitcast=True))"
        for row, form in enumerate(FORMS)
    )
    return from_text(f"""
        def scales(out, x_ptr, B: tl.constexpr):
            i = tl.arange(0, B)
            x = tl.load(x_ptr + i).to(tl.uint32)
            {rows}
    """)


def arguments() -> dict[str, Any]:
    out = torch.zeros(len(FORMS), 256, dtype=torch.float32)
    return {"out": out, "x_ptr": torch.arange(256).to(torch.uint8), "B": 256}


def on_machine(given: dict[str, Any]) -> Module:
    module, _ = lowered(kernel(), **given)
    return gpu_ir(replace(module, attributes={"num_warps": 1}), MACHINE)


def bits_on(target: str) -> torch.Tensor:
    given = arguments()
    if target != "pretend":
        run_on(target, kernel(), **given)
        return given["out"].view(torch.int32)
    bits = np.zeros(given["out"].shape, np.uint32)
    execute(on_machine(given), MACHINE, (1,), [bits, given["x_ptr"].numpy()])
    return torch.from_numpy(bits.view(np.int32))


@pytest.mark.parametrize("target", [*TARGETS, "pretend"])
def test_they_have_the_bits_that_the_text_says(target: str):
    wanted = bits_on("interpreter")
    x = torch.arange(256, dtype=torch.int64)
    assert torch.equal(wanted[1].long(), (x + 14 << 23 & 0xFFFFFFFF).to(torch.int32).long())
    assert torch.equal(bits_on(target), wanted)


def test_which_are_known_and_bounded_two_at_once():
    """Else the test above tests nothing."""
    module = on_machine(arguments())
    made = [op for op in module.walk() if isinstance(op, Bitcast) and op.to == F32]
    known = [halves_of(op.source) is not None for op in made if shape_of(op.result.type)]
    assert dict(zip(FORMS, known, strict=True)) == FORMS
    assert "@llvm.umin.v2i16" in llvm_text(module, MACHINE)
