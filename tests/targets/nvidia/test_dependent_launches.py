"""Launches that begin while the one before runs: who waits, and what stays behind the wait."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.language as tl
from tests.kernels.paged_attention import merge_segments
from workbench.runtime.compiled import CompiledKernel


@wb.jit
def twice(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    before = tl.load(x + offsets, offsets < n)
    tl.extra.cuda.gdc_wait()
    after = tl.load(x + offsets, offsets < n)
    tl.extra.cuda.gdc_launch_dependents()
    tl.store(out + offsets, before + after, offsets < n)


@wb.jit
def twice_everywhere(x, out, n, BLOCK: tl.constexpr):
    """The same without masks, and of one number."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    before = tl.load(x + offsets) + tl.load(x)
    tl.extra.cuda.gdc_wait()
    after = tl.load(x + offsets) + tl.load(x)
    tl.store(out + offsets, before + after)


@wb.jit
def once(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets, offsets < n), offsets < n)


@wb.jit
def product_of_constants(
    a: tl.const, b: tl.const, c, M, N, K, WHERE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    BK: tl.constexpr,
):  # fmt: skip
    product(a, b, c, M, N, K, WHERE, BM, BN, BK)


@wb.jit
def product(
    a, b, c, M, N, K, WHERE: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    if WHERE == "top":
        tl.extra.cuda.gdc_wait()
    if WHERE == "branch" and K > 7:
        tl.extra.cuda.gdc_wait()
    for k in range(0, K, BK):
        if WHERE == "loop":
            tl.extra.cuda.gdc_wait()
        x = tl.load(a + rows[:, None] * K + (k + inner)[None, :])
        y = tl.load(b + (k + inner)[:, None] * N + columns[None, :])
        total = tl.dot(x, y, total)
    tl.extra.cuda.gdc_launch_dependents()
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))


def of(where: str, kernel: Any = product, **options: Any) -> CompiledKernel:
    arrays = [np.zeros((512, 512), np.float16) for _ in range(3)]
    return kernel.warmup(
        *arrays, 512, 512, 512, WHERE=where, BM=128, BN=128, BK=64, grid=(4, 4), target="sm_90a",
        launch_pdl=True, **{"num_warps": 8, **options},
    )  # fmt: skip


def small(kernel: Any = twice, target: str = "sm_90a", **options: Any) -> CompiledKernel:
    x, out = np.zeros(1024, np.float32), np.zeros(1024, np.float32)
    return kernel.warmup(x, out, 1024, BLOCK=256, grid=(4,), target=target, **options)


def rows(kernel: CompiledKernel, *words: str) -> list[str]:
    """Return which of some words each row of PTX has that has one."""
    found = ([w for w in words if w in line] for line in kernel.asm["ptx"].splitlines())
    return [words[0] for words in found if words]


def unheard(kernel: CompiledKernel) -> list[str]:
    return [r.text for r in kernel.trace.remarks if "launch_pdl" in r.text]


def test_a_load_behind_the_wait_stays_there_though_nobody_writes_what_it_reads() -> None:
    kernel = small(launch_pdl=True)
    assert rows(kernel, "griddepcontrol.wait", "griddepcontrol.launch", "ld.global") == [
        "ld.global", "griddepcontrol.wait", "ld.global", "griddepcontrol.launch",
    ]  # fmt: skip
    assert kernel.launch.early
    assert unheard(kernel) == []


def test_what_was_loaded_before_the_wait_is_loaded_again_behind_it() -> None:
    kernel = small(twice_everywhere, launch_pdl=True)
    found = rows(kernel, "griddepcontrol.wait", "ld.global")
    where = found.index("griddepcontrol.wait")
    assert found[:where] == found[where + 1 :] == ["ld.global"] * 2


@pytest.mark.parametrize(
    ("kernel", "target", "why"),
    [
        (once, "sm_90a", r"does not wait for what it depends on \(tl.extra.cuda.gdc_wait\)"),
        (twice, "sm_80", "sm_80 has no dependent launches"),
        (twice, "cpu", "launches on a processor run one after the other"),
    ],
)
def test_a_launch_that_cannot_begin_early_says_why(kernel: Any, target: str, why: str) -> None:
    made = small(kernel, target, launch_pdl=True)
    assert not made.launch.early
    (told,) = unheard(made)
    assert re.search(f"^launch_pdl=True is not obeyed: .*{why}$", told)
    if target == "sm_80":
        assert "griddepcontrol" not in made.asm["ptx"]


