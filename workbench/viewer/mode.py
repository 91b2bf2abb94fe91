"""Which host shows the viewer: our extension in JupyterLab, anywidget elsewhere, or neither.

In JupyterLab and Notebook 7 the extension renders the trace MIME type. A widget view beside it
would win when a saved notebook is reopened and show "model not found", so it is only added where
the extension cannot be: VS Code, Colab, marimo, or when the user asks for it. What such a front end
cannot do is said in words (`limits`), once in a notebook.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

Mode = Literal["auto", "widget", "static"]
Host = Literal["extension", "widget", "static"]
Place = Literal["Jupyter", "VS Code", "Colab", "marimo"]
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
    return "extension" if place(namespace) == "Jupyter" else "widget"


def place(namespace: Mapping[str, Any] | None = None) -> Place:
    """Return the front end that this process answers to, as far as it lets itself be known."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    names = namespace or getattr(shell, "user_ns", {})
    if "__vsc_ipynb_file__" in names or "VSCODE_PID" in os.environ:
        return "VS Code"
    if "google.colab" in sys.modules or type(shell).__module__.startswith("google.colab"):
        return "Colab"
    marimo = sys.modules.get("marimo")
    if marimo is not None and bool(getattr(marimo, "running_in_notebook", bool)()):
        return "marimo"
    return "Jupyter"


def limits(namespace: Mapping[str, Any] | None = None) -> str:
    """Return what the viewer cannot do where it is a widget, in one sentence; empty for nothing."""
    where = place(namespace)
    here = "Here" if where == "Jupyter" else f"In {where}"
    return (
        f"{here} lines are marked in these panes, not in the cell, a cell that was edited is not "
        "noticed, and a map of %whatif is a picture (its .compare(…) opens a square). "
        "JupyterLab and Notebook 7 do this."
    )


def notebook_path(namespace: Mapping[str, Any] | None = None) -> Path | None:
    """Return the path of the running notebook where the front end tells it, else None."""
    told = (namespace or {}).get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME")
    if not told or not str(told).endswith(".ipynb"):
        return None
    path = Path(str(told))
    # Jupyter servers give the path from their root; the kernel runs in the notebook's folder.
    return path if path.parent.is_dir() and path.is_absolute() else Path.cwd() / path.name
