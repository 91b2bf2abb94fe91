"""The files that are made of compiled kernels: code, C that launches it, Python that repeats it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from workbench.bench.plan import Plan
from workbench.bench.reproducer import reproducer
from workbench.bench.samples import sample_of
from workbench.bench.subject import Subject
from workbench.runtime.c_launcher import header, launcher
from workbench.runtime.compiled import CompiledKernel
from workbench.source import OptionError


def made_of(
    kernels: Sequence[CompiledKernel], subject: Subject | None = None, plan: Plan | None = None
) -> Mapping[str, Callable[[], bytes]]:
    """Return by suffix what makes a file of some compilations of one kernel, best first.

    `subject` is a launch that the files repeat, `plan` says what it was checked against.
    """
    if not kernels:
        return {}
    on_gpu = next((one for one in kernels if one.target.startswith("sm_")), kernels[0])
    launched = subject.compiled if subject is not None else None
    entry = next((one for one in kernels if one is launched), kernels[0])
    return {
        ".cubin": partial(_cubin, on_gpu),
        ".c": lambda: launcher(
            on_gpu, _comment(on_gpu), None if subject is None else sample_of(subject)
        ).encode(),
        ".h": lambda: header(on_gpu, _comment(on_gpu)).encode(),
        ".py": lambda: reproducer(entry, _comment(entry), subject, plan).encode(),
    }


def _cubin(kernel: CompiledKernel) -> bytes:
    if "cubin" not in kernel.asm:
        raise OptionError(
            "there is no cubin to write", code="K804",
            hint="pip install nvidia-cuda-nvcc, then compile for an sm_ target",
        )  # fmt: skip
    return kernel.asm["cubin"]


def _comment(kernel: CompiledKernel) -> str:
    from workbench.viewer.export import first_comment

    return first_comment(kernel.trace)
