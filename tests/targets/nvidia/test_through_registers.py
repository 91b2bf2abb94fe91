"""Tiles that no copy brings as products read them: loaded ahead, stored a round later."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.targets.nvidia.hazards import RaceError, simulate
from tests.targets.nvidia.test_odd_extents import staged, staged_arguments
from tests.targets.nvidia.test_ptx import needs_nvdisasm, needs_ptxas
from tests.targets.nvidia.test_roles import ordered
from tests.targets.nvidia.test_warpgroups import (
    SM_90A,
    compiled,
    in_gpu_ir,
    integer_product,
    products,
)
from workbench.interpreter import run_module
from workbench.ir import DROP, Module, Op, Shared, rebuild
from workbench.layouts import f2, swizzled
from workbench.layouts.between import from_memory
from workbench.layouts.predict import linear_sectors, linear_wavefronts
from workbench.ops import For, Load
from workbench.source import LaunchError
from workbench.targets.nvidia.ops import AsyncCopy, FenceProducts
from workbench.targets.nvidia.toolchain import assemble
from workbench.targets.nvidia.warpgroup_choice import options_for_turned
from workbench.targets.simt.kernel import lower
from workbench.targets.simt.lowering import Lowering
from workbench.targets.simt.ops import SharedAllocate, SharedLoad, SharedStore

Arguments = Callable[[], list[Any]]
#: Which operands of a form go through registers: those that memory has with k as rows.
FORMS = {"nt": 0, "nn": 1, "tt": 1, "tn": 2}


def asked(module: Module, *, wanted: bool = True) -> Module:
    """Return a kernel whose author asks for it."""
    options = {"through_registers": wanted, "loaded_first": False}
    return replace(module, attributes={**module.attributes, **options})


def of_tf32(kind: str, rounds: int = 5, *, wanted: bool = True) -> tuple[Module, Arguments]:
    module = asked(staged(64, 96, 32, 4, kind, "fp32"), wanted=wanted)
    return module, lambda: staged_arguments(64, 96, rounds * 32, kind, np.float32)


def of_bytes(kind: str, rounds: int = 5) -> tuple[Module, Arguments]:
    m, n, k = 64, 64, rounds * 32
    a, b = (numbers(e * k, np.int8, seed) for seed, e in enumerate((m, n)))
    strides = [k if kind[0] == "n" else m, n if kind[1] == "n" else k]
    module = asked(integer_product(kind, m, n, 32, 4))
    return module, lambda: [a.copy(), b.copy(), np.zeros(m * n, np.int32), k, *strides]


def of_small_floats(kind: str, rounds: int = 5) -> tuple[Module, Arguments]:
    m, n, k = 64, 64, rounds * 32
    values = np.array([0x00, 0x38, 0x40, 0xB8], np.uint8)  # 0, 1, 2, -1
    a, b = (np.random.default_rng(e).choice(values, 64 * k) for e in (1, 2))
    strides = [k if kind[0] == "n" else m, n if kind[1] == "n" else k]
    module = asked(staged(m, n, 32, 4, kind, "fp8e4nv"))
    return module, lambda: [
        a.copy(), b.copy(), np.zeros(m * n, np.float32), m, n, k, *strides, n,
    ]  # fmt: skip


def unaligned(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """Rows of K halves, of which nothing is known: they begin at any two bytes."""
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, K, BK):
        at = inner + start
        a = tl.load(a_ptr + rows[:, None] * K + at[None, :], mask=at[None, :] < K, other=0.0)
        b = tl.load(b_ptr + at[:, None] + columns[None, :] * K, mask=at[:, None] < K, other=0.0)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total)


def of_unaligned(stages: int = 3) -> tuple[Module, Arguments]:
    m, n, k = 64, 64, 4 * 32 + 7
    words, blocks = "*fp16:16 *fp16:16 *fp32:16 i32", {"M": m, "N": n, "BK": 32}
    module = asked(tile_ir(unaligned, words, blocks, num_warps=4, num_stages=stages))
    a, b = numbers(m * k, np.float16), numbers(n * k, np.float16, 2)
    return module, lambda: [a.copy(), b.copy(), np.zeros(m * n, np.float32), k]


MOVES = r"\b(BAR\.SYNC|STS|LDG\.E|HGMMA)\b"
CASES = {
    **{f"tf32 {kind}": of_tf32(kind) for kind in FORMS},
    **{f"int8 {kind}": of_bytes(kind) for kind in FORMS},
    "fp8 nn": of_small_floats("nn"),
    "unaligned": of_unaligned(),
    "unaligned, five stages": of_unaligned(5),
}


def loop_of(module: Module) -> For:
    (loop,) = (op for op in module.walk() if isinstance(op, For))
    return loop


@pytest.mark.parametrize("name", CASES)
def test_they_mean_the_same(name: str):
    """And no thread is ahead of a barrier with what another one reads or stores."""
    module, arguments = CASES[name]
    last = in_gpu_ir(module)
    assert meaning(last, (1,), arguments()) == meaning(module, (1,), arguments())
    placed, offsets, total = ordered(last)
    simulate(placed, offsets, total, (1,), arguments(), SM_90A)


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_loops_shorter_than_the_way_ahead_mean_the_same(rounds: int):
    module, arguments = of_tf32("tn", rounds)
    assert meaning(in_gpu_ir(module), (1,), arguments()) == meaning(module, (1,), arguments())


@pytest.mark.parametrize("name", CASES)
def test_a_round_stores_what_the_one_before_has_loaded(name: str):
    """Nothing passes from one buffer to another, and the block meets once."""
    module, _ = CASES[name]
    last, _, _ = ordered(in_gpu_ir(module))
    body = loop_of(last).body
    loads = [op for op in body.ops if isinstance(op, Load)]
    stores = [op for op in body.ops if isinstance(op, SharedStore)]
    copies = [op for op in body.ops if isinstance(op, AsyncCopy)]
    count = FORMS.get(name[-2:], 2)
    assert (len(loads), len(stores), len(copies)) == (count, count, 2 - count)
    assert not any(isinstance(op, SharedLoad | SharedAllocate) for op in body.ops)
    assert [op.name for op in body.ops].count("gpu.barrier") == 1
    assert all(store.source in body.arguments for store in stores)
    assert all(load.result in body.yields for load in loads)
    (product,) = products(last)
    assert isinstance(product.a.type, Shared)
    assert isinstance(product.b.type, Shared)


def beside_boxes(rounds: int = 5, stages: int = 3) -> tuple[Module, Arguments]:
    """Of two operands with k as rows threads turn one, and read the other where boxes put it."""
    module = staged(64, 128, 32, 4, "tn", "fp32", stages)
    options = {"through_registers": True, "narrow_index": True}
    module = replace(module, attributes={**module.attributes, **options})
    return module, lambda: staged_arguments(64, 128, rounds * 32 - 16, "tn", np.float32)


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_the_other_operand_comes_by_boxes(rounds: int):
    module, arguments = beside_boxes(rounds)
    last = in_gpu_ir(module)
    assert meaning(last, (1,), arguments()) == meaning(module, (1,), arguments())
    placed, offsets, total = ordered(last)
    simulate(placed, offsets, total, (1,), arguments(), SM_90A)
    names = [op.name for op in loop_of(last).body.ops]
    order = ["barrier", "shared_store", "fence_products", "tensor_copy"]
    assert [name[4:] for name in names if name[4:] in order] == order
    assert "gpu.async_copy" not in names


def test_boxes_come_beside_what_is_turned_between_buffers():
    """Two slots are too few for loads into registers."""
    module, arguments = beside_boxes(stages=2)
    last = in_gpu_ir(module)
    assert meaning(last, (1,), arguments()) == meaning(module, (1,), arguments())
    placed, offsets, total = ordered(last)
    simulate(placed, offsets, total, (1,), arguments(), SM_90A)
    names = [op.name for op in loop_of(last).body.ops]
    assert "gpu.tensor_copy" in names
    assert "tile.load" not in names


def test_a_fence_that_is_missing_beside_boxes_is_seen():
    module, arguments = beside_boxes()
    with pytest.raises(LaunchError, match="with no fence in between"):
        run_module(without(in_gpu_ir(module), FenceProducts), (1,), arguments())


def test_only_who_asks_gets_it():
    for kind in ("nn", "tn"):
        module, arguments = of_tf32(kind, wanted=False)
        last = in_gpu_ir(module)
        assert not any(isinstance(op, Load) for op in last.walk())
        assert meaning(last, (1,), arguments()) == meaning(module, (1,), arguments())


@pytest.mark.parametrize(
    ("kind", "columns", "dtype", "unasked"),
    [("tn", 256, "fp32", True), ("tn", 128, "fp32", False), ("nn", 256, "fp32", False),
     ("tn", 256, "fp8e4nv", True), ("tn", 128, "fp8e4nv", False)],
)  # fmt: skip
def test_long_products_of_which_one_operand_is_turned_and_one_read_want_it(
    kind: str, columns: int, dtype: str, unasked: bool
):
    """Shorter ones would wait for memory."""
    k = 32 if dtype == "fp32" else 128
    module = staged(128, columns, k, 8, kind, dtype, 3)
    assert options_for_turned(module, SM_90A) == ({"through_registers": True} if unasked else {})


def carries_tiles(module: Module) -> bool:
    """Say whether a loop stores what its last round has loaded."""
    body = loop_of(module).body
    return any(isinstance(op, SharedStore) and op.source in body.arguments for op in body.ops)


def test_who_asks_by_the_option_gets_it():
    """Of a launch or a compilation: the passes find it among the module's attributes."""
    words, blocks = "*fp16:16 *fp16:16 *fp32:16 i32", {"M": 64, "N": 64, "BK": 32}
    options = {"num_warps": 4, "num_stages": 3}
    wanted = tile_ir(unaligned, words, blocks, through_registers=True, **options)
    refused = tile_ir(unaligned, words, blocks, through_registers=False, **options)
    assert carries_tiles(in_gpu_ir(wanted))
    assert not carries_tiles(in_gpu_ir(refused))


