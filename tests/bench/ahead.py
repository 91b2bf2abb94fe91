"""Compiles what contests will launch, before they are measured and where there need be no GPU.

    WORKBENCH_AHEAD=build/ahead python -m tests.bench.ahead SUITE ...

fills that folder with all configurations of our compiler for sm_90a, on as many cores as there
are, and packs it into build/ahead.tar.gz, a quarter of its size. Either may be carried to the
machine that measures: with the variable set to it there, `python -m tests.gpu.run SUITE` takes it
over. What a machine lacks (Triton's code always) is compiled there first, on all its cores.

Entries are found by what the sources say, not by the times of files and the places of tools, which
differ between machines: this changes nothing but the keys of the processes of this folder.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache as cached
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch

from tests.bench import contests as forms
from tests.bench import peers
from tests.bench.contests import Tensors
from tests.corpus.sample import Launch, jitted
from workbench.source import OptionError

TARGET = "sm_90a"
#: A configuration that no block of the chip can be is no mistake: each compiler has its own.
TOO_LARGE = ("K401", "K402")
FOLDER = "WORKBENCH_AHEAD"
#: What a cache has in it (workbench/runtime/cache.py).
FORMAT_FOLDER = "v3"


class Job(NamedTuple):
    """One launch to compile: the number of a contest and of a configuration, and who compiles."""

    contest: int
    config: int
    compiler: str


class Told(NamedTuple):
    """What came of some jobs."""

    compiled: int
    failed: tuple[str, ...]
    refused: int = 0


# -- entries that travel --------------------------------------------------------------------------
def by_content() -> None:
    """Have this process know compiled kernels by the text of what compiles them."""
    from workbench.runtime import cache, compiling

    cache.compiler_stamp = _stamp  # type: ignore[assignment]
    compiling._same_tools = lambda tools: True


@cached
def _stamp() -> str:
    import llvmlite

    from workbench.runtime import cache

    digest = sha256()
    for path in sorted(cache.PACKAGE.rglob("*.py")):
        digest.update(str(path.relative_to(cache.PACKAGE)).encode() + path.read_bytes())
    return f"ahead {digest.hexdigest()} llvmlite {llvmlite.__version__}"


def take_over() -> str:
    """Prepare a cache for processes that measure; returns it, for WORKBENCH_CACHE_DIR.

    Without WORKBENCH_AHEAD it is the cache that is set. A packed folder is unpacked.
    """
    from workbench.runtime import cache

    carried = os.environ.get(FOLDER)
    if not carried:
        return str(cache.directory())
    folder = Path(tempfile.mkdtemp(prefix="ahead-"))
    if Path(carried).is_file():
        shutil.unpack_archive(carried, folder / "packed", filter="data")
        carried = str(folder / "packed")
    count = 0
    for source in sorted(path.parent for path in Path(carried).glob(f"**/{FORMAT_FOLDER}")):
        target = folder / source.relative_to(carried)
        with environment({"WORKBENCH_CACHE_DIR": str(target)}):
            try:
                count += cache.merge(source)
            except OptionError as error:  # then it is compiled here
                print(f"{source} is not taken over: {error}", flush=True)
    print(f"{count} kernels that were compiled ahead", flush=True)
    return str(folder)


# -- compiling ------------------------------------------------------------------------------------
def compile_ours(launch: Launch) -> Any:
    """Compile a launch to SASS; nothing runs, tensors are types."""
    found = jitted(launch.kernel).warmup(
        *map(_type, launch.arguments), **launch.named, grid=launch.grid, target=TARGET
    )
    _ = found.code
    return found


def compile_triton(module: ModuleType, launch: Launch) -> None:
    """Compile a launch by Triton, into its cache."""
    kernel = getattr(peers.under_triton(module), launch.kernel.__name__)
    kernel.warmup(*map(_type, launch.arguments), **launch.named, grid=launch.grid)


def _type(argument: Any) -> Any:
    return argument.dtype if isinstance(argument, torch.Tensor) else argument


def shortened(text: str, most: int) -> str:
    """Return a text in one line; of a long one the middle is left out.

    Compilers quote the source first and say what is wrong with it last.
    """
    line = " ".join(text.split())
    head = most // 3
    return line if len(line) <= most else f"{line[:head]} … {line[head + 3 - most :]}"


def kind(launch: Launch, compiler: str) -> tuple[Any, ...]:
    """Return what launches have in common that need one compilation."""
    facts = tuple(
        (str(a.dtype),)
        if isinstance(a, torch.Tensor)
        else (a == 1, a & -a if a % 16 else 16, a.bit_length() > 31)
        if isinstance(a, int)
        else a
        for a in launch.arguments
    )
    return compiler, launch.kernel, facts, tuple(launch.named.items())


def jobs(chosen: Iterable[int], compilers: Sequence[str]) -> list[Job]:
    """Return what is to be compiled for contests, each kernel once."""
    found: dict[Any, Job] = {}
    for number in chosen:
        contest = forms.all_contests()[number]
        prepared = contest.prepare(Tensors("meta"))
        for compiler in compilers:
            if compiler == "triton" and not contest.peer:
                continue
            for place, config in enumerate(contest.table(compiler)):
                launches = [*prepared.launches(config)]
                if compiler == "ours":
                    launches += [variant(config) for variant in prepared.variants.values()]
                for launch in launches:
                    found.setdefault(kind(launch, compiler), Job(number, place, compiler))
    return list(found.values())


def compile_share(share: Sequence[Job]) -> Told:
    """Compile some jobs in this process; what fails will be said when it is measured, too."""
    torch.set_num_threads(1)
    by_content()
    failed: list[str] = []
    refused = 0
    for job in share:
        contest = forms.all_contests()[job.contest]
        config = contest.table(job.compiler)[job.config]
        prepared = contest.prepare(Tensors("meta"))
        try:
            if job.compiler == "triton":
                for launch in prepared.launches(config):
                    compile_triton(contest.module, launch)
            else:
                variants = (variant(config) for variant in prepared.variants.values())
                for launch in (*prepared.launches(config), *variants):
                    compile_ours(launch)
        except Exception as error:
            if getattr(error, "code", None) in TOO_LARGE:
                refused += 1
                continue
            said = shortened(str(error), 240)
            failed.append(f"{contest.title} {config} by {job.compiler}: {said}")
    return Told(len(share) - len(failed) - refused, tuple(failed), refused)


def compile_all(suites: Sequence[str], compilers: Sequence[str], folder: str) -> list[str]:
    """Compile all configurations of suites into a cache, on all cores; returns what failed."""
    start = time.perf_counter()
    failed: list[str] = []
    compiled = refused = 0
    numbers = [n for n, contest in enumerate(forms.all_contests()) if contest.suite in suites]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    wanted = jobs(numbers, compilers)
    workers = max(1, min(cores, len(wanted)))
    shares = [wanted[first::workers] for first in range(workers)]
    # A worker is a fresh process: it sees the environment, and holds no context.
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    with environment({"WORKBENCH_CACHE_DIR": folder}), pool:
        for told in pool.map(compile_share, shares):
            compiled += told.compiled
            refused += told.refused
            failed += told.failed
    seconds = time.perf_counter() - start
    print(f"{compiled} kernels compiled ahead by {', '.join(compilers)}, {refused} too large, "
          f"{len(failed)} failed, in {seconds:.0f} s", flush=True)  # fmt: skip
    return failed


class environment:  # noqa: N801 - used like a function
    """Variables set for a while."""

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values

    def __enter__(self) -> None:
        self._before = {name: os.environ.get(name) for name in self._values}
        os.environ.update(self._values)

    def __exit__(self, *error: object) -> None:
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def main(suites: list[str]) -> int:
    """Compile suites by our compiler; the exit status says whether all of it could be."""
    known = forms.suites()
    unknown = [name for name in suites if name not in known]
    folder = os.environ.get(FOLDER)
    if unknown or not folder:
        said = f"unknown suites {', '.join(unknown)}" if unknown else f"{FOLDER} names no folder"
        print(f"{said}; suites: {', '.join(known)}")
        return 2
    path = Path(folder).absolute()
    path.mkdir(parents=True, exist_ok=True)
    failed = compile_all(suites or known, ["ours"], str(path))
    print(shutil.make_archive(str(path), "gztar", path))
    for line in failed:
        print("FAILED", line)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
