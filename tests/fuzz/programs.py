"""Random tile programs by seed: everything that the writers of this folder write.

Each seed has a theme, which every other step comes from, so that what belongs together meets.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.fuzz.order import OrderWriter
from tests.passes.launches import NUMBERS, Launch
from tests.passes.leaves import GRID
from workbench.ir import Module, Value

THEMES = ("all", "all", "integers", "rounding", "hints", "maps", "order", "order", "order")


class ProgramWriter(OrderWriter):
    """Writes one program from a seed."""

    def __init__(self, seed: int, steps: int) -> None:
        super().__init__(seed, steps)
        own: dict[str, Callable[[], None]] = {
            "integers": self.integer, "rounding": self.float_bits, "hints": self.hint,
            "order": self.memory_step, "maps": self.mapped,
        }  # fmt: skip
        theme = THEMES[seed % len(THEMES)]
        self.themes = [own[theme]] if theme in own else list(own.values())

    def step(self) -> None:
        if self.number(0, 1):
            self.pick(self.themes)()
        else:
            super().step()

    def kept(self) -> list[Value]:
        """Return what is stored, in any order: what comes last depends on the most."""
        values = super().kept()
        return self.random.sample(values, len(values))


def program(seed: int) -> Module:
    """Return the program of a seed."""
    return ProgramWriter(seed, 3 + seed % 12).module()


def launch(seed: int) -> Launch:
    """Return the numbers that the program of a seed is run with."""
    choose = random.Random(~seed)
    return Launch(choose.randint(0, 8), choose.choice(NUMBERS), choose.randint(0, 3))


__all__ = ["GRID", "ProgramWriter", "launch", "program"]