def test_what_no_copy_brings_is_loaded_ahead_unasked():
    """Elements of two bytes that lie anywhere; those of aligned rows are copied."""
    words, blocks = "*fp16:16 *fp16:16 *fp16:16 {}", {"M": 64, "N": 64, "BK": 32}
    for stride, unasked in (("i32", True), ("i32:16", False)):
        plain = tile_ir(unaligned, words.format(stride), blocks, num_warps=4, num_stages=3)
        assert "through_registers" not in plain.attributes
        assert carries_tiles(in_gpu_ir(plain)) == unasked


def without(module: Module, planted: type[Op]) -> Module:
    """Drop what a loop has of an op."""
    inside = {op.id for op in loop_of(module).body.ops if isinstance(op, planted)}
    return rebuild(module, lambda op, _: DROP if op.id in inside else None)


def test_the_interpreter_sees_a_missing_fence():
    module, arguments = of_tf32("tn")
    with pytest.raises(LaunchError, match="with no fence in between"):
        run_module(without(in_gpu_ir(module), FenceProducts), (1,), arguments())


def stored_a_slot_too_far(module: Module) -> Module:
    """Let the loop store to the slot that it reads."""
    loop = loop_of(module)
    (product,) = products(module)

    def rewrite(op: Op, builder: Any) -> Any:
        inside = any(op is inner for inner in loop.body.ops)
        if not inside or not isinstance(op, SharedStore):
            return None
        return builder.insert(op.changed(slot=product.slot_b)).results

    return rebuild(module, rewrite)


