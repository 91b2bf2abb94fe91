"""The built front-end bundle: where it lies, and what to say where it was not built."""

from __future__ import annotations

from functools import cache
from pathlib import Path

STATIC = Path(__file__).parent / "static"
VIEWER = "viewer.js"
LOADER = "loader.js"

ABSENT = (
    "the interactive viewer is not part of this installation (no built front end): "
    "static output only"
)


@cache
def script(name: str) -> bytes | None:
    """Return a file of the bundle, None if it was not built."""
    path = STATIC / name
    return path.read_bytes() if path.is_file() else None


def built() -> bool:
    """Return whether the interactive viewer can be shown."""
    return script(VIEWER) is not None
