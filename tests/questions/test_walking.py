"""Programs and ways as viewers walk through them: plain data, within bounds, nothing lost."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from tests.trace.samples import add_trace
from workbench import run_cell
from workbench.magics import placing, registry
from workbench.magics.question_magics import shown_steps
from workbench.magics.questioning import followed, step
from workbench.magics.walks import shown_way
from workbench.questions import walking
from workbench.questions.following import follow
from workbench.questions.laid_out import layout_words, layouts_of
from workbench.questions.walking import LEVELS, tile_of, walk
from workbench.trace import Layout, to_data
from workbench.trace.answers import Route, Walk
from workbench.trace.codec import decoder
from workbench.trace.links import problems
from workbench.viewer import MIME

TOTAL = """
def total(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        places = start + tl.arange(0, BLOCK)
        part = tl.load(x + row * n + places, mask=places < n, other=0.0)
        acc += part * part
    tl.store(out + row, tl.sum(acc))
"""


@pytest.fixture(autouse=True)
def _empty_registry():
    registry.clear()
    yield
    registry.clear()


@pytest.fixture
def steps():
    names = {"x": torch.arange(40.0).reshape(4, 10), "out": torch.zeros(4)}
    run_cell(TOTAL, "--args x,out,10 --grid 4 --set BLOCK=8 --target cpu", names)
    return step("total", None, names, "2")


def test_a_walk_has_every_step_with_its_value(steps):
    found = walk(steps)
    assert decoder(Walk)(to_data(found)) == found
    assert [one.op for one in found.steps] == [one.op.id for one in steps.steps]
    part = next(one for one in found.steps if "part" in one.names)
    assert part.tile is not None
    assert part.tile.numbers == (("20", "21", "22", "23", "24", "25", "26", "27"),)
    assert part.tile.picture == ("acdfhjkm",)
    assert part.accessed == "reads x, elements 20 to 27: 8 of 8 are on"
    assert found.notes == ()


def test_its_ops_are_those_of_the_trace_beside_it(steps):
    known = set(steps.compiled.trace.ops.id)
    assert {one.op for one in walk(steps).steps if not one.plumbing} <= known
    bundle = shown_steps(steps)._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", MIME}
    assert bundle["text/plain"] == steps.text
    assert type(shown_steps(steps).go()) is type(shown_steps(steps))


def test_values_without_room_are_left_out_and_told(steps, monkeypatch):
    monkeypatch.setattr(walking, "MOST_LETTERS", 60)
    found = walk(steps.to(-1))
    kept = [n for n, one in enumerate(found.steps) if one.tile is not None]
    assert kept
    assert kept[0] > 20, "those near the step that is shown are kept"
    assert "values are not here to save space" in found.notes[0]
    monkeypatch.setattr(walking, "MOST_STEPS", 5)
    found = walk(steps.to(20))
    assert (found.first, len(found.steps)) == (18, 5)
    assert found.steps[found.at - found.first].text == steps.steps[20].text


@given(
    arrays(
        st.sampled_from([np.float32, np.float64, np.int32, np.bool_]),
        array_shapes(min_dims=0, max_dims=3, max_side=70),
    )
)
def test_a_picture_is_small_and_has_a_letter_for_each_place(value):
    tile = tile_of(value)
    assert tile.shape == value.shape
    assert len(tile.picture) <= walking.HIGH
    assert {letter for row in tile.picture for letter in row} <= {*LEVELS, "!"}
    assert len({len(row) for row in tile.picture}) <= 1
    assert all(len(row) <= walking.WIDE for row in tile.picture)
    assert len(tile.numbers) <= walking.ROWS
    flat = value.reshape(-1, value.shape[-1]) if value.ndim else value.reshape(1, 1)
    if flat.size > 1:
        cells = flat[:: tile.every[0], :: tile.every[1]].astype(np.float64)
        assert cells.shape == (len(tile.picture), len(tile.picture[0]))
        marked = np.array([[letter == "!" for letter in row] for row in tile.picture])
        assert (marked == ~np.isfinite(cells)).all()


def test_the_way_of_a_line_goes_through_passes_layouts_and_buffers():
    run_cell(
        MATMUL, "--no-run --target sm_80 --set BM=32 --set BN=32 --set BK=32 "
        '--sig "*f16:16 *f16:16 *f32:16 i32:16"', {},
    )  # fmt: skip
    trace, way = followed("matmul", "10")
    route = way.route()
    assert decoder(Route)(to_data(route)) == route
    kinds = [stop.where for stop in route.stops]
    assert kinds[0] == "front end"
    assert {"layout", "shared memory", "pipeline", "gpu", "llvm", "ptx"} <= set(kinds)
    for stop in route.stops:
        if stop.pass_ is not None:
            assert trace.passes[stop.pass_].name == stop.where
        assert set(stop.ops) <= set(trace.ops.id)
    held = next(stop for stop in route.stops if stop.buffer is not None)
    assert trace.shared[held.buffer or 0].name == "y"
    layout = next(stop.layout for stop in route.stops if stop.layout is not None)
    assert set(layout.bases) <= {"register", "lane", "warp"}
    bundle = shown_way("matmul", "10")._repr_mimebundle_()
    assert "<table>" in bundle["text/html"]
    assert bundle[MIME]["summary"]["asked"] == "follow"


MATMUL = """
def matmul(a, b, c, n, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    inner = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, n, BK):
        x = tl.load(a + rows[:, None] * n + k + inner[None, :])
        # the other side
        y = tl.load(b + (k + inner)[:, None] * n + columns[None, :])
        acc = tl.dot(x, y, acc)
    tl.store(c + rows[:, None] * n + columns[None, :], acc)
"""


def test_layouts_name_the_first_of_the_values_that_are_asked_for():
    tile = Layout(op=3, value="%x", shape=(2, 4), element="f16", kind="register", name="#L0",
                  bases={"register": ((0, 1),), "lane": ((0, 2), (0, 0)), "warp": ((1, 0),)},
                  ops=(3, 5), values=("%x", "%z"))  # fmt: skip
    buffer = Layout(op=4, value="%y", shape=(8,), element="f16", kind="shared", name="#S1",
                    bases={"offset": ((1,), (2,), (4,))}, ops=(4,), values=("%y",))  # fmt: skip
    trace = replace(add_trace(), layouts=(tile, buffer))
    found = layouts_of(trace, {3, 4, 5})
    assert [(layout.value, ops) for layout, ops in found] == [("%x", (3, 5)), ("%y", (4,))]
    assert [(layout.value, ops) for layout, ops in layouts_of(trace, {5})] == [("%z", (5,))]
    assert layout_words(found[0][0]) == (
        "%x (2 x 4 f16, #L0) is spread over 2 registers, 2 lanes, 2 warps; "
        "2 places hold each element"
    )
    assert layout_words(found[1][0]) == "%y (8 f16, #S1) lies in shared memory"
    whole = Layout(op=1, value="%s", shape=(1,), element="f32", kind="register",
                   bases={"lane": ((0,),)})  # fmt: skip
    assert "held whole by every thread" in layout_words(whole)


def test_a_trace_has_the_layouts_of_the_ir_that_was_lowered():
    """As `%layouts` has them: each value of the GPU IR once, under the name of its text."""
    space = {}
    run_cell(MATMUL, '--sig "*f16:16 *f16:16 *f32:16 i32:16" --set BM=32 --set BN=32 --set BK=32 '
             "--target sm_80", space)  # fmt: skip
    trace = registry.latest("matmul").trace
    every = json.loads(placing.layouts("matmul", as_json=True, namespace=space))["layouts"]
    told = {
        (op, value, layout.element, layout.kind): layout.bases
        for layout in trace.layouts
        for op, value in zip(layout.ops, layout.values, strict=True)
    }
    assert {(e["op"], f"%{e['value']}", e["element"], e["kind"]) for e in every} == set(told)
    for one in every:
        bases = told[one["op"], f"%{one['value']}", one["element"], one["kind"]]
        filled = {dim: vectors for dim, vectors in one["bases"].items() if vectors}
        assert {dim: [list(v) for v in vectors] for dim, vectors in bases.items()} == filled
    assert {layout.kind for layout in trace.layouts} == {"register", "shared"}
    text = trace.text("gpu")
    for layout in trace.layouts:
        assert f"\n{layout.name} = linear<" in f"\n{text}"
    assert list(problems(trace)) == []


def test_a_trace_without_gpu_ir_has_no_layouts():
    trace = add_trace("cpu")
    assert layouts_of(trace, set(trace.ops.id)) == []
    assert follow(trace, "5").route().stops
