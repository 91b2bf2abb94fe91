"""Attributes of torch that have other values for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.inductor.switching import needed


class Patches:
    """Attributes of torch that have other values for a while."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    def put(self, path: str, make: Callable[[Any], Any]) -> None:
        """Replace `module:name.name` by what `make` returns for it."""
        owner, name = _owner(path)
        needed(path)
        before = vars(owner).get(name, getattr(owner, name))
        self._before.append((owner, name, before))
        setattr(owner, name, make(before))

    def undo(self) -> None:
        """Put everything back."""
        while self._before:
            owner, name, before = self._before.pop()
            setattr(owner, name, before)


def _owner(path: str) -> tuple[Any, str]:
    module, _, names = path.partition(":")
    holder, _, name = names.rpartition(".")
    return needed(f"{module}:{holder}" if holder else module), name
