"""Allocators of scratch memory, which some of Triton's kernels need and none of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: allocate(bytes, alignment, stream) -> something with `data_ptr()`
Allocator = Callable[[int, int, int | None], Any]

_allocators: list[Allocator] = []


def set_allocator(allocator: Allocator) -> None:
    """Accept an allocator; descriptors made in a kernel need no memory of the host's here."""
    _allocators[:] = [allocator]
