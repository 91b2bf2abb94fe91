"""How torch's workers get their jobs: as always, but with our compiler loaded before they fork."""

from __future__ import annotations

from torch._inductor.compile_worker.subproc_pool import SubprocPickler

from workbench.inductor import workers


class Pickler(SubprocPickler):
    """Torch's own; the parent of the workers imports this module to find it."""


workers.prepare()
