"""What a learner calls: `show`, `check`, `record` and `answer`."""

from __future__ import annotations

import secrets
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass
from reprlib import Repr
from types import SimpleNamespace
from typing import Any
from zlib import crc32

from workbench import language
from workbench.puzzles.answering import is_right
from workbench.puzzles.collection import PUZZLES
from workbench.puzzles.judging import judge
from workbench.puzzles.pictures import touched_svg
from workbench.puzzles.puzzle import Puzzle
from workbench.puzzles.trial import CHIP, Attempt, Trial
from workbench.puzzles.verdict import Picture, Shown, Verdict
from workbench.runtime.jit import jit
from workbench.source import KernelError, OptionError, register_text

#: Rows of a record.
_ROWS = 60
#: How answers are repeated: long ones in part, whatever they are.
_WORDS = Repr()
_WORDS.maxstring = _WORDS.maxother = 80


@dataclass(slots=True)
class Standing:
    """How far this process is with one puzzle."""

    attempts: int = 0
    solved: bool = False
    answered: bool = False
    reason: str = ""
    trial: Trial | None = None


class _State:
    """What this process remembers; `seed` None: every check draws another one."""

    def __init__(self) -> None:
        self.seed: int | None = None
        self.standings: defaultdict[int, Standing] = defaultdict(Standing)


_state = _State()


def begin(seed: int | None = None) -> None:
    """Forget what was solved; from now on all checks use this seed (None: drawn each time)."""
    _state.seed = seed
    _state.standings.clear()


def standings() -> dict[int, Standing]:
    """Return how far this process is, by puzzle."""
    return dict(_state.standings)


def puzzle_of(number: int) -> Puzzle:
    """Return a puzzle; raises OptionError K620 for a number that none has."""
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= len(PUZZLES):
        raise OptionError(f"there is no puzzle {number!r}", code="K620",
                          hint=f"puzzles are numbered from 1 to {len(PUZZLES)}")  # fmt: skip
    return PUZZLES[number - 1]


def show(number: int) -> Picture:
    """Return the picture of what the programs of a right kernel touch, in the shown launch."""
    puzzle = puzzle_of(number)
    trial = Trial(puzzle, puzzle.shown, Attempt(kernel_of(puzzle)), 0)
    return Picture(f"puzzle {number}: {puzzle.signature}", touched_svg(trial))


def check(
    number: int, kernel: Any, *, grid: Any = None, seed: int | None = None, **constants: Any
) -> Verdict:
    """Check a kernel against a puzzle: launch it for the shown sizes and for hidden ones.

    Args:
        number: of the puzzle.
        kernel: a function under `@wb.jit` with the parameters that the puzzle states.
        grid: programs along each axis where they are not to be the puzzle's: integers, or a
            function whose parameters name sizes and constexprs.
        seed: what inputs and hidden sizes follow from; another one each time if None.
        constants: constexprs of the kernel's own, or other values for the puzzle's.

    Raises:
        OptionError: K620, there is no such puzzle. What is wrong with the kernel is in the verdict.
    """
    puzzle = puzzle_of(number)
    standing = _state.standings[number]
    standing.attempts += 1
    if _state.seed is not None:
        seed = _state.seed
    elif seed is None:
        seed = secrets.randbits(32)
    found = judge(puzzle, Attempt(kernel, grid, constants), seed)
    verdict = Verdict(puzzle, found, standing.attempts)
    if found.accepted:
        assert found.trial is not None
        standing.solved, standing.trial, standing.reason = True, found.trial, ""
        with suppress(KernelError):  # who asks for what a GPU would get is told why not
            found.trial.compiled(CHIP)  # for %access, %gpu and the others
    elif not standing.solved:
        standing.reason = verdict.text
    return verdict


