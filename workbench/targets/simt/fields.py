"""Numbers that lie in fields of bytes, as halves: without a conversion for each of them.

Weights of 4 and 8 bits are made floats where they are multiplied, and chips convert integers slowly
(an H200 sixteen in a cycle, of 128 lanes). But a byte that is put under the byte 0x64 is the half
1024 + byte, and from there the number is one multiply-add away, which is exact:

    code   = (word & field) ^ sign         of four numbers; a signed field becomes biased
    halves = code under 0x64               two of them, spread
    number = halves * 2^(e - s) - constant

Two fields whose numbers become neighbours, as the halves of a byte do, are spread first:

    bytes  = one byte twice, or two
    halves = (bytes & fields) ^ signs ^ 0x6400

Two fields that are two bytes apart in a word are spread as they lie there.

Words of 32 bits have fields, too, from a bit on that may differ from element to element, if each
register knows its own: `(words >> i % 8 * 4) & 15`.

`x`, `x & 15`, `x >> 4`, `(x << 4) >> 4` and the like are fields; so is what a constant is added to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from workbench.analysis.bounds import EXACT, bounds
from workbench.analysis.tables import table_of
from workbench.ir import BF16, F16, Scalar, Value, element_of, shape_of
from workbench.layouts import LinearLayout
from workbench.ops import Cast, Constant, Elementwise
from workbench.targets.llvm.emit import Emitter, float_literal
from workbench.targets.simt.lowering import Lowering

#: The upper byte of the half 1024, whose last place is 1.
_HIGH, _FIRST = 0x64, 1024
#: That of the bfloat 128.
_HIGH_BFLOAT, _FIRST_BFLOAT = 0x43, 128
#: "add" or "sub", and of each of two numbers what is added or taken: registers of their type.
Beside = tuple[str, list[str]] | None


@dataclass(frozen=True)
class Field:
    """The number (bits start ... start + width - 1 of an element of root) * 2^scale + added.

    Elements have 8 bits, or 32.
    """

    root: Value
    start: int
    width: int
    signed: bool
    scale: int = 0
    added: int = 0
    #: What is added to `start`, for each element of its own: a table of constants.
    shifts: Value | None = None

    @property
    def range(self) -> tuple[int, int]:
        """The least and the largest number."""
        low = -(1 << self.width - 1) if self.signed else 0
        high = low + (1 << self.width) - 1
        return (low << self.scale) + self.added, (high << self.scale) + self.added


def field_of(value: Value) -> Field | None:
    """Return what a tile of integers is of the bytes of another; None if it is no field of them."""
    element, made = element_of(value.type), value.op
    if not isinstance(element, Scalar) or not element.is_integer or element.bits == 1:
        return None
    found = None
    if isinstance(made, Cast) and shape_of(value.type):
        found = field_of(made.source)
    elif isinstance(made, Elementwise) and len(made.inputs) == 2:
        found = _computed(made, element)
    if found is not None and _fits(found, element):
        return found
    if element.bits not in (8, 32) or not shape_of(value.type):
        return None
    return Field(value, 0, element.bits, element.kind == "int")


def _fits(field: Field, element: Scalar) -> bool:
    least = -(1 << element.bits - 1) if element.kind == "int" else 0
    low, high = field.range
    return least <= low and high < least + (1 << element.bits)


def _computed(op: Elementwise, element: Scalar) -> Field | None:
    """Return what a function of a field and a constant is."""
    first, second = op.inputs
    constant = second.op
    if not isinstance(constant, Constant):
        return None
    shifted = _shifted_apart(first) if op.function == "and" else None
    if shifted is not None:
        mask = int(constant.value) % (1 << element.bits)
        return _masked(shifted, mask, element) if mask >> shifted.width == 0 else None
    return _of_constant(op.function, field_of(first), int(constant.value), element)


def _of_constant(function: str, field: Field | None, by: int, element: Scalar) -> Field | None:
    if field is None:
        return None
    if function == "and" and not field.added:
        return _masked(field, by % (1 << element.bits), element)
    if function in ("add", "sub"):
        return replace(field, added=field.added + (by if function == "add" else -by))
    if field.added or by < 0:
        return None
    if function == "shl":
        # What leaves the type at its top is lost; what comes to lie there is its sign.
        top = field.width + field.scale + by
        width = min(field.width, element.bits - field.scale - by)
        signed = field.signed if top < element.bits else element.kind == "int"
        if width <= 0:
            return None
        return replace(field, width=width, signed=signed, scale=field.scale + by)
    if function == "shr":
        zeros = min(by, field.scale)
        lost = by - zeros
        if lost >= field.width:
            return None
        return replace(
            field, start=field.start + lost, width=field.width - lost, scale=field.scale - zeros
        )
    return None


def _shifted_apart(value: Value) -> Field | None:
    """Return the bits of words that are shifted down, each by a number that is known.

    Above them there may be anything: as many are meant as all elements have.
    """
    op = value.op
    if (
        not isinstance(op, Elementwise)
        or op.function != "shr"
        or isinstance(op.inputs[1].op, Constant)
    ):
        return None
    field, by = field_of(op.inputs[0]), table_of(op.inputs[1])
    if field is None or by is None or field.width != 32 or field.added or field.scale:
        return None
    least, most = int(by.min()), int(by.max())
    if least < 0 or most > 31:
        return None
    return replace(field, width=32 - most, signed=False, shifts=op.inputs[1])


def _masked(field: Field, mask: int, element: Scalar) -> Field | None:
    """Return the bits of a field under a mask whose ones are neighbours."""
    mask >>= field.scale
    first = (mask & -mask).bit_length() - 1
    end = mask.bit_length()
    if not 0 <= first < field.width or mask != (1 << end) - (1 << first):
        return None
    if field.signed and end > field.width:
        return None  # copies of the sign
    # A mask that goes on above the field finds zeros there: the highest bit is no sign.
    signed = element.kind == "int" and end + field.scale == element.bits and end <= field.width
    return replace(
        field, start=field.start + first, width=min(end, field.width) - first,
        signed=signed, scale=field.scale + first,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shifts:
    """By how much fields lie higher: by register, and whether threads shift by more than that."""

    by_register: tuple[int, ...]
    by_thread: bool


@dataclass(frozen=True, slots=True)
class _Number:
    """How the number of a field is made of it: under the byte `high`, from bit `start` on."""

    field: Field
    type: str
    high: int
    start: int
    #: What is added to the field's start.
    shifts: Shifts | None = None

    @property
    def mask(self) -> int:
        """The field's bits in a byte."""
        return ((1 << self.field.width) - 1) << self.start

    @property
    def sign(self) -> int:
        """What inverts a signed field's sign, which biases it."""
        return 1 << self.start + self.field.width - 1 if self.field.signed else 0

    @property
    def line(self) -> tuple[float, float]:
        """(factor, constant): what is under `high`, times factor, plus constant is the number."""
        field = self.field
        factor = 2.0 ** (field.scale - self.start)
        bias = (1 << field.width - 1) << field.scale if field.signed else 0
        first = _FIRST if self.type == "half" else _FIRST_BFLOAT
        return factor, field.added - bias - first * factor


