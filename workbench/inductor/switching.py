"""Torch's compiler between Triton and us: which of its names mean what, and the way back.

Torch binds Triton's names when its modules are imported. Where they are bound to the real Triton,
they are bound to ours for a while, each to what has the same name here, and put back afterwards;
where there is no real Triton the modules are imported with ours, and keep it.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from workbench.language import constexpr
from workbench.runtime.jit import JITFunction, jit
from workbench.source import OptionError
from workbench.source.undisturbed import modules
from workbench.triton.installing import as_triton

#: Modules of torch that bind Triton's names when they are imported: those that compile a kernel,
#: and those that write one.
COMPILING = (
    "torch._inductor.runtime.triton_compat", "torch._inductor.runtime.triton_helpers",
    "torch._inductor.runtime.hints", "torch._inductor.runtime.triton_heuristics",
)  # fmt: skip
WRITING = (
    "torch._inductor.async_compile", "torch._inductor.codegen.triton",
    "torch._inductor.select_algorithm", "torch._inductor.compile_fx",
)  # fmt: skip

#: Those of them that are empty of sense where there was no Triton when they were imported.
_EMPTY = (
    "torch._inductor.runtime.triton_compat", "torch._inductor.runtime.triton_helpers",
    "torch._inductor.runtime.static_triton_launcher", "torch._inductor.runtime.triton_heuristics",
)  # fmt: skip
#: What one of the others has instead of a function where there was no Triton.
_STAND_IN = "torch._inductor.runtime.hints", "AttrsDescriptorWrapper"

_ROOMS = ("torch._inductor.", "torch._dynamo.", "torch._higher_order_ops.", "torch._library.",
          "torch._functorch.", "torch.utils._triton")  # fmt: skip
#: Names that torch binds only where there is a Triton: the module, the name.
_ABSENT = (("torch._dynamo.utils", "triton"),)
#: Modules that torch wrote belong to whichever compiler they were written for.
WRITTEN = "torch._inductor.runtime.compile_tasks."

#: Torch derives classes of its own from these: they stay whose they were.
_BASES = frozenset(("Config", "KernelInterface"))

#: Functions of torch that remember what they found of Triton: module, path to the function.
_MEMORIES = (
    ("torch._inductor.codecache", "triton_key"),
    ("torch._inductor.codecache", "CacheBase.get_system"),
    ("torch._inductor.codecache", "CompiledTritonKernels"),
    ("torch._inductor.utils", "_triton_supported_fp8_dtypes"),
    ("torch._inductor.utils", "get_triton_attrs_descriptor_version"),
    ("torch._inductor.utils", "get_backend_num_stages"),
    ("torch._inductor.codegen.triton", "gen_common_triton_imports"),
    ("torch._inductor.codegen.triton", "TritonScheduling.gen_common_triton_imports"),
    ("torch._inductor.runtime.caching.context", "_SystemContext.triton_version_hash"),
)


class MissingNameError(OptionError):
    """A torch whose compiler lacks something that we take the place of."""

    code = "K139"


def needed(path: str) -> Any:
    """Return `module:name.name` of torch; raises MissingNameError K139 if it is not there."""
    module, _, names = path.partition(":")
    torch = importlib.import_module("torch")
    try:
        found: Any = importlib.import_module(module)
        for name in names.split(".") if names else ():
            found = getattr(found, name)
    except (ImportError, AttributeError) as error:
        raise MissingNameError(
            f"torch {torch.__version__} has no {path.replace(':', '.')}",
            hint="use_in_torch_compile() is known to work with torch 2.11 and 2.13",
        ) from error
    return found


class Switch:
    """Our names in place of Triton's, for as long as somebody needs them."""

    def __init__(self) -> None:
        self._depth = 0
        self._users = COMPILING
        self._installed: Any = None
        self._bound: list[tuple[dict[str, Any], str, Any, Any]] = []
        self._scanned: set[str] = set()

    @property
    def is_on(self) -> bool:
        """Whether torch's names mean ours."""
        return self._installed is not None

    def enter(self, *, writing: bool = False) -> None:
        """Have torch's names mean ours; one `leave` for each call.

        Args:
            writing: this process writes kernels too, and does not only compile them.
        """
        self._depth += 1
        if writing:
            self._users = COMPILING + WRITING
        if self._depth == 1:
            try:
                self._turn_on()
            except BaseException:
                self._depth = 0
                raise

    def leave(self) -> None:
        """Undo one `enter`."""
        self._depth -= 1
        if self._depth == 0:
            self._turn_off()

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Have torch's names mean ours within the block."""
        self.enter()
        try:
            yield
        finally:
            self.leave()

    @contextlib.contextmanager
    def off(self) -> Iterator[None]:
        """Have torch's names mean the real Triton's within the block, if they do not already."""
        was_on = self.is_on
        if was_on:
            self._turn_off()
        try:
            yield
        finally:
            if was_on:
                self._turn_on()

    def _turn_on(self) -> None:
        if has_real_triton():
            self._import_users()
        self._installed = as_triton(force=True)
        try:
            _forget()
            _import_again()
            self._import_users()
            self._bind()
        except BaseException:
            self._turn_off()
            raise
        _forget()

    def _turn_off(self) -> None:
        for space, name, old, new in reversed(self._bound):
            if space.get(name) is new:
                space[name] = old
        self._installed.remove()
        self._installed = None
        _forget()

    def _import_users(self) -> None:
        for name in self._users:
            needed(name)

    def _bind(self) -> None:
        """Bind what is bound to the real Triton; modules are looked through once."""
        for space, name, _, new in self._bound:
            space[name] = new
        for module_name, module in _rooms():
            if module_name in self._scanned:
                continue
            self._scanned.add(module_name)
            space = vars(module)
            for name, old in list(space.items()):
                new = None if name in _BASES else _ours(old)
                if new is not None:
                    self._bound.append((space, name, old, new))
                    space[name] = new
        for module_name, name in _ABSENT:
            module = sys.modules.get(module_name)
            if module is not None:
                vars(module).setdefault(name, sys.modules["triton"])


