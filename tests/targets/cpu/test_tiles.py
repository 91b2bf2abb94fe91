"""Tiles that loops carry, that memory overlaps, that are gathered, scanned, reshaped, printed."""

import multiprocessing
import os
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench
import workbench.language as tl
from tests.targets.cpu.test_kernels import launch
from workbench.devices import pool
from workbench.targets.cpu import memory

_RANDOM = np.random.default_rng(11)


def swap_in_loop(x_ptr, y_ptr, steps, N: tl.constexpr):
    at = tl.arange(0, N)
    a, b = tl.load(x_ptr + at), tl.load(y_ptr + at)
    for _ in range(steps):
        a, b = b, a + 1
    tl.store(x_ptr + at, a)
    tl.store(y_ptr + at, b)


@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("n", [1, 7, 64])
def test_carried_tiles_may_change_places(steps: int, n: int):
    x, y = _RANDOM.normal(size=(2, n)).astype(np.float32)
    want, got = launch(swap_in_loop, (1,), x, y, steps, N=n)
    np.testing.assert_array_equal(got, want)


def counted_in_place(i_ptr, in_ptr, out_ptr, HOW: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    if HOW == "table":
        place = tl.load(i_ptr + at)
    elif HOW == "halves":
        place = at // 2
    elif HOW == "rows that share one":
        place = tl.arange(0, 2)[:, None] * (N - 1) + at[None, :]
    elif HOW == "diagonal":
        place = at[:, None] + at[None, :]
    else:
        place = at * 3
    tl.store(out_ptr + place, tl.load(in_ptr + place) + 1)


@pytest.mark.parametrize("how", ["table", "halves", "rows that share one", "diagonal", "apart"])
def test_all_of_a_tile_is_loaded_before_any_of_it_is_stored(how: str):
    """Elements of one address are loaded before any of them is stored, in whatever order."""
    places = _RANDOM.integers(0, 5, 64).astype(np.int32)
    counted = np.zeros(200, np.int32)
    workbench.jit(counted_in_place)[(1,)](places, counted, counted, HOW=how, N=64, target="cpu")
    assert set(counted) == {0, 1}


def long_chain(x_ptr, out_ptr, ROUNDS: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    total = tl.zeros((N,), tl.float32)
    for k in tl.static_range(ROUNDS):
        total = total * 0.5 + tl.load(x_ptr + at + k)
    tl.store(out_ptr + at, total)


def test_unrolled_loops_may_make_long_chains():
    x = _RANDOM.integers(-5, 5, 500).astype(np.float32)
    want, got = launch(long_chain, (1,), x, np.zeros(9, np.float32), ROUNDS=300, N=9)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-6, atol=1e-6)


def branches(x_ptr, out_ptr, limit, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    total = tl.sum(x, axis=0)
    if total > limit:
        y = x * 2
        count = 1
    else:
        y = x - tl.max(x, axis=0)
        count = 2
    while total < 50:
        total += 10
        y += 1
    tl.store(out_ptr + at, y + count)


@pytest.mark.parametrize("limit", [-100.0, 100.0])
def test_branches_and_while_loops_with_tiles(limit: float):
    x = _RANDOM.integers(-5, 5, 23).astype(np.float32)
    want, got = launch(branches, (1,), x, np.zeros_like(x), limit, N=23)
    np.testing.assert_array_equal(got[1], want[1])


def gather(x_ptr, index_ptr, out_ptr, n, N: tl.constexpr):
    at = tl.arange(0, N)
    index = tl.load(index_ptr + at, mask=at < n, other=0)
    tl.store(out_ptr + at, tl.load(x_ptr + index, mask=index > 2, other=-7), mask=at < n)


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "int64"])
def test_gather(dtype: str):
    x = (_RANDOM.normal(size=100) * 50).astype(dtype)
    index = _RANDOM.integers(0, 100, 77).astype(np.int32)
    want, got = launch(gather, (1,), x, index, np.zeros(77, dtype), 77, N=128)
    np.testing.assert_array_equal(got[2], want[2])


def scatter_columns(x_ptr, out_ptr, stride_m, stride_n, M: tl.constexpr, N: tl.constexpr):
    rows, columns = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + rows * N + columns)
    tl.store(out_ptr + rows * stride_m + columns * stride_n, tl.trans(tl.trans(x)) * 2)


