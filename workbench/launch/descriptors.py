"""Descriptors that the host makes: an array with the block in which kernels access it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workbench.source import LaunchError

MOST_AXES = 5


@dataclass
class TensorDescriptor:
    """An array that a kernel accesses in blocks, with bounds checked along every axis.

    Fields may be changed between launches; hooks of configurations set `block_shape`.

    Attributes:
        base: the array.
        shape: extents of the array.
        strides: steps between elements along each axis, in elements.
        block_shape: extents of the blocks.
        padding: what reads outside the array give: "zero" or "nan".
    """

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    padding: str = "zero"

    def __post_init__(self) -> None:
        """Check that the fields fit together."""
        rank = len(self.shape)
        if not len(self.strides) == len(self.block_shape) == rank:
            raise _wrong(
                f"shape, strides and block_shape have {rank}, {len(self.strides)} and "
                f"{len(self.block_shape)} axes",
                "give one value per axis in each",
            )
        if not 1 <= rank <= MOST_AXES:
            raise _wrong(f"it has {rank} axes", f"a descriptor has 1 to {MOST_AXES}")
        if any(int(extent) < 1 for extent in (*self.shape, *self.block_shape)):
            raise _wrong("an extent is smaller than 1", "extents are positive")
        if self.padding not in ("zero", "nan"):
            raise _wrong(f"padding is {self.padding!r}", 'padding is "zero" or "nan"')

    @staticmethod
    def from_tensor(
        tensor: Any, block_shape: Sequence[int], padding: str = "zero"
    ) -> TensorDescriptor:
        """Return the descriptor of a whole tensor."""
        return TensorDescriptor(tensor, tensor.shape, tensor.stride(), block_shape, padding)

    def __getitem__(self, place: int) -> Any:
        """Return base, shape or strides by place: what the kernel receives, in order."""
        return (self.base, self.shape, self.strides)[place]


class DescriptorError(LaunchError, AssertionError):
    """A descriptor that does not fit together (an AssertionError as in Triton)."""

    code = "K501"


def _wrong(found: str, hint: str) -> DescriptorError:
    return DescriptorError(f"this is no tensor descriptor: {found}", hint=hint)
