"""How much of compiled kernels stays in memory: the latest used, up to a number of bytes.

A compilation leaves modules, texts and a trace behind, some hundred kilobytes for people to look
at. A kernel can make all of it again from its source, with the same ids and the same texts, so what
was not used for long is let go. What a launch needs is not counted here and stays.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol
from weakref import ref

from workbench.interrupts import renewed_lock
from workbench.source import limit_of


class Retaining(Protocol):
    """A kernel that can let go what it can make again."""

    def release(self) -> bool:
        """Let go; what is asked for afterwards is made again. False: not now."""
        ...


class Kept:
    """The kernels that hold something, the latest used last."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._sizes: OrderedDict[int, tuple[ref[Retaining], int]] = OrderedDict()
        self._lock = renewed_lock()

    def __len__(self) -> int:
        return len(self._sizes)

    def hold(self, kernel: Retaining, size: int) -> None:
        """Count what a kernel holds now; the longest unused let go until the rest fits.

        The kernel itself keeps what it holds, however large.
        """
        number = id(kernel)
        with self._lock:
            self._forget(number)
            self._put_back(kernel, size)
            old = self._oldest(self.total - self.limit, kernel)
        for inner, its_size in old:
            if not inner.release():
                self._put_back(inner, its_size)

    def _put_back(self, kernel: Retaining, size: int) -> None:
        number = id(kernel)
        with self._lock:
            if number not in self._sizes:
                self._sizes[number] = (ref(kernel, lambda _: self._gone(number)), size)
                self.total += size

    def use(self, kernel: Retaining) -> None:
        """Remember that a kernel was looked at."""
        with self._lock:
            if id(kernel) in self._sizes:
                self._sizes.move_to_end(id(kernel))

    def _oldest(self, excess: int, but: Retaining) -> list[tuple[Retaining, int]]:
        """Take the longest unused kernels out, until so many bytes are free."""
        found: list[tuple[Retaining, int]] = []
        for number, (kernel, size) in list(self._sizes.items()):
            if excess <= 0:
                break
            if number == id(but):
                continue
            self._forget(number)
            excess -= size
            alive = kernel()
            if alive is not None:
                found.append((alive, size))
        return found

    def _forget(self, number: int) -> None:
        known = self._sizes.pop(number, None)
        if known is not None:
            self.total -= known[1]

    def _gone(self, number: int) -> None:
        with self._lock:
            self._forget(number)


#: What this process keeps.
KEPT = Kept(limit_of("kept"))
