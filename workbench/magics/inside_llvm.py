"""`%passes --llvm-passes`: what LLVM's own passes did to a kernel, listed, and one as a diff."""

from __future__ import annotations

import difflib
import re
from typing import Any

from workbench.bench.results import KernelResult
from workbench.magics.plain import plain
from workbench.magics.texts import Shown
from workbench.runtime.compiled import CompiledKernel
from workbench.source import OptionError
from workbench.targets.llvm.inside import LlvmPass, llvm_passes


def _asked(result: KernelResult) -> tuple[CompiledKernel, list[LlvmPass]]:
    compiled = next((r.compiled for r in result.records if r.compiled is not None), None)
    built = compiled.compiled.built if compiled is not None else None
    if compiled is None or built is None or built.machine is None:
        raise OptionError(f"LLVM made no code of {result.name}", code="K129")
    return compiled, llvm_passes(compiled.asm["llvm"], built.machine, built.symbol)


def llvm_passes_data(result: KernelResult, which: str | None, grep: str | None) -> Shown:
    """Return the same as `llvm_passes_text` as `--json` prints it."""
    compiled, found = _asked(result)
    passes: list[dict[str, Any]] = [
        {"number": n, "name": step.name, "argument": step.argument,
         "rows": len(step.text.splitlines())}
        for n, step in enumerate(found)
        if (grep is None or re.search(grep, f"{step.argument} {step.name}"))
        and (which is None or which in (str(n), step.argument))
    ]  # fmt: skip
    diff: dict[str, Any] = {} if which is None else {"diff": _diff(found, which)}
    return plain(kernel=compiled.name, target=compiled.target, passes=passes, **diff)


def llvm_passes_text(result: KernelResult, which: str | None, grep: str | None) -> Shown:
    """Return LLVM's passes that changed something, or the diff of one, by name or number."""
    compiled, found = _asked(result)
    if which is not None:
        return Shown(_diff(found, which), "diff")
    width = max(len(step.argument) for step in found)
    rows = [f"LLVM's passes that changed {compiled.name} for {compiled.target}"]
    for number, step in enumerate(found):
        if grep is None or re.search(grep, f"{step.argument} {step.name}"):
            count = len(step.text.splitlines())
            rows.append(f"{number:>3}  {step.argument:<{width}}  {count:>6,} rows  {step.name}")
    rows.append("%passes KERNEL NUMBER --llvm-passes shows what one of them changed")
    return Shown("\n".join(rows))


def _diff(found: list[LlvmPass], which: str) -> str:
    numbers = [n for n, step in enumerate(found) if which in (str(n), step.argument) and n]
    if not numbers:
        names = ", ".join(dict.fromkeys(step.argument for step in found[1:]))
        raise OptionError(
            f"no pass of LLVM's '{which}' changed anything; there are {names}", code="K129"
        )
    parts: list[str] = []
    for n in numbers:
        before, after = found[n - 1].text.splitlines(), found[n].text.splitlines()
        name = found[n].argument
        parts += difflib.unified_diff(before, after, f"before {name}", f"after {name}", lineterm="")
    return "\n".join(parts)
