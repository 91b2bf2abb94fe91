"""Microscaling formats (OCP MX 1.0) on torch tensors: e2m1 elements and e8m0 scales.

e2m1: s ee m, values 0 0.5 1 1.5 2 3 4 6 with a sign; two elements per byte, the first low
e8m0: 2 ** (byte - 127); 255 is NaN
"""

from __future__ import annotations

import importlib
import math
from typing import Any

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
BIAS = 127
NAN = 255


def _torch() -> Any:
    return importlib.import_module("torch")


class _Coded:
    """A tensor of bytes, each the code of one number.

    Attributes:
        data: the codes.
        size: the extents, where `random` is to make the codes.
        device: where it lies.
    """

    def __init__(self, data: Any = None, size: Any = None, device: Any = None) -> None:
        if data is None and size is None:
            raise ValueError("give data or size")
        self.device = device if data is None else data.device
        if data is not None:
            self.data = self._from_float(data)
        else:
            self.size = size if isinstance(size, tuple) else (size,)

    def _from_float(self, values: Any) -> Any:
        raise TypeError(f"{type(self).__name__} has no codes")


class MXFP4Tensor(_Coded):
    """A tensor of e2m1 numbers."""

    def random(self) -> MXFP4Tensor:
        """Fill it with random codes."""
        torch = _torch()
        self.data = torch.randint(0, 16, self.size, dtype=torch.uint8, device=self.device)
        return self

    def to(self, dtype: Any) -> Any:
        """Return the numbers as a tensor of `dtype`."""
        torch = _torch()
        table = torch.tensor([*E2M1, *(-value for value in E2M1)], device=self.data.device)
        return table[self.data.long()].to(dtype)

    def _from_float(self, values: Any) -> Any:
        """Round to the nearest e2m1 number, ties to the even code; too large becomes 6."""
        torch = _torch()
        table = torch.tensor(E2M1, device=values.device, dtype=torch.float64)
        middles = (table[1:] + table[:-1]) / 2
        size = values.abs().double().clamp(max=E2M1[-1]).contiguous()
        below, above = torch.bucketize(size, middles), torch.bucketize(size, middles, right=True)
        code = torch.where(below % 2 == 0, below, above)
        return (code | (torch.signbit(values).long() << 3)).to(torch.uint8)

    def to_packed_tensor(self, dim: int) -> Any:
        """Return the codes with two neighbours along `dim` in each byte, the first one low."""
        torch = _torch()
        data = self.data.movedim(dim, -1)
        if data.shape[-1] % 2:
            data = torch.nn.functional.pad(data, (0, 1))
        return (data[..., 0::2] | (data[..., 1::2] << 4)).movedim(-1, dim).contiguous()

    def unpack_packed_tensor(self, packed_tensor: Any, dim: int, original_shape: Any) -> Any:
        """Return the codes of a packed tensor, one per byte, in their original extents."""
        torch = _torch()
        packed = packed_tensor.movedim(dim, -1)
        codes = torch.stack((packed & 15, packed >> 4), -1).flatten(-2)
        return codes[..., : original_shape[dim]].movedim(-1, dim).contiguous()


class MXScaleTensor(_Coded):
    """A tensor of e8m0 scales."""

    def random(self, low: float | None = None, high: float | None = None) -> MXScaleTensor:
        """Fill it with random scales between two numbers; none is NaN."""
        torch = _torch()
        first = 0 if low is None else max(0, int(math.log2(low)) + BIAS)
        last = 254 if high is None else min(254, max(0, int(math.log2(high)) + BIAS))
        if first > last:
            raise ValueError(f"no scale lies between {low} and {high}")
        self.data = torch.randint(first, last + 1, self.size, dtype=torch.uint8, device=self.device)
        return self

    def to(self, dtype: Any) -> Any:
        """Return the scales as a tensor of `dtype`."""
        torch = _torch()
        exponents = self.data.double() - BIAS
        return torch.where(self.data == NAN, torch.nan, torch.exp2(exponents)).to(dtype)

    def _from_float(self, values: Any) -> Any:
        """Take the power of two below each number; what has none becomes NaN."""
        torch = _torch()
        valid = torch.isfinite(values) & (values > 0)
        exponents = torch.floor(torch.log2(torch.where(valid, values, 1.0))) + BIAS
        codes = exponents.clamp(0, 254).to(torch.uint8)
        return torch.where(valid, codes, torch.full_like(codes, NAN))
