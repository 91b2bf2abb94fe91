"""Targets a test of values runs on: interpreter and CPU here, the device where there is one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.execution import execute
from tests.language.harness import Typed, lowered

TARGETS = ("interpreter", "cpu", pytest.param("device", marks=pytest.mark.gpu))


def run_on(target: str, function: Any, *, grid: tuple[int, ...] = (1,), **values: Any) -> None:
    """Run a kernel on arrays in place; `target` "device" is the first GPU's own chip."""
    if target == "device":
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available():
            pytest.skip("no CUDA device")
        from workbench.devices import cuda

        target = cuda.chip(0)
    module, _ = lowered(function, **values)
    names = {p.name for p in module.parameters}
    given = [v.value if isinstance(v, Typed) else v for n, v in values.items() if n in names]
    execute(module, grid, given, target)
