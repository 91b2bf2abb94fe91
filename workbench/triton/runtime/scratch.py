"""`triton.runtime._allocation`: allocators of scratch memory, which no kernel here needs."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol


class Buffer(Protocol):
    """Memory by its address."""

    def data_ptr(self) -> int:
        """Return the address."""
        ...


class Allocator(Protocol):
    """Gives memory of a device."""

    def __call__(self, size: int, alignment: int, stream: int | None) -> Buffer:
        """Return so many bytes."""
        ...


class NullAllocator:
    """Stands for an allocator that nobody has set."""

    def __call__(self, size: int, alignment: int, stream: int | None) -> Buffer:
        """Raise RuntimeError: there is no allocator."""
        raise RuntimeError("no allocator was set; triton.set_allocator sets one")


_NULL_ALLOCATOR = NullAllocator()
_allocator: ContextVar[Allocator] = ContextVar("_allocator", default=_NULL_ALLOCATOR)
_profile_allocator: ContextVar[Allocator] = ContextVar("_profile", default=_NULL_ALLOCATOR)


def set_allocator(allocator: Allocator) -> None:
    """Accept an allocator; descriptors made in a kernel need no memory of the host's here."""
    _allocator.set(allocator)


def set_profile_allocator(allocator: Allocator | None) -> None:
    """Accept an allocator; kernels here write no profile."""
    _profile_allocator.set(_NULL_ALLOCATOR if allocator is None else allocator)


__all__: list[Any] = [
    "Allocator", "Buffer", "NullAllocator", "set_allocator", "set_profile_allocator",
]  # fmt: skip
