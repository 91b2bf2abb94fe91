"""Runs contests: tunes a family once, then measures its best configurations beside the baselines.

Every suite is measured in a process of its own, which keeps a log of what it tries and finds. Where
nothing is added to the log for a while, something hangs: the process is killed, what it was trying
is missing, and another one goes on behind it. A device that an error has spoiled ends a process in
the same way.

    {"tries": "..."}      begins something that may not come back
    {"tuned": [...]}      the best configurations of a family, by compiler
    {"rows": [...]}       what a contest gave; {"missing": "..."} what it did not
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from tests.bench import ahead, contests, peers
from tests.bench.contests import Config, Contest, Prepared, Tensors
from tests.bench.rows import Row, compared, row
from tests.corpus.sample import Launch, jitted
from workbench.runtime.measuring import measure
from workbench.runtime.timing import Effort, Timing

ROOT = Path(__file__).resolve().parents[2]
#: How many of a family's configurations are tried at the contests where it is not tuned.
BEST = 3
#: Those that are slower than the best by so little that the race decides between them, at most so
#: many. A race has more runs of fewer, and is what the row says.
CLOSE, MOST_CLOSE = 1.05, 6
#: From so many operations on a contest takes milliseconds: only the best configuration is tried.
LONG_FLOPS = 8e12
TUNING = Effort(warm_up=4.0, milliseconds=6.0, runs=10)
RACING = Effort(warm_up=10.0, milliseconds=30.0, runs=10)
#: Seconds without a word after which something hangs, and that a suite may take in all.
SILENT_SECONDS = 40.0
SUITE_SECONDS = 170.0

Call = Callable[[], object]


# -- the log --------------------------------------------------------------------------------------
@dataclass
class Log:
    """What was tried and found so far, in a file that outlives the process."""

    path: Path
    tuned: dict[str, dict[str, list[Config]]] = field(default_factory=dict[str, Any])
    ended: set[str] = field(default_factory=set[str])
    rows: list[Row] = field(default_factory=list[Row])
    missing: list[str] = field(default_factory=list[str])
    tries: str = ""
    fatal: set[str] = field(default_factory=set[str])

    @classmethod
    def read(cls, path: Path) -> Log:
        """Return what a log says."""
        found = cls(path)
        if path.exists():
            for line in path.read_text().splitlines():
                found._take(json.loads(line))
        return found

    def _take(self, said: Mapping[str, Any]) -> None:
        self.tries = said.get("tries", self.tries)
        if "tuned" in said:
            self.tuned[said["tuned"]] = {
                who: [
                    Config(tuple(b), warps, stages, tuple(more)) for b, warps, stages, more in best
                ]
                for who, best in said["best"].items()
            }
        if "rows" in said:
            self.rows += [Row(**{**one, "rounds": tuple(one["rounds"])}) for one in said["rows"]]
            self.ended.add(said["of"])
            self.tries = ""
        if "missing" in said:
            self.missing.append(said["missing"])
        if "fatal" in said:
            self.fatal.add(said["fatal"])

    def add(self, **said: Any) -> None:
        """Write a line, at once."""
        with self.path.open("a") as file:
            file.write(json.dumps(said) + "\n")
        self._take(json.loads(json.dumps(said)))


def finalists(medians: Sequence[float]) -> int:
    """Return how many of those that were tuned, the fastest first, a race decides between."""
    close = sum(median <= CLOSE * medians[0] for median in medians[:MOST_CLOSE])
    return min(len(medians), max(BEST, close))


# -- one contest, on the device -------------------------------------------------------------------
@cache
def _peer(module: ModuleType) -> Any:
    return peers.under_triton(module)


def call_of(launches: Sequence[Launch], contest: Contest, compiler: str) -> Call:
    """Return a function that runs launches in order by one of the compilers."""
    peer = _peer(contest.module) if compiler == "triton" else None
    prepared = [
        (
            (jitted(x.kernel) if peer is None else getattr(peer, x.kernel.__name__))[x.grid],
            x.arguments,
            x.named,
        )
        for x in launches
    ]
    if len(prepared) == 1:
        ((run, arguments, named),) = prepared
        return lambda: run(*arguments, **named)

    def run_all() -> None:
        for run, arguments, named in prepared:
            run(*arguments, **named)

    return run_all


def error_of(prepared: Prepared, want: torch.Tensor) -> float:
    """Return by how much the result is off beyond what is allowed; NaN is infinitely wrong."""
    relative, absolute = prepared.allowed
    worst = -math.inf
    for got, wanted in zip(prepared.result.chunk(8), want.chunk(8), strict=True):
        got, wanted = got.float(), wanted.float()
        beyond = (got - wanted).abs() - relative * wanted.abs() - absolute
        worst = max(worst, torch.where(beyond.isnan(), math.inf, beyond).max().item())
    return worst


class Arena:
    """Measures the contests of one process."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def run(self, contest: Contest) -> None:
        """Measure one contest; what it gives goes to the log."""
        say = f"{contest.title}: prepares"
        self._log.add(tries=say)
        prepared = contest.prepare(Tensors("cuda"))
        want = prepared.reference().clone()
        torch.cuda.synchronize()
        known = self._log.tuned.get(contest.family)
        most = 1 if contest.flops >= LONG_FLOPS else BEST
        table = {
            who: contest.table(who) if known is None or contest.tunes else known.get(who, [])[:most]
            for who in ("ours", "triton")
            if who == "ours" or (contest.peer and peers.triton_installed())
        }
        calls = {
            who: dict(self._right(contest, prepared, want, who, configs))
            for who, configs in table.items()
        }
        del want
        if any(len(found) > BEST for found in calls.values()):
            calls = self._tuned(contest, calls)
        raced = self._race(contest, prepared, calls)
        if contest.family not in self._log.tuned:
            best = {
                who: [c for c, _ in sorted(found.items(), key=lambda one: one[1])[:BEST]]
                for who, found in raced.items()
            }
            self._log.add(tuned=contest.family, best=best)

    def _right(
        self, contest: Contest, prepared: Prepared, want: torch.Tensor, who: str,
        table: Iterable[Config],
    ) -> Iterator[tuple[Config, Call]]:  # fmt: skip
        """Yield the configurations that run and give the right result."""
        why: list[str] = []
        found = 0
        for config in table:
            say = f"{contest.title}: {who} {config}"
            if say in self._log.fatal:
                continue
            self._log.add(tries=say)
            try:
                call = call_of(prepared.launches(config), contest, who)
                prepared.result.fill_(float("nan") if want.is_floating_point() else 77)
                call()
                torch.cuda.synchronize()
                excess = error_of(prepared, want)
            except Exception as error:
                if is_lost(error):
                    self._log.add(fatal=say, missing=f"{say}: {_words(error)}")
                    raise
                why.append(f"{config}: {_words(error)}")
                continue
            if excess > 0:
                wrong = f"wrong by {excess:.3g} more than allowed"
                if who == "ours":
                    self._log.add(missing=f"{say}: {wrong}")
                else:  # another compiler's mistake: beside us is what it has right
                    why.append(f"{config}: {wrong}")
                continue
            found += 1
            yield config, call
        for line in why:
            print(f"  not for {contest.title}, {who}: {line}", flush=True)
        if not found:
            reason = why[0] if why else "no configuration is left"
            self._log.add(missing=f"{contest.title}: {who}: {reason}")

    def _tuned(
        self, contest: Contest, calls: dict[str, dict[Config, Call]]
    ) -> dict[str, dict[Config, Call]]:
        """Return the best configurations of each compiler."""
        self._log.add(tries=f"{contest.title}: tunes")
        every = {f"{who} {c}": call for who, found in calls.items() for c, call in found.items()}
        timings = measure(every, gpu=True, warm=contest.hot, effort=TUNING)
        best: dict[str, dict[Config, Call]] = {}
        for who, found in calls.items():
            order = sorted(found, key=lambda c: timings[f"{who} {c}"].median)
            said = ", ".join(f"{c} {timings[f'{who} {c}'].median * 1e3:.1f}" for c in order)
            print(f"  {contest.title}, {who}: {said} us", flush=True)
            taken = finalists([timings[f"{who} {c}"].median for c in order])
            best[who] = {config: found[config] for config in order[:taken]}
        return best

    def _race(
        self, contest: Contest, prepared: Prepared, calls: dict[str, dict[Config, Call]]
    ) -> Mapping[str, Mapping[Config, float]]:
        """Measure the best beside the baselines; returns their times by compiler."""
        self._log.add(tries=f"{contest.title}: races")
        every: dict[tuple[str, Config | None], Call] = {
            (who, config): call for who, found in calls.items() for config, call in found.items()
        }
        for name, variant in prepared.variants.items():
            for config in calls["ours"]:
                every[name, config] = call_of([variant(config)], contest, "ours")
        for name, baseline in prepared.baselines.items():
            try:
                baseline()
                torch.cuda.synchronize()
                every[name, None] = baseline
            except Exception as error:
                self._log.add(missing=f"{contest.title}: {name}: {_words(error)}")
        if not calls["ours"]:
            self._log.add(rows=[], of=contest.title)
            return {who: dict.fromkeys(found, math.inf) for who, found in calls.items()}
        keys = {f"{who} {config}": (who, config) for who, config in every}
        timings = measure({word: every[key] for word, key in keys.items()}, gpu=True,
                          warm=contest.hot, effort=RACING)  # fmt: skip
        best: dict[str, tuple[Config | None, Timing]] = {}
        for word, (who, config) in keys.items():
            if who not in best or timings[word].median < best[who][1].median:
                best[who] = config, timings[word]
        rows = [asdict(one) for one in _rows(contest, best)]
        self._log.add(rows=rows, of=contest.title)
        return {
            who: {config: timings[f"{who} {config}"].median for config in found}
            for who, found in calls.items()
        }


