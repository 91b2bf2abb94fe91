"""Assembly of the author's: one statement for every group of registers."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.ir import Element, Pointer, Value, element_of, shape_of
from workbench.ops import InlineAssembly
from workbench.ptx import registers_of, words_of
from workbench.source import TargetError
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.simt.lowering import Lowering, llvm_type
from workbench.targets.simt.memory import first_of_copies
from workbench.targets.simt.rules import SAME, Layouts, Setting, as_they_are, same

_REGISTERS = {"r": "i32", "f": "float", "l": "i64", "d": "double", "h": "i16", "b": "i1"}


@NVIDIA.layouts(InlineAssembly)
def assembly_layouts(op: InlineAssembly, on: Setting) -> Layouts:
    """All operands and results in one layout."""
    if not op.extents:
        return as_they_are(op, on)
    return Layouts(
        own=op.extents,
        operands=(SAME,) * len(op.inputs),
        results=(same,) * len(op.results),
    )


@NVIDIA.lower(InlineAssembly)
def lower_inline_assembly(low: Lowering, op: InlineAssembly) -> None:
    words = _constraints(op)
    tiled = bool(op.inputs and shape_of(op.inputs[0].type))
    places = first_of_copies(low, op.inputs[0]) if tiled else [0]
    tables = [_table(low, value) for value in op.results]
    found: list[dict[int, str]] = [{} for _ in op.results]
    for start in range(0, len(places), op.pack):
        group = places[start : start + op.pack]
        group += [group[-1]] * (op.pack - len(group))
        operands: list[tuple[str, str]] = []
        for value in op.inputs:
            operands += _packed(low, value, group, words.inputs[len(operands) :])
        values = _statement(low, op, words, operands)
        for number, (result, table) in enumerate(zip(op.results, tables, strict=True)):
            each, count = registers_of(element_of(result.type), op.pack)
            taken, values = values[:count], values[count:]
            elements = _unpacked(low, taken, element_of(result.type), each)
            for register, text in zip(group, elements, strict=True):
                found[number].setdefault(table[register], text)
    for result, table, held in zip(op.results, tables, found, strict=True):
        if not shape_of(result.type):
            low.set_scalar(result, held[0])
            continue
        live = set(low.live(result))
        low.set_registers(result, [held.get(f) if r in live else None for r, f in enumerate(table)])


def _table(low: Lowering, value: Value) -> tuple[int, ...]:
    return low.layout(value).table("register") if shape_of(value.type) else (0,)


@dataclass(frozen=True, slots=True)
class _Words:
    """What constraints say: the kinds of registers of results and operands, and all words."""

    outputs: list[str]
    inputs: list[str]
    every: list[str]


def _constraints(op: InlineAssembly) -> _Words:
    """Read constraints: `=&r` is written before operands are read, `0` is result 0's register."""
    every = words_of(op.constraints)
    outputs = [word[1:].removeprefix("&") for word in every if word.startswith("=")]
    inputs = [word for word in every if not word.startswith(("=", "~"))]
    inputs = [outputs[int(w)] if w.isdecimal() and int(w) < len(outputs) else w for w in inputs]
    wanted = sum(registers_of(element, op.pack)[1] for element in op.types)
    given = sum(registers_of(element_of(v.type), op.pack)[1] for v in op.inputs)
    for word in (*outputs, *inputs):
        if word not in _REGISTERS:
            raise TargetError(
                f"inline assembly: the constraint '{word}' is not known",
                op.span,
                hint="use r, f, l, d or h, with '=' (or '=&') before those of results",
            )
    if len(outputs) != wanted or len(inputs) != given:
        raise TargetError(
            f"inline assembly: {len(outputs)} results and {len(inputs)} operands in the "
            f"constraints, {wanted} and {given} registers are needed with pack={op.pack}",
            op.span,
            hint="one constraint for each register: those of results first, then of operands",
        )
    return _Words(outputs, inputs, every)


