"""Which stores become boxes of tensor maps, that these write what the mask says, and why others do not."""  # noqa: E501

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.raising import SM_90A, may_run
from tests.targets.nvidia.test_raised_products import before_and_after
from workbench.ir import Module
from workbench.ops import Store
from workbench.source import LaunchError
from workbench.targets.nvidia.ops import AwaitStores, TensorStore
from workbench.targets.nvidia.passes.tma_plans import Plans
from workbench.targets.nvidia.tensors import stored_boxes

M, N, K = 64, 64, 16


def product(  # noqa: C901, one kernel for all
    a_ptr, b_ptr, c_ptr, m, n, k, pitch, more_ptr, HOW: tl.constexpr, TYPE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Store a product, of which HOW says what is beside it."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    along = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, k, BLOCK_K):
        inside = start + along < k
        a = tl.load(a_ptr + rows[:, None] * k + start + along[None, :],
                    mask=(rows < m)[:, None] & inside[None, :], other=0.0)  # fmt: skip
        b = tl.load(b_ptr + (start + along)[:, None] * pitch + columns[None, :],
                    mask=inside[:, None] & (columns < n)[None, :], other=0.0)  # fmt: skip
        acc = tl.dot(a, b, acc)
    where = rows[:, None] * pitch + columns[None, :]
    inside = (rows < m)[:, None] & (columns < n)[None, :]
    if HOW == "lower":
        inside = inside & (rows >= 8)[:, None]
    if HOW == "not below":
        inside = inside & (rows >= 0)[:, None] & (columns >= 0)[None, :]
    if HOW == "lower columns":
        inside = inside & (columns >= 8)[None, :]
    if HOW == "guarded":
        inside = inside & (k > 16)
    if HOW == "coupled":
        inside = inside & (rows[:, None] + columns[None, :] < m)
    if HOW == "wrapped":
        where, inside = rows[:, None] * pitch + (columns % n)[None, :], (rows < m)[:, None]
    if HOW == "behind":
        where += 8
    if HOW == "odd":
        where += 1
    if HOW == "twice":
        tl.store(more_ptr + rows, 1.0, mask=rows < m)
    if HOW == "scaled":
        acc = acc + tl.load(c_ptr + where, mask=inside, other=0.0)
    tl.store(c_ptr + where, acc.to(TYPE), mask=inside)
    if HOW == "read":
        tl.store(more_ptr + rows, tl.load(c_ptr + rows * pitch, mask=rows < m), mask=rows < m)


def module_of(how: str = "", n: str = "i32:16", type: Any = tl.float16, warps: int = 4) -> Module:
    element = {tl.float16: "fp16", tl.float32: "fp32"}[type]
    words = f"*fp16:16 *fp16:16 *{element}:16 i32 {n} i32:16 i32:16 *fp32:16"
    sizes = {"HOW": how, "TYPE": type, "BLOCK_M": M, "BLOCK_N": N, "BLOCK_K": K}
    return tile_ir(product, words, sizes, num_warps=warps, num_stages=3)


def asked(module: Module) -> tuple[Module, Module, list[str]]:
    """Return GPU IR before and after raise-tma where stores are asked for, and what it said."""
    attributes = {**module.attributes, "tma_stores": True}
    return before_and_after(replace(module, attributes=attributes))


def arguments(m: int, n: int, k: int, pitch: int) -> list[Any]:
    a, b = numbers(m * k, np.float16), numbers(k * pitch, np.float16, 2)
    c = np.full((m + 1) * pitch + 16, 7, np.float16)
    return [a, b, c, m, n, k, pitch, np.zeros(m + 64, np.float32)]


def stores(module: Module) -> list[TensorStore]:
    return [op for op in module.walk() if isinstance(op, TensorStore)]


def compared(before: Module, after: Module, *sizes: tuple[int, int, int]) -> None:
    for m, n, k in sizes:
        pitch, grid = 96, (-(-m // M), -(-n // N))
        assert may_run(after, arguments(m, n, k, pitch), grid)
        wanted = meaning(before, grid, arguments(m, n, k, pitch))
        assert meaning(after, grid, arguments(m, n, k, pitch)) == wanted


@pytest.mark.parametrize("how", ["", "not below", "guarded", "behind", "scaled"])
def test_a_box_writes_what_the_mask_lets_through(how: str):
    before, after, said = asked(module_of(how))
    assert len(stores(after)) == 1, said
    assert not any(isinstance(op, Store) for op in after.walk())
    compared(before, after, (64, 64, 32), (100, 80, 16), (65, 16, 32))


REASONS = {
    "wrapped": "indices wrapped in ((program_id(1)·64 + x1) % n) are looked at",
    "odd": "where its array begins is not known to be a multiple of 16 bytes",
    "twice": "what the kernel accesses through more_ptr may be the same memory",
    "read": "what the kernel accesses through c_ptr may be the same memory",
    "lower": "a box may begin at program_id(0)·64 - 8, in front of where its mask is on",
    "lower columns": "a box may begin at program_id(1)·64 - 8, in front of where its mask is on",
}


@pytest.mark.parametrize("how", REASONS)
def test_what_no_box_writes_alike_stays_as_it_is(how: str):
    _, after, said = asked(module_of(how))
    assert not stores(after)
    assert any(REASONS[how] in text for text in said if text.startswith("missed")), said


def test_a_copy_that_begins_in_front_of_its_array_is_refused(monkeypatch: pytest.MonkeyPatch):
    """As the hardware does: an illegal instruction ends the kernel."""
    monkeypatch.setattr(Plans, "_known", lambda *_: (0, 0))
    _, after, _ = asked(module_of("lower"))
    assert stores(after)
    with pytest.raises(LaunchError, match="begins at -8, in front of its array"):
        meaning(after, (1, 1), arguments(64, 64, 16, 96))


@pytest.mark.parametrize(
    ("how", "why"),
    [("coupled", "its mask couples axes 0 and 1"),
     ("", "rows end at n, not known to be a multiple of 16 bytes")],
)  # fmt: skip
def test_full_blocks_go_by_boxes_where_others_cannot(how: str, why: str):
    """With 65 columns the hardware would write seven more."""
    before, after, said = asked(module_of(how, n="i32"))
    assert len(stores(after)) == 1
    assert sum(isinstance(op, Store) for op in after.walk()) == 1
    assert any(why in text for text in said), said
    compared(before, after, (64, 64, 32), (100, 65, 16), (65, 9, 32))


@pytest.mark.parametrize("stays", [False, True])
def test_words_that_threads_would_store_as_they_have_them_go_by_boxes(stays: bool):
    """Rows of 32 bytes in an access: where `tma_stores` has been asked for, or blocks stay."""
    module = module_of(type=tl.float32)
    options = {"warp_specialize": True, "persistent": True} if stays else {"tma_stores": True}
    _, after, said = before_and_after(replace(module, attributes={**module.attributes, **options}))
    assert len(stores(after)) == 1, said
    _, after, _ = before_and_after(module)
    assert not stores(after)


@pytest.mark.parametrize("asked_for", [None, False, True])
@pytest.mark.parametrize("stays", [False, True])
def test_stores_go_by_boxes_where_blocks_stay_or_who_asks(asked_for: bool | None, stays: bool):
    options = {"warp_specialize": True, "persistent": True} if stays else {}
    if asked_for is not None:
        options["tma_stores"] = asked_for
    module = module_of()
    _, after, said = before_and_after(replace(module, attributes={**module.attributes, **options}))
    wanted = stays if asked_for is None else asked_for
    assert len(stores(after)) == wanted, said
    assert sum(isinstance(op, Store) for op in after.walk()) == (not wanted)
    if asked_for is None and not stays:
        assert any("no next program begins meanwhile" in text for text in said)


def test_all_of_a_tile_has_room_beside_rings_or_stays_as_it_is():
    """Rings that leave 32 KB for 64 KB: whoever stores would wait for copies."""
    words = "*fp16:16 *fp16:16 *fp16:16 i32 i32:16 i32:16 i32:16 *fp32:16"
    for n, expected in ((256, 0), (128, 1)):
        sizes = {"HOW": "", "TYPE": tl.float16, "BLOCK_M": 128, "BLOCK_N": n, "BLOCK_K": 64}
        module = tile_ir(product, words, sizes, num_warps=8, num_stages=3)
        options = {"warp_specialize": True, "persistent": True}
        module = replace(module, attributes={**module.attributes, **options})
        _, after, said = before_and_after(module)
        assert len(stores(after)) == expected, said
        assert any("rings leave no room" in text for text in said) == (not expected)


@pytest.mark.parametrize("asked_for", [False, True])
def test_boxes_with_rows_of_32_bytes_are_stored_for_who_asks(asked_for: bool):
    words = "*fp16:16 *fp16:16 *fp16:16 i32 i32:16 i32:16 i32:16 *fp32:16"
    sizes = {"HOW": "", "TYPE": tl.float16, "BLOCK_M": M, "BLOCK_N": 16, "BLOCK_K": K}
    module = tile_ir(product, words, sizes, num_warps=4, num_stages=3)
    options = {"warp_specialize": True, "persistent": True}
    options |= {"tma_stores": True} if asked_for else {}
    module = replace(module, attributes={**module.attributes, **options})
    before, after, said = before_and_after(module)
    assert len(stores(after)) == asked_for
    assert any("tma_stores takes 32" in text for text in said) == (not asked_for), said
    for m, n, k in ((64, 16, 32), (100, 8, 16)):
        wanted = meaning(before, (-(-m // M), 1), arguments(m, n, k, 96))
        assert meaning(after, (-(-m // M), 1), arguments(m, n, k, 96)) == wanted


def test_the_last_box_of_a_row_may_be_narrower():
    words = "*fp16:16 *fp16:16 *fp16:16 i32 i32:16 i32:16 i32:16 *fp32:16"
    sizes = {"HOW": "", "TYPE": tl.float16, "BLOCK_M": M, "BLOCK_N": 80, "BLOCK_K": K}
    module = tile_ir(product, words, sizes, num_warps=4, num_stages=3)
    options = {"warp_specialize": True, "persistent": True}
    module = replace(module, attributes={**module.attributes, **options})
    before, after, said = before_and_after(module)
    (store,) = stores(after)
    found = stored_boxes(store)
    assert (found.box, found.narrower) == ((16, 64), (16, 16)), said
    for m, n, k in ((64, 80, 32), (100, 72, 16)):
        wanted = meaning(before, (-(-m // M), 1), arguments(m, n, k, 96))
        assert meaning(after, (-(-m // M), 1), arguments(m, n, k, 96)) == wanted


@pytest.mark.parametrize("asked_for", [False, True])
def test_boxes_of_several_warps_are_stored_for_who_asks(asked_for: bool):
    """A product that is turned: each warp has 16 columns."""
    words = "*fp16:16 *fp16:16 *fp16:16 i32 i32:16 i32:16 i32:16 *fp32:16"
    sizes = {"HOW": "", "TYPE": tl.float16, "BLOCK_M": 144, "BLOCK_N": 128, "BLOCK_K": 64}
    module = tile_ir(product, words, sizes, num_warps=8, num_stages=3)
    options = {"warp_specialize": True, "persistent": True}
    options |= {"tma_stores": True} if asked_for else {}
    module = replace(module, attributes={**module.attributes, **options})
    _, after, said = before_and_after(module)
    assert [stored_boxes(op).together for op in stores(after)] == [4] * asked_for, said
    assert any("has several make them together" in text for text in said) == (not asked_for), said


def test_blocks_that_stay_leave_copies_going():
    module = module_of()
    options = {"warp_specialize": True, "persistent": True, "narrow_index": True}
    module = replace(module, attributes={**module.attributes, **options})
    final = [module, *(after for _, after in tile_steps(module))][-1]
    last = [after for _, after in gpu_steps(final, SM_90A)][-1]
    (store,) = stores(last)
    assert store.kept
    drains = [op for op in last.walk() if isinstance(op, AwaitStores)]
    assert len(drains) == 1
    compared(module, last, (100, 80, 32))
