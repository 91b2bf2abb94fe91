import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.layouts.strategies import cases
from workbench.layouts import f2

maps = st.integers(1, 8).flatmap(
    lambda bits: st.tuples(
        st.just(bits), st.lists(st.integers(0, (1 << bits) - 1), min_size=1, max_size=9)
    )
)
spans = st.integers(0, 9).flatmap(
    lambda bits: st.tuples(
        st.just(bits),
        *[st.lists(st.integers(0, (1 << bits) - 1), max_size=bits) for _ in range(2)],
    )
)


@given(maps)
@cases(300)
def test_rank_and_kernel_add_up_and_solve_answers_exactly_on_the_image(case):
    bits, columns = case
    images = f2.table(columns)
    pivots, kernel = f2.echelon(columns)
    assert len(set(images)) == 1 << len(pivots)
    assert len(pivots) + len(kernel) == len(columns)
    assert f2.rank(kernel) == len(kernel)
    assert all(f2.apply(columns, k) == 0 for k in kernel)
    answers = [f2.solve(pivots, y) for y in range(1 << bits)]
    for y, x in enumerate(answers):
        assert (x is not None) == (y in images)
        assert x is None or images[x] == y
    some = sorted(set(images))[:8]
    assert all(answers[a ^ b] == answers[a] ^ answers[b] for a in some for b in some)


@given(maps)
@cases(200)
def test_the_inverses_keep_their_law(case):
    bits, columns = case
    onto = columns + f2.complement(columns, bits)
    right = f2.right_inverse(onto, bits)
    assert [f2.apply(onto, x) for x in right] == f2.units(bits)
    injective = f2.basis(columns)
    left = f2.left_inverse(injective, bits)
    assert [f2.apply(left, y) for y in injective] == f2.units(len(injective))
    assert (f2.right_inverse(columns, bits) is None) == (f2.rank(columns) < bits)
    assert (f2.left_inverse(columns, bits) is None) == (f2.rank(columns) < len(columns))


def test_inverse_of_a_bijection_and_of_none():
    assert f2.inverse([1, 3, 4]) == [1, 3, 4]
    with pytest.raises(ValueError, match="no inverse: expected 2 independent vectors"):
        f2.inverse([1, 1])


@given(spans)
@cases(300)
def test_intersection_complement_and_common_complement(case):
    bits, first, second = case
    both = set(f2.table(f2.intersection(first, second)))
    assert both == set(f2.table(first)) & set(f2.table(second))
    assert f2.rank(first + f2.complement(first, bits)) == bits
    apart = f2.common_complement(first, second, bits)
    assert len(apart) == bits - max(f2.rank(first), f2.rank(second))
    for side in (first, second):
        assert f2.rank(apart + side) == len(apart) + f2.rank(side)


@given(spans)
@cases(200)
def test_reduced_echelon_is_the_same_for_equal_spans_only(case):
    _, first, second = case
    same = set(f2.table(first)) == set(f2.table(second))
    assert (f2.reduced_echelon(first) == f2.reduced_echelon(second)) == same
    pivots = f2.reduced_echelon(first)
    for vector in second:
        smallest = min(vector ^ other for other in f2.table(first))
        assert f2.reduce_modulo(pivots, vector) == smallest
