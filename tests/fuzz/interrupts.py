"""Ctrl-C at random moments of compiling, launching, tuning, timing and interpreting.

    python -m tests.fuzz.interrupts [COUNT] [state FILE]

Each seed is a number of interrupts in one child process; after each, launches must be right and
compiling must work. A child that ends or hangs is a finding, so is a result that is wrong. FILE
holds what was run: the same call again runs what is left of COUNT.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fuzz.children import Case, Report, answers, serve

COMMAND = ("tests.fuzz.interrupts", "serve")
#: Interrupts of one seed; seconds that a child may be silent (ten times what one may take).
EACH, PATIENCE = 25, 200.0
#: Seconds after which it is sent again; many times more than an answer takes on a busy machine.
AGAIN = 30.0


# -- in the child -----------------------------------------------------------------------------
class Work:
    """What is interrupted; each function returns by itself, or never."""

    def __init__(self) -> None:
        import torch

        import workbench
        from tests.fuzz import interrupted

        self.torch, self.workbench, self.kernels = torch, workbench, interrupted
        self.fresh = 0
        self.x = torch.arange(1000, dtype=torch.float32)
        self.out = torch.empty_like(self.x)
        self.flag = torch.zeros(64, dtype=torch.int32)
        self.stays = workbench.jit(interrupted.add)

    def compile(self, target: str) -> None:
        self.fresh += 1
        compiled = self.workbench.compile(
            self.kernels.reduce, "*fp32 *fp32 i32", {"BLOCK": 256, "TAG": self.fresh},
            target=target, cached=False,
        )  # fmt: skip
        assert compiled.code

    def first_launch(self) -> None:
        self.fresh += 1
        kernel = self.workbench.jit(self.kernels.reduce)
        kernel[(4,)](self.x, self.out, 1000, BLOCK=256, TAG=self.fresh)

    def many_launches(self) -> None:
        kernel = self.workbench.jit(self.kernels.add)
        for _ in range(60):  # beyond where native code takes over
            kernel[(8,)](self.x, self.x, self.out, 1000, BLOCK=128)
        for _ in range(2000):
            self.stays[(8,)](self.x, self.x, self.out, 1000, BLOCK=128)

    def endless(self, programs: int) -> None:
        self.workbench.jit(self.kernels.poll)[(programs,)](self.flag)

    def long(self) -> None:
        self.workbench.jit(self.kernels.count)[(3,)](self.flag, 1 << 40)

    def interpret(self, programs: int) -> None:
        self.workbench.jit(self.kernels.spin).interpret[(programs,)](self.flag)

    def tune(self) -> None:
        kernel = self.workbench.jit(self.kernels.add)
        arguments = (self.x, self.x, self.out, 1000)
        axes = {"BLOCK": [64, 128, 256]}
        self.workbench.tune(kernel, arguments, grid=(16,), axes=axes, seconds=1.0)

    def bench(self) -> None:
        kernel = self.workbench.jit(self.kernels.add)
        arguments = (self.x, self.x, self.out, 1000)
        self.workbench.bench(kernel, args=arguments, grid=(16,), target="cpu", BLOCK=64)

    def check(self) -> None:
        """What must hold after an interrupt."""
        self.out.zero_()
        self.stays[(8,)](self.x, self.x, self.out, 1000, BLOCK=128)
        assert self.torch.equal(self.out, self.x + self.x), "a launch is wrong"
        fresh = self.workbench.jit(self.kernels.add)
        self.fresh += 1
        self.out.zero_()
        fresh[(16,)](self.x, self.out, self.out, 1000, BLOCK=64, TAG=self.fresh)
        assert self.torch.equal(self.out, self.x), "a first launch is wrong"


def jobs(work: Work) -> list[tuple[str, Callable[[], None], float]]:
    """Return (name, work, seconds within which it is interrupted)."""
    return [
        ("compile cpu", lambda: work.compile("cpu"), 0.1),
        ("compile sm_90a", lambda: work.compile("sm_90a"), 0.3),
        ("first launch", work.first_launch, 0.1),
        ("many launches", work.many_launches, 0.1),
        ("endless, one program", lambda: work.endless(1), 0.3),
        ("endless, many programs", lambda: work.endless(9), 0.3),
        ("a long loop", work.long, 0.3),
        ("interpret, one program", lambda: work.interpret(1), 0.2),
        ("interpret, many programs", lambda: work.interpret(5), 0.4),
        ("tune", work.tune, 1.0),
        ("bench", work.bench, 0.5),
    ]


def interrupted(job: Callable[[], None], delay: float) -> tuple[float, int]:
    """Run a job and interrupt it after a while; return how long it took to end, and what was lost.

    Python drops a KeyboardInterrupt that comes within a callback of its collector, and says so; it
    is sent again then.
    """
    sent: list[float] = []
    over = threading.Event()

    def send() -> None:
        time.sleep(delay)
        while not over.is_set():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
            over.wait(AGAIN)

    sender = threading.Thread(target=send)
    end = 0.0
    try:
        sender.start()
        job()
        while not sent:  # it was faster
            time.sleep(0.001)
        end = time.monotonic()
        over.wait(0.2)  # some end quietly, and some are not even reached
    except KeyboardInterrupt:
        end = end or time.monotonic()
    over.set()
    sender.join()
    return max(0.0, end - sent[-1]), len(sent) - 1


def serving() -> None:
    """Answer seeds."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where a shell started us
    work = Work()
    work.check()
    known = jobs(work)

    def answer(case: Case, report: Report) -> Case:
        choose = random.Random(case["seed"])
        times: dict[str, float] = {}
        lost = 0
        chosen = known if case.get("each_job") else [choose.choice(known) for _ in range(EACH)]
        for name, job, most in chosen:
            delay = most * choose.random() ** 2
            report(name)
            try:
                took, again = interrupted(job, delay)
                lost += again
                times[name] = max(times.get(name, 0.0), took)
                work.check()
            except BaseException as error:
                traceback.print_exc()
                return {
                    "stops": True,
                    "failed": f"after {name}, {delay:.4f} s: {error!r}",
                    "times": times,
                }
        return {"times": times, "count": len(chosen), "lost": lost}

    serve(answer)


