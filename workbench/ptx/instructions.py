"""What each instruction of PTX computes: one handler per name, run on registers.

A handler reads the operands as the types in the instruction's name and writes the first one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.ir import I1, U16, U32, Scalar
from workbench.ptx.reading import Instruction, members_of
from workbench.ptx.registers import PAIRS, SIGNED, TYPES, UNSIGNED, Held, Registers, types_of

_ONE_FLOAT = {
    "ex2": "exp2", "lg2": "log2", "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin", "cos": "cos",
    "tanh": "tanh",
}  # fmt: skip
_ANY = {"abs": "abs", "neg": "neg"}
_TWO = {"add": "add", "sub": "sub", "min": "min", "max": "max", "div": "div", "rem": "rem",
        "and": "and", "or": "or", "xor": "xor", "shl": "shl", "shr": "shr"}  # fmt: skip
_BITS = {"popc": "popcount", "clz": "leading_zeros", "brev": "reverse_bits"}
_COMPARES = {"eq", "ne", "lt", "le", "gt", "ge"}
_ROUNDINGS = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
#: Instructions that compute nothing: order, prefetches, waiting.
NOTHING = ("griddepcontrol", "membar", "fence", "bar", "barrier", "nanosleep", "nop", "prefetch",
           "prefetchu", "discard", "pragma")  # fmt: skip


def _per_half(run: Registers, i: Instruction, compute: Callable[[Scalar, list[Any]], Any]) -> None:
    """Compute an instruction on its type, on both halves for `f16x2` and `bf16x2`."""
    word = types_of(i)[-1] if types_of(i) else "b32"
    element = PAIRS.get(word)
    if element is None:
        one = TYPES[word]
        run.write(i, compute(one, [run.operand(o, one) for o in i.operands[1:]]), one)
        return
    halves: list[Any] = []
    for shift in (0, 16):
        inputs = [run.half(run.operand(o, U32), shift, element) for o in i.operands[1:]]
        halves.append(compute(element, inputs))
    run.write(i, run.joined(halves, element), U32)


def _saturated(run: Registers, i: Instruction, value: Any, element: Scalar) -> Any:
    if "sat" not in i.parts or not element.is_float:
        return value
    zero, one = run.machine.number(0.0, element), run.machine.number(1.0, element)
    return run.apply("min", element, run.apply("max", element, value, zero), one)


def _simple(run: Registers, i: Instruction) -> None:
    base = i.base

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
        held = run.held[target]
        run.held[target] = Held(run.read(held, U32), U32)


def _multiply(run: Registers, i: Instruction) -> None:
    element = TYPES.get(types_of(i)[-1]) if types_of(i) else None
    if element is None or element.is_float:
        _simple(run, i)
        return
    a, b = (run.operand(word, element) for word in i.operands[1:3])
    if "wide" in i.parts:
        to = (SIGNED if element.kind == "int" else UNSIGNED).get(element.bits * 2)
        if to is None:
            raise run.fail(f"'{i.line}'")
        a, b = (run.machine.convert(x, element, to, "rtne") for x in (a, b))
        element = to
    value = run.apply("mulhi" if "hi" in i.parts else "mul", element, a, b)
    if i.base == "mad":
        value = run.apply("add", element, value, run.operand(i.operands[3], element))
    run.write(i, value, element)


def _move(run: Registers, i: Instruction) -> None:
    target, source = members_of(i.operands[0]), members_of(i.operands[1])
    element = run.type_of(i)
    if target is not None:
        bits = element.bits // len(target)
        word, part = run.operand(i.operands[1], element), UNSIGNED[bits]
        for number, name in enumerate(target):
            amount = run.machine.number(number * bits, element)
            moved = run.apply("shr", element, word, amount) if number else word
            run.write(i, run.read(Held(moved, element), part), part, name)
    elif source is not None:
        part = UNSIGNED[element.bits // len(source)]
        parts = [run.operand(word, part) for word in source]
        if element.bits > 32:
            raise run.fail(f"'{i.line}'")
        run.write(i, run.joined(parts, part), U32)
    else:
        run.write(i, run.operand(i.operands[1], element), element)


def _convert(run: Registers, i: Instruction) -> None:
    types = types_of(i)
    if len(types) < 2:
        raise run.fail(f"'{i.line}'")
    to, source = types[0], types[-1]
    rounding = "rtz" if "rz" in i.parts else "rtne"
    pair, from_pair = PAIRS.get(to), PAIRS.get(source)
    if pair is not None and from_pair is not None:
        word = run.operand(i.operands[1], U16)
        halves: list[Any] = []
        for shift in (0, 8):
            moved = run.apply("shr", U16, word, run.machine.number(shift, U16)) if shift else word
            value = run.read(Held(moved, U16), from_pair)
            halves.append(run.machine.convert(value, from_pair, pair, "rtne"))
        run.write(i, run.joined(halves, pair), U32)
    elif pair is not None and len(i.operands) == 3:
        element = run.type_of(i)
        high, low = (run.operand(word, element) for word in i.operands[1:3])
        parts = [run.machine.convert(x, element, pair, rounding) for x in (low, high)]
        word = run.joined(parts, pair)
        bits = pair.bits * 2
        run.write(i, run.read(Held(word, U32), UNSIGNED[bits]), UNSIGNED[bits])
    elif pair is not None:
        raise run.fail(f"'{i.line}'")
    else:
        have, want = run.type_of(i), TYPES[to]
        value = run.operand(i.operands[1], have)
        for mode, row in _ROUNDINGS.items():
            if mode in i.parts and have.is_float:
                value = run.apply(row, have, value)
        if have != want:
            value = run.machine.convert(value, have, want, rounding)
        run.write(i, _saturated(run, i, value, want), want)


def _compare(run: Registers, i: Instruction) -> None:
    element = run.type_of(i)
    how = i.parts[1].removesuffix("u")
    how = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(i.parts[1], how)
    if how not in _COMPARES:
        raise run.fail(f"'{i.line}'")
    a, b = (run.operand(word, element) for word in i.operands[1:3])
    run.write(i, run.apply(how, element, a, b), I1)


def _choose(run: Registers, i: Instruction) -> None:
    element = run.type_of(i)
    a, b = (run.operand(word, element) for word in i.operands[1:3])
    run.write(i, run.machine.select(run.operand(i.operands[3], I1), a, b), element)


def _three_inputs(run: Registers, i: Instruction) -> None:
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


def _permute(run: Registers, i: Instruction) -> None:
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


def _extract(run: Registers, i: Instruction) -> None:
    """bfe: a run of bits, with the sign of the type; position and length known now."""
    element = run.type_of(i)
    try:
        start, length = (int(word, 0) for word in i.operands[2:4])
    except ValueError:
        raise run.fail(f"'{i.line}'") from None
    value = run.operand(i.operands[1], element)
    up, down = element.bits - start - length, element.bits - length
    moved = run.apply("shl", element, value, run.machine.number(up, element))
    run.write(i, run.apply("shr", element, moved, run.machine.number(down, element)), element)


Handler = Callable[[Registers, Instruction], None]
#: What computes an instruction, and how many operands it has, the result among them.
HANDLERS: dict[str, tuple[Handler, int]] = {
    **dict.fromkeys([*_ONE_FLOAT, *_ANY, *_BITS, "rcp", "not"], (_simple, 2)),
    **dict.fromkeys([*_TWO, "copysign"], (_simple, 3)),
    "fma": (_simple, 4), "mul": (_multiply, 3), "mad": (_multiply, 4), "mov": (_move, 2),
    "cvt": (_convert, 2), "setp": (_compare, 3), "selp": (_choose, 4),
    "lop3": (_three_inputs, 5), "prmt": (_permute, 4), "bfe": (_extract, 4),
}  # fmt: skip
