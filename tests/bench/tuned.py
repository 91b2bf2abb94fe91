"""The runs that `%whatif` is judged by: problems, and the times of all their configurations.

    python -m tests.bench.whatif --measure PATH [SUITE ...]

times them on the GPU that is there and writes PATH after each run. It goes on with what PATH holds:
a run that was being measured when its process ended is left out then, so that a loop around
it comes past a configuration that hangs:

    for i in 1 2 3; do timeout 200 python -m tests.bench.whatif --measure PATH && break; done

PATH is stored as `results/tuned/h200.json`:

    {"machine": "...", "date": "2026-11-24", "what": "...",
     "runs": [{"suite", "case", "dtype", "size", "microseconds": {configuration: median, cold}}]}
"""

from __future__ import annotations

import datetime
import json
import os
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from tests.bench import ahead, contests
from tests.bench.contests import Config, Contest, Prepared, Tensors, configs, with_options
from tests.corpus.sample import Launch
from tests.kernels import softmax
from workbench.runtime.timing import Effort

STORED = Path(__file__).parent / "results" / "tuned" / "h200.json"
ROWS = 4096
MULTIPROCESSORS = 132
#: The block is what the row needs, and stages say nothing where there is no loop.
SOFTMAX = configs(*((0, warps, 1) for warps in (1, 2, 4, 8, 16, 32)))
#: Programs that take several rows each: how many to a multiprocessor, warps, stages.
ROWS_IN_TURN = configs(
    (1, 8, 1), (1, 8, 4), (1, 16, 1), (1, 16, 4), (2, 4, 1), (2, 4, 4), (2, 8, 1), (2, 8, 4),
    (4, 4, 1), (4, 4, 4), (4, 8, 1), (8, 4, 1), (8, 4, 2), (8, 8, 1),
)  # fmt: skip
#: The same tiles with blocks that stay for several and with blocks that do not, beside those of
#: the contests' tables: which it shall be is what a prediction has to say.
STAY_OR_NOT = (
    *with_options("warp_specialize persistent", (128, 128, 64, 4, 4), (128, 256, 64, 8, 4)),
    Config((128, 256, 64), 8, 3, ("warp_specialize", "no persistent")),
    Config((128, 128, 64), 8, 4, ("warp_specialize", "no persistent")),
    Config((128, 256, 64), 8, 3, ("no warp_specialize",)),
    Config((256, 128, 64), 8, 3, ("no warp_specialize",)),
)
ATTENTION_STAYS = with_options("persistent", (128, 64, 8, 3), (64, 64, 4, 3), (128, 128, 8, 3))
SUITES = ("softmax", "matmul_nn", "attention_fwd", "matmul_nt", "matmul_tn", "matmul_tt")
#: Sizes at which no contest is tuned, with all configurations.
MORE_SIZES = {"matmul_nn": (2048, 8192), "attention_fwd": (1024,)}

Key = tuple[str, str, int]


def _softmax(tensors: Tensors, size: int, in_turn: bool) -> Prepared:
    x = tensors.normal(ROWS, size, dtype=torch.float32)
    out = tensors.empty(ROWS, size, dtype=torch.float32)
    block = 1 << (size - 1).bit_length()

    def launch(config: Config) -> Launch:
        if not in_turn:
            arguments, named = (out, x, size, size, size), {"BLOCK": block, **config.options}
            return Launch(softmax.softmax, (ROWS,), arguments, named)
        named = {"BLOCK": block, "STAGES": config.stages, "num_warps": config.warps}
        grid = (min(ROWS, MULTIPROCESSORS * config.blocks[0]),)
        return Launch(softmax.softmax_persistent, grid, (out, x, size, size, ROWS, size), named)

    return Prepared(launch, out, lambda: torch.softmax(x, -1), (1e-5, 1e-6))


def _softmaxes() -> list[Contest]:
    return [
        Contest(
            "softmax", name, torch.float32, size, softmax,
            partial(_softmax, size=size, in_turn=in_turn), table, 0, 8 * ROWS * size, "softmax",
            tunes=True,
        )
        for name, in_turn, table in (
            ("4096 rows", False, SOFTMAX), ("4096 rows in turn", True, ROWS_IN_TURN)
        )
        for size in ((1024, 4096) if in_turn else (256, 1024, 4096, 16384))
    ]  # fmt: skip


