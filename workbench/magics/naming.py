"""Names that `--as` may bind: those that hold nothing, or an earlier result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.bench.results import KernelResult
from workbench.magics.options import Request
from workbench.source import OptionError


def is_kernel(value: Any) -> bool:
    """Whether a value is a kernel object, whatever decorator made it."""
    return hasattr(value, "kernel_source") and not isinstance(value, type)


def is_free(name: str, namespace: Mapping[str, Any]) -> bool:
    """Say whether a name holds nothing, or an earlier result."""
    return name not in namespace or isinstance(namespace[name], KernelResult)


def hiding(request: Request) -> OptionError:
    """Return the error for a name of `--as` that is a kernel's."""
    return OptionError(
        f"--as {request.bind} would hide the kernel {request.bind}", request.place("bind"),
        code="K123", hint=f"choose another name; without --as it is {request.bind}.results[-1]",
    )  # fmt: skip


def refuse_replacing(request: Request, namespace: Mapping[str, Any]) -> None:
    """Refuse a name for `--as` that holds something else than a result: that would be lost."""
    name = request.bind
    if name is None or is_free(name, namespace):
        return
    held = namespace[name]
    if is_kernel(held):
        raise hiding(request)
    raise OptionError(
        f"--as {name} would replace {name}, which holds a value of type {type(held).__name__}",
        request.place("bind"), code="K123",
        hint=f"choose another name, e.g. --as {name}_result, or del {name} first",
    )  # fmt: skip
