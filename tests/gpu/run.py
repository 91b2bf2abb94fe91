"""`make gpu`: everything that needs a GPU: tests, notebooks, correctness cases, fuzzing, the bench.

`python -m tests.gpu.run [tests] [notebooks] [check] [inductor] [fuzz] [bench] [SUITE ...]` runs
parts; without arguments, all. It needs torch, NumPy and pytest, and neither IPython nor the other
test packages.
What failed and what did not run (a file that cannot be imported, a group without tests, a suite
that raised, a baseline without a time) is named at the end, and makes the exit status 1.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, ThreadPoolExecutor, wait
from functools import cache, partial
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path

from tests.gpu.report import Report

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
PARTS = ("tests", "notebooks", "check", "inductor", "fuzz", "bench")
#: Compiling takes most of the time, on one core per process; each has a context on the device.
WORKERS = max(1, min(12, (os.cpu_count() or 2) - 2))


# -- tests --------------------------------------------------------------------------------------
def marked_files(marker: str = "gpu") -> dict[str, list[Path]]:
    """Return the files with tests of a marker, by folder: no other file needs to be importable.

    A file has them too if it imports a name of another module of the tests that hands out the
    marker.
    """
    trees = _trees(TESTS)
    handed = {
        (".".join(path.relative_to(ROOT).with_suffix("").parts), name)
        for path, tree in trees.items()
        if not path.name.startswith("test_")
        for name in marked_names(tree, marker)
    }
    found: dict[str, list[Path]] = {}
    for path, tree in trees.items():
        if path.name.startswith("test_") and (marks(tree, marker) or handed & imported(tree)):
            found.setdefault(path.parent.relative_to(ROOT).as_posix(), []).append(path)
    return found


@cache
def _trees(folder: Path) -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in sorted(folder.rglob("*.py"))}


def marks(tree: ast.AST, marker: str) -> bool:
    """Say whether code has `pytest.mark.<marker>` in it."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == marker
        and ast.unparse(node.value) == "pytest.mark"
        for node in ast.walk(tree)
    )


def marked_names(tree: ast.Module, marker: str) -> set[str]:
    """Return what a module defines with a marker in it, or with such a name in it."""
    found: set[str] = set()
    for statement in tree.body if marks(tree, marker) else ():
        names = [node for node in ast.walk(statement) if isinstance(node, ast.Name)]
        if marks(statement, marker) or found & {name.id for name in names}:
            found |= {name.id for name in names if isinstance(name.ctx, ast.Store)}
            found |= {statement.name} if hasattr(statement, "name") else set()
    return found


def imported(tree: ast.AST) -> set[tuple[str, str]]:
    """Return the names that a module imports from others, as (module, name)."""
    return {
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def run_pytest(
    report: Report,
    *,
    group: str,
    arguments: Sequence[str],
    target: str | None = None,
    shares: int = 1,
) -> str:
    """Run tests in processes of their own, each with a share of them; returns the counts."""
    environment = {**os.environ} if target is None else {
        **os.environ, "WORKBENCH_TEST_TARGET": target
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:

        def share(number: int) -> Path | str:
            file = Path(folder) / f"{number}.xml"
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                 "--continue-on-collection-errors", *arguments,
                 f"--share={number}/{shares}", f"--junitxml={file}"],
                cwd=ROOT, env=environment, capture_output=True, text=True,
            )  # fmt: skip
            if done.returncode:
                print("\n".join(done.stdout.strip().splitlines()[-60:]), flush=True)
            said = f"status {done.returncode}: {(done.stderr or done.stdout)[-300:]}"
            # Status 5: no tests, which the counts say. 0 and 1 are a whole run; the rest was cut.
            whole = done.returncode in (0, 1, 2, 5) and file.exists()
            return file if whole else said

        with ThreadPoolExecutor(shares) as pool:
            return report.read_tests(group, list(pool.map(share, range(1, shares + 1))))


def run_tests(report: Report) -> None:
    """Run the language's tests and files of IR on this device's chip, and what needs a GPU."""
    from workbench.devices import cuda

    language = partial(
        run_pytest, group="tests/language", arguments=["tests/language"], target=cuda.chip(0),
        shares=min(8, WORKERS),
    )  # fmt: skip
    report.part("tests/language on the chip", language)
    files = partial(
        run_pytest, group="tests/files", arguments=["tests/files"], shares=min(8, WORKERS)
    )
    report.part("tests/files on the chip", files)
    run_marked(report)


