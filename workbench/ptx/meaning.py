"""What a PTX program computes, run on any machine.

Since the assembly works element by element, `pack` elements of a group may all be the same one:
each element is computed with itself, and the first is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workbench.ir import Element, Scalar
from workbench.ptx.instructions import HANDLERS, NOTHING, check_modifiers
from workbench.ptx.reading import read_instructions
from workbench.ptx.registers import Held, Machine, Registers, registers_of
from workbench.source import Span


@dataclass(frozen=True, slots=True)
class Program:
    """Inline assembly as data: `text` names registers $0, $1, ...: results first, then operands.

    `types` are the element types of the results, `pack` the elements that one run of it takes;
    of `constraints` those count here that are a result's number: the operand is there from the
    beginning. `span` is where errors point.
    """

    text: str
    types: tuple[Scalar, ...]
    pack: int = 1
    span: Span | None = None
    constraints: str = ""


def words_of(constraints: str) -> list[str]:
    """Return constraints in the order that LLVM wants: of results, operands, what is overwritten.

    >>> words_of("0,=r,~{memory},r")
    ['=r', '0', 'r', '~{memory}']
    """
    found = [word.strip() for word in constraints.split(",") if word.strip()]
    return sorted(found, key=lambda word: 0 if word[0] == "=" else 2 if word[0] == "~" else 1)


def evaluate(
    program: Program, machine: Machine, inputs: Sequence[tuple[Any, Element]]
) -> tuple[Any, ...]:
    """Return the results' payloads; raises TargetError for an instruction that is not known."""
    registers = Registers(machine, program.span)
    counts = [registers_of(element, program.pack)[1] for element in program.types]
    number = sum(counts)
    words = words_of(program.constraints)
    for payload, element in inputs:
        each, count = registers_of(element, program.pack)
        held = registers.packed(payload, element, each)
        for _ in range(count):
            registers.held[f"${number}"] = held
            if number < len(words) and words[number].isdecimal():
                registers.held[f"${words[number]}"] = held
            number += 1
    for instruction in read_instructions(program.text):
        if instruction.base in NOTHING:
            continue
        handler, operands = HANDLERS.get(instruction.base, (None, 0))
        if handler is None or len(instruction.operands) < operands:
            raise registers.fail(f"'{instruction.line}'")
        check_modifiers(registers, instruction)
        handler(registers, instruction)
    results: list[Any] = []
    first = 0
    for element, count in zip(program.types, counts, strict=True):
        held = registers.held.get(f"${first}")
        if held is None:
            held = Held(machine.number(0, element), element)
        results.append(registers.read(held, element))
        first += count
    return tuple(results)
