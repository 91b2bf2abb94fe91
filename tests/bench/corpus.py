"""What the corpus costs to compile for a GPU, and whether its registers suffice.

`python -m tests.bench.corpus [word ...]` compiles every kernel at the size it is measured at
(or the largest it is tested at) for sm_90a, and prints CPU time to PTX, registers and spills.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

import torch

from tests.bench.rows import Row, row
from tests.corpus import every
from tests.corpus.sample import Launch, Maker, Sample

TARGET = "sm_90a"


class Cost(NamedTuple):
    """What one kernel took."""

    kernel: str
    milliseconds: float
    registers: int
    spills: int
    error: str = ""


def compiled(launch: Launch) -> Cost:
    """Compile one launch's kernel from source to SASS; nothing runs."""
    import workbench

    kernel = workbench.jit(launch.kernel)
    name = launch.kernel.__name__
    gc.collect()
    start = time.process_time()
    arguments = [a.dtype if isinstance(a, torch.Tensor) else a for a in launch.arguments]
    try:
        made = kernel.warmup(*arguments, **launch.named, grid=launch.grid, target=TARGET)
        made.asm["ptx"]
        took = (time.process_time() - start) * 1e3
        return Cost(name, took, made.n_regs, made.n_spills)
    except Exception as error:
        return Cost(name, 0.0, 0, 0, f"{type(error).__name__}: {error}".replace("\n", " | "))


def costs(entry: Sample) -> Iterator[Cost]:
    """Compile all launches of one sample, each in the first of its measured types."""
    size = ((*entry.bench, *entry.gpu[:1]) or (*entry.slow, *entry.fast))[0]
    problem = entry.build(Maker(entry.bench_dtypes[0]), *size)
    once = {(launch.kernel, str(launch.named)): launch for launch in problem.launches}
    for launch in once.values():
        yield compiled(launch)


def corpus_rows() -> list[Row]:
    """Return the rows of the suite `corpus_compile`: CPU time from source to PTX, cold."""
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        os.environ["WORKBENCH_CACHE_DIR"] = cache
        for entry in every.SAMPLES:
            for cost in costs(entry):
                case = f"{entry.suite}: {cost.kernel}{' FAILED' if cost.error else ''}"
                dtype = str(entry.bench_dtypes[0])[6:]
                rows.append(
                    row("corpus_compile", case, dtype, 1, cost.milliseconds * 1e3, "triton", None)
                )
    return rows


def main(words: list[str]) -> int:
    """Print one line for each kernel whose suite or name has one of the words."""
    bad = 0
    with tempfile.TemporaryDirectory() as cache:
        os.environ["WORKBENCH_CACHE_DIR"] = cache
        for entry in every.SAMPLES:
            if words and not any(word in f"{entry.suite} {entry.name}" for word in words):
                continue
            for cost in costs(entry):
                wrong = cost.error or cost.spills or cost.milliseconds > 400
                bad += bool(wrong)
                words_of_it = (
                    f"{'BAD' if wrong else 'ok ':3} {entry.suite:14} {entry.name:28}",
                    f"{cost.kernel:28} {cost.milliseconds:6.0f} ms {cost.registers:4} regs",
                    f"{cost.spills:4} spills {cost.error[:300]}",
                )
                print(*words_of_it, flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(sys.argv[1:]))