def _number_of(low: Lowering, value: Value) -> _Number | None:
    """Return how a tile is made of fields; None if it is no cast of them to halves or bfloats.

    Bfloats have eight bits: 128 + the field, for fields of up to seven.
    """
    made = value.op
    if not isinstance(made, Cast) or made.to not in (F16, BF16) or not shape_of(value.type):
        return None
    field = field_of(made.source)
    if field is None or field.width > 8 or low.layout(value).registers() < 2:
        return None
    if low.layout(field.root) != low.layout(value):
        return None
    shifts = shifts_of(field, low.layout(value))
    if field.shifts is not None and shifts is None:
        return None
    starts = {field.start + shift for shift in (shifts.by_register if shifts else (0,))}
    if any(start % 8 + field.width > 8 for start in starts):
        return None
    numbers = [_of_byte(field, made.to, start % 8) for start in sorted(starts)]
    if made.to == F16:
        fits = not any(_beyond_half(part) for number in numbers for part in number.line)
    else:
        fits = field.width <= 7 and not any(map(_beyond_bfloat, numbers[0].line))
    return replace(numbers[0], field=field, shifts=shifts) if fits else None


def _of_byte(field: Field, to: Scalar, start: int) -> _Number:
    """Return how the number of a field from that bit of a byte on is made."""
    field = replace(field, start=start, shifts=None)
    if to == F16:
        return _Number(field, "half", _HIGH, start)
    return _Number(field, "bfloat", _HIGH_BFLOAT, 0)


