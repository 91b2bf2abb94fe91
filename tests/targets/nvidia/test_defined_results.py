"""What LLVM leaves open (poison, undefined behaviour) where the language says a result."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.checking import check
from tests.files import form
from workbench.ir import F8E4M3, F8E5M2, Scalar, parse_module
from workbench.ops.numbers import decode
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.nvidia import pipeline
from workbench.targets.simt.arithmetic import literal

FILES = Path(form.__file__).parent
CHIPS = ("sm_80", "sm_90a")


def stages(text: str, chip: str = "sm_90a") -> tuple[str, str]:
    """Return LLVM IR and PTX."""
    recorder = Recorder()
    built = pipeline.build(tile_passes(parse_module(text), recorder), chip, recorder)
    return built.texts["llvm"]().text, built.texts["ptx"]().text


def of_file(name: str, chip: str) -> tuple[str, str]:
    return stages(form.read(FILES / name).body, chip)


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    "name", ["shifts_beyond_the_width", "shifts_beyond_the_width_by_constants"]
)
def test_llvm_shifts_by_known_amounts_below_the_width_only(name: str, chip: str):
    llvm, ptx = of_file(f"arithmetic/{name}.ir", chip)
    shifts = re.findall(r"= (?:shl|lshr|ashr) i(\d+) [^,]+, (\S+?)(?:,|$)", llvm, re.MULTILINE)
    assert all(by.isdigit() and int(by) < int(bits) for bits, by in shifts), shifts
    if name.endswith("width"):
        # One instruction of PTX, which clamps; amounts of 64 bits are cut to what it takes.
        kinds = set(re.findall(r"\b(sh[lr]\.[bsu](?:32|64)) \S+, \S+, %r\d+;", ptx))
        assert kinds == {"shl.b32", "shl.b64", "shr.s32", "shr.u32", "shr.s64", "shr.u64"}
        assert "min.u64" in ptx


def test_a_shift_by_an_amount_of_32_bits_costs_one_instruction():
    _, ptx = stages("""
        kernel @shift(%x: i32, %k: i32, %out: ptr<i32>) {num_warps = 1} {
          %0 = tile.shl [%x, %k] : i32
          tile.store %out, %0
          tile.return
        }
    """)
    check(ptx, "CHECK: shl.b32\nCHECK-NOT: {{setp|selp|min}}{{.*}}u32\nCHECK: st.global")


@pytest.mark.parametrize("chip", CHIPS)
def test_a_division_by_what_may_be_zero_is_chosen_afterwards(chip: str):
    llvm, _ = of_file("arithmetic/division_by_zero_and_of_the_lowest.ir", chip)
    found = re.findall(r"(%v\d+) = ([su])(?:div|rem) i\d+ \S+ (\S+?)(?:,|$)", llvm, re.MULTILINE)
    assert len(found) >= 8
    for name, sign, divisor in found:
        assert divisor != "0"
        assert (sign, divisor) != ("s", "-1")
        if divisor.startswith("%"):
            assert re.search(rf"select i1 %v\d+, i\d+ \S+, i\d+ {name}\b", llvm)


def test_a_division_by_a_number_costs_no_choice():
    llvm, _ = stages("""
        kernel @divide(%x: i32, %out: ptr<i32>) {num_warps = 1} {
          %0 = tile.constant {value = 10, type = i32} : i32
          %1 = tile.div [%x, %0] : i32
          tile.store %out, %1
          tile.return
        }
    """)
    assert "sdiv i32" in llvm
    assert "select" not in llvm


@pytest.mark.parametrize("element", [F8E4M3, F8E5M2], ids=str)
def test_bits_of_constant_small_floats_have_their_sign(element: Scalar):
    """Literals of i8 are written in its range, so that they are widened as they are held."""
    codes = [code for code in range(256) if code & 0x7F < 0x7C]
    values = decode(np.asarray(codes, np.uint8), element)
    found = [int(literal(float(value), element)) for value in values]
    assert found == [code - 256 if code > 127 else code for code in codes]


def test_a_small_float_is_widened_with_its_sign():
    _, ptx = of_file("casts/bits_of_small_floats.ir", "sm_90a")
    for number in (-50, -57, -52, -54, 124, -4):
        assert re.search(rf"mov\.b64 \s*%rd\d+, {number};", ptx), number
