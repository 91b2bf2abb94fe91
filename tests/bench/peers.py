"""The same kernel source under an installed Triton, to measure against."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any


def triton_installed() -> bool:
    """Say whether Triton can be imported here."""
    return importlib.util.find_spec("triton") is not None


def under_triton(module: ModuleType) -> Any:
    """Return a copy of a kernel module whose functions are Triton's jit functions."""
    text = inspect.getsource(module)
    text = text.replace(
        "import workbench.language as tl", "import triton\nimport triton.language as tl"
    )
    text = text.replace("from workbench.language", "from triton.language")
    text = text.replace("\ndef ", "\n@triton.jit\ndef ")
    folder = Path(tempfile.mkdtemp(prefix="peer-"))
    name = f"peer_{module.__name__.rsplit('.', 1)[-1]}"
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    peer = importlib.util.module_from_spec(spec)
    sys.modules[name] = peer
    spec.loader.exec_module(peer)
    return peer
