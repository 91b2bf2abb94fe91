"""What the rules do not cover: promises, printing, shapes, tuples of arguments, odd spellings."""

from collections import namedtuple

import numpy as np
import pytest
import torch

import workbench.language as tl
import workbench.triton as triton
from tests.language.harness import from_text, lowered, result, run
from workbench.frontend import Argument, Options
from workbench.ops import Assume, Barrier, DeviceAssert, Promise, Select
from workbench.runtime.jit import jit

Config = namedtuple("Config", ["M", "scale"])


def test_promises_and_barriers_become_ops():
    def kernel(out, n):
        i = tl.max_contiguous(tl.multiple_of(tl.arange(0, 4) + n, 4), 4)
        tl.assume(n > 0)
        tl.debug_barrier()
        tl.store(out + tl.max_constancy(i, [1]), 1.0)

    module, _ = lowered(kernel, out=np.zeros(8, np.float32), n=4)
    kinds = [op for op in module.walk() if isinstance(op, Promise | Assume | Barrier)]
    assert [type(op) for op in kinds] == [Promise, Promise, Assume, Barrier, Promise]
    assert (kinds[0].divisible, kinds[1].contiguous, kinds[4].constant) == ((4,), (4,), (1,))


def test_printing_on_the_device():
    def kernel(out, n):
        tl.device_print("i: ", tl.arange(0, 2), hex=True)
        print("n", n)  # noqa: T201
        tl.store(out, 1.0)

    printed = run(kernel, out=np.zeros(1, np.float32), n=7)
    assert [line.split(") ")[-1] for line in printed[:2]] == ["i: 0x0", "i: 0x1"]
    assert printed[2].endswith("n: 7")


def test_assertions_run_under_debug_alone():
    def kernel(out, n):
        assert n > 3, "n is large"
        tl.device_assert(n < 9, "n is small", mask=n > 0)
        tl.store(out, 1.0)

    out = np.zeros(1, np.float32)
    for debug in (False, True):
        module, _ = lowered(kernel, out=out, n=7, options=Options(debug=debug))
        checks = [op for op in module.walk() if isinstance(op, DeviceAssert)]
        assert [op.message for op in checks] == (["n is large", "n is small"] if debug else [])


def test_static_print_shows_values_and_types(capsys):
    def kernel(out, n, B: tl.constexpr):
        tl.static_print("B is", B, f"{B + 1:03d}", n)

    lowered(kernel, out=np.zeros(1, np.float32), n=7, B=4)
    assert capsys.readouterr().out == "B is 4 005 int32\n"


def test_moving_elements():
    def kernel(out, x):
        block = tl.reshape(tl.load(x + tl.arange(0, 8)), (2, 4))
        tl.static_assert(block.T.shape == (4, 2))
        left, right = tl.split(tl.join(block, block + 10))
        tl.store(out + tl.arange(0, 8), tl.ravel(left.trans()))
        tl.store(out + 8 + tl.arange(0, 8), tl.view(right, [8]))
        cube = tl.permute(tl.reshape(block, 2, 2, 2), (2, 0, 1))
        tl.store(out + 16 + tl.arange(0, 8), tl.reshape(cube, (8,)))
        tail = tl.cat(tl.arange(0, 2), tl.arange(5, 7), can_reorder=True)
        tl.store(out + 24 + tl.arange(0, 4), tail)
        mixed = tl.interleave(tl.arange(0, 2), tl.arange(5, 7))
        tl.store(out + 28 + tl.arange(0, 4), mixed)

    x = np.arange(8, dtype=np.int32)
    got = result(kernel, np.int32, 32, x=x)
    block = x.reshape(2, 4)
    cube = block.reshape(2, 2, 2).transpose(2, 0, 1).ravel()
    assert got[:24].tolist() == [*block.T.ravel(), *(x + 10), *cube]
    assert got[24:].tolist() == [0, 1, 5, 6, 0, 5, 1, 6]


def test_a_pair_is_split_into_scalars():
    def kernel(out, x):
        first, second = tl.split(tl.load(x + tl.arange(0, 2)))
        tl.static_assert(first.shape == () and second.shape == ())
        high, low = tl.split(tl.join(first + 1, second * 2))
        tl.store(out, high)
        tl.store(out + 1, low)

    assert result(kernel, np.int32, 2, x=np.array([3, 5], np.int32)).tolist() == [4, 10]


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_absolute_values_of_short_floats(dtype):
    def kernel(out, x):
        i = tl.arange(0, 8)
        tl.store(out + i, tl.abs(tl.load(x + i)))

    x = torch.tensor([0.0, -0.0, 1.5, -1.5, -448, 2.0**-9, -(2.0**-9), float("nan")]).to(dtype)
    out = torch.zeros(8, dtype=dtype)
    run(kernel, out=out, x=x)
    assert out.view(torch.uint8).tolist() == [code & 0x7F for code in x.view(torch.uint8).tolist()]


def test_axes_are_added_by_number_and_by_none():
    def kernel(out):
        i = tl.arange(0, 4)
        tl.static_assert(tl.expand_dims(i, -1).shape == (4, 1))
        tl.static_assert(tl.expand_dims(i, (0, 2)).shape == (1, 4, 1))
        tl.static_assert(i[None, :, None].shape == (1, 4, 1))
        tl.static_assert(i[None].shape == (1, 4))
        tl.static_assert(tl.broadcast_to(i[:, None], 4, 8).shape == (4, 8))
        a, b = tl.broadcast(i[:, None], i[None, :])
        tl.static_assert(a.shape == b.shape)
        tl.static_assert(tl.zeros_like(a).shape == (4, 4) and a.numel == 16)
        tl.store(out, 1.0)

    assert result(kernel) == [1]


