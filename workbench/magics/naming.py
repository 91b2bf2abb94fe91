"""Names that `--as` may bind: those that hold nothing, or an earlier result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.bench.results import KernelResult
from workbench.magics.options import Request
from workbench.source import OptionError


def refuse_replacing(request: Request, namespace: Mapping[str, Any]) -> None:
    """Refuse a name for `--as` that holds something else than a result: that would be lost."""
    name = request.bind
    if name is None or name not in namespace:
        return
    held = namespace[name]
    if not isinstance(held, KernelResult):
        raise OptionError(
            f"--as {name} would replace {name}, which holds a value of type {type(held).__name__}",
            request.place("bind"), code="K123",
            hint=f"choose another name, e.g. --as {name}_result, or del {name} first",
        )  # fmt: skip
