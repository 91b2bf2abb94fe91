"""Products with weights that are made floats on the way: how they lie, and what waits for what."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

import workbench
import workbench.language as tl
from tests.kernels import quantised
from tests.passes.corpus import tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.dequantised import (
    GROUP,
    KERNELS,
    ORDER,
    POINTERS,
    SM_90A,
    arguments,
    computed_first,
    in_gpu_ir,
    module_of,
    product_of,
)
from tests.targets.nvidia.hazards import simulate
from tests.targets.nvidia.protocol import explore, record
from tests.targets.nvidia.test_ptx import needs_ptxas
from tests.targets.nvidia.test_roles import ordered
from workbench.ir import (
    Builder,
    Module,
    Op,
    Shared,
    Tile,
    Value,
    element_of,
    layout_of,
    rebuild,
    shape_of,
    walk,
)
from workbench.ops import ConvertLayout, Dot, Elementwise, For, Load, Splat
from workbench.targets.nvidia.fragments import is_turned
from workbench.targets.nvidia.moves import moves_in
from workbench.targets.nvidia.ops import AsyncCopy, TensorCopy, WarpgroupDot
from workbench.targets.simt.kernel import lower
from workbench.targets.simt.ops import SharedLoad, roles_of


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize(
    ("blocks", "behind"),
    [
        ((8, 32, 64), False), ((16, 32, 64), False), ((16, 64, 128), False), ((64, 64, 64), False),
        ((8, 32, 64), True), ((16, 64, 128), True), ((16, 56, 128), True),
    ],
)  # fmt: skip
def test_it_means_the_same(kind: str, blocks: tuple[int, int, int], behind: bool):
    module = module_of(kind, blocks, behind=behind, num_stages=3)
    last, make = in_gpu_ir(module), arguments(kind, blocks[0])
    assert meaning(last, (1,), make()) == meaning(module, (1,), make())
    placed, offsets, total = ordered(last)
    simulate(placed, offsets, total, (1,), make(), SM_90A)


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("blocks", [(16, 32, 64), (16, 64, 128), (16, 128, 128)])
def test_rings_are_read_without_bank_conflicts(kind: str, blocks: tuple[int, int, int]):
    """Eight lanes read two rows of four chunks, or 16 lanes half as much each."""
    last = in_gpu_ir(module_of(kind, blocks, num_stages=3))
    reads = [move for op, move in moves_in(last, "sm_90a") if isinstance(op, SharedLoad)]
    assert len(reads) >= 2
    assert [move.wavefronts for move in reads] == [move.ideal for move in reads]


@pytest.mark.parametrize("kind", KERNELS)
def test_a_lane_reads_neighbours(kind: str):
    """Weights are the instruction's first operand; nothing is converted in the loop."""
    last = in_gpu_ir(module_of(kind, (16, 32, 64), num_stages=3))
    (loop,) = (op for op in last.walk() if isinstance(op, For))
    (dot,) = (op for op in loop.body.ops if isinstance(op, Dot))
    for value, axis in ((dot.a, 1), (dot.b, 0)):
        layout = layout_of(value.type)
        assert layout is not None
        assert {1 << i for i in range(4)} <= {v[axis] for v in layout.bases["register"]}
    assert not any(isinstance(op, ConvertLayout) for op in loop.body.ops)
    product = layout_of(dot.result.type)
    assert product is not None
    assert is_turned(product)


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("blocks", [(64, 64, 64), (64, 64, 16), (40, 64, 96), (40, 192, 32)])
def test_weights_as_the_first_operand_mean_the_same(kind: str, blocks: tuple[int, int, int]):
    """To the bit what the other way gives, with loops that end in a part of a block."""
    module, make = computed_first(kind, blocks), arguments(kind, blocks[0])
    last = in_gpu_ir(module)
    assert product_of(last).is_turned
    other = in_gpu_ir(computed_first(kind, blocks, computed_first=False))
    assert not product_of(other).is_turned
    assert meaning(last, (1,), make()) == meaning(other, (1,), make())
    placed, offsets, total = ordered(last)
    simulate(placed, offsets, total, (1,), make(), SM_90A)


