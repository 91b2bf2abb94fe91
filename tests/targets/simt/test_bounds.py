"""Code touches what it was given, of shared memory as of arrays, whatever its layouts.

The code of files and of reductions of odd extents runs lane by lane, with 32 lanes to a warp as
with 64, and a question before every access (watched.py).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.files import form
from tests.files.form import Text
from tests.files.test_files import agree
from tests.passes.corpus import tile_ir
from tests.targets.simt.pretend import Pretend, execute, gpu_ir
from workbench import tl
from workbench.interpreter import run_module
from workbench.ir import Builder, Module, Op, Value, layout_of, rebuild
from workbench.layouts import LinearLayout, reduce_plan
from workbench.ops import ConvertLayout, Reduce
from workbench.targets.simt import reductions
from workbench.targets.simt.passes import shared_memory
from workbench.targets.simt.rules import Scratch

FAMILIES = ("found", "reductions", "scans", "shapes", "dots")
TEXTS = [text for text in form.texts() if text.path.parent.name in FAMILIES]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text.name)
def test_files_touch_what_is_theirs(text: Text):
    warps = next((run.options["num_warps"] for run in text.tests if "num_warps" in run.options), 4)
    module, machine = text.module({"num_warps": warps}), Pretend(lanes=32)
    wanted, got = text.arguments(), text.arguments()
    with np.errstate(all="ignore"):
        run_module(module, text.grid, list(wanted.values()))
    execute(gpu_ir(module, machine), machine, text.grid, list(got.values()))
    for name, array in wanted.items():
        if isinstance(array, np.ndarray):
            found, want = text.read(name, got[name]), text.read(name, array)
            assert agree(text, found, want), f"%{name}: {found}, interpreter {want}"


def last_of(value, place, other, there):
    later = there > place
    return tl.where(later, other, value), tl.where(later, there, place)


def last_of_each(x, out, A: tl.constexpr, B: tl.constexpr, AXIS: tl.constexpr):
    """What stands last along an axis: a combine without a neutral element."""
    places = tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :]
    last, _ = tl.reduce((tl.load(x + places), places), AXIS, last_of)
    tl.store(out + tl.arange(0, A if AXIS == 1 else B), last)


def sum_of_each(x, out, A: tl.constexpr, B: tl.constexpr, AXIS: tl.constexpr):
    places = tl.arange(0, A)[:, None] * B + tl.arange(0, B)[None, :]
    tl.store(out + tl.arange(0, A if AXIS == 1 else B), tl.sum(tl.load(x + places), AXIS))


def reduction(kernel: Callable[..., Any], a: int, b: int, axis: int, warps: int) -> Module:
    constants = {"A": a, "B": b, "AXIS": axis}
    module = tile_ir(kernel, "*i32:16 *i32:16", constants, num_warps=warps)
    return replace(module, attributes={**module.attributes, "narrow_index": True})


def in_layout(module: Module, layout: LinearLayout) -> Module:
    """Return GPU IR in which reductions take their inputs in a layout."""

    def moved(op: Op, builder: Builder) -> Op | tuple[Value, ...] | None:
        if not isinstance(op, Reduce):
            return None
        inputs = tuple(builder.add(ConvertLayout(value, layout)) for value in op.inputs)
        left_in = reduce_plan(layout, op.axis).result
        made = builder.insert(op.duplicate(inputs, layouts=(left_in,) * len(op.results)))
        return tuple(
            builder.add(ConvertLayout(new, layout_of(old.type)))
            for new, old in zip(made.results, op.results, strict=True)
        )

    return rebuild(module, moved)


def any_layout(seed: int, shape: tuple[int, int], lanes: int, warps: int) -> LinearLayout:
    """Return a layout in which some registers lie outside in every thread, the rest in any order.

    Registers have the highest bits of both axes, so they are outside where an extent is odd.
    """
    rows, columns = ((extent - 1).bit_length() for extent in shape)
    high = [rows + columns - 1, rows + columns - 2, columns - 1, columns - 2]
    low = [bit for bit in range(rows + columns) if bit not in high]
    random.Random(seed).shuffle(low)
    lane_bits, warp_bits = lanes.bit_length() - 1, warps.bit_length() - 1
    # Warps first: of a few, more than one has to take part in a row.
    warp, lane, rest = low[:warp_bits], low[warp_bits:][:lane_bits], low[warp_bits + lane_bits :]
    columns_of = [tuple(1 << bit for bit in bits) for bits in ([*high, *rest], lane, warp)]
    return LinearLayout.from_flat((*columns_of, ()), shape, "any")


def compared(
    module: Module,
    machine: Pretend,
    a: int,
    b: int,
    between: Callable[[Module], Module] = lambda module: module,
) -> None:
    """Run a reduction of a tile on a machine and in the interpreter."""
    results = []
    for run in (
        lambda given: run_module(module, (1,), given),
        lambda given: execute(gpu_ir(module, machine, between), machine, (1,), given),
    ):
        given = [np.arange(a * b, dtype=np.int32), np.zeros(max(a, b), np.int32)]
        run(given)
        results.append(given[1])
    assert np.array_equal(*results)


@pytest.mark.parametrize("kernel", [last_of_each, sum_of_each], ids=lambda k: k.__name__)
@pytest.mark.parametrize(("a", "b"), [(33, 64), (64, 33), (33, 33)])
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions_of_odd_extents_stay_in_their_scratch(
    kernel: Callable[..., Any], a: int, b: int, axis: int
):
    """Holes lie along the axis, beside it, or both; warps share rows or do not."""
    for lanes, warps in ((32, 8), (64, 4)):
        module = reduction(kernel, a, b, axis, warps)
        layout = any_layout(a + b + axis, (a, b), lanes, warps)
        assert reduce_plan(layout, axis).warp_masks
        compared(module, Pretend(lanes=lanes), a, b, partial(in_layout, layout=layout))


def test_too_little_scratch_is_noticed_in_code(monkeypatch):
    """A planted fault: what crosses warps is given half of what it takes."""
    plain = shared_memory.scratch_of

    def halved(*given: Any) -> Scratch:
        found = plain(*given)
        return replace(found, bytes=found.bytes // 2)

    monkeypatch.setattr(shared_memory, "scratch_of", halved)
    module, layout = reduction(last_of_each, 33, 64, 1, 8), any_layout(0, (33, 64), 32, 8)
    with pytest.raises(AssertionError, match="of shared memory, not its own"):
        compared(module, Pretend(lanes=32), 33, 64, partial(in_layout, layout=layout))


def test_too_little_scratch_is_refused_by_what_writes_it(monkeypatch):
    monkeypatch.setattr(reductions, "_register_bytes", lambda *_: 4)
    module, layout = reduction(last_of_each, 33, 64, 1, 8), any_layout(0, (33, 64), 32, 8)
    with pytest.raises(AssertionError, match=r"bytes of scratch are \d+ too few"):
        compared(module, Pretend(lanes=32), 33, 64, partial(in_layout, layout=layout))


def test_an_access_outside_of_all_arrays_is_noticed():
    """A planted fault: an array that is shorter than the kernel takes it for."""
    module, machine = reduction(sum_of_each, 33, 64, 1, 4), Pretend(lanes=32)
    given = [np.zeros(33 * 64, np.int32), np.zeros(32, np.int32)]
    with pytest.raises(AssertionError, match="128 bytes after an array's start"):
        execute(gpu_ir(module, machine), machine, (1,), given)
