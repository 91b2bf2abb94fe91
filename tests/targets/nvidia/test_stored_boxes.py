"""Stores of fragments by boxes: the instructions, one by one; see stored_boxes.py."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.targets.nvidia.stored_boxes import SM_90A, Block, BrokenError, lines_of
from workbench.ir import Module, parse_module
from workbench.layouts import LinearLayout, MatrixPlan, blocked, mma_c, swizzled, wgmma_d
from workbench.layouts.box_stores import BoxStores, box_stores_fit
from workbench.targets.nvidia.chip import chip

TEXT = """
#L0 = {layout}
#L1 = {rows}
#L2 = {columns}
#L3 = {down}
#L4 = {across}
kernel @store(%p: ptr<{t}> {{divisible = 16}}, %M: i64, %N: i64 {{divisible = 16}}, %r: i32, %c: i32) {{num_warps = {warps}, num_stages = 1}} {{
{rest}
  %map = gpu.tensor_map %p, [%M, %N], [%N]{narrower} {{type = tensor_map<{m}x{n}x{t}>, swizzle = {swizzle}, piece = {piece}}} : tensor_map<{m}x{n}x{t}>
  %0 = tile.iota {{start = 0, type = tile<{m}xi32, #L1>}} : tile<{m}xi32, #L1>
  %1 = tile.iota {{start = 0, type = tile<{n}xi32, #L2>}} : tile<{n}xi32, #L2>
  %2 = tile.expand_dims %0 {{axis = 1}} : tile<{m}x1xi32, #L3>
  %3 = tile.expand_dims %1 {{axis = 0}} : tile<1x{n}xi32, #L4>
  %4 = tile.broadcast %2 {{shape = ({m}, {n})}} : tile<{m}x{n}xi32, #L0>
  %5 = tile.broadcast %3 {{shape = ({m}, {n})}} : tile<{m}x{n}xi32, #L0>
  %6 = tile.constant {{value = {n}, type = tile<{m}x{n}xi32, #L0>}} : tile<{m}x{n}xi32, #L0>
  %7 = tile.mul [%4, %6] : tile<{m}x{n}xi32, #L0>
  %8 = tile.add [%7, %5] : tile<{m}x{n}xi32, #L0>
  %9 = {value}
{stores}
  tile.return
}}
"""  # noqa: E501
REST = "  %rest = gpu.tensor_map %p, [%M, %N], [%N] {{type = {t}, swizzle = {swizzle}, piece = {piece}}} : {t}"  # noqa: E501
STORE = "  gpu.tensor_store %map, [%r, %c], %9 {{axes = (0, 1), kept = {kept}}}"


def module_of(layout: LinearLayout, found: BoxStores, stores: str, type: str = "i16") -> Module:
    m, n = layout.shape
    rows, columns = layout.slice_axis(1), layout.slice_axis(0)
    rest = ""
    if found.narrower is not None:
        box = f"tensor_map<{m}x{found.narrower[1]}x{type}>"
        rest = REST.format(t=box, swizzle=found.swizzle, piece=found.narrower)
    return parse_module(
        TEXT.format(
            layout=layout,
            rows=rows,
            columns=columns,
            down=rows.expand_dims(1),
            across=columns.expand_dims(0),
            warps=layout.size("warp"),
            m=m,
            n=n,
            swizzle=found.swizzle,
            piece=found.box,
            stores=stores,
            rest=rest,
            narrower=" rest %rest" if rest else "",
            t=type,
            value="tile.cast %8 {to = i16} : tile<MxNxi16, #L0>".replace("MxN", f"{m}x{n}")
            if type == "i16"
            else f"tile.add [%8, %6] : tile<{m}x{n}xi32, #L0>",
        )
    )


BUFFER = """  %b = gpu.shared_allocate {{type = shared<{m}x{n}xi16, {shared}>}} : shared<{m}x{n}xi16, {shared}>
  gpu.shared_store %9, %b"""  # noqa: E501


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("layout", [wgmma_d((64, 64), 4), mma_c((64, 32), (2, 2))])
def test_fragments_go_to_buffers_as_matrices(layout: LinearLayout, turned: bool):
    """Rows of the buffer are the tile's rows, or its columns."""
    m, n = layout.shape
    shared = swizzled(layout.shape, 2, (0, 1) if turned else (1, 0))
    found = BoxStores(128, (16, 64), MatrixPlan(False, 4, (), (), ()), (), (), 0)
    module = module_of(layout, found, BUFFER.format(m=m, n=n, shared=shared))
    lines = lines_of(module)
    assert any(f"x4{'.trans' if turned else ''}.shared" in line for line in lines)
    assert not any("store" in line for line in lines)
    block = Block(module, {})
    block.run(lines, ends=False)
    for row, column in np.ndindex(m, n):
        assert block.memory[2 * _place(shared, row * n + column)] == row * n + column
    assert not block.conflicts
    assert not any("stmatrix" in line for line in lines_of(module, chip("sm_80")))


def _place(shared: LinearLayout, flat: int) -> int:
    """Return the offset of an element, which a layout of a buffer has once."""
    return shared.table("offset").index(flat)


LAYOUTS = {
    "64x64": (wgmma_d((64, 64), 4), (16, 64)),
    "64x256": (wgmma_d((64, 256), 4), (16, 64)),
    "128x64": (wgmma_d((128, 64), 4), (16, 64)),
    "64x160": (wgmma_d((64, 160), 4), (16, 64)),
    "64x192": (wgmma_d((64, 192), 4), (16, 64)),
    "64x144": (wgmma_d((64, 144), 4), (16, 64)),
    "two groups, 48": (wgmma_d((128, 48), 8), (16, 32)),
    "not the whole of an instruction": (wgmma_d((64, 136), 4), (16, 64)),
    "16": (wgmma_d((64, 16), 4), (16, 16)),
    "turned": (wgmma_d((64, 144), 4).transpose((1, 0)), (16, 64)),
    "turned, two groups": (wgmma_d((128, 144), 8).transpose((1, 0)), (16, 64)),
    "mma": (mma_c((64, 128), (2, 2)), (32, 64)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_element_is_stored_where_it_belongs(name: str):
    layout, box = LAYOUTS[name]
    found = box_stores_fit(layout, 2, 1)
    assert found is not None
    assert found.box == box
    module = module_of(layout, found, STORE.format(kept=False))
    block = Block(module, {"r": 640, "c": 64})
    stored = block.run(lines_of(module))
    m, n = layout.shape
    assert stored == {(640 + r, 64 + c): r * n + c & 0xFFFF for r, c in np.ndindex(m, n)}
    assert not block.conflicts


@pytest.mark.parametrize(
    ("layout", "box"),
    [
        (wgmma_d((64, 128), 4), (16, 32)),
        (wgmma_d((128, 96), 4), (16, 32)),
        (wgmma_d((64, 144), 4), (16, 32)),
        (mma_c((64, 64), (2, 2)), (32, 32)),
    ],
)
def test_words_are_stored_in_vectors_of_what_a_thread_has(
    layout: LinearLayout, box: tuple[int, int]
):
    found = box_stores_fit(layout, 4, 1)
    assert found is not None
    assert found.box == box
    module = module_of(layout, found, STORE.format(kept=False), "i32")
    block = Block(module, {"r": 640, "c": 64})
    m, n = layout.shape
    stored = block.run(lines_of(module))
    assert stored == {(640 + r, 64 + c): (r + 1) * n + c for r, c in np.ndindex(m, n)}


@pytest.mark.parametrize(
    ("layout", "itemsize"),
    [
        (wgmma_d((64, 8), 4), 2),  # rows of 16 bytes
        (wgmma_d((64, 128), 8, 2, in_turns=True), 2),  # a warp has every other eight columns
        (wgmma_d((64, 128), 4), 8),
        (blocked((64, 128), 1, (1, 0), 4), 4),
        (blocked((64, 128), 8, (1, 0), 4), 2),
    ],
)
def test_what_is_no_box_of_a_warp_has_none(layout: LinearLayout, itemsize: int):
    assert box_stores_fit(layout, itemsize, 1) is None


def test_the_first_box_is_on_its_way_while_others_are_stored():
    layout = wgmma_d((64, 192), 4)
    found = box_stores_fit(layout, 2, 1)
    assert found is not None
    lines = lines_of(module_of(layout, found, STORE.format(kept=False)))
    what = ("stmatrix", "fence", "cp.async.bulk.tensor")
    order = [word for line in lines for word in what if word in line]
    assert order == [*["stmatrix"] * 4, *what[1:], *["stmatrix"] * 8, *what[1:], what[2]]


#: Four boxes of a warp, and room for two of each.
MANY, SMALL = wgmma_d((64, 256), 4), replace(SM_90A, halvings=2)


def many(stores: str) -> tuple[Module, list[str]]:
    found = box_stores_fit(MANY, 2, 1)
    assert found is not None
    module = module_of(MANY, found, stores)
    return module, lines_of(module, SMALL)


def test_boxes_take_turns_where_there_is_no_room_for_all():
    module, lines = many(STORE.format(kept=False))
    assert sum("wait_group.read 1" in line for line in lines) == 2
    assert len(Block(module, {}).run(lines)) == 64 * 256


#: Fragments of four warps, of which each has 16 columns: boxes of all four, with room for two each.
TURNED = wgmma_d((128, 144), 8).transpose((1, 0))


def together(stores: str) -> tuple[Module, list[str]]:
    found = box_stores_fit(TURNED, 2, 1)
    assert found is not None
    assert found.together == 4
    module = module_of(TURNED, found, stores)
    return module, lines_of(module, replace(SM_90A, halvings=3))


def test_warps_that_make_boxes_together_take_turns():
    module, lines = together(STORE.format(kept=False))
    assert len(Block(module, {}).run(lines)) == 128 * 144
    meetings = [place for place, line in enumerate(lines) if "barrier.cta.sync" in line]
    waits = [place for place, line in enumerate(lines) if "wait_group.read" in line]
    assert len(meetings) == 2 * 9  # in front of the second turn nobody has read what it writes
    assert sum(place < meetings[-1] for place in waits) == len(waits) == 8


def test_no_more_groups_of_warps_meet_than_there_are_barriers():
    """Sixteen pairs would want barriers of which a multiprocessor has eight left."""
    wide = mma_c((32, 512), (2, 16)).transpose((1, 0))
    for warps in (8, 16, 32):
        found = box_stores_fit(mma_c((32, 16 * warps), (2, warps // 2)).transpose((1, 0)), 2, 1)
        assert found is None or found.together == 1 or warps // found.together <= 8
    found = box_stores_fit(wide, 2, 1)
    assert found is not None
    assert found.together == 1


def test_a_warp_may_not_write_what_another_ones_copies_read():
    """Without the meeting behind a wait."""
    module, lines = together(STORE.format(kept=False))
    wait = next(place for place, line in enumerate(lines) if "wait_group.read" in line)
    meeting = next(n for n in range(wait, len(lines)) if "barrier.cta.sync" in lines[n])
    with pytest.raises(BrokenError, match="while a copy reads it"):
        Block(module, {}).run([*lines[:meeting], *lines[meeting + 1 :]])


FAULTS = {
    "fence.proxy.async": "has not been shown",
    "wait_group.read 0": "nobody waits for",
    "wait_group.read 1": "while a copy reads it",
}


@pytest.mark.parametrize("what", FAULTS)
@pytest.mark.parametrize("turn", [0, -1])
def test_what_is_missing_is_found(what: str, turn: int):
    module, lines = many(STORE.format(kept=False))
    place = [place for place, line in enumerate(lines) if what in line][turn]
    with pytest.raises(BrokenError, match=FAULTS[what]):
        Block(module, {}).run([*lines[:place], *lines[place + 1 :]])


def test_copies_go_on_until_their_bytes_are_wanted():
    """Two programs of a block that stays, one after the other."""
    module, lines = many(f"{STORE.format(kept=True)}\n  gpu.await_stores")
    *body, last, _ = lines
    assert "wait_group.read 0" in last
    assert sum("wait_group.read" in line for line in body) == 4
    first = next(place for place, line in enumerate(body) if "wait_group.read" in line)
    for drop in ((), (last,), (body[first],)):
        block = Block(module, {"r": 0})
        block.run(body, ends=False)
        block.values["%a3"] += 64
        held = body if drop != (body[first],) else [*body[:first], *body[first + 1 :]]
        if not drop:
            assert len(block.run([*held, last])) == 2 * 64 * 256
            continue
        with pytest.raises(BrokenError):
            block.run([*held, *(line for line in (last,) if line not in drop)])


@pytest.mark.parametrize(("columns", "warps"), [(128, 8), (160, 8), (160, 16), (224, 8)])
def test_no_turn_writes_what_the_last_one_of_another_program_is_read_from(columns: int, warps: int):
    """Turns that are no multiple of the places for boxes, and such that are."""
    layout = wgmma_d((256, columns), warps)
    found = box_stores_fit(layout, 2, 1)
    assert found is not None
    module = module_of(layout, found, f"{STORE.format(kept=True)}\n  gpu.await_stores")
    *body, last, _ = lines_of(module)
    block = Block(module, {"r": 0})
    block.run(body, ends=False)
    block.values["%a3"] += 256
    assert len(block.run([*body, last])) == 2 * 256 * columns
