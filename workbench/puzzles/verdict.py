"""What a learner sees: words and a picture, in a notebook and as text."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

from workbench.puzzles.judging import Judgement
from workbench.puzzles.pictures import touched_svg, wrong_svg
from workbench.puzzles.puzzle import Puzzle
from workbench.source import KernelError

#: What a saved notebook says of an attempt, for who collects results.
MIME = "application/vnd.workbench.puzzle+json"


@dataclass(frozen=True, slots=True)
class Shown:
    """Words with a picture, and what programs read of them."""

    text: str
    svg: str = ""
    data: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from workbench.viewer.styles import SENTENCES

        words = f'<pre style="{SENTENCES}">{html.escape(self.text)}</pre>' if self.text else ""
        found: dict[str, Any] = {"text/plain": self.text, "text/html": words + self.svg}
        if self.data is not None:
            found[MIME] = self.data
        return found


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture alone, in the type that pages of repositories show too."""

    text: str
    svg: str

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": self.text, "image/svg+xml": self.svg}


class Verdict:
    """The answer to `check`.

    Attributes:
        puzzle: which one.
        accepted: whether the kernel solves it.
        judgement: what was found.
        attempt: how many checks of this puzzle this process has seen, this one included.
    """

    def __init__(self, puzzle: Puzzle, judgement: Judgement, attempt: int) -> None:
        self.puzzle = puzzle
        self.judgement = judgement
        self.attempt = attempt
        self.accepted = judgement.accepted

    @property
    def error(self) -> KernelError | None:
        """Why it is refused."""
        return self.judgement.error

    @property
    def text(self) -> str:
        """The verdict in words."""
        puzzle, found = self.puzzle, self.judgement
        head = f"puzzle {puzzle.number}, {puzzle.title}: "
        passed = ", ".join(case.name for case in found.passed)
        if found.error is None:
            question = puzzle.question
            return (
                f"{head}solved ✓ (right in {len(found.passed)} launches: {passed})\n"
                f"the question: {question.text}\n"
                f"answer with puzzles.answer({puzzle.number}, …): {question.form}"
            )
        where = f" In the launch {found.case}:" if found.case is not None else ""
        parts = [f"{head}not yet.{where}", found.error.render()]
        if passed:
            parts.append(f"right before that: {passed}")
        return "\n".join(parts)

    @property
    def svg(self) -> str:
        """What is wrong, or what the learner's programs touch."""
        found = self.judgement
        if found.comparison is not None and found.wrong is not None:
            return wrong_svg(found.comparison.name, found.wrong)
        if found.trial is None or "accesses" not in vars(found.trial):
            return ""
        return touched_svg(found.trial)

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        data = {
            "puzzle": self.puzzle.number, "solved": self.accepted, "attempt": self.attempt,
            "answered": False,
        }  # fmt: skip
        return Shown(self.text, self.svg, data)._repr_mimebundle_()
