"""Which host shows the viewer: our extension in JupyterLab, anywidget elsewhere, or neither.

In JupyterLab and Notebook 7 the extension renders the trace MIME type. A widget view beside it
would win when a saved notebook is reopened and show "model not found", so it is only added where
the extension cannot be: VS Code, Colab, marimo, or when the user asks for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

Mode = Literal["auto", "widget", "static"]
Host = Literal["extension", "widget", "static"]
MODES: tuple[Mode, ...] = ("auto", "widget", "static")

_chosen: list[Mode] = ["auto"]


def choose(mode: Mode) -> None:
    """Set the host for this process: `auto` detects it, `widget` and `static` force it."""
    if mode not in MODES:
        raise ValueError(f"unknown view mode {mode!r}; known: {', '.join(MODES)}")
    _chosen[0] = mode


def host(namespace: Mapping[str, Any] | None = None) -> Host:
    """Return the host for outputs; `namespace` is the notebook's (VS Code leaves a name there)."""
    if _chosen[0] != "auto":
        return _chosen[0]
    return "widget" if _needs_widget(namespace or {}) else "extension"


def _needs_widget(namespace: Mapping[str, Any]) -> bool:
    if "__vsc_ipynb_file__" in namespace or "VSCODE_PID" in os.environ:
        return True
    if "google.colab" in sys.modules:
        return True
    marimo = sys.modules.get("marimo")
    return marimo is not None and bool(getattr(marimo, "running_in_notebook", bool)())


def notebook_path(namespace: Mapping[str, Any] | None = None) -> Path | None:
    """Return the path of the running notebook where the front end tells it, else None."""
    told = (namespace or {}).get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME")
    if not told or not str(told).endswith(".ipynb"):
        return None
    path = Path(str(told))
    # Jupyter servers give the path from their root; the kernel runs in the notebook's folder.
    return path if path.parent.is_dir() and path.is_absolute() else Path.cwd() / path.name
