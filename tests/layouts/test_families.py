from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.layouts.strategies import cases, shapes
from workbench.layouts import (
    blocked,
    fragment,
    mma_a,
    mma_b,
    mma_c,
    split_warps,
    swizzled,
    vector_width,
    wgmma_a,
    wgmma_d,
)
from workbench.layouts.predict import wavefronts


def walk(index, extents, strides):
    """CuTe's shape:stride, the first mode fastest."""
    total = 0
    for extent, stride in zip(extents, strides, strict=True):
        total += index % extent * stride
        index //= extent
    return total


# PTX ISA 9.0, mma.sync, "Matrix fragments": element i of lane 4 g + t, as (row, k);
# B is listed as (n, k), C as (row, column).
PTX_FRAGMENTS = {
    "A m16n8k8 f16, C m16n8": (16, 8, 2, lambda g, t, i: (g + 8 * (i >= 2), 2 * t + i % 2)),
    "A m16n8k16 f16": (
        16, 16, 2, lambda g, t, i: (g + 8 * (i // 2 % 2), 2 * t + i % 2 + 8 * (i >= 4)),
    ),
    "A m16n8k16 s8": (16, 16, 4, lambda g, t, i: (g + 8 * (i >= 4), 4 * t + i % 4)),
    "A m16n8k32 s8": (
        16, 32, 4, lambda g, t, i: (g + 8 * (i // 4 % 2), 4 * t + i % 4 + 16 * (i >= 8)),
    ),
    "A m16n8k4 tf32": (16, 4, 1, lambda g, t, i: (g + 8 * i, t)),
    "A m16n8k8 tf32": (16, 8, 1, lambda g, t, i: (g + 8 * (i % 2), t + 4 * (i >= 2))),
    "A m16n8k16 f64": (16, 16, 1, lambda g, t, i: (g + 8 * (i % 2), t + 4 * (i // 2))),
    "A m8n8k4 f64": (8, 4, 1, lambda g, t, i: (g, t)),
    "B k8 f16, C m8n8 f64": (8, 8, 2, lambda g, t, i: (g, 2 * t + i)),
    "B k16 f16": (8, 16, 2, lambda g, t, i: (g, 2 * t + i % 2 + 8 * (i >= 2))),
    "B k16 s8": (8, 16, 4, lambda g, t, i: (g, 4 * t + i)),
    "B k32 s8": (8, 32, 4, lambda g, t, i: (g, 4 * t + i % 4 + 16 * (i >= 4))),
    "B k8 tf32": (8, 8, 1, lambda g, t, i: (g, t + 4 * i)),
    "B k16 f64": (8, 16, 1, lambda g, t, i: (g, t + 4 * i)),
}  # fmt: skip


@pytest.mark.parametrize("name", PTX_FRAGMENTS)
def test_fragments_follow_the_ptx_formula(name):
    rows, columns, kw, formula = PTX_FRAGMENTS[name]
    layout = fragment(rows, columns, kw).verify()
    for lane, i in product(range(32), range(layout.registers())):
        assert layout.apply(register=i, lane=lane) == formula(lane // 4, lane % 4, i)


@pytest.mark.parametrize(
    ("shape", "kw"), [((16, 8), 2), ((16, 16), 2), ((16, 16), 4), ((16, 32), 4), ((16, 8), 1)]
)
def test_one_fragment_is_the_smallest_operand_tile(shape, kw):
    m, k = shape
    assert mma_a(shape, kw, (1, 1)) == fragment(m, k, kw)
    assert mma_b((k, 8), kw, (1, 1)).transpose((1, 0)) == fragment(8, k, kw)
    assert mma_c((16, 8), (1, 1)) == fragment(16, 8, 2)


@pytest.mark.parametrize("n", range(8, 257, 8))
def test_wgmma_accumulator_follows_cute_and_registers_past_n_are_dead(n):
    layout = wgmma_d((64, n), 4).verify()
    assert layout.live_registers() == tuple(range(n // 2))
    for warp, lane, i in product(range(4), range(32), range(n // 2)):
        index = walk(lane + 32 * warp, (4, 8, 4), (128, 1, 16))
        index += walk(i, (2, 2, n // 8), (64, 8, 512))
        column, row = divmod(index, 64)
        assert layout.apply(register=i, lane=lane, warp=warp) == (row, column)


@pytest.mark.parametrize(
    ("k", "kw", "threads", "values"),
    [
        (16, 2, (128, 1, 16), ((2, 2, 2), (64, 8, 512))),
        (32, 4, (256, 1, 16), ((4, 2, 2), (64, 8, 1024))),
        (8, 1, (64, 1, 16), ((2, 2), (8, 256))),
    ],
)
def test_wgmma_operand_in_registers_follows_cute(k, kw, threads, values):
    layout = wgmma_a((64, k), kw, 4).verify()
    for warp, lane, i in product(range(4), range(32), range(layout.registers())):
        index = walk(lane + 32 * warp, (4, 8, 4), threads) + walk(i, *values)
        assert layout.apply(register=i, lane=lane, warp=warp) == divmod(index, 64)[::-1]


def test_wgmma_accumulator_is_the_next_operand_of_16_bits():
    assert wgmma_d((128, 64), 8).same_data(wgmma_a((128, 64), 2, 8))


dots = st.tuples(*[st.integers(2, 200)] * 2, st.integers(8, 130), st.sampled_from([1, 2]))
splits = st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2), (4, 2), (1, 8)])


@given(dots, splits)
@cases(150)
def test_operands_and_accumulator_meet_in_every_thread(dot, warps):
    """The fragments that a thread multiplies belong to the accumulator that it holds."""
    m, n, k, kw = dot
    a, b, c = mma_a((m, k), kw, warps), mma_b((k, n), kw, warps), mma_c((m, n), warps)
    for layout in (a, b, c):
        layout.verify()
        assert layout.size("warp") == warps[0] * warps[1]
    for warp in range(warps[0] * warps[1]):
        row, column = c.apply(warp=warp)
        assert a.apply(warp=warp) == (row, 0)
        assert b.apply(warp=warp) == (0, column)
    rows = {a.unflatten(x)[0] for x in a.table("register")}
    assert rows == {c.unflatten(x)[0] for x in c.table("register")}


def test_batches_are_the_last_registers():
    plain, batched = mma_c((32, 16), (2, 1)), mma_c((4, 32, 16), (2, 1))
    assert batched.bases["register"][-2:] == ((1, 0, 0), (2, 0, 0))
    assert batched.dims[0][:-2] == plain.dims[0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mma_a((16, 4), 2, (1, 1)), "K = 4; expected at least 8"),
        (lambda: mma_c((16,), (1, 1)), "expected at least two axes"),
        (lambda: wgmma_d((64, 8), 2), "expected a multiple of 4"),
        (lambda: blocked((4, 4), 3, (1, 0), 1), "vector is 3; expected a power of two"),
        (lambda: blocked((4, 4), 1, (1, 1), 1), "expected each axis"),
        (lambda: swizzled((4, 4), 2, (0, 0)), "expected each axis"),
    ],
)
def test_errors_say_what_was_found_and_expected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@given(st.integers(0, 12).flatmap(shapes), st.integers(0, 4), st.integers(0, 3), st.data())
@cases(200)
def test_blocked_fills_vectors_lanes_warps_in_this_order(shape, vector_bits, warp_bits, data):
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    layout = blocked(shape, 1 << vector_bits, order, 1 << warp_bits).verify()
    fastest = layout.padded[order[0]]
    assert layout.consecutive(axis=order[0]) >= min(1 << vector_bits, fastest)
    threads = [*layout.dims[1], *layout.dims[2]]
    idle = threads.index(0) if 0 in threads else len(threads)
    assert not any(threads[idle:]), "a thread bit is used after an idle one"
    assert idle == len(threads) or len(layout.dims[0]) <= vector_bits
    assert len(layout.columns) - threads.count(0) == layout.tile_bits, "no other copies"


@pytest.mark.parametrize(
    ("limit", "width"),
    [
        ({}, 8),
        ({"alignment": 4}, 2),
        ({"alignment": 1}, 1),
        ({"alignment": 24}, 4),
        ({"contiguity": 6}, 2),
        ({"mask_constancy": 1}, 1),
        ({"extent": 3}, 4),
        ({"elements_per_thread": 5}, 4),
        ({"elements_per_thread": 0}, 1),
    ],
)
def test_each_fact_bounds_the_vector(limit, width):
    free = {"alignment": 16, "contiguity": 64, "mask_constancy": 64, "extent": 64}
    assert vector_width(2, **({"elements_per_thread": 64} | free | limit)) == width


def test_warps_are_split_without_repeating_work():
    assert split_warps((128, 128), 4) == (2, 2)
    assert split_warps((16, 256), 4) == (1, 4)
    assert split_warps((256, 8), 4) == (4, 1)
    assert split_warps((16, 8), 8) in {(8, 1), (1, 8), (2, 4), (4, 2)}


@pytest.mark.parametrize(
    ("itemsize", "columns"), list(product((1, 2, 4), (4, 8, 16, 32, 64, 128, 256)))
)
def test_swizzle_moves_the_chunks_of_each_row_as_tma_does(itemsize, columns):
    shared = swizzled((64, columns), itemsize).verify()
    width = min(128, columns * itemsize)
    mask, shift = {128: (7, 0), 64: (3, 1), 32: (1, 2)}.get(width, (0, 0))
    for row, column in product(range(0, 64, 5), range(columns)):
        offset = offset_of(shared, (row, column))
        box, inside = divmod(column * itemsize, width)
        chunk, byte = divmod(inside, 16)
        chunk ^= row >> shift & mask
        assert offset * itemsize == box * 64 * width + row * width + 16 * chunk + byte


@pytest.mark.parametrize(
    ("itemsize", "columns"),
    [c for c in product((1, 2, 4), (16, 32, 64, 96, 128, 160, 192, 224)) if c[0] * c[1] >= 16],
)
def test_swizzled_rows_and_8x8_matrices_take_one_wavefront_per_phase(itemsize, columns):
    shared = swizzled((64, columns), itemsize)
    chunk = 16 // itemsize
    by_rows = shared.offsets(blocked((64, columns), chunk, (1, 0), 1))
    lanes = [x // chunk * chunk * itemsize for x in by_rows.table("lane")]
    assert wavefronts(lanes, 16) == 4
    down = shared.offsets(blocked((64, columns), 1, (0, 1), 1))
    for first in range(0, columns, chunk):
        offsets = [
            (down.apply_flat(lane=row) ^ offset_of(shared, (0, first))) * itemsize
            for row in range(8)
        ]
        assert wavefronts(offsets, 16) == 1


@pytest.mark.parametrize("rows", [1, 2, 4, 8])
@pytest.mark.parametrize(("itemsize", "columns"), [(1, 128), (2, 64), (4, 32), (1, 64), (2, 32)])
def test_turned_swizzles_take_one_wavefront_per_phase_whatever_its_shape(itemsize, columns, rows):
    shared, chunk = swizzled((64, columns), itemsize, turned=True).verify(), 16 // itemsize
    across = 8 // rows
    if across * chunk > columns:
        pytest.skip("a row has fewer chunks")
    for row, first in product(range(0, 64, rows), range(0, columns, across * chunk)):
        places = product(range(row, row + rows), range(first, first + across * chunk, chunk))
        assert wavefronts([offset_of(shared, place) * itemsize for place in places], 16) == 1


def offset_of(shared, coordinates):
    flat, offset = shared.flatten(coordinates), 0
    for bit, image in enumerate(shared.invert()):
        offset ^= image if flat >> bit & 1 else 0
    return offset


def test_a_turned_swizzle_is_the_transpose():
    assert swizzled((32, 64), 2, (0, 1)) == swizzled((64, 32), 2).transpose((1, 0))
    assert swizzled((3, 32, 64), 2).bases["offset"][-2:] == ((1, 0, 0), (2, 0, 0))
    assert swizzled((), 4).bases == {"offset": ()}
