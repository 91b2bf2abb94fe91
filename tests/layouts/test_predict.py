from hypothesis import given
from hypothesis import strategies as st

from tests.layouts.strategies import cases
from workbench.layouts import blocked, f2
from workbench.layouts.predict import (
    linear_sectors,
    linear_wavefronts,
    phases,
    sectors,
    wavefronts,
)


@given(st.sampled_from([1, 2, 4, 8, 16]), st.lists(st.integers(0, 511), min_size=5, max_size=5))
@cases(300)
def test_closed_form_of_wavefronts_is_enumeration(size, offsets):
    lanes = [offset * size for offset in offsets]
    assert linear_wavefronts(lanes, size) == wavefronts(f2.table(lanes), size)


def test_wavefronts_of_masked_and_of_shared_words():
    assert wavefronts([0] * 32, 4) == 1
    assert wavefronts([2 * lane for lane in range(32)], 2) == 1
    assert wavefronts([128 * lane if lane < 3 else None for lane in range(32)], 4) == 3
    assert wavefronts([None] * 32, 4) == 0
    assert wavefronts([128 * row for row in range(8)], 16) == 8
    assert [phases(size) for size in (1, 4, 8, 16)] == [1, 1, 2, 4]


@given(
    st.tuples(st.integers(0, 6), st.integers(0, 8)),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(0, 4),
    st.integers(1, 5),
)
@cases(300)
def test_closed_form_of_sectors_is_enumeration(bits, itemsize, vector_bits, pitch):
    shape = tuple(1 << b for b in bits)
    vector = min(1 << vector_bits, 16 // itemsize, shape[1])
    layout = blocked(shape, vector, (1, 0), 1)
    row = -(-shape[1] * itemsize // 32) * 32 * pitch
    lanes = [layout.apply(lane=lane) for lane in range(32)]
    found = sectors([r * row + c * itemsize for r, c in lanes], vector * itemsize)
    names = layout.bases
    moved = [*names["lane"], *names["register"][: f2.log2(vector)]]
    assert linear_sectors(moved, itemsize) == found


def test_lanes_that_are_off_touch_no_sector():
    assert sectors([None, 4], 4) == 1
