"""What may stand where a kernel takes a tensor: a dtype alone, a tensor read otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class MockTensor:
    """A dtype (and shape) in place of a tensor, for compiling without data.

    kernel.warmup(MockTensor(torch.float32), 100, grid=(1,))
    """

    def __init__(self, dtype: Any, shape: Sequence[int] | None = None) -> None:
        self.dtype = dtype
        self.shape = [1] if shape is None else list(shape)

    @staticmethod
    def wrap_dtype(arg: Any) -> Any:
        """Return a MockTensor for a torch dtype, anything else as it is."""
        kind = type(arg)
        is_dtype = kind.__name__ == "dtype" and kind.__module__ == "torch"
        return MockTensor(arg) if is_dtype else arg

    def stride(self) -> tuple[int, ...]:
        """Return the strides of a contiguous tensor of this shape."""
        strides = [1]
        for size in reversed(self.shape[1:]):
            strides.append(strides[-1] * size)
        return tuple(reversed(strides))

    @staticmethod
    def data_ptr() -> int:
        """Return an address that 16 divides: real tensors are hoped to be aligned as well."""
        return 0


class TensorWrapper:
    """A tensor whose memory a kernel reads as elements of another dtype.

    Attributes:
        base: the tensor.
        dtype: the dtype, torch's or the kernel language's.
    """

    def __init__(self, base: Any, dtype: Any) -> None:
        self.base = base
        self.dtype = dtype
        self.data = base.data
        self.device = base.device
        self.shape = base.shape

    def data_ptr(self) -> int:
        """Return the tensor's address."""
        return self.base.data_ptr()

    def get_device(self) -> int:
        """Return the tensor's device number, -1 for the host."""
        return self.base.get_device()

    def stride(self, *args: int) -> Any:
        """Return the tensor's strides, or one of them."""
        return self.base.stride(*args)

    def element_size(self) -> int:
        """Return the bytes of an element."""
        return self.base.element_size()

    def untyped_storage(self) -> Any:
        """Return the tensor's memory."""
        return self.base.untyped_storage()

    def cpu(self) -> TensorWrapper:
        """Return a copy on the host, read in the same way."""
        return TensorWrapper(self.base.cpu(), self.dtype)

    def to(self, device: Any) -> TensorWrapper:
        """Return a copy on another device, read in the same way."""
        return TensorWrapper(self.base.to(device), self.dtype)

    def clone(self) -> TensorWrapper:
        """Return a copy, read in the same way."""
        return TensorWrapper(self.base.clone(), self.dtype)

    def copy_(self, other: TensorWrapper) -> None:
        """Copy another wrapped tensor's elements here."""
        self.base.copy_(other.base)

    def zero_(self) -> None:
        """Set all elements to zero."""
        self.base.zero_()

    def new_empty(self, sizes: Sequence[int]) -> TensorWrapper:
        """Return an uninitialised tensor of other extents, read in the same way."""
        return TensorWrapper(self.base.new_empty(sizes), self.dtype)

    def __str__(self) -> str:
        return f"TensorWrapper[{self.dtype}]({self.base})"


def reinterpret(tensor: Any, dtype: Any) -> Any:
    """Return a tensor whose memory kernels read as elements of `dtype`."""
    if isinstance(tensor, TensorWrapper):
        same = dtype == tensor.base.dtype
        return tensor.base if same else TensorWrapper(tensor.base, dtype)
    if hasattr(tensor, "data_ptr"):
        return TensorWrapper(tensor, dtype)
    raise TypeError(f"a {type(tensor).__name__} has no memory to reinterpret; pass a tensor")
