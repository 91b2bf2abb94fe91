"""What a Python file must define for functions to mean there what they mean here.

Kernels and device functions become texts with `@triton.jit`, what they read is written in front of
them: imports by the names that Triton has for our modules, numbers, other functions, classes.
"""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import sys
import textwrap
import types
from math import isfinite
from numbers import Integral, Real
from typing import Any, cast

from workbench import language as tl
from workbench.source import KernelError, KernelSource, OptionError, kernel_source, parsed
from workbench.source.undisturbed import found_lines


class Definitions:
    """Collects what a file must define for functions to mean what they mean here."""

    def __init__(self) -> None:
        self.modules: list[str] = []
        self._written: list[str] = []
        self._known: dict[str, Any] = {"torch": None, "triton": None, "tl": None}

    def body(self) -> str:
        """Return the definitions in an order in which they can be run."""
        return "\n\n\n".join(self._written)

    def module_line(self, line: str) -> None:
        """Take an import, which stands in `modules` once."""
        if line not in self.modules:
            self.modules.append(line)

    def kernel(self, source: KernelSource) -> str:
        """Write a device function and all that it reads; return its name."""
        self._known[source.name] = source
        self._function(source, "@triton.jit\n")
        return source.name

    def need(self, name: str, value: Any) -> None:
        """Write what gives a name its value, unless it stands there already."""
        if isinstance(value, types.ModuleType):
            self._module(name, value)
        elif name not in self._known:
            self._define(name, value)
        elif self._known[name] is not value:
            raise OptionError(
                f"two values are called {name} in what the kernel reads", code="K804",
                hint="give one of them another name",
            )  # fmt: skip

    def _define(self, name: str, value: Any) -> None:
        source = _source_of(name, value)
        if source is not None:
            self._known[name] = value
            self._known.setdefault(source.name, value)
            decorator = "@triton.jit\n" if hasattr(value, "kernel_source") else ""
            self._function(source, decorator)
            if source.name != name:
                self._written.append(f"{name} = {source.name}")
        elif inspect.isclass(value) and not _is_ours(value):
            self._known[name] = value
            self._class(name, value)
        elif _is_ours(value) and not hasattr(tl, getattr(value, "__name__", "")) and _stands(value):
            self._known[name] = value
            alias = "" if name == value.__name__ else f" as {name}"
            self.module_line(f"from {_path(value.__module__)} import {value.__name__}{alias}")
        else:
            text = self.expression(name, value)
            self._known[name] = value
            # Kernels read numbers only where they are declared so.
            plain = isinstance(value, int | float | str | tuple | None)
            self._written.append(f"{name}{': tl.constexpr' if plain else ''} = {text}")

    def expression(self, name: str, value: Any) -> str:
        """Return a value as an expression; raises OptionError K804 where it has none."""
        if value is None or isinstance(value, bool | str | bytes):
            return repr(value)
        if isinstance(value, Integral):  # whatever class: NumPy's, an enumeration's
            return repr(int(value))
        if isinstance(value, Real):
            known = float(value)
            return repr(known) if isfinite(known) else f'float("{known}")'
        if type(value) in (tuple, list):
            items = [self.expression(name, item) for item in cast("tuple[Any, ...]", value)]
            inside = ", ".join(items)
            if type(value) is list:
                return f"[{inside}]"
            return f"({inside}{',' if len(items) == 1 else ''})"
        if type(value).__name__ == "constexpr":
            return f"tl.constexpr({self.expression(name, value.value)})"
        return self._name_of(name, value)

    def _name_of(self, name: str, value: Any) -> str:
        """Return what the file calls a type or function, which it defines if need be."""
        words = (getattr(value, "__name__", None), getattr(value, "name", None), str(value))
        for word in words:
            if isinstance(word, str) and getattr(tl, word, None) is value:
                return f"tl.{word}"
        if words[-1].startswith("torch.") and words[-1].removeprefix("torch.").isidentifier():
            return words[-1]
        source = _source_of(name, value)
        if source is None or not source.name.isidentifier():
            raise no_text(name, value)
        self.need(source.name, value)
        return source.name

    def _module(self, name: str, module: types.ModuleType) -> None:
        path = _path(module.__name__)
        if (name, path) not in (("tl", "triton.language"), ("triton", "triton"), ("torch",) * 2):
            self.module_line(f"import {path}" if name == path else f"import {path} as {name}")

    def _function(self, source: KernelSource, decorator: str) -> None:
        self._needs_of(source)
        self._written.append(f"{decorator}{source.text.rstrip()}")

    def _class(self, name: str, value: type) -> None:
        try:
            text = textwrap.dedent("".join(found_lines(value)[0]))
        except (OSError, TypeError):
            raise no_text(name, value) from None
        for function in vars(value).values():
            inner = getattr(function, "kernel_source", None)
            if isinstance(inner, KernelSource):
                self._needs_of(inner)
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.Name):
                module = inspect.getmodule(value)
                outer = vars(module).get(node.id) if module is not None else None
                if isinstance(outer, types.ModuleType):
                    self._module(node.id, outer)
                elif outer is not None and outer is not value:
                    self.need(node.id, outer)
        self._written.append(text.rstrip())

    def _needs_of(self, source: KernelSource) -> None:
        for outer in _outer_names(source):
            try:
                value = source.lookup(outer)
            except KeyError:
                continue
            itself = value is source.function or getattr(value, "kernel_source", None) is source
            if not itself and getattr(builtins, outer, self) is not value:
                self.need(outer, value)


def _source_of(name: str, value: Any) -> KernelSource | None:
    """Return the text of a function that is not ours; None for what is none."""
    inner = getattr(value, "kernel_source", None)
    if isinstance(inner, KernelSource):
        return inner
    if not isinstance(value, types.FunctionType) or _is_ours(value):
        return None
    try:
        return kernel_source(value)
    except KernelError:
        raise no_text(name, value) from None


def _outer_names(source: KernelSource) -> list[str]:
    """Return the names that a function reads outside of itself, its defaults' and types' too."""
    found: set[str] = set()

    def visit(code: types.CodeType) -> None:
        own = set(code.co_varnames) | set(code.co_cellvars)
        for step in dis.get_instructions(code.replace(co_consts=(None,) * len(code.co_consts))):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval not in own:
                found.add(step.argval)
        found.update(code.co_freevars)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                visit(constant)

    visit(source.function.__code__)
    head = source.tree
    for node in (head.args, *([head.returns] if head.returns else [])):
        found |= {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    return sorted(found)


def _path(module: str) -> str:
    """Return where Triton has what one of our modules gives; other modules as they are."""
    first, _, rest = module.partition(".")
    room = rest.partition(".")[0]
    if first != "workbench" or room not in ("language", "triton"):
        return module
    return f"triton.{rest}" if room == "language" else rest


def _stands(value: Any) -> bool:
    """Say whether a name of a module is a value's."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    return getattr(module, getattr(value, "__name__", "") or "", None) is value


def _is_ours(value: Any) -> bool:
    return str(getattr(value, "__module__", "") or "").partition(".")[0] in ("workbench", "triton")


def no_text(name: str, value: Any) -> OptionError:
    """Return the error for a value that cannot be written."""
    return OptionError(
        f"{name} is a {type(value).__name__}, which cannot be written as Python text",
        hint="pass it as an argument, or make it of numbers, strings and functions",
        code="K804",
    )
