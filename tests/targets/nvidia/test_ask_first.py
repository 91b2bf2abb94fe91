"""What a stretch of code loads is asked for before anything is computed of it; see ask_first.py."""

from __future__ import annotations

import re
from typing import Any

import pytest

import workbench
from tests.kernels import generated
from tests.language.harness import from_text
from tests.passes.corpus import tile_ir
from tests.targets.nvidia.test_warpgroups import in_gpu_ir
from workbench.ir import Module
from workbench.ops import Elementwise, Load, Store
from workbench.targets.simt.ops import Asked

#: Four numbers of each point, every load in front of what is computed of it.
POINTS = """
def points(x, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    total = tl.exp(tl.load(x + at, mask=mask).to(tl.float32))
    for i in tl.static_range(1, 4):
        total += tl.exp(tl.load(x + 3 * i + at, mask=mask).to(tl.float32))
    tl.store(o + at, total, mask=mask)
"""

#: The second half is loaded when something has been stored, through another pointer.
STORED_BETWEEN = """
def stored_between(x, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(o + at, tl.exp(tl.load(x + at, mask=mask).to(tl.float32)), mask=mask)
    tl.store(o + n + at, tl.exp(tl.load(x + at + n, mask=mask).to(tl.float32)), mask=mask)
"""

#: Where the second number lies is loaded.
LED = """
def led(x, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    where = tl.load(x + at, mask=at < n, other=0.0).to(tl.int32)
    tl.store(o + at, tl.load(x + where, mask=at < n) + 1.0, mask=at < n)
"""


#: Each request brings more than 64 bytes.
WIDE = POINTS.replace("at, mask", "7 * at, mask")


def gpu(kernel: str, block: int, **options: Any) -> Module:
    signature = "*fp16 *fp32 i32:16"  # what is stored asks for no vectors either
    return in_gpu_ir(
        tile_ir(from_text(kernel), signature, {"BLOCK": block}, num_warps=4, **options)
    )


def order(module: Module) -> str:
    """Return what happens: (l)oads, (f)unctions of floats, (a)sked, (s)tores."""
    found = ""
    for op in module.walk():
        is_exp = isinstance(op, Elementwise) and op.function in ("exp", "exp2")
        kinds = {"l": isinstance(op, Load), "f": is_exp, "a": isinstance(op, Asked),
                 "s": isinstance(op, Store)}  # fmt: skip
        found += "".join(letter for letter, held in kinds.items() if held)
    return found


@pytest.mark.parametrize(
    ("kernel", "block", "expected"),
    [
        (POINTS, 256, "llllaffffs"),
        (WIDE, 256, "lflflflfs"),
        (POINTS, 128, "lflflflfs"),  # one load each: four are few
        (POINTS, 4096, "lflflflfs"),  # 128 registers would wait
        (STORED_BETWEEN, 1024, "lafslafs"),
        (LED, 1024, "lals"),  # nobody knows how far apart they lie,
    ],
)
def test_loads_come_first(kernel: str, block: int, expected: str):
    assert order(gpu(kernel, block)) == expected


def test_nothing_is_computed_before_all_is_asked_for():
    """ptxas orders each block by itself, so that all loads stand in front of all functions."""
    made = workbench.compile(
        workbench.jit(from_text(POINTS)),
        "*fp16 *fp32:16 i32:16",
        {"BLOCK": 256},
        "sm_90a",
        num_warps=4,
    )
    found = re.findall(r"\b(LDG|MUFU\.EX2)\b", made.asm["sass"])
    assert found == ["LDG"] * 8 + ["MUFU.EX2"] * 8


def test_what_is_loaded_stays_in_front():
    """ptxas moved loads behind a branch on whose other side nobody wants what they bring."""
    made = workbench.compile(
        workbench.jit(generated.red_welford),
        "*bf16:16 *fp32:16 *fp32:16 i32:16 i32:16",
        {"XBLOCK": 4, "R0_BLOCK": 512},
        "sm_90a",
        num_warps=4,
        num_stages=1,  # else they are for the next round
    )
    found = re.findall(r"\b(LDG|FADD|EXIT)\b", made.asm["sass"])
    first = found.index("LDG")
    assert found[first : first + 16] == ["LDG"] * 16


def test_what_is_loaded_once_for_several_counts_once():
    """Neighbours look up the same row: a thread loads one index for its eight numbers."""
    module = tile_ir(
        generated.poi_index_put, "*i64:16 *bf16:16 *bf16:16 i32:16 i32:16", {"XBLOCK": 1024},
        num_warps=4,
    )  # fmt: skip
    assert order(in_gpu_ir(module)) == "lls"
