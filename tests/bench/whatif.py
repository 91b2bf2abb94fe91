"""How well `%whatif` predicts: its times beside those that a GPU took for the same configurations.

    python -m tests.bench.whatif                      beside the stored tuning runs of an H200
    python -m tests.bench.whatif SUITE …              beside those of some suites
    python -m tests.bench.whatif --sizes              softmax and additions of stored sizes
    python -m tests.bench.whatif --squares            what 64 squares of a product take here
    python -m tests.bench.whatif --measure PATH [SUITE ...]   on a GPU: times, for `tuned.py`

A run is one problem with all configurations that were tried; what counts is the rank correlation of
predicted and measured times (Spearman), and by how much the predicted best is slower than the best.
Without a GPU the first ones compile some 300 kernels. `results/tuned/h200.json` has softmax,
products and attention, by the compiler of 2026-11-24.
"""

from __future__ import annotations

import json
import resource
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from tests.bench import tuned
from tests.bench.contests import Config, Contest, Tensors
from tests.bench.tuned import ROWS, STORED, problems
from tests.corpus.sample import jitted
from tests.kernels import matmul, softmax, vector_add
from workbench.questions.predicting import look, predict
from workbench.questions.whatif import WhatIf

TARGET = "sm_90a"
#: Runs of which the constants of the model were fitted.
FITTED = {
    ("softmax", "4096 rows", 1024), ("softmax", "4096 rows", 16384),
    ("softmax", "4096 rows in turn", 4096),
    ("matmul_nn", "nn", 512), ("matmul_nn", "nn", 1536), ("matmul_nn", "nn", 4096),
    ("matmul_nt", "nt", 1024), ("matmul_nt", "nt", 3072), ("matmul_tn", "tn", 5120),
    ("attention_fwd", "D64 full", 4096), ("attention_fwd", "D128 full", 4096),
    ("attention_fwd", "D128 causal", 4096),
}  # fmt: skip
#: Runs of which rows had been looked at when the form of the model was chosen.
LOOKED_AT = {
    ("softmax", "4096 rows", 256), ("softmax", "4096 rows", 4096),
    ("softmax", "4096 rows in turn", 1024),
    ("matmul_nn", "nn", 1024), ("matmul_nn", "nn", 5120), ("matmul_nn", "nn", 8192),
    ("matmul_tt", "tt", 512), ("matmul_tt", "tt", 5120),
    ("attention_fwd", "D64 full", 1024), ("attention_fwd", "D64 causal", 1024),
    ("attention_fwd", "D64 causal", 4096), ("attention_fwd", "D128 full", 1024),
    ("attention_fwd", "D128 causal", 1024),
}  # fmt: skip
MEMORY_BOUND = (("softmax", "4096 rows"), ("vector_add", "add"))


def ranks(values: Sequence[float]) -> list[float]:
    """Return ranks from 1; what is equal shares the mean of its ranks."""
    order = sorted(values)
    return [(2 * order.index(v) + order.count(v) + 1) / 2 for v in values]


def correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Spearman's rank correlation; 0 where one side has no order."""
    try:
        return statistics.correlation(ranks(a), ranks(b))
    except statistics.StatisticsError:
        return 0.0


def predicted(contest: Contest, config: Config) -> float | None:
    """Return what a configuration is predicted to take, in microseconds; nothing runs."""
    launch = contest.prepare(Tensors("meta")).launch(config)
    kernel = jitted(launch.kernel)
    types = [a.dtype if isinstance(a, torch.Tensor) else a for a in launch.arguments]
    compiled = kernel.warmup(*types, **launch.named, grid=launch.grid, target=TARGET)
    names = [p.name for p in kernel.kernel_source.parameters]
    pairs = zip(names, launch.arguments, strict=False)
    integers = {name: value for name, value in pairs if isinstance(value, int)}
    found = predict(look(compiled, integers, launch.grid), TARGET, launch.grid, contest.moved)
    return None if found is None else found.microseconds


def judged(runs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, float, float]]:
    """Yield each run's name, its rank correlation, and the measured time of the predicted best
    over that of the best."""
    known = problems()
    for run in runs:
        contest, table = known[run["suite"], run["case"], run["size"]]
        measured: Mapping[str, float] = run["microseconds"]
        chosen = [c for c in table if str(c) in measured]
        told = {str(c): predicted(contest, c) for c in chosen}
        pairs = [(told[name], measured[name]) for name in told if told[name] is not None]
        times = [time for _, time in pairs]
        best = min(pairs)[1] / min(times)
        name = f"{run['suite']} {run['case']} {run['size']}"
        yield name, correlation([guess for guess, _ in pairs], times), best


