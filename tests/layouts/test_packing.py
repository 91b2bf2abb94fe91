"""Bytes of padded tiles: what exists has a place of its own, and little else has one."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.layouts.test_families import cases, offset_of
from workbench.ir import F16, F32, I8, Shared
from workbench.layouts import packing, swizzled

EXTENTS = (96, 160, 192, 224)


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple),
    st.sampled_from([1, 2, 4, 8]),
    st.randoms(use_true_random=False),
)
@cases(80)
def test_elements_have_places_of_their_own(shape, itemsize, random):
    order = list(range(len(shape)))
    random.shuffle(order)
    shared = swizzled(shape, itemsize, tuple(order))
    found = packing(shared, itemsize)
    offsets = [offset_of(shared, c) for c in product(*map(range, shape))]
    places = [found.place(offset) for offset in offsets]
    assert len(set(places)) == len(places)
    assert max(places) < found.size <= 1 << shared.tile_bits
    assert max(map(found.place, range(1 << shared.tile_bits))) == found.reach - 1


@given(st.integers(1, 300), st.integers(1, 300), st.sampled_from([1, 2, 4]), st.data())
@cases(80)
def test_places_add_up_and_keep_what_lies_in_16_bytes_together(rows, columns, itemsize, data):
    shared = swizzled((rows, columns), itemsize)
    found = packing(shared, itemsize)
    offset, part = (data.draw(st.integers(0, (1 << shared.tile_bits) - 1)) for _ in range(2))
    a, b = offset & part, offset & ~part
    assert found.place(offset) == found.place(a) + found.place(b)
    inside = min(1 << shared.tile_bits, 16 // itemsize)
    start = offset & -inside
    assert [found.place(start + i) - found.place(start) for i in range(inside)] == [*range(inside)]
    assert found.place(start) % inside == 0
    in_bytes = found.scaled(itemsize)
    assert in_bytes.place(offset * itemsize) == found.place(offset) * itemsize
    assert (in_bytes.size, in_bytes.reach) == (found.size * itemsize, found.reach * itemsize)


@pytest.mark.parametrize("element", [I8, F16, F32], ids=str)
@pytest.mark.parametrize("shape", [*product(EXTENTS, EXTENTS), (64, 96), (96, 64), (3, 96, 160)],
                         ids=str)  # fmt: skip
def test_tiles_of_thirty_twos_take_their_real_bytes(shape, element):
    for order in (None, (*range(len(shape) - 2), len(shape) - 2, len(shape) - 1)[::-1]):
        layout = swizzled(shape, element.itemsize, order)
        real = element.itemsize
        for extent in shape:
            real *= extent
        assert Shared(shape, element, layout).slot_bytes == real
        assert Shared(shape, element, layout, 3).bytes == 3 * real


def test_tiles_of_powers_of_two_are_not_packed():
    found = packing(swizzled((64, 128), 2), 2)
    assert len(found.fields) == 1
    assert found.size == found.reach == 64 * 128
