"""What a fuzz run has done, in a file: an interrupted run goes on from it, a note quotes it.

One part for each kind of case and place that ran it, for one state of the code: seeds that were
run by other code are kept, but count for that code only.

    {"parts": [{"kind": "programs", "target": "sm_90a", "where": "NVIDIA H200", "code": "1f0c...",
                "seeds": [[1000, 5999]], "count": 5000, "failures": [{"seed", "said", ...}],
                "outcomes": {}, "seconds": 812.4}]}
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz.children import ROOT

#: What decides what a seed is and what becomes of it.
CODE = (
    "workbench/**/*.py",
    "tests/fuzz/*.py",
    "tests/passes/programs.py",
    "tests/passes/leaves.py",
)


@cache
def code() -> str:
    """Return a short name of the state of the compiler and of the generators."""
    digest = hashlib.sha256()
    for path in sorted(path for pattern in CODE for path in ROOT.glob(pattern)):
        digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def ranges(seeds: Iterable[int]) -> list[list[int]]:
    """Return numbers as [first, last] of each unbroken run."""
    found: list[list[int]] = []
    for seed in sorted(seeds):
        if found and seed == found[-1][1] + 1:
            found[-1][1] = seed
        else:
            found.append([seed, seed])
    return found


@dataclass
class Part:
    """What one kind of case came to, at one place, with one state of the code."""

    kind: str
    target: str
    where: str
    code: str
    seeds: set[int] = field(default_factory=set)
    failures: list[dict[str, Any]] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    #: Summed over the processes.
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.kind, self.target, self.where, self.code

    def add(self, seed: int, answer: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """Count a case that was run; returns its failure, if it failed."""
        self.seeds.add(seed)
        self.seconds += seconds
        if answer.get("outcome"):
            self.outcomes[answer["outcome"]] += 1
        if "ended" in answer:
            failure = {"seed": seed, "said": answer["ended"], "lines": 0, "kept": ""}
        else:
            failure = answer["failure"]
        if failure is not None:
            self.failures.append(failure)
        return failure

    def data(self) -> dict[str, Any]:
        held = asdict(self) | {"seeds": ranges(self.seeds), "count": len(self.seeds)}
        held["failures"] = sorted(self.failures, key=lambda failure: failure["seed"])
        return held | {"outcomes": dict(self.outcomes), "seconds": round(self.seconds, 1)}

    @classmethod
    def of(cls, data: dict[str, Any]) -> Part:
        seeds = {n for first, last in data["seeds"] for n in range(first, last + 1)}
        told = {k: v for k, v in data.items() if k not in ("count", "seeds", "outcomes")}
        return cls(**told, seeds=seeds, outcomes=Counter(data["outcomes"]))

    def line(self) -> str:
        """Return what is said of it: counts, seeds, failures."""
        verdict = "FAILED" if self.failures else "ok"
        seeds = ", ".join(f"{a}-{b}" if a != b else str(a) for a, b in ranges(self.seeds)[:20])
        more = " and more" if len(ranges(self.seeds)) > 20 else ""
        words = "".join(f", {count} {what}" for what, count in sorted(self.outcomes.items()))
        return (
            f"{verdict}: {self.kind} on {self.target} ({self.where}; code {self.code}): "
            f"{len(self.seeds)} run{words}, {len(self.failures)} failed, {self.seconds:.0f} s of "
            f"processes; seeds {seeds or 'none'}{more}"
        )


class Progress:
    """The parts of a file; without a file, those of this run."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.parts: dict[tuple[str, str, str, str], Part] = {}
        if path is not None and path.exists():
            for data in json.loads(path.read_text())["parts"]:
                part = Part.of(data)
                self.parts[part.key] = part

    def part(self, kind: str, target: str, where: str) -> Part:
        """Return the part for the code as it is now."""
        part = Part(kind, target, where, code())
        return self.parts.setdefault(part.key, part)

    def merge(self, other: Progress) -> None:
        """Take over what another file knows; a seed that both know counts once."""
        for key, part in other.parts.items():
            mine = self.parts.setdefault(key, Part(*key))
            new = part.seeds - mine.seeds
            if new == part.seeds:
                mine.outcomes += part.outcomes
                mine.seconds += part.seconds
            mine.failures += [failure for failure in part.failures if failure["seed"] in new]
            mine.seeds |= new

    def save(self) -> None:
        """Write the file as a whole: whoever ends this process leaves the old or the new one."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        parts = ",\n".join(json.dumps(part.data()) for part in self)
        beside.write_text(f'{{"parts": [\n{parts}\n]}}\n')
        beside.replace(self.path)

    def __iter__(self) -> Iterator[Part]:
        return iter(self.parts.values())


__all__ = ["Part", "Progress", "code", "ranges"]
