"""A product of which both halves are read is one instruction."""

from __future__ import annotations

import re

import numpy as np
import pytest

import workbench
from tests.language.harness import from_text
from tests.passes.corpus import tile_ir
from tests.targets.simt.pretend import Pretend, execute, gpu_ir

HALVES = """
def halves(x, low, high, FACTOR: tl.constexpr):
    at = tl.arange(0, 256)
    a = tl.load(x + at)
    b = tl.full([256], FACTOR, a.dtype)
    tl.store(low + at, a * b)
    tl.store(high + at, tl.umulhi(a, b))
"""
FACTOR = 3528531795


def test_both_halves_are_one_product():
    text = from_text(HALVES)
    made = workbench.compile(text, "*u32 *u32 *u32", {"FACTOR": FACTOR}, "sm_90a", num_warps=4)
    assert len(re.findall(r"mul\.wide\.u32 %rd\d+, %r\d+, %r\d+;", made.asm["ptx"])) == 2
    assert "mul.hi" not in made.asm["ptx"]


@pytest.mark.parametrize("line", ["tl.umulhi(a, b)", "a * b"])
def test_one_half_is_its_own(line: str):
    head, *_ = HALVES.partition("    tl.store")
    text = from_text(f"{head}    tl.store(low + at, {line})\n")
    made = workbench.compile(text, "*u32 *u32 *u32", {"FACTOR": FACTOR}, "sm_90a", num_warps=4)
    assert not re.search(r"mul\.wide\.u32 %rd\d+, %r\d+, %r\d+;", made.asm["ptx"])


def test_halves_are_right():
    """Lane by lane, on a machine without such an instruction."""
    machine = Pretend()
    module = tile_ir(from_text(HALVES), "*u32 *u32 *u32", {"FACTOR": FACTOR})
    x = np.random.default_rng(0).integers(0, 1 << 32, 256, dtype=np.uint32)
    x[:4] = 0, 1, (1 << 32) - 1, 1 << 31
    low, high = np.zeros_like(x), np.zeros_like(x)
    execute(gpu_ir(module, machine), machine, (1,), [x, low, high])
    whole = x.astype(np.uint64) * np.uint64(FACTOR)
    assert np.array_equal(low, (whole & 0xFFFFFFFF).astype(np.uint32))
    assert np.array_equal(high, (whole >> np.uint64(32)).astype(np.uint32))


@pytest.mark.gpu
def test_halves_are_right_on_the_device():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    held = np.random.default_rng(0).integers(0, 1 << 32, 256, dtype=np.uint32)
    x = torch.from_numpy(held.view(np.int32)).cuda().view(torch.uint32)
    low, high = torch.empty_like(x), torch.empty_like(x)
    workbench.jit(from_text(HALVES))[(1,)](x, low, high, FACTOR=FACTOR, num_warps=4)
    whole = held.astype(np.uint64) * np.uint64(FACTOR)
    joined = high.cpu().numpy().astype(np.uint64) << np.uint64(32)
    assert np.array_equal(joined + low.cpu().numpy().astype(np.uint64), whole)
