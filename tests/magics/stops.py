"""Stop at random moments of tuning, timing and maps, in a Jupyter kernel as people run it.

    python -m tests.magics.stops [COUNT] [SEED]

Cells run in one IPython kernel, which is interrupted as the Stop button does it. What a run had
found by then is noted where it is found; the result must have all of it, and nobody may see a
traceback. The kernel must go on: the next cell runs in it.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: Seconds after which a cell that was stopped hangs.
PATIENCE = 120.0

SETUP = """
%load_ext workbench
import json
import numpy as np
from workbench.bench import running, sweep
from workbench.questions import whatif
from workbench.tuning import racing

found = {}

def noting(place, name, note):
    real = getattr(place, name)
    def call(*given, **options):
        result = real(*given, **options)
        note(*given)
        return result
    setattr(place, name, call)

def timed(race):
    count = sum(bool(c.timing.samples) and c.error is None for c in race.candidates)
    found["timed"] = max(found.get("timed", 0), count)

def sized(*given):
    found["sizes"] = found.get("sizes", 0) + 1

def filled(filling, *given):
    found["squares"] = sum(s.state in ("ok", "failed") for s in filling._found.squares)

noting(racing.Race, "_leave_out", timed)
noting(sweep, "measure", sized)
noting(whatif._Filling, "_take", filled)
running.ceilings = lambda *given: []

def make(N=1 << 14):
    one = np.ones(N, np.float32)
    return {"x": one, "y": one.copy(), "out": np.zeros(N, np.float32), "n": N}

def forget():
    found.clear()
    whatif.forget()
    for name in ("_kernel", "shown"):
        get_ipython().user_ns.pop(name, None)

def told():
    names = get_ipython().user_ns
    kept = {"found": found}
    if "_kernel" in names:
        runs = names["_kernel"].traces[-1].runs
        kept["rows"] = [
            [sum(row.milliseconds is not None for row in tune.rows), tune.best is not None]
            for tune in runs.tunes
        ]
        kept["sizes"] = [[len(bench.x), len(bench.milliseconds)] for bench in runs.benches]
        kept["skipped"] = [s.why for s in runs.skipped]
    if "shown" in names:
        kept["squares"] = sum(s.state in ("ok", "failed") for s in names["shown"].found.squares)
        kept["stopped"] = names["shown"].found.stopped
    print(json.dumps(kept))
"""
CELL = """%%kernel add --make make --grid "cdiv(n, BLOCK)" --check "x + y" --target cpu {options}
def add(x, y, out, n, BLOCK: tl.constexpr = 64, TAG: tl.constexpr = {tag}):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    total = tl.load(x + offsets, mask=inside) + tl.load(y + offsets, mask=inside) + 0 * TAG
    tl.store(out + offsets, total, mask=inside)
