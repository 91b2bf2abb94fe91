"""Two checkouts of the package, measured in one interleaved session with one clock.

    python -m tests.bench.compare OTHER_TREE [SUITE ...] [--minutes 8] [--out FILE] [--cpu]

OTHER_TREE is a folder with another `workbench` in it (`git archive COMMIT workbench | tar -x -C
old`). Each tree has a process of its own, and both are told the same: build a case from the same
seed, capture it, run a batch. Batches alternate, and in every other round so does who begins; one
process waits while the other measures. Everything is compiled before, in processes for all cores,
into a cache that the two then read.

A round is captured anew. A row is *unsteady* where the ratios of its rounds differ by more than 3 %
(6 % below 10 µs), and *slower* where this tree takes more than 3 % (6 %) longer; both kinds are
measured again with twice the rounds, and the second measurement counts. With `--out`, rows that are
there already are not measured again, so that a run that was cut short goes on.

The exit status is 1 where a row is slower, unsteady or missing. `--cpu` compares the CPU targets,
at sizes of the tests.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.cases import Case, all_cases
from workbench.runtime.timing import (
    DISAGREEMENT,
    ROUNDS,
    SHORT_DISAGREEMENT,
    SHORT_MILLISECONDS,
    agree,
)

ROOT = Path(__file__).resolve().parents[2]
#: Batches of each side in a round, and milliseconds of samples in a batch.
BATCHES = 3
BATCH_MILLISECONDS = 15.0
#: Seconds after which the compiling in advance is over; the rest compiles when it is measured.
COMPILING_SECONDS = 180.0

Order = Callable[..., dict[str, Any]]


class OrderError(Exception):
    """A tree could not do what it was told."""


class EndedError(OrderError):
    """The process of a tree is gone."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One case in both trees.

    Attributes:
        suite, case, dtype: which.
        other_us, this_us: medians over all rounds.
        rounds: this tree's time over the other's, by round.
        timed: cold, hot or host.
        why: what went wrong; then there are no times.
    """

    suite: str
    case: str
    dtype: str
    other_us: float | None = None
    this_us: float | None = None
    rounds: tuple[float, ...] = ()
    timed: str = ""
    why: str = ""

    @property
    def ratio(self) -> float:
        """How many times as long this tree takes (above 1: slower)."""
        assert self.this_us is not None
        assert self.other_us is not None
        return self.this_us / self.other_us

    @property
    def allowed(self) -> float:
        """How much longer it may take."""
        short = (self.other_us or 0.0) < SHORT_MILLISECONDS * 1e3
        return SHORT_DISAGREEMENT if short else DISAGREEMENT

    @property
    def unsteady(self) -> bool:
        """Whether the rounds say different things."""
        return not self.why and not agree(self.rounds, (self.other_us or 0.0) / 1e3)

    @property
    def slower(self) -> bool:
        """Whether this tree takes longer than is allowed, in a time of the device."""
        return not self.why and self.timed != "host" and self.ratio > 1 + self.allowed

    @property
    def key(self) -> tuple[str, str, str]:
        return self.suite, self.case, self.dtype


# -- the two processes ----------------------------------------------------------------------------
@contextmanager
def served(tree: Path, cache: Path, device: str) -> Iterator[Order]:
    """Start a process that measures a tree; yields what gives it orders."""
    with tempfile.TemporaryDirectory() as folder:
        for name, where in (("workbench", tree), ("tests", ROOT)):
            (Path(folder) / name).symlink_to((where / name).resolve(), target_is_directory=True)
        environment = {**os.environ, "PYTHONPATH": folder, "WORKBENCH_CACHE_DIR": str(cache)}
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.serving", device,
             str(ROOT / "workbench" / "runtime")],
            cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        orders, answers = process.stdin, process.stdout

        def order(what: str, **named: Any) -> dict[str, Any]:
            try:
                orders.write(json.dumps({"do": what, **named}) + "\n")
                orders.flush()
                line = answers.readline()
            except OSError as error:
                raise EndedError(f"the process of {tree} is gone: {error}") from None
            if not line:
                raise EndedError(f"the process of {tree} ended with {process.wait()}")
            found = json.loads(line)
            if "error" in found:
                raise OrderError(found["error"])
            return found

        try:
            yield order
        finally:
            with suppress(OSError):
                orders.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def lasting(start: Callable[[], AbstractContextManager[Order]]) -> Iterator[Order]:
    """Yield what gives orders to a process that is started again where a case ended it."""
    with ExitStack() as stack:
        running: list[Order] = []

        def once(what: str, named: dict[str, Any]) -> dict[str, Any]:
            if not running:
                if what == "drop":
                    return {}
                running.append(stack.enter_context(start()))
            try:
                return running[0](what, **named)
            except EndedError:
                running.clear()
                raise

        def order(what: str, **named: Any) -> dict[str, Any]:
            began = bool(running)
            try:
                return once(what, named)
            except EndedError:
                if what != "build" or not began:
                    raise
                return once(what, named)  # the case before had ended it

        yield order


def compile_ahead(
    trees: Sequence[tuple[Path, Path]], numbers: Sequence[int], device: str, seconds: float
) -> None:
    """Fill the caches of (tree, cache) pairs, in as many processes as there are cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    shares = max(1, min((cores - 2) // len(trees), len(numbers)))
    end = time.monotonic() + seconds

    def warm(tree: Path, cache: Path, share: Sequence[int]) -> None:
        with served(tree, cache, device) as order:
            for number in share:
                if time.monotonic() > end:
                    return
                order("warm", cases=[number])  # what fails here is said when it is measured

    with ThreadPoolExecutor(shares * len(trees)) as pool:
        waiting = [
            pool.submit(warm, tree, cache, numbers[first::shares])
            for tree, cache in trees
            for first in range(shares)
        ]
        for one in waiting:
            error = one.exception()
            if error is not None:
                print(f"compiling ahead: {error}", flush=True)


# -- one case -------------------------------------------------------------------------------------
def compare_case(
    case: Case, number: int, other: Order, this: Order, rounds: int = ROUNDS
) -> Compared:
    """Measure a case in both trees, batch by batch in turns."""
    what = case.suite, case.name, case.word
    sides = {"other": other, "this": this}
    try:
        for name, order in sides.items():
            try:
                order("build", case=number)
            except OrderError as error:
                return Compared(*what, why=f"{name} tree: {error}")
        times: dict[str, list[float]] = {"other": [], "this": []}
        timed: set[str] = set()
        for turn in range(rounds):
            names = list(sides) if turn % 2 == 0 else list(sides)[::-1]
            timed |= {str(sides[name]("record")["timed"]) for name in names}
            samples: dict[str, list[float]] = {"other": [], "this": []}
            for _ in range(BATCHES):
                for name in names:
                    found = sides[name]("sample", milliseconds=BATCH_MILLISECONDS)
                    samples[name] += found["samples"]
            for name, found in samples.items():
                times[name].append(float(np.median(found)))
    except OrderError as error:
        return Compared(*what, why=str(error))
    finally:
        for order in sides.values():
            with suppress(OrderError):
                order("drop")
    return Compared(
        *what,
        other_us=float(np.median(times["other"])),
        this_us=float(np.median(times["this"])),
        rounds=tuple(b / a for a, b in zip(times["other"], times["this"], strict=True)),
        timed="host" if "host" in timed else min(timed),
    )


def again(
    cases: Sequence[Case],
    numbers: Sequence[int],
    measure: Callable[[int, int], Compared],
    known: dict[tuple[str, str, str], Compared],
    late: Callable[[], bool],
    told: Callable[[Compared], object],
) -> Iterator[Compared]:
    """Yield the rows of all cases; what is slower or unsteady is measured twice."""
    doubtful: list[int] = []
    for number in numbers:
        case = cases[number]
        row = known.get((case.suite, case.name, case.word))
        if row is None:
            if late():
                yield Compared(case.suite, case.name, case.word, why="not measured: out of time")
                continue
            row = measure(number, ROUNDS)
            if row.slower or row.unsteady:
                doubtful.append(number)
                continue
            told(row)
        yield row
    for number in doubtful:
        row = measure(number, 2 * ROUNDS)
        told(row)
        yield row


# -- all of them ----------------------------------------------------------------------------------
def table(rows: Sequence[Compared]) -> str:
    """Return rows as aligned text."""
    lines = [f"{'suite':<18} {'case':<44} {'dtype':<6} {'other us':>10} {'this us':>10} ratio"]
    for row in rows:
        start = f"{row.suite:<18} {row.case:<44} {row.dtype:<6}"
        if row.why:
            lines.append(f"{start} {row.why}")
            continue
        marks = " ~ unsteady" * row.unsteady + " SLOWER" * row.slower + " host" * (
            row.timed == "host"
        )  # fmt: skip
        lines.append(f"{start} {row.other_us:>10.2f} {row.this_us:>10.2f} {row.ratio:.3f}{marks}")
    return "\n".join(lines)


def summary(rows: Sequence[Compared]) -> tuple[str, int]:
    """Return the verdict in words, and the exit status."""
    kinds = {
        "slower than allowed": [r for r in rows if r.slower and not r.unsteady],
        "unsteady": [r for r in rows if r.unsteady],
        "missing": [r for r in rows if r.why],
        "host": [r for r in rows if not r.why and r.timed == "host"],
    }
    lines = []
    for kind, found in kinds.items():
        lines.append(f"{len(found)} of {len(rows)} rows {kind}")
        lines += [
            f"  {r.suite} {r.case} {r.dtype}: "
            + (r.why or f"{r.ratio:.3f} of {r.other_us:.2f} us, rounds {_shown(r.rounds)}")
            for r in found
        ]
    good = [r.ratio for r in rows if not r.why and not r.unsteady and r.timed != "host"]
    if good:
        mean = float(np.exp(np.mean(np.log(good))))
        lines.append(f"geometric mean of {len(good)} ratios: {mean:.4f} (below 1: this is faster)")
    bad = any(kinds[kind] for kind in ("slower than allowed", "unsteady", "missing"))
    return "\n".join(lines), int(bad)


def _shown(rounds: Sequence[float]) -> str:
    return " ".join(f"{ratio:.3f}" for ratio in rounds)


def _load(path: Path | None) -> dict[tuple[str, str, str], Compared]:
    if path is None or not path.exists():
        return {}
    rows = [Compared(**{**row, "rounds": tuple(row["rounds"])})
            for row in json.loads(path.read_text())["rows"]]  # fmt: skip
    return {row.key: row for row in rows}


def _save(path: Path | None, rows: Sequence[Compared]) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"rows": [asdict(row) for row in rows]}, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare, print, save; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.compare")
    parser.add_argument("other", type=Path)
    parser.add_argument("suites", nargs="*")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--cpu", action="store_true")
    given = parser.parse_args(arguments)
    end = time.monotonic() + 60 * given.minutes
    device = "cpu" if given.cpu else "cuda"
    cases = all_cases(small=given.cpu)
    known_suites = dict.fromkeys(case.suite for case in cases)
    unknown = [name for name in given.suites if name not in known_suites]
    if unknown or not (given.other / "workbench").is_dir():
        what = f"suites {', '.join(unknown)}" if unknown else f"no workbench in {given.other}"
        print(f"{what}; suites are {', '.join(known_suites)}")
        return 2
    numbers = [n for n, case in enumerate(cases) if not given.suites or case.suite in given.suites]
    known = _load(given.out)
    rows = list(known.values())

    def told(row: Compared) -> None:
        if not row.why:
            rows.append(row)
            _save(given.out, rows)
        print(table([row]).splitlines()[1], flush=True)

    with ExitStack() as stack:
        folder = given.cache or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder = folder.resolve()  # the processes are elsewhere
        trees = [(given.other, folder / "other"), (ROOT, folder / "this")]
        open_numbers = [
            n for n in numbers if (cases[n].suite, cases[n].name, cases[n].word) not in known
        ]
        start = time.monotonic()
        if open_numbers:
            most = min(COMPILING_SECONDS, 30 * given.minutes)
            compile_ahead(trees, open_numbers, device, most)
        print(f"compiled in {time.monotonic() - start:.0f} s", flush=True)
        other, this = (
            stack.enter_context(lasting(partial(served, *tree, device))) for tree in trees
        )
        both = (("other", other, given.other), ("this", this, ROOT)) if open_numbers else ()
        for name, order, tree in both:
            found = order("hello")
            print(f"{name} package: {found['package']}, {found['cases']} cases", flush=True)
            assert Path(found["package"]) == tree.resolve(), "another package was imported"
        rows_of_all = again(
            cases,
            numbers,
            lambda n, rounds: compare_case(cases[n], n, other, this, rounds),
            known,
            lambda: time.monotonic() > end,
            told,
        )
        found = list(rows_of_all)
    print(table(found))
    words, status = summary(found)
    print(words)
    return status


if __name__ == "__main__":
    sys.exit(main())
