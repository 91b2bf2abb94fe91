"""The GPU suites: every case beside Triton, a library, a copy of its bytes, and the roofline.

`python -m tests.bench.gpu [SUITE ...]` runs some or all; results go to results/<machine>.json.
Products, attention and their kin are contests (`contests.py`, `racing.py`), compiled in advance.
The exit status says whether everything that should have a row has one.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

import workbench
from tests.bench import ahead, cases, contests, peers, racing, versus
from tests.bench.cases import Case
from tests.bench.rows import RESULTS, Row, compared, limited, row, save, steady, table
from tests.corpus.sample import Maker, Problem, failures, jitted
from tests.corpus.sample import run as run_problem
from tests.kernels import vector_add
from workbench.bench.ceilings import roofline
from workbench.runtime.measuring import measure
from workbench.runtime.timing import ROUNDS, Effort, Timing

Calls = dict[str, Callable[[], object]]

EFFORT = Effort(milliseconds=60.0)


class Missing(list[str]):
    """What should have been measured and was not, each with its reason."""

    def note(self, case: Case, what: str, error: BaseException) -> None:
        reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        self.append(f"{case.suite} {case.name} {case.word}: {what}: {reason[:300]}")
        print("MISSING", self[-1], flush=True)


# -- one case ---------------------------------------------------------------------------------
def launches(
    problem: Problem, kernel_of: Callable[[Any], Any], more: Mapping[str, Any]
) -> Callable[[], None]:
    """Return a function that runs a problem's launches, by kernels that `kernel_of` gives."""
    prepared = [
        (kernel_of(launch.kernel)[launch.grid], launch.arguments, {**launch.named, **more})
        for launch in problem.launches
    ]

    def run() -> None:
        for kernel, arguments, named in prepared:
            kernel(*arguments, **named)

    return run


@cache
def _peer(module: ModuleType) -> Any:
    return peers.under_triton(module)


