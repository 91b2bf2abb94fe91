"""`--guard` and `--isolate`: launches that may go wrong without taking the notebook with them.

A guarded launch runs in the interpreter first, over copies of its arguments: an access outside of
every argument is an error with its place, and nothing was launched. A long grid is searched from
both ends for some seconds. An isolated launch runs in a process of its own (`runtime/isolated.py`).
"""

from __future__ import annotations

import time
from math import prod

from workbench.bench.arrays import clone, is_array, to_host
from workbench.bench.subject import Subject
from workbench.interpreter import Machine
from workbench.runtime import isolated
from workbench.runtime.faults import from_both_ends, locate
from workbench.source import LaunchError, Note

#: A guard ends its search after this long.
SECONDS = 10.0


def guard(subject: Subject, seconds: float = SECONDS) -> tuple[int, int]:
    """Run a launch in the interpreter first; returns how many of how many programs ran.

    Raises:
        LaunchError: K502 with the place of an access that lies outside of every argument.
    """
    values = {name: to_host(clone(value)) for name, value in subject.arguments.items()}
    names = {**subject.constants, **values}
    arguments = [_value(names, parameter.name) for parameter in subject.module.parameters]
    machine = Machine(subject.module, subject.grid, arguments)
    total, ran = prod(subject.grid), 0
    end = time.monotonic() + seconds
    for program in from_both_ends(subject.grid):
        if time.monotonic() > end:
            break
        try:
            machine.run_program(program)
        except LaunchError as error:
            error.notes = (*error.notes, Note("found by --guard; nothing was launched"))
            raise
        ran += 1
    return ran, total


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
