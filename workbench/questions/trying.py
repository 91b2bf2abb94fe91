"""A launch tried where it can do no harm, before anything runs unguarded.

The interpreter runs the grid from both ends for some seconds, over the bench's copies: it finds
accesses that leave their arguments, programs that wait for ever, and loops that do not end in the
time that a check may take. What it saw stored says which elements several programs write, and which
nobody does. On a CPU the launch then runs once in checked code, which finds what the compiler did
to addresses and masks.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from typing import Any

import numpy as np

from workbench.bench.guarding import ENDS_THE_RUN, launch_in_time
from workbench.bench.subject import Subject
from workbench.bench.unwritten import described
from workbench.interpreter import Machine
from workbench.interpreter.outside import pointers_of
from workbench.interpreter.program import PATIENCE, late
from workbench.ir import Module, Op, walk
from workbench.ops import For, Load, While, pointee_of
from workbench.ops.atomics import AtomicCompareExchange, AtomicUpdate
from workbench.questions.answers import Answer, op_place
from workbench.questions.choosing import addresses_of, live_addresses
from workbench.questions.running import Bench, Program, Run
from workbench.runtime import guards
from workbench.runtime.faults import from_both_ends
from workbench.source import KernelError, limit_of, refused

#: All programs, and all where they work together.
SECONDS, TOGETHER_SECONDS = 2.0, 10.0
#: Addresses of stores that are written down.
MOST_ADDRESSES = 1 << 23
#: What a launch may not be repeated after, unguarded.
FATAL = (*ENDS_THE_RUN, "K505", "K406")
_ATOMIC = AtomicUpdate | AtomicCompareExchange


@dataclass(slots=True)
class Trial:
    """What the interpreter made of a launch.

    `outputs` are those of the whole grid, None where not all programs ended in time. `several`
    holds the addresses that more than one program stored to, `written` all of them; `seen` says
    whether every store was written down.
    """

    ended: int = 0
    error: KernelError | None = None
    outputs: dict[str, Any] | None = None
    several: np.ndarray[Any, Any] = field(default_factory=lambda: np.empty(0, np.int64))
    written: np.ndarray[Any, Any] = field(default_factory=lambda: np.empty(0, np.int64))
    sizes: frozenset[int] = frozenset()
    seen: bool = True
    atomic: bool = False

    @property
    def together(self) -> bool:
        """Whether what one program leaves in memory is not its own doing alone."""
        return self.atomic or bool(self.several.size)

    def unwritten(self, bench: Bench, name: str) -> np.ndarray[Any, Any] | None:
        """Say of an output which elements no program stores; None where that is not known."""
        held = bench.extent(name)
        if self.outputs is None or not self.seen or held is None or self.sizes - {held[2]}:
            return None
        return ~np.isin(addresses_of(bench, name), self.written)

    def depending(self, run: Run) -> frozenset[int]:
        """Return the numbers of a program's events whose results hang on what others did."""
        found: set[int] = set()
        for event in run.events if self.together else ():
            held = dict(zip(event.op.operands, event.inputs, strict=True))
            from_memory = isinstance(event.op, _ATOMIC) or (
                isinstance(event.op, Load)
                and bool(np.isin(live_addresses(event.op, held), self.written).any())
            )
            if from_memory or found.intersection(event.sources):
                found.add(event.number)
        return frozenset(found)


