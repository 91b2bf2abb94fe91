from collections import defaultdict
from itertools import chain, product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.layouts.strategies import cases, layouts
from workbench.layouts import LinearLayout, f2
from workbench.layouts.coordinates import axis_bits, flatten, reshape_is_linear


def places(layout):
    for register, lane in product(range(layout.registers()), range(32)):
        yield {"register": register, "lane": lane, "warp": layout.size("warp") - 1}


@given(layouts(8), st.data())
@cases(60)
def test_views_move_drop_and_add_coordinates_at_every_place(layout, data):
    axis = data.draw(st.integers(0, layout.rank - 1))
    order = data.draw(st.permutations(range(layout.rank)))
    turned, wide = layout.transpose(order), layout.expand_dims(axis)
    narrow, cut = layout.broadcast_source([axis]), layout.slice_axis(axis)
    assert turned.shape == tuple(layout.shape[d] for d in order)
    assert narrow.shape == (*layout.shape[:axis], 1, *layout.shape[axis + 1 :])
    assert wide.squeeze(axis) == layout
    assert narrow.squeeze(axis) == cut
    for place in places(layout):
        c = layout.apply(**place)
        assert turned.apply(**place) == tuple(c[d] for d in order)
        assert wide.apply(**place) == (*c[:axis], 0, *c[axis:])
        assert narrow.apply(**place) == (*c[:axis], 0, *c[axis + 1 :])
        assert cut.apply(**place) == c[:axis] + c[axis + 1 :]


@given(layouts(8))
@cases(50)
def test_join_puts_the_halves_in_neighbouring_registers_and_split_takes_them_back(layout):
    joined = layout.join()
    for place in places(layout):
        for half in (0, 1):
            there = joined.apply(**place | {"register": 2 * place["register"] + half})
            assert there == (*layout.apply(**place), half)
    assert joined.split() == (
        layout,
        tuple(range(0, joined.registers(), 2)),
        tuple(range(1, joined.registers(), 2)),
    )


@given(layouts(7), st.data())
@cases(100)
def test_split_finds_both_halves_of_any_layout_or_none(layout, data):
    register, *rest = layout.join().dims
    flip = [data.draw(st.booleans()) for _ in register]
    register = tuple(b ^ f for b, f in zip(register[1:], flip[1:], strict=True)) + register[:1]
    if data.draw(st.integers(0, 3)) == 0:
        rest[0] = (rest[0][0] ^ 1, *rest[0][1:])
    mixed = LinearLayout.from_flat((register, *rest), (*layout.shape, 2))
    found = mixed.split()
    assert (found is None) == any(flat & 1 for dim in rest for flat in dim)
    if found is None:
        return
    half, first, second = found
    assert sorted(first + second) == list(range(mixed.registers()))
    for place in places(half):
        wanted = half.apply(**place)
        for last, registers in enumerate((first, second)):
            at = place | {"register": registers[place["register"]]}
            assert mixed.apply(**at) == (*wanted, last)


def test_split_without_the_other_half_in_registers_is_none():
    lanes = LinearLayout({"lane": [(0, 1), (1, 0)]}, (2, 2))
    assert lanes.split() is None
    assert LinearLayout({"register": [(1,), (2,)]}, (4,)).split() is None


def points(shape):
    bits = axis_bits(shape)
    return [flatten(c, bits) for c in product(*map(range, shape))]


def test_reshape_is_linear_exactly_when_a_linear_map_fits_all_elements():
    shapes = defaultdict(list)
    for shape in chain(*(product(range(2, 49), repeat=rank) for rank in (1, 2, 3))):
        if prod(shape) <= 48:
            shapes[prod(shape)].append(shape)
    counts = {True: 0, False: 0}
    for old, new in (pair for group in shapes.values() for pair in product(group, repeat=2)):
        here, there = points(old), points(new)
        chosen = f2.extend((), here)
        image = [there[here.index(x)] for x in chosen]
        pivots, _ = f2.echelon(chosen)
        fits = all(
            f2.apply(image, f2.solve(pivots, x)) == y for x, y in zip(here, there, strict=True)
        )
        assert fits == reshape_is_linear(old, new), (old, new)
        counts[fits] += 1
    assert min(counts.values()) > 100


@pytest.mark.parametrize(
    ("old", "new", "linear"),
    [
        ((96,), (3, 32), True),
        ((12, 4), (48,), True),
        ((7, 8), (7, 2, 4), True),
        ((6,), (2, 3), False),
        ((4, 3), (12,), False),
        ((8, 3), (4, 6), False),
        ((8,), (16,), False),
    ],
)
def test_reshape_keeps_the_place_of_each_element_or_refuses(old, new, linear):
    bits = axis_bits(old)
    layout = LinearLayout.from_flat((tuple(f2.units(sum(bits))), (), (), ()), old)
    seen = layout.reshape(new)
    assert (seen is not None) == linear
    if seen is not None:
        for number, (a, b) in enumerate(
            zip(product(*map(range, old)), product(*map(range, new)), strict=True)
        ):
            register = layout.flatten(a)
            assert seen.apply(register=register) == b, number
