"""`--guard` and `--isolate`: launches that may go wrong without taking the notebook with them.

A guarded launch runs in the interpreter first, watched, over copies of its arguments: what is found
is an error with its place, and nothing was launched. A long grid is searched from both ends for
some seconds; a program that is in a loop then may go on as long as one that is checked. An isolated
launch runs in a process of its own (`runtime/isolated.py`). What is launched on the CPU to answer a
question ends by itself (`launch_in_time`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from workbench.bench.arrays import host_copies, is_array, storage_bytes, to_host
from workbench.bench.subject import Subject
from workbench.devices.stops import ended_after
from workbench.interpreter import Finding, Machine, Report, error_of, grouped, said_of
from workbench.ops import For, While
from workbench.runtime import isolated
from workbench.runtime.faults import from_both_ends, locate
from workbench.source import KernelError, LaunchError, Note, ResourceError, limit_of, refused

#: A guard ends its search after this long.
SECONDS = 10.0
#: A check spends no more than this on looking for races; nor does it copy more than this.
CHECK_SECONDS = 2.0
CHECK_BYTES = 1 << 28
#: How long the interpreter looks for the loop of a launch that does not end.
LATE_SECONDS = 5.0
#: What a watched run that goes wrong raises.
ENDS_THE_RUN = ("K502", "K510", "K515")


@dataclass(frozen=True, slots=True)
class Watched:
    """What a watched run found: of `total` programs `ran` were run in the time given.

    `late` names the loop in which a program was when it had taken all that it may.
    """

    ran: int
    total: int
    findings: tuple[Finding, ...] = ()
    late: KernelError | None = None

    def error(self) -> LaunchError | None:
        """Return the findings that are errors, None if there are none."""
        return error_of(self.findings)

    def remarks(self, report: Report) -> list[str]:
        """Return the findings that are not raised, in one line each."""
        return [
            f"{found[0].message}, program {found[0].program}, line {place.line}"
            if (place := found[0].span) is not None
            else said_of(found).message
            for found in grouped(self.findings)
            if report == "remark" or found[0].severity == "remark"
        ]


def watch(subject: Subject, seconds: float, most_seconds: float | None = None) -> Watched:
    """Run a launch in the interpreter, over copies of its arguments, and watch it.

    After so many seconds no program is begun; the loops of one may take `most_seconds`, which are
    as many if it is None.

    Raises:
        LaunchError: what ends the run: an access that leaves its argument (K502), programs that
            wait for ever (K515), an assertion that fails (K510).
    """
    names = {**subject.constants, **host_copies(subject.arguments)}
    arguments = [_value(names, parameter.name) for parameter in subject.module.parameters]
    machine = Machine(subject.module, subject.grid, arguments, watch=True)
    machine.most_seconds = seconds if most_seconds is None else most_seconds
    ended: list[tuple[int, ...]] = []
    late: KernelError | None = None
    end = time.monotonic() + seconds

    def in_time() -> Iterator[tuple[int, int, int]]:
        for program in from_both_ends(subject.grid):
            if time.monotonic() > end:
                return
            yield program

    try:
        machine.run(in_time(), ended.append)
    except ResourceError as error:
        if error.code != "K406":
            raise
        late = error
    return Watched(len(ended), prod(subject.grid), tuple(machine.recording.findings), late)


def guard(subject: Subject, seconds: float = SECONDS, report: Report = "error") -> Watched:
    """Watch a launch in the interpreter first.

    Raises:
        LaunchError: with the place of what was found, unless `report` makes remarks of it; what
            ends the run (see `watch`) is an error in any case.
        ResourceError: K406 at a loop that takes longer than a check may.
    """
    try:
        watched = watch(subject, seconds, limit_of("checked"))
        error = watched.late or (watched.error() if report == "error" else None)
        if error is not None:
            raise error
    except (LaunchError, ResourceError) as error:
        said = Note("found by --guard; nothing was launched")
        error.notes = (*error.notes[:2], said, *error.notes[2:])
        raise
    return watched


def watch_checked(subject: Subject) -> Watched:
    """Watch a launch that is checked, as far as that takes little time and memory.

    A kernel that the interpreter cannot run is not watched. Raises LaunchError as `watch` does.
    """
    nothing = Watched(0, prod(subject.grid))
    if storage_bytes(subject.arguments.values()) > CHECK_BYTES:
        return nothing
    try:
        return watch(subject, CHECK_SECONDS)
    except KernelError as error:
        if error.code in ENDS_THE_RUN:
            raise
        return nothing


def launch_in_time(
    subject: Subject, arguments: Mapping[str, Any], launch: Callable[[], object]
) -> None:
    """Launch what a subject says; on the CPU it ends after as long as a check may take.

    `arguments` are those from before the launch, by parameter. Raises ResourceError K406 where it
    was ended, at the loop that goes round for ever as far as the interpreter finds it.
    """
    if subject.target != "cpu":
        launch()
        return
    seconds = limit_of("checked")
    with ended_after(seconds) as ended:
        launch()
    if ended():
        raise _ended(subject, arguments, seconds)


def _ended(subject: Subject, arguments: Mapping[str, Any], seconds: int) -> ResourceError:
    said = (
        f"the launch of {subject.name} on the CPU was ended after {seconds:,} seconds, its results "
        "are void: a loop goes round for ever, or too long"
    )
    late = watch_late(replace(subject, arguments=arguments))
    if late is not None:
        error = refused("checked", said, seconds, late.span)
        seen = Note(late.message)
        state = [note for note in late.notes if isinstance(note, Note) and note.span is not None]
        error.notes = (seen, *state, *error.notes)
        return error
    ops = list(subject.module.walk())
    # Which one it is, nobody knows: one without a known end, if there is one.
    loop = next((op for kind in (While, For) for op in ops if isinstance(op, kind)), None)
    return refused("checked", said, seconds, loop and loop.span)


def watch_late(subject: Subject) -> KernelError | None:
    """Return the loop in which a program of a launch was when its time was over, as K406.

    None: the interpreter found none in the time given, or nothing of it.
    """
    try:
        return watch(subject, LATE_SECONDS).late
    except KernelError:
        return None


def _value(names: dict[str, object], name: str) -> object:
    """Return the value of a parameter, or of a part of a tuple (`name.0`)."""
    first, *places = name.split(".")
    value: object = names[first]
    for place in places:
        value = value[int(place)]  # type: ignore[index]
    return value


def launch_isolated(kernel: object, subject: Subject) -> None:
    """Launch in a child process; the arrays hold the results afterwards.

    Raises:
        LaunchError: what the child reported, or K511 where it ended.
    """
    arguments = {name: to_host(value) for name, value in subject.arguments.items()}
    try:
        results = isolated.run(
            kernel, subject.grid, arguments, subject.settings, gpu=subject.gpu,
            outputs=subject.outputs,
        )  # fmt: skip
    except LaunchError as error:
        if error.code not in ("K511", "K502"):
            raise
        values = {**subject.constants, **subject.arguments}
        raise locate(subject.compiled, subject.grid, values, error) from None
    for name, result in results.items():
        array = subject.arguments[name]
        if hasattr(array, "copy_"):
            array.copy_(result)
        elif is_array(array):
            array[...] = result
