"""A process that compiles kernels for another one (`workers.py`).

It reads jobs from standard input and writes answers to standard output, each a length and that
many bytes. What kernels print while they compile is not part of the conversation and is dropped.
"""

from __future__ import annotations

import os
import pickle
import select
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import IO, Any

from workbench.launch.facts import Signature
from workbench.source import KernelError, KernelSource

#: A worker without jobs for so long ends.
IDLE_SECONDS = 120.0

#: How much a worker steps back behind who asked: that one shows the first results, and measures.
BEHIND = 5

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class Job:
    """One compilation: `integers` and `grid` decide how wide indices must be, if given.

    `prune` asks the resource model first; `seconds` is the most that the assembler may take. `look`
    is called with the kernel, the integers and the grid, and what it gives is sent back.
    """

    source: KernelSource
    signature: Signature
    target: str
    integers: dict[str, int] | None = None
    grid: tuple[int, int, int] | None = None
    prune: bool = True
    seconds: float | None = None
    look: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a job: code with what a launch needs, or why there is none.

    `pruned` says that the resource model spoke, before anything was compiled.
    """

    launch: Any = None
    code: bytes = b""
    index_program: bytes | None = None
    tools: tuple[Any, ...] = ()
    error: KernelError | None = None
    pruned: str = ""
    unable: str = ""
    seen: Any = None


def answer(job: Job) -> Answer:
    """Do one job."""
    from workbench.launch.facts import to_specialization
    from workbench.launch.index_width import fits_launch
    from workbench.runtime import compiling
    from workbench.targets.nvidia.toolchain import time_limit
    from workbench.tuning import resources

    if job.prune and job.target.startswith("sm_"):
        from workbench.compiler import lower

        try:
            lowered = lower(job.source, to_specialization(job.signature))
        except KernelError as error:
            return Answer(error=_portable(error))
        reason = resources.refusal(lowered.module, job.target, dict(job.signature.options))
        if reason:
            return Answer(pruned=reason)
    fits = None
    if job.integers is not None and job.grid is not None:
        fits = partial(fits_launch, integers=job.integers, grid=job.grid)
    try:
        with time_limit(job.seconds):
            kernel = compiling.obtain(job.source, job.signature, job.target, fits=fits)
            launch = kernel.launch
            seen = job.look(kernel, job.integers, job.grid) if job.look is not None else None
    except KernelError as error:
        return Answer(error=_portable(error))
    program = kernel.index_program
    return Answer(
        launch=launch,
        code=kernel.code,
        index_program=None if program is None else pickle.dumps(program),
        tools=kernel.tools,
        seen=seen,
    )


def _portable(error: KernelError) -> KernelError:
    """Return an error without what only this process can use."""
    error.trace, error.others = None, ()
    error.__cause__ = error.__context__ = error.__traceback__ = None
    return error


def send(stream: IO[bytes], data: bytes) -> None:
    """Write one message."""
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read one message; None at the end."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    return data if len(data) == length else None


def _reply(data: bytes) -> bytes:
    from workbench.runtime import shipping

    try:
        found = answer(shipping.loads(data))
    except Exception as error:
        found = Answer(unable=f"{type(error).__name__}: {error}")
    try:
        return pickle.dumps(found)
    except Exception as error:
        return pickle.dumps(Answer(unable=f"{type(error).__name__}: {error}"))


def _has_work() -> bool:
    """Wait for the next job; False after a while without one."""
    if sys.platform == "win32":  # where pipes cannot be waited for
        return True
    ready, _, _ = select.select([sys.stdin.buffer], [], [], IDLE_SECONDS)
    return bool(ready)


def main() -> None:
    """Answer jobs until the other process closes the pipe, or has none for a while."""
    output = os.fdopen(os.dup(1), "wb")
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - for the life of the process
    if hasattr(os, "nice"):
        os.nice(BEHIND)
    from workbench.runtime import shipping

    shipping.enter()
    while _has_work() and (data := receive(sys.stdin.buffer)) is not None:
        send(output, _reply(data))
