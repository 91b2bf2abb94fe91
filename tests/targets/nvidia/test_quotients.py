"""What elements of a thread are divided by is prepared once, and quotients are the same."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import workbench
from tests.language.harness import from_text
from tests.passes.corpus import tile_ir
from tests.targets.simt.pretend import Pretend, execute, gpu_ir

MACHINE = Pretend()

QUOTIENTS = """
def quotients(x, y, yy, shared, alone, R: tl.constexpr, C: tl.constexpr):
    r, c = tl.arange(0, R), tl.arange(0, C)
    at = r[:, None] * C + c[None, :]
    tile = tl.load(x + at)
    tl.store(shared + at, tile / tl.load(y + r)[:, None])
    tl.store(alone + at, tile / tl.load(yy + at))
"""
SHAPE = {"R": 64, "C": 128}


def ptx(text: str) -> str:
    signature = "*fp32:16 *fp32:16 *fp32:16 *fp32:16 *fp32:16"
    return workbench.compile(from_text(text), signature, SHAPE, "sm_90a", num_warps=4).asm["ptx"]


def test_a_divisor_that_elements_share_is_inverted_once():
    text = ptx(QUOTIENTS)
    divisors = len(re.findall(r"rcp\.approx\.ftz\.f32", text))
    assert divisors == 16  # a thread has four elements of each of 16 rows
    assert len(re.findall(r"mul\.rn\.f32", text)) == 2 * 64 + divisors
    assert len(re.findall(r"div\.full\.f32", text)) == 64


@pytest.mark.parametrize("quotient", ["tile / 3.0", "1.0 / tile"])
def test_divisors_that_are_known_and_inverses_are_left_alone(quotient: str):
    text = ptx(QUOTIENTS.replace("tile / tl.load(y + r)[:, None]", quotient))
    assert "mul.rn.f32" not in text


PLACES = """
def places(row, column, n, w, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(row + at, at // w, mask=at < n)
    tl.store(column + at, at % w, mask=at < n)
"""


@pytest.mark.parametrize(
    ("width", "quotients"),
    [("i32:16", 2), ("i32:4", 2), ("i32:2", 4), ("i32", 8)],  # of 8 in two runs of 4
)
def test_indices_that_share_a_quotient_are_divided_once(width: str, quotients: int):
    signature, shape = f"*i32:16 *i32:16 i32:16 {width}", {"BLOCK": 1024}
    made = workbench.compile(from_text(PLACES), signature, shape, "sm_90a", num_warps=4)
    divided = re.findall(r"= [su](div|rem) ", made.asm["llvm"])
    assert divided == ["div"] * quotients + ["rem"] * quotients


@pytest.mark.parametrize("width", [16, 48])
def test_places_of_a_run_are_those_of_elements_on_their_own(width: int):
    """Lane by lane, on a machine of 64 lanes."""
    module = tile_ir(from_text(PLACES), "*i32:16 *i32:16 i32:16 i32:16", {"BLOCK": 1024})
    row, column = np.zeros(2000, np.int32), np.zeros(2000, np.int32)
    module = replace(module, attributes={**module.attributes, "narrow_index": True})
    execute(gpu_ir(module, MACHINE), MACHINE, (2,), [row, column, 2000, width])
    assert np.array_equal(row, np.arange(2000) // width)
    assert np.array_equal(column, np.arange(2000) % width)


@pytest.mark.parametrize(("dividend", "signed"), [("at", False), ("at - n", True)])
@pytest.mark.parametrize("width", ["16", "24", "w"])
def test_what_is_not_below_0_is_divided_without_a_sign(dividend: str, signed: bool, width: str):
    text = PLACES.replace("at // w", f"({dividend}) // {width}").replace("at % w", "at")
    made = workbench.compile(
        from_text(text), "*i32:16 *i32:16 i32:16 i32:16", {"BLOCK": 128}, "sm_90a", num_warps=4
    )
    found = {"s": "sdiv" in made.asm["llvm"], "u": bool(re.search("udiv|lshr", made.asm["llvm"]))}
    alone = width == "w"  # nothing is known of an argument's sign here
    assert found["s"] is (signed or alone)
    assert found["u"] is not (signed or alone)


def test_products_of_64_bits_may_wrap_and_are_divided_with_their_sign():
    """Addresses are taken not to wrap; numbers that are hashed do, and may be below 0 then."""
    text = PLACES.replace("at // w", "at.to(tl.int64) * at * at % 1000").replace("at % w", "at")
    made = workbench.compile(
        from_text(text), "*i64:16 *i32:16 i32:16 i32:16", {"BLOCK": 128}, "sm_90a", num_warps=4
    )
    assert "srem i64" in made.asm["llvm"]
    assert "urem i64" not in made.asm["llvm"]


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(3))
def test_quotients_are_those_of_elements_on_their_own(seed: int):
    """All patterns of bits: infinities, subnormal numbers, no numbers, beyond the reciprocal."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    rows, columns = SHAPE.values()
    choices = torch.Generator().manual_seed(seed)

    def floats(*shape: int):
        some = torch.randint(-(1 << 31), 1 << 31, shape, generator=choices)
        return some.to(torch.int32).view(torch.float32).cuda()

    kernel = workbench.jit(from_text(QUOTIENTS))
    edges = [0.0, -0.0, torch.inf, -torch.inf, torch.nan, 1.0, 2.0**-149, 2.0**-126, 2.0**126]
    for _ in range(20):
        x, y = floats(rows, columns), floats(rows)
        y[: len(edges)] = torch.tensor(edges, device="cuda")
        x[:, : len(edges)] = y[: len(edges)]
        shared, alone = torch.empty_like(x), torch.empty_like(x)
        each = y[:, None].expand(rows, columns).contiguous()
        kernel[(1,)](x, y, each, shared, alone, **SHAPE, num_warps=4)
        assert torch.equal(shared.view(torch.int32), alone.view(torch.int32))


WHOLE = """
def whole(x, y, n, B: tl.constexpr, LOOP: tl.constexpr):
    if LOOP:
        for start in range(0, n, B):
            at = start + tl.arange(0, B)
            tl.store(y + at, tl.load(x + at // 16 * 16 + at % 16))
    else:
        at = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(y + at, tl.load(x + at // 16 * 16 + at % 16))
"""


@pytest.mark.parametrize("loop", [False, True])
def test_what_is_divided_and_put_together_again_is_not_taken_apart(loop: bool):
    """The sum's quotient and its remainder stay those of one number, which is the sum."""
    named = {"B": 1024, "LOOP": loop}
    compiled = workbench.compile(
        from_text(WHOLE), "*i32:16 *i32:16 i32:16", named, "sm_90a", num_warps=4
    )
    text = compiled.asm["gpu"]
    divided = re.findall(r"tile\.(?:div|rem) \[(%\w+), %\w+\] : tile", text)
    assert len(divided) == 2
    assert len(set(divided)) == 1
    assert f"{divided[0]} = tile.add" in text
