"""The corpus on the CPU target, at friendly and unfriendly sizes, against the interpreter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import workbench
import workbench.language as tl
from tests.kernels import matmul, reductions, softmax, vector_add

_RANDOM = np.random.default_rng(7)


def launch(kernel, grid, *args, **options):
    """Run a kernel by both targets on copies of the arguments; return both sets of arrays."""
    found = []
    for target in ("interpreter", "cpu"):
        own = [a.copy(order="K") if isinstance(a, np.ndarray) else a for a in args]
        workbench.jit(kernel)[grid](*own, target=target, **options)
        found.append([a for a in own if isinstance(a, np.ndarray)])
    return found


@settings(max_examples=25, deadline=None)
@given(n=st.integers(0, 300), block=st.sampled_from([1, 3, 16, 64, 100]))
def test_vector_add(n: int, block: int):
    x, y = _RANDOM.normal(size=(2, n)).astype(np.float32)
    out = np.full(n + 3, -1, np.float32)
    want, got = launch(vector_add.add, (max(1, -(-n // block)),), x, y, out, n, BLOCK=block)
    np.testing.assert_array_equal(got[2], want[2])


@pytest.mark.parametrize("dtype", ["float16", "int8", "int32", "float64"])
def test_vector_add_of_every_type(dtype: str):
    x, y = (_RANDOM.normal(size=(2, 77)) * 9).astype(dtype)
    want, got = launch(vector_add.add, (3,), x, y, np.zeros_like(x), 77, BLOCK=32)
    np.testing.assert_array_equal(got[2], want[2])


@pytest.mark.parametrize("shift", [0, 1, 5, 31, 32, 64, 200])
def test_overlapping_arguments_are_read_before_they_are_written(shift: int):
    memory = {t: np.arange(600, dtype=np.float32) for t in ("interpreter", "cpu")}
    for target, array in memory.items():
        x, out = array[:256], array[shift : 256 + shift]
        workbench.jit(vector_add.add)[(1,)](x, x, out, 256, BLOCK=256, target=target)
    np.testing.assert_array_equal(memory["cpu"], memory["interpreter"])


@settings(max_examples=15, deadline=None)
@given(columns=st.integers(1, 300), extra=st.integers(0, 3))
def test_softmax(columns: int, extra: int):
    x = _RANDOM.normal(size=(3, columns + extra)).astype(np.float32)[:, :columns] * 5
    block = workbench.next_power_of_2(columns)
    out = np.zeros((3, columns), np.float32)
    want, got = launch(
        softmax.softmax, (3,), out, x, x.strides[0] // 4, columns, columns, BLOCK=block
    )
    np.testing.assert_allclose(got[0], want[0], rtol=1e-5, atol=1e-7)


def test_softmax_of_rows_that_are_all_minus_infinity_is_nan():
    x = np.full((2, 40), -np.inf, np.float32)
    x[1, 3] = 1
    want, got = launch(
        softmax.softmax, (2,), np.zeros((2, 40), np.float32), x, 40, 40, 40, BLOCK=64
    )
    np.testing.assert_array_equal(got[0], want[0])


def test_persistent_softmax():
    x = _RANDOM.normal(size=(11, 50)).astype(np.float32)
    want, got = launch(
        softmax.softmax_persistent, (4,), np.zeros_like(x), x, 50, 50, 11, 50, BLOCK=64, STAGES=2
    )
    np.testing.assert_allclose(got[0], want[0], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["row_sum", "row_max", "row_min", "row_argmax", "row_argmin"])
@pytest.mark.parametrize("columns", [1, 3, 33, 100, 257])
def test_reductions_of_rows(name: str, columns: int):
    x = _RANDOM.integers(-50, 50, (5, columns)).astype(np.float32)
    out = np.zeros(5, np.int32 if "arg" in name else np.float32)
    block = workbench.next_power_of_2(columns)
    want, got = launch(getattr(reductions, name), (5,), x, out, columns, columns, BLOCK=block)
    np.testing.assert_array_equal(got[1], want[1])


def test_sum_carried_through_a_loop():
    x = _RANDOM.integers(-50, 50, (3, 333)).astype(np.float32)
    want, got = launch(
        reductions.long_row_sum, (3,), x, np.zeros(3, np.float32), 333, 333, BLOCK=64
    )
    np.testing.assert_array_equal(got[1], want[1])


@settings(max_examples=20, deadline=None)
@given(
    m=st.integers(1, 70), n=st.integers(1, 70), k=st.integers(1, 70),
    block=st.sampled_from([(16, 16, 16), (32, 64, 16), (9, 40, 7), (64, 32, 32)]),
    transposed=st.tuples(st.booleans(), st.booleans()),
    dtype=st.sampled_from(["float32", "float16", "int8"]),
)  # fmt: skip
def test_matmul(m, n, k, block, transposed, dtype):
    a, b = (_RANDOM.integers(-4, 5, shape).astype(dtype) for shape in ((m, k), (k, n)))
    a = np.asfortranarray(a) if transposed[0] else a
    b = np.asfortranarray(b) if transposed[1] else b
    c = np.zeros((m, n), np.float32 if dtype != "int8" else np.int32)
    kernel = matmul.matmul if dtype != "int8" else matmul_int8
    strides = [s // x.itemsize for x in (a, b, c) for s in x.strides]
    want, got = launch(
        kernel, (-(-m // block[0]) * -(-n // block[1]),), a, b, c, m, n, k, *strides,
        BLOCK_M=block[0], BLOCK_N=block[1], BLOCK_K=block[2], GROUP_M=2,
    )  # fmt: skip
    np.testing.assert_array_equal(got[2], want[2])
    np.testing.assert_array_equal(got[2], a.astype(np.int64) @ b.astype(np.int64))


def matmul_int8(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    pid_m = tl.program_id(0) // tl.cdiv(N, BLOCK_N)
    pid_n = tl.program_id(0) % tl.cdiv(N, BLOCK_N)
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for start in range(0, K, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        a = tl.load(
            a_ptr + rows[:, None] * stride_am + inner[None, :] * stride_ak,
            mask=(rows[:, None] < M) & (inner[None, :] < K), other=0,
        )  # fmt: skip
        b = tl.load(
            b_ptr + inner[:, None] * stride_bk + columns[None, :] * stride_bn,
            mask=(inner[:, None] < K) & (columns[None, :] < N), other=0,
        )  # fmt: skip
        total += tl.dot(a, b, out_dtype=tl.int32)
    tl.store(
        c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn, total,
        mask=(rows[:, None] < M) & (columns[None, :] < N),
    )  # fmt: skip
