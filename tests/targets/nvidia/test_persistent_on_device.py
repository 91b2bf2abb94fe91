"""Blocks that stay on a GPU: bits are those of blocks that go, whatever the grid, in graphs too."""

from __future__ import annotations

from typing import Any

import pytest

from tests.corpus.sample import jitted
from tests.kernels import attention_forward, matmul
from tests.targets.nvidia.test_on_device import device_chip
from workbench import cdiv

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu

#: What a launch is given beside: blocks that go, that stay, whose producer brings queries, too.
GOING = {"warp_specialize": True}
STAYING = {**GOING, "persistent": True}
FIRST = {**STAYING, "loads_first": True}


@pytest.fixture(autouse=True)
def _on_hopper() -> None:
    if device_chip() != "sm_90a":
        pytest.skip("no CUDA device with warpgroups")


def random(*shape: int) -> Any:
    return torch.randn(*shape, device="cuda", dtype=torch.float16)


def product(m: int, n: int, k: int, blocks: tuple[int, int, int], warps: int) -> Any:
    """Return what launches a product into an array that is told each time."""
    a, b = random(m, k), random(k, n)
    (bm, bn, bk), c = blocks, torch.empty(m, n, device="cuda", dtype=torch.float16)

    def launch(**options: Any) -> Any:
        c.fill_(float("nan"))
        jitted(matmul.matmul)[(cdiv(m, bm) * cdiv(n, bn),)](
            a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), BLOCK_M=bm, BLOCK_N=bn,
            BLOCK_K=bk, GROUP_M=8, ACTIVATION="", num_warps=warps, num_stages=3, **options,
        )  # fmt: skip
        return c.clone()

    return launch


@pytest.mark.parametrize(
    ("m", "n", "k"), [(128, 256, 64), (2048, 2048, 2048), (4096, 4096, 512), (3000, 5000, 320)]
)
@pytest.mark.parametrize("blocks", [(128, 256, 64), (128, 128, 64)])
def test_products_have_the_same_bits(m: int, n: int, k: int, blocks: tuple[int, int, int]):
    launch = product(m, n, k, blocks, 8 if blocks[1] == 256 else 4)
    wanted = launch(**GOING)
    for _ in range(3):
        assert torch.equal(launch(**STAYING), wanted)


def attention(batches: int, heads: int, size: int, head: int, *, causal: bool) -> Any:
    q, k, v = (random(batches, heads, size, head) for _ in "qkv")
    out = torch.empty_like(q)
    lse = torch.empty(batches, heads, size, device="cuda", dtype=torch.float32)

    def launch(**options: Any) -> Any:
        out.fill_(float("nan"))
        strides = (*q.stride(), *k.stride(), *v.stride(), *out.stride())
        jitted(attention_forward.attention)[(cdiv(size, 128), batches * heads)](
            q, k, v, out, lse, head**-0.5, *strides, heads, heads, size, size, HEAD=head,
            BLOCK_M=128, BLOCK_N=128, BLOCK_D=head, CAUSAL=causal, EVEN=size % 128 == 0,
            num_warps=8, num_stages=2, **options,
        )  # fmt: skip
        return torch.cat((out.float().flatten(), lse.flatten()))

    return launch


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("head", [64, 128])
@pytest.mark.parametrize(("batches", "heads", "size"), [(1, 1, 128), (2, 9, 1000), (4, 32, 1024)])
def test_attention_has_the_same_bits(batches: int, heads: int, size: int, head: int, causal: bool):
    launch = attention(batches, heads, size, head, causal=causal)
    wanted = launch(**GOING)
    assert not wanted.isnan().any()
    for options in (STAYING, FIRST):
        for _ in range(3):
            assert torch.equal(launch(**options), wanted), options


def test_a_captured_launch_keeps_its_grid():
    launch = attention(2, 16, 1024, 128, causal=True)
    wanted = launch(**STAYING)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = launch(**STAYING)
    for _ in range(3):
        found.fill_(0)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(found, wanted)


def test_an_empty_grid_runs_nothing():
    a = random(128, 64)
    c = torch.zeros(128, 128, device="cuda", dtype=torch.float16)
    jitted(matmul.matmul)[(0,)](
        a, a, c, 128, 128, 64, 64, 1, 128, 1, 128, 1, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64,
        GROUP_M=8, ACTIVATION="", num_warps=4, num_stages=3, **STAYING,
    )  # fmt: skip
    assert not c.any()
