"""Operands that no product by warpgroups reads as memory has them: its first, from registers."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import workbench.language as tl
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.hazards import RaceError, simulate
from tests.targets.nvidia.protocol import explore, record
from tests.targets.nvidia.test_odd_extents import staged, staged_arguments
from tests.targets.nvidia.test_ptx import needs_nvdisasm, needs_ptxas
from tests.targets.nvidia.test_roles import ordered
from tests.targets.nvidia.test_warpgroups import SM_90A, compiled, integer_product
from workbench.ir import DROP, Builder, Module, Op, Shared, Tile, layout_of, rebuild, shape_of
from workbench.layouts import (
    BYTE_PAIRS,
    LinearLayout,
    byte_pairs_fit,
    f2,
    swizzled,
    wgmma_a,
    wgmma_d,
)
from workbench.layouts.between import row_order
from workbench.layouts.predict import linear_wavefronts, phases, wavefronts
from workbench.ops import ConvertLayout, For
from workbench.source import LaunchError
from workbench.targets.nvidia.ops import Arrive, Await, WarpgroupDot
from workbench.targets.nvidia.toolchain import assemble
from workbench.targets.nvidia.warpgroups import rows_of
from workbench.targets.simt.kernel import lower
from workbench.targets.simt.ops import BlockBarrier, SharedLoad, SharedStore, roles_of
from workbench.targets.simt.passes.shared_memory import allocate

#: How copies come: vectors, boxes that all threads wait for, a producer's boxes, for programs that
#: follow each other.
WAYS: dict[str, dict[str, Any]] = {
    "vectors": {"tma": False},
    "boxes": {"narrow_index": True, "warp_specialize": False},
    "roles": {"narrow_index": True, "warp_specialize": True, "persistent": False},
    "staying": {"narrow_index": True, "warp_specialize": True, "persistent": True},
}
#: Rows, columns, depth of a tile; warps; how operands lie in memory, and how copies come.
CASES = [
    (64, 64, 32, 4, "nn", "vectors"), (64, 64, 16, 8, "nn", "roles"),
    (64, 128, 16, 4, "nn", "staying"), (192, 64, 16, 4, "tt", "boxes"),
    (128, 64, 16, 8, "tt", "roles"), (64, 64, 16, 4, "tt", "vectors"),
    (128, 64, 16, 8, "tn", "vectors"), (64, 96, 16, 4, "tn", "boxes"),
]  # fmt: skip


def of(module: Module, way: str, **options: Any) -> Module:
    """Return the last GPU IR of a kernel."""
    options = {**WAYS[way], **options}
    module = replace(module, attributes={**module.attributes, **options})
    final = [module, *(after for _, after in tile_steps(module))][-1]
    return [after for _, after in gpu_steps(final, SM_90A, **options)][-1]


def product_of(module: Module) -> WarpgroupDot:
    (product,) = (op for op in module.walk() if isinstance(op, WarpgroupDot))
    return product


def arguments_of(m: int, n: int, k: int, kind: str) -> list[Any]:
    return staged_arguments(m, n, k, kind, np.float32)


@pytest.mark.parametrize(("m", "n", "k", "warps", "kind", "way"), CASES)
def test_every_form_means_the_same(m: int, n: int, k: int, warps: int, kind: str, way: str):
    """And no thread reads what is not there yet; loops end in a part of a tile."""
    before = staged(m, n, k, warps, kind, "fp32")
    inner = 3 * k + 4
    after = of(before, way)
    assert isinstance(product_of(after).first.type, Tile)
    wanted = meaning(before, (1,), arguments_of(m, n, inner, kind))
    assert meaning(after, (1,), arguments_of(m, n, inner, kind)) == wanted
    if roles_of(after) is None:
        placed, offsets, total = ordered(after)
    else:
        placed, (offsets, _, total) = after, allocate(after, SM_90A)
    simulate(placed, offsets, total, (1,), arguments_of(m, n, inner, kind), SM_90A)


def transposed(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    """Both operands as memory has them, transposed afterwards: C = A.T @ B.T."""
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    total = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, K, BK):
        at = start + inner
        a = tl.load(a_ptr + at[:, None] * M + rows[None, :], mask=at[:, None] < K, other=0.0)
        b = tl.load(b_ptr + columns[:, None] * K + at[None, :], mask=at[None, :] < K, other=0.0)
        total = tl.dot(tl.trans(a), tl.trans(b), total)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total)


@pytest.mark.parametrize("way", ["vectors", "boxes", "roles"])
def test_what_is_transposed_in_the_kernel_is_read_as_it_lies(way: str):
    words, extents = "*fp32:16 *fp32:16 *fp32:16 i32:16", {"M": 64, "N": 32, "BK": 16}
    before = tile_ir(transposed, words, extents, num_warps=4, num_stages=3)

    def arguments() -> list[Any]:
        a, b = numbers(64 * 80, np.float32), numbers(32 * 80, np.float32, 2)
        return [a, b, np.zeros(64 * 32, np.float32), 80]

    after = of(before, way)
    assert not any(isinstance(op, ConvertLayout | SharedStore) for op in after.walk())
    assert meaning(after, (1,), arguments()) == meaning(before, (1,), arguments())


def loop_with_product(module: Module) -> For:
    """Return the loop of those who multiply."""
    product = product_of(module)
    (loop,) = (
        op for op in module.walk()
        if isinstance(op, For) and any(inner is product for inner in op.body.ops)
    )  # fmt: skip
    return loop


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["nn", "tt"])
def test_a_round_reads_fragments_and_nothing_else(kind: str, way: str):
    """No second trip through shared memory; the product goes on while parts are read."""
    after = of(staged(64, 64, 32, 4, kind, "fp32", 4), way)
    product, body = product_of(after), loop_with_product(after).body
    assert (product.in_flight, product.parts, product.is_turned) == (1, 2, kind == "nn")
    assert [type(op) for op in body.ops if isinstance(op, SharedLoad | SharedStore)] == [SharedLoad]
    assert not any(isinstance(op, ConvertLayout) for op in body.ops)
    barriers = sum(isinstance(op, BlockBarrier) for op in body.ops)
    assert barriers == (0 if roles_of(after) is not None else 1)


def test_of_two_the_larger_is_first_and_the_other_is_turned():
    for m, n in ((128, 64), (64, 128)):
        last, _, _ = ordered(of(staged(m, n, 32, 4, "tn", "fp32"), "boxes"))
        assert product_of(last).is_turned == (n > m)
        body = loop_with_product(last).body
        stored = [shape_of(op.source.type) for op in body.ops if isinstance(op, SharedStore)]
        assert stored in ([(32, 64)], [(64, 32)])


def test_the_twin_turns_what_it_reads():
    for kind in ("nn", "tt"):
        twin = of(staged(64, 64, 32, 4, kind, "fp32"), "boxes", loaded_first=False)
        product = product_of(twin)
        assert isinstance(product.a.type, Shared)
        assert isinstance(product.b.type, Shared)
        assert not product.is_turned


def test_who_reads_k_as_it_lies_is_left_alone():
    """Sixteen bits are read both ways; nt is K-major; a part of k would be half an instruction."""
    modules = [
        staged(64, 64, 32, 4, "nn"),
        staged(64, 64, 32, 4, "nt", "fp32"),
        staged(64, 64, 8, 4, "nn", "fp32"),
        integer_product("nn", 64, 64, 32, 4),
    ]
    for module in modules:
        product = product_of(of(module, "boxes"))
        assert isinstance(product.first.type, Shared)
        assert not rows_of(product, 4)


# -- bytes ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["nn", "tt"])
def test_bytes_mean_the_same(kind: str, way: str):
    m, n, k = 64, 64, 64
    before = integer_product(kind, m, n, k, 4)

    def arguments() -> list[Any]:
        a, b = (numbers(64 * 4 * k, np.int8, seed) for seed in range(2))
        strides = [4 * k if kind[0] == "n" else m, n if kind[1] == "n" else 4 * k]
        return [a, b, np.zeros(m * n, np.int32), 4 * k, *strides]

    after = of(before, way)
    product = product_of(after)
    assert isinstance(product.first.type, Tile)
    assert (product.in_flight, product.parts) == (1, 2)
    assert meaning(after, (1,), arguments()) == meaning(before, (1,), arguments())


#: Rows, depth, warpgroups along rows, the width of a box's row.
BYTES = [(64, 32, 1, 64), (128, 64, 1, 128), (256, 128, 2, 128), (64, 64, 1, 32)]


@pytest.mark.parametrize(("rows", "k", "groups", "width"), BYTES)
def test_words_of_bytes_come_out_of_two_matrices(rows: int, k: int, groups: int, width: int):
    """What PTX says of ldmatrix.trans and prmt, lane by lane; each matrix reaches all banks."""
    buffer = swizzled((rows, k), 1, (0, 1), exchange=False, width=width)
    fragment = wgmma_a((rows, k), 4, 4 * groups, 1, row_order(buffer, 1, 4, 1, groups))
    plan = byte_pairs_fit(buffer, fragment)
    assert plan is not None
    at = {
        place: flat for flat, place in enumerate(buffer.offsets(_whole(rows, k)).table("register"))
    }
    words = fragment.table("register")
    for warp in range(4 * groups):
        start = f2.apply(plan.warp, warp)
        for step in plan.instructions:
            places = [start ^ step.offset ^ f2.apply(plan.lane, lane) for lane in range(32)]
            for matrix in range(plan.count):
                chosen = places[8 * matrix : 8 * matrix + 8]
                assert wavefronts([*chosen, *[None] * 24], 16) == 1
            for lane in range(32):
                t, g = lane & 3, lane >> 2
                halves = [
                    [at[places[8 * matrix + 2 * t + row] + 2 * g + byte]
                     for row in range(2) for byte in range(2)]
                    for matrix in range(plan.count)
                ]  # fmt: skip
                for pair in range(0, plan.count, 2):
                    both = [*halves[pair], *halves[pair + 1]]
                    for word, chosen in zip(
                        step.registers[pair : pair + 2], BYTE_PAIRS, strict=True
                    ):
                        selector = chosen[t // 2]
                        got = [both[selector >> 4 * n & 7] for n in range(4)]
                        held = f2.apply(fragment.flat("lane"), lane)
                        held ^= f2.apply(fragment.flat("warp"), warp)
                        assert got == [words[word + n] ^ held for n in range(4)]


def _whole(rows: int, k: int) -> LinearLayout:
    """Return a layout whose registers are the elements of a tile in their order."""
    bits = f2.units((rows * k).bit_length() - 1)
    return LinearLayout.from_flat((tuple(bits), (), (), ()), (rows, k), "whole")


@needs_ptxas
@needs_nvdisasm
@pytest.mark.parametrize("dtype", ["fp8e4nv", "int8"])
def test_the_machine_code_of_bytes(dtype: str):
    """Four loads of matrices, and a permute for each register."""
    if dtype == "int8":
        module = integer_product("nn", 256, 128, 128, 8)
    else:
        module = staged(256, 128, 128, 8, "nn", dtype)
    found, _ = compiled(module)
    result = assemble(found.texts["ptx"]().text, "sm_90a")
    assert (result.spill_store_bytes, result.notes) == (0, ())
    words = re.findall(
        r"\b([IQ]GMMA|LDSM\.16\.MT88\.4|PRMT|LDS|STS|BAR)\b",
        "\n".join(consumers_loop(found.texts["sass"]().text)),
    )
    assert [words.count(word) for word in ("LDSM.16.MT88.4", "PRMT")] == [4, 16]
    assert words.count("IGMMA") + words.count("QGMMA") == 4
    assert not {"LDS", "STS", "BAR"} & {*words}


# -- the order of rows ----------------------------------------------------------------------------
#: Rows, depth, warpgroups along rows.
ROWS = [(64, 8, 1), (64, 32, 1), (192, 32, 1), (128, 16, 2), (256, 32, 2), (256, 64, 4)]


def buffer_of(rows: int, k: int) -> LinearLayout:
    return swizzled((rows, k), 4, (0, 1), exchange=False)


@pytest.mark.parametrize(("rows", "k", "groups"), ROWS)
def test_fragments_are_read_in_pairs_without_bank_conflicts(rows: int, k: int, groups: int):
    buffer = buffer_of(rows, k)
    order = row_order(buffer, 4, 1, 1, groups)
    assert sorted(order) == list(range((rows - 1).bit_length()))
    places = buffer.offsets(wgmma_a((rows, k), 1, 4 * groups, 1, order).verify())
    assert 1 in places.flat("register")
    lanes = [offset * 4 for offset in places.flat("lane")]
    assert linear_wavefronts(lanes, 8) == phases(8)
    plain = buffer.offsets(wgmma_a((rows, k), 1, 4 * groups))
    assert linear_wavefronts([offset * 4 for offset in plain.flat("lane")], 4) == 2 * phases(4)


@pytest.mark.parametrize(("rows", "k", "groups"), ROWS)
def test_sums_lie_in_the_order_of_the_rows_that_are_read(rows: int, k: int, groups: int):
    """Row i of an instruction is the same row of the tile in its operand and in its sums."""
    order = row_order(buffer_of(rows, k), 4, 1, 1, groups)
    for plain, other in (
        (wgmma_a((rows, k), 1, 4 * groups), wgmma_a((rows, k), 1, 4 * groups, 1, order)),
        (wgmma_d((rows, 64), 4 * groups), wgmma_d((rows, 64), 4 * groups, 1, order)),
    ):
        for dimension, vectors in plain.bases.items():
            for (row, column), found in zip(vectors, other.bases[dimension], strict=True):
                moved = sum(1 << order[bit] for bit in range(len(order)) if row >> bit & 1)
                assert found == (moved, column)


def test_rows_that_have_no_order_stay_as_they_are():
    assert row_order(buffer_of(96, 32), 4, 1, 1, 1) == ()
    assert row_order(buffer_of(64, 32), 4, 1, 1, 2) == ()  # half a warpgroup's rows are copies


@pytest.mark.parametrize("way", ["boxes", "roles"])
def test_instructions_take_the_rows_that_their_threads_have(way: str):
    """What the text of a product names as registers of A, place by place."""
    module = of(staged(64, 128, 16, 4, "nn", "fp32"), way)
    product = product_of(module)
    layout, order = layout_of(product.first.type), rows_of(product, 4)
    assert layout is not None
    assert order
    places = [layout.unflatten(flat) for flat in layout.table("register")]
    firsts = {row for _, row in places}
    assert firsts == {0, 1 << order[3], 1 << order[6], 1 << order[3] | 1 << order[6]}


# -- planted faults -------------------------------------------------------------------------------
@cache
def parted() -> Module:
    return of(staged(64, 64, 16, 4, "nn", "fp32"), "roles")


def changed(module: Module, change: Any) -> Module:
    """Change what stands in the loop of those who multiply."""
    inside = {op.id for op in loop_with_product(module).body.ops}

    def rewrite(op: Op, builder: Builder) -> Any:
        return change(op) if op.id in inside else None

    return rebuild(module, rewrite)


def read_late(module: Module) -> Module:
    """Give the slot back before its fragments are read: the slot of this round, not of the last."""
    loop = loop_with_product(module)
    (read,) = (op for op in loop.body.ops if isinstance(op, SharedLoad))
    return changed(
        module, lambda op: op.changed(turn=read.slot) if isinstance(op, Arrive) else None
    )


def test_the_protocol_holds():
    for rounds in (1, 2, 4):
        arguments = arguments_of(64, 64, rounds * 16, "nn")
        assert explore(record(parted(), arguments, 1))[0] == "ok"


@pytest.mark.parametrize("fault", ["not waited for", "not given back", "given back too early"])
def test_planted_faults_break_the_protocol(fault: str):
    faults = {
        "not waited for": changed(parted(), lambda op: DROP if isinstance(op, Await) else None),
        "not given back": changed(parted(), lambda op: DROP if isinstance(op, Arrive) else None),
        "given back too early": read_late(parted()),
    }
    arguments = arguments_of(64, 64, 6 * 16, "nn")
    verdict, _ = explore(record(faults[fault], arguments, 1))
    assert verdict not in ("ok", "too many states")
    with pytest.raises((LaunchError, AssertionError)):
        assert meaning(faults[fault], (1,), arguments) == meaning(parted(), (1,), arguments)


def test_the_simulator_sees_fragments_that_are_read_before_their_copy_has_landed():
    last, offsets, total = ordered(of(staged(64, 64, 32, 4, "nn", "fp32"), "vectors"))
    (read,) = (op for op in loop_with_product(last).body.ops if isinstance(op, SharedLoad))
    wrong = changed(last, lambda op: DROP if isinstance(op, BlockBarrier) else None)
    assert read.slot is not None
    with pytest.raises((RaceError, LaunchError)):
        simulate(wrong, offsets, total, (1,), arguments_of(64, 64, 96, "nn"), SM_90A)


def test_a_part_is_read_to_registers_that_no_product_reads():
    """While the part before is multiplied: each statement waits for the last but one."""
    placed, offsets, _ = ordered(of(staged(64, 64, 32, 4, "nn", "fp32"), "boxes"))
    text = "\n".join(lower(placed, SM_90A, offsets).emit.lines)
    order = re.findall(r"wgmma\.(fence|wait_group\.sync\.aligned \d)", text)
    assert order[:4] == ["wait_group.sync.aligned 1", "fence"] * 2
    statements = re.findall(r'asm sideeffect "[^"]*wgmma\.fence[^"]*", "[^"]*"\((.*)\)', text)
    first, second = ({*re.findall(r"i32 (%\S+?)[,)]", f"{one},")} for one in statements)
    assert len(first) == len(second) == 8
    assert not first & second
    assert text.split("wgmma.fence")[1].count("load <2 x float>") == 4


# -- machine code ---------------------------------------------------------------------------------
def consumers_loop(sass: str) -> list[str]:
    """Return the shortest run from a label to a branch back to it that multiplies."""
    rows = [row.strip() for row in sass.splitlines() if row.strip()]
    labels = {row.split(":")[0].lstrip("."): at for at, row in enumerate(rows) if row.endswith(":")}
    found: list[list[str]] = []
    for at, row in enumerate(rows):
        target = re.search(r"BRA.*?(L_x_\d+)", row)
        if target and labels.get(target[1], at) < at:
            loop = rows[labels[target[1]] : at + 1]
            found += [loop] if any("GMMA" in one for one in loop) else []
    return min(found, key=len)


@needs_ptxas
@needs_nvdisasm
@pytest.mark.parametrize(("m", "n", "kind"), [(256, 128, "nn"), (128, 256, "tt")])
def test_the_machine_code_of_a_round(m: int, n: int, kind: str):
    """Four products, eight loads of two registers, and what the product nt has beside."""
    found, _ = compiled(staged(m, n, 32, 8, kind, "fp32", 4))
    result = assemble(found.texts["ptx"]().text, "sm_90a")
    assert (result.spill_store_bytes, result.notes) == (0, ())
    loop = consumers_loop(found.texts["sass"]().text)
    words = re.findall(r"\b(HGMMA\.64x\d+x8|LDS\.64|LDS|STS|BAR|MOV)\b", "\n".join(loop))
    assert words.count("HGMMA.64x256x8") == 4
    assert words.count("LDS.64") == 8
    assert not {"LDS", "STS", "BAR"} & {*words}
    assert len(loop) <= 70
    second = "\n".join(loop).split("DEPBAR")[1]  # fragments are read while products go on
    assert second.count("LDS.64") == 4


def test_remarks_say_so():
    for kind, said in (("nn", "turned, b in registers"), ("tt", "a in registers")):
        _, recorder = compiled(staged(64, 64, 32, 4, kind, "fp32"))
        told = {r.text for r in recorder.remarks.items if "(wgmma)" in r.text}
        assert told == {f"product by warpgroups (wgmma), {said}"}