class _Watch:
    """Hears of every op: what it stores, and whether its program takes too long."""

    def __init__(self) -> None:
        self.stored: dict[Program, list[np.ndarray[Any, Any]]] = {}
        self.sizes: set[int] = set()
        self.room, self.seen = MOST_ADDRESSES, True
        self.started: dict[Program, float] = {}
        self.most_seconds = limit_of("checked")

    def heard(self, op: Op, frame: Any) -> None:
        now = time.monotonic()
        program: Program = frame.program
        took = now - self.started.setdefault(program, now)
        if took > self.most_seconds and frame.rounds <= PATIENCE:
            raise _too_slow(op, frame, took)  # rounds that are many count themselves
        if op.writes_memory and self.seen:
            self._store(op, frame, program)

    def _store(self, op: Op, frame: Any, program: Program) -> None:
        pointers = pointers_of(op)
        if pointers is None:
            self.seen = False
            return
        found = np.unique(live_addresses(op, frame.values))
        self.room -= found.size
        self.seen = self.room >= 0
        self.sizes.add(int(pointee_of(pointers.type).itemsize))
        self.stored.setdefault(program, []).append(found[found >= 0])

    def addresses(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return the addresses stored to, and those that several programs store to."""
        each = [np.unique(np.concatenate(parts)) for parts in self.stored.values()]
        if not each:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        found, counts = np.unique(np.concatenate(each), return_counts=True)
        return found, found[counts > 1]


def _too_slow(op: Op, frame: Any, seconds: float) -> KernelError:
    """Return K406 for a program that takes too long with few rounds, at the loop that it is in."""
    loops = [loop for loop in frame.machine.module.walk() if isinstance(loop, For | While)]
    around = [loop for loop in loops if any(op in walk(region) for region in loop.regions)]
    if around and frame.rounds:
        return late(frame, around[-1], seconds)
    said = (
        f"program {frame.machine.shown_program(frame.number)} has not ended after {seconds:.3g} "
        "seconds in the interpreter"
    )
    return refused("checked", said, int(seconds), op.span)


def tried(bench: Bench, module: Module, grid: Sequence[int]) -> Trial:
    """Run a launch in the interpreter, as far as that takes little time."""
    bench.reset()
    trial = Trial(atomic=any(isinstance(op, _ATOMIC) for op in module.walk()))
    watch, ended = _Watch(), list[Program]()
    end = time.monotonic() + (TOGETHER_SECONDS if trial.atomic else SECONDS)

    def in_time() -> Iterator[Program]:
        for program in from_both_ends(grid):
            if time.monotonic() > end:
                return
            yield program

    with np.errstate(all="ignore"):
        try:
            machine = Machine(module, grid, bench.values(module))
            machine.listener = watch.heard
            if machine.run(in_time(), ended.append) or not prod(grid):
                trial.outputs = bench.outputs()
        except KernelError as error:
            # What the interpreter cannot run is another matter.
            trial.error = error if error.code in FATAL else None
    trial.ended, trial.seen, trial.sizes = len(ended), watch.seen, frozenset(watch.sizes)
    trial.written, trial.several = watch.addresses()
    bench.reset()
    return trial


def guarded(subject: Subject, bench: Bench) -> KernelError | None:
    """Run a launch for the CPU once in checked code, over the bench's copies; say what it found."""
    if subject.target != "cpu" or subject.relaunch is None:
        return None
    bench.reset()
    try:
        with guards.guarding(True):
            launch_in_time(subject, bench.arguments, partial(subject.relaunch, bench.arguments))
    except KernelError as error:
        return error
    finally:
        bench.reset()
    return None


# -- answers --------------------------------------------------------------------------------------
def failing(
    subject: Subject, error: KernelError, *, compiled: bool = False, version: bool = False
) -> Answer:
    """Return the answer for a launch that cannot be run: the source's fault, or the compiler's.

    `version`: it is that of the version which should be right.
    """
    # A loop that takes too long may be right for all that is known.
    unknown = version or error.code == "K406"
    kind = "unknown" if unknown else "lowering" if compiled else "source"
    answer = Answer(subject.name, subject.target, kind)
    answer.sentences.append(f"{error.code}: {error.message}")
    if compiled and kind == "lowering":
        answer.sentences.append(
            f"the code for {subject.target} does so, every pass keeps what the source says, and "
            "that does not: the lowering of an op is wrong"
        )
    elif version:
        answer.sentences.append(
            f"this is {subject.name}, the version that should be right: nothing was compared"
        )
    else:
        answer.sentences.append("the launch itself goes wrong, so no results were compared")
    if error.span is not None:
        here = [op for op in subject.module.walk() if op.span == error.span]
        named = next((op for op in here if pointers_of(op) is not None), None)
        named = named or next(iter(here), None)
        if named is not None:
            answer.op = op_place(named, subject.module)
    answer.notes += [str(getattr(note, "text", note)) for note in error.notes]
    answer.notes += [error.hint] if error.hint else []
    return answer


def poisoned(subject: Subject, bench: Bench, trial: Trial, said: str) -> list[str]:
    """Let outputs that are written whole hold nothing right at first; return what is to be told.

    `said` is the reference: what it names must hold what the user gave.
    """
    words, notes = set(re.findall(r"\w+", said)), list[str]()
    for name in bench.names:
        shown = subject.spelled(name)
        if subject.roles.get(name) != "out":
            notes.append(f"{shown} is written in place: the launch starts from what it holds now")
            continue
        left = trial.unwritten(bench, name)
        if left is not None and not left.any() and not words & {name, shown}:
            bench.poison(name)
    return notes


def unwritten(subject: Subject, bench: Bench, trial: Trial, said: str) -> Answer | None:
    """Return the answer for elements that no program stores, and that were right before."""
    words = set(re.findall(r"\w+", said))
    for name in bench.names:
        left, shown = trial.unwritten(bench, name), subject.spelled(name)
        if subject.roles.get(name) != "out" or left is None or not left.any():
            continue
        if words & {name, shown}:
            continue
        answer = Answer(subject.name, subject.target, "source")
        answer.sentences.append(described(shown, left))
        stores = [op for op in subject.module.walk() if op.writes_memory]
        if stores:
            answer.op = op_place(stores[-1], subject.module)
        answer.notes.append("is the mask of the store off there, or the grid too small?")
        return answer
    return None


def untellable(subject: Subject, notes: Sequence[str]) -> Answer:
    """Return the answer where programs work together and no op of one of them is shown wrong."""
    answer = Answer(subject.name, subject.target, "unknown", notes=[*notes])
    answer.sentences.append(
        f"several programs of {subject.name} make the same elements together, and the whole grid "
        f"was not seen to go wrong at an op: whether {subject.target} or the source is wrong "
        "cannot be told"
    )
    answer.notes.append("a smaller grid, or --target interpreter, may say more")
    return answer
