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
from dataclasses import dataclass, field
from typing import Any

Kernel = Callable[..., Any]
#: What only says shapes, or names no code of the author's.
_NOT_RUN = ("Meta", "Functionalize", "FuncTorchBatched", "Undefined")


@dataclass
class Registering:
    """Stands for `Library.impl` meanwhile; what is registered outlives it."""

    torch: Any
    #: Makes what maps CUDA to the CPU.
    mode: Callable[[], AbstractContextManager[Any]]
    #: The tensors among arguments.
    tensors: Callable[[Any], Iterator[Any]]
    #: Whether a tensor is said to lie on the host.
    on_host: Callable[[Any], bool]
    #: Whether CUDA is still answered by the CPU.
    pretends: Callable[[], bool]
    #: By operator and what stands before CPU and CUDA in a key ("" or "Autograd").
    kernels: dict[tuple[str, str], dict[str, Kernel]] = field(
        default_factory=dict[tuple[str, str], dict[str, Kernel]]
    )

    def replacement(self) -> Callable[..., None]:
        """Return the function that is `Library.impl` meanwhile."""
        original = self.torch.library.Library.impl

        def impl(library: Any, op_name: Any, fn: Any, dispatch_key: str = "", **given: Any) -> None:
            def register(kernel: Any, key: str = dispatch_key) -> None:
                original(library, op_name, kernel, key, **given)

            key = dispatch_key or library.dispatch_key
            if fn is self.torch.library.fallthrough_kernel or key in _NOT_RUN or not callable(fn):
                register(fn)
            elif key.removeprefix("Autograd") in ("CPU", "CUDA"):
                name = op_name if isinstance(op_name, str) else op_name.name()
                self._by_side(name if "::" in name else f"{library.ns}::{name}", key, fn, register)
            else:
                register(self._inside(fn))

        return impl

    def _by_side(self, name: str, key: str, fn: Kernel, register: Callable[..., None]) -> None:
        level = "Autograd" if key.startswith("Autograd") else ""
        sides = self.kernels.get((name, level))
        there = self._has(name, f"{level}CPU")
        if sides is None and (there or (level and self._has(name, level))):
            # Torch's own, which computes for both sides and is not asked by a kernel of Python.
            register(self._inside(fn))
            return
        side = key.removeprefix(level)
        if side == "CUDA":
            register(fn)
        if sides is None or not there:  # new, or of a library that is gone
            sides = self.kernels[name, level] = {}
            register(self._chooser(name, level, sides), f"{level}CPU")
        sides[side] = self._inside(fn)

    def _has(self, name: str, key: str) -> bool:
        """Say whether an operator, which may not be defined yet, has a kernel for a key."""
        torch = self.torch._C
        if not torch._dispatch_has_kernel(name):
            return False
        return torch._dispatch_has_kernel_for_dispatch_key(name, key)

    def _inside(self, fn: Kernel) -> Kernel:
        @functools.wraps(fn)
        def call(*args: Any, **given: Any) -> Any:
            if not self.pretends():
                return fn(*args, **given)
            with self.mode():
                return fn(*args, **given)

        return call

    def _below_autograd(self, name: str, args: Any, given: dict[str, Any]) -> Any:
        space, _, rest = name.partition("::")
        base, _, overload = rest.partition(".")
        packet = getattr(getattr(self.torch.ops, space), base)
        with self.torch._C._AutoDispatchBelowAutograd():
            return getattr(packet, overload or "default")(*args, **given)

    def _chooser(self, name: str, level: str, sides: dict[str, Kernel]) -> Kernel:
        def choose(*args: Any, **given: Any) -> Any:
            host = all(self.on_host(tensor) for tensor in self.tensors((*args, *given.values())))
            side = "CPU" if host or not self.pretends() else "CUDA"
            if side not in sides and level:
                return self._below_autograd(name, args, given)
            if side not in sides:
                raise NotImplementedError(
                    f"{name} has no kernel for {side}, where its arguments lie; "
                    f"there is one for {', '.join(sides)}"
                )
            return sides[side](*args, **given)

        return choose
