"""Kernels with one fault each, which a watched run has to find at the line marked `# here`.

Races and faults of order between programs; accesses that leave their argument; waits that nobody
ends. A kernel's faulty line is marked, so that the tests need no table of numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import workbench as wb
from workbench import tl

BLOCK = 4


@dataclass(frozen=True)
class Planted:
    """A faulty launch: what is raised, by how many programs, over which arguments."""

    kernel: Any
    code: str
    programs: int
    arguments: Callable[[], tuple[Any, ...]]
    said: str


PLANTED: dict[str, Planted] = {}


def planted(
    code: str, programs: int, arguments: Callable[[], tuple[Any, ...]], said: str = ""
) -> Callable[[Any], Any]:
    """Enter a kernel; `said` stands in the error's text."""

    def enter(function: Any) -> Any:
        kernel = wb.jit(function)
        PLANTED[function.__name__] = Planted(kernel, code, programs, arguments, said)
        return kernel

    return enter


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def zeros(count: int, dtype: Any = np.int32) -> np.ndarray:
    return np.zeros(count, dtype)


def counted(count: int, dtype: Any = np.int32) -> np.ndarray:
    return np.arange(1, count + 1, dtype=dtype)


# -- two programs, one element --------------------------------------------------------------------
@planted("K514", 3, lambda: (counted(13),), "x_ptr[4]")
def shifted_right(x_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)  # here
    tl.store(x_ptr + i + 1, x)


@planted("K514", 3, lambda: (counted(13),), "already read by program (0,)")
def shifted_left(x_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i + 1)
    tl.store(x_ptr + i, x)  # here


@planted("K514", 4, lambda: (counted(64),))
def transposed_in_place(x_ptr, BLOCK: tl.constexpr):
    row, column = tl.program_id(0) // 2, tl.program_id(0) % 2
    i = row * BLOCK + tl.arange(0, BLOCK)
    j = column * BLOCK + tl.arange(0, BLOCK)
    tile = tl.load(x_ptr + i[:, None] * (2 * BLOCK) + j[None, :])  # here
    tl.store(x_ptr + j[:, None] * (2 * BLOCK) + i[None, :], tl.trans(tile))


@planted("K514", 4, lambda: (counted(16),))
def mirrored_in_place(x_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)  # here
    tl.store(x_ptr + (4 * BLOCK - 1) - i, x)


def _overlapping() -> tuple[Any, ...]:
    memory = counted(18)
    return memory[:16], memory[2:]


@planted("K514", 4, _overlapping, "x_ptr[4] (out_ptr[2])")
def overlapping_arguments(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)  # here
    tl.store(out_ptr + i, x * 2)


def _bytes_of_floats() -> tuple[Any, ...]:
    memory = counted(8, np.float32)
    return memory, memory.view(np.uint8)


