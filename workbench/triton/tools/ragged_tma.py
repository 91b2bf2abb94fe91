"""`triton.tools.ragged_tma`: one descriptor for arrays of different lengths behind each other.

Rows of all arrays lie in one tensor. The descriptor has two more axes in front, whose strides
cancel modulo 2^64: with the right offsets along them, the bounds of the third cut at an array's
end.
"""

# pyright: reportArgumentType=false, reportOperatorIssue=false
from __future__ import annotations

from typing import Any

import workbench.language as tl
from workbench.launch.descriptors import TensorDescriptor
from workbench.runtime.jit import jit

_ROWS = 1 << 30
_MOST = 0x7FFF0000


def create_ragged_descriptor(T: Any, block_shape: Any, ragged_dim: int = 0) -> TensorDescriptor:
    """Return a descriptor of a tensor whose axis `ragged_dim` holds arrays of several lengths.

    Raises ValueError for the last axis, more than 3 axes, or more than 2^30 rows.
    """
    shape, block = list(T.shape), list(block_shape)
    rank = len(shape)
    axis = ragged_dim + rank if ragged_dim < 0 else ragged_dim
    if not 0 <= axis < rank - 1 or rank > 3 or len(block) != rank or shape[axis] > _ROWS:
        raise ValueError(f"no ragged descriptor of shape {shape} in blocks {block} along {axis}")
    stride = T.stride(axis)
    shape[axis] = _ROWS
    strides = [2**34 - stride, stride, *(T.stride(i) for i in range(rank))]
    return TensorDescriptor(T, [_MOST, _MOST, *shape], strides, [1, 1, *block])


@jit
def to_ragged_indices(batch_offset, batch_size, row):  # noqa: ANN001, ANN201 - device functions
    """Return the offsets along the first two axes and the ragged one."""
    rows = 1073741824
    return rows, batch_offset + batch_size, rows - batch_size + row


@jit
def load_ragged(TMA, batch_offset, batch_size, coords, ragged_dim: tl.constexpr = 0):  # noqa: ANN001, ANN201
    """Return a block of one array; what lies past its end is 0."""
    first, second, row = to_ragged_indices(batch_offset, batch_size, coords[ragged_dim])
    data = TMA.load((first, second, *coords[:ragged_dim], row, *coords[ragged_dim + 1 :]))
    return tl.reshape(data, data.shape[2:])


@jit
def store_ragged(TMA, batch_offset, batch_size, coords, data, ragged_dim: tl.constexpr = 0):  # noqa: ANN001, ANN201
    """Write a block of one array; what lies past its end is dropped."""
    first, second, row = to_ragged_indices(batch_offset, batch_size, coords[ragged_dim])
    block = tl.reshape(data, (1, 1, *data.shape))
    TMA.store((first, second, *coords[:ragged_dim], row, *coords[ragged_dim + 1 :]), block)


@jit
def atomic_add_ragged(TMA, batch_offset, batch_size, coords, data, ragged_dim: tl.constexpr = 0):  # noqa: ANN001, ANN201
    """Add a block to one array at once."""
    first, second, row = to_ragged_indices(batch_offset, batch_size, coords[ragged_dim])
    block = tl.reshape(data, (1, 1, *data.shape))
    TMA.atomic_add((first, second, *coords[:ragged_dim], row, *coords[ragged_dim + 1 :]), block)


__all__ = [
    "atomic_add_ragged", "create_ragged_descriptor", "load_ragged", "store_ragged",
    "to_ragged_indices",
]  # fmt: skip