@settings(max_examples=15, deadline=None)
@given(m=st.integers(1, 40), n=st.integers(1, 40), column_major=st.booleans())
def test_stores_by_rows_and_by_columns(m: int, n: int, column_major: bool):
    x = _RANDOM.normal(size=(m, n)).astype(np.float32)
    strides = (1, m) if column_major else (n, 1)
    want, got = launch(scatter_columns, (1,), x, np.zeros(m * n, np.float32), *strides, M=m, N=n)
    np.testing.assert_array_equal(got[1], want[1])


def reduce_2d(x_ptr, rows_ptr, columns_ptr, best_ptr, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :])
    tl.store(rows_ptr + m, tl.sum(x, axis=1))
    tl.store(columns_ptr + n, tl.max(x, axis=0))
    tl.store(best_ptr + n, tl.argmin(x, axis=0))


@settings(max_examples=15, deadline=None)
@given(m=st.integers(1, 40), n=st.integers(1, 70))
def test_reductions_of_two_dimensions(m: int, n: int):
    x = _RANDOM.integers(-9, 9, (m, n)).astype(np.float32)
    outputs = [np.zeros(m, np.float32), np.zeros(n, np.float32), np.zeros(n, np.int32)]
    want, got = launch(reduce_2d, (1,), x, *outputs, M=m, N=n)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)


def exact_sum(x_ptr, out_ptr, N: tl.constexpr):
    tl.store(out_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, N)), axis=0))


@pytest.mark.parametrize("n", [1, 2, 3, 31, 64, 100])
def test_exact_sums_add_in_the_interpreters_order(n: int):
    x = _RANDOM.normal(size=n).astype(np.float32)
    want, got = launch(exact_sum, (1,), x, np.zeros(1, np.float32), N=n, exact=True)
    np.testing.assert_array_equal(got[1], want[1])


def all_reads_first(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr + at, x + 1)
    y = tl.load(y_ptr + at)
    tl.store(out_ptr + at, x * y)


@pytest.mark.parametrize("shift", [0, 1, 33])
def test_a_load_after_a_store_sees_it_and_one_before_does_not(shift: int):
    found = []
    for target in ("interpreter", "cpu"):
        data = np.arange(200, dtype=np.float32)
        x, y, out = data[:100], data[shift : shift + 100], data[shift + 1 : shift + 101]
        workbench.jit(all_reads_first)[(1,)](x, y, out, N=100, target=target)
        found.append(data)
    np.testing.assert_array_equal(found[1], found[0])


def count_up(out_ptr, sums_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.atomic_add(out_ptr + at % 3, at)
    tl.atomic_max(sums_ptr, tl.program_id(0).to(tl.float32))


def test_atomics_of_many_threads():
    out, best = np.zeros(3, np.int32), np.zeros(1, np.float32)
    workbench.jit(count_up)[(500,)](out, best, N=10, target="cpu")
    assert out.tolist() == [500 * 18, 500 * 12, 500 * 15]
    assert best[0] == 499


def long_copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * 2, mask=at < n)


@pytest.mark.parametrize("offset", [0, 1])
def test_stores_past_the_caches_give_the_same(monkeypatch: pytest.MonkeyPatch, offset: int):
    monkeypatch.setattr(memory, "STREAMED_BYTES", 1 << 12)
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", "")
    x = _RANDOM.normal(size=20_000).astype(np.float32)
    out = np.zeros(20_016, np.float32)
    at = (-out.ctypes.data % 64) // 4 + offset
    view = out[at : at + 20_000]
    kernel = workbench.jit(long_copy)
    compiled = kernel[(20,)](x, view, 20_000, BLOCK=1024, target="cpu")
    assert "!nontemporal" in compiled.asm["llvm"]
    np.testing.assert_array_equal(view, x * 2)


def test_every_row_of_code_can_be_traced_to_an_op():
    x, out = np.ones(100, np.float32), np.zeros(100, np.float32)
    compiled = workbench.jit(long_copy)[(1,)](x, out, 100, BLOCK=128, target="cpu")
    trace = compiled.trace
    known = set(trace.ops.id)
    for stage in ("llvm", "asm"):
        found = trace.stage(stage)
        assert found is not None
        ops = {op for _, _, row in found.rows for op in row}
        assert ops
        assert ops <= known
    assert "vaddps" in trace.text("asm") or "vmulps" in trace.text("asm")