def test_the_simulator_sees_a_slot_that_is_being_read():
    module, arguments = of_tf32("nn")
    placed, offsets, total = ordered(in_gpu_ir(module))
    with pytest.raises((RaceError, LaunchError)):
        simulate(stored_a_slot_too_far(placed), offsets, total, (1,), arguments(), SM_90A)


REASONS = [
    (64, 96, 8, 2, {}, "hold 1 rounds ahead, it takes 2"),
    (128, 256, 8, 3, {"maxnreg": 168}, "248 registers needed, 168 there"),
]


@pytest.mark.parametrize(("m", "n", "warps", "stages", "options", "reason"), REASONS)
def test_a_remark_says_why_not(
    m: int, n: int, warps: int, stages: int, options: dict[str, Any], reason: str
):
    module = staged(m, n, 32, warps, "tn", "fp32", stages)
    _, recorder = compiled(asked(replace(module, attributes={**module.attributes, **options})))
    said = [r for r in recorder.remarks.items if "not loaded ahead into registers" in r.text]
    assert len(said) == 2
    assert all(reason in remark.text for remark in said)
    assert all(remark.span is not None for remark in said)


def test_a_remark_says_so():
    _, recorder = compiled(of_tf32("nn")[0])
    (said,) = [r for r in recorder.remarks.items if "stored a round later" in r.text]
    assert said.severity == "applied"
    assert said.text.startswith("loaded 2 rounds ahead into registers")


