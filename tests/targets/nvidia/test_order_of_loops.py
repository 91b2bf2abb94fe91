"""Loads of a loop run ahead of their round where nobody can tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.execution import execute
from tests.targets.nvidia.test_memory_order import compiled, names
from workbench.interpreter import run_module

LOOP = """
def put(p, x):
    tl.store(p, x)

def kernel(a_ptr, b_ptr, c_ptr, flag_ptr, n):
    i = tl.arange(0, 16)
    place = i[:, None] * 16 + i[None, :]
    acc = tl.zeros((16, 16), tl.float32)
    for k in range(n):
        a = tl.load(a_ptr + k * 256 + place)
        b = tl.load(b_ptr + place)
        acc = tl.dot(a, b, acc)
{body}
    tl.store(c_ptr + place, acc)
"""
NEXT = "a_ptr + (k + 1) * 256 + place, (acc * 0.125).to(tl.float16)"
#: What stands after the dot, by what it is; the loads of `a` must stay behind it.
OVERTAKEN = {
    "a store": f"tl.store({NEXT})",
    "a store in a branch": f"if k % 2 == 0:\n    tl.store({NEXT})",
    "a store in the other branch": f"if k % 2 == 1:\n    b += 1\nelse:\n    tl.store({NEXT})",
    "a store in an inner loop": f"for j in range(2):\n    tl.store({NEXT})",
    "a store in a while": f"j = 0\nwhile j < k + 1:\n    tl.store({NEXT})\n    j += 1",
    "a store in a helper": f"put({NEXT})",
    "a store to the other operand": "tl.store(b_ptr + place, (acc * 0.125).to(tl.float16))",
    "an atomic": "tl.atomic_add(a_ptr + (k + 1) * 256 + place, a, sem='relaxed')",
    "a masked store": f"tl.store({NEXT}, mask=place < 100)",
    "a store one row on": "tl.store(a_ptr + (k + 1) * 256 + 16 + place, a, mask=place < 240)",
}


def loop(body: str) -> str:
    return LOOP.replace("{body}", "\n".join("        " + line for line in body.splitlines()))


def arrays(rounds: int) -> list[Any]:
    values = np.random.default_rng(3)
    a = values.integers(-2, 3, (rounds + 3) * 256).astype(np.float16)
    b = values.integers(-2, 3, 256).astype(np.float16)
    return [a, b, np.zeros(256, np.float32), np.ones(1, np.int32), rounds]


MATMUL = "*fp16:16 *fp16:16 *fp32:16 *i32:16 i32"


@pytest.mark.parametrize("stages", [2, 4])
@pytest.mark.parametrize("name", OVERTAKEN)
def test_loads_do_not_run_ahead_of(name: str, stages: int):
    kernel = compiled(loop(OVERTAKEN[name]), MATMUL, num_stages=stages)
    want, got = arrays(5), arrays(5)
    run_module(kernel.module, (1,), want)
    execute(kernel.module, (1,), got, "sm_90a")
    for one, other in zip(want[:3], got[:3], strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-3)


ORDERED = {
    "a wait": "while tl.atomic_add(flag_ptr, 0, sem='acquire') == 0:\n    pass",
    "a poll": "while tl.load(flag_ptr) == 0:\n    pass",
    "a release": "tl.atomic_xchg(flag_ptr, 1, sem='release')",
    "an atomic with the default order": "tl.atomic_add(flag_ptr, 1)",
    "assembly with effects": (
        "tl.inline_asm_elementwise('membar.gl; mov.u32 $0, 0;', '=r', [], tl.int32, "
        "is_pure=False, pack=1)"
    ),
}


@pytest.mark.parametrize("name", ORDERED)
def test_loads_of_what_others_may_write_do_not_run_ahead_of(name: str):
    """The loop stores to `a` nowhere, but the kernel does, so other programs may."""
    text = loop(ORDERED[name]) + "    tl.store(a_ptr + n * 256 + place, acc.to(tl.float16))\n"
    kernel = compiled(text, MATMUL)
    reasons = [r.text for r in kernel.trace.remarks if r.text.startswith("not copied ahead")]
    assert reasons
    assert all("programs" in reason or "stores" in reason for reason in reasons)


def test_loads_run_ahead_of_what_nobody_can_tell():
    for body in ("tl.device_print('k', k)", "tl.debug_barrier()", "tl.device_assert(k < n)"):
        kernel = compiled(loop(body), MATMUL)
        assert names(kernel).count("gpu.async_copy") == 2 * 3, body


SEVERAL_READERS = """
def kernel(a_ptr, b_ptr, c_ptr, sums_ptr, n):
    i = tl.arange(0, 32)
    place = i[:, None] * 32 + i[None, :]
    acc = tl.zeros((32, 32), tl.float32)
    sums = tl.zeros((32,), tl.float32)
    odd = tl.zeros((32, 32), tl.float32)
    for k in range(n):
        a = tl.load(a_ptr + k * 1024 + place)
        b = tl.load(b_ptr + k * 1024 + place)
        acc = tl.dot(a, b, acc)
        sums += tl.sum(a.to(tl.float32), 1)
        if k % 2 == 1:
            odd += b.to(tl.float32)
    tl.store(c_ptr + place, acc + odd)
    tl.store(sums_ptr + i, sums)
"""


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
def test_a_tile_in_the_ring_may_have_several_readers(rounds: int):
    kernel = compiled(SEVERAL_READERS, "*fp16:16 *fp16:16 *fp32:16 *fp32:16 i32")
    assert "gpu.async_copy" in names(kernel)
    assert names(kernel).count("tile.load") == 0
    values = np.random.default_rng(1).integers(-3, 4, (2, 5, 32, 32))
    a, b = values.astype(np.float16)
    c, sums = np.zeros((32, 32), np.float32), np.zeros(32, np.float32)
    execute(kernel.module, (1,), [a, b, c, sums, rounds], "sm_90a")
    x, y = values[:, :rounds].astype(np.float64)
    np.testing.assert_array_equal(c, np.einsum("kij,kjl->il", x, y) + y[1::2].sum(0))
    np.testing.assert_array_equal(sums, x.sum((0, 2)))


PAGES = """
def kernel(table_ptr, pages_ptr, b_ptr, c_ptr, n):
    i = tl.arange(0, 16)
    place = i[:, None] * 16 + i[None, :]
    acc = tl.zeros((16, 16), tl.float32)
    for k in range(n):
        page = tl.load(table_ptr + k)
        a = tl.load(pages_ptr + page * 256 + place)
        acc = tl.dot(a, tl.load(b_ptr + place), acc)
    tl.store(c_ptr + place, acc)
"""


@pytest.mark.parametrize("rounds", [0, 1, 2, 3, 7])
@pytest.mark.parametrize("stages", [2, 4])
def test_pages_are_read_ahead_and_the_table_not_past_its_end(rounds: int, stages: int):
    kernel = compiled(PAGES, "*i32:16 *fp16:16 *fp16:16 *fp32:16 i32", num_stages=stages)
    assert names(kernel).count("gpu.async_copy") >= stages
    values = np.random.default_rng(1)
    pages = values.integers(-3, 4, (9, 16, 16)).astype(np.float16)
    table = values.permutation(9)[:rounds].astype(np.int32)
    b = values.integers(-3, 4, (16, 16)).astype(np.float16)
    c = np.zeros((16, 16), np.float32)
    execute(kernel.module, (1,), [table, pages, b, c, rounds], "sm_90a")
    want = pages[table].astype(np.float64).sum(0) @ b.astype(np.float64)
    np.testing.assert_array_equal(c, want)
