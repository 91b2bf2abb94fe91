"""What `--sig` and `--set` compile for who asks how a kernel lies in a GPU: no launch, no data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workbench.bench.device import has_gpu
from workbench.bench.running import chip, run_plan
from workbench.magics import registry, variants
from workbench.magics.options import Request
from workbench.magics.planning import make_plan
from workbench.magics.questioning import kernel_of


def stated(kernel: Any, request: Request, namespace: Mapping[str, Any]) -> Any:
    """Return a kernel as `--sig`, `--set` and `--target` say; itself where they do not.

    Without `--sig`, for the arguments that it was compiled for before. The target is this machine's
    GPU, sm_90a where there is none, unless `--target` names another. Raises OptionError K129 for
    an unknown kernel, and what compiling raises.
    """
    names = dict(namespace)
    if request.sig is None and isinstance(kernel, str | None) and "@" not in (kernel or ""):
        settings = {name: given.evaluate(names) for name, given in request.settings}
        if not settings and request.target == "auto":
            return kernel
        auto = chip() if has_gpu() else "sm_90a"
        target = auto if request.target == "auto" else request.target
        return variants.made(registry.find(kernel, names), [target], settings)
    if request.sig is None and not request.settings:
        return kernel
    entry, _ = kernel_of(kernel, names)
    auto = request.target == "auto"
    chosen = replace(request, target=(chip() if has_gpu() else "sm_90a")) if auto else request
    return run_plan(entry, make_plan(chosen, entry.kernel_source, names))