def test_threads_of_python_may_launch_at_the_same_time():
    kernel = workbench.jit(long_copy)
    x = _RANDOM.normal(size=50_000).astype(np.float32)
    outputs = [np.zeros_like(x) for _ in range(4)]

    def work(out: np.ndarray) -> None:
        for _ in range(20):
            kernel[(49,)](x, out, x.size, BLOCK=1024, target="cpu")

    threads = [threading.Thread(target=work, args=(out,)) for out in outputs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for out in outputs:
        np.testing.assert_array_equal(out, x * 2)


def _in_child(queue) -> None:
    x = np.arange(5000, dtype=np.float32)
    out = np.zeros_like(x)
    workbench.jit(long_copy)[(5,)](x, out, x.size, BLOCK=1024, target="cpu")
    queue.put((bool(np.array_equal(out, x * 2)), pool.pool().threads))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_builds_its_own_pool():
    x = np.ones(5000, np.float32)
    workbench.jit(long_copy)[(5,)](x, np.zeros_like(x), x.size, BLOCK=1024, target="cpu")
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    right, threads = queue.get(timeout=60)
    child.join(timeout=60)
    assert right
    assert threads == pool.thread_count()


def prints(x_ptr, N: tl.constexpr):
    tl.device_print("x: ", tl.load(x_ptr + tl.arange(0, N)))


def test_printing_names_program_and_index(capfd: pytest.CaptureFixture[str]):
    x = np.array([1.5, -2.0], np.float32)
    workbench.jit(prints)[(1,)](x, N=2, target="cpu")
    lines = capfd.readouterr().out.splitlines()
    assert lines == ["pid (0, 0, 0) idx (0,) x: 1.5", "pid (0, 0, 0) idx (1,) x: -2"]


def double_softmax_product(x_ptr, w_ptr, out_ptr, M: tl.constexpr, N: tl.constexpr):
    m, n = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + m * N + n)
    powers = tl.exp(x - tl.max(x, axis=1)[:, None])
    weights = tl.load(w_ptr + tl.arange(0, N)[:, None] * N + n)
    product = tl.dot(powers, weights, input_precision="ieee")
    tl.store(out_ptr + m * N + n, product / tl.sum(powers, axis=1)[:, None])


@pytest.mark.parametrize(("processor", "features"), [("haswell", "+avx2,+fma,+f16c")])
def test_narrower_vector_registers(monkeypatch: pytest.MonkeyPatch, processor: str, features: str):
    from workbench.targets.cpu import pipeline
    from workbench.targets.llvm.toolchain import Machine, host

    triple, _, own = host()
    if not triple.startswith("x86_64") or "+avx2" not in own.split(","):
        pytest.skip("this processor has no AVX2")
    unit = Machine(triple, processor, features, 2, True)
    monkeypatch.setattr(pipeline, "_machine", lambda: unit)
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", "")
    x, w = (_RANDOM.normal(size=s).astype(np.float32) for s in ((13, 40), (40, 40)))
    out = np.zeros_like(x)
    compiled = workbench.jit(double_softmax_product)[(1,)](x, w, out, M=13, N=40, target="cpu")
    assert "zmm" not in compiled.asm["asm"]
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        out, powers @ w / powers.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-5
    )


def masked_twice(x_ptr, out_ptr, n, N: tl.constexpr):
    at = tl.arange(0, 2 * N)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    first = tl.reshape(tl.where(mask, 1.0, 2.0), (N, 2))
    second = tl.reshape(x, (2, N))
    total = tl.reshape(tl.trans(tl.trans(first)), (2 * N,)) + tl.reshape(tl.trans(second), (2 * N,))
    tl.store(out_ptr + at, total, mask=mask)


@pytest.mark.parametrize("n", [0, 5, 40, 64])
def test_a_mask_read_at_other_places_is_not_taken_for_the_stores(n: int):
    x = _RANDOM.integers(1, 9, 64).astype(np.float32)
    want, got = launch(masked_twice, (1,), x, np.zeros(64, np.float32), n, N=32)
    np.testing.assert_array_equal(got[1], want[1])
