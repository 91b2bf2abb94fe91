"""Loops in another form, so that loads may be copied ahead: what comes out stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.language.harness import from_text, lowered
from workbench.analysis.affine import Affine
from workbench.interpreter import run_module
from workbench.ir import Module, Pointer
from workbench.ops import For, If
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.nvidia import pipeline
from workbench.targets.nvidia.ops import AsyncCopy

NESTS = """
def kernel(x, w, out, n, size, ROWS: tl.constexpr):
    i = tl.arange(0, 16)
    at = tl.program_id(0) * 16 + i
    p = at // size
    q = at % size
    acc = tl.zeros((16, 16), tl.float32)
    for r in range(ROWS):
        for s in tl.range(0, 3{hint}):
            row = p + r
            column = q + s - 1
            inside = (row < size) & (column >= 0) & (column < size)
            place = (row * size + column) * n
            for start in range(0, n, 16):
                c = start + i
                mask = inside[:, None] & (c[None, :] < n)
                a = tl.load(x + place[:, None] + c[None, :], mask=mask, other=0.0)
                taps = w + ((r * 3 + s) * n + c)[:, None] * 16 + i[None, :]
                acc = tl.dot(a, tl.load(taps, mask=c[:, None] < n, other=0.0), acc)
    tl.store(out + at[:, None] * 16 + i[None, :], acc)
"""


def _built(function: Any, stages: int = 3, **values: Any) -> tuple[Module, Module, Recorder]:
    """Return a kernel's tile IR, its GPU IR, and what was said; addresses and n are aligned."""
    module, _ = lowered(function, **values)
    options = {**module.attributes, "num_warps": 1, "num_stages": stages, "narrow_index": True}
    options["apart"] = True
    aligned = [
        replace(p, divisible=16) if isinstance(p.value.type, Pointer) or p.name == "n" else p
        for p in module.parameters
    ]
    recorder = Recorder()
    tiles = tile_passes(replace(module, parameters=tuple(aligned), attributes=options), recorder)
    built = pipeline.build(tiles, "sm_90a", recorder)
    built.assemble()
    assert built.gpu is not None
    return module, built.gpu, recorder


def _loops(module: Module) -> int:
    return sum(isinstance(op, For) for op in module.walk())


def _said(recorder: Recorder, text: str) -> int:
    return sum(text in remark.text for remark in recorder.remarks.items)


@pytest.mark.parametrize(("n", "rows"), [(48, 3), (16, 2), (0, 3), (32, 1)])
def test_a_nest_of_products_is_one_loop(n: int, rows: int):
    random = np.random.default_rng(1)
    size = 6
    x = random.integers(-3, 4, max(size**2 * n, 16)).astype(np.float16)
    w = random.integers(-3, 4, max(rows * 3 * n * 16, 16)).astype(np.float16)
    values = {"x": x, "w": w, "out": np.zeros(48 * 16, np.float32), "n": n, "size": size}
    plain, gpu, recorder = _built(from_text(NESTS.format(hint="")), **values, ROWS=rows)
    if n:
        assert _loops(gpu) == 1
        assert _said(recorder, "one loop with the loop in it") == (2 if rows > 1 else 1)
        assert any(isinstance(op, AsyncCopy) for op in gpu.walk())
    names = [p.name for p in plain.parameters]
    wanted, got = ({**values, "out": np.zeros(48 * 16, np.float32)} for _ in "ab")
    run_module(plain, (3,), [wanted[name] for name in names])
    run_module(gpu, (3,), [got[p.name] for p in gpu.parameters])
    assert np.array_equal(wanted["out"], got["out"])
    assert n == 0 or wanted["out"].any()


def test_copies_many_rounds_ahead_are_as_wide():
    """However often the counters before the loop began anew, by as many branches."""
    x = np.zeros(4096, np.float16)
    values = {"x": x, "w": x, "out": np.zeros(768, np.float32), "n": 48, "size": 6, "ROWS": 3}
    _, gpu, recorder = _built(from_text(NESTS.format(hint="")), 7, **values)
    assert _said(recorder, "copied 6 rounds ahead") == 1
    facts = Affine(gpu, tiles=True)
    copies = [op for op in gpu.walk() if isinstance(op, AsyncCopy)]
    assert {facts.vector(op.pointers, 1, op.mask) for op in copies} == {8}


def test_an_author_who_asks_for_flattening_hears_that_it_was_done():
    x = np.zeros(4096, np.float16)
    values = {"x": x, "w": x, "out": np.zeros(768, np.float32), "n": 48, "size": 6, "ROWS": 3}
    _, gpu, recorder = _built(from_text(NESTS.format(hint=", flatten=True")), **values)
    assert _loops(gpu) == 1
    assert not _said(recorder, "flatten=True is not obeyed")


STATES = """
def kernel(x, states, count, STEP: tl.constexpr):
    i = tl.arange(0, 16)
    tile = i[:, None] * 16 + i[None, :]
    total = tl.zeros((16, 16), tl.float32)
    for k in range(count):
        tl.store(states + (k * STEP).to(tl.int64) * 256 + tile, total.to(tl.float16))
        a = tl.load(x + k * 256 + tile)
        total = tl.dot(a, a, total)
"""


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("apart", [0, 256, 512, 4 * 256 - 8, 5 * 256])
def test_what_a_loop_stores_it_loads_only_where_arguments_overlap(apart: int, step: int):
    """Stored states lie some elements behind what is loaded, in one array; five rounds."""
    start = 10 * 256
    held = np.random.default_rng(2).integers(-2, 3, 2 * start).astype(np.float16)
    function = from_text(STATES)
    plain, gpu, recorder = _built(function, x=held, states=held, count=5, STEP=step)
    assert _said(recorder, "copied ahead where states, x lie apart") == 1
    assert any(isinstance(op, If) for op in gpu.walk())

    def after(module: Module) -> np.ndarray:
        memory = held.copy()
        arrays = {"x": memory[start:], "states": memory[start + apart * step :], "count": 5}
        with np.errstate(all="ignore"):
            run_module(module, (1,), [arrays[p.name] for p in module.parameters])
        return memory

    assert np.array_equal(after(plain), after(gpu), equal_nan=True)
