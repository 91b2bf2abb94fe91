"""What LLVM's own passes made of a kernel, one after the other, in LLVM's words.

LLVM IR until instructions are selected, then LLVM's machine code. Made when somebody asks, in a
process of its own (printing.py), and read as it comes: a large kernel prints hundreds of megabytes
of which each pass that changed nothing is a copy.
"""

from __future__ import annotations

import marshal
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from workbench.source import ToolError
from workbench.targets.llvm.generator import llvmlite_folder
from workbench.targets.llvm.toolchain import Machine

_SCRIPT = Path(__file__).with_name("printing.py")
_HEAD = re.compile(r"^#? ?\*\*\* IR Dump After (.*) \(([\w-]+)\) \*\*\*:?(?: \(.*\))?$")
#: Where a row came from says nothing of what a pass did; neither do ids of metadata.
_NOISE = re.compile(
    r", !dbg !\d+|,? debug-location ![^;]*|; [^\s;]+:\d+:\d+$|^; ModuleID.*|^[!#]\d+ = .*"
)
#: Rows longer than this are lists of registers.
_WIDEST = 400


@dataclass(frozen=True, slots=True)
class LlvmPass:
    """One of LLVM's passes that changed something: its name, LLVM's short name, what it left."""

    name: str
    argument: str
    text: str


def llvm_passes(text: str, machine: Machine, function: str) -> list[LlvmPass]:
    """Return LLVM's passes that changed the code, in order; the first entry is what it was given.

    Raises ToolError K415 where LLVM ends, or no process can be started.
    """
    command = [sys.executable, "-I", "-S", str(_SCRIPT)]
    request = marshal.dumps((llvmlite_folder(), asdict(machine), text))
    try:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            assert process.stdin is not None
            assert process.stderr is not None
            process.stdin.write(request)
            process.stdin.close()
            lines = (line.decode(errors="replace").rstrip() for line in process.stderr)
            found = list(_changes(_without_noise(text), lines, function))
            status = process.wait()
    except OSError as error:
        raise ToolError(f"LLVM's passes cannot be shown: {error}", code="K415") from error
    if status:
        raise ToolError(
            f"LLVM ended with status {status} after {found[-1].name}", code="K415",
            hint="what it did before can be seen by --raw of %llvm and an LLVM of your own",
        )  # fmt: skip
    return found


def _changes(given: str, lines: Iterable[str], function: str) -> Iterator[LlvmPass]:
    yield LlvmPass("what LLVM was given", "given", given)
    last, head, body = _function(given, function), None, list[str]()

    def step() -> LlvmPass | None:
        nonlocal last
        text = _function(_without_noise("\n".join(body)), function)
        if head is None or not text.strip() or text == last:
            return None
        last = text
        return LlvmPass(head.group(1), head.group(2), text)

    for line in lines:
        match = _HEAD.match(line)
        if match is None:
            body.append(line[:_WIDEST])
            continue
        if (found := step()) is not None:
            yield found
        head, body = match, []
    if (found := step()) is not None:
        yield found


def _without_noise(text: str) -> str:
    rows = (_NOISE.sub("", line).rstrip() for line in text.splitlines())
    kept: list[str] = []
    for row in rows:
        if row or (kept and kept[-1]):
            kept.append(row)
    return "\n".join(kept).strip() + "\n"


def _function(text: str, name: str) -> str:
    """Return the part of a dump that is about one function: LLVM prints modules and functions."""
    rows = text.splitlines()
    starts = ("define ", f"# Machine code for function {name}:")
    start = next((n for n, row in enumerate(rows) if row.startswith(starts) and name in row), None)
    if start is None:
        return ""
    ends = ("}", "# End machine code")
    end = next((n for n in range(start, len(rows)) if rows[n].startswith(ends)), len(rows) - 1)
    kept = (row for row in rows[start : end + 1] if row and not row.startswith("; preds"))
    return "\n".join(re.sub(r"\s*; preds = .*", "", row) for row in kept) + "\n"
