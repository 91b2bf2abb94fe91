"""Edited LLVM IR and PTX: what a text must have to stand for the one that was made."""

from __future__ import annotations

import re
from collections.abc import Mapping

from workbench.source import CompileError
from workbench.source.overrides import Override
from workbench.targets.llvm.toolchain import LlvmError, verify

_LLVM_ROW = re.compile(r":(\d+):(\d+): (?:error: )?(.*)")


def read_llvm(override: Override, made: str, symbol: str) -> str:
    """Return LLVM IR that stands for `made`, parsed and verified by LLVM; raises K291."""
    override.register()
    try:
        verify(override.text)
    except LlvmError as error:
        raise _refused_by_llvm(override, error) from None
    _same_triple(override, made)
    _same_head(override, made, override.text, rf"define [^@\n]*@{symbol}\((.*)\)", symbol)
    return override.text


def _refused_by_llvm(override: Override, error: LlvmError) -> CompileError:
    words = error.words.strip()
    found = _LLVM_ROW.search(words)
    if found is not None:
        span = override.span(int(found.group(1)), int(found.group(2)), 1)
        return CompileError(f"LLVM: {found.group(3)}", span, code="K291")
    # The verifier names no row, but prints the instruction that it means.
    named = (re.match(r"\s+(%[\w.]+ = \w+|\w+ )", line) for line in words.splitlines()[1:])
    starts = [match.group(1) for match in named if match][-1:]  # who uses what is wrong
    rows = override.text.splitlines()
    row = next((n for s in starts for n, r in enumerate(rows, 1) if r.strip().startswith(s)), 1)
    return CompileError(f"LLVM: {words.splitlines()[0]}", override.span(row), code="K291")


def _same_triple(override: Override, made: str) -> None:
    """Refuse the text of another target; that of the CPU names none."""
    wanted, found = (
        re.search(r'^target triple = "(.*)"', t, re.MULTILINE) for t in (made, override.text)
    )
    names = [None if one is None else one.group(1) for one in (wanted, found)]
    if names[0] == names[1]:
        return
    said, row = "the text is for the CPU: it has no line 'target triple'", 1
    if found is not None:
        said = f"the text is for {names[1]}"
        row = override.text.count("\n", 0, found.start()) + 1
    raise CompileError(
        f"{said}; this compilation is for {names[0] or 'the CPU'}", override.span(row), code="K291",
        hint="%%override KERNEL@TARGET llvm says for which target a text is",
    )  # fmt: skip


def _same_head(override: Override, made: str, text: str, pattern: str, symbol: str) -> None:
    """Refuse a text whose function has another name or other parameters than the launch gives."""
    wanted, found = re.search(pattern, made), re.search(pattern, text)
    assert wanted is not None
    if found is None:
        raise CompileError(
            f"the text has no kernel called {symbol}, which is what is launched",
            override.span(1), code="K291", hint="leave its name as it was",
        )  # fmt: skip
    if _words(found.group(1)) != _words(wanted.group(1)):
        row = text.count("\n", 0, found.start()) + 1
        raise CompileError(
            f"the parameters of {symbol} are fixed by its launch: ({_words(wanted.group(1))})",
            override.span(row), code="K291", hint="leave them as they were",
        )  # fmt: skip


def _words(parameters: str) -> str:
    return " ".join(parameters.split())


def check_ptx(override: Override, made: str, symbol: str) -> None:
    """Refuse PTX without the entry that is launched, or with other parameters; raises K291."""
    override.register()
    _same_head(override, made, override.text, rf"\.entry {symbol}\(([^)]*)\)", symbol)


def refused_by_ptxas(override: Override, rows: Mapping[int, str]) -> CompileError:
    """Return the error for what ptxas says of rows of a text; the other rows are its notes."""
    (first, words), *rest = rows.items() or [(1, "it cannot be assembled")]
    error = CompileError(f"ptxas: {words}", override.span(first), code="K291")
    error.others = tuple(
        CompileError(f"ptxas: {more}", override.span(row), code="K291") for row, more in rest[:19]
    )
    return error
