"""Block pointers and tensor descriptors (rules 21 and 22)."""

import numpy as np
import pytest

import workbench.language as tl
from tests.language.harness import error_of, from_text, lowered, result, run
from workbench.ops import For, Load, Store


def _padded(array, rows, columns, fill=0.0):
    found = np.full((rows, columns), fill, array.dtype)
    found[: array.shape[0], : array.shape[1]] = array
    return found


# -- 21 ---------------------------------------------------------------------------------------
def test_21_a_block_pointer_walks_an_array():
    def kernel(out, x, M, N, s, B: tl.constexpr):
        p = tl.make_block_ptr(x, (M, N), (s, 1), (tl.program_id(0) * B, 0), (B, B), (1, 0))
        acc = tl.zeros((B, B), tl.float32)
        for _ in range(tl.cdiv(N, B)):
            acc += tl.load(p, boundary_check=(0, 1), padding_option="zero")
            p = tl.advance(p, (0, B))
        q = tl.make_block_ptr(out, (M, B), (B, 1), (tl.program_id(0) * B, 0), (B, B), (1, 0))
        tl.store(q, acc, boundary_check=[0])

    x = np.arange(7 * 12, dtype=np.float32).reshape(7, 12)
    out = np.zeros((7, 4), np.float32)
    run(kernel, grid=(2,), out=out, x=x, M=7, N=10, s=12, B=4)
    want = _padded(x[:, :10], 7, 12).reshape(7, 3, 4).sum(1)
    assert np.array_equal(out, want)


def test_21_checks_happen_on_the_named_axes_only():
    def kernel(out, x):
        p = tl.make_block_ptr(x, (2, 2), (4, 1), (0, 0), (4, 4), (1, 0))
        q = tl.make_block_ptr(out, (4, 4), (4, 1), (0, 0), (4, 4), (1, 0))
        tl.store(q, tl.load(p, boundary_check=(1,)))

    x = np.arange(1, 17, dtype=np.float32).reshape(4, 4)
    want = x.copy()
    want[:, 2:] = 0
    assert np.array_equal(result(kernel, shape=(4, 4), x=x), want)


@pytest.mark.parametrize("offset", [-2, 0, 1, 5])
@pytest.mark.parametrize("option", ["zero", "nan", ""])
def test_21_offsets_outside_read_as_padding(offset, option):
    kernel = from_text(f"""
        def kernel(out, x, at, B: tl.constexpr):
            p = tl.make_block_ptr(x, (4,), (1,), (at,), (B,), (0,))
            v = tl.load(p, boundary_check=(0,), padding_option="{option}")
            tl.store(out + tl.arange(0, B), v)
    """)
    x = np.arange(1, 5, dtype=np.float32)
    places = offset + np.arange(3)
    fill = np.nan if option == "nan" else 0
    want = np.where((places >= 0) & (places < 4), x[places.clip(0, 3)], fill)
    assert np.array_equal(result(kernel, shape=3, x=x, at=offset, B=3), want, equal_nan=True)


def test_21_a_transposed_block_and_a_new_pointer_in_a_loop():
    def kernel(out, x, B: tl.constexpr):
        p = tl.make_block_ptr(x, (B, 6), (6, 1), (0, 0), (2, B), (1, 0))
        for i in range(3):
            p = tl.make_block_ptr(x, (6, B), (1, 6), (i * 2, 0), (2, B), (0, 1))
            q = tl.make_block_ptr(out, (6, B), (B, 1), (0, 0), (2, B), (1, 0)).advance((i * 2, 0))
            tl.store(q, tl.load(p))

    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    assert np.array_equal(result(kernel, shape=(6, 4), x=x, B=4), x.T)


def test_21_block_pointers_through_branches_and_functions():
    def step(p, by):
        return tl.advance(p, (by,))

    def kernel(out, x, n):
        p = tl.make_block_ptr(x, (8,), (1,), (0,), (4,), (0,))
        if n > 3:
            p = step(p, 4)
        pair = (p, n)
        tl.store(out + tl.arange(0, 4), tl.load(pair[0]))

    x = np.arange(8, dtype=np.float32)
    kernel = from_text(_text_of(step) + _text_of(kernel))
    assert result(kernel, shape=4, x=x, n=4).tolist() == [4, 5, 6, 7]
    assert result(kernel, shape=4, x=x, n=3).tolist() == [0, 1, 2, 3]


