"""What a run on a GPU came to: what passed, what failed, and what should have run and did not."""

from __future__ import annotations

import collections
import traceback
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

#: Reasons of skipped tests that mean, on a machine with a GPU, that something is wrong with it.
NO_DEVICE = ("no CUDA device", "no GPU", "CUDA is not available")


@dataclass
class Report:
    """Counts of all parts, and the lines that name what is wrong.

    Attributes:
        parts: one line per part, with its counts.
        failed: what ran and was wrong.
        missing: what should have run and did not.
        skipped: why tests were skipped that this machine need not run.
    """

    parts: list[str] = field(default_factory=list[str])
    failed: list[str] = field(default_factory=list[str])
    missing: list[str] = field(default_factory=list[str])
    skipped: collections.Counter[str] = field(default_factory=collections.Counter[str])

    def part(self, name: str, run: Callable[[Report], str]) -> None:
        """Run a part, which returns its counts in words; one that raises is missing."""
        try:
            counts = run(self)
        except Exception as error:
            traceback.print_exc()
            self.missing.append(f"{name}: raised {type(error).__name__}: {error}")
            counts = "raised"
        self.parts.append(f"{name}: {counts}")
        print(self.parts[-1], flush=True)

    def read_tests(self, group: str, reports: Iterable[Path | str]) -> str:
        """Add what pytest wrote of the runs of one group.

        Args:
            group: its name.
            reports: junit files; text where a run left none, which says why.

        Returns:
            the counts in words.
        """
        count = collections.Counter[str]()
        for report in reports:
            if isinstance(report, str):
                self.missing.append(f"{group}: pytest left no report: {report}")
                continue
            for case in ElementTree.parse(report).iter("testcase"):
                outcome, line = _outcome(case)
                count[outcome] += 1
                if outcome == "failed":
                    self.failed.append(f"{group}: {line}")
                elif outcome == "not collected" or (
                    outcome == "skipped" and any(word in line for word in NO_DEVICE)
                ):
                    self.missing.append(f"{group}: {line}")
                elif outcome == "skipped":
                    self.skipped[f"{group}: {line}"] += 1
        if not count["passed"] and not count["failed"]:
            self.missing.append(f"{group}: no test ran")
        return ", ".join(f"{n} {outcome}" for outcome, n in count.items()) or "no test ran"

    def finish(self) -> int:
        """Print everything; returns the exit status."""
        print("\n== summary")
        for line in self.parts:
            print(" ", line)
        for reason, count in sorted(self.skipped.items()):
            print(f"  skipped {count}: {reason}")
        for title, lines in (("FAILED", self.failed), ("DID NOT RUN", self.missing)):
            for line in lines:
                print(f"{title} {line[:400]}")
        print(f"{len(self.failed)} failed, {len(self.missing)} did not run")
        return 1 if self.failed or self.missing else 0


def _outcome(case: ElementTree.Element) -> tuple[str, str]:
    """Return what became of a test, and a line that names it, or says why it was skipped."""
    name = f"{case.get('classname', '')}::{case.get('name', '')}"
    failure, error, skipped = (case.find(kind) for kind in ("failure", "error", "skipped"))
    if error is not None:
        message = (error.get("message") or "").splitlines()
        text = (error.text or "").strip().splitlines()
        why = f"{name}: {' '.join((*message[:1], *text[-1:]))}"
        # A file that cannot be imported is reported as one test that could not be collected.
        return ("not collected" if "collection failure" in why else "failed"), why
    if failure is not None:
        return "failed", f"{name}: {(failure.get('message') or '').splitlines()[:1]}"
    if skipped is not None:
        return "skipped", skipped.get("message") or "no reason given"
    return "passed", name
