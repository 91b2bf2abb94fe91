from collections import defaultdict
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tests.layouts.machine import held
from tests.layouts.strategies import cases, layouts
from workbench.layouts import LinearLayout, blocked, mma_c, reduce_plan


def totals(layout, axis):
    """Each row's total of distinct powers, so that counting an element twice shows."""
    sums = defaultdict(int)
    for flat in range(1 << layout.tile_bits):
        c = layout.unflatten(flat)
        if all(x < e for x, e in zip(c, layout.shape, strict=True)):
            sums[c[:axis] + c[axis + 1 :]] += 3**flat
    return sums


def run(plan, layout):
    """The three stages on every thread; [warp][lane][register of the result]."""

    def value(flat):
        c = layout.unflatten(flat)
        return 3**flat if all(x < e for x, e in zip(c, layout.shape, strict=True)) else 0

    acc = [
        [[sum(value(thread[r]) for r in group) for group in plan.groups] for thread in warp]
        for warp in held(layout)
    ]
    for mask in plan.lane_masks + plan.warp_masks:
        assert mask.cta == 0
        acc = [
            [
                [
                    acc[w][a][r] + acc[w ^ mask.warp][a ^ mask.lane][r ^ mask.register]
                    for r in range(len(plan.groups))
                ]
                for a in range(32)
            ]
            for w in range(layout.size("warp"))
        ]
    return acc


@given(layouts(7, min_bits=1), st.data())
@cases(80)
def test_every_thread_ends_with_the_totals_of_its_rows(layout, data):
    axis = data.draw(st.integers(0, layout.rank - 1))
    plan, wanted = reduce_plan(layout, axis), totals(layout, axis)
    result = plan.result
    assert result.same_data(layout.slice_axis(axis))
    assert all(mask.warp == 0 for mask in plan.lane_masks)
    live, acc = result.live_registers(), run(plan, layout)
    for warp, lane, register in product(range(layout.size("warp")), range(32), live):
        row = result.apply(register=register, lane=lane, warp=warp)
        if row in wanted:
            assert acc[warp][lane][register] == wanted[row]


def test_a_row_in_one_thread_needs_no_shuffle():
    plan = reduce_plan(blocked((128, 4), 4, (1, 0), 4), 1)
    assert plan.groups == ((0, 1, 2, 3),)
    assert (plan.lane_masks, plan.warp_masks) == ((), ())


def test_mma_rows_are_reduced_by_two_shuffles_and_across_warps_by_one_mask():
    plan = reduce_plan(mma_c((32, 32), (2, 2)), 1)
    assert [mask.lane for mask in plan.lane_masks] == [1, 2]
    assert [mask.warp for mask in plan.warp_masks] == [2]
    assert plan.groups == ((0, 1, 4, 5), (2, 3, 6, 7))


def test_dead_registers_are_left_out():
    layout = LinearLayout({"register": [(1,), (2,)], "lane": [(0,)] * 5}, (3,))
    assert reduce_plan(layout, 0).groups == ((0, 1, 2),)
