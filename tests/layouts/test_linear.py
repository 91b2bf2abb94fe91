import pickle
from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.layouts.machine import held, is_real
from tests.layouts.strategies import cases, layouts, vectors
from workbench.layouts import LinearLayout, f2, parse_layout

FRAGMENT = LinearLayout(
    {"register": [(0, 1), (8, 0)], "lane": [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]}, (16, 8)
)


@given(layouts(), st.integers(0, 31), st.integers(0, 31))
@cases(60)
def test_apply_is_linear_over_f2(layout, a, b):
    xor = zip(layout.apply(lane=a), layout.apply(lane=b), strict=True)
    assert layout.apply(lane=a ^ b) == tuple(x ^ y for x, y in xor)
    assert layout.apply() == (0,) * layout.rank


@given(layouts())
@cases(80)
def test_bases_rebuild_the_layout_and_its_text_reads_back(layout):
    again = LinearLayout(layout.bases, layout.shape, kind="other")
    assert again == layout
    assert hash(again) == hash(layout)
    assert parse_layout(str(layout)) == layout
    assert pickle.loads(pickle.dumps(layout)) == layout
    assert layout.size("lane") == 32
    for name, dim in layout.bases.items():
        assert [layout.flatten(vector) for vector in dim] == list(layout.flat(name))


def test_text_of_ranks_zero_one_and_of_shared_layouts():
    scalar = LinearLayout({"lane": [()] * 2}, ())
    assert str(scalar) == "linear<scalar, lane=[(),()]>"
    line = LinearLayout({"register": [(1,)], "lane": [(2,)], "cta": [(4,)]}, (7,))
    assert str(line) == "linear<7, register=[1], lane=[2], cta=[4]>"
    shared = LinearLayout({"offset": [(0, 1), (1, 1)]}, (2, 2))
    assert str(shared) == "linear<2x2, offset=[(0,1),(1,1)]>"
    for layout in (scalar, line, shared):
        assert parse_layout(str(layout)) == layout


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearLayout({"lane": [(4,)]}, (4,)), r"lane basis \(4,\) is outside"),
        (lambda: LinearLayout({"lane": [(1, 1)]}, (4,)), "expected 1 coordinates"),
        (lambda: LinearLayout({"thread": []}, (4,)), "expected register, lane, warp, cta"),
        (lambda: LinearLayout({"offset": [], "lane": []}, (1,)), "expected offset and not lane"),
        (lambda: LinearLayout({}, (0,)), "expected extents of at least 1"),
        (lambda: LinearLayout({"lane": [(1,)]}, (4,)).verify(), "of rank 1; expected rank 2"),
        (
            lambda: LinearLayout({"offset": [(1,), (0,)]}, (2,)).verify(),
            "so that it is a bijection",
        ),
        (lambda: parse_layout("linear<4x, lane=[]>"), "is no layout; expected e.g."),
        (lambda: FRAGMENT.transpose((0, 0)), "expected each of 2 axes once"),
        (lambda: FRAGMENT.squeeze(0), "axis 0 has extent 16; expected 1"),
        (lambda: FRAGMENT.with_shape((8, 8)), "expected one that pads to"),
    ],
)
def test_errors_say_what_was_found_and_expected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_unknown_dimension_is_a_key_error():
    with pytest.raises(KeyError, match="thread"):
        FRAGMENT.apply(thread=1)


@given(layouts(8))
@cases(80)
def test_each_element_has_one_owner(layout):
    owners = layout.owners()
    places = product(*(range(layout.size(name)) for name in ("register", "lane", "warp")))
    owned = [
        layout.apply_flat(register=r, lane=a, warp=w)
        for r, a, w in places
        if not (r & owners["register"] or a & owners["lane"] or w & owners["warp"])
    ]
    assert sorted(owned) == list(range(1 << layout.tile_bits))


def threads(layout):
    return [set(lane) for warp in held(layout) for lane in warp]


@given(st.data())
@cases(200)
def test_same_data_means_equal_sets_per_thread(data):
    bits = data.draw(st.integers(1, 4))

    def some(most):
        return tuple(data.draw(vectors(bits)) for _ in range(data.draw(st.integers(0, most))))

    shape, lane = (1 << bits,), tuple(data.draw(vectors(bits)) for _ in range(5))
    register = some(3)
    first = LinearLayout.from_flat((register, lane, (), ()), shape)
    if register and data.draw(st.booleans()):
        shuffled = (*data.draw(st.permutations(register)), register[0])
        moved = (lane[0] ^ register[-1], *lane[1:])
        second = LinearLayout.from_flat((shuffled, moved, (), ()), shape)
    else:
        second = LinearLayout.from_flat((some(3), lane, (), ()), shape)
    assert first.same_data(second) == (threads(first) == threads(second))


@given(layouts())
@cases(80)
def test_a_register_is_live_if_some_thread_holds_a_real_element_in_it(layout):
    columns = list(zip(*(lane for warp in held(layout) for lane in warp), strict=True))
    wanted = [r for r, column in enumerate(columns) if any(is_real(layout, x) for x in column)]
    assert list(layout.live_registers()) == wanted


