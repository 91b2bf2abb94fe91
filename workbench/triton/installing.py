"""`workbench.as_triton()`: modules written for Triton import ours.

wb.as_triton()                  # for the rest of the process
import some_kernel_library

with wb.as_triton():            # for the imports within the block
import some_kernel_library
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType, TracebackType

from workbench.runtime import guards
from workbench.source import OptionError

_OWN = "workbench.triton"

#: Triton's module -> ours
MODULES = {
    "triton": _OWN,
    **{
        f"triton.{name}": f"{_OWN}.{name}"
        for name in (
            "_utils", "backends", "backends.compiler", "backends.nvidia", "backends.nvidia.driver",
            "compiler", "compiler.compiler", "compiler.errors", "errors", "runtime",
            "runtime.autotuner", "runtime.cache", "runtime.driver", "runtime.errors",
            "runtime.interpreter", "runtime.jit", "tools", "tools.mxfp", "tools.tensor_descriptor",
        )
    },
    "triton.knobs": "workbench.runtime.knobs",
    "triton.testing": "workbench.runtime.testing",
    "triton.language": "workbench.language",
    **{
        f"triton.language.{name}": f"workbench.language.{name}"
        for name in (
            "core", "math", "standard", "random", "extra", "extra.libdevice",
            "extra.cuda", "extra.cuda.libdevice", "target_info",
        )
    },
    # Triton's functions of the language over its builder; ours build for themselves.
    "triton.language.semantic": "workbench.language.core",
}  # fmt: skip


class Installed:
    """Our modules under Triton's names; leaving it as a context manager takes them away again."""

    def __init__(self, before: dict[str, ModuleType | None]) -> None:
        self._before = before

    def __enter__(self) -> ModuleType:
        """Return the module `triton`."""
        return sys.modules["triton"]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Put back what was there before; modules that imported ours keep them."""
        guards.work_by_hand(False)
        for name, module in self._before.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module
        self._before.clear()

    def __repr__(self) -> str:
        return f"<{len(self._before)} modules of workbench under Triton's names>"


def as_triton(*, force: bool = False) -> Installed:
    """Make `import triton` give our modules, for this process or as a context manager.

    Modules that were imported before are never touched.

    Args:
        force: do it even if the real Triton is imported already.

    Raises:
        OptionError: the real Triton is imported already (K132).
    """
    real = [name for name, module in sorted(sys.modules.items()) if _is_real(name, module)]
    if real and not force:
        users = _users()
        shown = ", ".join(real[:4]) + (", …" if len(real) > 4 else "")
        raise OptionError(
            f"the real Triton is imported already ({shown})"
            + (f", by {', '.join(users[:5])}" if users else ""),
            hint="call workbench.as_triton() before anything imports triton, or with force=True",
            code="K132",
        )
    # Imported before anything is changed, so that an error leaves everything as it was.
    ours = {name: importlib.import_module(own) for name, own in MODULES.items() if _exists(own)}
    before: dict[str, ModuleType | None] = {name: sys.modules.pop(name) for name in real}
    for name, module in ours.items():
        if name not in sys.modules:  # otherwise an earlier call has put it there
            before.setdefault(name, None)
            sys.modules[name] = module
    guards.work_by_hand()
    return Installed(before)


def _exists(module: str) -> bool:
    """Say whether a module can be imported, without importing it."""
    parent = module.rpartition(".")[0]
    return (not parent or _exists(parent)) and importlib.util.find_spec(module) is not None


def _is_real(name: str, module: ModuleType | None) -> bool:
    root = name.partition(".")[0]
    return root == "triton" and module is not None and not module.__name__.startswith("workbench.")


def _users() -> list[str]:
    """Return the modules in which a name stands for the real Triton."""
    found = []
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] in ("triton", "workbench") or module is None:
            continue
        # By type(): asking some modules' attributes for their class makes them warn.
        bound = [v for v in list(vars(module).values()) if issubclass(type(v), ModuleType)]
        if any(_is_real(value.__name__, value) for value in bound):
            found.append(name)
    return found
