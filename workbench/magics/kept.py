"""Copies of the memory that a launch writes, to be put back later."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.bench.arrays import is_array, is_tensor
from workbench.runtime.jit import LaunchRecord
from workbench.source import shown


@dataclass(slots=True)
class Kept:
    """What some memory held: each storage of torch, or array of NumPy, with a copy.

    `lost` says why it is not all of what a launch wrote; empty if it is.
    """

    copies: list[tuple[Any, Any]] = field(default_factory=list[tuple[Any, Any]])
    lost: str = ""

    @classmethod
    def of(cls, launch: LaunchRecord, spare: Kept | None = None) -> Kept:
        """Copy what a launch may write, into the copies of `spare` where they are of the same."""
        torch: Any = sys.modules.get("torch")
        if torch is not None and launch.device >= 0 and torch.cuda.is_current_stream_capturing():
            return cls(lost="it was captured in a graph, and has not run")
        kept = cls()
        written = {name.split(".")[0] for name in launch.kernel.outputs}
        for name in written & launch.values.keys():
            arrays = list(_arrays(launch.values[name]))
            if not arrays:
                kept.lost = f"{name} is no array, so what lies there cannot be put back"
            try:
                for array in arrays:
                    kept._copy(array.untyped_storage() if is_tensor(array) else array, spare)
            except (RuntimeError, MemoryError) as error:
                kept.lost = f"there is no copy of {name}: {shown(str(error))}"
        if not written:
            kept.lost = "none of its arguments is known to be written (an address is a number)"
        return kept

    def _copy(self, memory: Any, spare: Kept | None) -> None:
        if any(_same(memory, known) for known, _ in self.copies):
            return
        for known, copy in spare.copies if spare is not None else ():
            if _same(memory, known) and _size(memory) == _size(copy):
                _fill(copy, memory)
                self.copies.append((memory, copy))
                return
        copy = memory.copy() if isinstance(memory, np.ndarray) else memory.clone()
        self.copies.append((memory, copy))

    def now(self) -> Kept:
        """Return what the same memory holds now."""
        later = Kept()
        for memory, _ in self.copies:
            later._copy(memory, None)
        return later

    def put_back(self) -> None:
        """Have the memory hold it again; what has been made larger or read-only since is left."""
        for memory, copy in self.copies:
            writable = not isinstance(memory, np.ndarray) or memory.flags.writeable
            if writable and _size(memory) == _size(copy):
                _fill(memory, copy)


def _arrays(value: Any) -> Iterator[Any]:
    """Yield the arrays that an argument is made of: itself, a descriptor's, a tuple's."""
    if is_array(value):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _arrays(item)
    elif is_array(getattr(value, "base", None)):
        yield value.base


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return a is b
    return a.data_ptr() == b.data_ptr() and a.device == b.device


def _size(memory: Any) -> int:
    return memory.nbytes if isinstance(memory, np.ndarray) else memory.nbytes()


def _fill(memory: Any, values: Any) -> None:
    if isinstance(memory, np.ndarray):
        memory[...] = values
    else:
        memory.copy_(values)
