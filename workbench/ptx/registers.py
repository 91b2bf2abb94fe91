"""The registers of a running PTX program, and the machine that computes on what they hold.

A register is a value with the type that it was last written as; an instruction reads it as the
type in its name.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from workbench.ir import (
    BF16,
    F8E4M3,
    F8E5M2,
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Element,
    Pointer,
    Scalar,
)
from workbench.ptx.reading import Instruction
from workbench.source import Span, TargetError

TYPES: dict[str, Scalar] = {
    "b8": U8, "b16": U16, "b32": U32, "b64": U64, "u8": U8, "u16": U16, "u32": U32, "u64": U64,
    "s8": I8, "s16": I16, "s32": I32, "s64": I64, "f16": F16, "bf16": BF16, "f32": F32,
    "f64": F64, "pred": I1, "tf32": F32,
}  # fmt: skip
#: Two values in one register.
PAIRS: dict[str, Scalar] = {"f16x2": F16, "bf16x2": BF16, "e4m3x2": F8E4M3, "e5m2x2": F8E5M2}
UNSIGNED = {8: U8, 16: U16, 32: U32, 64: U64}
SIGNED = {8: I8, 16: I16, 32: I32, 64: I64}
#: Special registers are constants where there is no chip: thread 0 of one.
_SPECIAL = {"nsmid": 1, "ntid.x": 1, "ntid.y": 1, "ntid.z": 1, "nwarpid": 1}


class Machine(Protocol):
    """What a program is computed with; payloads are arrays or IR values."""

    def number(self, value: float | int, element: Scalar) -> Any:
        """Return a number in every element."""
        ...

    def apply(self, function: str, element: Scalar, inputs: list[Any]) -> Any:
        """Return a row of the table of functions (`ops/functions.py`)."""
        ...

    def convert(self, value: Any, source: Scalar, to: Scalar, rounding: str) -> Any:
        """Return numbers in another type."""
        ...

    def bits(self, value: Any, source: Scalar, to: Scalar) -> Any:
        """Return the same bits as another type of that width."""
        ...

    def select(self, condition: Any, then: Any, otherwise: Any) -> Any:
        """Return `then` where the condition holds, else `otherwise`."""
        ...


@dataclass(frozen=True, slots=True)
class Held:
    """What a register holds: a payload and its type."""

    payload: Any
    element: Scalar


def registers_of(element: Element, pack: int) -> tuple[int, int]:
    """Return (elements in a register, registers of a group) for an operand or result."""
    each = min(pack, max(1, 32 // max(8, element.bits)))
    return each, pack // each


def types_of(instruction: Instruction) -> list[str]:
    """Return the types in an instruction's name, in order."""
    return [part for part in instruction.parts[1:] if part in TYPES or part in PAIRS]


class Registers:
    """What every register holds while a program runs; `span` is where errors point."""

    def __init__(self, machine: Machine, span: Span | None) -> None:
        self.machine = machine
        self.span = span
        self.held: dict[str, Held] = {}

    def fail(self, what: str) -> TargetError:
        """Return the error for what has no meaning here."""
        return TargetError(
            f"inline assembly: {what} has no meaning known away from an NVIDIA chip",
            self.span,
            hint="run it on a GPU, or write it with tl functions",
        )

    def packed(self, payload: Any, element: Element, each: int) -> Held:
        """Return a register with `each` copies of an element."""
        if isinstance(element, Pointer):
            raise self.fail("a pointer operand")
        held = Held(payload, element)
        if element.kind == "bool" or each == 1:
            return held
        raw = self.read(held, U32)
        copies = sum(1 << element.bits * i for i in range(each))
        return Held(self.apply("mul", U32, raw, self.machine.number(copies, U32)), U32)

    def apply(self, function: str, element: Scalar, *inputs: Any) -> Any:
        """Return a row of the table of functions."""
        return self.machine.apply(function, element, list(inputs))

    def read(self, held: Held, element: Scalar) -> Any:
        """Return what a register holds as a type: its low bits, or with zeros above."""
        have = held.element
        if have == element:
            return held.payload
        machine = self.machine
        if "bool" in (have.kind, element.kind):
            return machine.convert(held.payload, have, element, "rtne")
        raw, wanted = UNSIGNED[have.bits], UNSIGNED[element.bits]
        payload = held.payload if have == raw else machine.bits(held.payload, have, raw)
        payload = payload if raw == wanted else machine.convert(payload, raw, wanted, "rtne")
        return payload if wanted == element else machine.bits(payload, wanted, element)

    def operand(self, word: str, element: Scalar) -> Any:
        """Return an operand as a type: a register or a number."""
        held = self.held.get(word)
        if held is not None:
            return self.read(held, element)
        if word.startswith("!"):
            negated = self.operand(word[1:], I1)
            return self.apply("xor", I1, negated, self.machine.number(1, I1))
        if word.startswith("-") and word[1:] in self.held:
            return self.apply("neg", element, self.operand(word[1:], element))
        if word.startswith("%"):
            return self.machine.number(_SPECIAL.get(word[1:], 0), element)
        return self.literal(word, element)

    def literal(self, word: str, element: Scalar) -> Any:
        """Return a number as PTX writes it: `0f3F800000`, `0xFFU`, `1.5`."""
        if match := re.fullmatch(r"0[fF]([0-9a-fA-F]{8})", word):
            (value,) = struct.unpack(">f", bytes.fromhex(match[1]))
        elif match := re.fullmatch(r"0[dD]([0-9a-fA-F]{16})", word):
            (value,) = struct.unpack(">d", bytes.fromhex(match[1]))
        elif re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?", word):
            value = int(word.rstrip("U"), 0)
        else:
            try:
                value = float(word)
            except ValueError:
                raise self.fail(f"the operand '{word}'") from None
        if element.is_integer:
            bits = int(value) & ((1 << element.bits) - 1)
            signed = element.kind == "int" and bits >> (element.bits - 1)
            value = bits - (1 << element.bits) if signed else bits
        return self.machine.number(value, element)

    def type_of(self, i: Instruction) -> Scalar:
        """Return the type that an instruction computes in: the last in its name."""
        types = types_of(i)
        if not types or types[-1] not in TYPES:
            raise self.fail(f"'{i.line}'")
        return TYPES[types[-1]]

    def write(self, i: Instruction, payload: Any, element: Scalar, target: str = "") -> None:
        """Write a register (the first operand) where an instruction's guard holds."""
        self.write_each(i, {target or i.operands[0]: payload}, element)

    def write_each(self, i: Instruction, payloads: Mapping[str, Any], element: Scalar) -> None:
        """Write several registers, of which one may be the guard itself."""
        guarded = i.guard and any(target in self.held for target in payloads)
        guard = self.operand(i.guard, I1) if guarded else None
        for target, payload in payloads.items():
            old = self.held.get(target)
            if guarded and old is not None:
                payload = self.machine.select(guard, payload, self.read(old, element))
            self.held[target] = Held(payload, element)

    def half(self, word: Any, shift: int, element: Scalar) -> Any:
        """Return the bits from `shift` on of a 32-bit word as a type."""
        moved = self.apply("shr", U32, word, self.machine.number(shift, U32)) if shift else word
        return self.read(Held(moved, U32), element)

    def joined(self, parts: list[Any], element: Scalar) -> Any:
        """Return values side by side in a register, the first in the low bits."""
        total = self.read(Held(parts[0], element), U32)
        for number, part in enumerate(parts[1:], 1):
            raw = self.read(Held(part, element), U32)
            moved = self.apply("shl", U32, raw, self.machine.number(number * element.bits, U32))
            total = self.apply("or", U32, total, moved)
        return total
