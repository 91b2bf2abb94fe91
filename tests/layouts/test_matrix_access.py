from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.layouts.strategies import cases
from workbench.layouts import (
    LinearLayout,
    apart_fits,
    blocked,
    f2,
    fragment,
    ldmatrix_fits,
    mma_a,
    mma_b,
    mma_c,
    stmatrix_fits,
    swizzled,
    wgmma_d,
)
from workbench.layouts.predict import wavefronts


def delivered(rows, lane, matrix, byte, trans):
    """PTX ISA 9.0, ldmatrix: the address whose byte arrives as byte 0..3 of register `matrix`.

    rows[a] is the address that lane a gives.
    """
    if trans:
        return rows[8 * matrix + 2 * (lane % 4) + byte // 2] + 2 * (lane // 4) + byte % 2
    return rows[8 * matrix + lane // 4] + 4 * (lane % 4) + byte


def simulate(plan, shared, layout, itemsize, order=None):
    """Run the plan in every warp: each live register gets its element, without conflicts.

    order: of each bit of the plan's registers, which one of the layout's it is.
    """
    order = range(len(layout.bases["register"])) if order is None else order
    places, seen = shared.offsets(layout), set()
    for warp, step in product(range(layout.size("warp")), plan.instructions):
        base = f2.apply(plan.warp, warp) ^ step.offset
        rows = [f2.apply(plan.lane, lane) ^ base for lane in range(32)]
        assert len(step.registers) == plan.count
        for matrix, first in enumerate(step.registers):
            phase = rows[8 * matrix : 8 * matrix + 8]
            assert all(row % 16 == 0 for row in phase)
            assert wavefronts(phase, 16) == 1
            for lane, part in product(range(32), range(4 // itemsize)):
                register = sum((first + part >> bit & 1) << own for bit, own in enumerate(order))
                wanted = itemsize * places.apply_flat(register=register, lane=lane, warp=warp)
                assert delivered(rows, lane, matrix, part * itemsize, plan.trans) == wanted
                seen.add(register)
    assert seen >= set(layout.live_registers())


# Stored as [rows][columns] with the swizzle; the instruction that must fit.
OPERANDS = [
    ("A", mma_a((64, 64), 2, (2, 2)), None, 2, False, 4),
    ("A from [k][m]", mma_a((64, 64), 2, (2, 2)), (0, 1), 2, True, 4),
    ("A of one step", mma_a((16, 16), 2, (1, 1)), None, 2, False, 4),
    ("A in rows of 32 bytes", mma_a((128, 16), 2, (4, 1)), None, 2, False, 4),
    ("B", mma_b((64, 64), 2, (2, 2)), None, 2, True, 4),
    ("B from [n][k]", mma_b((64, 64), 2, (2, 2)), (0, 1), 2, False, 4),
    ("B of 8 columns", mma_b((16, 8), 2, (1, 1)), None, 2, True, 2),
    ("A 8-bit", mma_a((64, 128), 4, (4, 1)), None, 1, False, 4),
    ("B 8-bit from [n][k]", mma_b((64, 64), 4, (1, 4)), (0, 1), 1, False, 4),
    ("A tf32", mma_a((64, 32), 1, (2, 1)), None, 4, False, 4),
    ("A with holes", mma_a((50, 40), 2, (2, 1)), None, 2, False, 4),
    ("A of few rows", mma_a((8, 32), 2, (1, 2)), None, 2, False, 4),
    ("A in batches", mma_a((2, 32, 32), 2, (2, 1)), None, 2, False, 4),
    ("D", mma_c((64, 64), (2, 2)), None, 2, False, 4),
    ("D of wgmma", wgmma_d((64, 96), 4), None, 2, False, 4),
]


@pytest.mark.parametrize(
    ("layout", "order", "itemsize", "trans", "count"),
    [case[1:] for case in OPERANDS],
    ids=[case[0] for case in OPERANDS],
)
def test_swizzled_operands_are_moved_by_matrix_instructions(layout, order, itemsize, trans, count):
    shared = swizzled(layout.shape, itemsize, order)
    plan = ldmatrix_fits(shared, layout, itemsize, trans)
    assert plan is not None
    assert plan.count == count
    simulate(plan, shared, layout, itemsize)
    assert stmatrix_fits(shared, layout, itemsize, trans) == plan
    assert ldmatrix_fits(shared, layout, itemsize, not trans) is None


@given(st.permutations(range(6)))
@cases(50)
def test_words_whose_elements_are_no_neighbouring_registers_are_moved_as_well(order):
    layout = mma_a((64, 128), 4, (4, 1))
    shared, held = swizzled(layout.shape, 1), layout.bases["register"]
    moved = LinearLayout({**layout.bases, "register": [held[bit] for bit in order]}, layout.shape)
    found = apart_fits(shared, moved, 1)
    assert (found is None) == (order[:2] == [0, 1])
    if found is None:
        assert ldmatrix_fits(shared, moved, 1) is not None
    else:
        assert ldmatrix_fits(shared, moved, 1) is None
        plan, bits = found
        simulate(plan, shared, moved, 1, bits)


def test_what_fits_no_instruction_fits_none_in_another_order():
    tile = (64, 64)
    assert apart_fits(swizzled(tile, 1), mma_b(tile, 4, (1, 1)), 1) is None
    assert apart_fits(swizzled(tile, 4), mma_a(tile, 1, (1, 1)), 4) is None
    assert apart_fits(swizzled(tile, 2), blocked(tile, 8, (1, 0), 4), 2) is None


# The table "row of address lane a, 16-byte chunk" for plain rows of 32 bytes.
@pytest.mark.parametrize(
    ("layout", "order", "trans", "row", "chunk"),
    [
        (mma_a((16, 16), 2, (1, 1)), (1, 0), False, lambda a: a & 15, lambda a: a >> 4),
        (
            mma_a((16, 16), 2, (1, 1)),
            (0, 1),
            True,
            lambda a: (a & 7) + 8 * (a >> 4),
            lambda a: a >> 3 & 1,
        ),
        (
            mma_b((16, 16), 2, (1, 1)),
            (0, 1),
            False,
            lambda a: (a & 7) + 8 * (a >> 4),
            lambda a: a >> 3 & 1,
        ),
        (mma_b((16, 8), 2, (1, 1)), (1, 0), True, lambda a: a & 15, lambda a: 0),
    ],
)
def test_address_lanes_follow_the_table(layout, order, trans, row, chunk):
    columns = layout.shape[order[0]]
    bases = [
        tuple(1 << bit if axis == d else 0 for d in range(2))
        for axis in order
        for bit in range(layout.bits[axis])
    ]
    plan = ldmatrix_fits(LinearLayout({"offset": bases}, layout.shape), layout, 2, trans)
    for a in range(8 * plan.count):
        assert f2.apply(plan.lane, a) == 2 * columns * row(a) + 16 * chunk(a)


def test_what_has_no_instruction_is_refused():
    tile = (64, 64)
    eight = mma_b(tile, 4, (1, 1))
    assert ldmatrix_fits(swizzled(tile, 1), eight, 1, trans=True) is None
    assert ldmatrix_fits(swizzled(tile, 1), eight, 1) is None
    assert ldmatrix_fits(swizzled(tile, 8), blocked(tile, 1, (1, 0), 1), 8) is None
    assert ldmatrix_fits(swizzled(tile, 2), blocked(tile, 8, (1, 0), 4), 2) is None


@given(st.data())
@cases(300)
def test_the_fits_test_is_exact(data):
    """Against a simulated x4 load with the only addresses that could work."""
    itemsize, trans = data.draw(st.sampled_from([(1, False), (2, False), (2, True), (4, False)]))
    packed = f2.log2(4 // itemsize)
    frag = fragment(16, 32 // itemsize, 4 // itemsize)
    if trans:  # the fragment of A, stored with its rows along memory
        frag = frag.transpose((1, 0))
    bits = frag.tile_bits
    columns = f2.units(bits)
    for _ in range(data.draw(st.integers(0, 3))):
        position = data.draw(st.integers(0, bits - 1))
        columns[position] ^= data.draw(st.integers(0, (1 << bits) - 1))
    columns = f2.extend((), columns + f2.units(bits))
    shared = LinearLayout.from_flat((tuple(columns),), frag.shape)
    plan = ldmatrix_fits(shared, frag, itemsize, trans)
    places = shared.offsets(frag)
    register, lane = ([x * itemsize for x in dim] for dim in places.dims[:2])
    rows = f2.table(
        (register[:1] + lane[:2] if trans else lane[2:]) + register[packed : packed + 2]
    )
    works = all(row % 16 == 0 for row in rows) and all(
        delivered(rows, at, matrix, part * itemsize, trans)
        == f2.apply(register, part | matrix << packed) ^ f2.apply(lane, at)
        for at, matrix, part in product(range(32), range(4), range(4 // itemsize))
    )
    assert works == (plan is not None)
