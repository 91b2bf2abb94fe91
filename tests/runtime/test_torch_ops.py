from __future__ import annotations

import pytest

import workbench as wb
from workbench import tl

torch = pytest.importorskip("torch")
Tensor = torch.Tensor


@wb.jit
def scale_kernel(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * factor, mask=mask)


@wb.jit
def square_sums_kernel(x_ptr, out_ptr, sums_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + row * n + offsets, mask=mask, other=0.0)
    tl.store(out_ptr + row * n + offsets, x * x, mask=mask)
    tl.store(sums_ptr + row, tl.sum(x, 0))


tuned_scale = wb.autotune(
    [wb.Config({"BLOCK": 16}), wb.Config({"BLOCK": 64})],
    key=["n"],
    restore_value=["out_ptr"],
    rep=1,
    warmup=0,
)(scale_kernel.fn)


def blocks(meta):
    return (wb.cdiv(meta["n"], meta["BLOCK"]),)


@wb.torch_op("workbench_tests::scale_backward")
def scale_backward(grad: Tensor, factor: float) -> Tensor:
    out = torch.empty_like(grad)
    scale_kernel[blocks](grad.contiguous(), out, grad.numel(), factor, BLOCK=32)
    return out


def backward(ctx, grad):
    return scale_backward(grad, ctx.others["factor"]), None


@wb.torch_op("workbench_tests::scale", backward=backward)
def scale(x: Tensor, factor: float) -> Tensor:
    out = torch.empty_like(x)
    scale_kernel[blocks](x, out, x.numel(), factor, BLOCK=32)
    return out


@wb.torch_op(name="workbench_tests::square_sums")
def square_sums(x: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = x.shape
    out, sums = torch.empty_like(x), x.new_empty(rows)
    block = wb.next_power_of_2(columns)
    square_sums_kernel[(rows,)](x, out, sums, columns, BLOCK=block)
    return out, sums


@wb.torch_op("workbench_tests::scale_", mutates_args={"x"})
def scale_(x: Tensor, *, factor: float) -> None:
    tuned_scale[blocks](x, x, x.numel(), factor)


def sample(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def test_an_operator_computes():
    x = sample(5, 7)
    assert torch.equal(scale(x, 3.0), x * 3)
    out, sums = square_sums(x)
    assert torch.equal(out, x * x)
    assert torch.allclose(sums, x.sum(1), atol=1e-5)
    assert scale.__name__ == "scale"
    assert torch.ops.workbench_tests.scale is not None


@pytest.mark.parametrize(
    ("op", "arguments", "keywords"),
    [
        (scale, lambda: (sample(5, 7).requires_grad_(), 3.0), {}),
        (scale, lambda: (sample(64), 0.5), {}),
        (square_sums, lambda: (sample(3, 17),), {}),
        (scale_, lambda: (sample(40),), {"factor": 2.0}),
    ],
)
def test_torch_finds_no_fault(op, arguments, keywords):
    found = torch.library.opcheck(op, arguments(), keywords)
    assert set(found.values()) == {"SUCCESS"}


def test_an_operator_in_place():
    x = torch.ones(40)
    scale_(x, factor=2.0)
    assert x.tolist() == [2.0] * 40


def test_gradients():
    x = sample(4, 3).double().float().requires_grad_()
    scale(x, 3.0).sum().backward()
    assert torch.equal(x.grad, torch.full_like(x, 3.0))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_no_graph_break(backend, dynamic):
    def function(x):
        out, sums = square_sums(torch.sin(x))
        scale_(out, factor=2.0)
        return scale(out, 3.0).cos() + sums[:, None]

    torch._dynamo.reset()
    compiled = torch.compile(function, backend=backend, fullgraph=True, dynamic=dynamic)
    for shape in ((5, 7), (6, 9)):
        x = sample(*shape)
        assert torch.allclose(compiled(x), function(x))


def test_no_graph_break_in_training():
    torch._dynamo.reset()
    x, y = (sample(5, 7).requires_grad_() for _ in range(2))
    torch.compile(lambda x: scale(x * x, 3.0).sum(), backend="aot_eager", fullgraph=True)(
        x
    ).backward()
    (3 * y * y).sum().backward()
    assert torch.allclose(x.grad, y.grad)


def test_a_rule_of_the_users():
    seen = []

    def fake(x, n):
        seen.append(n)
        return x.new_empty(n)

    @wb.torch_op("workbench_tests::take", fake=fake)
    def take(x: Tensor, n: int) -> Tensor:
        assert type(x) is Tensor
        out = x.new_empty(n)
        scale_kernel[(1,)](x, out, n, 1.0, BLOCK=32)
        return out

    x = sample(20)
    compiled = torch.compile(lambda x: take(x, 5) + 1, backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), x[:5] + 1)
    assert seen


def test_an_operator_can_be_defined_again():
    def first(x: Tensor) -> Tensor:
        return x + 1

    def second(x: Tensor) -> Tensor:
        return x + 2

    for function, wanted in ((first, 1), (second, 2)):
        op = wb.torch_op(function, name="workbench_tests::again")
        assert op(torch.zeros(1)).item() == wanted


def test_a_function_without_annotations():
    with pytest.raises(wb.KernelError, match="torch makes no operator of plain: ") as caught:
        wb.torch_op(plain)
    assert caught.value.code == "K133"


def plain(x):
    return x


def test_a_launch_over_a_tensor_without_memory():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(8)
        with pytest.raises(wb.KernelError, match="x_ptr is a FakeTensor, which has no memory"):
            scale_kernel[(1,)](x, x, 8, 1.0, BLOCK=8)