def calls_of(case: Case, problem: Problem) -> Calls:
    """Return ours and the baselines of a case."""
    source = torch.empty(max(problem.moved_bytes // 2, 16), dtype=torch.uint8, device="cuda")
    copied = torch.empty_like(source)
    calls: Calls = {
        "ours": launches(problem, jitted, {}),
        "copy": lambda: copied.copy_(source),
    }
    if problem.torch is not None:
        calls[case.library] = problem.torch
    if case.peer and peers.triton_installed():
        peer = partial(getattr, _peer(case.module))
        calls["triton"] = launches(problem, lambda k: peer(k.__name__), case.peer_named)
    return calls


def tried(case: Case, calls: Calls, missing: Missing) -> Calls:
    """Run each call once; those that fail are left out, and missing."""
    found: Calls = {}
    for name, call in calls.items():
        try:
            call()
            torch.cuda.synchronize()
            found[name] = call
        except Exception as error:
            missing.note(case, name, error)
    return found


def _is_right(case: Case, problem: Problem, make: Maker, missing: Missing) -> bool:
    if not case.checked:
        return True
    run_problem(problem)
    torch.cuda.synchronize()
    wrong = list(failures(problem, make))
    if wrong:
        missing.note(case, "ours", ValueError("; ".join(wrong)))
    return not wrong


def rows_of(case: Case, problem: Problem, timings: Mapping[str, Timing]) -> list[Row]:
    """Return a case's rows: one for each baseline that was timed, and the roofline's."""
    ours = timings["ours"]
    size = problem.moved_bytes if case.size is None else case.size

    def plain(baseline: str, microseconds: float) -> Row:
        found = row(case.suite, case.name, case.word, size, ours.median * 1e3, baseline,
                    microseconds)  # fmt: skip
        return replace(found, bytes=problem.moved_bytes, flops=problem.flops)

    rows = [
        compared(plain(name, theirs.median * 1e3), ours, theirs)
        for name, theirs in timings.items()
        if name != "ours"
    ]
    least = roofline(problem.moved_bytes, problem.flops, case.operand)
    if least is not None:
        rows.append(limited(plain("roofline", least * 1e3), ours))
    return rows


def measured(group: Sequence[Case], missing: Missing) -> list[Row]:
    """Measure the cases of one group in one interleaved run; the rows are those of the best.

    Everything is made and timed in a stream of its own, in which backward passes of torch can be
    captured as well.
    """
    problems: dict[Case, Problem] = {}
    calls: Calls = {}
    with torch.cuda.stream(torch.cuda.Stream()):
        for case in group:
            make = Maker(case.dtype, "cuda")
            try:
                problem = case.build(make)
                if not _is_right(case, problem, make, missing):
                    continue
            except Exception as error:
                missing.note(case, "ours", error)
                continue
            found = tried(case, calls_of(case, problem), missing)
            own = found.pop("ours", None)
            if own is not None:
                problems[case] = problem
                calls |= {f"ours {case.name}": own, **found}
        if not problems:
            return []
        timings = measure(calls, gpu=True, effort=EFFORT)
    own_timings = {case: timings.pop(f"ours {case.name}") for case in problems}
    if len(own_timings) > 1:
        print({case.name: f"{t.median * 1e3:.1f} us" for case, t in own_timings.items()})
    best = min(own_timings, key=lambda case: own_timings[case].median)
    return rows_of(best, problems[best], {"ours": own_timings[best], **timings})


def suite_rows(suite: str, missing: Missing, compiled: str = "") -> list[Row]:
    """Measure the cases of one suite; `compiled`: the cache of what was compiled ahead."""
    if suite == "launch":
        return launch_rows()
    if suite == "compile":
        return versus.compile_rows(missing)
    if suite in contests.suites():
        return racing.suite_rows(suite, missing, compiled)
    if suite in INDUCTOR:
        inductor = importlib.import_module("tests.bench.inductor")
        if not peers.triton_installed():
            missing.append(f"{suite}: triton is not installed")
            return []
        find = inductor.speed_rows if suite == "inductor" else inductor.compile_rows
        return find(missing.append)
    rows: list[Row] = []
    wanted = [case for case in cases.ALL if case.suite == suite]
    for _, group in groupby(wanted, key=lambda case: case.group or case):
        rows += measured(list(group), missing)
        torch.cuda.empty_cache()
    return rows


# -- what a launch costs the host ---------------------------------------------------------------
def _host_time(call: Callable[[], object], rounds: int = 300) -> float:
    """Return the host's time of one warm launch in microseconds (best of several batches)."""
    best = float("inf")
    for _ in range(7):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(rounds):
            call()
        best = min(best, (time.perf_counter() - start) / rounds)
    torch.cuda.synchronize()
    return best * 1e6


def launch_rows() -> list[Row]:
    """Return the rows of the suite `launch`: the host's time, which is what is asked here."""
    x, y = (torch.randn(1024, device="cuda") for _ in "xy")
    out = torch.empty_like(x)
    add = workbench.jit(vector_add.add)
    calls: Calls = {"ours": lambda: add[(1,)](x, y, out, 1024, BLOCK=1024),
                    "torch": lambda: torch.add(x, y, out=out)}  # fmt: skip
    if peers.triton_installed():
        peer = peers.under_triton(vector_add)
        calls["triton"] = lambda: peer.add[(1,)](x, y, out, 1024, BLOCK=1024)
    for call in calls.values():
        for _ in range(200):
            call()
    rounds: list[dict[str, float]] = []
    for _ in range(ROUNDS):
        samples: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(5):
            for name, call in calls.items():
                samples[name].append(_host_time(call))
        rounds.append({name: sorted(found)[len(found) // 2] for name, found in samples.items()})
    rows = []
    for name in calls:
        if name != "ours":
            ours, theirs = steady([(found["ours"], found[name]) for found in rounds])
            ours.timed = theirs.timed = "host"
            plain = row("launch", "3 tensors and an int", "fp32", 1024, ours.median * 1e3, name,
                        theirs.median * 1e3)  # fmt: skip
            rows.append(compared(plain, ours, theirs))
    return rows


#: What torch's compiler makes of graphs through us, beside what it makes of them with Triton.
INDUCTOR = ("inductor", "inductor_compile")
SUITES: tuple[str, ...] = (
    *cases.SUITES[:3], "launch", *cases.SUITES[3:], *contests.suites(), "compile", *INDUCTOR
)  # fmt: skip


def compiled_ahead(suites: Sequence[str]) -> str:
    """Compile all that contests may launch, by us and by Triton; returns the cache with it."""
    folder = ahead.take_over()
    compilers = ["ours", "triton"] if peers.triton_installed() else ["ours"]
    for line in ahead.compile_all(suites, compilers, folder):
        print("  not compiled:", line[:300])
    return folder


def run_suites(names: Sequence[str]) -> Missing:
    """Run suites, print their table, save their rows; returns what is missing."""
    machine = torch.cuda.get_device_name()
    file = machine.lower().replace("nvidia ", "").replace(" ", "-") + ".json"
    folders = [RESULTS, *([Path(os.environ["OUT"])] if os.environ.get("OUT") else [])]
    missing = Missing()
    rows: list[Row] = []
    raced = [name for name in names if name in contests.suites()]
    compiled = compiled_ahead(raced) if raced else ""
    for name in (suite for suite in SUITES if suite in names):
        start = time.perf_counter()
        try:
            found = suite_rows(name, missing, compiled)
            if not found:
                missing.append(f"{name}: the suite has no rows")
        except Exception as error:
            traceback.print_exc()
            missing.append(f"{name}: the suite raised {type(error).__name__}: {error}")
            found = []
        rows += found
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
        for folder in folders:  # after each suite: a run that is cut short leaves what it has
            save(folder / file, machine, rows)
    print(table(rows))
    for what, chosen in (
        ("host", [r for r in rows if r.timed == "host" and r.suite != "launch"]),
        ("unsteady", [r for r in rows if r.unsteady]),
    ):
        print(f"{len(chosen)} of {len(rows)} rows are {what}, in no mean and no claim")
        for r in chosen:
            print(f"  {r.suite} {r.case} {r.dtype} against {r.baseline} {r.rounds}")
    if not peers.triton_installed():
        print("triton is not installed: no row is against it")
    return missing


def main(arguments: list[str]) -> int:
    """Run the named suites, or all; the exit status is 1 where something is missing."""
    if not torch.cuda.is_available():
        print("no CUDA device: nothing to run")
        return 0
    unknown = [name for name in arguments if name not in SUITES]
    if unknown:
        print(f"unknown suites {', '.join(unknown)}; known: {', '.join(SUITES)}")
        return 2
    missing = run_suites(arguments or SUITES)
    for line in missing:
        print("MISSING", line)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
