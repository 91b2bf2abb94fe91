"""What each instruction of PTX computes: one handler per name, run on registers.

A handler reads the operands as the types in the instruction's name and writes the first one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.ir import BF16, F16, F32, I1, I32, I64, U32, U64, Scalar
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
#: What compares say beside their condition: an unsigned one, or one that holds with a NaN, too.
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_JOINS = ("and", "or", "xor")
#: The largest finite numbers, where `.satfinite` stops; of a tf32, which is an f32, those of it.
_MOST = {F16: 65504.0, BF16: (2 - 2.0**-7) * 2.0**127, F32: (2 - 2.0**-10) * 2.0**127}
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
    """Keep a float between 0 and 1 (`.sat`), or from 0 on (`.relu`; a NaN stays)."""
    if "relu" in i.parts:
        return run.apply("maximum", element, value, run.machine.number(0.0, element))
    if "sat" not in i.parts or not element.is_float:
        return value
    zero, one = run.machine.number(0.0, element), run.machine.number(1.0, element)
    return run.apply("min", element, run.apply("max", element, value, zero), one)


def _clamped(run: Registers, value: Any, have: Scalar, to: Scalar) -> Any:
    """Return an integer in another type, the nearest number that this has."""
    low = -(1 << (to.bits - 1)) if to.kind == "int" else 0
    high = (1 << (to.bits - (to.kind == "int"))) - 1
    least = -(1 << (have.bits - 1)) if have.kind == "int" else 0
    most = (1 << (have.bits - (have.kind == "int"))) - 1
    if low > least:
        value = run.apply("max", have, value, run.machine.number(low, have))
    if high < most:
        value = run.apply("min", have, value, run.machine.number(high, have))
    return run.machine.convert(value, have, to, "rtne")


def _clamped_sum(run: Registers, i: Instruction, inputs: list[Any]) -> Any:
    """add.sat.s32 and sub.sat.s32."""
    if types_of(i) != ["s32"]:
        raise run.fail(f"'{i.line}'")
    wide = [run.machine.convert(x, I32, I64, "rtne") for x in inputs]
    return _clamped(run, run.apply(i.base, I64, *wide), I64, I32)


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
        if "sat" in i.parts and element.kind == "int":
            return _clamped_sum(run, i, inputs)
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
    if "sat" in i.parts:
        raise run.fail(f"'.sat' of '{i.line}'")
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
    if "rna" in i.parts or types[0] == "tf32":
        _to_tf32(run, i)
        return
    pair, from_pair = PAIRS.get(to), PAIRS.get(source)
    if pair is not None and from_pair is not None:
        held = UNSIGNED[from_pair.bits * 2]
        word = run.operand(i.operands[1], held)
        amount = run.machine.number(from_pair.bits, held)
        parts = [
            run.read(Held(x, held), from_pair) for x in (word, run.apply("shr", held, word, amount))
        ]
        _convert_two(run, i, parts, from_pair, pair, rounding)
    elif pair is not None and len(i.operands) == 3:
        element = run.type_of(i)
        high, low = (run.operand(word, element) for word in i.operands[1:3])
        _convert_two(run, i, [low, high], element, pair, rounding)
    elif pair is not None:
        raise run.fail(f"'{i.line}'")
    else:
        _convert_one(run, i, TYPES[to], rounding)


def _convert_two(
    run: Registers, i: Instruction, values: list[Any], have: Scalar, want: Scalar, rounding: str
) -> None:
    inputs = [_saturated(run, i, x, have) for x in values]
    parts = [_finite(run, i, run.machine.convert(x, have, want, rounding), want) for x in inputs]
    bits = UNSIGNED[want.bits * 2]
    run.write(i, run.read(Held(run.joined(parts, want), U32), bits), bits)


def _finite(run: Registers, i: Instruction, value: Any, element: Scalar) -> Any:
    """Keep a float among those that are finite (`.satfinite`; floats of 8 bits are already)."""
    most = _MOST.get(element)
    if "satfinite" not in i.parts or most is None:
        return value
    number = run.machine.number
    value = run.apply("minimum", element, value, number(most, element))
    return run.apply("maximum", element, value, number(-most, element))


def _convert_one(run: Registers, i: Instruction, want: Scalar, rounding: str) -> None:
    have = run.type_of(i)
    if rounding == "rtz" and not have.is_float:
        raise run.fail(f"'.rz' of '{i.line}'")
    value = run.operand(i.operands[1], have)
    for mode, row in _ROUNDINGS.items():
        if mode in i.parts and have.is_float:
            value = run.apply(row, have, value)
    if "sat" in i.parts and have.is_integer and want.is_integer:
        value = _clamped(run, value, have, want)
    elif have != want:
        value = run.machine.convert(value, have, want, rounding)
    value = _finite(run, i, _saturated(run, i, value, want), want)
    if want.kind == "int" and want.bits < 32:  # a register that is wider holds the sign
        value, want = run.machine.convert(value, want, I32, "rtne"), I32
    run.write(i, value, want)


def _to_tf32(run: Registers, i: Instruction) -> None:
    """cvt.rna.tf32.f32: 10 bits of the fraction stay, halves go away from zero."""
    how = {"rna", "rn", "rz"} & {*i.parts}
    if types_of(i) != ["tf32", "f32"] or not how:
        raise run.fail(f"'{i.line}'")
    value, number = _saturated(run, i, run.operand(i.operands[1], F32), F32), run.machine.number
    word = run.read(Held(value, F32), U32)
    half = number({"rna": 0x1000, "rn": 0xFFF, "rz": 0}[how.pop()], U32)
    if "rn" in i.parts:  # to even: one more where the last bit that stays is set
        last = run.apply("and", U32, run.apply("shr", U32, word, number(13, U32)), number(1, U32))
        half = run.apply("add", U32, half, last)
    size = run.apply("and", U32, word, number(0x7FFFFFFF, U32))
    finite = run.apply("lt", U32, size, number(0x7F800000, U32))
    kept = run.apply("and", U32, run.apply("add", U32, word, half), number(0xFFFFE000, U32))
    kept = run.read(Held(run.machine.select(finite, kept, word), U32), F32)
    run.write(i, _finite(run, i, kept, F32), F32)


def _compare(run: Registers, i: Instruction) -> None:
    """setp: a condition, alone or joined with another predicate, and perhaps its opposite."""
    element = run.type_of(i)
    word = i.parts[1]
    how = word if word in _COMPARES else _UNSIGNED.get(word) or word.removesuffix("u")
    a, b = (run.operand(word, element) for word in i.operands[1:3])
    if word in ("num", "nan"):
        compared = run.apply("ne" if word == "nan" else "eq", I1, *_unordered(run, element, a, b))
    elif how not in _COMPARES:
        raise run.fail(f"'{i.line}'")
    else:
        compared = run.apply(how, element, a, b)
        if element.is_float and (word.endswith("u") or word == "ne"):
            nan, none = _unordered(run, element, a, b)
            odd = run.apply("ne", I1, nan, none)
            ordered = run.apply("xor", I1, odd, run.machine.number(1, I1))
            together = "or" if word.endswith("u") else "and"
            compared = run.apply(together, I1, compared, odd if together == "or" else ordered)
    join = next((part for part in i.parts[2:] if part in _JOINS), "")
    if bool(join) != (len(i.operands) == 4):
        raise run.fail(f"'{i.line}'")
    first, _, second = i.operands[0].partition("|")
    ways = {first.strip(): compared}
    if second:
        ways[second.strip()] = run.apply("xor", I1, compared, run.machine.number(1, I1))
    if join:  # with what a predicate was before: it may be one of those that are written
        other = run.operand(i.operands[3], I1)
        ways = {name: run.apply(join, I1, found, other) for name, found in ways.items()}
    run.write_each(i, ways, I1)


def _unordered(run: Registers, element: Scalar, a: Any, b: Any) -> tuple[Any, Any]:
    """Return whether one of two floats is a NaN, and a predicate that never holds."""
    odd = run.apply("or", I1, *(run.apply("ne", element, x, x) for x in (a, b)))
    return odd, run.machine.number(0, I1)


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
    """prmt: four bytes picked from eight, or their signs."""
    wide = _beside(run, i.operands[1], i.operands[2])
    selector = run.operand(i.operands[3], U32)
    number = run.machine.number
    total = number(0, U32)
    for place in range(4):
        pick = run.apply("shr", U32, selector, number(4 * place, U32))
        byte = run.apply("and", U32, pick, number(7, U32))
        amount = run.apply("mul", U32, byte, number(8, U32))
        moved = run.apply("shr", U64, wide, run.machine.convert(amount, U32, U64, "rtne"))
        byte = run.apply("and", U32, run.machine.convert(moved, U64, U32, "rtne"), number(255, U32))
        sign = run.apply("mul", U32, run.apply("shr", U32, byte, number(7, U32)), number(255, U32))
        signs = run.apply("ne", U32, run.apply("and", U32, pick, number(8, U32)), number(0, U32))
        picked = run.machine.select(signs, sign, byte)
        total = run.apply("or", U32, total, run.apply("shl", U32, picked, number(8 * place, U32)))
    run.write(i, total, U32)


def _beside(run: Registers, low: str, high: str) -> Any:
    """Return two words of 32 bits as one of 64."""
    parts = [run.machine.convert(run.operand(w, U32), U32, U64, "rtne") for w in (low, high)]
    moved = run.apply("shl", U64, parts[1], run.machine.number(32, U64))
    return run.apply("or", U64, parts[0], moved)


def _up_to(run: Registers, word: str, most: int) -> Any:
    """Return an amount in 64 bits: the low byte of an operand, at most so much."""
    amount = run.apply("and", U32, run.operand(word, U32), run.machine.number(0xFF, U32))
    amount = run.apply("min", U32, amount, run.machine.number(most, U32))
    return run.machine.convert(amount, U32, U64, "rtne")


def _funnel(run: Registers, i: Instruction) -> None:
    """shf: 32 of 64 bits that are shifted by an amount modulo 32, or of at most 32."""
    wide = _beside(run, i.operands[1], i.operands[2])
    amount, number = run.operand(i.operands[3], U32), run.machine.number
    if "wrap" in i.parts:
        amount = run.apply("and", U32, amount, number(31, U32))
    elif "clamp" in i.parts:
        amount = run.apply("min", U32, amount, number(32, U32))
    else:
        raise run.fail(f"'{i.line}'")
    amount = run.machine.convert(amount, U32, U64, "rtne")
    left = "l" in i.parts
    moved = run.apply("shl" if left else "shr", U64, wide, amount)
    moved = run.apply("shr", U64, moved, number(32, U64)) if left else moved
    run.write(i, run.machine.convert(moved, U64, U32, "rtne"), U32)


def _low_bits(run: Registers, count: Any) -> Any:
    """Return so many ones at the low end of 64 bits."""
    one = run.machine.number(1, U64)
    return run.apply("sub", U64, run.apply("shl", U64, one, count), one)


def _insert(run: Registers, i: Instruction) -> None:
    """bfi.b32: the low bits of the first operand, somewhere in the second."""
    if run.type_of(i) != U32:
        raise run.fail(f"'{i.line}'")
    new, old = (run.machine.convert(run.operand(w, U32), U32, U64, "rtne") for w in i.operands[1:3])
    start, length = _up_to(run, i.operands[3], 32), _up_to(run, i.operands[4], 32)
    field = run.apply("shl", U64, _low_bits(run, length), start)
    new = run.apply("and", U64, run.apply("shl", U64, new, start), field)
    rest = run.apply("xor", U64, field, run.machine.number((1 << 64) - 1, U64))
    total = run.apply("or", U64, new, run.apply("and", U64, old, rest))
    run.write(i, run.machine.convert(total, U64, U32, "rtne"), U32)


def _extract(run: Registers, i: Instruction) -> None:
    """bfe: a run of bits, with the sign of the type; it ends at the last bit that there is."""
    element, number = run.type_of(i), run.machine.number
    if element.bits not in (32, 64):
        raise run.fail(f"'{i.line}'")
    wide = I64 if element.kind == "int" else U64
    value = run.machine.convert(run.operand(i.operands[1], element), element, wide, "rtne")
    start, length = _up_to(run, i.operands[2], 64), _up_to(run, i.operands[3], 64)
    value = run.apply("shr", wide, value, run.read(Held(start, U64), wide))
    rest = run.apply("sub", U64, number(64, U64), length)
    rest = run.read(Held(rest, U64), wide)
    value = run.apply("shr", wide, run.apply("shl", wide, value, rest), rest)
    nothing = run.apply("eq", U64, length, number(0, U64))
    value = run.machine.select(nothing, number(0, wide), value)
    run.write(i, run.machine.convert(value, wide, element, "rtne"), element)


def _sum_of_bytes(run: Registers, i: Instruction) -> None:
    """dp4a: four products of bytes, added to a number."""
    types = types_of(i)
    if len(types) != 2 or not {*types} <= {"u32", "s32"}:
        raise run.fail(f"'{i.line}'")
    total = run.operand(i.operands[3], I32)
    for place in range(0, 32, 8):
        parts: list[Any] = []
        for word, type in zip(i.operands[1:3], types, strict=True):
            held = TYPES[type]
            up = run.apply(
                "shl", held, run.operand(word, held), run.machine.number(24 - place, held)
            )
            byte = run.apply("shr", held, up, run.machine.number(24, held))
            parts.append(run.read(Held(byte, held), I32))
        total = run.apply("add", I32, total, run.apply("mul", I32, *parts))
    run.write(i, total, I32)


def check_modifiers(run: Registers, i: Instruction) -> None:
    """Raise TargetError where an instruction's name says what no handler knows.

    What is not looked at would be computed as if it were not there.
    """
    known = _MODIFIERS.get(i.base, frozenset())
    for part in i.parts[1:]:
        if part not in TYPES and part not in PAIRS and part not in known:
            raise run.fail(f"'.{part}' of '{i.line}'")


Handler = Callable[[Registers, Instruction], None]
#: What computes an instruction, and how many operands it has, the result among them.
HANDLERS: dict[str, tuple[Handler, int]] = {
    **dict.fromkeys([*_ONE_FLOAT, *_ANY, *_BITS, "rcp", "not"], (_simple, 2)),
    **dict.fromkeys([*_TWO, "copysign"], (_simple, 3)),
    "fma": (_simple, 4), "mul": (_multiply, 3), "mad": (_multiply, 4), "mov": (_move, 2),
    "cvt": (_convert, 2), "setp": (_compare, 3), "selp": (_choose, 4),
    "lop3": (_three_inputs, 5), "prmt": (_permute, 4), "bfe": (_extract, 4), "bfi": (_insert, 5),
    "shf": (_funnel, 4), "dp4a": (_sum_of_bytes, 4),
}  # fmt: skip
_NEAR = ("approx", "full", "ftz", "rn")
#: What an instruction's name may say beside types. Subnormals are kept (`ftz`), and what is
#: approximate on a chip is exact.
_MODIFIERS: dict[str, frozenset[str]] = {
    **dict.fromkeys([*_ONE_FLOAT, "rcp", "div"], frozenset(_NEAR)),
    **dict.fromkeys(["abs", "neg"], frozenset({"ftz"})),
    **dict.fromkeys(["add", "sub"], frozenset({"rn", "ftz", "sat", "noftz"})),
    **dict.fromkeys(["min", "max"], frozenset({"ftz", "NaN"})),
    "fma": frozenset({"rn", "ftz", "sat", "relu"}),
    **dict.fromkeys(["mul", "mad"], frozenset({"rn", "ftz", "sat", "lo", "hi", "wide"})),
    "cvt": frozenset({"rn", "rz", "rna", "ftz", "sat", "satfinite", "relu", *_ROUNDINGS}),
    "setp": frozenset({"ftz", "num", "nan", *_COMPARES, *_UNSIGNED, *_JOINS,
                       *(f"{how}u" for how in _COMPARES)}),
    "shf": frozenset({"l", "r", "wrap", "clamp"}),
}  # fmt: skip