def answer(number: int, *values: Any) -> Shown:
    """Answer a puzzle's question about the latest kernel that solved it.

    Without values it says what the question is. A wrong answer is told where to look. Raises
    OptionError K620 where there is no such puzzle, or this process has not solved it.
    """
    puzzle, trial = puzzle_of(number), _trial(number)
    question, standing = puzzle.question, _state.standings[number]
    values = tuple(value for value in values if value is not None and value is not ...)
    where = f"where to look: {question.where}"
    if not values:
        return Shown(f"{question.text}\nthe answer is {question.form}\n{where}")
    right = is_right(question.right(trial), values)
    standing.answered = standing.answered or right  # as who has solved it once has solved it
    data = {"puzzle": number, "solved": True, "answered": right, "attempt": standing.attempts}
    if right:
        return Shown(f"puzzle {number}: right, so it is in your kernel ✓", data=data)
    said = ", ".join(map(_WORDS.repr, values))
    text = f"puzzle {number}: {said} is not what your kernel's trace says.\n{question.text}\n"
    return Shown(f"{text}the answer is {question.form}\n{where}", data=data)


def record(number: int, array: str | None = None, element: int | None = None) -> Shown:
    """List the accesses of the kernel that solved a puzzle, in the shown launch.

    With an array's name and an element, counted in memory from the first one: who touches it.
    Raises OptionError K620 as `answer` does.
    """
    puzzle_of(number)
    trial = _trial(number)
    if array is not None and array not in trial.data:
        raise OptionError(f"puzzle {number} has no array '{array}'", code="K620",
                          hint=f"its arrays are {', '.join(trial.data)}")  # fmt: skip
    rows: dict[tuple[Any, ...], Counter[str]] = {}
    names = {a.op: a.argument for a in trial.accesses if a.argument}
    for access in trial.accesses:
        name = names.get(access.op, "")
        if array not in (None, name):
            continue
        if element is not None and not (access.live and access.element == element):
            continue
        op = trial.ops[access.op]
        line = op.span.line if op.span is not None else 0
        does = "atomic" if "atomic" in op.name else "store" if access.write else "load"
        if does == "atomic" and not access.write:
            continue
        key = line, does, name, trial.program(access.program)
        count = rows.setdefault(key, Counter())
        count["on" if access.live else "off"] += 1
    return Shown(_table(trial, rows))


def _table(trial: Trial, rows: dict[tuple[Any, ...], Counter[str]]) -> str:
    head = ("line", "access", "array", "program", "lanes on", "lanes off", "bytes")
    table: list[tuple[str, ...]] = [head]
    for (line, does, name, program), count in rows.items():
        size = trial.data[name].values.itemsize if name else 0
        shown = str(program[0]) if len(program) == 1 else str(program)
        lanes = str(count["on"]), str(count["off"]), str(count["on"] * size)
        table.append((str(line), does, name, shown, *lanes))
    cut = len(table) - 1 - _ROWS
    widths = [max(len(row[n]) for row in table) for n in range(len(head))]
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table[: _ROWS + 1]
    ]
    if cut > 0:
        lines.append(f"… {cut} more rows")
    by_access: defaultdict[tuple[int, str, str], Counter[str]] = defaultdict(Counter)
    for (line, does, name, _), count in rows.items():
        by_access[line, does, name] += count
    for (line, does, name), count in by_access.items() if cut > 0 else ():
        size = trial.data[name].values.itemsize if name else 0
        lines.append(
            f"line {line}, {does} {name}, all programs: {count['on']} lanes on, {count['off']} off,"
            f" {count['on'] * size} bytes"
        )
    return "\n".join([f"{trial.puzzle.name}, {trial.case}", *lines])


def _trial(number: int) -> Trial:
    trial = _state.standings[number].trial
    if trial is None:
        raise OptionError(
            f"puzzle {number} is not solved yet", code="K620",
            hint=f"puzzles.check({number}, {PUZZLES[number - 1].name}) comes first",
        )  # fmt: skip
    return trial


def kernel_of(puzzle: Puzzle, text: str | None = None) -> Any:
    """Return the kernel that a text defines; the puzzle's solution if there is none."""
    text = puzzle.solution if text is None else text
    file = f"<puzzle {puzzle.number}: {crc32(text.encode()):x}>"
    register_text(file, text)
    names: dict[str, Any] = {"wb": SimpleNamespace(jit=jit), "tl": language}
    exec(compile(text, file, "exec"), names)
    return names[puzzle.name]