def run_marked(report: Report) -> None:
    """Run the tests marked gpu: folders side by side, then the files that measure time."""
    marked, alone = marked_files(), marked_files("alone")
    if not marked:
        report.missing.append("tests: no file has tests marked gpu")

    def run(folder: str, files: Sequence[Path], name: str, shares: int = 1) -> None:
        arguments = [*map(str, files), "-m", "gpu"]
        part = partial(run_pytest, group=folder, arguments=arguments, shares=shares)
        report.part(f"{folder} ({name})", part)

    beside = {
        folder: rest for folder, files in marked.items()
        if (rest := [file for file in files if file not in alone.get(folder, ())])
    }  # fmt: skip
    with ThreadPoolExecutor(max(1, WORKERS // 2)) as pool:
        for done in [pool.submit(run, *given, "gpu", 2) for given in beside.items()]:
            done.result()
    for folder, files in alone.items():
        run(folder, files, "gpu, alone")


# -- correctness cases ----------------------------------------------------------------------------
def check_part(first: int, step: int) -> tuple[int, list[str], int | None]:
    """Run every `step`th case; say how many ran, what is wrong with some, and where to go on.

    A kernel that reads or writes outside its arrays takes the process' context with it: the part
    ends there, names the case, and the next one is for another process (None: nothing is left).
    """
    import torch

    from tests.gpu import cases

    total, failed = 0, []
    chosen = islice(chain.from_iterable(family() for family in cases.ALL), first, None, step)
    for number, (name, run) in enumerate(chosen, 1):
        total += 1
        try:
            outcome = run()
            torch.cuda.synchronize()
            if not outcome.ok:
                failed.append(f"{outcome.name}: error {outcome.error} allowed {outcome.allowed}")
        except Exception as error:
            last = " / ".join(traceback.format_exc().strip().splitlines()[-3:])
            failed.append(f"{name}: {type(error).__name__}: {str(error)[:300]} | {last[:300]}")
            if not usable():
                return total, failed, first + number * step
    return total, failed, None


def usable() -> bool:
    """Say whether the context of this process still takes work."""
    import torch

    try:
        torch.cuda.synchronize()
    except Exception:
        return False
    return True


def check(report: Report) -> str:
    """Run all correctness cases, in several processes."""
    start = time.perf_counter()
    total, messages = 0, []
    # A process each: what follows a lost context must have another.
    with ProcessPoolExecutor(WORKERS, get_context("spawn"), max_tasks_per_child=1) as pool:
        running = {pool.submit(check_part, first, WORKERS) for first in range(WORKERS)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for count, failed, following in (part.result() for part in done):
                total += count
                messages += failed
                if following is not None:
                    running.add(pool.submit(check_part, following, WORKERS))
    report.failed += [f"check: {message}" for message in messages]
    if not total:
        report.missing.append("check: there are no cases")
    seconds = time.perf_counter() - start
    return f"{total - len(messages)} passed, {len(messages)} failed in {seconds:.0f} s"


def inductor(report: Report) -> str:
    """Run functions and models that torch compiles through us, forward and backward."""
    from tests.inductor import run

    outcomes = run.run("cuda", run.names_on("cuda"), min(8, WORKERS))
    report.failed += [f"inductor: {o.name}: {o.wrong}" for o in outcomes if o.wrong]
    if not outcomes:
        report.missing.append("inductor: there are no cases")
    ours, fell_back = sum(o.ours for o in outcomes), sum(o.fell_back for o in outcomes)
    wrong = sum(bool(o.wrong) for o in outcomes)
    return f"{len(outcomes) - wrong} right, {wrong} wrong; {ours} kernels, {fell_back} fell back"


# -- notebooks, random programs, bench ------------------------------------------------------------
def notebooks(report: Report) -> str:
    """Run the notebooks' cells on the device."""
    from tests.gpu import notebooks

    ran = notebooks.run_all()
    report.failed += [f"notebooks: {name}: {n} cells failed" for name, (_, n) in ran.items() if n]
    report.missing += [f"notebooks: {name}: no cell ran" for name, (n, _) in ran.items() if not n]
    if not ran:
        report.missing.append("notebooks: there are none")
    return f"{sum(n for n, _ in ran.values())} cells of {len(ran)} notebooks"


def fuzz(report: Report) -> str:
    """Run random programs and sources."""
    from tests.gpu import fuzz

    failed = fuzz.main()
    if failed:
        report.failed.append(f"fuzz: {failed} programs, kept in tests/fuzz/found")
    return f"{failed} failed"


def bench(report: Report, suites: Sequence[str]) -> str:
    """Measure; what has no row is missing."""
    from tests.bench import gpu

    missing = gpu.run_suites(suites)
    report.missing += [f"bench: {line}" for line in missing]
    return f"{len(suites)} suites, {len(missing)} missing"


def main(arguments: Sequence[str]) -> int:
    """Run the named parts; returns the exit status."""
    import torch

    if not torch.cuda.is_available():
        print("no CUDA device: nothing to run")
        return 0
    from tests.bench import gpu

    known = (*PARTS, *gpu.SUITES)
    unknown = [name for name in arguments if name not in known]
    if unknown:
        print(f"unknown parts {', '.join(unknown)}; known: {', '.join(known)}")
        return 2
    names = arguments or PARTS
    suites = [name for name in gpu.SUITES if name in names or "bench" in names]
    report = Report()
    if "tests" in names:
        run_tests(report)
    for name, part in (
        ("notebooks", notebooks),
        ("check", check),
        ("inductor", inductor),
        ("fuzz", fuzz),
    ):
        if name in names:
            report.part(name, part)
    if suites:
        report.part("bench", partial(bench, suites=suites))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