def _rows(
    contest: Contest, best: Mapping[str, tuple[Config | None, Timing]]
) -> Iterator[Row]:  # fmt: skip
    config, ours = best["ours"]
    for who, (theirs_config, theirs) in best.items():
        if who == "ours" and len(best) > 1:
            continue
        plain = row(contest.suite, contest.name, contest.word, contest.size, ours.median * 1e3,
                    who, theirs.median * 1e3)  # fmt: skip
        yield replace(
            compared(plain, ours, theirs), bytes=contest.moved, flops=contest.flops,
            config=str(config), baseline_config="" if theirs_config is None else str(theirs_config),
        )  # fmt: skip


def is_lost(error: BaseException) -> bool:
    """Whether the device is lost to this process."""
    return getattr(error, "code", None) in ("K502", "K503") or "CUDA error" in str(error)


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {ahead.shortened(str(error), 280)}"


def child(suite: str, path: str, numbers: list[int]) -> None:
    """Measure what a log does not have yet; ends the process."""
    ahead.by_content()
    # Sums in fp32, as ours have them.
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    # A stream of its own: the default stream cannot be captured.
    torch.cuda.set_stream(torch.cuda.Stream())
    log = Log.read(Path(path))
    arena = Arena(log)
    for number in numbers:
        contest = contests.all_contests()[number]
        if contest.title in log.ended:
            continue
        try:
            arena.run(contest)
        except Exception as error:
            if is_lost(error):
                os._exit(1)  # what it holds on the device cannot be given back in order
            log.add(missing=f"{contest.title}: {_words(error)}")
            log.add(rows=[], of=contest.title)
        torch.cuda.empty_cache()
    log.add(tries="")
    os._exit(0)


