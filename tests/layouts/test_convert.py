from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.layouts.machine import check, check_held, held, run_words
from tests.layouts.strategies import cases, layouts, pairs
from workbench.layouts import (
    LinearLayout,
    RegisterPlan,
    SharedPlan,
    ShufflePlan,
    blocked,
    classify,
    mma_a,
    mma_b,
    mma_c,
    plan_convert,
    wgmma_a,
    wgmma_d,
)
from workbench.layouts.shuffles import plan_shuffles
from workbench.layouts.staging import plan_staging

itemsizes = st.sampled_from([1, 2, 4, 8])


@given(pairs())
@cases(80)
def test_the_level_is_the_least_for_which_every_place_has_such_a_copy(pair):
    source, target = pair
    gather = classify(source, target)
    copies = {}
    for warp, threads in enumerate(held(source)):
        for lane, registers in enumerate(threads):
            for register, element in enumerate(registers):
                copies.setdefault(element, []).append((warp, lane, register))
    least = 0
    for warp, threads in enumerate(held(target)):
        for lane, registers in enumerate(threads):
            for register, element in enumerate(registers):
                place = source.place(gather.source(register, lane, warp))
                assert source.apply_flat(**place) == element
                if any((w, a) == (warp, lane) for w, a, _ in copies[element]):
                    continue
                near = any(w == warp for w, _, _ in copies[element])
                least = max(least, 1 if near else 2)
    assert gather.level == least


@given(pairs(), itemsizes, st.sampled_from([None, 128, 1024]))
@cases(150)
def test_every_plan_delivers_every_element(pair, itemsize, limit):
    source, target = pair
    check(plan_convert(source, target, 8 * itemsize, limit), source, target, itemsize)


@given(pairs(), itemsizes)
@cases(120)
def test_shuffles_deliver_within_warps(pair, itemsize):
    source, target = (layout.compact()[0] for layout in pair)
    gather = classify(source, target)
    if gather.level < 2:
        plan = plan_shuffles(source, target, gather, 8 * itemsize)
        assert len(plan.words[0]) * itemsize <= 4 or len(plan.words[0]) == 1
        check(plan, source, target, itemsize)


@given(pairs(), itemsizes, st.sampled_from([None, 128, 512]))
@cases(150)
def test_staging_delivers_without_bank_conflicts(pair, itemsize, limit):
    source, target = (layout.compact()[0] for layout in pair)
    plan = plan_staging(source, target, classify(source, target), 8 * itemsize, limit)
    check(plan, source, target, itemsize)
    if plan.layout is not None:
        plan.layout.verify()


@given(pairs(), st.sampled_from([(1, 4), (1, 2), (2, 2)]))
@cases(100)
def test_words_are_moved_as_their_numbers_would_be(pair, sizes):
    source, target = (layout.compact()[0] for layout in pair)
    itemsize, each = sizes
    plan = plan_staging(source, target, classify(source, target), 8 * itemsize)
    words = plan.of_words(each)
    if words is not None and not (source.registers() % each or target.registers() % each):
        check_held(run_words(words, source, target, itemsize, each), target)


HARDWARE = {
    "rows": blocked((64, 64), 4, (1, 0), 4),
    "columns": blocked((64, 64), 4, (0, 1), 4),
    "wide rows": blocked((64, 64), 16, (1, 0), 4),
    "mma c": mma_c((64, 64), (2, 2)),
    "mma a": mma_a((64, 64), 2, (4, 1)),
    "mma b": mma_b((64, 64), 2, (2, 2)),
    "mma a 8-bit": mma_a((64, 64), 4, (2, 2)),
    "wgmma d": wgmma_d((64, 64), 4),
    "wgmma a tf32": wgmma_a((64, 64), 1, 4),
}


@pytest.mark.parametrize(("name", "whole"), [("wide rows", True), ("columns", False)])
def test_a_word_is_moved_whole_or_not_at_all(name, whole):
    source, target = HARDWARE["wgmma d"], HARDWARE[name]
    words = plan_staging(source, target, classify(source, target), 16).of_words(2)
    assert (words is not None) == whole
    if words is not None:
        check_held(run_words(words, source, target, 2, 2), target)


@pytest.mark.parametrize(
    ("source", "target"), [pair for pair in product(HARDWARE, repeat=2) if pair[0] != pair[1]]
)
def test_hardware_layouts_convert_into_each_other(source, target):
    for itemsize in (1, 2, 4):
        plan = plan_convert(HARDWARE[source], HARDWARE[target], 8 * itemsize)
        check(plan, HARDWARE[source], HARDWARE[target], itemsize)


# (itemsize, source, target, wavefronts of store and load, bytes per access)
DOCUMENTED = [
    (4, wgmma_d((128, 64), 4), blocked((128, 64), 4, (1, 0), 4), (256, 256), (16, 16)),
    (2, wgmma_d((128, 64), 4), blocked((128, 64), 8, (1, 0), 4), (128, 128), (16, 8)),
    (4, blocked((64, 64), 4, (1, 0), 4), blocked((64, 64), 4, (0, 1), 4), (128, 128), (16, 4)),
    (2, blocked((64, 64), 8, (1, 0), 4), blocked((64, 64), 8, (0, 1), 4), (64, 128), (16, 2)),
    (
        1,
        blocked((128, 128), 16, (1, 0), 4),
        blocked((128, 128), 16, (0, 1), 4),
        (128, 512),
        (16, 1),
    ),
]


