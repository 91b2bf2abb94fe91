"""Reads the text of inline PTX: comments, blocks, guards, instructions and their operands."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction as it is written: `@%p add.f32 $0, $1, $2` or `mov.b32 {a, b}, $1`."""

    line: str
    #: The name and what follows its dots: ("add", "f32").
    parts: tuple[str, ...]
    operands: tuple[str, ...]
    #: The predicate register that it runs under, with "!" in front where it must not hold.
    guard: str = ""

    @property
    def base(self) -> str:
        """The name without types and modes."""
        return self.parts[0]


def read_instructions(text: str) -> list[Instruction]:
    """Return the instructions of a text in order; declarations and pragmas are left out."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    found: list[Instruction] = []
    for line in _without_blocks(text).split(";"):
        line = " ".join(line.split())
        if line and not line.startswith((".reg", ".pragma")):
            found.append(_instruction(line))
    return found


def members_of(operand: str) -> list[str] | None:
    """Return the registers of a vector operand `{a, b}`, None for a single one."""
    if not operand.startswith("{"):
        return None
    return [part.strip() for part in operand[1:-1].split(",")]


def _instruction(line: str) -> Instruction:
    guard, rest = "", line
    if line.startswith("@"):
        guard, _, rest = line[1:].partition(" ")
    name, _, operands = rest.partition(" ")
    return Instruction(rest, tuple(name.split(".")), tuple(_operands(operands)), guard)


def _without_blocks(text: str) -> str:
    """Drop the braces of blocks, not those of operands: the latter hold no semicolon."""
    kept: list[str] = []
    for place, letter in enumerate(text):
        if letter == "{":
            end = text.find("}", place)
            if end < 0 or ";" in text[place:end]:
                letter = " "
        elif letter == "}":
            start = text.rfind("{", 0, place)
            if start < 0 or ";" in text[start:place]:
                letter = ";"
        kept.append(letter)
    return "".join(kept)


def _operands(text: str) -> list[str]:
    found: list[str] = []
    depth, word = 0, ""
    for letter in text:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and not depth:
            found.append(word.strip())
            word = ""
        else:
            word += letter
    if word.strip():
        found.append(word.strip())
    return found
