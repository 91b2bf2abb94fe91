"""Launches that begin while the one before runs, on a GPU: they do, and read what that stores."""

from __future__ import annotations

from typing import Any

import pytest

import workbench as wb
import workbench.language as tl
from tests.targets.nvidia.test_on_device import device_chip
from workbench.launch import fastpath
from workbench.source import ResourceError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def _on_hopper() -> None:
    if device_chip() != "sm_90a":
        pytest.skip("no CUDA device with dependent launches")


@wb.jit
def slowly(x, value, times, spins, n, BLOCK: tl.constexpr):
    tl.extra.cuda.gdc_wait()
    tl.extra.cuda.gdc_launch_dependents()
    start = tl.extra.cuda.globaltimer()
    while tl.extra.cuda.globaltimer() < start + spins:
        pass
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + offsets, offsets.to(tl.float32) + value, offsets < n)
    tl.store(times, tl.extra.cuda.globaltimer())


@wb.jit
def then(x, out, times, n, BLOCK: tl.constexpr):
    tl.store(times + 1, tl.extra.cuda.globaltimer())
    tl.extra.cuda.gdc_wait()
    tl.extra.cuda.gdc_launch_dependents()
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, 2 * tl.load(x + offsets, offsets < n), offsets < n)


@wb.jit
def meeting(count, out, BLOCK: tl.constexpr):
    """All programs wait for all, then each reads what the next one has stored."""
    me, programs = tl.program_id(0), tl.num_programs(0)
    offsets = tl.arange(0, BLOCK)
    tl.store(out + me * BLOCK + offsets, me)
    tl.debug_barrier()
    tl.atomic_add(count, 1, sem="release")
    while tl.atomic_add(count, 0, sem="acquire") < programs:
        pass
    other = tl.load(out + (me + 1) % programs * BLOCK + offsets)
    tl.store(out + (programs + me) * BLOCK + offsets, other)


@wb.jit
def product(
    a, b, c, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # square, of whole tiles
    columns = tl.cdiv(N, BN)
    rows = tl.program_id(0) // columns * BM + tl.arange(0, BM)
    across = tl.program_id(0) % columns * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    tl.extra.cuda.gdc_wait()
    for k in range(0, N, BK):
        x = tl.load(a + rows[:, None] * N + (k + inner)[None, :])
        y = tl.load(b + (k + inner)[:, None] * N + across[None, :])
        total = tl.dot(x, y, total)
    tl.extra.cuda.gdc_launch_dependents()
    tl.store(c + rows[:, None] * N + across[None, :], (total * 0.02).to(tl.float16))


def chain(n: int = 4096, spins: int = 20_000) -> tuple[Any, Any, Any, Any]:
    """Return what launches both kernels with a value, what the second stores, and the times."""
    x, out = (torch.zeros(n, device="cuda") for _ in range(2))
    times = torch.zeros(2, dtype=torch.int64, device="cuda")
    first, second = wb.jit(slowly.fn), wb.jit(then.fn)

    def launch(value: float, early: bool = True) -> Any:
        first[(4,)](x, value, times, spins, n, BLOCK=1024, launch_pdl=early)
        return second[(4,)](x, out, times, n, BLOCK=1024, launch_pdl=early)

    return launch, out, times, torch.arange(n, device="cuda", dtype=torch.float32)


@pytest.mark.parametrize("early", [True, False])
def test_a_launch_begins_while_the_one_before_runs_where_it_may(early: bool) -> None:
    """One of several launches does: a process beside this one may have the GPU in between."""
    launch, out, times, numbers = chain(spins=2_000_000)
    launch(1.0, early)
    found = list[bool]()
    for value in range(10):
        torch.cuda.synchronize()
        assert launch(float(value), early).launch.early is early
        assert torch.equal(out, 2 * (numbers + value))
        ended, began = times.tolist()
        found.append(began < ended)
    assert any(found) is early


def test_every_launcher_reads_what_the_launch_before_has_stored() -> None:
    launch, out, _, numbers = chain()
    for value in range(fastpath.NATIVE_AFTER + 40):
        launch(float(value))
        seen = out.clone()
        assert torch.equal(seen, 2 * (numbers + value))


def test_graphs_of_such_launches_give_the_same_each_time() -> None:
    launch, out, _, numbers = chain()
    launch(1.0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for value in range(20):
            launch(float(value))
    for _ in range(20):
        out.zero_()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, 2 * (numbers + 19))


def test_programs_that_meet_are_all_there_or_refused() -> None:
    there = torch.cuda.get_device_properties(0).multi_processor_count
    kernel = wb.jit(meeting.fn)
    for _ in range(fastpath.NATIVE_AFTER + 10):
        count = torch.zeros(1, dtype=torch.int32, device="cuda")
        out = torch.zeros(2 * there * 128, dtype=torch.int32, device="cuda")
        kernel[(there,)](count, out, BLOCK=128, num_warps=4, launch_cooperative_grid=True)
        numbers = torch.arange(there, device="cuda", dtype=torch.int32)
        wanted = torch.cat([numbers, numbers.roll(-1)])
        assert torch.equal(out.view(2 * there, 128), wanted[:, None].expand(-1, 128))
    many = 64 * there
    out = torch.zeros(2 * many * 128, dtype=torch.int32, device="cuda")
    with pytest.raises(ResourceError, match="more programs than cuda:0 can run at one time"):
        kernel[(many,)](count, out, BLOCK=128, num_warps=4, launch_cooperative_grid=True)
    torch.cuda.synchronize()
    assert not out.any()


@pytest.mark.parametrize("options", [{}, {"warp_specialize": True}, {"persistent": True}])
@pytest.mark.parametrize("n", [512, 2048])
def test_products_of_products_have_the_same_bits(n: int, options: dict[str, Any]) -> None:
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
    arrays = [torch.empty_like(a) for _ in range(2)]

    def launch(early: bool) -> Any:
        left = a
        for turn in range(6):
            c = arrays[turn % 2]
            kernel = product[((n // 128) * (n // 256),)](
                left, b, c, n, BM=128, BN=256, BK=64, num_warps=8, num_stages=3,
                launch_pdl=early, **options,
            )  # fmt: skip
            assert kernel.launch.early is early
            left = c
        return left.clone()

    wanted = launch(False)
    for _ in range(5):
        assert torch.equal(launch(True), wanted)
