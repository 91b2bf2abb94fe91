"""Descriptors of wgmma against the addresses that PTX ISA 9.0 gives, element by element."""

from __future__ import annotations

from itertools import product

import pytest

from workbench.layouts import blocked, packing, swizzled, warpgroup_fits

_ROW = {1: 128, 2: 64, 3: 32}


def address(plan, start: int, mn: int, k: int, itemsize: int) -> int:
    """Return where the hardware reads an element of a matrix; "Canonical Layouts" of the ISA."""
    row = _ROW[plan.swizzle]
    if plan.k_major:
        found = start + mn // 8 * plan.stride + mn % 8 * row + k * itemsize
    else:
        across = mn * itemsize
        found = start + across // row * plan.leading + across % row
        found += k // 8 * plan.stride + k % 8 * row
    # 128 bytes: bits 4-6 ^= bits 7-9. 64: bits 4-5 ^= bits 7-8. 32: bit 4 ^= bit 7.
    return found ^ (found >> 3 & {1: 0x70, 2: 0x30, 3: 0x10}[plan.swizzle])


def place(shared, itemsize: int, coordinates: tuple[int, ...]) -> int:
    flat, offset = shared.flatten(coordinates), 0
    for bit, column in enumerate(shared.invert()):
        if flat >> bit & 1:
            offset ^= column
    return packing(shared, itemsize).scaled(itemsize).place(offset * itemsize)


SHAPES = [(64, 16), (64, 64), (128, 64), (192, 128), (16, 256), (96, 160), (224, 96), (128, 80)]


@pytest.mark.parametrize(("shape", "order"), list(product(SHAPES, [(1, 0), (0, 1)])))
@pytest.mark.parametrize("itemsize", [1, 2])
def test_the_hardware_reads_what_lies_there(shape, order, itemsize):
    shared = swizzled(shape, itemsize, order, exchange=False)
    inside, read = 32 // itemsize, 0
    for k_axis in (0, 1):
        rows, deep = shape[1 - k_axis], shape[k_axis]
        count = min(rows, 64)
        if deep % inside:
            continue
        plan = warpgroup_fits(shared, itemsize, k_axis, count)
        if plan is None:
            # 8-bit operands lie with k side by side, or are not read.
            assert itemsize == 1
            assert order[0] != k_axis
            continue
        assert plan.k_major == (order[0] == k_axis)
        assert packing(shared, itemsize).size * itemsize % plan.atom_bytes == 0
        for mn0, k0 in product(range(0, rows - count + 1, count), range(0, deep, inside)):
            start = plan.start(mn0, k0)
            assert start % 16 == 0
            for mn, k in product(range(count), range(inside)):
                there = (mn0 + mn, k0 + k) if k_axis else (k0 + k, mn0 + mn)
                assert address(plan, start, mn, k, itemsize) == place(shared, itemsize, there)
                read += 1
    assert read or itemsize == 1


@pytest.mark.parametrize(("rows", "apart"), [(176, 2), (192, 2), (144, 2), (160, 4), (96, 4)])
@pytest.mark.parametrize("itemsize", [1, 2])
def test_the_hardware_reads_every_other_group_of_eight(rows, apart, itemsize):
    """As a warpgroup has its columns where they go in turns; only with k inside."""
    shared, inside = swizzled((rows, 64), itemsize, exchange=False), 32 // itemsize
    plan = warpgroup_fits(shared, itemsize, 1, rows, apart)
    assert plan is not None
    for group, k0 in product(range(apart), range(0, 64, inside)):
        start = plan.start(8 * group, k0)
        for own, k in product(range(rows // apart), range(inside)):
            there = own % 8 + 8 * (own // 8 * apart + group), k0 + k
            assert address(plan, start, own, k, itemsize) == place(shared, itemsize, there)
    across = swizzled((64, rows), itemsize, exchange=False)
    assert warpgroup_fits(across, itemsize, 0, rows, apart) is None


@pytest.mark.parametrize("rows", [9, 12, 36, 44, 100])
def test_panels_that_start_between_eight_rows_are_refused(rows):
    """The hardware XORs bits of the address: rows count from where eight of them begin."""
    assert warpgroup_fits(swizzled((rows, 128), 2, exchange=False), 2, 1, min(rows, 64)) is None


def test_other_orders_of_bytes_are_refused():
    """Panels that exchange rows for ldmatrix, plain rows, 4-byte rows by columns."""
    assert warpgroup_fits(swizzled((64, 96), 2), 2, 0, 96) is None
    assert warpgroup_fits(swizzled((64, 8), 2), 2, 0, 8) is None
    assert warpgroup_fits(swizzled((32, 128), 4), 4, 0, 128) is None
    plain = swizzled((8, 64), 2).transpose((1, 0))
    assert warpgroup_fits(plain, 2, 1, 64) is None
    with pytest.raises(KeyError):
        warpgroup_fits(blocked((64, 64), 1, (1, 0), 4), 2, 1, 64)
