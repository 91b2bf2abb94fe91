"""The order of memory on a device: of a program's warps, of programs, of loads that run ahead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import workbench
from tests.language.harness import from_text
from tests.targets.nvidia.test_memory_order import ACROSS_WARPS, compiled
from tests.targets.nvidia.test_order_of_loops import MATMUL, OVERTAKEN, arrays, loop
from workbench.interpreter import run_module

HAND_OVER = """
def kernel(data_ptr, flag_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    if pid % 2 == 0:
        tl.store(data_ptr + pid * BLOCK + i, pid + BLOCK - i)
        {give}
    else:
        {take}
        x = tl.load(data_ptr + (pid - 1) * BLOCK + BLOCK - 1 - i)
        tl.store(out_ptr + pid * BLOCK + i, x)
"""
GIVE = ("tl.atomic_xchg(flag_ptr + pid, 1, sem='release')", "tl.atomic_add(flag_ptr + pid, 1)")
TAKE = (
    "while tl.atomic_add(flag_ptr + pid - 1, 0, sem='acquire') == 0:\n            pass",
    "while tl.load(flag_ptr + pid - 1) == 0:\n            pass\n"
    "        tl.atomic_add(flag_ptr + pid - 1, 0, sem='acquire')",
)


def on_device(text: str) -> Any:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    return workbench.jit(from_text(text))


@pytest.mark.gpu
@pytest.mark.parametrize("give", GIVE)
@pytest.mark.parametrize("take", TAKE)
@pytest.mark.parametrize("warps", [1, 4, 16])
def test_what_is_handed_over_arrives(give: str, take: str, warps: int):
    """Neighbouring programs; the giver comes first, so every taker's giver runs or has run."""
    import torch

    kernel = on_device(HAND_OVER.format(give=give, take=take))
    programs, block = 6300, 1024
    for _ in range(3):
        data, out = (torch.zeros(programs * block, dtype=torch.int32, device="cuda") for _ in "do")
        flags = torch.zeros(programs, dtype=torch.int32, device="cuda")
        kernel[(programs,)](data, flags, out, programs, BLOCK=block, num_warps=warps)
        got = out.view(programs, block)[1::2]
        pids = torch.arange(0, programs, 2, device="cuda", dtype=torch.int32)[:, None]
        want = pids + 1 + torch.arange(block, device="cuda", dtype=torch.int32)
        assert int((got != want).sum()) == 0


LAST_REDUCES = """
def kernel(x_ptr, parts_ptr, count_ptr, out_ptr, BLOCK: tl.constexpr, PROGRAMS: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    tl.store(parts_ptr + pid * BLOCK + i, tl.load(x_ptr + pid * BLOCK + i) * 2)
    if tl.atomic_add(count_ptr, 1) == PROGRAMS - 1:
        total = tl.zeros((BLOCK,), tl.int32)
        for k in range(PROGRAMS):
            total += tl.load(parts_ptr + k * BLOCK + BLOCK - 1 - i)
        tl.store(out_ptr + i, total)
"""


@pytest.mark.gpu
@pytest.mark.parametrize("warps", [1, 8])
def test_the_last_program_sees_what_all_have_stored(warps: int):
    import torch

    kernel = on_device(LAST_REDUCES)
    programs, block = 512, 2048
    for seed in range(20):
        torch.manual_seed(seed)
        x = torch.randint(-99, 99, (programs, block), dtype=torch.int32, device="cuda")
        parts, out = torch.zeros_like(x), torch.zeros(block, dtype=torch.int32, device="cuda")
        count = torch.zeros(1, dtype=torch.int32, device="cuda")
        kernel[(programs,)](x, parts, count, out, BLOCK=block, PROGRAMS=programs, num_warps=warps)
        assert torch.equal(out, 2 * x.sum(0, dtype=torch.int32).flip(0))


LOCK = """
def kernel(lock_ptr, x_ptr, n):
    i = tl.arange(0, 512)
    for _ in range(n):
        while tl.atomic_cas(lock_ptr, 0, 1) == 1:
            pass
        x = tl.load(x_ptr + i)
        tl.store(x_ptr + 511 - i, x + 1)
        tl.atomic_xchg(lock_ptr, 0)
"""


@pytest.mark.gpu
@pytest.mark.parametrize("warps", [1, 4])
def test_what_a_lock_protects_is_changed_by_one_program_at_a_time(warps: int):
    import torch

    kernel = on_device(LOCK)
    x = torch.arange(512, dtype=torch.int32, device="cuda")
    lock = torch.zeros(1, dtype=torch.int32, device="cuda")
    kernel[(64,)](lock, x, 10, num_warps=warps)
    assert torch.equal(x, torch.arange(512, dtype=torch.int32, device="cuda") + 640)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ACROSS_WARPS)
def test_one_program_on_the_device(name: str):
    import torch

    kernel = on_device(ACROSS_WARPS[name])
    for warps in (1, 2, 8, 16):
        want = np.arange(2048, dtype=np.int32)
        run_module(compiled(ACROSS_WARPS[name], "*i32:16 i32").module, (1,), [want, 3])
        for _ in range(20):
            x = torch.arange(2048, dtype=torch.int32, device="cuda")
            kernel[(1,)](x, 3, num_warps=warps)
            np.testing.assert_array_equal(x.cpu().numpy(), want)


@pytest.mark.gpu
@pytest.mark.parametrize("name", OVERTAKEN)
def test_loops_on_the_device_do_not_run_ahead(name: str):
    import torch

    kernel = on_device(loop(OVERTAKEN[name]))
    want = arrays(5)
    run_module(compiled(loop(OVERTAKEN[name]), MATMUL).module, (1,), want)
    for stages in (2, 4):
        held = [torch.from_numpy(v).cuda() for v in arrays(5)[:-1]]
        kernel[(1,)](*held, 5, num_stages=stages)
        for got, one in zip(held, want[:-1], strict=True):
            np.testing.assert_allclose(got.cpu().numpy(), one, rtol=2e-3, atol=2e-3)