@pytest.mark.parametrize(("itemsize", "source", "target", "waves", "widths"), DOCUMENTED)
def test_wavefronts_of_typical_conversions(itemsize, source, target, waves, widths):
    plan = plan_convert(source, target, 8 * itemsize)
    assert isinstance(plan, SharedPlan)
    assert (plan.store.wavefronts, plan.load.wavefronts) == waves
    assert (plan.store.vector * itemsize, plan.load.vector * itemsize) == widths
    assert plan.scratch_bytes == itemsize << source.tile_bits
    check(plan, source, target, itemsize)


def test_the_accumulator_is_the_next_operand_without_any_instruction():
    plan = plan_convert(mma_c((64, 32), (4, 1)), mma_a((64, 32), 2, (4, 1)), 16)
    assert isinstance(plan, RegisterPlan)
    assert plan.sources == tuple(range(16))


@pytest.mark.parametrize("exchanged", [1, 2, 3])
def test_exchanging_registers_with_lanes_saves_the_rounds_of_the_own_lane(exchanged):
    lane, register = ((1, 2, 4, 8, 16), (32, 64, 128, 256))
    source = LinearLayout.from_flat((register, lane, (), ()), (512,))
    swapped = (
        (*lane[:exchanged], *register[exchanged:]),
        (*register[:exchanged], *lane[exchanged:]),
        (),
        (),
    )
    target = LinearLayout.from_flat(swapped, (512,))
    plan = plan_shuffles(source, target, classify(source, target), 32)
    assert plan.is_butterfly
    shuffles = sum(not plan.is_local(step) for step in plan.rounds)
    assert shuffles == 16 - (16 >> exchanged)


def test_narrow_elements_travel_together():
    source, target = mma_c((16, 64), (1, 1)), mma_a((16, 64), 4, (1, 1))
    words = {
        bits: plan_shuffles(source, target, classify(source, target), bits) for bits in (8, 16, 32)
    }
    assert {bits: len(plan.words[0]) for bits, plan in words.items()} == {8: 4, 16: 2, 32: 1}
    assert {bits: len(plan.rounds) for bits, plan in words.items()} == {8: 8, 16: 16, 32: 32}


def test_equal_data_needs_names_only_and_dead_registers_none():
    source = blocked((3,), 1, (0,), 1)
    double = LinearLayout.from_flat(((0, *source.dims[0]), *source.dims[1:]), (3,))
    assert plan_convert(source, double, 32) == RegisterPlan((0, 0))
    holes = LinearLayout({"register": [(1,), (2,)], "lane": [(0,)] * 5}, (3,))
    assert plan_convert(holes, holes, 32) == RegisterPlan((0, 1, 2, None))


def test_replicated_warps_stay_within_their_warp():
    row = blocked((64, 64), 4, (1, 0), 4).slice_axis(0)
    turned = LinearLayout.from_flat((row.dims[0][::-1], row.dims[1][::-1], *row.dims[2:]), (64,))
    assert classify(row, turned).level == 1
    assert isinstance(plan_convert(row, turned, 32), ShufflePlan)


def test_rounds_keep_the_scratch_within_the_limit_where_registers_allow():
    source, target = mma_c((128, 128), (2, 4)), blocked((128, 128), 8, (1, 0), 8)
    plan = plan_convert(source, target, 16, 16384)
    assert plan.scratch_bytes == 16384
    assert len(plan.store.rounds) == len(plan.load.rounds) == 2
    check(plan, source, target, 2)


def test_only_owners_store_what_several_warps_hold():
    row = blocked((64, 64), 4, (1, 0), 4).slice_axis(1)
    line = blocked((64,), 1, (0,), 4)
    assert plan_convert(line, row, 32).owner_warps == 0b10
    check(plan_convert(line, row, 32), line, row, 4)


@given(layouts(6, warp_bits=1), layouts(6, warp_bits=1))
@cases(50)
def test_different_shapes_are_refused(first, second):
    if first.shape != second.shape:
        with pytest.raises(ValueError, match="expected the same shape"):
            plan_convert(first, second, 32)


def test_different_numbers_of_warps_are_refused():
    with pytest.raises(ValueError, match="from 4 to 8 warps; expected the same number"):
        plan_convert(blocked((64,), 1, (0,), 4), blocked((64,), 1, (0,), 8), 32)


def test_moving_between_blocks_of_a_cluster_is_refused():
    lane = [(1,), (2,), (4,), (8,), (16,)]
    source = LinearLayout({"register": [(32,)], "lane": lane, "cta": [(64,)]}, (128,))
    target = LinearLayout({"register": [(64,)], "lane": lane, "cta": [(32,)]}, (128,))
    with pytest.raises(ValueError, match="expected the same cta bases"):
        plan_convert(source, target, 32)
