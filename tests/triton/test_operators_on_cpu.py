"""`as_triton(cuda="cpu")`: operators that libraries register with torch."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.triton.test_on_cpu import pretended, scale
from workbench.devices import arrays

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("pretended")
__all__ = ["pretended"]


@pytest.fixture
def library():
    with torch.library._scoped_library("wbtest", "FRAGMENT") as found:
        yield found


def on_cuda(x: torch.Tensor) -> torch.Tensor:
    """What a library's kernel does: asks for CUDA, makes a tensor there, launches."""
    return scale(x, 2.0) + torch.ones(len(x), device="cuda")


def test_one_for_cuda_alone(library):
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", on_cuda, "CUDA")
    x = torch.arange(5.0, device="cuda")
    y = torch.ops.wbtest.twice(x)
    assert y.is_cuda
    torch.testing.assert_close(y, 2 * x + 1)
    with pytest.raises(NotImplementedError, match=r"wbtest::twice has no kernel for CPU.*for CUDA"):
        torch.ops.wbtest.twice(x.cpu())


@pytest.mark.parametrize("first", ["CPU", "CUDA"])
def test_one_for_each_side(library, first):
    kernels = {"CUDA": on_cuda, "CPU": lambda x: x * 5}
    library.define("either(Tensor x) -> Tensor")
    for side in (first, *(other for other in kernels if other != first)):
        library.impl("either", kernels[side], side)
    x = torch.arange(5.0, device="cuda")
    torch.testing.assert_close(torch.ops.wbtest.either(x), 2 * x + 1)
    torch.testing.assert_close(torch.ops.wbtest.either(x.cpu()), 5 * x.cpu())


def test_a_kernel_before_the_definition(library):
    library.impl("early", on_cuda, "CUDA")
    library.define("early(Tensor x) -> Tensor")
    x = torch.arange(5.0, device="cuda")
    torch.testing.assert_close(torch.ops.wbtest.early(x), 2 * x + 1)


def test_one_for_the_gradient_on_cuda_alone(library):
    library.define("through(Tensor x) -> Tensor")
    library.impl("through", on_cuda, "AutogradCUDA")
    x = torch.arange(5.0, device="cuda")
    torch.testing.assert_close(torch.ops.wbtest.through(x), 2 * x + 1)
    with pytest.raises(NotImplementedError, match="wbtest::through"):
        torch.ops.wbtest.through(x.cpu())


@pytest.mark.parametrize("overload", ["", ".out_of_place"])
def test_a_gradient_on_cuda_leaves_the_host_alone(library, overload):
    class Through(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            with torch._C._AutoDispatchBelowAutograd():
                return call(x)

        @staticmethod
        def backward(context, gradient):
            return gradient * 7

    library.define(f"beside{overload}(Tensor x) -> Tensor")
    library.impl(f"beside{overload}", Through.apply, "AutogradCUDA")
    library.impl(f"beside{overload}", on_cuda, "CUDA")
    library.impl(f"beside{overload}", lambda x: x * 5, "CPU")
    call = getattr(torch.ops.wbtest.beside, overload[1:] or "default")
    x = torch.arange(5.0, device="cuda", requires_grad=True)
    y = call(x)
    y.sum().backward()
    torch.testing.assert_close(y, 2 * x + 1)
    torch.testing.assert_close(x.grad, torch.full_like(x, 7.0))
    torch.testing.assert_close(call(torch.ones(3)), torch.full((3,), 5.0))


@pytest.mark.parametrize("given", [{}, {"device_types": "cuda"}])
def test_a_custom_op_and_its_gradient(given):
    @torch.library.custom_op("wbtest::mine", mutates_args=(), **given)
    def mine(x: torch.Tensor) -> torch.Tensor:
        return on_cuda(x)

    def backward(context, gradient):
        assert gradient.is_cuda
        return scale(gradient.contiguous(), 2.0)

    mine.register_autograd(backward)
    x = torch.arange(5.0, device="cuda", requires_grad=True)
    y = mine(x)
    assert y.is_cuda
    y.sum().backward()
    torch.testing.assert_close(y, 2 * x + 1)
    torch.testing.assert_close(x.grad, torch.full_like(x, 2.0))


def test_ours():
    @wb.torch_op("wbtest::ours")
    def ours(x: torch.Tensor) -> torch.Tensor:
        return on_cuda(x)

    x = torch.arange(5.0, device="cuda")
    torch.testing.assert_close(ours(x), 2 * x + 1)


def test_a_library_that_comes_back():
    for factor in (2.0, 3.0):
        with torch.library._scoped_library("wbtest", "FRAGMENT") as library:
            library.define("again(Tensor x) -> Tensor")
            library.impl("again", lambda x, factor=factor: scale(x, factor), "CUDA")
            x = torch.arange(5.0, device="cuda")
            torch.testing.assert_close(torch.ops.wbtest.again(x), factor * x)


def test_what_torch_has_stays_torchs(library):
    with torch.library._scoped_library("aten", "IMPL") as aten:
        aten.impl("hardshrink", on_cuda, "CUDA")
        x = torch.arange(-2.0, 2.0, device="cuda")
        torch.testing.assert_close(torch.nn.functional.hardshrink(x, 1.5), x * (x.abs() > 1.5))


def test_afterwards_it_is_for_cuda_alone(library):
    library.define("later(Tensor x) -> Tensor")
    library.impl("later", on_cuda, "CUDA")
    x = torch.ones(3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "pretended", False)
        with pytest.raises(NotImplementedError, match="no kernel for CPU"):
            torch.ops.wbtest.later(x)
