"""What ptxas refuses: a version of PTX that is too old, or a statement of the author's."""

from __future__ import annotations

import re
from collections.abc import Callable

from workbench.ir import Module
from workbench.ops import InlineAssembly
from workbench.source import KernelError, TargetError
from workbench.targets.nvidia.toolchain import Assembled, PtxError
from workbench.trace import Rendered

_VERSION = re.compile(r"^\.version (\d+)\.(\d+)$", re.MULTILINE)


def assembled(ptx: str, assemble: Callable[[str], Assembled]) -> tuple[str, Assembled]:
    """Return what ptxas makes of a text, and the text: of a later version where it asks for one.

    Texts are of the oldest version that has what the compiler writes, so that older drivers read
    them; an author's statement may be of a later one, and only ptxas knows of which.
    """
    while True:
        try:
            return ptx, assemble(ptx)
        except PtxError as error:
            found = _VERSION.search(ptx)
            have = (int(found[1]), int(found[2])) if found is not None else None
            if have is None or error.version is None or error.version <= have:
                raise
            major, minor = error.version
            ptx = _VERSION.sub(f".version {major}.{minor}", ptx)


def refused(error: PtxError, module: Module, rows: Rendered) -> KernelError:
    """Return the error for a text that ptxas refuses, at the author's statement if it is that."""
    authors = {op.id: op for op in module.walk() if isinstance(op, InlineAssembly)}
    lines = rows.text.splitlines()
    for row, said in error.rows.items():
        if not 0 < row <= min(len(lines), len(rows.rows)):
            continue
        for number in rows.rows[row - 1]:
            op = authors.get(number)
            if op is not None:
                return TargetError(
                    f"inline assembly: ptxas refuses '{' '.join(lines[row - 1].split())}': {said}",
                    op.span,
                    hint="registers are $0, $1, ...: results first, then operands; constraints "
                    "give their types: r and f 32 bits, l and d 64, h 16",
                )
    return error
