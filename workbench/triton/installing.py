"""`workbench.as_triton()`: modules written for Triton import ours.

wb.as_triton()                  # for the rest of the process
import some_kernel_library

with wb.as_triton():            # for the imports within the block
import some_kernel_library

`version="3.8.0"` answers probes as that Triton would; `cuda="cpu"` lets libraries that ask for CUDA
run on the CPU (triton/on_cpu.py).
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Literal

from workbench.language import versions
from workbench.language.former import FORMER_MODULES
from workbench.runtime import guards
from workbench.source import OptionError
from workbench.source.given import instance
from workbench.source.undisturbed import modules

_OWN = "workbench.triton"

#: Triton's module -> ours
MODULES = {
    "triton": _OWN,
    **{
        f"triton.{name}": f"{_OWN}.{name}"
        for name in (
            "_utils", "backends", "backends.compiler", "backends.nvidia", "backends.nvidia.driver",
            "compiler", "compiler.code_generator", "compiler.compiler", "compiler.errors",
            "compiler.make_launcher", "errors", "profiler", "runtime", "runtime._allocation",
            "runtime._async_compile", "runtime.autotuner", "runtime.build", "runtime.cache",
            "runtime.driver", "runtime.errors", "runtime.interpreter", "runtime.jit", "tools",
            "tools.build_extern", "tools.compile", "tools.disasm", "tools.link", "tools.mxfp",
            "tools.ragged_tma", "tools.tensor_descriptor",
        )
    },
    "triton.knobs": "workbench.runtime.knobs",
    "triton.testing": "workbench.triton.testing",
    "triton.language": "workbench.language",
    **{
        f"triton.language.{name}": f"workbench.language.{name}"
        for name in (
            "core", "math", "semantic", "standard", "random", "extra", "extra.libdevice",
            "extra.cuda", "extra.cuda.gdc", "extra.cuda.libdevice", "extra.cuda.utils",
            "extra.hip", "extra.hip.libdevice", "extra.hip.utils", "target_info",
        )
    },
}  # fmt: skip

#: Modules of later versions.
_LATER = {"triton.tools.gsan": (f"{_OWN}.tools._gsan", "3.8.0")}

NAMES = Path(__file__).with_name("names.json")


def known_versions() -> list[str]:
    """Return the versions of Triton whose names are known."""
    return list(json.loads(NAMES.read_text()))


def _check_version(version: str) -> None:
    instance(version, str, "version is a text", 'e.g. version="3.9.0"')
    known = known_versions()
    parts = version.split(".")
    right = all(part.isdigit() for part in parts) and len(parts) >= 2
    if not right or versions.minor(version) not in map(versions.minor, known):
        raise OptionError(
            f"no names are known of Triton {version!r}; known are {', '.join(known)}",
            hint=f'leave version out for {versions.DEFAULT}, or say e.g. version="{known[-1]}"',
            code="K136",
        )


class _Distribution(importlib.metadata.Distribution):
    """What `importlib.metadata` finds of the package `triton`."""

    def __init__(self, version: str) -> None:
        self._version = version

    def read_text(self, filename: str) -> str | None:
        """Return the metadata; there are no other files."""
        if filename != "METADATA":
            return None
        return (
            f"Metadata-Version: 2.1\nName: triton\nVersion: {self._version}\n"
            "Summary: Triton's names, answered by workbench\n"
        )

    def locate_file(self, path: Any) -> Any:
        """Return a path below our modules."""
        return Path(__file__).parent / path


class _Finder(importlib.metadata.DistributionFinder):
    """Answers for the package `triton` while it is ours.

    Modules that are not listed do not exist: Python would load our files a second time.
    """

    def __init__(self, version: str) -> None:
        self._version = version

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a module of ours; raise for one of Triton's that we do not have."""
        if fullname.partition(".")[0] != "triton":
            return None
        root = sys.modules.get("triton")
        if root is None or root.__name__ != _OWN:
            return None
        own, first = _LATER.get(fullname, (MODULES.get(fullname), None))
        if own is None or not versions.has(first, None):
            why = "Gluon is another language" if ".experimental" in fullname else ""
            why = FORMER_MODULES.get(fullname, why)
            text = f"workbench has no module {fullname!r}" + (f": {why}" if why else "")
            raise ModuleNotFoundError(text, name=fullname)
        return importlib.machinery.ModuleSpec(fullname, _Loader(own))

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        """Yield the package's metadata."""
        name = getattr(context, "name", None)
        if name is None or name.lower() == "triton":
            yield _Distribution(self._version)


