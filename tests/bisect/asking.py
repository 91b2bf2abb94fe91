"""Runs a faulty kernel as a cell and asks `%bisect` about it."""

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
from workbench.source import KernelError


def names_of(kernel: str) -> dict[str, Any]:
    """Return the namespace that a kernel's option line is read in."""
    return {"torch": torch, **GROUNDS[kernel].names()}


def ask_about_source(fault: SourceFault, *, beside: bool) -> tuple[Answer, float]:
    """Run a faulty kernel, whose check must fail, and ask; returns the seconds that this took."""
    registry.clear()
    ground = GROUNDS[fault.kernel]
    names = names_of(fault.kernel)
    other = None
    if beside:
        right = run_cell(ground.text, f"{ground.line} --target cpu", names, file="In[1]")
        other = right.kernel
        names = names_of(fault.kernel)
    try:
        run_cell(fault.text(), f"{ground.line} --target cpu", names, file="In[2]")
    except KernelError as error:
        assert error.code == "K601", error.render()
    else:
        raise AssertionError(f"the check of {fault.name} does not fail")
    start = time.perf_counter()
    answer = bisect(names[fault.kernel], namespace=names, other=other)
    return answer, time.perf_counter() - start


def ask_about_compiler(fault: CompilerFault) -> tuple[Answer, float]:
    """Compile a right kernel with a faulty compiler and ask; returns the seconds that this took."""
    registry.clear()
    ground = GROUNDS[fault.kernel]
    names = names_of(fault.kernel)
    compiling.forget()
    with planted(fault):
        try:
            more = "" if fault.target == "cpu" else " --no-run"
            run_cell(ground.text, f"{ground.line} --target {fault.target}{more}", names)
        except KernelError as error:
            assert error.code == "K601", error.render()
        else:
            assert fault.target != "cpu", f"the check of {fault.name} does not fail"
        start = time.perf_counter()
        answer = bisect(names[fault.kernel], namespace=names)
        took = time.perf_counter() - start
    compiling.forget()
    return answer, took
