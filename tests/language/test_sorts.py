"""Order, picking, reversing, counting; subscripts of blocks."""

import numpy as np
import pytest
import torch

import workbench.language as tl
from tests.language.harness import error_of, from_text, lowered, result

RANDOM = np.random.default_rng(7)
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def _numbers(dtype, shape):
    if dtype.startswith("float"):
        return RANDOM.standard_normal(shape).astype(dtype)
    info = np.iinfo(dtype)
    return RANDOM.integers(max(info.min, -1000), min(info.max, 1000), shape).astype(dtype)


def _row_kernel(call):
    return from_text(f"""
        def kernel(out, x, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
            i, j = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :]
            v = tl.load(x + i * N + j)
            tl.store(out + i * K + tl.arange(0, K)[None, :], {call})
    """)


# -- order ------------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (3, 8), (2, 37), (1, 256), (5, 64)])
@pytest.mark.parametrize("falls", [False, True])
def test_sort_along_the_last_axis(shape, falls):
    x = _numbers("int32", shape)
    kernel = _row_kernel(f"tl.sort(v, descending={falls})")
    got = result(kernel, np.int32, shape, x=x, M=shape[0], N=shape[1], K=shape[1])
    want = np.sort(x, axis=-1)
    assert np.array_equal(got, want[:, ::-1] if falls else want)


@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "float32", "float64"])
def test_sort_of_every_dtype(dtype):
    x = _numbers(dtype, (2, 16))
    got = result(_row_kernel("tl.sort(v, 1)"), dtype, (2, 16), x=x, M=2, N=16, K=16)
    assert np.array_equal(got, np.sort(x, axis=-1))


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "float8_e4m3fn"])
def test_sort_of_floats_numpy_does_not_have(dtype):
    x = torch.from_numpy(_numbers("float32", (1, 16))).to(getattr(torch, dtype))
    out = torch.zeros_like(x)
    from tests.language.harness import run

    run(_row_kernel("tl.sort(v)"), out=out, x=x, M=1, N=16, K=16)
    assert torch.equal(out.float(), x.float().sort()[0])


@pytest.mark.parametrize("falls", [False, True])
def test_sort_puts_special_numbers_where_torch_does(falls):
    x = np.array([[1, np.nan, -np.inf, 0.0, np.inf, -1, -np.nan, 2.5]], np.float32)
    got = result(_row_kernel(f"v.sort(descending={falls})"), np.float32, (1, 8), x=x, M=1, N=8, K=8)
    want = torch.from_numpy(x).sort(descending=falls)[0].numpy()
    assert np.array_equal(got, want, equal_nan=True)


@pytest.mark.parametrize(("n", "k"), [(8, 1), (8, 2), (64, 4), (37, 8), (256, 16), (8, 8)])
@pytest.mark.parametrize("rows", [1, 3])
def test_topk_gives_the_largest_first(n, k, rows):
    x = _numbers("float32", (rows, n))
    got = result(_row_kernel("tl.topk(v, K)"), np.float32, (rows, k), x=x, M=rows, N=n, K=k)
    assert np.array_equal(got, np.sort(x, axis=-1)[:, ::-1][:, :k])


@pytest.mark.parametrize("falls", [False, True])
def test_bitonic_merge_orders_rising_then_falling_rows(falls):
    x = _numbers("int32", (2, 32))
    x = np.concatenate([np.sort(x[:, :16]), np.sort(x[:, 16:])[:, ::-1]], axis=1)
    kernel = _row_kernel(f"tl.bitonic_merge(v, descending={falls})")
    want = np.sort(x, axis=-1)
    got = result(kernel, np.int32, (2, 32), x=x, M=2, N=32, K=32)
    assert np.array_equal(got, want[:, ::-1] if falls else want)


def test_a_long_row_is_sorted():
    def kernel(out, x, N: tl.constexpr):
        i = tl.arange(0, N)
        tl.store(out + i, tl.sort(tl.load(x + i)))

    x = RANDOM.standard_normal(2048).astype(np.float32)
    assert np.array_equal(result(kernel, np.float32, 2048, x=x, N=2048), np.sort(x))


def test_order_of_another_axis_is_refused():
    head = "def kernel(x):\n    v = tl.zeros((4, 8), tl.float32)\n    "
    for line, message in [
        ("tl.sort(v, 0)", "sort works along the last axis (1), got 0"),
        ("tl.topk(v, 3)", "topk of rows of 8 elements keeps a power of two"),
        ("tl.topk(v, 16)", "got k = 16"),
        ("tl.bitonic_merge(v, dim=0)", "bitonic_merge works along the last axis"),
        ("tl.bitonic_merge(tl.zeros((6,), tl.int32))", "a bitonic merge of rows of 6 elements"),
    ]:
        assert message in error_of(head + line + "\n", x=None).message


