"""What is told where LLVM could not generate code: the kernel, the op's line, LLVM's words.

LLVM rarely says which instruction it was. Sometimes it names an intrinsic or prints a debug
location; else the function is cut off after an instruction, and generated again (in the helper,
which may die over it), until it is known after which instruction it fails.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

from workbench.ir import Module, Op
from workbench.source import ToolError
from workbench.targets.llvm.listing import llvm_rows
from workbench.targets.llvm.toolchain import LlvmError, Machine, fails, types

#: Of LLVM's words, so many characters are shown.
_SHOWN = 300
_INTRINSIC = re.compile(r"intrinsic %([\w.]+)")
_PLACE = re.compile(r", [^,\s]+:\d+:(\d+)")
_DEFINED = re.compile(r"^\s*%(v[0-9]+) = (\w+)")
_PAIR = re.compile(r"\[ ([^\[\]]+), %(\w+) \]")
_ENDS = ("br ", "ret ", "switch ", "unreachable")


@contextmanager
def explained(
    module: Module, text: str, machine: Machine, ops: Mapping[int, int]
) -> Generator[None]:
    """Turn LLVM's failures inside into a ToolError (K415) for the module's kernel.

    Args:
        module: the IR that the text was made of.
        text: LLVM IR.
        machine: what code is generated for.
        ops: ids of ops by the dense numbers of debug locations (emit.py).
    """
    try:
        yield
    except LlvmError as error:
        op = _blamed(error, module, text, machine, ops)
        words = " ".join(error.words.removeprefix("LLVM ERROR: ").split())[:_SHOWN]
        place = f" (at {op.name})" if op is not None else ""
        raise ToolError(
            f"LLVM cannot generate code for {module.name}{place}: {words}",
            op.span if op is not None else None,
            hint="it is our mistake or LLVM's, not yours; kernel.interpret[grid](...) runs without "
            "LLVM, and writing this line another way may avoid it",
            code="K415",
        ) from None


def _blamed(
    error: LlvmError, module: Module, text: str, machine: Machine, ops: Mapping[int, int]
) -> Op | None:
    found = _PLACE.search(error.words)
    if found is not None and int(found.group(1)) in ops:
        return _op(module, ops[int(found.group(1))])
    rows = llvm_rows(text, ops).rows
    lines = text.splitlines()
    named = _INTRINSIC.search(error.words)
    if named is not None:
        for line, row in zip(lines, rows, strict=False):
            if f"@{named.group(1)}(" in line and "call" in line and row:
                return _op(module, row[0])
    try:
        number = culprit(text, types(text), lambda part: fails(part, machine))
    except (LlvmError, RuntimeError, OSError):  # also where no process can be started any more
        return None
    return _op(module, rows[number][0]) if number is not None and rows[number] else None


def _op(module: Module, number: int) -> Op | None:
    return next((op for op in module.walk() if op.id == number), None)


def culprit(text: str, types: Mapping[str, str], fails: Callable[[str], bool]) -> int | None:
    """Return the number of the first line after which code generation fails; None: unknown.

    Args:
        text: LLVM IR; of its functions, the one with debug information is looked at.
        types: the type of every named value.
        fails: says whether code generation of a text fails.
    """
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if _is_head(line)), None)
    if start is None:
        return None
    end = next(n for n in range(start, len(lines)) if lines[n] == "}")
    places = [
        n
        for n in range(start + 1, end)
        if lines[n].startswith(" ") and not lines[n].strip().startswith(_ENDS)
    ]
    for keeps_all in (True, False):

        def fails_after(place: int, keeps_all: bool = keeps_all) -> bool:
            return fails(_cut(lines, start, end, place, types, keeps_all=keeps_all))

        if not places or not fails_after(places[-1]):
            continue
        low, high = -1, len(places) - 1
        while high - low > 1:
            middle = (low + high) // 2
            if fails_after(places[middle]):
                high = middle
            else:
                low = middle
        return places[high]
    return None


def _is_head(line: str) -> bool:
    return line.startswith("define ") and " !dbg " in line


def _cut(
    lines: Sequence[str], start: int, end: int, last: int, types: Mapping[str, str],
    *, keeps_all: bool,
) -> str:  # fmt: skip
    """Return the text with the function left after a line; what it computed so far is stored."""
    ended = _ended_blocks(lines, start, last)
    body: list[str] = []
    waiting: list[str] = []
    for number in range(start + 1, last + 1):
        line = lines[number]
        found = _DEFINED.match(line)
        is_phi = found is not None and found.group(2) == "phi"
        if found is not None and is_phi:
            line = _kept_pairs(line, ended)
        elif not line.endswith(":"):
            body += waiting
            waiting = []
        body.append(line)
        if found is not None and (keeps_all or number == last):
            waiting.append(f"  store volatile {types[found.group(1)]} %{found.group(1)}, ptr null")
    body += [*waiting, "  ret void"]
    for line in lines[last + 1 : end]:
        if line.endswith(":") and not line.startswith(" "):
            body += [line, "  ret void"]
    return "\n".join([*lines[: start + 1], *body, *lines[end:]])


def _ended_blocks(lines: Sequence[str], start: int, last: int) -> set[str]:
    """Return the blocks whose last instruction is kept."""
    block, ended = "entry", set[str]()
    for line in lines[start + 1 : last + 1]:
        if line.endswith(":") and not line.startswith(" "):
            block = line[:-1]
        elif line.strip().startswith(_ENDS):
            ended.add(block)
    return ended


def _kept_pairs(line: str, ended: set[str]) -> str:
    head = line[: line.index("[")]
    pairs = [f"[ {value}, %{block} ]" for value, block in _PAIR.findall(line) if block in ended]
    tail = line.rfind(", !dbg")
    return head + ", ".join(pairs) + (line[tail:] if tail >= 0 else "")
