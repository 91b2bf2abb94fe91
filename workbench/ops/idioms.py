"""What common PTX instructions compute, for targets that are no NVIDIA chip.

An idiom is run on an abstract machine: arrays in the interpreter, ops of the tile IR where a
target compiles it. A register is a value with the type it was last written as; an instruction
reads it as the type in its name. Since the assembly works element by element, `pack` elements of
a group may all be the same one: each element is computed with itself, and the first is taken.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

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
from workbench.source import TargetError

if TYPE_CHECKING:
    from workbench.ops.inline_assembly import InlineAssembly


class Machine(Protocol):
    """What an idiom is computed with; payloads are arrays or IR values."""

    def number(self, value: float | int, element: Scalar) -> Any: ...

    def apply(self, function: str, element: Scalar, inputs: list[Any]) -> Any: ...

    def convert(self, value: Any, source: Scalar, to: Scalar, rounding: str) -> Any: ...

    def bits(self, value: Any, source: Scalar, to: Scalar) -> Any: ...

    def select(self, condition: Any, then: Any, otherwise: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Held:
    """What a register holds: a payload and its type."""

    payload: Any
    element: Scalar


_TYPES: dict[str, Scalar] = {
    "b8": U8, "b16": U16, "b32": U32, "b64": U64, "u8": U8, "u16": U16, "u32": U32, "u64": U64,
    "s8": I8, "s16": I16, "s32": I32, "s64": I64, "f16": F16, "bf16": BF16, "f32": F32,
    "f64": F64, "pred": I1, "tf32": F32,
}  # fmt: skip
_PAIRS: dict[str, Scalar] = {"f16x2": F16, "bf16x2": BF16, "e4m3x2": F8E4M3, "e5m2x2": F8E5M2}
_UNSIGNED = {8: U8, 16: U16, 32: U32, 64: U64}
_SIGNED = {8: I8, 16: I16, 32: I32, 64: I64}
_ONE_FLOAT = {
    "ex2": "exp2", "lg2": "log2", "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin", "cos": "cos",
    "tanh": "tanh",
}  # fmt: skip
_ANY = {"abs": "abs", "neg": "neg"}
_TWO = {"add": "add", "sub": "sub", "min": "min", "max": "max", "div": "div", "rem": "rem",
        "and": "and", "or": "or", "xor": "xor", "shl": "shl", "shr": "shr"}  # fmt: skip
_BITS = {"popc": "popcount", "clz": "leading_zeros", "brev": "reverse_bits"}
_NOTHING = ("griddepcontrol", "membar", "fence", "bar", "barrier", "nanosleep", "nop", "prefetch",
            "prefetchu", "discard", "pragma")  # fmt: skip
_COMPARES = {"eq", "ne", "lt", "le", "gt", "ge"}
#: Special registers are constants where there is no chip: thread 0 of one.
_SPECIAL = {"nsmid": 1, "ntid.x": 1, "ntid.y": 1, "ntid.z": 1, "nwarpid": 1}
_ROUNDINGS = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


def run_idiom(
    op: InlineAssembly, machine: Machine, inputs: Sequence[tuple[Any, Element]]
) -> tuple[Any, ...]:
    """Return the results' payloads; raises TargetError for an instruction that is not known."""
    return _Run(op, machine).run(inputs)