def test_tuples_and_namedtuples_as_arguments():
    def kernel(pair, config):
        out, n = pair
        tl.store(out, n * config.scale + config.M)

    pair = Argument(None, items=(Argument("*f32"), Argument("i32")))
    config = Argument(None, Config, items=(Argument(None, 100), Argument("i32")))
    module, _ = lowered(kernel, pair=pair, config=config)
    assert [p.name for p in module.parameters] == ["pair.0", "pair.1", "config.1"]
    from workbench.interpreter import run_module

    out = np.zeros(1, np.float32)
    run_module(module, (1,), [out, 3, 5])
    assert out == [115]


def test_facts_of_arguments_reach_the_module():
    def kernel(x, n):
        tl.store(x, n)

    n = Argument("i32", divisible=16, low=0, high=100)
    x = Argument("*f32", divisible=32, noalias=True)
    module, _ = lowered(kernel, x=x, n=n)
    first, second = module.parameters
    assert (first.divisible, first.noalias) == (32, True)
    assert (second.divisible, second.low, second.high, str(second.value.type)) == (
        16,
        0,
        100,
        "index",
    )


def test_kernel_objects_and_host_helpers_are_called_in_kernels():
    @jit
    def half(x):
        return x * 0.5

    def kernel(out, n, B: tl.constexpr):
        tl.store(out, half(triton.cdiv(n, B)))
        tl.store(out + 1, triton.next_power_of_2(B + 1))
        tl.static_assert(triton.cdiv(B, 3) == 2)

    assert result(kernel, np.float32, 2, n=9, B=4).tolist() == [1.5, 8]


def test_cheap_conditional_expressions_are_selects():
    def kernel(out, n):
        tl.store(out, n + 1 if n > 3 else 0)

    module, _ = lowered(kernel, out=np.zeros(1, np.int32), n=7)
    assert sum(isinstance(op, Select) for op in module.walk()) == 1


def test_the_softmax_sigmoid_and_swizzle_of_the_language():
    def kernel(out, x):
        i = tl.arange(0, 4)
        a = tl.load(x + i)
        tl.store(out + i, tl.softmax(a))
        tl.store(out + 4 + i, tl.sigmoid(a))
        tl.store(out + 8 + i, tl.math.tanh(a) + tl.math.pow(a, 2))

    x = np.array([0.5, -1, 2, 0], np.float32)
    got = result(kernel, np.float32, 12, x=x)
    powers = np.exp(x - x.max())
    want = [*(powers / powers.sum()), *(1 / (1 + np.exp(-x))), *(np.tanh(x) + x * x)]
    assert np.allclose(got, want, rtol=1e-6)

    def order(out):
        i = tl.arange(0, 12)
        row, column = tl.swizzle2d(i // 4, i % 4, 3, 4, 2)
        tl.store(out + i, row * 10 + column)

    got = result(order, np.int32, 12)
    assert got.tolist() == [0, 10, 1, 11, 2, 12, 3, 13, 20, 21, 22, 23]


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos",
                                  "erf", "floor", "ceil", "abs", "sqrt_rn"])  # fmt: skip
def test_functions_of_floats(name):
    import torch

    kernel = from_text(f"""
        def kernel(out, x):
            i = tl.arange(0, 4)
            tl.store(out + i, tl.{name}(tl.load(x + i)))
    """)
    x = np.array([0.25, 1.5, 2.75, 9], np.float32)
    want = getattr(torch, name.removesuffix("_rn"))(torch.from_numpy(x)).numpy()
    assert np.allclose(result(kernel, np.float32, 4, x=x), want, rtol=3e-7)


def test_odd_spellings_are_accepted():
    def kernel(out, n):
        """A docstring."""
        a = b = n
        (c, d), e = (a, b), 3
        if (f := c + 1) > 2:
            d += f
        x: tl.int32 = d
        pass  # noqa: PIE790
        tl.store(out, x + e)

    module, remarks = lowered(kernel, out=np.zeros(1, np.int32), n=7)
    texts = [r.text for r in remarks.items]
    assert "not portable to Triton: an assignment to several targets" in texts
    assert "not portable to Triton: an assignment inside an expression" in texts
    assert all(r.span is not None for r in remarks.items)
    assert result(kernel, np.int32, n=7) == [7 + 8 + 3]
    assert module.name == "kernel"


@pytest.mark.parametrize("after", [False, True])
def test_a_loop_variable_is_not_portable_where_it_is_read_after_its_loop(after: bool):
    kernel = from_text(f"""
        def kernel(out, n):
            if n > 9:
                return
            total = 0
            for i in range(n):
                total += i
            tl.store(out, total{" + i" if after else ""})
    """)
    _, remarks = lowered(kernel, out=np.zeros(1, np.int32), n=7)
    said = [r for r in remarks.items if r.text.startswith("not portable to Triton: the loop")]
    assert bool(said) == after
    assert result(kernel, np.int32, n=7) == [21 + 6 * after]
