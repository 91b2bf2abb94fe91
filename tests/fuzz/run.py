"""`make fuzz`: many random programs and mutated cells; what fails is made small and kept.

    python -m tests.fuzz.run [programs COUNT] [sources COUNT] [cells COUNT] [from SEED]
                             [on TARGET,...] [jobs COUNT] [seconds LIMIT] [state FILE]
                             [found FOLDER]
    python -m tests.fuzz.run summary FILE...

Programs (IR) and sources (text) go through each target (cpu, interpreter; `sm_90a` interprets the
GPU IR where there is no GPU) and are compared with the interpreter and with NumPy. All run in
child processes, one for each job, so that one that ends or hangs is a finding like any other.
LIMIT ends the run early. FILE holds what was run and what failed (`progress.py`): the same call
again runs what is left. What fails is written to FOLDER (tests/fuzz/found, where tests replay it).
`summary` says what files hold, together.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tests.fuzz.children import Case, Child
from tests.fuzz.keep import FOUND
from tests.fuzz.progress import Part, Progress

CORES = len(os.sched_getaffinity(0))
#: Seconds that a case may be silent, that one which fails may be made small, between two saves.
PATIENCE, REDUCING, SAVING = 90.0, 60.0, 5.0
COMMAND = ("tests.fuzz.batch",)
DEFAULT = {"programs": 2000, "sources": 2000, "cells": 10_000}
WORDS = (*DEFAULT, "from", "on", "jobs", "seconds", "state", "found")


def say(text: str) -> None:
    """Print at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def place_of(kind: str, target: str) -> str:
    """Return what runs a target's code here: a device, this machine, or the interpreter."""
    if kind == "cells":
        return "compiled only"
    if not target.startswith("sm_"):
        return "this machine"
    import torch

    if not torch.cuda.is_available():
        return "GPU IR interpreted"
    return str(torch.cuda.get_device_name(0))


@dataclass
class Run:
    """What to run: so many cases of each kind from a seed on, on each target."""

    counts: dict[str, int]
    first: int = 1000
    targets: tuple[str, ...] = ("cpu",)
    jobs: int = CORES
    seconds: float = float("inf")
    progress: Progress = field(default_factory=Progress)
    found: Path = FOUND

    def __post_init__(self) -> None:
        self.end = time.monotonic() + self.seconds
        self._next = threading.Lock()
        self._children: list[Child] = []
        self._answers: queue.SimpleQueue[tuple[Part, int, Case, float] | None] = queue.SimpleQueue()

    def parts(self) -> list[Part]:
        """Return the parts that this run adds to."""
        pairs = [
            (kind, target)
            for kind in self.counts
            for target in (self.targets if kind != "cells" else ("their own",))
        ]
        return [self.progress.part(kind, t, place_of(kind, t)) for kind, t in pairs]

    def left(self) -> Iterator[tuple[Part, int]]:
        """Yield what is left to do, the parts in turn, so that a limit ends all alike."""
        seeds = [
            [
                (part, seed)
                for seed in range(self.first, self.first + self.counts[part.kind])
                if seed not in part.seeds
            ]
            for part in self.parts()
        ]
        for cases in zip_longest(*seeds):
            yield from (case for case in cases if case is not None)

    def go(self) -> int:
        """Run what is left; returns how many cases of this run's parts have failed."""
        start, left = time.monotonic(), self.left()
        signal.signal(signal.SIGTERM, _interrupt)
        jobs = [threading.Thread(target=self._job, args=(left,)) for _ in range(self.jobs)]
        for job in jobs:
            job.start()
        try:
            self._collect()
        except KeyboardInterrupt:
            say("interrupted: the cases that run now are not counted")
            self.end = 0.0
            for child in self._children:
                child.interrupt()
        finally:
            self.progress.save()
        for part in self.parts():
            say(part.line())
        say(f"{time.monotonic() - start:.0f} s with {self.jobs} jobs")
        return sum(len(part.failures) for part in self.parts())

    def _job(self, left: Iterator[tuple[Part, int]]) -> None:
        try:
            with closing(Child(COMMAND, PATIENCE)) as child:
                self._children.append(child)
                while time.monotonic() < self.end:
                    with self._next:
                        case = next(left, None)
                    if case is None:
                        break
                    self._answers.put((*case, *self._ask(child, *case)))
        finally:
            self._answers.put(None)

    def _ask(self, child: Child, part: Part, seed: int) -> tuple[Case, float]:
        begin = time.monotonic()
        reducing = max(1.0, min(REDUCING, self.end - begin))
        question = {"kind": part.kind, "target": part.target, "seed": seed}
        answer = child.ask({**question, "keep": str(self.found.absolute()), "reducing": reducing})
        return answer, time.monotonic() - begin

    def _collect(self) -> None:
        saved, running = time.monotonic(), self.jobs
        while running:
            found = self._answers.get()
            if found is None:
                running -= 1
                continue
            part, seed, answer, seconds = found
            failure = part.add(seed, answer, seconds)
            if failure is not None:
                _tell(part, failure)
            if time.monotonic() - saved > SAVING:
                self.progress.save()
                saved = time.monotonic()


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def _tell(part: Part, failure: dict[str, Any]) -> None:
    say(f"{part.kind} seed {failure['seed']} on {part.target}: {failure['said']}")
    if failure.get("kept"):
        say(f"    {failure['lines']} lines, kept as {failure['kept']}")
    target = f" on {part.target}" if part.kind != "cells" else ""
    say(f"    again: python -m tests.fuzz.run {part.kind} 1 from {failure['seed']}{target}")


def summary(paths: list[Path]) -> int:
    """Say what files hold, and each failure."""
    whole = Progress()
    for path in paths:
        whole.merge(Progress(path))
    for part in whole:
        say(part.line())
        for failure in part.failures:
            say(f"    {failure['seed']}: {failure['said']}")
    return 0


def main(words: list[str]) -> int:
    """Run what the words ask for; the exit status is 1 if anything failed."""
    if words[:1] == ["summary"]:
        return summary([Path(word) for word in words[1:]])
    given = dict(zip(words[::2], words[1::2], strict=True))
    if unknown := set(given) - set(WORDS):
        say(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(WORDS)}")
        return 2
    counts = {kind: int(given[kind]) for kind in DEFAULT if kind in given} or DEFAULT
    run = Run(
        counts,
        first=int(given.get("from", 1000)),
        targets=tuple(given.get("on", "cpu").split(",")),
        jobs=int(given.get("jobs", CORES)),
        seconds=float(given.get("seconds", "inf")),
        progress=Progress(Path(given["state"]) if "state" in given else None),
        found=Path(given.get("found", FOUND)),
    )
    return 1 if run.go() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
