"""Makes this process a bare machine: torch, NumPy and pytest, and nothing else that tests use.

A plugin of pytest (`-p tests.gpu.bare`), for the test that `make gpu` needs no more.
"""

import sys
from collections.abc import Sequence
from typing import Any

ABSENT = (
    "IPython", "anywidget", "filecheck", "hypothesis", "ipywidgets", "jupyterlab", "matplotlib",
    "nbclient", "nbformat", "pandas", "xdist",
)  # fmt: skip


class Absent:
    """A finder of modules that finds these missing."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> None:
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent())