def _packed(
    low: Lowering, value: Value, group: list[int], letters: list[str]
) -> list[tuple[str, str]]:
    """Return (type, operand) of each register that holds a group of elements."""
    element = element_of(value.type)
    each, count = registers_of(element, len(group))
    found: list[tuple[str, str]] = []
    for number in range(count):
        parts = [low.register(value, r) for r in group[number * each : (number + 1) * each]]
        type = _REGISTERS[letters[number]]
        found.append((type, _register(low, parts, element, type)))
    return found


def _register(low: Lowering, parts: list[str], element: Element, type: str) -> str:
    """Return elements as one register of a type, the first in the low bits."""
    emit = low.emit
    if len(parts) == 1 and llvm_type(element) == type:
        return parts[0]
    if isinstance(element, Pointer):
        return emit.pure(f"ptrtoint ptr addrspace(1) {parts[0]} to i64")
    wide = f"i{max(32, element.bits)}"
    total = "0"
    for number, part in enumerate(parts):
        raw = _raw(low, part, element, wide)
        moved = emit.shift("shl", wide, raw, number * element.bits)
        total = emit.bitwise("or", wide, total, moved)
    return _resized(low, total, wide, type)


def _raw(low: Lowering, value: str, element: Element, wide: str) -> str:
    held = llvm_type(element)
    value = {"true": "1", "false": "0"}.get(value, value)
    bits = f"i{element.bits}"
    if held != bits:
        value = low.emit.pure(f"bitcast {held} {value} to {bits}")
    return low.emit.zext(value, bits, wide)


def _resized(low: Lowering, value: str, have: str, type: str) -> str:
    """Return integer bits as a register of a type."""
    emit = low.emit
    bits = {"float": "i32", "double": "i64"}.get(type, type)
    a, b = int(have[1:]), int(bits[1:])
    if a != b:
        value = emit.trunc(value, have, bits) if a > b else emit.zext(value, have, bits)
    return value if bits == type else emit.pure(f"bitcast {bits} {value} to {type}")


def _statement(
    low: Lowering, op: InlineAssembly, words: _Words, operands: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    """Write one statement and return (type, operand) of its results."""
    emit = low.emit
    types = [_REGISTERS[letter] for letter in words.outputs]
    text = "".join(
        c if 32 <= ord(c) < 127 and c not in '"\\' else f"\\{ord(c):02X}" for c in op.text
    )
    result = "void" if not types else types[0] if len(types) == 1 else f"{{{', '.join(types)}}}"
    sideeffect = "sideeffect " if op.has_effects or not types else ""
    arguments = ", ".join(f"{type} {value}" for type, value in operands)
    call = f'call {result} asm {sideeffect}"{text}", "{",".join(words.every)}"({arguments})'
    if not types:
        emit.do(call)
        return []
    value = emit.effect(call) if op.has_effects else emit.pure(call)
    if len(types) == 1:
        return [(types[0], value)]
    extract = emit.effect if op.has_effects else emit.pure
    return [(type, extract(f"extractvalue {result} {value}, {i}")) for i, type in enumerate(types)]


def _unpacked(
    low: Lowering, registers: list[tuple[str, str]], element: Element, each: int
) -> list[str]:
    """Return the elements that registers hold."""
    emit, type = low.emit, llvm_type(element)
    found: list[str] = []
    for held, value in registers:
        if each == 1 and held == type:
            found.append(value)
            continue
        bits = {"float": "i32", "double": "i64"}.get(held, held)
        raw = value if bits == held else emit.pure(f"bitcast {held} {value} to {bits}")
        for number in range(each):
            moved = emit.shift("lshr", bits, raw, number * element.bits)
            found.append(_element(low, moved, bits, element))
    return found


def _element(low: Lowering, raw: str, bits: str, element: Element) -> str:
    emit, type = low.emit, llvm_type(element)
    if isinstance(element, Pointer):
        return emit.pure(f"inttoptr i64 {raw} to ptr addrspace(1)")
    if element.kind == "bool":
        return emit.pure(f"icmp ne {bits} {raw}, 0")
    narrow = f"i{element.bits}"
    have, want = int(bits[1:]), element.bits
    if have != want:
        raw = emit.trunc(raw, bits, narrow) if have > want else emit.zext(raw, bits, narrow)
    return raw if narrow == type else emit.pure(f"bitcast {narrow} {raw} to {type}")
