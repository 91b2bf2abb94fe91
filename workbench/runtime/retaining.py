"""How much of compiled kernels stays in memory: the latest used, up to a number of bytes.

Which kernels are found again (`Latest`): all that somebody holds, and the latest used of the rest.

A compilation leaves modules, texts and a trace behind, some hundred kilobytes for people to look
at. A kernel can make all of it again from its source, with the same ids and the same texts, so what
was not used for long is let go. What a launch needs is not counted here and stays.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, Protocol, TypeVar
from weakref import ref

from workbench.interrupts import renewed_lock
from workbench.source import limit_of


class Retaining(Protocol):
    """A kernel that can let go what it can make again."""

    def release(self) -> bool:
        """Let go; what is asked for afterwards is made again. False: not now."""
        ...


class Kept:
    """The kernels that hold something, the latest used last.

    Who is gone is noticed when somebody asks: what runs where an object dies can be interrupted,
    and a KeyboardInterrupt that comes then is lost.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._total = 0
        self._sizes: OrderedDict[int, tuple[ref[Retaining], int]] = OrderedDict()
        self._lock = renewed_lock()

    def __len__(self) -> int:
        with self._lock:
            self._sweep()
            return len(self._sizes)

    @property
    def total(self) -> int:
        """How many bytes are held."""
        with self._lock:
            self._sweep()
            return self._total

    def hold(self, kernel: Retaining, size: int) -> None:
        """Count what a kernel holds now; the longest unused let go until the rest fits.

        The kernel itself keeps what it holds, however large.
        """
        number = id(kernel)
        with self._lock:
            self._forget(number)
            self._put_back(kernel, size)
            if self._total > self.limit:
                self._sweep()
            old = self._oldest(self._total - self.limit, kernel)
        for inner, its_size in old:
            if not inner.release():
                self._put_back(inner, its_size)

    def _put_back(self, kernel: Retaining, size: int) -> None:
        number = id(kernel)
        with self._lock:
            if not self._has(kernel):
                self._forget(number)  # one that is gone and had the same number
                self._sizes[number] = (ref(kernel), size)
                self._total += size

    def use(self, kernel: Retaining) -> None:
        """Remember that a kernel was looked at."""
        with self._lock:
            if self._has(kernel):
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
            self._total -= known[1]

    def _has(self, kernel: Retaining) -> bool:
        known = self._sizes.get(id(kernel))
        return known is not None and known[0]() is kernel

    def _sweep(self) -> None:
        for number, (kernel, _) in list(self._sizes.items()):
            if kernel() is None:
                self._forget(number)


Held = TypeVar("Held")


class Latest(Generic[Held]):
    """Values by key: all that somebody holds, and the latest used of those that nobody does.

    As in `Kept`, who is gone is noticed when somebody asks.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: dict[str, ref[Held]] = {}
        self._used: OrderedDict[str, Held] = OrderedDict()
        self._sweep_at = 2 * most
        self._lock = renewed_lock()

    def __len__(self) -> int:
        with self._lock:
            self._sweep()
            return len(self._known)

    def get(self, key: str) -> Held | None:
        """Return the value of a key, None if there is none or it is gone."""
        with self._lock:
            known = self._known.get(key)
            value = None if known is None else known()
            if value is not None:
                self._use(key, value)
            return value

    def __setitem__(self, key: str, value: Held) -> None:
        with self._lock:
            self._known[key] = ref(value)
            self._use(key, value)
            if len(self._known) > self._sweep_at:
                self._sweep()
                self._sweep_at = 2 * max(self.most, len(self._known))

    def setdefault(self, key: str, value: Held) -> Held:
        """Return the value of a key, which is this one if there was none."""
        with self._lock:
            found = self.get(key)
            if found is None:
                self[key] = found = value
            return found

    def clear(self) -> None:
        """Forget all values, held or not."""
        with self._lock:
            self._known.clear()
            self._used.clear()

    def _use(self, key: str, value: Held) -> None:
        self._used[key] = value
        self._used.move_to_end(key)
        if len(self._used) > self.most:
            self._used.popitem(last=False)

    def _sweep(self) -> None:
        for key, known in list(self._known.items()):
            if known() is None:
                del self._known[key]


#: What this process keeps.
KEPT = Kept(limit_of("kept"))
