"""Runs cases in child processes, which may end or hang without taking the run with them.

A child answers one line of JSON for each line that it is given (`serve`). It lives as long as it
answers: what is not answered ended it or hangs, and the next question goes to a new one.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: How much longer than for a case is waited for the first one, which comes after the imports.
STARTING = 90.0
#: One thread for each library that would take all cores: there are as many children as cores.
ALONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "WORKBENCH_NUM_THREADS": "2"}

Case = dict[str, Any]
#: Says how far a case is, which renews the patience with it.
Report = Callable[[str], None]


class Child:
    """A process that answers questions, started by the first one and again after an end."""

    def __init__(self, command: Sequence[str], patience: float) -> None:
        """`command` is a module of ours with its arguments; `patience` is in seconds."""
        self.command, self.patience = command, patience
        self._process: subprocess.Popen[bytes] | None = None
        self._held = b""

    def ask(self, case: Mapping[str, Any]) -> Case:
        """Return the case with its answer, or with why there is none under "ended"."""
        process = self._process or self._start()
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(case).encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            return {**case, "ended": self._end("ended")}
        answer = {"working": ""}
        while "working" in answer:
            line = self._line()
            if line is None:
                hangs = process.poll() is None
                return {**case, "ended": self._end("hangs" if hangs else "ended")}
            answer = json.loads(line)
        if answer.pop("stops", False):
            self.close()
        return {**case, **answer}

    def interrupt(self) -> None:
        """End the process while another thread waits for what it answers: that it ended."""
        process = self._process
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", *self.command], cwd=ROOT, env={**os.environ, **ALONE},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said,
        )  # fmt: skip
        self._held, self._waiting = b"", self.patience + STARTING
        return self._process

    def _line(self) -> bytes | None:
        """Return the next line; None if the process ended, or said nothing for too long."""
        assert self._process is not None
        assert self._process.stdout is not None
        end = time.monotonic() + self._waiting
        with selectors.DefaultSelector() as ready:
            ready.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._held:
                if not ready.select(timeout=max(0.0, end - time.monotonic())):
                    return None
                data = self._process.stdout.read1(65536)  # type: ignore[attr-defined]
                if not data:
                    self._process.wait()
                    return None
                self._held += data
        self._waiting = self.patience
        line, self._held = self._held.split(b"\n", 1)
        return line

    def _end(self, how: str) -> str:
        """End the process and say how it went, with its last words."""
        process = self._process
        assert process is not None
        if how == "hangs":
            self.close()
            return "the process hangs"
        status = process.wait()
        self._said.seek(0)
        words = self._said.read().decode(errors="replace").strip().splitlines()
        self.close()
        return f"the process ended with {status}" + (f": {words[-1][:200]}" if words else "")


def answers(
    command: Sequence[str], cases: Iterable[Mapping[str, Any]], patience: float
) -> Generator[Case]:
    """Yield each case with the answer of a child, or with how the child ended."""
    with closing(Child(command, patience)) as child:
        for case in cases:
            yield child.ask(case)


def serve(answer: Callable[[Case, Report], Case]) -> None:
    """Answer the cases of standard input, a line of JSON for each.

    An answer with "stops" ends this process, whose device or memory may be lost. What cases print
    goes to standard error.
    """
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.stdout = sys.stderr

    def write(row: Case) -> None:
        out.write(json.dumps(row) + "\n")
        out.flush()

    for line in sys.stdin:
        row = answer(json.loads(line), lambda word: write({"working": word}))
        write(row)
        if row.get("stops"):
            os._exit(1)


__all__ = ["Case", "Child", "Report", "answers", "serve"]
