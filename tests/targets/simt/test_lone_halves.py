"""Halves without a neighbour in a word: stored two by two on their way between layouts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.corpus import tile_ir
from tests.targets.simt import pretend
from tests.targets.simt.pretend import Pretend, execute, gpu_ir
from workbench import tl
from workbench.ir import Builder, Module, Op, Value, element_of, layout_of, rebuild
from workbench.layouts import LinearLayout, wgmma_d
from workbench.ops import Cast, ConvertLayout


def rounded(x, out, M: tl.constexpr, N: tl.constexpr):
    places = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + places, tl.load(x + places).to(tl.float16))


def between(module: Module, layout: LinearLayout) -> Module:
    """Return GPU IR in which floats are rounded in a layout."""

    def moved(op: Op, builder: Builder) -> Value | None:
        if not isinstance(op, Cast) or element_of(op.result.type).bits != 16:
            return None
        had = layout_of(op.result.type)
        assert had is not None
        source = builder.add(ConvertLayout(op.source, layout))
        return builder.add(ConvertLayout(builder.add(Cast(source, op.to)), had))

    return rebuild(module, moved)


@pytest.mark.parametrize("rows", [24, 40, 48, 72])
def test_halves_without_a_neighbour_are_stored_as_pairs(rows: int):
    """Columns of a product that is turned: of 24 rows every second word has one half."""
    columns, machine = 64, Pretend(lanes=32)
    layout = wgmma_d((columns, rows), 4).transpose((1, 0))
    constants = {"M": rows, "N": columns}
    module = tile_ir(rounded, "*fp32:16 *fp16:16", constants, num_warps=4)
    made = gpu_ir(module, machine, lambda module: between(module, layout))
    assert "half 0.0" not in pretend.llvm_text(made, machine)
    given = np.random.default_rng(rows).standard_normal(rows * columns).astype(np.float32)
    out = np.zeros(rows * columns, np.float16)
    execute(made, machine, (1,), [given, out])
    assert np.array_equal(out, given.astype(np.float16))
