"""Kernels as pickles: by name where their module can be imported, else by value.

A kernel that another process finds by importing its module is pickled as that name. Any other (of a
notebook's cell, of `exec`, of `__main__`) is pickled by value: its text, its code and the values
of the names that it uses, other kernels and functions alike; no more. A compiled kernel is pickled
as what a launch needs, with its source.

**Unpickling runs code**, as it does for everything: a pickle may import any module and call any
function, so load none that you do not trust. The compile cache does not read kernels this way.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
import pickle
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from workbench.source import KernelError

if TYPE_CHECKING:
    from workbench.runtime.compiled import CompiledKernel

#: The most bytes of captured values that a kernel is pickled with.
MOST_BYTES = 1_000_000


class CaptureError(KernelError, pickle.PicklingError):
    """A kernel reads values that are too large, or of a kind that cannot be pickled."""

    code = "K519"


def reduce_by_place(value: Any) -> tuple[Any, ...]:
    """Return what a kernel object, or what wraps one, is pickled as."""
    if is_found_by_name(value):
        return restore, (value.__module__, value.__qualname__)
    return _from_value, (by_value(value),)


def is_found_by_name(value: Any) -> bool:
    """Say whether another process gets the same object by importing its module."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not module or not name or module == "__main__" or "<locals>" in name:
        return False
    found: Any = sys.modules.get(module)
    try:
        if found is None or importlib.util.find_spec(module) is None:
            return False
    except (ImportError, ValueError, AttributeError):
        return False
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


def restore(module: str, name: str) -> Any:
    """Find a pickled kernel again by its place."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def by_value(value: Any) -> bytes:
    """Return a kernel object as bytes, with what it captures; raises CaptureError."""
    return _dumped(_pickler(value), getattr(value, "__name__", "the kernel"), value)


def _pickler(whole: Any) -> Any:
    """Return the class that pickles `whole` by value, all that it reads by name where it can."""
    from workbench.runtime.shipping import ValuePickler

    class Pickler(ValuePickler):
        def reducer_override(self, value: Any) -> Any:
            if value is not whole and _has_place(value) and is_found_by_name(value):
                if isinstance(value, types.FunctionType):
                    return NotImplemented  # pickle does so itself
                return restore, (value.__module__, value.__qualname__)
            if isinstance(value, types.FunctionType):
                _check_captures(value, lambda name, held: len(_dumped(Pickler, name, held)))
            found = super().reducer_override(value)
            if found is NotImplemented and hasattr(type(value), "kernel_source"):
                return _empty, (type(value),), dict(vars(value))  # what wraps a kernel
            return found

    return Pickler


def _has_place(value: Any) -> bool:
    return hasattr(value, "kernel_source") or isinstance(value, types.FunctionType)


def _empty(kind: type) -> Any:
    return object.__new__(kind)


def _dumped(kind: Callable[..., Any], name: str, value: Any) -> bytes:
    buffer = io.BytesIO()
    try:
        kind(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    except CaptureError:
        raise
    except (pickle.PicklingError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise CaptureError(
            f"'{name}' cannot be pickled: {error}",
            hint="define the kernel in a module that can be imported, or pass the value to it",
        ) from error
    return buffer.getvalue()


def _check_captures(function: types.FunctionType, size: Callable[[str, Any], int]) -> None:
    """Raise CaptureError where the values that a function reads are too large."""
    from workbench.runtime.shipping import captured_values

    plain = {
        name: value
        for name, value in captured_values(function).items()
        if not isinstance(value, types.ModuleType | types.FunctionType | type)
        and not hasattr(value, "kernel_source")
    }
    sizes = {name: size(name, value) for name, value in plain.items()}
    total = sum(sizes.values())
    if total > MOST_BYTES:
        named = sorted(sizes, key=lambda name: -sizes[name])
        shown = ", ".join(f"'{n}' ({sizes[n] / 1e6:.1f} MB)" for n in named if sizes[n] > 1000)
        raise CaptureError(
            f"{function.__name__} captures {total / 1e6:.1f} MB, more than 1 MB: {shown}",
            hint="pass such values as arguments; a kernel is pickled with all that it reads",
        )


def _from_value(data: bytes) -> Any:
    return pickle.loads(data)


# -- compiled kernels -----------------------------------------------------------------------------
def reduce_compiled(kernel: CompiledKernel) -> tuple[Any, ...]:
    """Return what a compiled kernel is pickled as: what a launch needs, and its source."""
    from workbench.runtime.compiling import host_text

    host = host_text() if kernel.target == "cpu" else ""
    launch = None if kernel.target == "interpreter" else kernel.launch
    state = {
        "signature": kernel.signature,
        "target": kernel.target,
        "hash": kernel.hash,
        "launch": launch,
        "code": b"" if launch is None else kernel.code,
        "index_program": kernel.index_program,
    }
    return _from_artefact, (source_by_value(kernel.source), host, state)


def source_by_value(source: Any) -> bytes:
    """Return a kernel's source as bytes, with what it captures; raises CaptureError."""
    return _dumped(_pickler(source), source.name, source)


def _from_artefact(source: bytes, host: str, state: dict[str, Any]) -> Any:
    from workbench.runtime import compiling

    kernel = pickle.loads(source)
    here = compiling.host_text() if state["target"] == "cpu" else ""
    if state["launch"] is None or here != host:  # another processor: its code may not run here
        return compiling.obtain(kernel, state["signature"], state["target"])
    return compiling.remade(
        kernel,
        state["signature"],
        state["target"],
        state["hash"],
        launch=state["launch"],
        code=state["code"],
        index_program=state["index_program"],
    )