@given(layouts())
@cases(60)
def test_compact_keeps_each_register_vector_once(layout):
    packed, kept = layout.compact()
    assert f2.rank(packed.dims[0]) == len(packed.dims[0]) == f2.rank(layout.dims[0])
    assert packed.dims[0] == tuple(layout.dims[0][bit] for bit in kept)
    assert packed.same_data(layout)


def test_consecutive_counts_neighbours_along_one_axis():
    assert FRAGMENT.consecutive() == 2
    assert FRAGMENT.consecutive(axis=0) == 1
    wide = LinearLayout({"register": [(0, 1), (0, 2), (1, 0)]}, (2, 3))
    assert wide.consecutive(axis=1) == 4
    assert wide.consecutive("lane") == 1
    assert LinearLayout({}, ()).consecutive() == 1


def test_side_by_side_counts_neighbours_wherever_registers_have_them():
    mixed = LinearLayout({"register": ((4, 0), (0, 2), (0, 1)), "lane": ((1, 0), (2, 0))}, (8, 4))
    assert (mixed.consecutive(axis=1), mixed.side_by_side(axis=1)) == (1, 4)
    assert (mixed.side_by_side(axis=0), mixed.side_by_side("lane", 0)) == (1, 4)
    assert LinearLayout({}, ()).side_by_side() == 1


@given(layouts())
@cases(60)
def test_right_inverse_names_a_place_of_each_element(layout):
    inverse = layout.right_inverse()
    for element in range(0, 1 << layout.tile_bits, 3):
        place = layout.place(f2.apply(inverse, element))
        assert layout.apply_flat(**place) == element


def test_left_inverse_needs_a_layout_without_copies():
    inverse = FRAGMENT.left_inverse()
    place = FRAGMENT.place(f2.apply(inverse, FRAGMENT.apply_flat(register=2, lane=9)))
    assert place == {"register": 2, "lane": 9, "warp": 0, "cta": 0}
    with pytest.raises(ValueError, match="expected no replication"):
        LinearLayout({"lane": [(0,), (1,)]}, (2,)).left_inverse()


@given(st.data())
@cases(60)
def test_a_shared_layout_composes_with_the_offsets_of_a_layout(data):
    layout = data.draw(layouts(8))
    bits = layout.tile_bits
    columns = f2.extend((), [data.draw(vectors(bits)) for _ in range(bits)] + f2.units(bits))
    shared = LinearLayout.from_flat((tuple(columns),), layout.shape).verify()
    offsets = shared.offsets(layout)
    assert shared.compose(offsets) == layout
    assert offsets.shape == (1 << bits,)


@st.composite
def tiles(draw, max_bits=3):
    bits = [draw(st.integers(0, max_bits)) for _ in range(2)]
    dims = tuple(
        tuple(draw(vectors(sum(bits))) for _ in range(draw(st.integers(0, 3)))) for _ in range(3)
    )
    return LinearLayout.from_flat((*dims, ()), tuple(1 << b for b in bits))


@given(tiles(), tiles())
@cases(80)
def test_divide_undoes_product_on_both_sides(tile, outer):
    whole = tile.product(outer)
    assert whole.divide(tile) == outer
    assert whole.divide(outer, right=True) == tile
    for register, lane in product(range(whole.size("register")), range(whole.size("lane"))):
        high_r, low_r = divmod(register, tile.size("register"))
        high_l, low_l = divmod(lane, tile.size("lane"))
        inner = tile.apply(register=low_r, lane=low_l)
        upper = outer.apply(register=high_r, lane=high_l)
        wanted = tuple(a | b << s for a, b, s in zip(inner, upper, tile.bits, strict=True))
        assert whole.apply(register=register, lane=lane) == wanted


@given(tiles(), tiles(), st.data())
@cases(80)
def test_divide_refuses_exactly_what_is_no_product(tile, outer, data):
    whole = tile.product(outer)
    assume(whole.tile_bits and whole.dims[0])
    position = data.draw(st.integers(0, len(whole.dims[0]) - 1))
    bit = data.draw(st.integers(0, whole.tile_bits - 1))
    register = list(whole.dims[0])
    register[position] ^= 1 << bit
    spoilt = LinearLayout.from_flat((tuple(register), *whole.dims[1:]), whole.shape)
    low = zip(whole.unflatten(1 << bit), tile.padded, strict=True)
    touched = position < len(tile.dims[0]) or any(c & e - 1 for c, e in low)
    assert (spoilt.divide(tile) is None) == touched


def test_product_refuses_a_tile_with_holes():
    three = LinearLayout({"register": [(1,), (2,)]}, (3,))
    two = LinearLayout({"register": [(1,)]}, (2,))
    assert two.product(three).shape == (6,)
    with pytest.raises(ValueError, match="expected powers of two"):
        three.product(two)
