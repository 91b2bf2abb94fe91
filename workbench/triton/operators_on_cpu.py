"""Operators that libraries register with torch, while `as_triton(cuda="cpu")` is on.

`torch.library.Library.impl` is where all ways of registering end: `custom_op`, `triton_op`, `impl`,
`register_kernel`, and the helpers that libraries write over them. A kernel for CUDA is called for
tensors that lie on the CPU, so it is registered there, beside the one that the library may have for
the host: which of them is meant is known by where the arguments are said to lie.

Torch turns a mode off while it handles a call of an operator, and so for the operator's own code,
which makes tensors for CUDA and launches kernels: it is turned on again there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

#: What only says shapes, or names no code of the author's.
_NOT_RUN = ("Meta", "Functionalize", "FuncTorchBatched", "Undefined")


def registering(
    torch: Any,
    mode: Callable[[], AbstractContextManager[Any]],
    tensors: Callable[[Any], Iterator[Any]],
    on_host: Callable[[Any], bool],
    pretends: Callable[[], bool],
) -> Callable[..., None]:
    """Return what stands for `Library.impl` meanwhile.

    Args:
        torch: the module.
        mode: makes what maps CUDA to the CPU.
        tensors: those among arguments.
        on_host: whether a tensor is said to lie on the host.
        pretends: whether CUDA is still answered by the CPU: what is registered outlives that.
    """
    original = torch.library.Library.impl
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    kernels: dict[str, dict[str, Callable[..., Any]]] = {}

    def inside(fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def call(*args: Any, **given: Any) -> Any:
            if not pretends():
                return fn(*args, **given)
            with mode():
                return fn(*args, **given)

        return call

    def chooser(name: str, sides: dict[str, Callable[..., Any]]) -> Callable[..., Any]:
        def choose(*args: Any, **given: Any) -> Any:
            host = all(on_host(tensor) for tensor in tensors((*args, *given.values())))
            side = "CPU" if host or not pretends() else "CUDA"
            if side not in sides:
                raise NotImplementedError(
                    f"{name} has no kernel for {side}, where its arguments lie; "
                    f"there is one for {', '.join(sides)}"
                )
            return sides[side](*args, **given)

        return choose

    def impl(
        self: Any, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", **given: Any
    ) -> None:
        key = dispatch_key or self.dispatch_key
        if fn is torch.library.fallthrough_kernel or key in _NOT_RUN or not callable(fn):
            original(self, op_name, fn, dispatch_key, **given)
            return
        if key not in ("CPU", "CUDA"):
            original(self, op_name, inside(fn), dispatch_key, **given)
            return
        name = op_name if isinstance(op_name, str) else op_name.name()
        name = name if "::" in name else f"{self.ns}::{name}"
        sides, there = kernels.get(name), has_kernel(name, "CPU")
        if sides is None and there:
            # Torch's own, which computes for both sides and is not asked by a kernel of Python.
            original(self, op_name, inside(fn), dispatch_key, **given)
            return
        if key == "CUDA":
            original(self, op_name, fn, dispatch_key, **given)
        if sides is None or not there:  # new, or of a library that is gone
            sides = kernels[name] = {}
            original(self, op_name, chooser(name, sides), "CPU", **given)
        sides[key] = inside(fn)

    return impl
