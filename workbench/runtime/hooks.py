"""Functions that profilers and libraries hang into launches and compilations.

`watchers` is what a launch looks at first: as long as it is empty, launches take their fast path.
Observers of this package, chains that hold functions, and contexts that suppress launches are in
it while they last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from workbench.interrupts import renewed_lock
from workbench.launch.grids import Grid


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """One launch, as observers see it.

    `values` are all parameters by name, as given, `options` what else the call gave (`num_warps`),
    `asked_grid` the grid as given: a function of the constexprs, or `grid` itself.
    """

    kernel: Any
    grid: Grid
    values: Mapping[str, Any]
    device: int
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    asked_grid: Any = None


#: Everything that wants to see launches; empty while nobody does.
watchers: list[Any] = []

_Observer = Callable[[LaunchRecord], object]


@dataclass(slots=True, eq=False)
class _Watch:
    """What one block of `observing` wants to hear; `hidden` by so many blocks of `unobserved`.

    It is among the watchers while it is not hidden.
    """

    after: _Observer
    before: _Observer | None
    hidden: int = 0


_observers: list[_Watch] = []
#: Held while they change: blocks of several threads overlap as they like.
_lock = renewed_lock()


@contextmanager
def observing(observer: _Observer, before: _Observer | None = None) -> Iterator[None]:
    """Have `observer` called after every launch within the block; launches are slower meanwhile.

    `before` is called when everything but the run is done, so that it may copy what is overwritten.
    """
    watch = _Watch(observer, before)
    with _lock:
        _observers.append(watch)
        watchers.append(watch)
    try:
        yield
    finally:
        with _lock:
            _observers.remove(watch)
            if not watch.hidden:
                watchers.remove(watch)


def tell_before(record: LaunchRecord) -> None:
    """Call all observers that want to hear of a launch before it runs."""
    for watch in _observers.copy():  # one may end while it is told
        if watch.before is not None and not watch.hidden:
            watch.before(record)


def tell_observers(record: LaunchRecord) -> None:
    """Call all observers."""
    for watch in _observers.copy():  # one may end while it is told
        if not watch.hidden:
            watch.after(record)


@contextmanager
def unobserved() -> Iterator[None]:
    """Have no observer called within the block: trials of a search are nobody's launches.

    Those that begin to observe within it are called.
    """
    with _lock:
        hidden = list(_observers)
        for watch in hidden:
            if not watch.hidden:
                watchers.remove(watch)
            watch.hidden += 1
    try:
        yield
    finally:
        with _lock:
            for watch in hidden:
                watch.hidden -= 1
                if not watch.hidden and watch in _observers:
                    watchers.append(watch)


class _Suppressed:
    """Stands in `watchers` while launches do nothing."""


@contextmanager
def suppressed() -> Iterator[None]:
    """Make every launch of this process do nothing within the block.

    Wrappers that allocate outputs and launch kernels can thus be run for the shapes alone.
    """
    token = _Suppressed()
    watchers.append(token)
    try:
        yield
    finally:
        watchers.remove(token)


def is_suppressed() -> bool:
    """Say whether launches do nothing now."""
    return any(isinstance(watcher, _Suppressed) for watcher in watchers)


class HookChain:
    """Functions that are called one after the other with the same arguments.

    Attributes:
        calls: the functions, in the order in which they were added.
    """

    def __init__(self, reversed: bool = False) -> None:  # noqa: A002 - Triton's word
        self.calls: list[Callable[..., object]] = []
        self.reversed = reversed

    def add(self, func: Callable[..., object]) -> None:
        """Add a function; one that is there already is not added again."""
        if func not in self.calls:
            self.calls.append(func)
            watchers.append(self)

    def remove(self, func: Callable[..., object]) -> None:
        """Remove a function that may be there."""
        if func in self.calls:
            self.calls.remove(func)
            watchers.remove(self)

    def __call__(self, *args: Any, **given: Any) -> None:
        """Call all functions, the latest first if the chain is reversed."""
        for call in reversed(self.calls) if self.reversed else list(self.calls):
            call(*args, **given)


class LaunchMetadata:
    """What launch hooks receive: a dict that is put together when somebody asks for it."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.extras: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []

    def add(self, func: Callable[..., dict[str, Any]], args: tuple[Any, ...]) -> None:
        """Have `func(*args)` add to the dict."""
        self.extras.append((func, args))

    def get(self) -> dict[str, Any]:
        """Return the dict."""
        for func, args in self.extras:
            self.data |= func(*args) or {}
        self.extras.clear()
        return self.data
