"""Global memory as a table of allocations by address.

Arguments live where they are: an allocation is a view of the argument's own bytes, so what a
kernel writes is in the caller's array at once. What an argument may be reached through is its
*storage*: the memory of which it is a view (`storage_of`), so that halos and packed arrays are
right. An access outside never happens; it is found out before and handed to the caller of `Memory`
as the place where it went.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workbench.ir import Array

_U8 = np.dtype(np.uint8)
#: Bytes of a page; nothing that a pointer leads to lies in the first one.
PAGE = 4096
_NEAR = 256  # pages: what lies further apart is entered apart


class Places(NamedTuple):
    """Elements in the bytes of an allocation: an array, and the indices of each in it.

    Elements that do not lie at multiples of their size are taken apart into bytes, one row each.
    """

    held: Array
    indices: Array
    dtype: np.dtype[Any]

    def read(self) -> Array:
        """Return the bits of the elements."""
        found = self.held[self.indices]
        if found.ndim == 1:
            return found
        return np.ascontiguousarray(found).view(self.dtype).ravel()

    def write(self, bits: Array) -> None:
        """Write the bits of the elements; the last one wins where places repeat."""
        if self.indices.ndim > 1:
            bits = np.ascontiguousarray(bits).view(_U8).reshape(self.indices.shape)
        self.held[self.indices] = bits


class Storage(NamedTuple):
    """The memory that an array is a view of: first byte, past the last, and who may write."""

    start: int
    end: int
    writable: bool


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """The bytes of one argument's storage; `low` to `high` are those that the argument has."""

    name: str
    address: int
    start: int
    end: int
    itemsize: int
    bytes: Array
    owner: Any
    low: int
    high: int
    writable: bool = True

    @property
    def elements(self) -> int:
        """How many elements lie between the first one and the end."""
        return max(0, self.high - self.address) // max(1, self.itemsize)

    def views(self, addresses: Array, size: int) -> bool:
        """Say whether all accesses lie within the argument itself."""
        return bool(addresses.min() >= self.low and addresses.max() <= self.high - size)

    def holds(self, addresses: Array, size: int) -> Array:
        """Say for each address whether all of `size` bytes from there are its own."""
        return (addresses >= self.start) & (addresses <= self.end - size)

    def places(self, addresses: Array, dtype: np.dtype[Any]) -> Places:
        """Return where elements of a type lie at addresses that the allocation holds."""
        offsets = addresses - self.start
        size = dtype.itemsize
        if size == 1 or not np.any(offsets % size):
            whole = self.bytes[: len(self.bytes) // size * size].view(dtype)
            return Places(whole, offsets // size, dtype)
        return Places(self.bytes, offsets[:, None] + np.arange(size), dtype)

    def element_at(self, address: int) -> int:
        """Return which element, counted from the first one, lies at an address."""
        return (address - self.address) // max(1, self.itemsize)


def describe_argument(argument: Any) -> tuple[int, int, int, int, Any] | None:
    """Return (address, lowest byte, past the highest byte, itemsize, owner) of an array argument.

    Arrays are NumPy arrays, anything with `data_ptr()` (torch tensors on the CPU) and anything
    that speaks DLPack. None: the argument is not an array.
    """
    if type(argument).__module__ == "numpy" and hasattr(argument, "ctypes"):
        own: Any = argument
        return _extent(own.ctypes.data, own.shape, own.strides, own.itemsize, own)
    if hasattr(argument, "data_ptr"):
        size = argument.element_size()
        strides = tuple(stride * size for stride in argument.stride())
        return _extent(argument.data_ptr(), tuple(argument.shape), strides, size, argument)
    if hasattr(argument, "__dlpack__"):
        return describe_argument(np.from_dlpack(argument))
    return None


def storage_of(argument: Any) -> Storage | None:
    """Return the memory that an array argument is a view of; None: it is not an array.

    Torch tensors say so; NumPy arrays lie in what is at the end of their `.base`; of anything else
    only the hull of shape and strides is known.
    """
    if hasattr(argument, "untyped_storage"):
        held = argument.untyped_storage()
        start = held.data_ptr()
        return Storage(start, start + held.nbytes(), True)
    if type(argument).__module__ == "numpy" and hasattr(argument, "ctypes"):
        start, end = _owned(argument)
        return Storage(start, end, bool(argument.flags.writeable))
    found = describe_argument(argument)
    if found is None:
        return None
    return Storage(found[1], found[2], getattr(argument, "writable", True))


def _owned(array: Any) -> tuple[int, int]:
    """Return the first byte, and past the last, of what owns a NumPy array's memory."""
    owner = array
    while hasattr(owner.base, "ctypes"):
        owner = owner.base
    _, low, high, _, _ = _extent(
        owner.ctypes.data, owner.shape, owner.strides, owner.itemsize, owner
    )
    base = owner.base
    if base is None:
        return low, high
    if hasattr(base, "untyped_storage"):
        held = base.untyped_storage()
        return held.data_ptr(), held.data_ptr() + held.nbytes()
    try:
        whole = np.frombuffer(base, np.uint8)
    except (TypeError, ValueError, BufferError):  # a capsule, or what has no buffer
        return low, high
    start = whole.ctypes.data
    return (start, start + whole.nbytes) if start <= low and high <= start + whole.nbytes else (
        low, high)  # fmt: skip


def _extent(
    address: int, shape: Sequence[int], strides: Sequence[int], itemsize: int, owner: Any
) -> tuple[int, int, int, int, Any]:
    if prod(shape) == 0:
        return address, address, address, itemsize, owner
    reach = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    low = address + sum(r for r in reach if r < 0)
    high = address + sum(r for r in reach if r > 0) + itemsize
    return address, low, high, itemsize, owner


class Memory:
    """The allocations of one run."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []

    def add(self, name: str, argument: Any) -> int:
        """Enter an array argument and return its address; raises TypeError for anything else."""
        found = describe_argument(argument)
        if found is None:
            raise TypeError(f"{name} is a {type(argument).__name__}, which has no memory")
        address, low, high, itemsize, owner = found
        held = storage_of(argument)
        assert held is not None
        start, end = held.start, held.end
        length = end - start
        raw: Any = (ctypes.c_uint8 * length).from_address(start)
        view: Array = np.frombuffer(raw, np.uint8) if length else np.empty(0, np.uint8)
        self.allocations.append(
            Allocation(
                name, address, start, end, itemsize, view, owner, low, high, held.writable
            )
        )  # fmt: skip
        return address

    def adopt(self, addresses: Array, itemsize: int, *, write: bool = False) -> None:
        """Enter the process's own memory at addresses that no argument holds.

        Pointers may be data: tables of them lead to arrays that nobody passed. What the process
        may read or write is asked of the operating system, so that a wild pointer stays an error.
        """
        pages: Array = np.unique(addresses // PAGE)
        known = [(start, end) for start, end, rights in mapped() if rights & (2 if write else 1)]
        for run in np.split(pages, np.flatnonzero(np.diff(pages) > _NEAR) + 1):
            first, last = int(run[0]) * PAGE, int(run[-1] + 1) * PAGE + itemsize
            for start, end in known:
                self._enter(max(start, first), min(end, last))

    def _enter(self, low: int, high: int) -> None:
        low = max(low, PAGE)
        if low < high:
            raw: Any = (ctypes.c_uint8 * (high - low)).from_address(low)
            view: Array = np.frombuffer(raw, np.uint8)
            name = f"memory at {low:#x}"
            self.allocations.append(Allocation(name, low, low, high, 1, view, None, low, high))

    def locate(self, addresses: Array, itemsize: int, among: Sequence[int] | None = None) -> Array:
        """Return for each address which allocation holds `itemsize` bytes there, -1 for none.

        `among` are the numbers of the allocations that are looked at; None: all.
        """
        found = np.full(addresses.shape, -1, np.int64)
        for number in range(len(self.allocations)) if among is None else among:
            inside = self.allocations[number].holds(addresses, itemsize)
            found[inside & (found < 0)] = number
        return found

    def nearest(self, address: int, among: Sequence[Allocation] = ()) -> Allocation | None:
        """Return the allocation that lies closest to an address, of some or of all."""

        def distance(a: Allocation) -> int:
            return max(a.start - address, address - a.end, 0)

        return min(among or self.allocations, key=distance, default=None)


def mapped() -> list[tuple[int, int, int]]:
    """Return (start, end, rights) of this process's memory, sorted; none off Linux.

    Rights are 1 to read, 2 to write, or both together.
    """
    path = Path("/proc/self/maps")
    if not path.exists():
        return []
    found: list[tuple[int, int, int]] = []
    for line in path.read_text().splitlines():
        extent, rights, _ = line.split(maxsplit=2)
        start, end = extent.split("-")
        found.append((int(start, 16), int(end, 16), (rights[0] == "r") + 2 * (rights[1] == "w")))
    return found