def _text_of(function):
    import inspect
    import textwrap

    return textwrap.dedent(inspect.getsource(function)) + "\n"


def test_21_a_loop_carries_only_what_moves():
    from workbench.passes.manager import Recorder
    from workbench.passes.pipeline import tile_passes

    def kernel(out, x, M, N, s):
        p = tl.make_block_ptr(x, (M, N), (s, 1), (0, 0), (4, 4), (1, 0))
        acc = tl.zeros((4, 4), tl.float32)
        for _ in range(0, N, 4):
            acc += tl.load(p, boundary_check=(0, 1))
            p = tl.advance(p, (0, 4))
        tl.store(tl.make_block_ptr(out, (4, 4), (4, 1), (0, 0), (4, 4), (1, 0)), acc)

    x = np.ones((4, 8), np.float32)
    module, _ = lowered(kernel, out=np.zeros((4, 4), np.float32), x=x, M=4, N=8, s=8)
    (loop,) = [op for op in tile_passes(module, Recorder()).walk() if isinstance(op, For)]
    assert len(loop.inits) == 2
    loads = [op for op in module.walk() if isinstance(op, Load)]
    assert all(op.box for op in loads)
    assert np.array_equal(result(kernel, shape=(4, 4), x=x, M=4, N=8, s=8), 2 * np.ones((4, 4)))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("tl.load(p, mask=True)", "load through a block pointer takes no mask"),
        ("tl.load(p, boundary_check=(2,))", "boundary_check of load: 2 is outside"),
        ("tl.load(p, padding_option='one')", "load knows no padding_option 'one'"),
        ("tl.store(p, tl.zeros((4, 4), tl.float16))", "store through a block pointer"),
        ("tl.store(p, tl.zeros((4, 8), tl.float32))", "store of a block of shape (4, 4) got"),
        ("tl.advance(p, (1,))", "the offsets of advance has 1 entries, the block has 2 axes"),
        ("tl.advance(x, (1,))", "advance needs a block pointer"),
        ("p + 1", "'+' does not take"),
        ("tl.make_block_ptr(x, (4, 4), (4, 1), (0, 0), (4, 4), (1, 1))", "is not an order of 2"),
        ("tl.make_block_ptr(x, (4, 4), (4, 1), (0, 0), (4, 4), (0, (1,)))", "is not an order"),
        ("tl.make_block_ptr(x, (4, 4), (4,), (0, 0), (4, 4), (1, 0))", "the strides of make_bl"),
        ("tl.load(x, boundary_check=(0,))", "boundary_check and padding_option are for block"),
    ],
)
def test_21_misuse_says_what_is_wrong(line, message):
    error = error_of(
        "def kernel(x):\n"
        "    p = tl.make_block_ptr(x, (4, 4), (4, 1), (0, 0), (4, 4), (1, 0))\n"
        f"    {line}\n",
        x=np.zeros(16, np.float32),
    )
    assert message in error.message


# -- 22 ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("at", [(0, 0), (3, 5), (-1, -2), (-9, 0), (20, 1)])
@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_22_descriptors_check_every_axis(at, padding):
    kernel = from_text(f"""
        def kernel(out, x, r, c, s):
            d = tl.make_tensor_descriptor(x, [5, 7], [s, 1], [4, 8], padding_option="{padding}")
            tl.static_assert(d.block_shape == (4, 8) and d.dtype == tl.float32)
            e = tl.make_tensor_descriptor(out, shape=[4, 8], strides=[8, 1], block_shape=[4, 8])
            e.store([0, 0], d.load([r, c]))
    """)
    x = np.arange(5 * 9, dtype=np.float32).reshape(5, 9)
    fill = np.nan if padding == "nan" else 0
    big = np.full((60, 60), fill, np.float32)
    big[20:25, 20:27] = x[:5, :7]
    r, c = at
    want = big[20 + r : 24 + r, 20 + c : 28 + c]
    got = result(kernel, shape=(4, 8), x=x, r=r, c=c, s=9)
    assert np.array_equal(got, want, equal_nan=True)


