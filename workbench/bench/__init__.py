"""Baselines, checks, timing and pictures: what is said about a kernel after it ran.

`workbench.bench` is also the function of that name: calling the room calls `bench` in it, since the
import system binds the room to the same name in the package.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.bench.api import bench, check
    from workbench.bench.results import KernelResult

_NAMES = {"bench": "api", "check": "api", "KernelResult": "results", "run_plan": "running"}

__all__ = ["KernelResult", "bench", "check"]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'workbench.bench' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"workbench.bench.{_NAMES[name]}"), name)


class _Room(types.ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        from workbench.bench.api import bench

        return bench(*args, **options)


sys.modules[__name__].__class__ = _Room