@needs_ptxas
@pytest.mark.parametrize(
    ("kind", "dtype", "k"),
    [("nn", "fp32", 32), ("tn", "fp32", 32), ("tt", "fp32", 32), ("nn", "fp8e4nv", 128)],
)
def test_the_machine_code_spills_nothing(kind: str, dtype: str, k: int):
    found, recorder = compiled(asked(staged(128, 256, k, 8, kind, dtype)))
    assert any("stored a round later" in remark.text for remark in recorder.remarks.items)
    result = assemble(found.texts["ptx"]().text, "sm_90a")
    assert result.spill_store_bytes == 0
    assert not result.notes  # none that says that products wait for each other


@needs_ptxas
@needs_nvdisasm
def test_memory_is_asked_before_a_product_queues_behind_the_one_before():
    """In SASS, too: a warp waits where it starts a product, and a load behind that comes late."""
    found, _ = compiled(asked(staged(128, 256, 32, 8, "nn", "fp32")))
    rows = [row for row in found.texts["sass"]().text.splitlines() if re.search(MOVES, row)]
    words = [match.group() for row in rows if (match := re.search(MOVES, row))]
    ends = [place for place, word in enumerate(words) if word == "BAR.SYNC"]
    (round_,) = [words[a:b] for a, b in pairwise((*ends, len(words))) if "HGMMA" in words[a:b]]
    assert round_ == ["BAR.SYNC", *["STS"] * 8, *["LDG.E"] * 8, *["HGMMA"] * 4]


@needs_ptxas
@needs_nvdisasm
def test_a_fence_waits_for_no_load():
    """It shows what was stored, and waits for all that is under way: loads start behind it."""
    words, blocks = "*fp16:16 *fp16:16 *fp32:16 i32", {"M": 128, "N": 64, "BK": 64}
    module = asked(tile_ir(unaligned, words, blocks, num_warps=8, num_stages=3))
    text = compiled(module)[0].texts["sass"]().text
    rows = re.findall(r"BAR\.SYNC|FENCE\.VIEW|LDG|HGMMA", text[: text.rindex("HGMMA")])
    start = len(rows) - 1 - rows[::-1].index("BAR.SYNC")
    assert rows[start : start + 3] == ["BAR.SYNC", "FENCE.VIEW", "LDG"]
    assert rows[start:].count("FENCE.VIEW") == 1


@needs_ptxas
def test_elements_of_rows_that_begin_anywhere_are_stored_in_vectors():
    """64 loads of two bytes become eight stores of sixteen; neither spills."""
    words, blocks = "*fp16:16 *fp16:16 *fp32:16 i32", {"M": 128, "N": 128, "BK": 64}
    module = asked(tile_ir(unaligned, words, blocks, num_warps=8, num_stages=3))
    found, _ = compiled(module)
    text = found.texts["ptx"]().text
    loop = text[text.rindex("bar.sync", 0, text.index("wgmma.fence")) :]
    loop = loop[: loop.index("wgmma.fence")]
    assert loop.count("ld.global.b16") == 64
    assert loop.count("st.shared.v4") == 8
    assert loop.count("st.shared") == 8
    assert assemble(text, "sm_90a").spill_store_bytes == 0


