"""A tile goes from one buffer to another in vectors, and no request meets a bank twice."""

from __future__ import annotations

import pytest

from workbench.layouts import LinearLayout, f2
from workbench.layouts.between import between_buffers
from workbench.layouts.families import swizzled
from workbench.layouts.predict import wavefronts


def requests(buffer: LinearLayout, layout: LinearLayout, itemsize: int) -> list[tuple[int, int]]:
    """Return the bytes and the wavefronts of a warp's requests, by brute force over all places."""
    offset_of = {buffer.apply(offset=o): o for o in range(buffer.size("offset"))}

    def offset(register: int, lane: int) -> int:
        return offset_of[layout.apply(register=register, lane=lane, warp=0)]

    found: list[tuple[int, int]] = []
    left = set(range(layout.registers()))
    lanes = range(layout.size("lane"))
    while left:
        first = min(left, key=lambda r: offset(r, 0))
        width = 1
        for wider in (2, 4, 8, 16):
            run = [next((r for r in left if offset(r, 0) == offset(first, 0) + i), None)
                   for i in range(wider)]  # fmt: skip
            aligned = all(offset(first, lane) % wider == 0 for lane in lanes)
            same = all(r is not None and offset(r, lane) == offset(first, lane) + i
                       for i, r in enumerate(run) for lane in lanes)  # fmt: skip
            if wider * itemsize <= 16 and aligned and same:
                width = wider
        taken = [next(r for r in left if offset(r, 0) == offset(first, 0) + i)
                 for i in range(width)]  # fmt: skip
        left -= set(taken)
        size = width * itemsize
        found.append((size, wavefronts([offset(first, lane) * itemsize for lane in lanes], size)))
    return found


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("shape", [(32, 128), (64, 64), (128, 32), (32, 256), (32, 160)])
def test_words_go_by_sixteen_bytes_and_all_banks(shape: tuple[int, int], warps: int):
    source = swizzled(shape, 4, (1, 0), exchange=False)
    target = swizzled(shape, 4, (0, 1), exchange=False)
    layout = between_buffers(source, target, 4, 32, warps)
    assert layout is not None
    layout.verify()
    for buffer in (source, target):
        assert set(requests(buffer, layout, 4)) == {(16, 4)}


@pytest.mark.parametrize("itemsize", [1, 2])
@pytest.mark.parametrize("shape", [(64, 128), (128, 64), (64, 64), (128, 128)])
def test_smaller_elements_go_by_words_at_least(shape: tuple[int, int], itemsize: int):
    source = swizzled(shape, itemsize, (1, 0), exchange=False)
    target = swizzled(shape, itemsize, (0, 1), exchange=False)
    layout = between_buffers(source, target, itemsize, 32, 4)
    assert layout is not None
    layout.verify()
    for buffer in (source, target):
        for size, waves in requests(buffer, layout, itemsize):
            assert size >= 4
            assert waves <= 4 * max(1, size * 32 // 128 // 2)


def test_what_lies_alike_is_copied_in_vectors():
    buffer = swizzled((64, 32), 4, (1, 0), exchange=False)
    layout = between_buffers(buffer, buffer, 4, 32, 4)
    assert layout is not None
    assert set(requests(buffer, layout, 4)) == {(16, 4)}


def test_tiles_of_fewer_elements_than_threads_have_none():
    small = LinearLayout.from_flat((tuple(f2.units(7)),), (8, 16))
    assert between_buffers(small, small, 4, 32, 4) is None
