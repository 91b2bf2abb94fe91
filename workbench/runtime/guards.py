"""Whether launches on the CPU are guarded, decided at each launch.

In this order: what the launch says (`guard=True`), what the code around it says (`guarding`, which
is `--guard` and `--no-guard`), the environment (`WORKBENCH_GUARD`), and whether somebody works here
by hand: in IPython or Jupyter, or with kernels that were written for Triton (`as_triton`).

Generated launchers watch one entry of a dictionary, so `settle` must be called when it may change.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

#: What launchers watch: under "on" whether launches are guarded.
STATE: dict[str, Any] = {"on": False}
_said: list[bool] = []
_by_hand = False


def settle() -> bool:
    """Decide for launches that say nothing themselves, and let launchers know."""
    STATE["on"] = found = _decided()
    return found


def is_on(said: bool | None = None) -> bool:
    """Say whether a launch is guarded; `said` is its own `guard=`."""
    return settle() if said is None else bool(said)


def work_by_hand() -> None:
    """Have launches guarded from now on, unless somebody says otherwise."""
    global _by_hand
    _by_hand = True
    settle()


@contextmanager
def guarding(on: bool | None) -> Iterator[None]:
    """Say for launches inside whether they are guarded; None says nothing."""
    if on is None:
        yield
        return
    _said.append(on)
    settle()
    try:
        yield
    finally:
        _said.pop()
        settle()


def _decided() -> bool:
    if _said:
        return _said[-1]
    text = os.environ.get("WORKBENCH_GUARD", "").strip().lower()
    if text:
        return text not in ("0", "false", "off", "no", "n", "f")
    return _by_hand or _in_ipython()


def _in_ipython() -> bool:
    shell = sys.modules.get("IPython")
    ask = getattr(shell, "get_ipython", None)
    return ask is not None and ask() is not None
