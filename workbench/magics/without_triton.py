"""What a plain cell is told whose `import triton` finds nothing: how it runs here all the same."""

from __future__ import annotations

import sys
from typing import Any

HINT = (
    "workbench: without Triton such a cell runs with %%kernel as its first line, or, for all cells "
    "from here on, after `import workbench as wb; wb.as_triton()`.\n"
)


def load(shell: Any) -> None:
    """Look at how each cell of a shell ends."""
    shell.events.register("post_run_cell", told)


def told(result: Any) -> None:
    """Say below a traceback what to do; `result` is what became of a cell."""
    error = result.error_in_exec
    missing = isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0]
    if missing == "triton" and sys.modules.get("triton") is None:
        sys.stderr.write(HINT)