def test_22_stores_cast_and_drop_what_is_outside():
    def kernel(out, x):
        d = tl.make_tensor_descriptor(out, [3, 5], [6, 1], [4, 4])
        i = tl.arange(0, 4)
        tl.store_tensor_descriptor(d, [-1, 3], tl.load(x + i[:, None] * 4 + i[None, :]))

    x = np.arange(16, dtype=np.float32).reshape(4, 4) + 0.5
    out = np.zeros((4, 6), np.float16)
    run(kernel, out=out, x=x)
    want = np.zeros((4, 6), np.float16)
    want[0:3, 3:5] = x[1:4, 0:2]
    assert np.array_equal(out, want)


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_22_one_to_five_axes_with_any_strides(rank):
    shape, block = (2, 3, 2, 5, 6)[-rank:], (2, 2, 2, 2, 8)[-rank:]
    words = ", ".join(map(str, shape))
    base = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    held = np.asfortranarray(base)
    strides = ", ".join(str(s // 4) for s in held.strides)
    flat = " + ".join(
        f"tl.arange(0, {b})[{', '.join(':' if d == i else 'None' for i in range(rank))}]"
        f" * {int(np.prod(block[d + 1 :]))}"
        for d, b in enumerate(block)
    )
    kernel = from_text(f"""
        def kernel(out, x):
            d = tl.make_tensor_descriptor(x, [{words}], [{strides}], {list(block)})
            tl.store(out + {flat}, tl.load_tensor_descriptor(d, [{", ".join("1" * rank)}]))
    """)
    want = np.zeros(block, np.int32)
    inner = base[tuple(slice(1, 1 + b) for b in block)]
    want[tuple(slice(0, n) for n in inner.shape)] = inner
    got = result(kernel, np.int32, block, x=held.ravel(order="K"))
    assert np.array_equal(got, want)


@pytest.mark.parametrize("rows", [3, 4, 8])
def test_22_gather_and_scatter_rows(rows):
    def kernel(out, x, index, ROWS: tl.constexpr):
        d = tl.make_tensor_descriptor(x, [6, 10], [10, 1], [1, 4])
        e = tl.make_tensor_descriptor(out, [6, 10], [10, 1], [1, 4])
        rows = tl.load(index + tl.arange(0, ROWS))
        e.scatter(d.gather(rows, 7), rows, 7)

    x = np.arange(1, 61, dtype=np.float32).reshape(6, 10)
    index = np.array([2, 9, 0, -1, 5, 5, 1, 7], np.int32)[:rows]
    out = np.zeros((6, 10), np.float32)
    run(kernel, out=out, x=x, index=index, ROWS=rows)
    want = np.zeros_like(x)
    for row in index:
        if 0 <= row < 6:
            want[row, 7:] = x[row, 7:]
    assert np.array_equal(out, want)


def test_22_descriptors_say_what_is_not_portable_and_what_is_wrong():
    kernel = from_text("""
        def kernel(x):
            d = tl.make_tensor_descriptor(x, [4, 4], [1, 4], [4, 2])
            d.store([0, 0], d.load([0, 0]))
    """)
    module, remarks = lowered(kernel, x=np.zeros(16, np.float32))
    texts = [r.text for r in remarks.items]
    assert "not portable to Triton: a descriptor whose last stride is not the constant 1" in texts
    assert any("under 16 bytes" in t for t in texts)
    assert [op.box for op in module.walk() if isinstance(op, Load | Store)] == [True, True]
    head = "def kernel(x):\n    d = tl.make_tensor_descriptor(x, [4, 4], [4, 1], [4, 4])\n    "
    for line, message in [
        ("d.load([0])", "the offsets of load has 1 entries, the block has 2 axes"),
        ("d.gather(tl.arange(0, 4), 0)", "gather needs a descriptor with blocks of one row"),
        ("d.load(0, 1)", "load takes at most 1 arguments"),
        ("d.lead([0, 0])", "has no attribute 'lead'"),
        ("tl.load_tensor_descriptor(x, [0])", "needs a tensor descriptor, got"),
    ]:
        assert message in error_of(head + line + "\n", x=np.zeros(16, np.float32)).message
