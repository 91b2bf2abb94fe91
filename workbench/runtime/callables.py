"""Functions whose text is compiled, or that run at compile time: what both have in common."""

from __future__ import annotations

import ast
import inspect
import types
import weakref
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import Any

from workbench.interrupts import renewed_lock
from workbench.source import (
    KernelError,
    KernelSource,
    OptionError,
    kernel_source,
    parsed,
    source_lines,
)
from workbench.source.captures import Captures, captures

#: All of them, so that a change of one's text reaches those that call it.
_all: weakref.WeakSet[JITCallable] = weakref.WeakSet()


class JITCallable:
    """A Python function with its text, which is what gets compiled.

    Attributes:
        fn: the function.
        signature: its signature, as Python sees it.
        raw_src: its lines with decorators (none where the text cannot be read).
        starting_line_number: where they begin.
        hash: the hash of what it is and reaches, None before it is needed; None may be assigned.
    """

    __name__: str
    __qualname__: str

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.signature = inspect.signature(fn)
        self.raw_src, self.starting_line_number = _lines(fn)
        self.hash: str | None = None
        self._fn_name = f"{fn.__module__}.{fn.__qualname__}"
        self._source: KernelSource | KernelError = _read(
            fn, self.raw_src, self.starting_line_number
        )
        self._captures: Captures | None = None
        self._lock = renewed_lock()
        self.__doc__ = fn.__doc__
        self.__name__ = fn.__name__
        self.__qualname__ = fn.__qualname__
        self.__module__ = fn.__module__
        self.__globals__ = getattr(fn, "__globals__", {})
        self.__wrapped__ = fn
        _all.add(self)

    @property
    def text_source(self) -> KernelSource:
        """The function as data; raises CompileError K216 where its text could not be read."""
        if isinstance(self._source, KernelError):
            raise self._source
        return self._source

    @property
    def src(self) -> str:
        """The function's text, from its `def` on."""
        return self.text_source.text

    @src.setter
    def src(self, text: str) -> None:
        raise AttributeError("src cannot be assigned; call _unsafe_update_src(text)")

    def _unsafe_update_src(self, text: str) -> None:
        """Replace the function's text; the function object itself stays what it was.

        Whatever calls it is compiled again.
        """
        self._source = replace(self.text_source, text=text, edited=True)
        for other in list(_all):
            other.forget_text()

    def forget_text(self) -> None:
        """Forget everything that was derived from the text, here or in what it calls."""
        self._captures = None
        self.hash = None

    def parse(self) -> ast.Module:
        """Return the text's syntax tree."""
        return parsed(self.src)

    @property
    def captures(self) -> Captures:
        """What the function reaches outside itself, as of now."""
        found = self._captures  # another thread may have them forgotten
        if found is None or not found.unchanged():
            if found is not None:
                self.captures_changed()
            self.hash = None
            found = self._captures = captures(self.text_source)
        return found

    def captures_changed(self) -> None:
        """Called when a name that the function captures has come to mean something else."""

    @property
    def cache_key(self) -> str:
        """A hash over the function, its place, what it calls, and the values that it captures."""
        found, known = self.captures, self.hash
        if known is None:
            place = str(self.starting_line_number)
            known = self.hash = sha256(f"{place}\n{_reached(found)}".encode()).hexdigest()
        return known

    @property
    def text_key(self) -> str:
        """The hash without the function's place: moving a function changes nothing about it."""
        return sha256(_reached(self.captures).encode()).hexdigest()

    @property
    def used_global_vals(self) -> dict[tuple[str, int], tuple[Any, Any]]:
        """Captured plain values: (name, id of the namespace) -> (value, namespace)."""
        plain = (
            (name, value, space)
            for space, name, value in self.captures.read
            if not callable(value) and not isinstance(value, types.ModuleType)
        )
        return {(name, id(space)): (value, space) for name, value, space in plain}

    def get_capture_scope(self) -> dict[str, Any]:
        """Return every name that the function can see outside itself, with its value."""
        return {**self.__globals__, **inspect.getclosurevars(self.fn).nonlocals}


def _reached(found: Captures) -> str:
    parts = [source.text for source in found.sources]
    parts += [f"{where} {value}" for where, value in found.values]
    return "\n".join(parts)


def _lines(fn: Callable[..., Any]) -> tuple[list[str], int]:
    try:
        return source_lines(fn)
    except (OSError, TypeError):
        return [], getattr(getattr(fn, "__code__", None), "co_firstlineno", 0)


def _read(fn: Callable[..., Any], lines: list[str], first: int) -> KernelSource | KernelError:
    """Read the text now, while it is what was compiled; complain only when it is needed."""
    try:
        return kernel_source(fn, (lines, first) if lines else None)
    except KernelError as error:
        return error
    except SyntaxError as error:
        return OptionError(f"the text of {fn.__name__} does not parse: {error}", code="K216")


class ConstexprFunction(JITCallable):
    """A Python function that kernels call while they compile, on values known then."""

    __compile_time__ = True

    def __call__(self, *args: Any, _semantic: Any = None, **given: Any) -> Any:
        """Call the function with plain values; `_semantic` is accepted and not used."""
        plain = {name: _plain(value) for name, value in given.items()}
        return self.fn(*(_plain(value) for value in args), **plain)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else BoundConstexprFunction(instance, self)

    def __repr__(self) -> str:
        # Part of the compile key of kernels that call it, so it says what the function does.
        return f"<compile-time function {self._fn_name} {self.text_key[:32]}>"


class BoundConstexprFunction:
    """A compile-time function that is a method, with its object."""

    __compile_time__ = True

    def __init__(self, instance: Any, function: ConstexprFunction) -> None:
        self.instance = instance
        self.function = function
        self.__name__ = function.__name__

    @property
    def cache_key(self) -> str:
        """The function's."""
        return self.function.cache_key

    def __call__(self, *args: Any, **given: Any) -> Any:
        """Call the method."""
        return self.function(self.instance, *args, **given)

    def __repr__(self) -> str:
        return f"<bound {self.function!r}>"


def _plain(value: Any) -> Any:
    return value.value if type(value).__name__ == "constexpr" else value


def constexpr_function(fn: Callable[..., Any]) -> ConstexprFunction:
    """Make a Python function callable from kernels, where it runs at compile time.

    A kernel is compiled again when something has changed that the function reads by names: global
    and captured variables, attributes of objects, classes and functions, items of containers, bytes
    of arrays, and the same of all Python functions that it calls. Big arrays are compared at each
    launch, at the speed of memory; one that is read-only (`setflags(write=False)`) is not.
    What is not followed: what the function imports itself, reads from files or clocks, or gets
    from C code; attributes put on kernels; `__class__`, `__bases__`, `__code__` or `__dict__` given
    another value; the inside of locks, loggers, weak references and objects of C code that show
    nothing of it; arrays of over 64 MiB in all that change in place, and on a GPU what changes a
    tensor without torch; more than 20,000 things.
    """
    return ConstexprFunction(fn)


def get_jit_fn_file_line(fn: Any) -> tuple[str, int]:
    """Return the file and the line of the `def` of a kernel object."""
    while not isinstance(fn, JITCallable):
        fn = fn.fn
    source = fn.text_source
    return source.file, source.first_line
