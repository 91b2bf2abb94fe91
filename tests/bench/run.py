"""`make bench`: every suite that this machine can run, printed and kept in results/.

Without a GPU: compiling and the CPU suites. With one: those of tests/bench/gpu.py as well.
`python tests/bench/run.py compile cpu_matmul ...` runs some suites only.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench import cpu
from tests.bench.compiling import compile_rows
from tests.bench.corpus import corpus_rows
from tests.bench.rows import RESULTS, Row, save, table

SUITES: dict[str, Callable[[], list[Row]]] = {
    "compile": compile_rows,
    "corpus_compile": corpus_rows,
    **cpu.SUITES,
}


def machine_name() -> str:
    """Return the CPU's name as a file name, e.g. cpu-amd-epyc-2-cores."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        match = re.search(r"model name\s*:\s*(.*)", information.read_text())
        model = match.group(1) if match else model
    words = re.sub(r"[^a-z0-9]+", "-", model.lower()).strip("-")
    return f"cpu-{words}-{os.cpu_count()}-cores"


def main(names: list[str]) -> int:
    """Run suites, print their table, save their rows."""
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"note: the load is {load:.1f}; times of a busy machine are not worth much")
    rows: list[Row] = []
    for name, suite in SUITES.items():
        if not names or name in names:
            rows += suite()
    if rows:
        print(table(rows))
        save(RESULTS / f"{machine_name()}.json", machine_name(), rows)
    import torch

    if torch.cuda.is_available():
        from tests.bench import gpu

        suites = [n for n in names if n in gpu.SUITES] if names else list(gpu.SUITES)
        return gpu.main(suites) if suites else 0
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
