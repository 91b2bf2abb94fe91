"""Runs a faulty kernel, or a right one through a faulty compiler, and asks `%bisect` about it."""

from __future__ import annotations

import time
from typing import Any

import torch

from tests.bisect.compiler_faults import CompilerFault, planted
from tests.bisect.kernels import GROUNDS
from tests.bisect.source_faults import SourceFault
from workbench import run_cell
from workbench.magics import registry
from workbench.magics.questioning import bisect
from workbench.questions.answers import Answer
from workbench.runtime import compiling
from workbench.source import CheckError


def names_of(kernel: str) -> dict[str, Any]:
    """Return the namespace that a kernel's option line is read in."""
    return {"torch": torch, **GROUNDS[kernel].names()}


def _check_fails(text: str, line: str, names: dict[str, Any], file: str) -> None:
    try:
        run_cell(text, line, names, file=file)
    except CheckError:
        return
    raise AssertionError(f"the check of {file} does not fail")


def ask_about_source(fault: SourceFault, *, beside: bool) -> tuple[Answer, float]:
    """Run a faulty kernel, whose check must fail, and ask; returns the seconds that this took."""
    registry.clear()
    ground = GROUNDS[fault.kernel]
    line = f"{ground.line} --target cpu"
    other = None
    if beside:
        other = run_cell(ground.text, line, names_of(fault.kernel), file="In[1]").kernel
    names = names_of(fault.kernel)
    _check_fails(fault.text(), line, names, "In[2]")
    start = time.perf_counter()
    answer = bisect(names[fault.kernel], namespace=names, other=other)
    return answer, time.perf_counter() - start


def ask_about_compiler(fault: CompilerFault) -> tuple[Answer, float]:
    """Compile a right kernel with a faulty compiler and ask; returns the seconds that this took.

    Nothing may come from the disk's cache or go there: the caller turns it off.
    """
    registry.clear()
    ground = GROUNDS[fault.kernel]
    names = names_of(fault.kernel)
    compiling.forget()
    try:
        with planted(fault):
            line = f"{ground.line} --target {fault.target}"
            if fault.target == "cpu":
                _check_fails(ground.text, line, names, "In[1]")
            else:
                run_cell(ground.text, f"{line} --no-run", names, file="In[1]")
            start = time.perf_counter()
            answer = bisect(names[fault.kernel], namespace=names)
            return answer, time.perf_counter() - start
    finally:
        compiling.forget()


def names_pass_and_op(fault: CompilerFault, answer: Answer) -> bool:
    """Whether an answer names where the fault is, and the op."""
    where = answer.pass_name if answer.verdict == "pass" else answer.verdict
    named = [op.name for op in (answer.op, answer.instead) if op is not None]
    return where == fault.where and fault.op in named


def names_line(fault: SourceFault, answer: Answer) -> bool:
    """Whether an answer names the faulty line."""
    return answer.op is not None and answer.op.line == fault.line()


def lists_line(fault: SourceFault, answer: Answer) -> bool:
    """Whether the faulty line is among the slice's first five."""
    return fault.line() in [row.span.line for row in answer.rows[:5]]
