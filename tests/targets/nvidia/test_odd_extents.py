"""Tiles of 96, 160, 192 and 224: they mean the same in every form and take the bytes that exist."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels import large_tiles, matmul
from tests.passes.corpus import numbers, tile_ir
from tests.passes.meaning import cases, meaning
from tests.passes.pipelines import gpu_steps, tile_steps
from tests.targets.nvidia.test_ptx import needs_ptxas
from workbench.ir import Module
from workbench.layouts import packing, swizzled
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.built import Built
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.pipeline import build
from workbench.targets.nvidia.spills import fitted
from workbench.targets.nvidia.toolchain import assemble
from workbench.targets.simt import shared
from workbench.targets.simt.ops import SharedAllocate

SM_90 = chip("sm_90")
EXTENTS = (96, 160, 192, 224)


def staged(
    m: int, n: int, k: int, warps: int, kind: str = "nn", dtype: str = "fp16", stages: int = 3
) -> Module:
    """Return a product of staged tiles; `kind` says which operand lies turned in memory."""
    strides = ["i32:16", "i32=1"] if kind[0] == "n" else ["i32=1", "i32:16"]
    strides += ["i32:16", "i32=1"] if kind[1] == "n" else ["i32=1", "i32:16"]
    words = f"*{dtype}:16 *{dtype}:16 *fp32:16 i32:16 i32:16 i32:16 {' '.join(strides)}"
    blocks = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 2, "ACTIVATION": ""}
    options = {"num_warps": warps, "num_stages": stages}
    return tile_ir(matmul.matmul, f"{words} i32:16 i32=1", blocks, **options)


def staged_arguments(
    m: int, n: int, k: int, kind: str = "nn", dtype: Any = np.float16
) -> list[Any]:
    a, b = numbers(m * k, dtype), numbers(k * n, dtype, 2)
    strides = [k if kind[0] == "n" else m, n if kind[1] == "n" else k]
    return [a, b, np.zeros(m * n, np.float32), m, n, k, *strides, n]


def whole(function: Callable[..., Any], words: str, **extents: int) -> Module:
    """Return a kernel of one program on whole tiles."""
    return tile_ir(function, words, extents, num_warps=4)


def check_meaning(module: Module, arguments: Callable[[], list[Any]]) -> Module:
    """Run the GPU IR of every pass; return the last."""
    wanted = meaning(module, (1,), arguments())
    assert any(any(array) for array in wanted[-1:])
    final = [module, *(after for _, after in tile_steps(module))][-1]
    steps = [after for _, after in gpu_steps(final, SM_90)]
    for after in (steps[0], steps[-1]):
        assert meaning(after, (1,), arguments()) == wanted
    return steps[-1]


def built(module: Module) -> Built:
    recorder = Recorder()
    module = replace(module, attributes={**module.attributes, "narrow_index": True})
    return build(tile_passes(module, recorder), SM_90.name, recorder)


PRODUCTS = [
    (96, 160, 32, 8, "nn"), (192, 96, 32, 8, "nt"), (160, 96, 32, 8, "tn"), (32, 224, 32, 8, "nn"),
    (64, 32, 96, 4, "nn"), (32, 32, 160, 4, "nt"), (32, 64, 224, 4, "tn"),
]  # fmt: skip


@pytest.mark.parametrize(("m", "n", "k", "warps", "kind"), PRODUCTS)
def test_staged_operands_take_their_real_bytes(m: int, n: int, k: int, warps: int, kind: str):
    module = staged(m, n, k, warps, kind)
    module = replace(module, attributes={**module.attributes, "fewer_slots": False})
    last = check_meaning(module, lambda: staged_arguments(m, n, 2 * k + 16, kind))
    rings = [op.type for op in last.walk() if isinstance(op, SharedAllocate)]
    assert sorted(ring.bytes for ring in rings) == sorted(3 * 2 * k * e for e in (m, n))


@needs_ptxas
@pytest.mark.parametrize(("m", "n", "k", "warps", "kind"), PRODUCTS[::2])
def test_staged_operands_assemble(m: int, n: int, k: int, warps: int, kind: str):
    found = built(staged(m, n, k, warps, kind))
    text = found.texts["ptx"]().text
    assert "ldmatrix" in text
    assert "cp.async" in text
    # No product of what lies beyond k: fragments of 16 x 8 x 16 in four times two warps.
    assert text.count("mma.sync") % (k // 16) == 0
    result = fitted(text, SM_90, warps).result
    assert result.spill_store_bytes == 0


WHOLE = [
    *((large_tiles.transposed, "*fp32:16 *fp32:16", {"M": m, "N": n})
      for m, n in ((96, 160), (224, 96))),
    (large_tiles.both_ways, "*fp32:16 *fp32:16 *fp32:16", {"M": 96, "N": 192}),
    *((large_tiles.batched_dot, "*fp32:16 *fp32:16 *fp32:16", {"B": b, "M": m, "N": n, "K": k})
      for b, m, n, k in ((1, 96, 32, 96), (3, 16, 96, 40), (1, 16, 16, 192))),
]  # fmt: skip


@needs_ptxas
@pytest.mark.parametrize(("function", "words", "extents"), WHOLE)
def test_conversions_and_multiply_adds(function: Any, words: str, extents: dict[str, int]):
    names = [n for n in function.__annotations__ if n.isupper()]
    sizes = dict(zip(names, extents.values(), strict=True))
    if function is large_tiles.batched_dot:
        b, m, n, k = extents.values()
        counts = [b * m * k, b * k * n, b * m * n]
    else:
        counts = [int(np.prod([*extents.values()]))] * len(words.split())

    def arguments() -> list[Any]:
        given = [numbers(count, seed=seed) for seed, count in enumerate(counts)]
        return [*given[:-1], np.zeros(counts[-1], np.float32)]

    module = whole(function, words, **sizes)
    check_meaning(module, arguments)
    assert assemble(built(module).texts["ptx"]().text, SM_90.name).cubin


class Numbers:
    """Stands for the emitter of one thread: what it would write is computed."""

    def __init__(self, thread: int) -> None:
        self.emit = self
        self.thread = thread

    def thread_part(self, lane: list[int], warp: list[int]) -> str:
        columns = [c for bit, c in enumerate((*lane, *warp)) if self.thread >> bit & 1]
        return str(reduce(int.__xor__, columns, 0))

    def bitwise(self, name: str, type: str, a: str, b: str) -> str:
        return str({"xor": int.__xor__, "and": int.__and__}[name](int(a), int(b)))

    def shift(self, name: str, type: str, a: str, by: int) -> str:
        return str(int(a) >> by)

    def mul(self, type: str, a: str, b: str) -> str:
        return str(int(a) * int(b))


@given(
    st.sampled_from([*product(EXTENTS, EXTENTS), (3, 96, 96), (5, 7, 40)]),
    st.sampled_from([1, 2, 4]), st.booleans(), st.data(),
)  # fmt: skip
@cases(60)
def test_addresses_are_places(shape: tuple[int, ...], itemsize: int, turned: bool, data: Any):
    order = (len(shape) - 2, len(shape) - 1, *range(len(shape) - 2)) if turned else None
    layout = swizzled(shape, itemsize, order)
    places = packing(layout, itemsize).scaled(itemsize)
    offsets = st.integers(0, (1 << layout.tile_bits) - 1).map(lambda o: o * itemsize)
    columns = [data.draw(offsets) for _ in range(8)]
    thread, constant = data.draw(st.integers(0, 255)), data.draw(offsets)
    low: Any = Numbers(thread)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared, "at", lambda low, base, place: str(int(base) + int(place)))
        found = shared.Addresses(low, "1024", columns[:5], columns[5:], places)(constant)
    offset = int(low.thread_part(columns[:5], columns[5:])) ^ constant
    assert int(found) == 1024 + places.place(offset)
