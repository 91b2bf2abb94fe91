"""Names that only some versions of Triton have: probes are answered as the claimed version would.

`claim` says which version that is; a module with such names has `__getattr__ = versioned(...)`, so
that `hasattr` and `try: from … import` tell what that Triton has. Nothing else depends on it.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from typing import Any

from workbench.language.former import instead_of
from workbench.language.table import NAMES

#: The version whose names are there unless `workbench.as_triton(version=...)` says otherwise.
DEFAULT = "3.6.0"

_claimed = [DEFAULT]

#: (the first version that has the name, the first that has it no more; None: always), its value.
Versioned = Mapping[str, tuple[str | None, str | None, Callable[[], Any]]]


class OtherVersionError(AttributeError):
    """A name that Triton has, but not the version that is claimed."""


def claimed() -> str:
    """Return the version of Triton whose names are there."""
    return _claimed[0]


def claim(version: str) -> None:
    """Have the names of a version."""
    _claimed[0] = version


#: The version under which `import triton` gave our modules in this process, the latest last.
_redirected: list[str] = []


def redirect(version: str) -> None:
    """Note that `import triton` gives our modules."""
    _redirected[:] = [version]


def redirected() -> str | None:
    """Return the version under which `import triton` has given our modules; None: it never has.

    What was imported meanwhile holds them, so processes that import it again do the same.
    """
    return _redirected[0] if _redirected else None


def minor(version: str) -> tuple[int, ...]:
    """Return the part of a version that decides about names: (3, 6)."""
    return tuple(int(part) for part in version.split(".")[:2])


def has(first: str | None, end: str | None) -> bool:
    """Say whether the claimed version lies between two."""
    now = minor(claimed())
    return (first is None or now >= minor(first)) and (end is None or now < minor(end))


def _near(module: str, name: str) -> str | None:
    """Return a did-you-mean for a name of the language, None where none is near."""
    known = [word for word in NAMES if "." not in word] if module == "tl" else []
    close = difflib.get_close_matches(name[:100], known, 1, 0.8)
    return f"did you mean {module}.{close[0]}?" if close and name[:1] != "_" else None


def versioned(module: str, names: Versioned) -> Callable[[str], Any]:
    """Return a module's `__getattr__` for names of some versions."""

    def find(name: str) -> Any:
        row = names.get(name)
        if row is None:
            instead = instead_of(module, name) or _near(module, name)
            raise AttributeError(
                f"{module}.{name} does not exist" + (f": {instead}" if instead else "")
            )
        first, end, value = row
        if not has(first, end):
            words = f"since {first}" if end is None else f"until {end}"
            raise OtherVersionError(
                f"{module}.{name} exists {words} of Triton; this answers as {claimed()} would "
                "(workbench.as_triton(version=...))"
            )
        return value()

    return find


def core_of(module: str, names: Versioned | None = None) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module that has `core` as well, which needs that module."""
    core = {"core": (None, None, lambda: importlib.import_module("workbench.language.core"))}
    return versioned(module, {**core, **(names or {})})
