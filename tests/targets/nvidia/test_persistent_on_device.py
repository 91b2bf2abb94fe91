"""Blocks that stay on a GPU: bits are those of blocks that go, whatever the grid, in graphs too."""

from __future__ import annotations

from typing import Any

import pytest

import workbench.language as tl
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


def product_between(
    a_ptr, b_ptr, c_ptr, m, n, k, FIRST: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(n, BLOCK_N)
    rows = tl.program_id(0) // blocks * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(0) % blocks * BLOCK_N + tl.arange(0, BLOCK_N)
    along = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        inside = start + along < k
        a = tl.load(a_ptr + rows[:, None] * k + start + along[None, :],
                    mask=(rows < m)[:, None] & inside[None, :], other=0.0)  # fmt: skip
        b = tl.load(b_ptr + (start + along)[:, None] * n + columns[None, :],
                    mask=inside[:, None] & (columns < n)[None, :], other=0.0)  # fmt: skip
        acc = tl.dot(a, b, acc)
    inside = (rows >= FIRST) & (rows < m)
    where = rows[:, None] * n + columns[None, :]
    tl.store(c_ptr + where, acc.to(tl.float16), mask=inside[:, None] & (columns < n)[None, :])


@pytest.mark.parametrize("first", [0, 5, 64, 200])
@pytest.mark.parametrize("options", [{}, STAYING, {**STAYING, "tma_stores": True}])
def test_rows_before_the_first_stay_as_they_are(first: int, options: dict[str, Any]):
    """A copy to memory that began in front of its first row was an illegal instruction."""
    m, n, k = 392, 264, 192
    a, b, c = random(m, k), random(k, n), torch.full((m, n), 7.0, device="cuda").half()
    jitted(product_between)[(cdiv(m, 64) * cdiv(n, 64),)](
        a, b, c, m, n, k, FIRST=first, BLOCK_M=64, BLOCK_N=64, BLOCK_K=64, num_warps=4,
        num_stages=3, **options,
    )  # fmt: skip
    wanted = a.float() @ b.float()
    assert torch.equal(c[:first], torch.full_like(c[:first], 7.0))
    torch.testing.assert_close(c[first:].float(), wanted[first:], rtol=1e-2, atol=5e-2)