class _Loader(importlib.abc.Loader):
    """Gives one of our modules under another name."""

    def __init__(self, own: str) -> None:
        self._own = own

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return a module that becomes ours when it is executed."""
        return ModuleType(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Put our module in its place."""
        sys.modules[module.__name__] = importlib.import_module(self._own)


class Installed:
    """Our modules under Triton's names; leaving it as a context manager takes them away again."""

    def __init__(
        self, before: dict[str, ModuleType | None], undo: Sequence[Callable[[], object]] = ()
    ) -> None:
        self._before = before
        self._undo = list(undo)

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
        while self._undo:
            self._undo.pop()()

    def __repr__(self) -> str:
        return f"<{len(self._before)} modules of workbench under Triton's names>"


def as_triton(
    *, force: bool = False, version: str | None = None, cuda: Literal["cpu"] | None = None
) -> Installed:
    """Make `import triton` give our modules, for this process or as a context manager.

    Modules that were imported before are never touched. Compile workers that are started later do
    the same.

    Args:
        force: do it even if the real Triton is imported already.
        version: the Triton as which probes are answered (names, `__version__`, package metadata);
            3.6.0 unless it is given.
        cuda: "cpu" lets code that asks torch for CUDA run on the CPU, until this is left.

    Raises:
        OptionError: the real Triton is imported already (K132); no names are known of a version
            (K136); `cuda` is something else than "cpu", or there is no torch (K136).
    """
    claimed = versions.claimed() if version is None else version
    _check_version(claimed)
    if cuda not in (None, "cpu"):
        raise OptionError(
            f'cuda is "cpu" or left out, got {cuda!r}',
            hint="without it, CUDA means the GPU",
            code="K136",
        )
    real = [name for name, module in sorted(modules().items()) if _is_real(name, module)]
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
    ours = {name: importlib.import_module(own) for name, own in MODULES.items()}
    undo: list[Callable[[], object]] = []
    if cuda is not None:
        undo.append(importlib.import_module("workbench.triton.on_cpu").enter())
    before: dict[str, ModuleType | None] = {name: sys.modules.pop(name) for name in real}
    for name, module in ours.items():
        if name not in sys.modules:  # otherwise an earlier call has put it there
            before.setdefault(name, None)
            sys.modules[name] = module
    guards.work_by_hand()
    undo += [_claim(ours["triton"], claimed), _find_by(_Finder(claimed))]
    versions.redirect(claimed)
    return Installed(before, undo)


def _claim(root: ModuleType, version: str) -> Callable[[], object]:
    """Answer as a version; returns what undoes it."""
    old = versions.claimed(), root.__dict__["__version__"]

    def undo() -> None:
        versions.claim(old[0])
        root.__dict__["__version__"] = old[1]

    versions.claim(version)
    root.__dict__["__version__"] = version
    return undo


def _find_by(finder: _Finder) -> Callable[[], object]:
    """Ask a finder before all others; returns what undoes it."""
    sys.meta_path.insert(0, finder)

    def undo() -> None:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)

    return undo


def _is_real(name: str, module: ModuleType | None) -> bool:
    root = name.partition(".")[0]
    return root == "triton" and module is not None and not module.__name__.startswith("workbench.")


def _users() -> list[str]:
    """Return the modules in which a name stands for the real Triton."""
    found = []
    for name, module in sorted(modules().items()):
        if name.partition(".")[0] in ("triton", "workbench") or module is None:
            continue
        # By type(): asking some modules' attributes for their class makes them warn.
        bound = [v for v in list(vars(module).values()) if issubclass(type(v), ModuleType)]
        if any(_is_real(value.__name__, value) for value in bound):
            found.append(name)
    return found
