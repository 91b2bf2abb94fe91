"""Right kernels that touch each other's memory, with what their results must be: no alarms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import workbench as wb
from tests.interpreter.planted import counted, ints, zeros
from workbench import tl

BLOCK = 4


@dataclass(frozen=True)
class Right:
    """A launch, and what its last argument holds afterwards."""

    kernel: Any
    programs: int
    arguments: Callable[[], tuple[Any, ...]]
    result: list[Any]


RIGHT: dict[str, Right] = {}


def right(
    programs: int, arguments: Callable[[], tuple[Any, ...]], result: list[Any]
) -> Callable[[Any], Any]:
    """Enter a kernel."""

    def enter(function: Any) -> Any:
        kernel = wb.jit(function)
        RIGHT[function.__name__] = Right(kernel, programs, arguments, result)
        return kernel

    return enter


# -- one program, one element ---------------------------------------------------------------------
@right(1, lambda: (zeros(2),), [7, 7])
def the_same_stored_twice(out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, BLOCK) // 2, 7)


@right(1, lambda: (ints(0x7FC00000, -1, 0x7F800001, 0x7FC00000), zeros(1)), [0])
def unknown_numbers_stored_twice(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    there = (x_ptr + i // 2).to(tl.pointer_type(tl.float32))
    tl.store(there, tl.load((x_ptr + i).to(tl.pointer_type(tl.float32))))


@right(1, lambda: (zeros(2),), [1, 5])
def added_twice(out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + i // 2, i)


@right(1, lambda: (zeros(2),), [0, 2])
def masked_so_that_one_is_left(out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i // 2, i, mask=i % 2 == 0)


@right(1, lambda: (zeros(4),), [3, 2, 1, 0])
def stored_backwards(out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + BLOCK - 1 - i, i)


# -- combined in whatever order -------------------------------------------------------------------
@wb.jit
def linear(a, x, b, y):
    return a * b, b * x + y


@wb.jit
def larger(value, place, other, there):
    take = (value > other) | ((value == other) & (place < there))
    return tl.where(take, value, other), tl.where(take, place, there)


@wb.jit
def moments(mean, squares, count, other, more, others):
    total, apart = count + others, other - mean
    share = tl.where(total == 0, 0.0, others / total)
    return mean + apart * share, squares + more + apart * apart * count * share, total


@wb.jit
def last(a, b):
    return b


@right(1, lambda: (counted(4, np.float32), zeros(4, np.float32)), [1, 4, 15, 64])
def recurrence(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    _, y = tl.associative_scan((x, x), 0, linear)
    tl.store(out_ptr + i, y)


@right(1, lambda: (ints(3, 7, 7, 1), zeros(2)), [7, 1])
def place_of_the_largest(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    most, place = tl.reduce((tl.load(x_ptr + i), i), 0, larger)
    tl.store(out_ptr, most)
    tl.store(out_ptr + 1, place)


@right(1, lambda: (np.float32([1e4, 1e4 + 1, 1e4 - 1, 1e4]), zeros(2, np.float32)), [1e4, 2])
def mean_and_squares(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    mean, squares, _ = tl.reduce((x, x * 0.0, x * 0.0 + 1.0), 0, moments)
    tl.store(out_ptr, mean)
    tl.store(out_ptr + 1, squares)


@right(1, lambda: (ints(3, 7, 5, 1), zeros(4)), [3, 7, 5, 1])
def the_last_of_each(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.associative_scan(tl.load(x_ptr + i), 0, last))


@wb.jit
def running_softmax(most, total, other, more):
    top = tl.maximum(most, other)
    return top, total * tl.exp(most - top) + more * tl.exp(other - top)


@right(1, lambda: (np.float32([-np.inf, -np.inf, -np.inf, 0]), zeros(1, np.float32)), [0])
def softmax_of_masked_elements(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    most, _ = tl.reduce((x, x * 0.0 + 1.0), 0, running_softmax)
    tl.store(out_ptr, most)


def _far_from_zero() -> tuple[Any, ...]:
    x = 1e5 + np.random.default_rng(0).normal(size=64)
    return x.astype(np.float32), zeros(1)


@right(1, _far_from_zero, [100])
def moments_far_from_zero(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 16 * BLOCK))
    mean, _, _ = tl.reduce((x, x * 0.0, x * 0.0 + 1.0), 0, moments)
    tl.store(out_ptr, ((mean + 500) / 1000).to(tl.int32))


@right(1, lambda: (np.float32([2, np.nan, 2, 1]), zeros(2)), [1, 1])
def places_beside_unknown_numbers(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(out_ptr, (tl.argmin(x, 0) < BLOCK).to(tl.int32))
    tl.store(out_ptr + 1, (tl.argmax(x, 0) < BLOCK).to(tl.int32))


# -- locks ----------------------------------------------------------------------------------------
@right(4, lambda: (zeros(1), zeros(1)), [4])
def locked(lock_ptr, data_ptr, BLOCK: tl.constexpr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(data_ptr, tl.load(data_ptr) + 1)
    tl.atomic_xchg(lock_ptr, 0)


@right(4, lambda: (zeros(1), zeros(4)), [4, 8, 12, 16])
def locked_in_halves(lock_ptr, data_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    while tl.atomic_cas(lock_ptr, 0, 1, sem="acquire") == 1:
        pass
    tl.store(data_ptr + i, tl.load(data_ptr + i) + i + 1)
    tl.atomic_xchg(lock_ptr, 0, sem="release")


@right(4, lambda: (zeros(1), zeros(1)), [4])
def exchanged(lock_ptr, data_ptr, BLOCK: tl.constexpr):
    while tl.atomic_xchg(lock_ptr, 1, sem="acquire") == 1:
        pass
    tl.store(data_ptr, tl.load(data_ptr) + 1)
    tl.atomic_xchg(lock_ptr, 0, sem="release")


@right(4, lambda: (zeros(2), zeros(1)), [4])
def by_ticket(ticket_ptr, data_ptr, BLOCK: tl.constexpr):
    mine = tl.atomic_add(ticket_ptr, 1, sem="relaxed")
    while tl.atomic_add(ticket_ptr + 1, 0, sem="acquire") != mine:
        pass
    tl.store(data_ptr, tl.load(data_ptr) + 1)
    tl.atomic_add(ticket_ptr + 1, 1, sem="release")


@right(5, lambda: (ints(2), zeros(1)), [5])
def with_permits(permits_ptr, count_ptr, BLOCK: tl.constexpr):
    while tl.atomic_add(permits_ptr, -1) <= 0:
        tl.atomic_add(permits_ptr, 1)
    tl.atomic_add(count_ptr, 1)
    tl.atomic_add(permits_ptr, 1)


@right(4, lambda: (zeros(2), zeros(2)), [2, 2])
def a_lock_each(lock_ptr, data_ptr, BLOCK: tl.constexpr):
    which = tl.program_id(0) % 2
    while tl.atomic_cas(lock_ptr + which, 0, 1, sem="acquire") == 1:
        pass
    tl.store(data_ptr + which, tl.load(data_ptr + which) + 1)
    tl.atomic_xchg(lock_ptr + which, 0, sem="release")


@right(3, lambda: (zeros(1), zeros(1)), [6])
def locked_again_and_again(lock_ptr, data_ptr, BLOCK: tl.constexpr):
    for _ in range(2):
        while tl.atomic_cas(lock_ptr, 0, 1, sem="acquire") == 1:
            pass
        tl.store(data_ptr, tl.load(data_ptr) + 1)
        tl.atomic_xchg(lock_ptr, 0, sem="release")


# -- the last one adds up -------------------------------------------------------------------------
@right(4, lambda: (zeros(4), zeros(1), zeros(1)), [10])
def last_one(part_ptr, count_ptr, out_ptr, BLOCK: tl.constexpr):
    tl.store(part_ptr + tl.program_id(0), tl.program_id(0) + 1)
    if tl.atomic_add(count_ptr, 1) == BLOCK - 1:
        tl.store(out_ptr, tl.sum(tl.load(part_ptr + tl.arange(0, BLOCK)), axis=0))


@right(4, lambda: (zeros(4), zeros(1), zeros(1)), [10])
def last_one_clears(part_ptr, count_ptr, out_ptr, BLOCK: tl.constexpr):
    tl.store(part_ptr + tl.program_id(0), tl.program_id(0) + 1)
    if tl.atomic_add(count_ptr, 1, sem="acq_rel") == BLOCK - 1:
        tl.store(out_ptr, tl.sum(tl.load(part_ptr + tl.arange(0, BLOCK)), axis=0))
        tl.store(count_ptr, 0)


@right(4, lambda: (zeros(4), zeros(3), zeros(1)), [10])
def last_of_the_last(part_ptr, count_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(part_ptr + pid, pid + 1)
    if tl.atomic_add(count_ptr + pid // 2, 1) == 1:  # noqa: SIM102 - `and` would do both
        if tl.atomic_add(count_ptr + 2, 1) == 1:
            tl.store(out_ptr, tl.sum(tl.load(part_ptr + tl.arange(0, BLOCK)), axis=0))


@right(4, lambda: (zeros(1, np.float32), zeros(1), zeros(1, np.float32)), [20.0])
def last_one_doubles(sum_ptr, count_ptr, out_ptr, BLOCK: tl.constexpr):
    tl.atomic_add(sum_ptr, tl.program_id(0) + 1.0, sem="relaxed")
    if tl.atomic_add(count_ptr, 1) == BLOCK - 1:
        tl.store(out_ptr, 2 * tl.load(sum_ptr))


# -- flags ----------------------------------------------------------------------------------------
@right(2, lambda: (zeros(4), zeros(1), zeros(4)), [1, 2, 3, 4])
def handed_over(data_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(data_ptr + i, i + 1)
        tl.atomic_xchg(flag_ptr, 1, sem="release")
    else:
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
            pass
        tl.store(out_ptr + i, tl.load(data_ptr + i))


@right(2, lambda: (zeros(4), zeros(1), zeros(4)), [1, 2, 3, 4])
def from_a_later_one(data_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if tl.program_id(0) == 1:
        tl.store(data_ptr + i, i + 1)
        tl.atomic_xchg(flag_ptr, 1, sem="release")
    else:
        while tl.atomic_cas(flag_ptr, 1, 1, sem="acquire") != 1:
            pass
        tl.store(out_ptr + i, tl.load(data_ptr + i))


@right(4, lambda: (zeros(5), ints(0, 0, 0, 0, 5)), [9, 8, 7, 6, 5])
def down_the_chain(flag_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid < BLOCK - 1:
        while tl.atomic_add(flag_ptr + pid + 1, 0, sem="acquire") == 0:
            pass
    tl.store(out_ptr + pid, tl.load(out_ptr + pid + 1) + 1)
    tl.atomic_xchg(flag_ptr + pid, 1, sem="release")


@right(4, lambda: (counted(16), zeros(5), zeros(17)),
       [0, 1, 3, 6, 10, 15, 21, 28, 36, 45, 55, 66, 78, 91, 105, 120, 136])  # fmt: skip
def looked_back(x_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    sums = tl.cumsum(tl.load(x_ptr + i), axis=0)
    if pid > 0:
        while tl.atomic_add(flag_ptr + pid, 0, sem="acquire") == 0:
            pass
    tl.store(out_ptr + 1 + i, sums + tl.load(out_ptr + pid * BLOCK))
    tl.atomic_xchg(flag_ptr + pid + 1, 1, sem="release")


@right(3, lambda: (zeros(8), zeros(2), zeros(4)), [2, 4, 6, 8])
def fixed_up(part_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    if pid > 0:
        tl.store(part_ptr + (pid - 1) * BLOCK + i, i + 1)
        tl.atomic_xchg(flag_ptr + pid - 1, 1, sem="release")
    else:
        total = tl.zeros((BLOCK,), tl.int32)
        for other in range(2):
            while tl.atomic_cas(flag_ptr + other, 1, 1, sem="acquire") != 1:
                pass
            total += tl.load(part_ptr + other * BLOCK + i)
        tl.store(out_ptr + i, total)


@right(4, lambda: (zeros(4), zeros(4), zeros(1)), [6])
def waits_for_a_tile(part_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid > 0:
        tl.store(part_ptr + pid, pid)
        tl.atomic_xchg(flag_ptr + pid, 1, sem="release")
    else:
        i = tl.arange(0, BLOCK)
        while tl.sum(tl.atomic_add(flag_ptr + i, 0, mask=i > 0, sem="acquire"), axis=0) < BLOCK - 1:
            pass
        tl.store(out_ptr, tl.sum(tl.load(part_ptr + i), axis=0))


@right(4, lambda: (zeros(4), zeros(1), zeros(1)), [10])
def waits_for_a_count(part_ptr, count_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(part_ptr + pid, pid + 1)
    tl.atomic_add(count_ptr, 1, sem="release")
    if pid == 0:
        while tl.atomic_add(count_ptr, 0, sem="acquire") < BLOCK:
            pass
        tl.store(out_ptr, tl.sum(tl.load(part_ptr + tl.arange(0, BLOCK)), axis=0))


@right(3, lambda: (zeros(2), zeros(2), zeros(1)), [5])
def handed_on(data_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 2:
        tl.store(data_ptr, 5)
        tl.atomic_xchg(flag_ptr, 1, sem="release")
    elif pid == 1:
        while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
            pass
        tl.atomic_xchg(flag_ptr + 1, 1, sem="release")
    else:
        while tl.atomic_add(flag_ptr + 1, 0, sem="acquire") == 0:
            pass
        tl.store(out_ptr, tl.load(data_ptr))


@right(3, lambda: (zeros(1), zeros(1), zeros(1)), [7])
def through_relaxed_updates(data_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    if pid == 0:
        tl.store(data_ptr, 7)
        tl.atomic_add(flag_ptr, 1, sem="release")
    elif pid == 1:
        tl.atomic_add(flag_ptr, 2, sem="relaxed")
    else:
        while tl.atomic_add(flag_ptr, 0, sem="acquire") != 3:
            pass
        tl.store(out_ptr, tl.load(data_ptr))


@right(2, lambda: (zeros(1), zeros(1), zeros(1)), [3])
def over_the_system(data_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    if tl.program_id(0) == 1:
        tl.store(data_ptr, 3)
        tl.atomic_xchg(flag_ptr, 1, sem="release", scope="sys")
    else:
        while tl.atomic_add(flag_ptr, 0, sem="acquire", scope="gpu") == 0:
            pass
        tl.store(out_ptr, tl.load(data_ptr))


@right(2, lambda: (zeros(1), zeros(1)), [6])
def to_and_fro(turn_ptr, data_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    for _ in range(3):
        while tl.atomic_add(turn_ptr, 0, sem="acquire") != pid:
            pass
        tl.store(data_ptr, tl.load(data_ptr) + 1)
        tl.atomic_xchg(turn_ptr, 1 - pid, sem="release")


@right(2, lambda: (zeros(1), zeros(1), zeros(1)), [9])
def gives_up_after_a_while(data_ptr, flag_ptr, out_ptr, BLOCK: tl.constexpr):
    if tl.program_id(0) == 1:
        tl.store(data_ptr, 9)
        tl.atomic_xchg(flag_ptr, 1, sem="release")
    else:
        rounds = 0
        ready = 0
        while (ready == 0) & (rounds < 5000):
            ready = tl.atomic_add(flag_ptr, 0, sem="acquire")
            rounds += 1
        if ready == 1:
            tl.store(out_ptr, tl.load(data_ptr))


# -- all meet -------------------------------------------------------------------------------------
@right(4, lambda: (zeros(4), zeros(1), zeros(4)), [2, 3, 4, 1])
def all_meet(a_ptr, count_ptr, b_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(a_ptr + pid, pid + 1)
    tl.atomic_add(count_ptr, 1)
    while tl.atomic_add(count_ptr, 0, sem="acquire") < BLOCK:
        pass
    tl.store(b_ptr + pid, tl.load(a_ptr + (pid + 1) % BLOCK))


@right(4, lambda: (zeros(1), ints(1, 2, 3, 4)), [4, 1, 2, 3])
def all_meet_every_round(count_ptr, x_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    for phase in range(3):
        x = tl.load(x_ptr + (pid + 1) % BLOCK)
        tl.atomic_add(count_ptr, 1)
        while tl.atomic_add(count_ptr, 0) < (2 * phase + 1) * BLOCK:
            pass
        tl.store(x_ptr + pid, x)
        tl.atomic_add(count_ptr, 1)
        while tl.atomic_add(count_ptr, 0) < (2 * phase + 2) * BLOCK:
            pass


# -- atomics --------------------------------------------------------------------------------------
@right(4, lambda: (counted(16, np.float32), zeros(4, np.float32)), [28.0, 32.0, 36.0, 40.0])
def split_relaxed(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    part = tl.load(x_ptr + tl.program_id(0) * BLOCK + i)
    tl.atomic_add(out_ptr + i, part, sem="relaxed")


@right(4, lambda: (counted(16, np.float32), zeros(4, np.float32)), [28.0, 32.0, 36.0, 40.0])
def split_by_default(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + i, tl.load(x_ptr + tl.program_id(0) * BLOCK + i))


@right(4, lambda: (counted(16), zeros(1)), [16])
def greatest(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_max(out_ptr, tl.max(x, axis=0))


@right(4, lambda: (counted(16), zeros(4)), [4, 4, 4, 4])
def votes(x_ptr, bins_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(bins_ptr + x % 4, 1, sem="relaxed")


@right(4, lambda: (zeros(1),), [10])
def by_comparison(out_ptr, BLOCK: tl.constexpr):
    mine = tl.program_id(0) + 1
    old = 0
    found = tl.atomic_cas(out_ptr, old, old + mine)
    while found != old:
        old = found
        found = tl.atomic_cas(out_ptr, old, old + mine)


@right(3, lambda: (zeros(1), zeros(7)), [1, 1, 1, 1, 1, 1, 1])
def from_a_queue(next_ptr, out_ptr, BLOCK: tl.constexpr):
    item = tl.atomic_add(next_ptr, 1, sem="relaxed")
    while item < 7:
        tl.store(out_ptr + item, tl.load(out_ptr + item) + 1)
        item = tl.atomic_add(next_ptr, 1, sem="relaxed")


@right(4, lambda: (zeros(4),), [11, 12, 13, 14])
def plain_then_atomic(out_ptr, BLOCK: tl.constexpr):
    own = out_ptr + tl.program_id(0)
    tl.store(own, tl.program_id(0) + 1)
    tl.atomic_add(own, 10)


@right(4, lambda: (zeros(4),), [1, 2, 3, 4])
def atomics_of_its_own(out_ptr, BLOCK: tl.constexpr):
    tl.atomic_add(out_ptr + tl.program_id(0), tl.program_id(0) + 1, scope="cta")


# -- apart ----------------------------------------------------------------------------------------
@right(3, lambda: (counted(12),), [2 * n for n in range(1, 13)])
def doubled_in_place(x_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i))


@right(3, lambda: (counted(11),), [2 * n for n in range(1, 12)])
def doubled_in_place_masked(x_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i, mask=i < 11), mask=i < 11)


@right(2, lambda: (counted(16),), list(range(16, 0, -1)))
def mirrored_by_pairs(x_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    low, high = tl.load(x_ptr + i), tl.load(x_ptr + 4 * BLOCK - 1 - i)
    tl.store(x_ptr + i, high)
    tl.store(x_ptr + 4 * BLOCK - 1 - i, low)


@right(2, lambda: (counted(10), zeros(8)), [3, 5, 7, 9, 11, 13, 15, 17])
def with_a_halo(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i) + tl.load(x_ptr + i + 1))


def _halves() -> tuple[Any, ...]:
    memory = counted(16)
    return memory[:8], memory[8:]


@right(2, _halves, [2 * n for n in range(1, 9)])
def views_of_one_storage(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i))


def _interleaved() -> tuple[Any, ...]:
    memory = counted(16)
    return memory[::2], memory[1::2]


@right(2, _interleaved, [10 * n for n in range(1, 17, 2)])
def interleaved_views(even_ptr, odd_ptr, BLOCK: tl.constexpr):
    i = 2 * (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.store(odd_ptr + i, 10 * tl.load(even_ptr + i))


@right(2, lambda: (counted(8), zeros(8)), [1, 5, 2, 6, 3, 7, 4, 8])
def transposed_elsewhere(x_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + 2 * i + tl.program_id(0), tl.load(x_ptr + tl.program_id(0) * BLOCK + i))


@right(2, lambda: (counted(8, np.int32),), [1, 0, 3, 0, 5, 0, 7, 0])
def halves_cleared(x_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * 2 + tl.arange(0, 2)
    wide = x_ptr.to(tl.pointer_type(tl.int64)) + i
    tl.store(wide, tl.load(wide) & 0xFFFFFFFF)


@right(4, lambda: (zeros(8, np.int8),), [1, 1, 2, 2, 3, 3, 4, 4])
def neighbouring_bytes(x_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(x_ptr + 2 * pid + tl.arange(0, 2), (pid + 1).to(tl.int8))


@right(2, lambda: (counted(16, np.float32), zeros(16, np.float32)), [2.0 * n for n in range(1, 17)])
def by_blocks(x_ptr, out_ptr, BLOCK: tl.constexpr):
    start = tl.program_id(0) * 2
    x = tl.make_block_ptr(x_ptr, (4, 4), (4, 1), (start, 0), (2, 4), (1, 0))
    out = tl.make_block_ptr(out_ptr, (4, 4), (4, 1), (start, 0), (2, 4), (1, 0))
    tl.store(out, 2 * tl.load(x))


@right(3, lambda: (zeros(1), zeros(4), zeros(3)), [6, 6, 6])
def begun_by_one(flag_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    if pid == 0:
        tl.store(x_ptr + i, i)
        tl.atomic_xchg(flag_ptr, 1, sem="release")
    while tl.atomic_add(flag_ptr, 0, sem="acquire") == 0:
        pass
    tl.store(out_ptr + pid, tl.sum(tl.load(x_ptr + i), axis=0))