def shifts_of(field: Field, layout: LinearLayout) -> Shifts | None:
    """Return what is added to a field's start; None if that is not a thread's and a register's."""
    table = None if field.shifts is None else table_of(field.shifts)
    if table is None:
        return None
    # Along axes where all shifts are alike, places behind the tile's end have these, too.
    for axis, (extent, padded) in enumerate(zip(layout.shape, layout.padded, strict=True)):
        first = table.take([0], axis)
        if extent != padded and not np.array_equal(np.broadcast_to(first, table.shape), table):
            return None
        table = first if extent != padded else table
    flat = np.broadcast_to(table, layout.padded).reshape(-1)
    threads = np.zeros(1, np.int64)
    for basis in (*layout.flat("lane"), *layout.flat("warp")):
        threads = np.concatenate([threads, threads ^ basis])
    found = flat[threads[:, None] ^ np.array(layout.table("register"))[None, :]]
    own = found[:, :1] - found[:1, :1]
    if not np.array_equal(own + found[:1], found) or own.min() < 0 or found[0].min() < 0:
        return None
    return Shifts(tuple(map(int, found[0])), bool(own.any()))


def lies_apart(field: Field, axis: int, distance: int) -> bool:
    """Say whether the fields of elements so far apart along an axis lie two bytes apart."""
    table = None if field.shifts is None else table_of(field.shifts)
    if table is None or table.shape[axis] % (2 * distance):
        return False
    pairs = np.moveaxis(table, axis, -1).reshape(-1, 2, distance)
    return bool(np.all(pairs[:, 1] - pairs[:, 0] == 16))


def _place_of(low: Lowering, number: _Number, register: int) -> tuple[str, int, _Number]:
    """Return a word, which of its bytes a register's number is made of, and how."""
    field = number.field
    root = low.register(field.root, register)
    if element_of(field.root.type).bits == 8:
        return *low.packing.byte_of_word(root), number
    start, shifts = field.start, number.shifts
    if shifts is not None and field.shifts is not None:
        start += shifts.by_register[register]
        if shifts.by_thread:
            by = low.register(field.shifts, 0)
            if shifts.by_register[0]:
                by = low.emit.add("i32", by, str(-shifts.by_register[0]))
            root = low.emit.pure(f"lshr i32 {root}, {by}")
    to = F16 if number.type == "half" else BF16
    return root, start // 8, _of_byte(field, to, start % 8)