# -- the run ----------------------------------------------------------------------------------
def run(count: int, state: Path | None) -> dict[str, Any]:
    """Run what is left of so many interrupts; return what is known."""
    known: dict[str, Any] = {
        "seeds": 0,
        "interrupts": 0,
        "failed": [],
        "times": {},
        "over": 0,
        "lost": 0,
    }
    if state is not None and state.exists():
        known = json.loads(state.read_text())
    cases = ({"seed": seed} for seed in range(known["seeds"], -(-count // EACH)))
    for row in answers(COMMAND, cases, PATIENCE):
        known["seeds"] = row["seed"] + 1
        known["interrupts"] += row.get("count", 0)
        known["lost"] += row.get("lost", 0)
        for name, seconds in row.get("times", {}).items():
            known["over"] += seconds > 1.0
            known["times"][name] = max(known["times"].get(name, 0.0), round(seconds, 3))
        if "ended" in row or "failed" in row:
            known["failed"].append([row["seed"], row.get("ended") or row["failed"]])
        if state is not None:
            state.write_text(json.dumps(known))
    return known


def main(words: list[str]) -> int:
    """Run as the command line says; 1 if something failed."""
    state = None
    if "state" in words:
        place = words.index("state")
        state = Path(words[place + 1])
        del words[place : place + 2]
    known = run(int(words[0]) if words else 10_000, state)
    sys.stdout.write(json.dumps(known, indent=1) + "\n")
    return 1 if known["failed"] else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serving()
    else:
        sys.exit(main(sys.argv[1:]))
