"""`triton.tools.disasm`: the machine code of a cubin, by nvdisasm."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from workbench.targets.nvidia.toolchain import disassemble


@lru_cache
def get_sass(cubin_asm: bytes, fun: str | None = None) -> str:
    """Return the instructions of a cubin, one per row; of one function if it is named.

    Raises ToolError (K412) where there is no nvdisasm.
    """
    text = disassemble(cubin_asm)
    parts = re.split(r"(?m)^\s*\.text\.(\w+):", text)
    if fun is None or len(parts) < 3:
        return text
    named = dict(zip(parts[1::2], parts[2::2], strict=True))
    if fun not in named:
        raise ValueError(f"no function {fun!r} in this cubin; there are {', '.join(named)}")
    return named[fun]


def extract(file_path: str, fun: str | None = None) -> str:
    """Return the instructions of a cubin in a file."""
    return get_sass(Path(file_path).read_bytes(), fun)


__all__ = ["extract", "get_sass"]