@planted("K514", 2, _bytes_of_floats)
def overlapping_types(x_ptr, byte_ptr, BLOCK: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(x_ptr + 1, 5.0)
    else:
        tl.store(byte_ptr + 6, 77)  # here


@planted("K514", 1, lambda: (counted(4), zeros(2)), "several elements of the tile go to out_ptr[0]")
def halved_places(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i // 2, tl.load(x_ptr + i))  # here


@planted("K514", 1, lambda: (ints(2, 0, 1, 2), zeros(3)), "tl.atomic_add")
def placed_by_a_table(i_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.load(i_ptr + i), i)  # here


@planted("K514", 1, lambda: (zeros(4),), "(and 1 more)")
def rows_that_share_elements(out_ptr, BLOCK: tl.constexpr):
    i, j = tl.arange(0, 2), tl.arange(0, 3)
    tl.store(out_ptr + i[:, None] + j[None, :], i[:, None] + 0 * j[None, :])  # here


@planted("K514", 1, lambda: (zeros(4),))
def shifted_by_bytes(out_ptr, BLOCK: tl.constexpr):
    wide = (out_ptr.to(tl.int64) + 2 * tl.arange(0, BLOCK)).to(tl.pointer_type(tl.int32))
    tl.store(wide, 0)  # here


@planted("K514", 3, lambda: (zeros(1),), "make the plain access an atomic too")
def stored_beside_atomics(count_ptr, BLOCK: tl.constexpr):
    if tl.program_id(0) == 2:
        tl.store(count_ptr, 100)  # here
    else:
        tl.atomic_add(count_ptr, 1)


@planted("K514", 3, lambda: (zeros(1), zeros(3)))
def loaded_beside_atomics(count_ptr, out_ptr, BLOCK: tl.constexpr):
    if tl.program_id(0) == 2:
        tl.store(out_ptr, tl.load(count_ptr))  # here
    else:
        tl.atomic_add(count_ptr, 1)


@planted("K514", 3, lambda: (zeros(12),), "out_ptr[3] was already stored by program (0,)")
def overlapping_blocks(out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * (BLOCK - 1) + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, i + tl.program_id(0) + 7)  # here


@planted("K514", 2, lambda: (zeros(4),))
def halves_of_a_word(x_ptr, BLOCK: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(x_ptr + 1, 0x11111111)
    else:
        tl.store(x_ptr.to(tl.pointer_type(tl.int16)) + 3, 5)  # here


@planted("K514", 2, lambda: (zeros(4),))
def wide_atomic_over_a_word(x_ptr, BLOCK: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(x_ptr + 1, 7)
    else:
        tl.atomic_add(x_ptr.to(tl.pointer_type(tl.int64)), 1)  # here


@planted("K514", 4, lambda: (counted(32, np.float32),))
def rows_that_overlap(x_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * (BLOCK - 1) + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)  # here
    tl.store(x_ptr + i, x - tl.max(x, axis=0))


@planted("K514", 2, lambda: (ints(0, 3, 5, 3), zeros(8)))
def scattered_twice(index_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * 2 + tl.arange(0, 2)
    tl.store(out_ptr + tl.load(index_ptr + i), i + 1)  # here


@planted("K514", 4, lambda: (counted(17, np.float32),))
def stencil_in_place(x_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    after = tl.load(x_ptr + i + 1)
    x = tl.load(x_ptr + i)
    tl.store(x_ptr + i, x + after)  # here


@planted("K514", 4, lambda: (zeros(4),))
def counted_plainly(bins_ptr, BLOCK: tl.constexpr):
    bins = tl.load(bins_ptr + tl.arange(0, BLOCK))  # here
    tl.store(bins_ptr + tl.arange(0, BLOCK), bins + 1)


@planted("K514", 4, lambda: (counted(16), zeros(16)))
def sums_of_others(x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    before = tl.load(out_ptr + pid * BLOCK - 1, mask=pid > 0, other=0)  # here
    tl.store(out_ptr + i, before + tl.cumsum(tl.load(x_ptr + i), axis=0))


@planted("K514", 3, lambda: (counted(6, np.float32), zeros(1, np.float32)))
def split_sum_plainly(x_ptr, out_ptr, BLOCK: tl.constexpr):
    part = tl.load(x_ptr + tl.program_id(0))
    total = tl.load(out_ptr)  # here
    tl.store(out_ptr, total + part)


@planted("K514", 3, lambda: (counted(6, np.float32), zeros(1, np.float32)))
def split_sum_begun_plainly(x_ptr, out_ptr, BLOCK: tl.constexpr):
    part = tl.load(x_ptr + tl.program_id(0))
    if tl.program_id(0) == 0:
        tl.store(out_ptr, part)
    else:
        tl.atomic_add(out_ptr, part)  # here


@planted("K514", 2, lambda: (zeros(1),), 'use scope="gpu"')
def atomics_of_one_block(count_ptr, BLOCK: tl.constexpr):
    tl.atomic_add(count_ptr, 1, scope="cta")  # here


# -- flags that order nobody ----------------------------------------------------------------------
@planted("K514", 2, lambda: (zeros(4), zeros(1), zeros(4)), "releases nothing")
def released_relaxed(data_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(data_ptr + i, i + 1)
        tl.atomic_xchg(flag_ptr, 1, sem="relaxed")
    else:
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
            pass
        tl.store(out_ptr + i, tl.load(data_ptr + i))  # here


@planted("K514", 2, lambda: (zeros(4), zeros(1), zeros(4)), "does not acquire")
def acquired_relaxed(data_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(data_ptr + i, i + 1)
        tl.atomic_xchg(flag_ptr, 1, sem="release")
    else:
        while tl.atomic_add(flag_ptr, 0, sem="relaxed") == 0:
            pass
        tl.store(out_ptr + i, tl.load(data_ptr + i))  # here


@planted("K514", 2, lambda: (zeros(4), zeros(1), zeros(4)))
def released_in_the_block(data_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(data_ptr + i, i + 1)
        tl.atomic_xchg(flag_ptr, 1, sem="release", scope="cta")
    else:
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:  # here
            pass
        tl.store(out_ptr + i, tl.load(data_ptr + i))


@planted("K514", 2, lambda: (zeros(4), zeros(1), zeros(4)), 'scope "cta"')
def acquired_in_the_block(data_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(data_ptr + i, i + 1)
        tl.atomic_xchg(flag_ptr, 1, sem="release")
    else:
        while tl.atomic_add(flag_ptr, 0, sem="acquire", scope="cta") == 0:  # here
            pass
        tl.store(out_ptr + i, tl.load(data_ptr + i))


@planted("K514", 2, lambda: (zeros(4), zeros(1), zeros(4)))
def released_too_early(data_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.atomic_xchg(flag_ptr, 1, sem="release")
        tl.store(data_ptr + i, i + 1)
    else:
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
            pass
        tl.store(out_ptr + i, tl.load(data_ptr + i))  # here


@planted("K514", 2, lambda: (counted(4), zeros(1), zeros(4)))
def acquired_too_late(data_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(out_ptr + i, tl.load(data_ptr + i))
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
            pass
    else:
        tl.store(data_ptr + i, i + 7)  # here
        tl.atomic_xchg(flag_ptr, 1, sem="release")


@planted("K514", 2, lambda: (zeros(4), zeros(1), zeros(4)), "does not acquire: it orders nobody")
def polled_plainly(data_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if tl.program_id(0) == 1:
        tl.store(data_ptr + i, i + 1)
        tl.atomic_xchg(flag_ptr, 1, sem="release")
    else:
        while tl.load(flag_ptr) == 0:
            pass
        tl.store(out_ptr + i, tl.load(data_ptr + i))  # here


@planted("K514", 2, lambda: (zeros(4), zeros(1), zeros(4)))
def flagged_plainly(data_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(data_ptr + i, i + 1)
        tl.store(flag_ptr, 1)
    else:
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:  # here
            pass
        tl.store(out_ptr + i, tl.load(data_ptr + i))


@planted("K514", 3, lambda: (zeros(1), zeros(1)))
def unlocked_too_early(data_ptr, lock_ptr, BLOCK: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1, sem="acquire") == 1:
        pass
    value = tl.load(data_ptr)  # here
    tl.atomic_xchg(lock_ptr, 0, sem="release")
    tl.store(data_ptr, value + 1)


@planted("K514", 3, lambda: (zeros(1), zeros(1)))
def locked_relaxed(data_ptr, lock_ptr, BLOCK: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1, sem="relaxed") == 1:
        pass
    value = tl.load(data_ptr)  # here
    tl.store(data_ptr, value + 1)
    tl.atomic_xchg(lock_ptr, 0, sem="release")


@planted("K514", 3, lambda: (zeros(1), zeros(1)))
def unlocked_relaxed(data_ptr, lock_ptr, BLOCK: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1, sem="acquire") == 1:
        pass
    value = tl.load(data_ptr)  # here
    tl.store(data_ptr, value + 1)
    tl.atomic_xchg(lock_ptr, 0, sem="relaxed")


@planted("K514", 2, lambda: (zeros(1), zeros(2)))
def two_locks(data_ptr, lock_ptr, BLOCK: tl.constexpr):
    lock = lock_ptr + tl.program_id(0)
    while tl.atomic_cas(lock, 0, 1, sem="acquire") == 1:
        pass
    value = tl.load(data_ptr)  # here
    tl.store(data_ptr, value + 1)
    tl.atomic_xchg(lock, 0, sem="release")


@planted("K514", 4, lambda: (zeros(4), zeros(1), zeros(1)))
def last_one_relaxed(part_ptr, count_ptr, out_ptr, BLOCK: tl.constexpr):
    tl.store(part_ptr + tl.program_id(0), tl.program_id(0) + 1)
    if tl.atomic_add(count_ptr, 1, sem="relaxed") == BLOCK - 1:
        parts = tl.load(part_ptr + tl.arange(0, BLOCK))  # here
        tl.store(out_ptr, tl.sum(parts, axis=0))


@planted("K514", 4, lambda: (zeros(4), zeros(1), zeros(1)))
def last_one_only_releases(part_ptr, count_ptr, out_ptr, BLOCK: tl.constexpr):
    tl.store(part_ptr + tl.program_id(0), tl.program_id(0) + 1)
    if tl.atomic_add(count_ptr, 1, sem="release") == BLOCK - 1:
        parts = tl.load(part_ptr + tl.arange(0, BLOCK))  # here
        tl.store(out_ptr, tl.sum(parts, axis=0))


@planted("K514", 4, lambda: (zeros(4), zeros(1), zeros(1)))
def first_one_reduces(part_ptr, count_ptr, out_ptr, BLOCK: tl.constexpr):
    if tl.atomic_add(count_ptr, 1) == 0:
        tl.store(out_ptr, tl.sum(tl.load(part_ptr + tl.arange(0, BLOCK)), axis=0))
    tl.store(part_ptr + tl.program_id(0), tl.program_id(0) + 1)  # here


@planted("K514", 3, lambda: (zeros(12), zeros(4), zeros(4)))
def fixed_up_without_waiting(part_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    if pid < 2:
        tl.store(part_ptr + pid * BLOCK + i, i + 1)
        tl.atomic_xchg(flag_ptr + pid, 1, sem="release")
    else:
        total = tl.zeros((BLOCK,), tl.int32)
        for other in range(2):
            total += tl.load(part_ptr + other * BLOCK + i)  # here
        tl.store(out_ptr + i, total)


@planted("K514", 3, lambda: (zeros(12), zeros(4), zeros(4)))
def waited_for_another(part_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    if pid < 2:
        tl.store(part_ptr + pid * BLOCK + i, i + 1)
        tl.atomic_xchg(flag_ptr + pid, 1, sem="release")
    else:
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
            pass
        tl.store(out_ptr + i, tl.load(part_ptr + BLOCK + i))  # here


@planted("K514", 4, lambda: (zeros(4), zeros(4), zeros(1)))
def all_meet_relaxed(a_ptr, b_ptr, count_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(a_ptr + pid, pid + 1)
    tl.atomic_add(count_ptr, 1, sem="relaxed")
    while tl.atomic_add(count_ptr, 0, sem="relaxed") < BLOCK:
        pass
    tl.store(b_ptr + pid, tl.load(a_ptr + (pid + 1) % BLOCK))  # here


@planted("K514", 3, lambda: (zeros(2), zeros(2), zeros(2)))
def handed_on_without_release(data_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(data_ptr, 5)
        tl.atomic_xchg(flag_ptr, 1, sem="release")
    elif pid == 1:
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
            pass
        tl.atomic_xchg(flag_ptr + 1, 1, sem="relaxed")
    else:
        while tl.atomic_add(flag_ptr + 1, 0, sem="acquire") == 0:
            pass
        tl.store(out_ptr, tl.load(data_ptr))  # here


# -- combined in whatever order -------------------------------------------------------------------
@wb.jit
def minus(a, b):
    return a - b


@wb.jit
def averaged(a, b):
    return (a + b) / 2


@planted("K517", 1, lambda: (counted(4), zeros(1)), "f(f(1, 2), 3) is -4, but f(1, f(2, 3)) is 2")
def reduced_by_differences(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(out_ptr, tl.reduce(x, 0, minus))  # here


@planted("K517", 1, lambda: (counted(4, np.float32), zeros(4, np.float32)), "not associative")
def running_averages(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.associative_scan(tl.load(x_ptr + i), 0, averaged)  # here
    tl.store(out_ptr + i, x)


@wb.jit
def moments_without_weights(mean, squares, count, other, more, others):
    total, apart = count + others, other - mean
    return mean + apart * others / total, squares + more + apart * apart, total


@planted("K517", 1, lambda: (np.float32([1, 2, 4, 8]), zeros(1, np.float32)), "(input 1)")
def moments_that_are_wrong(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    _, squares, _ = tl.reduce((x, x * 0.0, x * 0.0 + 1.0), 0, moments_without_weights)  # here
    tl.store(out_ptr, squares)


def _table() -> tuple[Any, ...]:
    x = counted(4)
    return x, np.array([x.ctypes.data + 4]), zeros(1)


@planted("K514", 2, _table, "already stored by program (0,)")
def stored_through_a_table(x_ptr, table_ptr, out_ptr, BLOCK: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(tl.load(table_ptr).to(tl.pointer_type(tl.int32)), 9)
    else:
        tl.store(out_ptr, tl.load(x_ptr + 1))  # here


# -- outside of the argument ----------------------------------------------------------------------
@planted("K502", 1, lambda: (counted(5), zeros(4, np.int64)), "0 to 4 bytes past the end of x_ptr")
def wider_than_the_array(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    wide = x_ptr.to(tl.pointer_type(tl.int64))
    tl.store(out_ptr + i, tl.load(wide + i, mask=i < 3))  # here


@planted("K502", 1, lambda: (counted(6),), "past the end of x_ptr")
def stored_wider(x_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr.to(tl.pointer_type(tl.int64)) + i, i.to(tl.int64))  # here


@planted("K502", 1, lambda: (counted(3),), "each access has 8 bytes")
def updated_wider(x_ptr, BLOCK: tl.constexpr):
    tl.atomic_add(x_ptr.to(tl.pointer_type(tl.int64)) + 1, 1)  # here


@planted("K502", 1, lambda: (counted(4), zeros(4)), "past the end of x_ptr")
def by_way_of_an_integer(x_ptr, out_ptr, BLOCK: tl.constexpr):
    address = x_ptr.to(tl.int64) + 4
    moved = address.to(tl.pointer_type(tl.int32))
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(moved + i))  # here


def _neighbours() -> tuple[Any, ...]:
    """Three arrays side by side, each with memory of its own as far as anyone knows."""
    memory = memoryview(counted(12)).cast("B")
    return tuple(np.frombuffer(memory[n : n + 16], np.int32) for n in (0, 16, 32))


@planted("K502", 1, _neighbours, "outside x_ptr")
def into_the_next_argument(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i + 1) + tl.load(y_ptr + i))  # here


@planted("K502", 2, lambda: (counted(4), counted(3), zeros(8)), "past the end of y_ptr")
def chosen_pointer(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    first = tl.program_id(0) == 0
    pointer = tl.where(first, x_ptr + i, y_ptr + i)
    tl.store(out_ptr + tl.program_id(0) * BLOCK + i, tl.load(pointer))  # here


# -- waits that nobody ends -----------------------------------------------------------------------
@planted("K515", 2, lambda: (zeros(2),), "2 programs wait")
def for_each_other(flag_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    while tl.atomic_add(flag_ptr + 1 - pid, 0, sem="acquire") == 0:  # here
        pass
    tl.atomic_xchg(flag_ptr + pid, 1, sem="release")


@planted("K515", 3, lambda: (zeros(1),), "flag_ptr[0], which is 0")
def for_nobody(flag_ptr, BLOCK: tl.constexpr):
    if tl.program_id(0) == 1:
        while tl.load(flag_ptr) == 0:  # here
            pass


@planted("K515", 1, lambda: (zeros(1),), "program (0,) waits for lock_ptr[0], which is 1")
def locked_twice(lock_ptr, BLOCK: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:  # here
        pass
    tl.atomic_xchg(lock_ptr, 0)


@planted("K515", 3, lambda: (zeros(1), zeros(1)), "programs (1,), (2,) wait for lock_ptr[0]")
def never_unlocked(lock_ptr, data_ptr, BLOCK: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:  # here
        pass
    tl.store(data_ptr, tl.load(data_ptr) + 1)
    if tl.load(data_ptr) > 100:
        tl.atomic_xchg(lock_ptr, 0)


@planted("K515", 4, lambda: (zeros(1),), "count_ptr[0], which is 4")
def for_one_too_many(count_ptr, BLOCK: tl.constexpr):
    tl.atomic_add(count_ptr, 1)
    while tl.atomic_add(count_ptr, 0) < BLOCK + 1:  # here
        pass


@planted("K515", 2, lambda: (zeros(2),), "program (0,) waits for lock_ptr[1], which is 1 since")
def locks_in_two_orders(lock_ptr, BLOCK: tl.constexpr):
    mine = tl.program_id(0)
    while tl.atomic_cas(lock_ptr + mine, 0, 1) == 1:
        pass
    while tl.atomic_add(lock_ptr + 1 - mine, 0) == 0:
        pass
    while tl.atomic_cas(lock_ptr + 1 - mine, 0, 1) == 1:  # here
        pass


@planted("K515", 2, lambda: (zeros(1), zeros(1)))
def with_a_count_of_rounds(flag_ptr, out_ptr, BLOCK: tl.constexpr):
    rounds = 0
    while tl.atomic_add(flag_ptr, 0) == 0:  # here
        rounds += 1
    tl.store(out_ptr, rounds)


@planted("K515", 2, lambda: (zeros(1),))
def permits_never_given_back(permits_ptr, BLOCK: tl.constexpr):
    while tl.atomic_add(permits_ptr, -1) <= 0:  # here
        tl.atomic_add(permits_ptr, 1)


@planted("K515", 1, lambda: (ints(3), zeros(1)), "a loop never ends")
def round_and_round(n_ptr, out_ptr, BLOCK: tl.constexpr):
    n = tl.load(n_ptr)
    total = 0
    while n > 0:  # here
        total += n
    tl.store(out_ptr, total)