def registers_of(element: Element, pack: int) -> tuple[int, int]:
    """Return (elements in a register, registers of a group) for an operand or result."""
    each = min(pack, max(1, 32 // max(8, element.bits)))
    return each, pack // each


class _Run:
    def __init__(self, op: InlineAssembly, machine: Machine) -> None:
        self.op = op
        self.machine = machine
        self.registers: dict[str, Held] = {}

    def fail(self, what: str) -> TargetError:
        return TargetError(
            f"inline assembly: {what} has no meaning known away from an NVIDIA chip",
            self.op.span,
            hint="run it on a GPU, or write it with tl functions",
        )

    def run(self, inputs: Sequence[tuple[Any, Element]]) -> tuple[Any, ...]:
        op = self.op
        counts = [registers_of(element, op.pack)[1] for element in op.types]
        number = sum(counts)
        for payload, element in inputs:
            each, count = registers_of(element, op.pack)
            held = self.packed(payload, element, each)
            for _ in range(count):
                self.registers[f"${number}"] = held
                number += 1
        for line in _statements(op.text):
            self.statement(line)
        results: list[Any] = []
        first = 0
        for element, count in zip(op.types, counts, strict=True):
            held = self.registers.get(f"${first}")
            if held is None:
                held = Held(self.machine.number(0, element), element)
            results.append(self.read(held, element))
            first += count
        return tuple(results)

    def packed(self, payload: Any, element: Element, each: int) -> Held:
        """Return a register with `each` copies of an element."""
        if isinstance(element, Pointer):
            raise self.fail("a pointer operand")
        if element.kind == "bool":
            return Held(payload, element)
        held = Held(payload, element)
        if each == 1:
            return held
        raw = self.read(held, U32)
        copies = sum(1 << element.bits * i for i in range(each))
        return Held(self.apply("mul", U32, raw, self.machine.number(copies, U32)), U32)

    # -- values ---------------------------------------------------------------------------
    def apply(self, function: str, element: Scalar, *inputs: Any) -> Any:
        return self.machine.apply(function, element, list(inputs))

    def read(self, held: Held, element: Scalar) -> Any:
        """Return what a register holds as a type: its low bits, or with zeros above."""
        have = held.element
        if have == element:
            return held.payload
        machine = self.machine
        if "bool" in (have.kind, element.kind):
            return machine.convert(held.payload, have, element, "rtne")
        raw, wanted = _UNSIGNED[have.bits], _UNSIGNED[element.bits]
        payload = held.payload if have == raw else machine.bits(held.payload, have, raw)
        payload = payload if raw == wanted else machine.convert(payload, raw, wanted, "rtne")
        return payload if wanted == element else machine.bits(payload, wanted, element)

    def operand(self, word: str, element: Scalar) -> Any:
        """Return an operand as a type: a register or a number."""
        held = self.registers.get(word)
        if held is not None:
            return self.read(held, element)
        if word.startswith("!"):
            negated = self.operand(word[1:], I1)
            return self.apply("xor", I1, negated, self.machine.number(1, I1))
        if word.startswith("-") and word[1:] in self.registers:
            return self.apply("neg", element, self.operand(word[1:], element))
        if word.startswith("%"):
            return self.machine.number(_SPECIAL.get(word[1:], 0), element)
        return self.literal(word, element)

    def literal(self, word: str, element: Scalar) -> Any:
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

    # -- statements -----------------------------------------------------------------------
    def statement(self, line: str) -> None:
        guard = None
        if line.startswith("@"):
            word, line = line[1:].split(None, 1)
            guard = self.operand(word, I1)
        name, _, rest = line.partition(" ")
        operands = _operands(rest)
        parts = name.split(".")
        if parts[0] in _NOTHING:
            return
        handler = _HANDLERS.get(parts[0])
        if handler is None or not operands:
            raise self.fail(f"'{line}'")
        types = [p for p in parts[1:] if p in _TYPES or p in _PAIRS]
        handler(self, _Instruction(line, parts, types, operands, guard))

    def write(self, instruction: _Instruction, payload: Any, element: Scalar) -> None:
        """Write the first operand, where the guard holds."""
        target = instruction.operands[0]
        old = self.registers.get(target)
        if instruction.guard is not None and old is not None:
            before = self.read(old, element)
            payload = self.machine.select(instruction.guard, payload, before)
        self.registers[target] = Held(payload, element)


@dataclass(frozen=True, slots=True)
class _Instruction:
    line: str
    parts: list[str]
    types: list[str]
    operands: list[str]
    guard: Any


def _statements(text: str) -> list[str]:
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    found: list[str] = []
    for line in re.split(r";", _without_blocks(text)):
        line = " ".join(line.split())
        if line and not line.startswith((".reg", ".pragma")):
            found.append(line)
    return found


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


def _members(word: str) -> list[str] | None:
    """Return the registers of a vector operand `{a, b}`, None for a single one."""
    if not word.startswith("{"):
        return None
    return [part.strip() for part in word[1:-1].split(",")]


# -- instructions -------------------------------------------------------------------------------
def _per_half(run: _Run, i: _Instruction, compute: Callable[[Scalar, list[Any]], Any]) -> None:
    """Compute an instruction on its type, on both halves for `f16x2` and `bf16x2`."""
    word = i.types[-1] if i.types else "b32"
    element = _PAIRS.get(word)
    if element is None:
        one = _TYPES[word]
        run.write(i, compute(one, [run.operand(o, one) for o in i.operands[1:]]), one)
        return
    halves: list[Any] = []
    for shift in (0, 16):
        inputs = [_half(run, run.operand(o, U32), shift, element) for o in i.operands[1:]]
        halves.append(compute(element, inputs))
    run.write(i, _joined(run, halves, element), U32)


def _half(run: _Run, word: Any, shift: int, element: Scalar) -> Any:
    moved = run.apply("shr", U32, word, run.machine.number(shift, U32)) if shift else word
    return run.read(Held(moved, U32), element)


def _joined(run: _Run, parts: list[Any], element: Scalar) -> Any:
    """Return values side by side in a register, the first in the low bits."""
    total = run.read(Held(parts[0], element), U32)
    for number, part in enumerate(parts[1:], 1):
        raw = run.read(Held(part, element), U32)
        moved = run.apply("shl", U32, raw, run.machine.number(number * element.bits, U32))
        total = run.apply("or", U32, total, moved)
    return total


def _saturated(run: _Run, i: _Instruction, value: Any, element: Scalar) -> Any:
    if "sat" not in i.parts or not element.is_float:
        return value
    zero, one = run.machine.number(0.0, element), run.machine.number(1.0, element)
    return run.apply("min", element, run.apply("max", element, value, zero), one)


def _simple(run: _Run, i: _Instruction) -> None:
    base = i.parts[0]

    def compute(element: Scalar, inputs: list[Any]) -> Any:
        if base == "rcp":
            return run.apply("div_rn", element, run.machine.number(1.0, element), *inputs)
        if base == "not":
            ones = run.machine.number((1 << element.bits) - 1, element)
            return run.apply("xor", element, *inputs, ones)
        if base == "copysign":
            return run.apply("copysign", element, inputs[1], inputs[0])
        if base == "fma" or (base == "mad" and element.is_float):
            return _saturated(run, i, run.apply("fma", element, *inputs), element)
        name = {**_ONE_FLOAT, **_ANY, **_TWO, **_BITS, "mul": "mul"}[base]
        if base in ("shl", "shr"):
            amount = run.operand(i.operands[2], U32)
            inputs = [inputs[0], run.read(Held(amount, U32), element)]
        if "NaN" in i.parts:
            name = {"min": "minimum", "max": "maximum"}.get(name, name)
        return _saturated(run, i, run.apply(name, element, *inputs), element)

    _per_half(run, i, compute)
    if base in ("popc", "clz"):
        target = i.operands[0]
        held = run.registers[target]
        run.registers[target] = Held(run.read(held, U32), U32)


def _multiply(run: _Run, i: _Instruction) -> None:
    element = _TYPES.get(i.types[-1]) if i.types else None
    if element is None or element.is_float:
        _simple(run, i)
        return
    a, b = (run.operand(word, element) for word in i.operands[1:3])
    wide = "wide" in i.parts
    if wide:
        table = _SIGNED if element.kind == "int" else _UNSIGNED
        to = table[element.bits * 2]
        a, b = (run.machine.convert(x, element, to, "rtne") for x in (a, b))
        element = to
    value = run.apply("mulhi" if "hi" in i.parts else "mul", element, a, b)
    if i.parts[0] == "mad":
        value = run.apply("add", element, value, run.operand(i.operands[3], element))
    run.write(i, value, element)


def _move(run: _Run, i: _Instruction) -> None:
    target, source = _members(i.operands[0]), _members(i.operands[1])
    element = _TYPES[i.types[-1]]
    if target is not None:
        bits = element.bits // len(target)
        word, part = run.operand(i.operands[1], element), _UNSIGNED[bits]
        for number, name in enumerate(target):
            amount = run.machine.number(number * bits, element)
            moved = run.apply("shr", element, word, amount) if number else word
            run.registers[name] = Held(run.read(Held(moved, element), part), part)
    elif source is not None:
        part = _UNSIGNED[element.bits // len(source)]
        parts = [run.operand(word, part) for word in source]
        if element.bits > 32:
            raise run.fail(f"'{i.line}'")
        run.write(i, _joined(run, parts, part), U32)
    else:
        run.write(i, run.operand(i.operands[1], element), element)


def _convert(run: _Run, i: _Instruction) -> None:
    to, source = i.types[0], i.types[-1]
    rounding = "rtz" if "rz" in i.parts else "rtne"
    pair, from_pair = _PAIRS.get(to), _PAIRS.get(source)
    if pair is not None and from_pair is not None:
        word = run.operand(i.operands[1], U16)
        halves: list[Any] = []
        for shift in (0, 8):
            moved = run.apply("shr", U16, word, run.machine.number(shift, U16)) if shift else word
            value = run.read(Held(moved, U16), from_pair)
            halves.append(run.machine.convert(value, from_pair, pair, "rtne"))
        run.write(i, _joined(run, halves, pair), U32)
    elif pair is not None:
        element = _TYPES[source]
        high, low = (run.operand(word, element) for word in i.operands[1:3])
        parts = [run.machine.convert(x, element, pair, rounding) for x in (low, high)]
        word = _joined(run, parts, pair)
        bits = pair.bits * 2
        run.write(i, run.read(Held(word, U32), _UNSIGNED[bits]), _UNSIGNED[bits])
    else:
        have, want = _TYPES[source], _TYPES[to]
        value = run.operand(i.operands[1], have)
        for mode, row in _ROUNDINGS.items():
            if mode in i.parts and have.is_float:
                value = run.apply(row, have, value)
        if have != want:
            value = run.machine.convert(value, have, want, rounding)
        run.write(i, _saturated(run, i, value, want), want)


def _compare(run: _Run, i: _Instruction) -> None:
    how, element = i.parts[1].removesuffix("u"), _TYPES[i.types[-1]]
    how = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(i.parts[1], how)
    if how not in _COMPARES:
        raise run.fail(f"'{i.line}'")
    a, b = (run.operand(word, element) for word in i.operands[1:3])
    run.write(i, run.apply(how, element, a, b), I1)


def _choose(run: _Run, i: _Instruction) -> None:
    element = _TYPES[i.types[-1]]
    a, b = (run.operand(word, element) for word in i.operands[1:3])
    run.write(i, run.machine.select(run.operand(i.operands[3], I1), a, b), element)


def _three_inputs(run: _Run, i: _Instruction) -> None:
    """lop3: bit 4 a + 2 b + c of the table, for each bit of the operands."""
    try:
        table = int(i.operands[4], 0)
    except ValueError:
        raise run.fail(f"'{i.line}'") from None
    inputs = [run.operand(word, U32) for word in i.operands[1:4]]
    ones = run.machine.number(0xFFFFFFFF, U32)
    total = run.machine.number(0, U32)
    for row in range(8):
        if not table >> row & 1:
            continue
        term = ones
        for bit, value in zip((4, 2, 1), inputs, strict=True):
            part = value if row & bit else run.apply("xor", U32, value, ones)
            term = run.apply("and", U32, term, part)
        total = run.apply("or", U32, total, term)
    run.write(i, total, U32)


def _permute(run: _Run, i: _Instruction) -> None:
    """Prmt with a selector known now: four bytes picked from eight."""
    try:
        selector = int(i.operands[3], 0)
    except ValueError:
        raise run.fail(f"'{i.line}'") from None
    words = [run.operand(word, U32) for word in i.operands[1:3]]
    total = run.machine.number(0, U32)
    for place in range(4):
        pick = selector >> 4 * place & 15
        if pick & 8:
            raise run.fail(f"'{i.line}' with sign bytes")
        word, shift = words[pick >> 2], 8 * (pick & 3)
        byte = run.apply("shr", U32, word, run.machine.number(shift, U32))
        byte = run.apply("and", U32, byte, run.machine.number(0xFF, U32))
        moved = run.apply("shl", U32, byte, run.machine.number(8 * place, U32))
        total = run.apply("or", U32, total, moved)
    run.write(i, total, U32)


def _extract(run: _Run, i: _Instruction) -> None:
    """bfe: a run of bits, with the sign of the type; position and length known now."""
    element = _TYPES[i.types[-1]]
    try:
        start, length = (int(word, 0) for word in i.operands[2:4])
    except ValueError:
        raise run.fail(f"'{i.line}'") from None
    value = run.operand(i.operands[1], element)
    up, down = element.bits - start - length, element.bits - length
    moved = run.apply("shl", element, value, run.machine.number(up, element))
    run.write(i, run.apply("shr", element, moved, run.machine.number(down, element)), element)


_HANDLERS: dict[str, Callable[[_Run, _Instruction], None]] = {
    **dict.fromkeys([*_ONE_FLOAT, *_ANY, *_TWO, *_BITS, "rcp", "not", "copysign", "fma"], _simple),
    "mul": _multiply, "mad": _multiply, "mov": _move, "cvt": _convert, "setp": _compare,
    "selp": _choose, "lop3": _three_inputs, "prmt": _permute, "bfe": _extract,
}  # fmt: skip
