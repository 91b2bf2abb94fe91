"""Magics: parse a line, then call one public function that works without IPython.

`run_cell` is what `%%kernel` does, `lines` holds the functions of the line magics; only `kernel`
imports IPython. What checking and timing mean belongs to bench/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.magics.cells import run_cell

__all__ = ["load_ipython_extension", "run_cell"]


def __getattr__(name: str) -> Any:
    if name == "run_cell":
        import importlib

        return importlib.import_module("workbench.magics.cells").run_cell
    raise AttributeError(f"module 'workbench.magics' has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """Register all magics in an IPython shell."""
    from workbench.magics import kernel, looking, swept, without_triton
    from workbench.magics.while_typing import hooks

    kernel.load(shell)
    looking.load(shell)
    hooks.load(shell)
    swept.load(shell)
    without_triton.load(shell)