"""
#: What is stopped: TAG is another one each time, so that kernels are compiled anew.
JOBS = {
    "tune": CELL.replace("{options}", "--tune BLOCK=64,128,256,512"),
    "bench": CELL.replace("{options}", "--x N=1024,4096,16384 --bench"),
    "whatif": "shown = %whatif add --axis BLOCK=64,128,256 --axis warps=1,4 --set TAG={tag}",
}


@dataclass
class Said:
    """What a cell said: its streams, and its error as it is shown."""

    text: str = ""
    errors: list[str] = field(default_factory=list[str])


class Kernel:
    """An IPython kernel that cells run in."""

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        self._client = manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=PATIENCE)

    def run(self, code: str, stop_after: float | None = None) -> Said:
        """Run a cell, and interrupt it so many seconds after it was sent. Raises TimeoutError."""
        asked = self._client.execute(code, store_history=True)
        if stop_after is not None:
            time.sleep(stop_after)
            self._manager.interrupt_kernel()
        said, end = Said(), time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                message = self._client.get_iopub_msg(timeout=1.0)
            except Exception:  # queue.Empty of whichever version
                continue
            if message["parent_header"].get("msg_id") != asked:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                said.text += content["text"]
            elif kind == "error":
                said.errors.append("\n".join(content["traceback"]))
            elif kind == "status" and content["execution_state"] == "idle":
                return said
        raise TimeoutError(f"a cell has not ended {PATIENCE:g} s after it was stopped")

    def close(self) -> None:
        """End the kernel."""
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


@contextmanager
def kernel() -> Iterator[Kernel]:
    """Start a kernel with everything that cells need, and end it."""
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name="python3")
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    manager.start_kernel(env={**os.environ, "PYTHONPATH": paths}, cwd=str(ROOT))
    running = Kernel(manager)
    try:
        said = running.run(SETUP)
        assert not said.errors, said.errors
        yield running
    finally:
        running.close()


#: Python itself swallows, and prints, what arrives while the standard library's callback of a weak
#: reference runs; nobody else can catch it there. All that is printed beside it counts.
_SWALLOWED = re.compile(
    r"Exception ignored in: <function Weak.*\nTraceback.*\n(?:[ ].*\n|\n)*KeyboardInterrupt: ?\n?"
)


def wrong(job: str, said: Said, kept: dict[str, Any]) -> list[str]:
    """Return what is not as it must be after a stop."""
    found = kept["found"]
    texts = [_SWALLOWED.sub("", text) for text in (said.text, *said.errors)]
    problems = [f"a traceback: {text[-2000:]}" for text in texts
                if "Traceback" in text or "---->" in text or text.count("\n") > 20]  # fmt: skip
    problems += [f"an error that is no stop: {text[-500:]}" for text in said.errors
                 if "KeyboardInterrupt" not in text]  # fmt: skip
    if job == "whatif":
        if kept.get("squares", 0) < found.get("squares", 0):
            problems.append(f"{found['squares']} squares were filled, {kept.get('squares')} kept")
        return problems
    rows, sizes = kept.get("rows", []), kept.get("sizes", [])
    if found.get("timed", 0) > sum(count for count, _ in rows):
        problems.append(f"{found['timed']} configurations were timed, kept are {rows}")
    if any((count > 0) != best for count, best in rows):
        problems.append(f"timed configurations and the best do not agree: {rows}")
    if found.get("sizes", 0) > max((count for count, _ in sizes), default=0):
        problems.append(f"{found['sizes']} sizes were timed, kept are {sizes}")
    if any(x != y for x, y in sizes):
        problems.append(f"sizes and times do not agree: {sizes}")
    return problems


def stops(count: int, seed: int = 1) -> tuple[Counter[str], list[str]]:
    """Stop so many cells; return how often which job had found what, and what was wrong."""
    choose = random.Random(seed)
    told: Counter[str] = Counter()
    problems: list[str] = []
    with kernel() as running:
        running.run(JOBS["bench"].replace("{tag}", "0"))  # imports what it needs
        lengths: dict[str, float] = {}
        for number, (job, code) in enumerate([*JOBS.items()] * 2, 1):
            running.run("forget()")
            start = time.monotonic()
            said = running.run(code.replace("{tag}", str(number)))
            lengths[job] = min(lengths.get(job, PATIENCE), time.monotonic() - start)
            problems += [f"{job}, not stopped: {text}" for text in said.errors]
        for number in range(count):
            job = [*JOBS][number % len(JOBS)]
            delay = choose.random() * lengths[job]
            running.run("forget()")
            said = running.run(JOBS[job].replace("{tag}", str(100 + number)), delay)
            answer = running.run("told()")
            kept = json.loads(answer.text.strip().splitlines()[-1])
            problems += [f"{job} after {delay:.3f} s: {text}" for text in wrong(job, said, kept)]
            some = any(kept["found"].values())
            stopped = bool(said.errors or kept.get("skipped") or kept.get("stopped"))
            told[f"{job}: {'stopped' if stopped else 'over'}, {'some' if some else 'nothing'}"] += 1
    return told, problems


def main(words: list[str]) -> int:
    """Run as the command line says; 1 if something was wrong."""
    told, problems = stops(*map(int, words or ["40"]))
    sys.stdout.write(json.dumps({"stops": told, "wrong": problems}, indent=1) + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
