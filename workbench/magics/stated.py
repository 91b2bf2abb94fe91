"""What `--sig` and `--set` compile for who asks how a kernel lies in a GPU: no launch, no data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workbench.bench.device import has_gpu
from workbench.bench.running import chip, run_plan
from workbench.magics.options import Request
from workbench.magics.planning import make_plan
from workbench.magics.questioning import kernel_of


def stated(kernel: Any, request: Request, namespace: Mapping[str, Any]) -> Any:
    """Return a kernel as `--sig` or `--set` say that it is compiled; itself where they do not.

    The target is this machine's GPU, sm_90a where there is none, unless `--target` names another.
    Raises OptionError K129 for an unknown kernel, and what compiling raises.
    """
    if request.sig is None and not request.settings:
        return kernel
    names = dict(namespace)
    entry, _ = kernel_of(kernel, names)
    auto = request.target == "auto"
    chosen = replace(request, target=(chip() if has_gpu() else "sm_90a")) if auto else request
    return run_plan(entry, make_plan(chosen, entry.kernel_source, names))