def test_bytes_are_carried_in_words(monkeypatch: pytest.MonkeyPatch):
    """A loop that carries 64 x 32 bytes over 128 threads has four registers of them."""
    types: list[str] = []
    plain = Lowering.set_words

    def noted(low: Lowering, value: Any, words: list[str]) -> None:
        if value in loop.body.arguments:
            types.extend(words)
        plain(low, value, words)

    monkeypatch.setattr(Lowering, "set_words", noted)
    placed, offsets, _ = ordered(in_gpu_ir(of_bytes("nn")[0]))
    loop = loop_of(placed)
    lower(placed, SM_90A, offsets)
    assert len(types) == 4


def two_ahead(x_ptr, y_ptr, n, B: tl.constexpr):
    at = tl.arange(0, B)
    now, soon = tl.load(x_ptr + at), tl.load(x_ptr + B + at)
    for i in range(n):
        tl.store(y_ptr + i * B + at, now)
        now = soon
        soon = tl.load(x_ptr + (i + 2) * B + at)
    tl.store(y_ptr + n * B + at, now)


def begun_alike(x_ptr, y_ptr, n, B: tl.constexpr):
    at = tl.arange(0, B)
    total = latest = tl.load(x_ptr + at)
    for i in range(n):
        total += latest
        latest = tl.load(x_ptr + (i + 1) * B + at)
    tl.store(y_ptr + at, total)


@pytest.mark.parametrize("kernel", [two_ahead, begun_alike])
def test_what_is_carried_in_words_may_be_carried_in_numbers_beside(kernel: Any):
    """A tile of four bytes in each thread comes round as a word, and another as four numbers."""
    module = tile_ir(kernel, "*i8:16 *i8:16 i32", {"B": 512}, num_warps=4)
    placed, offsets, _ = ordered(in_gpu_ir(module))
    rows = lower(placed, SM_90A, offsets).emit.lines
    found = [row.split("phi ")[1].split()[0] for row in rows if "phi i" in row]
    assert found.count("i8") >= 4
    assert any(" <4 x i8>" in row for row in rows)
    assert "ld.global" in compiled(module)[0].texts["ptx"]().text


SHAPES = [
    ((32, 256), 4, 4, 8), ((32, 128), 4, 1, 8), ((128, 128), 1, 16, 4),
    ((16, 64), 4, 4, 4), ((64, 64), 2, 8, 4),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "itemsize", "width", "warps"), SHAPES)
def test_memory_is_read_in_sectors_and_banks_are_all_reached(
    shape: tuple[int, int], itemsize: int, width: int, warps: int
):
    """Of memory that has axis 1 inside and a buffer that has axis 0 inside."""
    target = swizzled(shape, itemsize, (0, 1), exchange=False)
    layout = from_memory(target, 1, width, itemsize, 32, warps)
    assert layout is not None
    every = [base for name in ("register", "lane", "warp") for base in layout.flat(name)]
    assert f2.rank(every) == len(every) == layout.tile_bits
    places = target.offsets(layout)
    run = next(1 << n for n in range(5) if 1 << n not in places.flat("register"))
    assert run * itemsize >= 4
    bases = [offset * itemsize for offset in places.flat("lane")]
    assert linear_wavefronts(bases, run * itemsize) == max(1, 32 * run * itemsize // 128)
    vector = min(width, layout.consecutive("register", 1))
    columns = [*layout.flat("lane"), *layout.flat("register")[: vector.bit_length() - 1]]
    lanes = [(r, c) for r, c in map(layout.unflatten, columns)]
    assert linear_sectors(lanes, itemsize, 32) * 32 == 32 * vector * itemsize


def test_a_thread_with_one_element_turns_nothing():
    assert from_memory(swizzled((8, 16), 4, (0, 1), exchange=False), 1, 4, 4, 32, 4) is None
