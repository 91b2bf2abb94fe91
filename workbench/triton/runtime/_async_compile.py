"""`triton.runtime._async_compile`: compilations in an executor, for libraries that submit them.

A kernel's own `warmup` compiles where it is called, within such a block too.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, as_completed
from contextvars import ContextVar
from types import TracebackType
from typing import Any

active_mode: ContextVar[AsyncCompileMode | None] = ContextVar("async_mode", default=None)


class FutureKernel:
    """A kernel that is being compiled."""

    def __init__(self, finalize_compile: Callable[[Any], object], future: Future[Any]) -> None:
        self.finalize_compile = finalize_compile
        self.kernel: Any = None
        self.future = future

    def result(self, ignore_errors: bool = False) -> Any:
        """Wait for it; None where it failed and errors are ignored."""
        if self.kernel is not None:
            return self.kernel
        try:
            kernel = self.future.result()
        except Exception:
            if ignore_errors:
                return None
            raise
        self.finalize_compile(kernel)
        self.kernel = kernel
        return kernel


class AsyncCompileMode:
    """Compiles what is submitted within the block in an executor; its end waits for all."""

    def __init__(self, executor: Executor, *, ignore_errors: bool = False) -> None:
        self.executor = executor
        self.ignore_errors = ignore_errors
        self.raw_futures: list[Future[Any]] = []
        self.future_kernels: dict[Any, FutureKernel] = {}
        self._keys: dict[Future[Any], Any] = {}

    def submit(
        self, key: Any, compile_fn: Callable[[], Any], finalize_fn: Callable[[Any], object]
    ) -> FutureKernel:
        """Start a compilation, once per key."""
        known = self.future_kernels.get(key)
        if known is not None:
            return known
        future = self.executor.submit(compile_fn)
        self.raw_futures.append(future)
        self._keys[future] = key
        found = self.future_kernels[key] = FutureKernel(finalize_fn, future)
        return found

    def __enter__(self) -> AsyncCompileMode:
        if active_mode.get() is not None:
            raise RuntimeError("another AsyncCompileMode is active already")
        active_mode.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            for future in as_completed(self.raw_futures):
                self.future_kernels[self._keys[future]].result(self.ignore_errors)
        finally:
            active_mode.set(None)


__all__ = ["AsyncCompileMode", "FutureKernel", "active_mode"]
