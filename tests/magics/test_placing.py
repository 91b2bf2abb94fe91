"""`%layouts`, `%access` and `%schedule`: texts, pictures that need nothing else, plain data."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

import workbench as wb
from tests.magics.sources import PRODUCT
from workbench.magics import placing, registry, schedules
from workbench.magics.cells import default_names
from workbench.magics.drawing import grid_svg, grid_text
from workbench.magics.options import Request
from workbench.source import OptionError

CELL = "\n@kernel" + PRODUCT


@pytest.fixture(scope="module", autouse=True)
def result():
    registry.clear()
    line = '--sig "*f16:16 *f16:16 *f32:16 i32:16" --set N=64 --set BK=32 --set warps=4'
    return wb.run_cell(CELL, f"product {line} --target sm_80", default_names())


def svg(drawn):
    for picture in drawn.pictures:
        assert len(picture) < 50_000
        yield "".join(ElementTree.fromstring(picture).itertext())  # well-formed


def test_layouts_are_listed():
    text = placing.layouts("product")
    assert "64×64 mma: %total" in text
    assert "how far it moves an element" in text
    assert "  lane     (0, 2) (0, 4) (1, 0) (2, 0) (4, 0)" in text
    data = json.loads(placing.layouts("product", as_json=True))["layouts"]
    assert {"value", "op", "line", "shape", "element", "kind", "bases"} <= data[0].keys()
    assert {one["kind"] for one in data} == {"register", "shared"}


def test_a_tile_is_drawn_as_its_layout_says():
    drawn = placing.layouts("product", "total", by="lane")
    (text,) = svg(drawn)
    assert "l31" in text
    # mma: eight rows of four lanes, two columns each.
    rows = [row.split() for row in drawn.splitlines() if row.startswith("  row")]
    assert rows[0][:8] == ["row", "0", "0-1", "l0", "2-3", "l1", "4-5", "l2"]
    assert rows[9][2:6] == ["0-1", "l4", "2-3", "l5"]
    assert "<pre" in drawn._repr_mimebundle_()["text/html"]
    (text,) = svg(placing.layouts("product", "a"))
    assert "b31" in text
    assert len(placing.layouts("product", "9").pictures) > 2


def test_what_one_warp_holds_is_drawn_from_its_first_element_on():
    whole = json.loads(placing.layouts("product", "total", as_json=True))["layouts"][0]
    first = whole["bases"]["warp"]  # of 64 x 64 by four warps
    drawn = placing.layouts("product", "total", warp=3)
    start = [sum(basis[axis] for basis in first) for axis in (0, 1)]
    rows = [row.split() for row in drawn.splitlines() if row.startswith("  row")]
    assert rows[0][1] == str(start[0])
    assert rows[0][2:5] == [str(start[1]), "l0", "r0"]
    assert "warp 3 of 4, by lane and register: 1024 elements of 4,096" in drawn
    assert "l31" in "".join(svg(placing.layouts("product", "total", warp=3, by="lane")))
    held = json.loads(placing.layouts("product", "total", warp=3, as_json=True))["layouts"][0]
    assert held["warp"] == 3
    assert held["held"][0] == {"lane": 0, "register": 0, "element": start}
    assert len(held["held"]) == 1024


def test_a_warp_may_hold_none_but_padding():
    cell = """
@kernel
def tall(x, BLOCK: tl.constexpr):
    v = tl.load(x + tl.arange(0, BLOCK))
    tl.store(x + tl.arange(0, BLOCK), v + 1)
"""
    line = 'tall --sig "*f32:16" --set BLOCK=80 --set warps=4 --target sm_80'
    wb.run_cell(cell, line, default_names())
    drawn = placing.layouts("tall", "v", warp=3)
    assert "warp 3 of 4 holds no element of it, but padding" in drawn
    assert list(svg(drawn)) == []
    assert "warp 0 of 4, by lane and register: " in placing.layouts("tall", "v", warp=0)


def test_warps_hold_a_tile_together():
    elements = []
    for warp in range(4):
        data = json.loads(placing.layouts("product", "total", warp=warp, as_json=True))
        elements += [tuple(one["element"]) for one in data["layouts"][0]["held"]]
    assert len(set(elements)) == len(elements) == 64 * 64


def test_shared_memory_over_time():
    drawn = placing.layouts("product", shared=True)
    assert "B in all" in drawn
    (text,) = svg(drawn)
    assert "program order" in text
    assert (
        json.loads(placing.layouts("product", shared=True, as_json=True))["buffers"][0]["bytes"] > 0
    )


def test_accesses():
    text = placing.access("product")
    assert "gpu.async_copy (cp.async)" in text
    assert "no bank conflict" in text
    drawn = placing.access("product", "9")
    assert all(svg(drawn))
    assert "\nshared store (cp.async): where the lanes of a warp access, b: bank" in drawn
    assert "\nglobal load (cp.async): where the lanes of a warp access, s: sector" in drawn
    assert "\n  lane        0" in drawn
    data = json.loads(placing.access("product", "9", as_json=True))["accesses"]
    assert {"sectors", "ideal", "vector", "requests", "addresses"} <= data[0].keys()


def test_a_row_says_whether_it_is_masked_and_a_vector_has_elements():
    """Full blocks are read without masks, the last one with: both rows are of one line."""
    cell = """
