"""Which op each row of the host's assembly came from: read off debug locations."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.targets.llvm.listing import LOC
from workbench.trace import Rendered


def asm_rows(text: str, ops: Mapping[int, int]) -> Rendered:
    """Return the assembly of the kernel with the op of every instruction.

    Directives are left out; a row belongs to the `.loc` in force.
    """
    kept: list[str] = []
    rows: list[tuple[int, ...]] = []
    current: int | None = None
    for line in text.splitlines():
        match = LOC.match(line)
        bare = line.strip()
        if match:
            current = ops.get(int(match.group(2))) if int(match.group(1)) else None
            continue
        if not bare or bare.startswith((".cfi", ".file", "#", ".Ltmp")):
            continue
        data = bare.startswith(".section") and ".text" not in bare and ".rodata" not in bare
        if data and any(rows):
            break
        is_code = line.startswith("\t") and not bare.startswith(".")
        kept.append(line.split("\t#")[0].rstrip() if is_code else line.rstrip())
        rows.append((current,) if is_code and current is not None else ())
    return Rendered("\n".join(kept) + "\n", rows)