@pytest.mark.parametrize("early", [True, False])
def test_segments_are_merged_by_a_launch_that_begins_early_where_it_is_asked_to(early: bool):
    """As `paged_decode` in the benchmarks launches it: all 16 loads of a thread go out together."""
    arrays = [np.zeros(n, t) for n, t in ((1 << 20, np.float32), (1 << 10, np.float32))]
    kernel = wb.jit(merge_segments).warmup(
        *arrays, np.zeros(4096, np.float16), 4096, 128, 32, HEAD=128, BLOCK_D=128, SEGMENTS=32,
        EARLY=early, num_warps=2, maxnreg=255, launch_pdl=early, grid=(1, 32), target="sm_90a",
    )  # fmt: skip
    assert kernel.launch.early is early
    assert unheard(kernel) == []
    found = rows(kernel, "griddepcontrol.wait", "ld.global")
    assert found == ["griddepcontrol.wait"] * early + ["ld.global"] * found.count("ld.global")
    sums, loads = r"\bFADD|\bFFMA", r"\bLDG\.E\.128"
    listing = re.findall(rf"{sums}|{loads}", kernel.asm["sass"])
    assert len([w for w in listing if w.startswith("LDG")]) == 16
    last = max(n for n, w in enumerate(listing) if w.startswith("LDG"))
    assert sum(not w.startswith("LDG") for w in listing[:last]) < 16


def test_nobody_who_does_not_ask_begins_early() -> None:
    kernel = small()
    assert not kernel.launch.early
    assert rows(kernel, "griddepcontrol.wait") == ["griddepcontrol.wait"]
    assert unheard(kernel) == []


def test_who_copies_waits_as_well_as_who_multiplies() -> None:
    kernel = of("top", warp_specialize=True)
    _, _, roles = kernel.asm["gpu"].partition("gpu.roles")
    assert roles.count("tile.grid_dependency_wait") == 2
    copies = rows(kernel, "griddepcontrol.wait", "cp.async.bulk.tensor")
    assert copies.count("griddepcontrol.wait") == 2
    assert copies[0] == "griddepcontrol.wait"


@pytest.mark.parametrize("product", [product, product_of_constants])
@pytest.mark.parametrize("where", ["branch", "loop"])
def test_warps_do_not_part_around_a_wait_that_not_all_reach(where: str, product: Any) -> None:
    kernel = of(where, product, warp_specialize=True)
    assert "gpu.roles" not in kernel.asm["gpu"]
    said = " ".join(r.text for r in kernel.trace.remarks)
    assert "not specialised" in said or "not raised to a tensor map: the loop waits" in said
    copies = rows(kernel, "griddepcontrol.wait", "cp.async", "ld.global")
    assert copies[0] == "griddepcontrol.wait"


def test_programs_that_are_all_there_at_once_begin_alone() -> None:
    kernel = small(launch_pdl=True, launch_cooperative_grid=True)
    assert kernel.launch.together
    assert not kernel.launch.early
    assert unheard(kernel) == [
        "launch_pdl=True is not obeyed: a launch whose programs are all there at one time begins "
        "alone"
    ]
    stays = of("top", launch_cooperative_grid=True, persistent=True, warp_specialize=True)
    assert not stays.launch.together
    said = [r.text for r in stays.trace.remarks if r.text.startswith("launch_cooperative_grid")]
    assert said == [
        "launch_cooperative_grid=True is not obeyed: blocks stay for one program after the other, "
        "and none waits for another"
    ]


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("where", ["top", "branch", "loop"])
def test_away_from_a_gpu_nothing_waits(target: str, where: str) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((32, 32)).astype(np.float16) for _ in range(2))
    c = np.zeros((32, 32), np.float16)
    product[(2, 2)](a, b, c, 32, 32, 32, WHERE=where, BM=16, BN=16, BK=16, target=target)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), atol=1e-2, rtol=1e-2)
