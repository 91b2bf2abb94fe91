"""What is launched as `kernel[grid](...)`: kernels, and what chooses among their configurations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from workbench.runtime import hooks

T = TypeVar("T")


def _do_nothing(*args: Any, **given: Any) -> None:
    """Stand in for a launch where launches are suppressed."""


class KernelInterface(Generic[T]):
    """What everything that is launched as `kernel[grid](...)` has in common."""

    def run(self, *args: Any, grid: Any, warmup: bool = False, **given: Any) -> Any:
        """Launch, or with `warmup` only compile; returns the compiled kernel."""
        raise TypeError(f"{type(self).__name__} does not say how it runs")

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Return a callable that launches over `grid`."""
        if hooks.watchers and hooks.is_suppressed():
            return _do_nothing
        return lambda *args, **given: self.run(*args, grid=grid, warmup=False, **given)

    def warmup(self, *args: Any, grid: Any = None, **given: Any) -> Any:
        """Compile for these arguments without launching; torch dtypes may stand for tensors."""
        return self.run(*args, grid=grid, warmup=True, **given)