#: The one switch of this process.
switch = Switch()


def has_real_triton() -> bool:
    """Say whether the real Triton is installed."""
    for name in ("triton", "triton.runtime.jit"):
        module = sys.modules.get(name)
        if module is not None and not module.__name__.startswith("workbench."):
            return True
    return PathFinder.find_spec("triton") is not None


def _import_again() -> None:
    """Import what was imported without any Triton once more, in place, with ours."""
    replaced: dict[int, Any] = {}
    compat = sys.modules.get(_EMPTY[0])
    if compat is not None and not compat.HAS_TRITON:
        for name in _EMPTY:
            if name in sys.modules:
                replaced |= _reloaded(sys.modules[name])
    name, word = _STAND_IN
    hints = sys.modules.get(name)
    if hints is not None and isinstance(vars(hints).get(word), type):
        again = types.ModuleType(name)
        file = str(hints.__file__)
        exec(compile(Path(file).read_text(), file, "exec"), vars(again))
        replaced[id(vars(hints)[word])] = vars(again)[word]
    if replaced:
        for _, module in _rooms():
            for word, value in list(vars(module).items()):
                if id(value) in replaced:
                    vars(module)[word] = replaced[id(value)]


#: What `_reloaded` found, which keeps its identity from being given to something else.
_outdated: list[Any] = []


def _reloaded(module: types.ModuleType) -> dict[int, Any]:
    """Import a module once more; returns what came instead of its classes and functions, by id."""
    before = dict(vars(module))
    importlib.reload(module)
    found: dict[int, Any] = {}
    for word, old in before.items():
        new = vars(module).get(word)
        if new is not old and isinstance(old, type | types.FunctionType):
            found[id(old)] = new
            _outdated.append(old)
    return found


def _rooms() -> list[tuple[str, types.ModuleType]]:
    """Return the modules of torch in which Triton's names may stand."""
    return [
        (name, module)
        for name, module in modules().items()
        if isinstance(module, types.ModuleType)
        and name.startswith(_ROOMS)
        and not name.startswith(WRITTEN)
    ]


def _ours(value: Any) -> Any:
    """Return what has the same name here as something of the real Triton, None if nothing has."""
    if isinstance(value, types.ModuleType):
        found = _our_module(value.__name__)
        return found if found is not None and _stem(value) == _stem(found) else None
    kind = type(value)
    if issubclass(kind, type | types.FunctionType):
        module = _our_module(str(value.__module__))
        found = getattr(module, value.__name__, None) if module is not None else None
        return None if found is value else found
    if _our_module(kind.__module__) is None:
        return None
    if kind.__name__ == "constexpr":
        return constexpr(value.value)
    function = getattr(value, "fn", None)
    # What torch defines with `@triton.jit`, and Triton's own functions in Triton's language.
    if isinstance(function, types.FunctionType):
        module = _our_module(function.__module__)
        found = getattr(module, function.__name__, None) if module is not None else None
        return found if found is not None else jit(function)
    return None


def _stem(module: types.ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


def _our_module(name: str) -> types.ModuleType | None:
    """Return our module of a name of Triton's; None where the name is not Triton's."""
    if name.partition(".")[0] != "triton":
        return None
    return sys.modules.get(name) or sys.modules["triton"]


def _forget() -> None:
    """Have torch look again at which Triton there is."""
    for name, function in list(vars(importlib.import_module("torch.utils._triton")).items()):
        if name.startswith(("has_", "triton_", "get_", "_device")):
            _clear(function)
    for module_name, path in _MEMORIES:
        found: Any = sys.modules.get(module_name)
        for name in path.split("."):
            found = getattr(found, name, None)
        _clear(found)


def _clear(function: Any) -> None:
    clear = getattr(function, "cache_clear", None) or getattr(function, "clear", None)
    if clear is not None:
        clear()


def kernel_in(file: str, name: str) -> JITFunction[Any]:
    """Return the kernel object in a module that torch wrote."""
    tasks = needed("torch._inductor.runtime.compile_tasks:_reload_python_module")
    with switch.on():
        return getattr(tasks(f"workbench_{name}", file, False), name).fn