# -- picking ----------------------------------------------------------------------------------
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", ["int32", "int64", "uint8", "int8"])
def test_gather_takes_elements_along_an_axis(axis, kind):
    shape = (5, 8) if axis else (8, 5)
    index_shape = (5, 3) if axis else (3, 5)
    kernel = from_text(f"""
        def kernel(out, x, at):
            i, j = tl.arange(0, {shape[0]})[:, None], tl.arange(0, {shape[1]})[None, :]
            m, n = tl.arange(0, {index_shape[0]})[:, None], tl.arange(0, {index_shape[1]})[None, :]
            where = m * {index_shape[1]} + n
            v = tl.load(x + i * {shape[1]} + j)
            tl.store(out + where, tl.gather(v, tl.load(at + where), axis={axis}))
    """)
    x = _numbers("float32", shape)
    at = RANDOM.integers(0, shape[axis], index_shape).astype(kind)
    got = result(kernel, np.float32, index_shape, x=x, at=at)
    assert np.array_equal(got, np.take_along_axis(x, at.astype(np.int64), axis))


@pytest.mark.parametrize("dtype", ["int8", "float16", "int64", "bool"])
def test_gather_of_other_dtypes(dtype):
    def kernel(out, x, at):
        i = tl.arange(0, 16)
        tl.store(out + i, tl.load(x + i).gather(tl.load(at + i), 0))

    x = RANDOM.integers(0, 2, 16).astype(bool) if dtype == "bool" else _numbers(dtype, 16)
    at = RANDOM.integers(0, 16, 16).astype(np.int32)
    assert np.array_equal(result(kernel, dtype, 16, x=x, at=at), x[at])


@pytest.mark.parametrize("shape", [(8,), (7,), (4, 8), (3, 5), (2, 3, 4)])
def test_flip_reverses_one_axis(shape):
    for axis in (None, *range(len(shape))):
        kernel = from_text(f"""
            def kernel(out, x, N: tl.constexpr):
                i = tl.arange(0, N)
                v = tl.reshape(tl.load(x + i), {shape})
                tl.store(out + i, tl.ravel(tl.flip(v, {axis})))
        """)
        x = _numbers("float32", shape)
        got = result(kernel, np.float32, shape, x=x, N=x.size)
        assert np.array_equal(got, np.flip(x, -1 if axis is None else axis))


@pytest.mark.parametrize(("first", "second"), [(4, 4), (3, 6), (32, 100), (1, 1)])
def test_cat_keeps_order(first, second):
    def kernel(out, x, A: tl.constexpr, B: tl.constexpr):
        i, j = tl.arange(0, A), tl.arange(0, B)
        both = tl.cat(tl.load(x + i), tl.load(x + A + j), can_reorder=True)
        tl.store(out + tl.arange(0, A + B), both * 2)

    x = _numbers("int32", first + second)
    got = result(kernel, np.int32, first + second, x=x, A=first, B=second)
    assert np.array_equal(got, 2 * x)


@pytest.mark.parametrize(
    ("before", "after"), [((6,), (2, 3)), ((8, 3), (4, 6)), ((2, 3, 4), (6, 4)), ((5, 7), (35,))]
)
def test_reshape_keeps_row_major_order(before, after):
    kernel = from_text(f"""
        def kernel(out, x, N: tl.constexpr):
            i = tl.arange(0, N)
            v = tl.reshape(tl.load(x + i), {before})
            tl.store(out + tl.reshape(i, {after}), tl.reshape(v + 1, {after}))
    """)
    x = _numbers("int32", before)
    got = result(kernel, np.int32, after, x=x, N=x.size)
    assert np.array_equal(got, x.reshape(after) + 1)