def sizes() -> Iterator[tuple[str, float, float]]:
    """Yield what memory bounds: its name, predicted and stored microseconds."""
    rows = json.loads((STORED.parents[1] / "h200.json").read_text())["rows"]
    known: dict[tuple[str, int], Mapping[str, Any]] = {
        (row["suite"], row["size"]): row
        for row in rows
        if row["dtype"] == "fp32" and (row["suite"], row["case"]) in MEMORY_BOUND
    }
    for (suite, size), row in known.items():
        pointer = torch.float32
        if suite == "softmax":
            grid, block = (ROWS,), 1 << (size - 1).bit_length()
            arguments, kernel = (pointer, pointer, size, size, size), softmax.softmax
        else:
            grid, block = (-(-size // 1024),), 1024
            arguments, kernel = (pointer, pointer, pointer, size), vector_add.add
        made = jitted(kernel).warmup(*arguments, BLOCK=block, grid=grid, target=TARGET)
        facts = look(made, {"n": size, "n_cols": size}, grid)
        found = predict(facts, TARGET, grid, row["bytes"])
        assert found is not None
        yield f"{suite} {size}", found.microseconds, row["ours_us"]


def squares() -> None:
    """Print how long 64 squares of a product take: the first, all, and the processors' seconds."""
    from workbench.magics import sweeping
    from workbench.magics.options import Request
    from workbench.magics.values import Axis, Expression
    from workbench.tuning import workers

    extents = "16,32,48,64,96,128,192,256"
    axes = tuple(Axis(n, Expression(extents, f"--axis {n}")) for n in ("BLOCK_M", "BLOCK_N"))
    start, first = time.perf_counter(), list[float]()

    def told(found: WhatIf) -> None:
        if not first and any(square.state == "ok" for square in found.squares):
            first.append(time.perf_counter() - start)

    signature = "*f16:16 *f16:16 *f16:16 i32:16 i32:16 i32:16" + " i32:16 i32=1" * 3
    request = Request(
        tune=axes, target=TARGET, sig=signature,
        settings=tuple(
            (n, Expression(v, n)) for n, v in
            (("BLOCK_K", "64"), ("GROUP_M", "8"), ("num_warps", "8"))
        ),
    )  # fmt: skip
    found = sweeping.whatif(jitted(matmul.matmul), request, {}, told)
    workers.end_all()
    took = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    processors = sum(one.ru_utime + one.ru_stime for one in took)
    done = sum(square.state == "ok" for square in found.squares)
    print(f"{done} squares in {found.seconds:.1f} s, the first after {first[0]:.2f} s; "
          f"{processors:.1f} s of processors, imports among them")  # fmt: skip


def main(words: list[str]) -> int:
    """Judge stored runs, or measure new ones."""
    if words[:1] == ["--measure"]:
        tuned.measure_all(Path(words[1]), words[2:] or tuned.SUITES)
        return 0
    if words == ["--squares"]:
        squares()
        return 0
    if words == ["--sizes"]:
        for name, told, took in sizes():
            print(f"{name:24} predicted {told:8.2f} us, took {took:8.2f} us: {told / took:.2f}")
        return 0
    runs = json.loads(STORED.read_text())["runs"]
    chosen = [run for run in runs if not words or run["suite"] in words]
    found: dict[str, list[tuple[float, float]]] = {}
    for run, (name, rank, best) in zip(chosen, judged(chosen), strict=True):
        key = (run["suite"], run["case"], run["size"])
        kind = "fitted" if key in FITTED else "looked at" if key in LOOKED_AT else "not seen"
        print(f"{name:34} rank correlation {rank:5.2f}, predicted best {best - 1:+.0%}, {kind}",
              flush=True)  # fmt: skip
        for one in (kind, "all"):
            found.setdefault(one, []).append((rank, best))
    for kind, several in found.items():
        mean = statistics.mean(rank for rank, _ in several)
        near = sum(best <= 1.1 for _, best in several)
        print(f"{kind}: mean {mean:.2f}; predicted best within 10 % in {near} of {len(several)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
