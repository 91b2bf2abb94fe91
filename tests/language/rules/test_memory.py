"""Index arithmetic, loads, stores and atomics: rules 18 to 20, and 29."""

import numpy as np

import workbench.language as tl
from tests.language.harness import (
    error_of,
    lowered,
    result,
    run,
    store,
)
from workbench.frontend import Options
from workbench.ir import element_of
from workbench.ops import AddPointer


# -- 18: exact index arithmetic -------------------------------------------------------------
def test_18_index_arithmetic_keeps_its_exact_value():
    def kernel(out, n):
        product = n * n
        tl.store(out, product // n)
        tl.store(out + 1, product)
        tl.store(out + 2, product > 5)

    wrapped = (65537 * 65537) & 0xFFFFFFFF
    assert result(kernel, np.int64, 3, n=65537).tolist() == [65537, wrapped, 1]


def test_18_wrap_index_wraps_as_triton_does():
    def kernel(out, n):
        tl.store(out, (n * n) % 1000)

    out = np.zeros(1, np.int64)
    run(kernel, out=out, n=65537, options=Options(wrap_index=True))
    assert out == [np.int64(65537 * 65537 & 0xFFFFFFFF) % 1000]
    module, _ = lowered(kernel, out=out, n=65537, options=Options(wrap_index=True))
    assert {str(element_of(v.type)) for op in module.walk() for v in op.results} <= {"i32", "i64"}


def test_18_wrap_loaded_wraps_what_no_address_is_made_of():
    def kernel(x, out, n):
        loaded = tl.load(x)
        tl.store(out, loaded * loaded % 1000)
        tl.store(out + 1, -loaded)
        tl.store(out + 2, n * n // n)

    x, out = np.array([-(2**31)], np.int32), np.zeros(3, np.int64)
    run(kernel, x=x, out=out, n=65537, options=Options(wrap_loaded=True))
    assert out.tolist() == [0, -(2**31), 65537]
    x[:] = 65537
    run(kernel, x=x, out=out, n=3, options=Options(wrap_loaded=True))
    assert out.tolist() == [(65537 * 65537 & 0xFFFFFFFF) % 1000, -65537, 3]


def test_18_carried_integers_wrap_unless_they_advance_evenly():
    def kernel(out, n):
        even = 0
        hashed = 1
        for i in range(n):
            even += 2147483647
            hashed = hashed * 31 + i
        tl.store(out, even // 2147483647)
        tl.store(out + 1, hashed)

    hashed = 1
    for i in range(20):
        hashed = (hashed * 31 + i) & 0xFFFFFFFF
    hashed -= (hashed >> 31) << 32
    assert result(kernel, np.int64, 2, n=20).tolist() == [20, hashed]


def test_18_pointers_move_by_elements_with_signed_and_unsigned_offsets():
    def kernel(out, x, back):
        p = x + 3
        tl.store(out, tl.load(p - 1))
        tl.store(out + 1, tl.load(p + tl.load(back)))
        tl.store(out + 2, tl.load(1 + x))

    x = np.arange(8, dtype=np.float32)
    got = result(kernel, np.float32, 3, x=x, back=np.array([-3], np.int8))
    assert got.tolist() == [2, 0, 1]


def test_18_unsigned_arithmetic_wraps():
    x = np.array([2**32 - 1, 5, 6, 7], np.uint32)
    assert result(store("a + 2"), np.int64, 4, x=x, y=x, n=4, B=4).tolist() == [1, 7, 8, 9]


def test_18_pointers_to_pointers():
    def kernel(out, table):
        address = tl.load(table)
        tl.store(out, tl.load(address.to(tl.pointer_type(tl.float32)) + 1))

    x = np.array([1, 42], np.float32)
    module, _ = lowered(kernel, out=x, table=np.array([x.ctypes.data], np.int64))
    assert sum(isinstance(op, AddPointer) for op in module.walk()) == 1


# -- 19, 20: loads and stores ---------------------------------------------------------------
def test_19_masks_broadcast_both_ways_for_loads_and_values_for_stores():
    def kernel(out, x):
        rows, cols = tl.arange(0, 2), tl.arange(0, 4)
        block = tl.load(x + cols[None, :], mask=rows[:, None] < 1, other=-1)
        tl.store(out + rows[:, None] * 4 + cols[None, :], block + 0.5, mask=cols[None, :] != 2)

    x = np.arange(4, dtype=np.float32)
    got = result(kernel, np.float32, (2, 4), x=x)
    assert got.tolist() == [[0.5, 1.5, 0, 3.5], [-0.5, -0.5, 0, -0.5]]


def test_19_masked_off_lanes_are_zero_and_never_touched():
    def kernel(out, x, n):
        i = tl.arange(0, 8)
        tl.store(out + i, tl.load(x + i * 1000000000, mask=i < n))

    assert result(kernel, np.float32, 8, x=np.full(1, 5, np.float32), n=1).tolist() == [5] + [0] * 7


def test_19_a_store_never_widens_its_pointer():
    def kernel(out):
        tl.store(out + tl.arange(0, 1), tl.arange(0, 4))

    assert "got a value of shape (4,)" in error_of(kernel, out=np.zeros(4)).message


def test_20_cache_hints_are_checked():
    def kernel(out, x):
        tl.store(
            out,
            tl.load(x, cache_modifier=".cg", eviction_policy="evict_last"),
            cache_modifier=".cs",
        )

    module, _ = lowered(kernel, out=np.zeros(1), x=np.zeros(1))
    (load,) = [op for op in module.walk() if op.name == "tile.load"]
    assert (load.cache, load.eviction) == ("cg", "evict_last")

    def wrong(out, x):
        tl.store(out, tl.load(x, cache_modifier=".zz"))

    assert error_of(wrong, out=np.zeros(1), x=np.zeros(1)).hint == "use one of '.ca', '.cg', '.cv'"


# -- 29: atomics ----------------------------------------------------------------------------
def test_29_atomics_return_the_old_value():
    def kernel(out, counter, x):
        i = tl.arange(0, 4)
        old = tl.atomic_add(counter, 1)
        tl.store(out + tl.program_id(0), old)
        tl.atomic_max(x + i, tl.program_id(0), mask=i < 2, sem="relaxed", scope="cta")
        tl.atomic_cas(counter + 1, 0, 7)
        tl.atomic_xchg(x + 3, 9.0)

    out, counter = np.zeros(3, np.int32), np.zeros(2, np.int32)
    x = np.zeros(4, np.float32)
    run(kernel, grid=(3,), out=out, counter=counter, x=x)
    # Programs come in any order.
    assert sorted(out.tolist()) == [0, 1, 2]
    assert counter.tolist() == [3, 7]
    assert x.tolist() == [2, 2, 0, 9]


def test_29_types_that_atomics_do_not_take():
    def kernel(x):
        tl.atomic_max(x, 1.0)

    def narrow(x):
        tl.atomic_add(x, 1)

    assert "does not take fp16" in error_of(kernel, x=np.zeros(1, np.float16)).message
    assert "does not take int8" in error_of(narrow, x=np.zeros(1, np.int8)).message