@cache
def problems() -> dict[Key, tuple[Contest, tuple[Config, ...]]]:
    """Return what is measured by suite, name and size: a contest, and its configurations."""
    found: dict[Key, tuple[Contest, tuple[Config, ...]]] = {}
    for contest in (*_softmaxes(), *contests.all_contests()):
        more = contest.size in MORE_SIZES.get(contest.suite, ())
        if contest.suite not in SUITES or contest.word == "bf16" or not (contest.tunes or more):
            continue
        table = contest.configs
        if contest.suite.startswith("matmul") and contest.size > 1024:
            table = (*table, *STAY_OR_NOT)
        if contest.suite == "attention_fwd":
            table = (*table, *ATTENTION_STAYS)
        found[contest.suite, contest.name, contest.size] = contest, tuple(dict.fromkeys(table))
    return found


def _compile(job: tuple[Key, int]) -> str:
    """Compile one configuration into the cache; returns why it cannot be."""
    torch.set_num_threads(1)
    ahead.by_content()
    contest, table = problems()[job[0]]
    try:
        ahead.compile_ours(contest.prepare(Tensors("meta")).launch(table[job[1]]))
    except Exception as error:
        return f"{contest.title} {table[job[1]]}: {' '.join(str(error).split())[:200]}"
    return ""


def compile_all(keys: Iterable[Key], folder: str) -> list[str]:
    """Compile all configurations of problems into a cache, on all cores; returns what failed."""
    found: dict[Any, tuple[Key, int]] = {}
    for key in keys:
        contest, table = problems()[key]
        prepared = contest.prepare(Tensors("meta"))
        for number, config in enumerate(table):
            found.setdefault(ahead.kind(prepared.launch(config), "ours"), (key, number))
    pool = ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=get_context("spawn"))
    with ahead.environment({"WORKBENCH_CACHE_DIR": folder}), pool:
        return [why for why in pool.map(_compile, found.values(), chunksize=4) if why]


def _times(contest: Contest, table: Iterable[Config]) -> dict[str, float]:
    """Return the median time of each configuration that runs and is right, in microseconds."""
    from tests.bench.racing import TUNING, call_of, error_of
    from workbench.runtime.measuring import measure

    prepared = contest.prepare(Tensors("cuda"))
    want = prepared.reference().clone()
    calls: dict[str, Callable[[], object]] = {}
    for config in table:
        try:
            call = call_of([prepared.launch(config)], contest, "ours")
            prepared.result.fill_(float("nan"))
            call()
            torch.cuda.synchronize()
            wrong = error_of(prepared, want) > 0
        except Exception as error:
            print(f"{contest.title} {config}: {' '.join(str(error).split())[:200]}", flush=True)
            continue
        if wrong:
            print(f"{contest.title} {config}: WRONG", flush=True)
            continue
        calls[str(config)] = call
    effort = Effort(TUNING.warm_up, 2 * TUNING.milliseconds, 2 * TUNING.runs)
    timings = measure(calls, gpu=True, effort=effort)
    order = sorted(timings, key=lambda word: timings[word].median)
    return {word: round(timings[word].median * 1e3, 2) for word in order}


def measure_all(path: Path, suites: Iterable[str] = SUITES) -> None:
    """Time every configuration on this GPU and write what was found; goes on with what is there."""
    chosen = [key for suite in suites for key in problems() if key[0] == suite]
    found: dict[str, Any] = {
        "machine": torch.cuda.get_device_name(),
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "what": "`python -m tests.bench.whatif --measure`: median microseconds, cold",
        "runs": [],
    }
    if path.exists():
        found = json.loads(path.read_text())
    begun: list[Key] = [(run["suite"], run["case"], run["size"]) for run in found["runs"]]
    begun += [tuple(key) for key in found.pop("begun", [])]
    folder = os.environ.get("WORKBENCH_CACHE_DIR") or tempfile.mkdtemp(prefix="tuned-")
    print(*compile_all([key for key in chosen if key not in begun], folder), sep="\n", flush=True)
    os.environ["WORKBENCH_CACHE_DIR"] = folder
    ahead.by_content()
    torch.cuda.set_stream(torch.cuda.Stream())  # the default stream cannot be captured
    for key in chosen:
        if key in begun:
            continue
        begun.append(key)
        path.write_text(json.dumps({**found, "begun": begun}))
        contest, table = problems()[key]
        times = _times(contest, table)
        suite, name, size = key
        found["runs"].append(
            {"suite": suite, "case": name, "dtype": contest.word, "size": size,
             "microseconds": times}
        )  # fmt: skip
        path.write_text(json.dumps({**found, "begun": begun}))
        print(contest.title, times, flush=True)
        torch.cuda.empty_cache()
    path.write_text(json.dumps(found, indent=1) + "\n")
