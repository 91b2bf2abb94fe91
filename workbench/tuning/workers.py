"""Compiling many kernels at once, in other processes.

Workers are a program of their own (`worker.py`), so neither a script's main module nor a notebook
is run again in them. They stay for later searches and end with this process. What cannot be sent to
them is compiled here, one after the other.
"""

from __future__ import annotations

import atexit
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.interrupts import may_stop, renewed_lock, stop_here
from workbench.language.versions import redirected
from workbench.launch.index_width import fits_launch
from workbench.runtime import compiling, shipping
from workbench.runtime.compiled import CompiledKernel
from workbench.runtime.jit import Plan
from workbench.source import KernelError, ToolError
from workbench.source.given import from_environment
from workbench.tuning.worker import Answer, Job, answer, receive, send

#: The most that one kernel may take in ptxas, in seconds.
ASSEMBLER_SECONDS = 60.0
#: What a worker may take beyond that before it is ended.
GRACE_SECONDS = 60.0
#: How often who waits for workers looks whether it was interrupted, in seconds.
LOOK_SECONDS = 0.05
#: Below this many kernels, starting processes costs more than it brings.
LEAST_JOBS = 4
MOST_WORKERS = 16


@dataclass(slots=True)
class Outcome:
    """What came of one kernel: the kernel, or the reason in one line why there is none."""

    kernel: CompiledKernel | None = None
    error: KernelError | None = None
    reason: str = ""
    pruned: bool = False
    seconds: float = 0.0
    seen: Any = None


Told = Callable[[int, Outcome], object]
Look = Callable[..., Any]


