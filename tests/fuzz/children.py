"""Runs cases by seed in child processes, which may end or hang without taking the run with them.

A child is a command that gets FIRST and COUNT as its last arguments and writes a line of JSON for
each seed, in order; one that stops early is started again behind the seed that it stopped at.
"""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: How much longer than for a case is waited for the first one, which comes after the imports.
STARTING = 90.0


def rows(
    command: Sequence[str], first: int, count: int, patience: float
) -> Generator[dict[str, Any]]:
    """Yield what children say of seeds; for one that ends a child, {"seed", "ended"}.

    `command` is a module of ours with its arguments; a child that is silent for `patience` seconds
    hangs. The last child ends when the iterator is closed.
    """
    seed, end = first, first + count
    while seed < end:
        child = subprocess.Popen(
            [sys.executable, "-m", *command, str(seed), str(end - seed)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT,
        )  # fmt: skip
        stopped = False
        try:
            for line in _lines(child, patience):
                row = json.loads(line)
                seed, stopped = row["seed"] + 1, row.get("stops", False)
                yield row
        finally:
            child.kill()
            child.wait()
        if seed < end and not stopped:
            said = "hangs" if child.returncode == -9 else f"ended with {child.returncode}"
            yield {"seed": seed, "ended": f"the process {said}"}
            seed += 1


def _lines(child: subprocess.Popen[bytes], patience: float) -> Iterator[bytes]:
    """Yield the lines of a child until it ends, or says nothing for too long."""
    assert child.stdout is not None
    waiting = selectors.DefaultSelector()
    waiting.register(child.stdout, selectors.EVENT_READ)
    held, end = b"", time.monotonic() + patience + STARTING
    while True:
        if not waiting.select(timeout=max(0.0, end - time.monotonic())):
            return
        data = child.stdout.read1(65536)  # type: ignore[attr-defined]
        if not data:
            child.wait()
            return
        *lines, held = (held + data).split(b"\n")
        yield from lines
        end = time.monotonic() + patience


__all__ = ["rows"]