# -- counting ---------------------------------------------------------------------------------
@pytest.mark.parametrize(("n", "bins"), [(64, 16), (100, 3), (256, 256), (16, 1)])
@pytest.mark.parametrize("masked", [False, True])
def test_histogram_counts_what_is_in_range(n, bins, masked):
    mask = ", mask=v % 2 == 0" if masked else ""
    kernel = from_text(f"""
        def kernel(out, x, N: tl.constexpr, B: tl.constexpr):
            v = tl.load(x + tl.arange(0, N))
            tl.store(out + tl.arange(0, B), tl.histogram(v, B{mask}))
    """)
    x = RANDOM.integers(-2, bins + 2, n).astype(np.int32)
    live = x[(x >= 0) & (x < bins) & ((x % 2 == 0) | (not masked))]
    want = np.bincount(live, minlength=bins)
    assert np.array_equal(result(kernel, np.int32, bins, x=x, N=n, B=bins), want)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_histogram_of_every_integer_dtype(dtype):
    def kernel(out, x):
        v = tl.load(x + tl.arange(0, 32))
        tl.store(out + tl.arange(0, 8), v.histogram(8))

    x = RANDOM.integers(0, 12, 32).astype(dtype)
    want = np.bincount(x[x < 8].astype(np.int64), minlength=8)
    assert np.array_equal(result(kernel, np.int32, 8, x=x), want)


# -- subscripts -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "key",
    ["2:5", "1:", ":-1", "::2", "::-1", "-3:", "1:6:3", "1:3, :", ":, 2:4", "1:3, ::-2", "..., 1:",
     "None, 1:3", "1:2, None, 3"],
)  # fmt: skip
def test_slices_pick_rows_and_columns(key):
    x = _numbers("float32", (8, 8))
    want = eval(f"x[{key}]", {"x": x})
    rank = want.ndim
    place = " + ".join(
        f"tl.arange(0, {n})[{', '.join(':' if a == b else 'None' for b in range(rank))}]"
        f" * {want[0:1].strides and int(np.prod(want.shape[a + 1 :]))}"
        for a, n in enumerate(want.shape)
    )
    kernel = from_text(f"""
        def kernel(out, x):
            i = tl.arange(0, 8)
            v = tl.load(x + i[:, None] * 8 + i[None, :])
            tl.store(out + ({place}), v[{key}])
    """)
    assert np.array_equal(result(kernel, np.float32, want.shape, x=x), want)


def test_elements_are_scalars_and_leave_a_remark():
    def kernel(out, x, n):
        v = tl.load(x + tl.arange(0, 8))
        tl.static_assert(len(v[3].shape) == 0)
        tl.store(out, v[3] + v[-1])
        tl.store(out + 1, v[n])
        w = v[:, None] + v[None, :]
        tl.store(out + 2, w[n, 2])
        tl.store(out + 3, tl.sum(v, keep_dims=True).item())

    x = np.arange(8, dtype=np.float32) * 10
    assert result(kernel, np.float32, 4, x=x, n=5).tolist() == [100, 50, 70, 280]
    _, remarks = lowered(kernel, out=np.zeros(4, np.float32), x=x, n=5)
    assert any("an element of a block; elements move" in r.text for r in remarks.items)


def test_a_colon_without_an_axis_is_ignored():
    def kernel(out, x, n):
        v = tl.load(x + tl.arange(0, 4))
        tl.static_assert(v[:, :, None].shape == (4, 1))
        tl.static_assert(v[None, :, :].shape == (1, 4))
        tl.static_assert(n[:, None].shape == (1,))
        tl.store(out + tl.arange(0, 4)[:, None, :], v[:, :, None] + n[:, None])

    x = np.arange(4, dtype=np.float32)
    assert result(kernel, np.float32, 4, x=x, n=5).tolist() == [5, 6, 7, 8]
    _, remarks = lowered(kernel, out=np.zeros(4, np.float32), x=x, n=5)
    assert any("for an axis that 'n' (int32) does not have" in r.text for r in remarks.items)


def test_subscripts_that_mean_nothing_are_refused():
    head = "def kernel(x):\n    v = tl.zeros((4, 8), tl.float32)\n    "
    for line, message in [
        ("v[4]", "[4]: 4 is outside axis 0"),
        ("v[0, 0, 0]", "has more axes than"),
        ("v[2:2]", "[2:2] of 'v' (fp32 of shape (4, 8)) is empty"),
        ("v[::0]", "the step of a slice cannot be 0"),
        ("v[0.5]", "an index is an integer, got"),
        ("v[tl.arange(0, 4)]", "an index is an integer, got"),
        ("v.item()", "item needs a block of one element"),
        ("v[0] = 1", "an element of a block or tuple cannot be assigned"),
        ("a, *b = 1, 2, 3", "'*b' cannot take the rest of the values in a kernel"),
    ]:
        assert message in error_of(head + line + "\n", x=None).message