class Worker:
    """One process that compiles."""

    def __init__(self) -> None:
        #: Whether `import triton` gives our modules there, and under which version.
        self.redirected = redirected()
        environment = shipping.environment()
        environment["WORKBENCH_CACHE_DIR"] = ""  # this process stores what comes back
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from workbench.tuning.worker import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,  # Ctrl-C is for this process; it ends the workers itself
        )
        self.pid = os.getpid()

    def do(self, job: bytes, seconds: float) -> Answer | None:
        """Return the answer to a job, None if the worker ended or was ended before."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        clock = threading.Timer(seconds, process.kill)
        clock.daemon = True
        clock.start()
        try:
            send(process.stdin, job)
            data = receive(process.stdout)
            return None if data is None else pickle.loads(data)
        except (OSError, EOFError, ValueError, pickle.UnpicklingError):
            return None
        finally:
            clock.cancel()

    @property
    def has_retired(self) -> bool:
        """Whether it ended by itself, for want of jobs."""
        try:
            return self._process.wait(timeout=1) == 0
        except subprocess.TimeoutExpired:
            return False

    @property
    def alive(self) -> bool:
        """Whether it can take jobs (of this process: a fork has its parent's pipes)."""
        return self.pid == os.getpid() and self._process.poll() is None

    def end(self) -> None:
        """End the process."""
        if self.pid == os.getpid():
            self._process.kill()
            self._process.wait()


_idle: list[Worker] = []
_lock = renewed_lock()


def _take() -> Worker:
    with _lock:
        while _idle:
            worker = _idle.pop()
            if worker.alive and worker.redirected == redirected():
                return worker
            worker.end()
    return Worker()


def _give_back(worker: Worker) -> None:
    with _lock:
        _idle.append(worker)


def start(count: int) -> None:
    """Have so many workers begin, where there are fewer; they are ready when jobs come."""
    with _lock:
        _idle.extend(Worker() for _ in range(count - len(_idle)))


@atexit.register
def end_all() -> None:
    """End all idle workers."""
    with _lock:
        for worker in _idle:
            worker.end()
        _idle.clear()


def worker_count(jobs: int) -> int:
    """Return how many processes are worth while; 0: compile here."""
    chosen = from_environment("WORKBENCH_WORKERS", 0)
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        cores = os.cpu_count() or 1
    if chosen is not None:
        return min(chosen, jobs)
    if jobs < LEAST_JOBS and not _idle:
        return 0
    return min(cores, jobs, MOST_WORKERS) if cores > 1 else 0


class Compilation:
    """Compiles the kernels of several launches; outcomes come in as they are ready.

    KeyboardInterrupt ends it and leaves what has not been compiled without an outcome.
    """

    def __init__(
        self,
        plans: Sequence[Plan | None],
        told: Told,
        *,
        prune: bool,
        seconds: float | None,
        look: Look | None = None,
    ) -> None:
        self._plans = plans
        self._told = told
        self._prune = prune
        self._look = look
        self._end = None if seconds is None else time.monotonic() + seconds
        self._jobs: deque[tuple[int, bytes]] = deque()
        self._done: queue.SimpleQueue[tuple[int, Answer | None, float]] = queue.SimpleQueue()
        self._busy: set[Worker] = set()
        self._stopped = False

    def run(self) -> None:
        """Compile everything; what another process cannot take is compiled here."""
        waiting: list[tuple[int, bytes]] = []
        here: list[int] = []
        for number, plan in enumerate(self._plans):
            if plan is None:
                continue
            found = None if self._look is not None else self._known(plan)
            if found is not None:
                self._told(number, Outcome(found))
                continue
            try:
                waiting.append((number, shipping.dumps(self._job(plan))))
            except shipping.ShippingError:
                here.append(number)
        count = worker_count(len(waiting))
        if count and self._look is not None:
            # Who looks wants to see something at once: the first is done here while others begin.
            start(count)
            self._compile_here(waiting.pop(0)[0])
        if count:
            here += self._in_workers(waiting, count)
        else:
            here = sorted(here + [number for number, _ in waiting])
        for number in here:
            if self._is_late():
                self._told(number, Outcome(reason="no time left"))
            else:
                self._compile_here(number)

    def _job(self, plan: Plan) -> Job:
        on_gpu = plan.target != "interpreter"
        return Job(
            plan.source,
            plan.signature,
            plan.target,
            plan.integers if on_gpu else None,
            plan.grid if on_gpu else None,
            self._prune,
            ASSEMBLER_SECONDS,
            self._look,
        )

    def _known(self, plan: Plan) -> CompiledKernel | None:
        return compiling.known(
            plan.source, plan.signature, plan.target, plan.captured, self._fits(plan)
        )

    def _fits(self, plan: Plan) -> Any:
        if plan.target == "interpreter":
            return None
        grid = plan.grid
        if grid is None:
            return None
        return lambda program: fits_launch(program, integers=plan.integers, grid=grid)

    def _is_late(self) -> bool:
        return self._end is not None and time.monotonic() > self._end

    # -- in other processes ---------------------------------------------------------------
    def _in_workers(self, waiting: list[tuple[int, bytes]], count: int) -> list[int]:
        """Have workers do the jobs; returns those that are to be done here after all."""
        self._jobs.extend(waiting)
        # Values of axes ascend, so what takes longest lies at the end of a map: half of the workers
        # begin there, lest one be left with it when the others are done.
        takes = (self._jobs.popleft, self._jobs.pop if self._look else self._jobs.popleft)
        threads = [
            threading.Thread(target=self._serve, args=(takes[number % 2],), daemon=True)
            for number in range(count)
        ]
        for thread in threads:
            thread.start()
        here: list[int] = []
        try:
            for _ in waiting:
                self._take_over(*self._next(), here)
        except BaseException:
            self._stopped = True
            while not self._done.empty():
                self._take_over(*self._done.get(), here)
            for worker in list(self._busy):
                worker.end()
            raise
        for thread in threads:  # they have only their workers to give back
            thread.join()
        return here

    def _next(self) -> tuple[int, Answer | None, float]:
        while True:
            stop_here()
            try:
                return self._done.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                continue

    def _take_over(
        self, number: int, found: Answer | None, seconds: float, here: list[int]
    ) -> None:
        if found is not None and found.unable:
            here.append(number)
        else:
            self._told(number, self._outcome(number, found, seconds))

    def _serve(self, take: Callable[[], tuple[int, bytes]]) -> None:
        """Feed one worker until no job is left; runs in a thread of its own."""
        worker: Worker | None = None
        while not self._stopped:
            try:
                number, job = take()
            except IndexError:
                break
            if self._is_late():
                self._done.put((number, Answer(pruned="no time left"), 0.0))
                continue
            if worker is None or not worker.alive:
                worker = _take()
            start = time.monotonic()
            try:
                found, worker = self._do(worker, job)
            except Exception as error:  # whatever it is, this thread has to answer
                found = Answer(unable=one_line(error))
            self._done.put((number, found, time.monotonic() - start))
        if worker is not None and worker.alive and not self._stopped:
            _give_back(worker)

    def _do(self, worker: Worker, job: bytes) -> tuple[Answer | None, Worker]:
        """Return the answer to a job; one that retired before it is replaced."""
        for _ in range(2):
            self._busy.add(worker)
            found = worker.do(job, ASSEMBLER_SECONDS + GRACE_SECONDS)
            self._busy.discard(worker)
            if found is not None or self._stopped or not worker.has_retired:
                return found, worker
            worker = Worker()
        return None, worker

    def _outcome(self, number: int, found: Answer | None, seconds: float) -> Outcome:
        if found is None:
            error = ToolError("the process that compiled it ended", code="K414")
            return Outcome(error=error, reason=one_line(error), seconds=seconds)
        if found.pruned:
            return Outcome(reason=found.pruned, pruned=True, seconds=seconds)
        if found.error is not None:
            return Outcome(error=found.error, reason=one_line(found.error), seconds=seconds)
        plan = self._plans[number]
        assert plan is not None
        program = None if found.index_program is None else pickle.loads(found.index_program)
        kernel = compiling.adopt(
            plan.source,
            plan.signature,
            plan.target,
            plan.captured,
            launch=found.launch,
            code=found.code,
            index_program=program,
            tools=found.tools,
            chosen=plan.target != "interpreter",
        )
        return Outcome(kernel, seconds=seconds, seen=found.seen)

    # -- in this process ------------------------------------------------------------------
    def _compile_here(self, number: int) -> None:
        plan = self._plans[number]
        assert plan is not None
        start = time.monotonic()
        with may_stop():
            found = answer(self._job(plan))
        seconds = time.monotonic() - start
        if found.pruned or found.error is not None:
            self._told(number, self._outcome(number, found, seconds))
            return
        kernel = None if self._look is not None else self._known(plan)
        self._told(number, Outcome(kernel, seconds=seconds, seen=found.seen))


def compile_all(
    plans: Sequence[Plan | None],
    told: Told,
    *,
    prune: bool = True,
    seconds: float | None = None,
    look: Look | None = None,
) -> None:
    """Compile the kernels of several launches, in as many processes as pay.

    Args:
        plans: the launches; None for one that has nothing to compile.
        told: called with the number of a launch and its outcome, in the order of completion.
        prune: leave out what the resource model refuses.
        seconds: what has not begun by then is left out.
        look: called with each compiled kernel, its integers and its grid where it was compiled;
            what it gives, plain data, is `Outcome.seen`. What is known is compiled again for it.
    """
    Compilation(plans, told, prune=prune, seconds=seconds, look=look).run()


def one_line(error: BaseException) -> str:
    """Return what went wrong in one line."""
    message = getattr(error, "message", None) or str(error) or type(error).__name__
    code = getattr(error, "code", None)
    line = " ".join(str(message).split())
    return f"{code}: {line}" if code else line