# -- the process that watches ---------------------------------------------------------------------
def suite_rows(suite: str, missing: list[str], folder: str) -> list[Row]:
    """Measure a suite in processes that may hang; returns its rows.

    `folder` is the cache of what was compiled ahead.
    """
    numbers = [n for n, contest in enumerate(contests.all_contests()) if contest.suite == suite]
    end = time.monotonic() + SUITE_SECONDS
    with tempfile.TemporaryDirectory() as logs:
        path = Path(logs) / "log"
        path.touch()
        watch(suite, path, numbers, {"WORKBENCH_CACHE_DIR": folder}, end)
        log = Log.read(path)
    titles = [contests.all_contests()[n].title for n in numbers]
    missing += log.missing
    missing += [f"{title}: not measured" for title in titles if title not in log.ended]
    order = {title: place for place, title in enumerate(titles)}
    log.rows.sort(key=lambda r: order[f"{r.suite} {r.case} {r.dtype} {r.size}"])
    print(summary(log.rows), flush=True)
    return log.rows


def watch(
    suite: str, path: Path, numbers: list[int], given: Mapping[str, str], end: float
) -> None:  # fmt: skip
    """Run processes until contests are measured, or time is up."""
    titles = {contests.all_contests()[number].title for number in numbers}
    command = [sys.executable, "-m", "tests.bench.racing", suite, str(path), *map(str, numbers)]
    while time.monotonic() < end:
        Log(path).add(tries="")
        before = path.stat().st_size
        process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **given})
        hung = _wait(process, path, end)
        log = Log.read(path)
        if not titles - log.ended:
            return
        if hung or process.returncode:
            what = log.tries or f"{suite}: the process"
            why = "hangs" if hung else f"ended its process with {process.returncode}"
            if what not in log.fatal:
                log.add(fatal=what, missing=f"{what}: {why}")
            # What is no trial of one configuration cannot be left out by itself.
            contest = next((t for t in titles if what.startswith(f"{t}: ")), None)
            trials = f"{contest}: ours ", f"{contest}: triton "
            if contest is not None and not what.startswith(trials):
                log.add(rows=[], of=contest)
        if path.stat().st_size == before:
            return  # it ends before it says anything


