"""Copies for several rounds at once: their code, carried out by all lanes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import workbench.language as tl
from tests.passes.corpus import tile_ir
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia import lanes
from tests.targets.nvidia.raising import SM_90A
from workbench.ir import I32, Builder, Module, Op, Shared, Value, rebuild
from workbench.layouts import swizzled
from workbench.ops import Constant, Load
from workbench.targets.nvidia import copied_rounds
from workbench.targets.nvidia.ops import CopyRounds
from workbench.targets.simt.ops import SharedAllocate, SharedLoad
from workbench.targets.simt.passes.shared_memory import allocate


def sorted_out(
    x_ptr, out_ptr, rows,
    ROUNDS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr,
    MASKED: tl.constexpr,
):  # fmt: skip
    """Each round of elements that lie ROUNDS apart, to an array of its own."""
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    place = m * N + n if AXIS else n * M + m
    for tap in tl.static_range(ROUNDS):
        if MASKED:
            x = tl.load(
                x_ptr + place * ROUNDS + tap, mask=(m if AXIS else n) * 5 % 16 < rows, other=0.0
            )
        else:
            x = tl.load(x_ptr + place * ROUNDS + tap)
        tl.store(out_ptr + tap * M * N + place, x)


def copied_at_once(module: Module, axis: int, rounds: int) -> Module:
    """Return the kernel with one copy in place of its loads."""
    loads = [op for op in module.walk() if isinstance(op, Load)]
    assert len(loads) == rounds
    kept: list[Value] = []

    def rewrite(op: Op, builder: Builder) -> Value | None:
        if op not in loads:
            return None
        type = op.result.type
        if not kept:
            layout = swizzled(type.shape, 2, (axis, 1 - axis), exchange=False)
            held = Shared(type.shape, type.element, layout, rounds)
            kept.append(builder.add(SharedAllocate(type=held)))
            builder.insert(CopyRounds(op.pointers, kept[0], op.mask, axis=axis))
        slot = builder.add(Constant(loads.index(op), I32))
        return builder.add(SharedLoad(kept[0], slot, type=type))

    return rebuild(module, rewrite)


def modules(rounds: int, shape: tuple[int, int], axis: int, warps: int, masked: bool):
    sizes = {"ROUNDS": rounds, "M": shape[0], "N": shape[1], "AXIS": axis, "MASKED": masked}
    module = tile_ir(sorted_out, "*f16:16 *f16:16 i32", sizes, num_warps=warps)
    tile = [module, *(after for _, after in tile_steps(module))][-1]
    tile = replace(tile, attributes={**tile.attributes, "narrow_index": True})
    return module, [after for _, after in gpu_steps(copied_at_once(tile, axis, rounds), SM_90A)]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("rounds", "shape", "axis", "warps"),
    [(9, (64, 32), 0, 4), (2, (64, 16), 0, 4), (4, (16, 64), 1, 2), (3, (128, 16), 0, 1),
     (9, (256, 8), 0, 2)],
)  # fmt: skip
def test_lanes_sort_out_what_they_copy(
    rounds: int, shape: tuple[int, int], axis: int, warps: int, masked: bool,
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    """Also where scratch holds a part of a lane's vectors, and is used again."""
    if warps == 1:
        monkeypatch.setattr(copied_rounds, "_MOST_SCRATCH", 4096)
    _, steps = modules(rounds, shape, axis, warps, masked)
    module = steps[-1]
    (copy,) = [op for op in module.walk() if isinstance(op, CopyRounds)]
    assert copy.axis == axis
    x = np.random.default_rng(5).integers(1, 2**14, shape[0] * shape[1] * rounds).astype(np.int16)
    given = [x.view(np.float16), np.zeros(x.size, np.float16), 9]
    offsets, _, total = allocate(module, SM_90A)
    lanes.run(module, offsets, total, SM_90A, given)
    on = np.ones(shape, bool)
    if masked:
        on &= np.expand_dims(np.arange(shape[1 - axis]) * 5 % 16 < given[2], axis)
    taps = np.where((on if axis else on.T).reshape(-1, 1), x.reshape(-1, rounds), 0).T
    assert np.array_equal(given[1].view(np.int16).reshape(taps.shape), taps)
