"""What a puzzle is: data. Judging, pictures and notebooks are made of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Role = Literal["in", "out", "inout", "scratch"]
#: How arrays whose strides are parameters lie in memory: without gaps, rows apart, rows apart by
#: a multiple of 16 elements, columns first, or with gaps along every axis.
Layout = Literal["dense", "pitch", "padded", "transposed", "strided"]


@dataclass(frozen=True, slots=True)
class Data:
    """An array of a launch: its contents, and what the kernel may do with it.

    Of an "out" or "scratch" only shape and type count: it starts as NaN or another garbage.
    """

    values: np.ndarray[Any, Any]
    role: Role = "in"


@dataclass(frozen=True, slots=True)
class Case:
    """The sizes of one launch, what it is called in verdicts, and how its arrays lie."""

    name: str
    sizes: Mapping[str, int]
    layout: Layout = "dense"

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        lies = "" if self.layout in ("dense", "padded") else f", {self.layout}"
        return f"{self.name} ({sizes}{lies})"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of the learner's own trace: the words, where to look, and the right answer.

    `right` gets the Trial of the shown launch.
    """

    text: str
    form: str
    where: str
    right: Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Puzzle:
    """One puzzle.

    Attributes:
        number: its place.
        name: of the kernel, as the cells have it.
        title: of the notebook.
        task: what the kernel has to do, in Markdown.
        parameters: the run-time parameters in their order: arrays, sizes and strides by name.
        strides: for arrays, the parameters that hold their strides in elements, "" for a stride
            that is 1.
        constants: constexprs that every launch gets.
        grid: the programs of a launch, called by names of sizes and constants.
        shown: the launch that pictures and questions are about.
        hidden: the launches that a check makes besides, for random numbers.
        data: (generator, sizes) -> the arrays by parameter.
        reference: called by names on float64 copies of the arrays; returns the outputs in order.
        widest: elements that a tile may have at most.
        once: arrays of which no element may be read twice.
        precision: types to which values may be rounded on the way.
        hints: in the order in which they tell more.
        start: the kernel's cell as a learner gets it.
        solution: a right kernel, and `launch` what its check is given besides.
        question: asked at the end.
    """

    number: int
    name: str
    title: str
    task: str
    parameters: tuple[str, ...]
    constants: Mapping[str, int]
    grid: Callable[..., tuple[int, ...]]
    shown: Case
    hidden: Callable[[random.Random], tuple[Case, ...]]
    data: Callable[[np.random.Generator, Mapping[str, int]], dict[str, Data]]
    reference: Callable[..., Any]
    hints: tuple[str, ...]
    start: str
    solution: str
    question: Question
    strides: Mapping[str, tuple[str, ...]]
    widest: int
    once: tuple[str, ...] = ()
    precision: tuple[str, ...] = ("f32", "f64")

    def cases(self, seed: int) -> tuple[Case, ...]:
        """Return the launches of a check, the shown one first."""
        return (self.shown, *self.hidden(random.Random(seed)))

    @property
    def slug(self) -> str:
        """The stem of its notebook's file name."""
        words = "".join(c if c.isalnum() else "-" for c in self.title.lower())
        return f"{self.number:02}-{words}"

    @property
    def signature(self) -> str:
        """The kernel's first line as the task states it."""
        given = ", ".join((*self.parameters, *(f"{c}: tl.constexpr" for c in self.constants)))
        return f"def {self.name}({given})"


#: Primes from which hidden sizes are drawn.
PRIMES = (13, 17, 19, 23, 29, 31, 37, 41, 43, 47)


def prime(draw: random.Random, low: int = 0) -> int:
    """Return a random prime below 50, greater than `low`."""
    return draw.choice([p for p in PRIMES if p > low])