@pytest.mark.parametrize("kind", KERNELS)
def test_weights_as_the_first_operand_stay_in_registers(kind: str):
    """Neither stores nor a second barrier in a round; X is read where the copy left it."""
    last, _, _ = ordered(in_gpu_ir(computed_first(kind, (64, 64, 64))))
    (loop,) = (op for op in last.walk() if isinstance(op, For))
    names = [op.name for op in loop.body.ops]
    assert not {"gpu.shared_store", "gpu.convert_layout"} & {*names}
    assert names.count("gpu.barrier") == 1
    product = product_of(last)
    assert isinstance(product.a.type, Shared)
    assert isinstance(product.b.type, Tile)


def by_boxes(kind: str, *, parts: bool, blocks: tuple[int, int, int] = (64, 64, 64)) -> Module:
    """Return the GPU IR of a launch whose indices fit 32 bits; `parts`: its warps are to part."""
    options = {"narrow_index": True, "warp_specialize": parts, "persistent": False}
    module = module_of(kind, blocks, num_stages=3)
    final = [module, *(after for _, after in tile_steps(module))][-1]
    return [after for _, after in gpu_steps(final, SM_90A, **options)][-1]


def read_beside_copies(module: Module) -> list[str]:
    """Return the names of ops that read global memory in loops, but for copies of boxes."""
    loops = [op for op in module.walk() if isinstance(op, For)]
    return [
        op.name for loop in loops for op in walk(loop.body)
        if not isinstance(op, TensorCopy)
        and any(e.reads and e.space == "global" for e in op.own_effects())
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("parts", [True, False])
def test_weights_and_scales_come_by_boxes(kind: str, parts: bool):
    """A scale for each column is a row of its own; who parts has a producer copy all of it."""
    last, make = by_boxes(kind, parts=parts), arguments(kind, 64)
    assert (roles_of(last) is not None) == parts
    assert not read_beside_copies(last)
    assert {shape_of(op.buffer.type) for op in last.walk() if isinstance(op, TensorCopy)} == {
        (64, 64), (64,), (32 if kind == "i4" else 64, 64),
    }  # fmt: skip
    assert meaning(last, (1,), make()) == meaning(module_of(kind, (64, 64, 64)), (1,), make())
    placed, offsets, total = ordered(last)
    simulate(placed, offsets, total, (1,), make(), SM_90A)


@pytest.mark.parametrize("kind", KERNELS)
def test_threads_read_boxes_of_weights_without_bank_conflicts(kind: str):
    last = by_boxes(kind, parts=True, blocks=(64, 64, 128))
    reads = [move for op, move in moves_in(last, "sm_90a") if isinstance(op, SharedLoad)]
    assert len(reads) == 2
    assert [move.wavefronts for move in reads] == [move.ideal for move in reads]


def test_a_slot_that_threads_read_is_given_back_in_every_interleaving():
    module = by_boxes("i8", parts=True)
    assert product_of(module).in_flight == 1
    given = arguments("i8", 64)()
    given[6] = 3 * 64  # of so many numbers along k there are three rounds
    assert explore(record(module, given, 1))[0] == "ok"


def test_blocks_go_where_staying_leaves_a_product_no_slot_to_go_on_from():
    """Two slots, of which one is held until the next round's product has begun."""
    named = {"GROUP": GROUP, "BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 128, "EVEN_K": True}
    module = tile_ir(KERNELS["i4"], POINTERS.format("i8"), named, num_warps=8, num_stages=2)
    final = [module, *(after for _, after in tile_steps(module))][-1]
    last = [after for _, after in gpu_steps(final, SM_90A, narrow_index=True)][-1]
    assert roles_of(last) is not None
    buffers = [op.buffer.type for op in last.walk() if isinstance(op, TensorCopy)]
    slots = {type.slots for type in buffers if isinstance(type, Shared)}
    assert slots == {3}


def of_small_floats(k: int) -> Module:
    """Products of 4-bit floats, with k / 32 bytes of scales in each row of a round."""
    named = {"X_FORMAT": "fp16", "W_FORMAT": "e2m1", "BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": k}
    signature = "*f16:16 *u8:16 *u8:16 *f16:16 i32 i32:16 i32:16 i32:16 i32:16 i32:16 i32:16"
    kernel = quantised.product_with_microscales
    return tile_ir(kernel, signature, {**named, "EVEN_K": True}, num_warps=4, num_stages=3)


@pytest.mark.parametrize(("k", "parts"), [(64, True), (128, False)])
def test_warps_part_beside_what_threads_load_a_round_ahead(k: int, parts: bool):
    """Two bytes of scales are no box and no copy; four are a copy, and so are weights then."""

    def make() -> list[Any]:
        random = np.random.default_rng(3)
        x = random.integers(-2, 3, (64, 256)).astype(np.float16)
        w = random.integers(0, 256, (64, 128)).astype(np.uint8)
        scale = random.integers(126, 129, (64, 16)).astype(np.uint8)
        c = np.zeros((64, 64), np.float16)
        return [x.ravel(), w.ravel(), scale.ravel(), c.ravel(), 64, 64, 256, 256, 128, 16, 64]

    module = of_small_floats(k)
    final = [module, *(after for _, after in tile_steps(module))][-1]
    options = {"narrow_index": True, "warp_specialize": parts, "persistent": False}
    last = [after for _, after in gpu_steps(final, SM_90A, **options)][-1]
    assert (roles_of(last) is not None) == parts
    copies = [op for op in last.walk() if isinstance(op, TensorCopy)]
    assert {str(element_of(op.buffer.type)) for op in copies} == {"f16", *(["u8"] * parts)}
    assert read_beside_copies(last) == (["tile.load"] if parts else ["gpu.async_copy"] * 2)
    assert meaning(last, (1,), make()) == meaning(module, (1,), make())
    placed, offsets, total = ordered(last)
    simulate(placed, offsets, total, (1,), make(), SM_90A)


@pytest.mark.parametrize("kind", KERNELS)
def test_the_next_part_is_computed_while_the_last_is_multiplied(kind: str):
    """Registers of a part in flight are not written: in front of it the last but one has ended.

    Behind the last one nobody waits: warps meet and start copies while it is multiplied.
    """
    last = in_gpu_ir(computed_first(kind, (64, 64, 64)))
    product = product_of(last)
    assert (product.in_flight, product.parts) == (1, 2)
    placed, offsets, _ = ordered(last)
    text = "\n".join(lower(placed, SM_90A, offsets).emit.lines)
    loop = text[text.index("wgmma.fence") : text.rindex("wgmma.wait_group")]
    waits = ["wait_group.sync.aligned 1", "fence"] * 2 + ["wait_group.sync.aligned 0"]
    assert re.findall(ORDER, text) == waits
    first = re.findall(r'asm sideeffect "[^"]*wgmma\.fence[^"]*", "[^"]*"\((.*)\)', text)
    words = [set(re.findall(r"i32 (%\S+?)[,)]", f"{one},")) for one in first]
    assert len(words) == 2
    assert words[0]
    assert not words[0] & words[1]
    between = loop.split("wgmma.fence")[1]
    assert "load" in between
    assert re.search(r"f(mul|add|ma)", between)


@pytest.mark.parametrize("stages", [2, 3])
def test_rounds_too_large_for_a_slot_more_are_brought_a_round_later(stages: int):
    """So that weights are computed while others are multiplied."""
    named = {"GROUP": GROUP, "BLOCK_M": 256, "BLOCK_N": 128, "BLOCK_K": 128, "EVEN_K": True}
    module = tile_ir(KERNELS["i4"], POINTERS.format("i8"), named, num_warps=8, num_stages=stages)
    last = in_gpu_ir(module)
    product = product_of(last)
    assert (product.in_flight, product.parts) == (1, 2)
    (loop,) = (op for op in last.walk() if isinstance(op, For) and product in op.body.ops)
    copies = {op.stage for op in loop.body.ops if isinstance(op, AsyncCopy)}
    assert copies == {-1}


def test_copies_ask_their_mask_alone_where_it_ends_with_the_loop():
    """`k < K` says that a round is reached, `k / 2 < K / 2` too."""
    for kind in KERNELS:
        module = module_of(kind, (16, 64, 128), num_stages=3)
        # Else the counter may leave its type, and nothing of the mask says which rounds are.
        narrow = {**module.attributes, "narrow_index": True}
        last = in_gpu_ir(dataclasses.replace(module, attributes=narrow))
        copies = [op for op in last.walk() if isinstance(op, AsyncCopy)]
        copies = [op for op in copies if len(shape_of(op.pointers.type)) == 2]
        assert len(copies) == 6
        for copy in copies:
            assert copy.mask is not None
            assert isinstance(copy.mask.op, Elementwise)
            assert not any(isinstance(v.op, Splat) for v in copy.mask.op.operands)


def test_one_step_of_k_is_no_two_parts():
    product = product_of(in_gpu_ir(computed_first("i8", (64, 64, 16))))
    assert (product.in_flight, product.parts) == (0, 0)


def test_a_product_whose_operand_is_written_before_it_does_not_go_on():
    """Somebody else reads it too: in the next round it would be written while this one goes on."""
    last = in_gpu_ir(computed_first("i8", (64, 64, 64)))
    product = product_of(last)
    assert product.in_flight == 1

    def rewrite(op: Op, builder: Builder) -> tuple[Value, ...] | None:
        if op.id != product.id:
            return None
        builder.add(Elementwise("neg", (op.b,)))
        return builder.insert(op).results

    placed, offsets, _ = ordered(rebuild(last, rewrite))
    text = "\n".join(lower(placed, SM_90A, offsets).emit.lines)
    assert re.findall(ORDER, text)[:2] == ["fence", "wait_group.sync.aligned 0"]


@pytest.mark.parametrize(
    ("blocks", "options"),
    [
        ((64, 32, 64), {}),
        ((64, 64, 64), {"computed_first": False}),
        ((64, 64, 64), {"wgmma": False}),
    ],
)
def test_where_weights_stay_the_second_operand(
    blocks: tuple[int, int, int], options: dict[str, bool]
):
    """Too few columns for 64 rows, or not asked for."""
    last = in_gpu_ir(computed_first("i8", blocks, **options))
    assert not any(op.is_turned for op in last.walk() if isinstance(op, WarpgroupDot))


def rounds_of(module: Module) -> tuple[list[Load], list[AsyncCopy]]:
    """Return what a round loads, and what it copies for a later one."""
    (loop,) = (op for op in module.walk() if isinstance(op, For))
    ops = list(walk(loop.body))
    loads = [op for op in ops if isinstance(op, Load)]
    return loads, [op for op in ops if isinstance(op, AsyncCopy)]


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("behind", [False, True])
def test_scales_are_copied_beside_what_they_scale(kind: str, behind: bool):
    """Two bytes of a column for each thread: fewer of them copy more, and no round waits.

    Nobody has asked for it: such products go through narrower numbers in runs.
    """
    module = module_of(kind, (16, 64, 128), behind=behind)
    loads, copies = rounds_of(in_gpu_ir(module))
    assert not loads
    lines = [copy for copy in copies if len(shape_of(copy.pointers.type)) == 1]
    assert (len(copies), len(lines)) == (3, 1)
    layout = layout_of(lines[0].pointers.type)
    assert layout is not None
    assert layout.consecutive("register", 0) == 2


@pytest.mark.parametrize("wanted", [False, True, None])
def test_copies_ask_for_what_lies_around_unless_the_author_says_no(wanted: bool | None):
    """Of 64 bytes of a row the next round reads the next; 256 are asked for by themselves."""
    options = {} if wanted is None else {"prefetch_l2": wanted}
    _, copies = rounds_of(in_gpu_ir(module_of("i4", (16, 64, 128), **options)))
    around = {shape_of(op.pointers.type): op.prefetch for op in copies}
    always, short = 256 * (wanted is True), 256 * (wanted is not False)
    assert around == {(16, 128): always, (64, 64): short, (64,): short}


@needs_ptxas
def test_only_vectors_of_16_bytes_ask_for_what_lies_around():
    blocks = {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128, "GROUP": GROUP}
    compiled = workbench.compile(
        KERNELS["i4"], POINTERS.format("i8"), blocks, target="sm_90a", prefetch_l2=True
    )
    text = compiled.asm["ptx"]
    wide, narrow = (re.findall(rf"cp\.async\.{kind}[^ ]* ", text) for kind in ("cg", "ca"))
    assert wide
    assert narrow
    assert all("L2::256B" in one for one in wide)
    assert not any("L2::256B" in one for one in narrow)
    assert compiled.n_spills == 0


def test_without_that_scales_are_loaded_a_round_ahead():
    """The loop only hands on what it loads."""
    last = in_gpu_ir(module_of("i8", (16, 32, 64), num_stages=3, copy_narrow=False))
    (loop,) = (op for op in last.walk() if isinstance(op, For))
    ((load,), _) = rounds_of(last)
    assert load.result in loop.body.yields
    assert not any(load.result in op.operands for op in loop.body.ops[:-1])


def scaled(
    x_ptr, w_ptr, scale_ptr, bias_ptr, c_ptr, steps, WRITES: tl.constexpr
):  # fmt: skip
    """Sums with a row of scales and a tile of another kind in each round."""
    i, j, k = tl.arange(0, 16), tl.arange(0, 32), tl.arange(0, 16)
    total = tl.zeros((16, 32), tl.float32)
    for step in range(steps):
        at = step * 16 + k
        x = tl.load(x_ptr + i[:, None] * 64 + at[None, :])
        w = tl.load(w_ptr + j[None, :] * 64 + at[:, None])
        scale = tl.load(scale_ptr + step * 32 + j)
        bias = tl.load(bias_ptr + i[:, None] * 32 + j[None, :])
        total += tl.dot(x, w) * scale[None, :] + bias
        if WRITES:
            tl.store(scale_ptr + (step + 1) * 32 + j, scale + 1)
    tl.store(c_ptr + i[:, None] * 32 + j[None, :], total)


@pytest.mark.parametrize("writes", [False, True])
def test_rows_beside_products_are_copied_unless_the_loop_writes_them(writes: bool):
    """A tile that meets the products is none: it would take its bytes in every slot."""
    words = "*f16:16 *f16:16 *f16:16 *f16:16 *f32:16 i32"
    named = {"WRITES": writes}
    module = tile_ir(scaled, words, named, num_warps=4, num_stages=3, copy_narrow=True)

    def make() -> list[Any]:
        random = np.random.default_rng(3)
        sizes = (16 * 64, 32 * 64, 5 * 32, 16 * 32)
        found = [random.integers(-2, 3, size).astype(np.float16) for size in sizes]
        return [*found, np.zeros(16 * 32, np.float32), 4]

    last = in_gpu_ir(module)
    assert meaning(last, (1,), make()) == meaning(module, (1,), make())
    loops = [op for op in last.walk() if isinstance(op, For)]
    shapes = {shape_of(op.result.type) for loop in loops for op in loop.body.ops
              if isinstance(op, Load)}  # fmt: skip
    assert ((32,) in shapes) == writes
    placed, offsets, total = ordered(last)
    simulate(placed, offsets, total, (1,), make(), SM_90A)


def test_a_choice_by_a_scalar_is_of_memory_too():
    """A scalar condition has no axis along which its bits would count."""

    def kernel(x_ptr, w_ptr, out_ptr, flag, steps, K: tl.constexpr):
        k, m, n = tl.arange(0, K), tl.arange(0, 16), tl.arange(0, 16)
        total = tl.zeros((16, 16), tl.float32)
        for step in range(steps):
            at = step * K + k
            x = tl.load(x_ptr + m[:, None] * 4096 + at)
            w = tl.load(w_ptr + n[:, None] * 4096 + at).to(tl.float16)
            total = tl.dot(x, tl.where(flag > 0, w, 0.0).T, total)
        tl.store(out_ptr + m[:, None] * 16 + n, total)

    compiled = workbench.compile(
        kernel, "*f16:16 *i8:16 *f32:16 i32 i32", {"K": 32}, target="sm_90a", cached=False
    )
    assert "mma.sync" in compiled.asm["ptx"]
