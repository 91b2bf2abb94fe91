"""What a viewer writes into a cell or offers to paste: never a text that evaluates anything.

A trace may come from anywhere, and the option lines of magics evaluate expressions. So what is
offered is built of names that are identifiers, of numbers and of plain words as quoted texts; where
a trace holds something else, there is no offer. The text of a stage is the body of a cell, which no
magic evaluates.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Mapping
from typing import Any

from workbench.trace.schema import Trace

#: How a comment starts in the text of a stage that can be edited.
COMMENTS = {"tile": "//", "gpu": "//", "llvm": ";", "ptx": "//"}
_WORD = re.compile(r"[A-Za-z0-9_.\-]+")


def is_name(text: Any) -> bool:
    """Say whether a text is an identifier, and no more."""
    return isinstance(text, str) and text.isidentifier() and not keyword.iskeyword(text)


def setting(name: Any, value: Any) -> str | None:
    r"""Return `--set NAME=VALUE` for a name and a plain value; None for anything else.

    >>> setting("BM", 128), setting("mode", "relu"), setting("BM", "{evil()}")
    ('--set BM=128', '--set "mode=\'relu\'"', None)
    """
    if not is_name(name):
        return None
    if value is None or isinstance(value, bool | int):
        return f"--set {name}={value}"
    if isinstance(value, float):
        return f"--set {name}={value!r}" if math.isfinite(value) else None
    if isinstance(value, str) and _WORD.fullmatch(value):
        return f"--set \"{name}='{value}'\""
    return None


def settings(config: Mapping[str, Any]) -> str | None:
    """Return a configuration as options to paste, None where a part of it cannot be offered."""
    found = [setting(name, value) for name, value in config.items()]
    return None if None in found else " ".join(filter(None, found))


def override_cell(trace: Trace, stage: str, origin: str | None = None) -> str | None:
    """Return the cell in which a stage of a trace is edited; None where it cannot be offered.

    `origin` says where a trace was read that was not made here; the cell's text starts with it.
    """
    name, target = trace.kernel.name, trace.kernel.target
    text = trace.text(stage)  # type: ignore[arg-type]
    if stage not in COMMENTS or not text or not is_name(name) or not is_name(target):
        return None
    head = f"%%override {name}@{target} {stage}\n"
    if origin is not None:
        shown = re.sub(r"[^\w./:-]+", " ", origin)[:200]
        head += f"{COMMENTS[stage]} from {shown}: a trace that was not made here\n"
    return head + text.rstrip() + "\n"
