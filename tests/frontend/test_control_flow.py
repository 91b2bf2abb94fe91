"""Control flow against Python itself: random programs of scalars, run both ways."""

from __future__ import annotations

import random
import textwrap

import numpy as np
import pytest

from tests.language.harness import from_text, run

NAMES = "abcd"


class Writer:
    """Writes a random function of integers; every loop ends, every name has a value."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops: list[str] = []
        self.counters = 0

    def program(self) -> str:
        parameters = ", ".join(f"{name}: int" for name in NAMES)
        self.lines = [f"def helper({parameters}):"]
        self.block(1, 2, returns=True)
        self.lines.append(f"    return {self.expression()}")
        self.lines.append("def kernel(out, n):")
        for number, name in enumerate(NAMES):
            self.lines.append(f"    {name} = n + {number}")
        self.block(1, 3, returns=False)
        for number, name in enumerate(NAMES):
            self.lines.append(f"    tl.store(out + {number}, {name})")
        return "\n".join(self.lines)

    def expression(self) -> str:
        pick, a, b = self.random.random(), self.atom(), self.atom()
        if pick < 0.15:
            return f"({a} if {self.condition()} else {b})"
        if pick < 0.6:
            return f"({a} {self.random.choice('+-')} {b}) & 255"
        return f"(({a} * {b}) & 63)"

    def atom(self) -> str:
        return self.random.choice([*NAMES, *self.loops, str(self.random.randint(-3, 9))])

    def condition(self) -> str:
        a, b, c = self.atom(), self.atom(), self.atom()
        op = self.random.choice(["<", ">", "==", "!=", "<=", ">="])
        return self.random.choice(
            [
                f"{a} {op} {b}",
                f"{a} < {b} and {c} {op} {a}",
                f"not ({a} {op} {c})",
                f"{a} < {b} < {c}",
            ]
        )

    def block(self, depth: int, budget: int, *, returns: bool) -> None:
        for _ in range(self.random.randint(1, 3)):
            self.statement(depth, budget, returns=returns)

    def say(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def statement(self, depth: int, budget: int, *, returns: bool) -> None:
        pick = self.random.random()
        name = self.random.choice(NAMES)
        if budget and pick < 0.3:
            self.branch(depth, budget, returns=returns)
        elif budget and pick < 0.5:
            self.loop(depth, budget, returns=returns)
        elif self.loops and pick < 0.62:
            self.say(depth, f"if {self.condition()}:")
            self.say(depth + 1, self.random.choice(["break", "continue"]))
        elif returns and pick < 0.68:
            self.say(depth, f"if {self.condition()}:")
            self.say(depth + 1, f"return {self.expression()}")
        elif not returns and pick < 0.7:
            self.say(depth, f"{name} = helper({', '.join(self.atom() for _ in NAMES)})")
        elif pick < 0.8:
            self.say(depth, f"{name} += {self.atom()}")
            self.say(depth, f"{name} = {name} & 1023")
        else:
            self.say(depth, f"{name} = {self.expression()}")

    def branch(self, depth: int, budget: int, *, returns: bool) -> None:
        self.say(depth, f"if {self.condition()}:")
        self.block(depth + 1, budget - 1, returns=returns)
        if self.random.random() < 0.3:
            self.say(depth, f"elif {self.condition()}:")
            self.block(depth + 1, budget - 1, returns=returns)
        if self.random.random() < 0.6:
            self.say(depth, "else:")
            self.block(depth + 1, budget - 1, returns=returns)

    def loop(self, depth: int, budget: int, *, returns: bool) -> None:
        self.counters += 1
        counter = f"i{self.counters}"
        kind = self.random.choice(["range", "while", "static"])
        bound = self.random.choice(["3", "d & 3", f"{self.atom()} & 3"])
        if kind == "while":
            self.say(depth, f"{counter} = 0")
            self.say(depth, f"while {counter} < ({bound}):")
            self.say(depth + 1, f"{counter} += 1")
        elif kind == "range":
            step = self.random.choice(["0, {}", "{}", "{}, -1, -1", "1, ({}) + 2, 2"]).format(bound)
            self.say(depth, f"for {counter} in range({step}):")
        else:
            self.say(depth, f"for {counter} in tl.static_range(3):")
        self.loops.append(counter)
        self.block(depth + 1, budget - 1, returns=returns)
        self.loops.pop()


class Python:
    """Stands for `tl` where the program runs as Python."""

    static_range = staticmethod(range)

    @staticmethod
    def store(place: tuple[list[int], int], value: int) -> None:
        values, index = place
        values[index] = int(value)


class Pointer:
    """A list with an offset, as a kernel's pointer."""

    def __init__(self) -> None:
        self.values = [0] * len(NAMES)

    def __add__(self, index: int) -> tuple[list[int], int]:
        return self.values, index


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_do_what_python_does(seed):
    text = Writer(seed).program()
    kernel = from_text(text)
    scope: dict[str, object] = {"tl": Python}
    exec(textwrap.dedent(text), scope)
    for n in (0, 2, 5):
        expected, got = Pointer(), np.zeros(len(NAMES), np.int64)
        scope["kernel"](expected, n)
        run(kernel, out=got, n=n)
        assert got.tolist() == expected.values, text