def copy(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, v, mask=i < n)
"""
    names = default_names()
    wb.run_cell(cell, '--sig "*f32:16 *f32:16 i32" --set B=512 --target sm_90a', names)
    loads = [row for row in placing.access("copy").splitlines() if "tile.load" in row]
    assert sorted("masked" in row for row in loads) == [False, True]
    drawn = placing.layouts("copy", "v")
    assert "\n  element     0-3 w0 l0" in drawn
    assert "  128 w1 l0  256 w2 l0  384 w3 l0\n" in drawn, "each warp is seen"
    assert "(0-28, 128, 256 and 384 of 512)" in drawn


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: placing.layouts("product", "totl"), "no tile 'totl'.*did you mean total?"),
        (lambda: placing.layouts("product", "a", by="lane"), "%a has banks"),
        (lambda: placing.layouts("product", "total", by="bank"), "%total has no banks"),
        (lambda: placing.layouts("product", "total", warp=4), "no warp 4, its warps are 0 to 3"),
        (lambda: placing.layouts("product", "a", warp=0), "%a lies in shared memory, no warp"),
        (lambda: placing.layouts("product", "total", warp=0, by="bank"), "not by bank"),
        (lambda: placing.layouts("product", warp=0), "no tile is named"),
        (lambda: placing.access("product", "2"), "accesses no memory in line 2"),
        (lambda: placing.access("product", "nosuch"), "product has no value 'nosuch'"),
    ],
)
def test_what_there_is_not(call, said):
    with pytest.raises(OptionError, match=said) as raised:
        call()
    assert raised.value.code == "K151"
    assert raised.value.hint


def test_the_cpu_has_no_layouts():
    line = '--sig "*f16 *f16 *f32 i32" --set N=16 --set BK=16 --target cpu'
    names = default_names()
    wb.run_cell(CELL.replace("product", "other"), line, names)
    with pytest.raises(OptionError, match="compiled for no GPU"):
        placing.layouts("other")


def test_the_schedule_of_a_loop_is_told_and_drawn(result):
    drawn = schedules.schedule("product")
    rows = [row.split(maxsplit=4) for row in drawn.splitlines()]
    assert rows[0] == ["product", "for", "sm_80:", "the", "loop in line 7"]
    assert "  a: 3 slots × 4,096 bytes, no barriers in memory" in drawn.splitlines()
    assert "all warps  2 rounds ahead   9     copy a[fill]" in drawn
    assert "total.2 = a.1 @ b.1" in drawn
    (text,) = svg(drawn)
    assert "2 rounds ahead" in text
    assert "copy b[fill]" in text
    (data,) = json.loads(schedules.schedule(result, Request(json=True)))["pipelines"]
    assert {"loop", "roles", "stages", "ops", "warps", "rings", "steps"} <= data.keys()
    html = result._repr_mimebundle_()["text/html"]
    assert "Schedule · what each role does" in html
    assert "2 rounds ahead" in html


def test_a_kernel_without_a_pipelined_loop_has_no_schedule():
    line = '--sig "*f16:16 *f16:16 *f32:16 i32:16" --set N=64 --set BK=32 --set stages=1'
    wb.run_cell(CELL.replace("product", "plain"), f"plain {line} --target sm_80", default_names())
    with pytest.raises(OptionError, match="plain for sm_80 has no pipelined loop") as raised:
        schedules.schedule("plain")
    assert raised.value.code == "K151"


def test_rows_where_another_warp_begins_are_drawn():
    def by_warp(row: int, column: int) -> tuple[str, int]:
        warp = row // 16 ^ column // 64 * 4
        return f"w{warp}", warp

    text = grid_text((64, 128), by_warp)
    assert text.splitlines() == [
        "  row 0-12    0-30 w0  64 w4",
        "  row 16      0-30 w1  64 w5",
        "  row 32      0-30 w2  64 w6",
        "  row 48      0-30 w3  64 w7",
        "  (0-12, 16, 32 and 48 of 64 rows; 0-30 and 64 of 128 columns)",
    ]
    svg = grid_svg((64, 128), by_warp, "a tile")
    assert all(f">{word}</text>" in svg for word in ("w0", "w1", "w2", "w3", "48"))
    plain = grid_text((64, 4), lambda row, column: ("x", 0))
    assert plain.splitlines()[-1] == "  (the first 16 of 64 rows)"