def _wait(process: subprocess.Popen[bytes], path: Path, end: float) -> bool:
    """Wait for a process; kills it where its log is silent for too long, and says so."""
    size, since = path.stat().st_size, time.monotonic()
    while process.poll() is None:
        time.sleep(0.1)
        now = time.monotonic()
        if path.stat().st_size != size:
            size, since = path.stat().st_size, now
        if now > end or now - since > SILENT_SECONDS:
            process.kill()
            process.wait()
            return True
    return False


# -- what is said of it ---------------------------------------------------------------------------
def summary(rows: Iterable[Row]) -> str:
    """Return one line for each contest, and the geometric means against each baseline."""
    contests_: dict[tuple[str, str, str, int], list[Row]] = {}
    for one in rows:
        contests_.setdefault((one.suite, one.case, one.dtype, one.size), []).append(one)
    lines: list[str] = []
    means: dict[tuple[str, str, str], list[float]] = {}
    for (suite, case, dtype, size), found in contests_.items():
        ours = found[0].ours_us
        speed = (found[0].flops or 0) / ours / 1e6
        parts = [f"{suite} {case} {dtype} {size:>6} {ours:>10.1f} us {speed:>6.0f} TFLOP/s  "
                 f"[{found[0].config}]"]  # fmt: skip
        for one in found:
            if one.baseline == "ours":
                continue
            mark = "~" if one.unsteady else ""
            config = f" [{one.baseline_config}]" if one.baseline_config else ""
            theirs = (one.flops or 0) / (one.baseline_us or math.inf) / 1e6
            parts.append(f"/{one.baseline} {one.ratio:.3f}{mark} ({theirs:.0f}){config}")
            means.setdefault((suite, dtype, one.baseline), []).append(one.ratio or 0.0)
        lines.append("  ".join(parts))
    for (suite, dtype, baseline), ratios in means.items():
        mean = statistics.geometric_mean(ratios)
        lines.append(f"{suite} {dtype} / {baseline}: geometric mean {mean:.3f}, least "
                     f"{min(ratios):.3f}, of {len(ratios)}")  # fmt: skip
    return "\n".join(lines)


if __name__ == "__main__":
    child(sys.argv[1], sys.argv[2], list(map(int, sys.argv[3:])))
