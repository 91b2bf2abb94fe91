"""ptxas and nvdisasm: where they are, and what they say about a kernel.

Looked for in the wheels `nvidia-cuda-nvcc` and `nvidia-cuda-nvdisasm`, then CUDA_HOME, then PATH.
A missing tool costs what it would have told; the text says which wheel brings it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

from workbench.source import ToolError, undisturbed
from workbench.targets.nvidia.lost_policies import has_policies, may_be_lost, without_policies

WHEELS = {"ptxas": "nvidia-cuda-nvcc", "nvdisasm": "nvidia-cuda-nvdisasm"}


@cache
def find(tool: str) -> str | None:
    """Return the path of ptxas or nvdisasm, None if there is none."""
    places = [
        Path(p) / "nvidia" / cu / "bin" for p in sys.path for cu in ("cu13", "cuda_nvcc", "cu14")
    ]
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if home:
        places.append(Path(home) / "bin")
    for place in places:
        candidate = place / tool
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    return shutil.which(tool)


@cache
def assembler() -> tuple[tuple[str, int, int], ...]:
    """Return (path, size, time) of ptxas, by which code that is kept is made again by another."""
    path = find("ptxas")
    if path is None:
        return ()
    status = Path(path).stat()
    return ((path, status.st_size, status.st_mtime_ns),)


def missing(tool: str) -> str:
    """Return the sentence that says how to get a missing tool."""
    return f"needs {tool}: pip install {WHEELS[tool]}"


@cache
def version(tool: str) -> str | None:
    """Return the version of a tool, e.g. "13.0.88"; None if it is missing."""
    path = find(tool)
    if path is None:
        return None
    text = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"V(\d+\.\d+\.\d+)", text)
    return match.group(1) if match else "unknown"


class PtxError(ToolError):
    """ptxas refuses a text.

    `rows` is what it says, by the row (from 1) that it says it of; `version` the latest version of
    PTX, (major, minor), that it asks for.
    """

    code = "K410"

    def __init__(self, said: str) -> None:
        lines = [line.strip() for line in said.strip().splitlines()]
        super().__init__(f"ptxas refused the generated code: {'; '.join(lines[:3])}")
        asked = re.findall(r"requires PTX ISA \.version (\d+)\.(\d+) or later", said)
        self.version = max(((int(a), int(b)) for a, b in asked), default=None)
        self.rows: dict[int, str] = {}
        for line in lines:
            found = _ROW.search(line)
            if found is not None:
                self.rows.setdefault(int(found.group(1)), found.group(2))
            elif (found := _ROW_AT_END.search(line)) is not None:
                self.rows.setdefault(int(found.group(2)), found.group(1))


_ROW = re.compile(r"line (\d+); (?:error|fatal)\s*: (.*)")
_ROW_AT_END = re.compile(r"fatal\s*: (.*) on line (\d+)$")


@dataclass(frozen=True, slots=True)
class Assembled:
    """What ptxas makes of PTX: the cubin and the resources it reports."""

    cubin: bytes
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    shared_bytes: int
    barriers: int
    notes: tuple[str, ...]


_seconds: ContextVar[float | None] = ContextVar("seconds", default=None)


@contextmanager
def time_limit(seconds: float | None) -> Generator[None]:
    """Let ptxas run for at most so long within the block."""
    token = _seconds.set(seconds)
    try:
        yield
    finally:
        _seconds.reset(token)


def assemble(ptx: str, chip: str, maxnreg: int | None = None) -> Assembled:
    """Run ptxas; raises ToolError (K410) with its message if it refuses the text.

    Policies of copies that it may have lost are none, which a note says.
    """
    path = find("ptxas")
    if path is None:
        raise ToolError(missing("ptxas"), code="K411")
    made = _assemble(path, ptx, chip, maxnreg)
    if has_policies(ptx) and may_be_lost(made.cubin):
        made = _assemble(path, without_policies(ptx), chip, maxnreg)
        made = replace(made, notes=(*made.notes, _LOST.format(version=version("ptxas"))))
    return made


_LOST = (
    "eviction_policy is not obeyed: version {version} may lose what copies by threads tell the L2, "
    "as those before 13.4.59 do"
)


def _assemble(path: str, ptx: str, chip: str, maxnreg: int | None) -> Assembled:
    with _folder_for("ptxas", "K410") as folder:
        source, target = folder / "kernel.ptx", folder / "kernel.cubin"
        source.write_text(ptx)
        command = [path, "-v", "-lineinfo", f"-arch={chip}", str(source), "-o", str(target)]
        if maxnreg:
            command.insert(1, f"-maxrregcount={maxnreg}")
        done = _run(command)
        if done.returncode:
            raise PtxError(done.stderr)
        return _assembled(target.read_bytes(), done.stderr)


@contextmanager
def _folder_for(tool: str, code: str) -> Generator[Path]:
    """Make a folder for what a tool reads and writes; raises ToolError where the system refuses."""
    try:
        with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
            yield Path(folder)
    except OSError as error:
        raise ToolError(
            f"{tool} cannot be used: {error}", code=code,
            hint="it needs room in the folder for temporary files (TMPDIR), a process, and a few "
            "open files (ulimit -n)",
        ) from error  # fmt: skip


#: How glibc gives ptxas memory: from large pages, many at a time, and none back. It takes 50 MB in
#: ten thousand pages for a large kernel, which are a tenth of its time. Others pass over it.
_MEMORY = (
    "glibc.malloc.hugetlb=1",
    "glibc.malloc.top_pad=16777216",
    "glibc.malloc.mmap_threshold=1073741824",
)


def environment() -> dict[str, str]:
    """Return the environment for ptxas; what the user says of glibc comes last, so it holds."""
    given = os.environ.get("GLIBC_TUNABLES")
    words = ":".join((*_MEMORY, *([given] if given else [])))
    return {**undisturbed.environment(), "GLIBC_TUNABLES": words}


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    limit = _seconds.get()
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=limit, env=environment()
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(f"ptxas took more than {limit:g} s", code="K413") from error


def _assembled(cubin: bytes, said: str) -> Assembled:
    def number(pattern: str) -> int:
        match = re.search(pattern, said)
        return int(match.group(1)) if match else 0

    notes = tuple(
        line.strip() for line in said.splitlines() if "C75" in line or line.startswith("warning")
    )
    return Assembled(
        cubin,
        registers=number(r"Used (\d+) registers"),
        spill_store_bytes=number(r"(\d+) bytes spill stores"),
        spill_load_bytes=number(r"(\d+) bytes spill loads"),
        stack_bytes=number(r"(\d+) bytes stack frame"),
        shared_bytes=number(r"(\d+) bytes smem"),
        barriers=number(r"used (\d+) barriers"),
        notes=notes,
    )


def disassemble(cubin: bytes) -> str:
    """Return nvdisasm's text of a cubin with the PTX row of every instruction (-gp).

    Without looking for targets of branches that are computed (-ndf): there are none, and it is a
    quarter of half a second. The rest, it reads its description of the chip.
    """
    return _nvdisasm(cubin, "-c", "-gp", "-ndf")


def listed(cubin: bytes) -> str:
    """Return nvdisasm's text of a cubin."""
    return _nvdisasm(cubin, "-c", "-ndf")


def live_registers(cubin: bytes) -> str:
    """Return nvdisasm's text of a cubin with the live registers of every instruction (-plr).

    Empty where this nvdisasm does not know the cubin's layout.
    """
    try:
        return _nvdisasm(cubin, "-c", "-plr")
    except ToolError:
        return ""


def _nvdisasm(cubin: bytes, *options: str) -> str:
    path = find("nvdisasm")
    if path is None:
        raise ToolError(missing("nvdisasm"), code="K412")
    return _said(path, cubin, options)


@lru_cache(maxsize=32)
def _said(path: str, cubin: bytes, options: tuple[str, ...]) -> str:
    with _folder_for("nvdisasm", "K412") as folder:
        source = folder / "kernel.cubin"
        source.write_bytes(cubin)
        done = subprocess.run(
            [path, *options, str(source)], capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise ToolError(f"nvdisasm failed: {done.stderr.strip()[:200]}", code="K412")
    return done.stdout
