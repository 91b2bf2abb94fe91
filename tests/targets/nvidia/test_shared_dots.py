"""Products by multiply-adds: how long their code is, and what they compute on a device."""

from __future__ import annotations

import re

import pytest

import workbench
import workbench.language as tl
from tests.passes.corpus import tile_ir
from tests.targets.nvidia.test_on_device import device_chip
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.built import Built
from workbench.targets.nvidia import pipeline
from workbench.targets.simt.shared_dots import STRAIGHT


def product(a_ptr, b_ptr, c_ptr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, inner = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, K)
    a = tl.load(a_ptr + rows * K + inner[None, :])
    b = tl.load(b_ptr + inner[:, None] * N + columns)
    at = c_ptr + rows * N + columns
    tl.store(at, tl.dot(a, b, tl.load(at), input_precision="ieee"))


def built(m: int, n: int, k: int, num_warps: int = 4, word: str = "fp32") -> Built:
    module = tile_ir(
        product, f"*{word}:16 *{word}:16 *{word}:16", {"M": m, "N": n, "K": k}, num_warps=num_warps
    )
    recorder = Recorder()
    return pipeline.build(tile_passes(module, recorder), "sm_90a", recorder)


def ptx(m: int, n: int, k: int, num_warps: int = 4, word: str = "fp32") -> str:
    return built(m, n, k, num_warps, word).texts["ptx"]().text


@pytest.mark.parametrize(
    ("m", "n", "k", "warps"), [(64, 64, 256, 4), (128, 128, 32, 4), (32, 32, 24, 1), (64, 64, 7, 1)]
)
def test_long_products_are_loops_over_k(m: int, n: int, k: int, warps: int):
    made = built(m, n, k, warps)
    assert made.gpu is not None
    # Operands that go through shared memory in slices of k have a loop for each slice.
    slices = [op.name for op in made.gpu.walk()].count("gpu.shared_dot")
    text = made.texts["ptx"]().text
    assert len(re.findall(r"\bfma\.rn\.f32", text)) <= STRAIGHT * slices
    assert re.search(r"@%p\d+ bra", text)


def test_short_products_are_straight():
    text = ptx(32, 32, 16)
    assert len(re.findall(r"\bfma\.rn\.f32", text)) == 32 * 32 * 16 // 128
    assert " bra" not in text


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (32, 32, 16)])
def test_operands_are_read_in_vectors(m: int, n: int, k: int):
    reads = re.findall(r"ld\.shared\.(\S+)", ptx(m, n, k))
    assert set(reads) == {"v4.b32"}


def test_vectors_hold_nothing_that_is_not_wanted():
    reads = re.findall(r"ld\.shared\.(\S+)", ptx(64, 64, 5))  # rows of 5: the last one is alone
    assert {"v4.b32", "b32"} == set(reads)


@pytest.mark.gpu
@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [
        (64, 64, 64),
        (64, 64, 40),
        (16, 16, 128),
        (7, 9, 33),
        (1, 64, 256),
        (64, 1, 100),
        (64, 64, 5),
    ],
)
@pytest.mark.parametrize("word", ["float32", "float64"])
def test_products_on_the_device_are_exact(word: str, m: int, n: int, k: int, warps: int):
    torch = pytest.importorskip("torch")
    if device_chip() is None:
        pytest.skip("no CUDA device")
    dtype = getattr(torch, word)
    a, b, c = (
        torch.randint(-8, 9, shape, device="cuda").to(dtype) for shape in ((m, k), (k, n), (m, n))
    )
    want = a.double() @ b.double() + c.double()
    workbench.jit(product)[(1,)](a, b, c, M=m, N=n, K=k, num_warps=warps)
    assert torch.equal(c.double(), want)
