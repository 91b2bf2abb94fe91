"""The kernels that torch made through us, as results: what `%kernels` lists and `%ptx` opens."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from workbench.bench.results import KernelResult, Record
from workbench.trace import Remark, Trace


def results() -> Iterator[KernelResult]:
    """Yield a result for each kernel of each graph, the oldest first."""
    using = sys.modules.get("workbench.inductor.using")
    if using is None:  # torch has made nothing through us
        return
    for graph in using.graphs:
        for kernel in graph.kernels:
            if kernel.artefacts:
                yield _result(kernel)


def find(name: str) -> list[KernelResult]:
    """Return the results of the kernels of a name, the latest last."""
    return [result for result in results() if result.name == name]


def _result(kernel: Any) -> KernelResult:
    records = [
        Record(lambda one=artefact: _explained(one.compiled.trace, kernel.lines))
        for artefact in kernel.artefacts
    ]
    return KernelResult(kernel.artefacts[0].kernel, kernel.name, records)


def _explained(trace: Trace, lines: Any) -> Trace:
    """Return a trace with the torch lines of its kernel as the first remarks."""
    found = tuple(Remark(code="torch", severity="note", text=f"computes {line}") for line in lines)
    return replace(trace, remarks=(*found, *trace.remarks))
