"""Which devices there are, and `workbench.device`: where arguments of new launches should lie."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

from workbench.devices import cuda
from workbench.interrupts import imported

_chosen: ContextVar[str | None] = ContextVar("_chosen", default=None)


def current() -> str:
    """Return "cuda" or "cpu": that of the chosen target, else cuda where there is a GPU."""
    return _chosen.get() or ("cuda" if has_gpu() else "cpu")


def has_gpu() -> bool:
    """Whether torch can use an NVIDIA GPU, which as_triton(cuda="cpu") hides."""
    return _torch_has_gpu() and cuda.available()


@lru_cache(1)
def _torch_has_gpu() -> bool:
    try:
        torch = imported("torch")
    except ImportError:
        return False
    return bool(torch.cuda.is_available() and torch.version.cuda)


@contextmanager
def following(target: str) -> Iterator[None]:
    """Let `workbench.device` follow a target while a cell runs."""
    if target == "auto":
        yield
        return
    on_host = target in ("cpu", "interpreter") or not has_gpu()
    token = _chosen.set("cpu" if on_host else "cuda")
    try:
        yield
    finally:
        _chosen.reset(token)