def numbers_of_field(low: Lowering, op: Cast) -> list[str | None] | None:
    """Return the registers of a cast of a field to halves or bfloats; None if it is none."""
    number = _number_of(low, op.result)
    if number is None:
        return None
    if element_of(number.field.root.type).bits != 8:
        return _numbers_of_words(low, number, low.live(op.result))
    live, found, emit = set(low.live(op.result)), list[str | None](), low.emit
    places = low.packing.bytes_of_words([r or "0" for r in low.registers(number.field.root)])
    for register, (word, place) in enumerate(places):
        if register not in live:
            found.append(None)
            continue
        if number.field.width < 8 and places[register ^ 1] == (word, place ^ 2):
            pair, which = _spread_apart(low, number, word, place % 2), place // 2
        else:
            pair, which = (
                _widened(low, _code(emit, number, word), place // 2, number.high),
                place % 2,
            )
        made = _on_lines(low, pair, [number, number])
        found.append(low.packing.unpack(made, number.type)[which])
    return found


def differences_of_fields(low: Lowering, op: Elementwise) -> list[str | None] | None:
    """Return the registers of a field of words less (or plus) a small integer, in its type.

    What is taken from all numbers of a column is taken from the constant of their lines, which is
    as exact: None if it were not, or where there is no field of words.
    """
    number = _number_of(low, op.inputs[0]) if op.function in ("add", "sub") else None
    if number is None or element_of(number.field.root.type).bits == 8:
        return None
    second = op.inputs[1]
    made = second.op
    while made is not None and made.moves:
        made = made.operands[0].op
    small = bounds(made.source) if isinstance(made, Cast) else None
    if small is None:
        return None
    most = EXACT[F16 if number.type == "half" else BF16]
    if max(map(abs, number.field.range)) > most:  # it is rounded before anything is taken from it
        return None
    starts = range(8 - number.field.width + 1) if number.type == "half" else (0,)
    lines = [replace(number, start=start).line for start in starts]
    if any(abs(constant) + max(map(abs, small)) > most for _, constant in lines):
        return None
    return _numbers_of_words(low, number, low.live(op.result), op)


def _numbers_of_words(
    low: Lowering, number: _Number, live: Sequence[int], less: Elementwise | None = None
) -> list[str | None]:
    """Return registers of a cast of fields of words: two at a time; `less`: what follows it."""
    found: list[str | None] = [None] * low.layout(number.field.root).registers()
    for first in sorted({register & ~1 for register in live}):
        pair = [register if register in live else register ^ 1 for register in (first, first + 1)]
        places = [_place_of(low, number, register) for register in pair]
        beside = None
        if less is not None:
            beside = less.function, [low.register(less.inputs[1], register) for register in pair]
        (word, place, one), (other, there, second) = places
        if word == other and place ^ there == 2 and one == second:
            back = 1 if place < 2 else -1
            if beside is not None:
                beside = beside[0], beside[1][::back]
            codes = _spread_apart(low, one, word, place % 2)
            made = low.packing.unpack(_on_lines(low, codes, [one, one], beside), one.type)[::back]
        else:
            made = _side_by_side(low, places, beside)
        found[first : first + 2] = made
    return found


def _side_by_side(
    low: Lowering, places: Sequence[tuple[str, int, _Number]], beside: Beside = None
) -> list[str]:
    """Return the numbers of two bytes of words, made in one word."""
    numbers = [number for _, _, number in places]
    first, second = numbers
    bytes_ = [(_shifted(low.emit, number, word), place) for word, place, number in places]
    pair = spread(low.emit, bytes_)
    fields = low.chip.held(low.emit, first.mask | second.mask << 16)
    pair = low.emit.bitwise("and", "i32", pair, fields)
    codes = [number.high << 8 | number.sign for number in numbers]
    pair = low.emit.bitwise("xor", "i32", pair, str(codes[0] | codes[1] << 16))
    return low.packing.unpack(_on_lines(low, pair, numbers, beside), first.type)


def neighbours_of_fields(
    low: Lowering, values: Sequence[Value], registers: Sequence[int]
) -> dict[int, list[str]] | None:
    """Return some registers of two tiles of numbers, made side by side in a word.

    None if they are not both casts of fields to one type.
    """
    numbers = [_number_of(low, value) for value in values]
    first, second = numbers
    if first is None or second is None or first.type != second.type:
        return None
    found: dict[int, list[str]] = {}
    for register in registers:
        places = [_place_of(low, number, register) for number in (first, second)]
        found[register] = _side_by_side(low, places)
    return found


def _beyond_half(number: float) -> bool:
    with np.errstate(over="ignore"):
        return float(np.float16(number)) != number


def _beyond_bfloat(number: float) -> bool:
    return bool(np.float32(number).view(np.uint32) & 0xFFFF)


def _shifted(emit: Emitter, number: _Number, word: str) -> str:
    """Return a word whose bytes have the field where its number wants it."""
    return emit.shift("lshr", "i32", word, number.field.start - number.start)


def _code(emit: Emitter, number: _Number, word: str) -> str:
    """Return a word of four bytes that hold a field alone, its sign inverted."""
    code = _shifted(emit, number, word)
    if number.mask != 0xFF:
        code = emit.bitwise("and", "i32", code, str(four_of(number.mask)))
    return emit.bitwise("xor", "i32", code, str(four_of(number.sign))) if number.sign else code


def _spread_apart(low: Lowering, number: _Number, word: str, place: int) -> str:
    """Return the numbers of the bytes `place` and `place` + 2 of a word, as codes of halves."""
    emit, first = low.emit, number.field.start - number.start
    held = emit.shift("lshr", "i32", word, 8 * place)
    if first:
        held = emit.shift("lshr", "i32", held, first)
    fields = low.chip.held(emit, number.mask | number.mask << 16)
    code = number.high << 8 | number.sign
    held = emit.bitwise("and", "i32", held, fields)
    return emit.bitwise("xor", "i32", held, str(code | code << 16))


def four_of(byte: int) -> int:
    """Return a word of four such bytes, as LLVM writes an i32."""
    word = byte * 0x01010101
    return word - (1 << 32) if word >> 31 else word


def _widened(low: Lowering, word: str, half: int, high: int) -> str:
    """Return two of a word's bytes, each under the byte `high`, as an i32."""
    emit = low.emit
    codes = emit.pure(f"bitcast i32 {word} to <4 x i8>")
    above = emit.pure(f"bitcast i32 {low.chip.held(emit, four_of(high))} to <4 x i8>")
    order = ", ".join(f"i32 {i}" for i in (2 * half, 4, 2 * half + 1, 4))
    both = emit.pure(f"shufflevector <4 x i8> {codes}, <4 x i8> {above}, <4 x i32> <{order}>")
    return emit.pure(f"bitcast <4 x i8> {both} to i32")


def spread(emit: Emitter, bytes_: Sequence[tuple[str, int]]) -> str:
    """Return an i32 that has one byte of a word in its lowest, the other's in its third place.

    What is beside them are copies: no byte may be undefined.
    """
    first, second = (emit.pure(f"bitcast i32 {word} to <4 x i8>") for word, _ in bytes_)
    low, high = bytes_[0][1], 4 + bytes_[1][1]
    order = ", ".join(f"i32 {i}" for i in (low, low, high, high))
    both = emit.pure(f"shufflevector <4 x i8> {first}, <4 x i8> {second}, <4 x i32> <{order}>")
    return emit.pure(f"bitcast <4 x i8> {both} to i32")


def _on_lines(low: Lowering, word: str, numbers: Sequence[_Number], beside: Beside = None) -> str:
    """Return the two numbers of which a word has the codes; `beside`: less or plus these."""
    emit, type = low.emit, numbers[0].type
    kind = f"<2 x {type}>"
    factors, constants = zip(*(number.line for number in numbers), strict=True)
    made = emit.pure(f"bitcast i32 {word} to {kind}")
    if factors != (1.0, 1.0):  # exact, so it does not matter whether the two are made one
        bits = [int(float_literal(factor, type)[3:], 16) for factor in factors]
        held = low.chip.held(emit, bits[0] | bits[1] << 16)
        by = emit.pure(f"bitcast i32 {held} to {kind}")
        made = emit.pure(f"fmul contract {kind} {made}, {by}")
    first, second = (f"{type} {float_literal(number, type)}" for number in constants)
    constant = f"<{first}, {second}>"
    if beside is not None:
        function, registers = beside
        other = emit.pure(f"bitcast i32 {low.packing.pack(registers, type)} to {kind}")
        constant = emit.pure(f"f{function} {kind} {constant}, {other}")
    made = emit.pure(f"fadd contract {kind} {made}, {constant}")
    return emit.pure(f"bitcast {kind} {made} to i32")


__all__ = [
    "Field",
    "differences_of_fields",
    "field_of",
    "four_of",
    "lies_apart",
    "neighbours_of_fields",
    "numbers_of_field",
    "shifts_of",
    "spread",
]
