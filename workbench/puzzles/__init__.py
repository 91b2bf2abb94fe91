"""Twelve puzzles for who learns to write kernels; all can be solved without a GPU.

    from workbench import puzzles

    puzzles.show(1)                 # what the programs touch
    puzzles.check(1, add_ten)       # launches it, says what is wrong
    puzzles.record(1)               # who accessed what
    puzzles.answer(1, 3)            # the question about one's own kernel

A puzzle is data (`puzzle.py`, `collection/`): text, signature, reference, sizes, a question with
the function that reads the right answer from the learner's own trace. Belongs here: judging,
pictures, notebooks. Does not: running students' notebooks (magics/grading.py).
"""

from workbench.puzzles.api import answer, begin, check, record, show, standings
from workbench.puzzles.collection import PUZZLES
from workbench.puzzles.notebooks import write

__all__ = ["PUZZLES", "answer", "begin", "check", "record", "show", "standings", "write"]
