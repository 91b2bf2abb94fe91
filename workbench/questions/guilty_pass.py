"""Which pass changed what a program computes: each pass's IR has a meaning, so try some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.passes.manager import PassRecord
from workbench.questions.aligning import Parting, by_id, first_parting
from workbench.questions.choosing import outputs_differ
from workbench.questions.running import Bench, Program, Run

#: How much longer the interpreter may take with what a pass left of a program.
SLOWER = 10


@dataclass(frozen=True, slots=True)
class GuiltyPass:
    """A pass whose IR computes something else than the IR before it, and where.

    `rule` is the rewrite rule that was applied there, if it was one; `tried` counts the runs.
    """

    record: PassRecord
    parting: Parting | None
    rule: str
    right: Run
    wrong: Run
    tried: int


def find_pass(
    bench: Bench, grid: Sequence[int], program: Program, records: Sequence[PassRecord], right: Run
) -> GuiltyPass | None:
    """Return the pass after which a program's outputs are others, None if they stay to the end.

    The modules between are tried by halves: before the one, they are right, after it wrong.
    """
    steps = [record for record in records if record.changed]
    if not steps:
        return None
    tried = 0

    def wrong_after(number: int) -> bool:
        nonlocal tried
        tried += 1
        return is_wrong(bench, right, bench.run(steps[number].after, grid, program))

    low, high = -1, len(steps) - 1
    if not wrong_after(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if wrong_after(middle) else (middle, high)
    record = steps[high]
    before = bench.run(record.before, grid, program, keep=True)
    after = bench.run(record.after, grid, program, keep=True)
    parting = first_parting(before, after, by_id(record.before, record.after))
    return GuiltyPass(record, parting, _rule(record, parting), before, after, tried)


def is_wrong(bench: Bench, right: Run, other: Run) -> bool:
    """Say whether a run ended otherwise than the right one.

    That its loops took too long shows something only where the right one's took far less, and
    nothing where the right one's did.
    """
    if right.error is not None and right.error.code == "K406":
        return False
    if other.error is not None and other.error.code == "K406":
        return right.error is None and SLOWER * right.seconds < other.seconds
    if other.error is not None or right.error is not None:
        return (other.error is None) != (right.error is None)
    return bool(outputs_differ(bench, right.outputs, other.outputs))


def _rule(record: PassRecord, parting: Parting | None) -> str:
    """Return the rule that made what differs, "" if no rule did."""
    if parting is None:
        return ""
    ops = [event.op for event in (parting.right, parting.wrong) if event is not None]
    numbers = {op.id for op in ops} | {number for op in ops for number in op.origins}
    for rule, number in record.rules:
        if number in numbers:
            return f"{rule.name} ({rule.identity})"
    return ""
