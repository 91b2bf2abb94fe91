"""What is said of programs that wait for ever: who waits, at which line, for what."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.interpreter.run import Run
from workbench.interpreter.waiting import MOST_WAITING, Waiting
from workbench.ir import Op
from workbench.source import LaunchError, Note, Span

#: Places that are named; an error shows no more.
_MOST_PLACES = 3


def deadlock(machine: Run, waiting: Sequence[Waiting], *, full: bool) -> LaunchError:
    """Return LaunchError K515 for programs that wait, and nobody who could end that.

    `full`: there are programs left to start, but so many wait that a GPU would start none of them.
    """
    places: dict[tuple[int, int], list[Waiting]] = {}
    for one in sorted(waiting, key=lambda w: w.frame.number):
        assert one.loop is not None
        place = _place(one)
        address = next((step.address for step, _ in one.reads if step.op is place), 0)
        places.setdefault((place.id, address), []).append(one)
    notes = [Note(_said(machine, found), _place(found[0]).span) for found in places.values()]
    count = len(waiting)
    if full:
        message = f"{MOST_WAITING} programs wait for ones that have not started: a deadlock"
        hint = "launch no more programs than fit on the device, or let none wait for a later one"
    elif not any(one.reads for one in waiting):
        message = "a loop never ends: nothing that decides it changes"
        hint = "change a value in the loop on which its condition depends"
    else:
        programs = "a program waits" if count == 1 else f"{count} programs wait"
        message = f"{programs} for what no program that runs will write: a deadlock"
        hint = (
            "write what is waited for in a program that does not wait itself; release a lock on "
            "every path, and take it once"
        )
    first = next(iter(places.values()))[0]
    return LaunchError(
        message, _place(first).span, code="K515", notes=notes[:_MOST_PLACES], hint=hint
    )


def _place(waiting: Waiting) -> Op:
    """Return the op that reads what is waited for, the loop where nothing is read."""
    assert waiting.loop is not None
    decisive = waiting.frame.machine.exit_of(waiting.loop).reads
    for step, _ in waiting.reads:
        if step.op in decisive:
            return step.op
    return waiting.loop


def _said(machine: Run, found: Sequence[Waiting]) -> str:
    programs = [str(machine.shown_program(one.frame.number)) for one in found[:2]]
    more = f" and {len(found) - 2} more" if len(found) > 2 else ""
    first = found[0]
    many = len(found) > 1
    who = f"{'programs' if many else 'program'} {', '.join(programs)}{more}"
    place = _place(first)
    for step, bits in first.reads:
        if step.op is place:
            what = machine.shown_place(step.address)
            value = bits[0] if bits.size else "unknown"
            last = _last(machine, step.address)
            return f"{who} wait{'' if many else 's'} for {what}, which is {value}{last}"
    return f"{who} {'go' if many else 'goes'} round for ever"


def _last(machine: Run, address: int) -> str:
    """Say who wrote last what is waited for, where that was watched."""
    watcher = machine.watcher
    written = watcher.last_written(address) if watcher is not None else None
    if written is None:
        return ""
    program, span = written
    line = f" in line {span.line}" if isinstance(span, Span) else ""
    return f" since program {machine.shown_program(program)} wrote it{line}"
