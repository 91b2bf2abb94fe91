"""Changes of element type."""

from __future__ import annotations

import struct
from functools import partial

from workbench.ir import F16, F32, I1, Op, Pointer, Scalar, element_of, shape_of
from workbench.ops import Bitcast, Cast
from workbench.ops.small_floats import SMALL_FLOATS, SmallFloat
from workbench.source import TargetError
from workbench.targets.llvm.emit import Emitter, float_literal, is_integer
from workbench.targets.simt.bits import floats_of_bits
from workbench.targets.simt.fields import numbers_of_field
from workbench.targets.simt.hardware import GLOBAL, Hardware
from workbench.targets.simt.lowering import Lowering, llvm_type, zero
from workbench.targets.simt.narrow import WIDE, is_narrow, narrowed, widened
from workbench.targets.simt.rules import elementwise
from workbench.targets.simt.table import SIMT
from workbench.targets.simt.upper_halves import floats_of_halves

SIMT.layouts(Cast, Bitcast)(elementwise)


@SIMT.lower(Cast)
def lower_cast(low: Lowering, op: Cast) -> None:
    source, to = element_of(op.source.type), op.to
    assert isinstance(source, Scalar)
    integers = source.kind == "int" and to.kind == "int"
    if integers and to.bits > source.bits >= 32 and _is_exact(op):
        # A value known not to wrap may be widened in two parts.
        def widened(r: int) -> tuple[str, int]:
            root, constant = low.pair(op.source, r)
            return low.emit.sext(root, llvm_type(source), llvm_type(to)), constant

        low.set_lazy(op.result, widened)
        return
    known = numbers_of_field(low, op)
    if known is not None:
        low.set_registers(op.result, known)
        return
    if to.bits == 8 and to.is_float and shape_of(op.result.type):
        _to_small_floats(low, op, source)
        return
    packed = _to_bytes(low, op, source)
    if packed is not None:
        low.set_registers(op.result, packed)
        return

    def register(r: int) -> str:
        return cast(low, low.register(op.source, r), source, to, op)

    if _rounds_in_pairs(low, op) and _round_in_pairs(low, op):
        return
    if to.is_float and shape_of(op.result.type):
        live = set(low.live(op.result))
        count = low.layout(op.result).registers()
        pairs = _decoded_in_pairs(low, op, source)
        low.set_registers(op.result, [
            None if r not in live else register(r) if pairs is None
            else cast(low, pairs[r], F16, to, op) for r in range(count)
        ])  # fmt: skip
    else:
        low.set_lazy(op.result, register)


def _decoded_in_pairs(low: Lowering, op: Cast, source: Scalar) -> list[str] | None:
    """Return a tile of 8-bit floats as halves, if the chip decodes two at a time."""
    if not source.is_float or source.bits != 8:
        return None
    emit = low.emit
    found: list[str] = []
    for word, place in low.packing.bytes_of_words(
        [code or "0" for code in low.registers(op.source)]
    ):
        shifted = emit.shift("lshr", "i32", word, 16 * (place // 2))
        both = low.chip.decode(emit, emit.trunc(shifted, "i32", "i16"), source)
        if both is None:
            return None
        found.append(emit.elements("half", 2, both)[place % 2])
    return found


def _rounds_in_pairs(low: Lowering, op: Op) -> bool:
    """Say whether an op makes a tile of fp32 numbers one of 16 bits that are rounded two at a time.

    Of two instructions that round one each ptxas makes such a one, too, but puts it where it likes:
    in front of the wait for wgmma whose sums are rounded. Then these are wrong (of a product that
    was written in two parts), or every product waits for the one before (C7514).
    """
    if not isinstance(op, Cast) or op.to.bits != 16 or not op.to.is_float:
        return False
    return element_of(op.source.type) == F32 and low.chip.rounds_pairs and not _truncates(op, 32)


def _round_in_pairs(low: Lowering, op: Cast) -> bool:
    """Round a tile two numbers at a time; False if there is one alone."""
    live, type = low.live(op.result), llvm_type(op.to)
    if len(live) < 2:
        return False
    pairs = [(live[i : i + 2] * 2)[:2] for i in range(0, len(live), 2)]
    words = [
        low.chip.rounded_pair(low.emit, [low.register(op.source, r) for r in pair], type)
        for pair in pairs
    ]
    count = low.layout(op.result).registers()
    if live == tuple(range(count)) and not count % 2:
        low.set_words(op.result, words)
        return True
    registers: list[str | None] = [None] * count
    for pair, word in zip(pairs, words, strict=True):
        for r, number in zip(pair, low.packing.unpack(word, type), strict=True):
            registers[r] = number
    low.set_registers(op.result, registers)
    return True


def _is_exact(op: Cast) -> bool:
    from workbench.ops import Constant, Elementwise, Iota, NumPrograms, ProgramId

    made = op.source.op
    return isinstance(made, Iota | ProgramId | NumPrograms | Constant) or (
        isinstance(made, Elementwise) and made.no_wrap
    )


def cast(low: Lowering, value: str, source: Scalar, to: Scalar, op: Op) -> str:
    """Return a number in another type; see ops.Cast for the rules."""
    emit = low.emit
    if source == to:
        return value
    from_type, to_type = llvm_type(source), llvm_type(to)
    if source.is_float and source.bits == 8:
        return cast(low, _from_small_float(low, value, source), F16, to, op)
    if to == I1:
        compare = f"fcmp une {from_type}" if source.is_float else f"icmp ne {from_type}"
        return emit.pure(f"{compare} {value}, {zero(from_type)}")
    if source.is_float and to.is_float:
        return _float_to_float(low, value, from_type, to, op)
    if source.is_float:
        return _float_to_integer(low, value, from_type, to)
    if to.is_float:
        return _integer_to_float(low, value, source, to, op)
    if to.bits < source.bits:
        if is_narrow(to) and not is_narrow(source):
            return narrowed(emit, low.chip, value, from_type, to_type)
        return emit.trunc(value, from_type, to_type)
    if source.kind == "int":
        return emit.sext(value, from_type, to_type)
    return emit.zext(value, from_type, to_type)


def cast_float(low: Lowering, value: str, source: Scalar, to: Scalar) -> str:
    """Return a float in another float type, rounded to nearest even."""
    if source.bits == 8:
        value, source = _from_small_float(low, value, source), F16
    return _float_to_float(low, value, llvm_type(source), to, None)


_WIDTHS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


def _float_to_float(low: Lowering, value: str, from_type: str, to: Scalar, op: Op | None) -> str:
    emit, to_type = low.emit, llvm_type(to)
    truncates = _truncates(op, _WIDTHS[from_type])
    if to.bits == 8:
        single = _single(low, value, from_type)
        return _small_floats(low, [single, "0.0"], to, truncates=truncates)[0]
    if from_type == to_type:
        return value
    if _WIDTHS[from_type] == 16 and _WIDTHS[to_type] == 16:
        value, from_type = emit.pure(f"fpext {from_type} {value} to float"), "float"
    if _WIDTHS[to_type] > _WIDTHS[from_type]:
        return emit.pure(f"fpext {from_type} {value} to {to_type}")
    if from_type == "double" and to_type == "bfloat":
        # No instruction goes there in one step.
        cut = low.chip.toward_zero if truncates else partial(_round_to_odd, low.chip)
        value, from_type = cut(emit, value, "double", "float"), "float"
    if truncates:
        return low.chip.toward_zero(emit, value, from_type, to_type)
    return emit.pure(f"fptrunc {from_type} {value} to {to_type}")


def _truncates(op: Op | None, bits: int) -> bool:
    """Say whether a cast from a float of so many bits rounds toward zero."""
    return isinstance(op, Cast) and op.rounding == "rtz" and op.to.bits < bits


def _single(low: Lowering, value: str, from_type: str) -> str:
    """Return a float as an f32 that rounds to narrower types as it does itself."""
    if from_type == "float":
        return value
    if from_type == "double":
        return _round_to_odd(low.chip, low.emit, value, "double", "float")
    return low.emit.pure(f"fpext {from_type} {value} to float")


def _round_to_odd(chip: Hardware, emit: Emitter, value: str, from_type: str, to_type: str) -> str:
    """Truncate f64 to f32, the last bit set where that lost something.

    Rounded to nearest twice, what is beside a tie could become one.
    """
    cut = chip.toward_zero(emit, value, from_type, to_type)
    back = emit.pure(f"fpext {to_type} {cut} to {from_type}")
    lost = emit.zext(emit.pure(f"fcmp une {from_type} {back}, {value}"), "i1", "i32")
    bits = emit.bitwise("or", "i32", emit.pure(f"bitcast {to_type} {cut} to i32"), lost)
    return emit.pure(f"bitcast i32 {bits} to {to_type}")


def _float_to_integer(low: Lowering, value: str, from_type: str, to: Scalar) -> str:
    """Truncate, saturating; NaN gives 0 (LLVM's fpto*i.sat)."""
    emit, to_type = low.emit, llvm_type(to)
    if from_type in ("half", "bfloat"):
        value, from_type = emit.pure(f"fpext {from_type} {value} to float"), "float"
    letter = "s" if to.kind == "int" else "u"
    if from_type == "float" and to.bits <= 32:
        found = low.chip.to_integer(emit, value, signed=letter == "s")
        if found is not None:
            return _saturated(low, found, to)
    suffix = {"float": "f32", "double": "f64"}[from_type]
    name = f"llvm.fpto{letter}i.sat.{to_type}.{suffix}"
    return emit.call(to_type, name, f"{from_type} {value}", from_type)


def _saturated(low: Lowering, value: str, to: Scalar) -> str:
    """Return an i32, signed as a narrower integer is, in that."""
    emit, to_type, kept = low.emit, llvm_type(to), 1 << to.bits
    if to.bits == 32:
        return value
    bounds = (("smax", -kept // 2), ("smin", kept // 2 - 1))
    for word, bound in bounds if to.kind == "int" else (("umin", kept - 1),):
        value = emit.call("i32", f"llvm.{word}.i32", f"i32 {value}, i32 {bound}", "i32, i32")
    if is_narrow(to):
        return narrowed(emit, low.chip, value, "i32", to_type)
    return emit.trunc(value, "i32", to_type)


def _integer_to_float(low: Lowering, value: str, source: Scalar, to: Scalar, op: Op) -> str:
    emit, to_type = low.emit, llvm_type(to)
    word, type = "sitofp" if source.kind == "int" else "uitofp", llvm_type(source)
    if type == "i8":  # LLVM would go through 16 bits, arithmetic in front included
        (value,), type = widened(emit, "cast", source, [value]), WIDE
    if to.bits == 8 or to_type == "bfloat":
        single = emit.pure(f"{word} {type} {value} to float")
        return _float_to_float(low, single, "float", to, op)
    return emit.pure(f"{word} {type} {value} to {to_type}")


def _small_float_pair(low: Lowering, pair: list[str], to: Scalar) -> str:
    """Return two f32 as two 8-bit floats in an i16, the first in the low byte; saturating."""
    return low.chip.encode(low.emit, pair, to) or _small_float_bits(low, pair, to)


def _small_floats(low: Lowering, pair: list[str], to: Scalar, *, truncates: bool) -> list[str]:
    """Return two f32 as two 8-bit floats, each an i8."""
    emit = low.emit
    both = _small_float_pair(low, pair, to)
    codes = [
        emit.pure(f"trunc i16 {both} to i8"),
        emit.pure(f"trunc i16 {emit.pure(f'lshr i16 {both}, 8')} to i8"),
    ]
    if not truncates:
        return codes
    return [_stepped_back(low, c, v, to) for c, v in zip(codes, pair, strict=True)]


def _stepped_back(low: Lowering, code: str, single: str, to: Scalar) -> str:
    """Undo a rounding away from zero: the next smaller magnitude is one less."""
    emit = low.emit
    near = emit.pure(f"fpext half {_from_small_float(low, code, to)} to float")
    sizes = [emit.call("float", "llvm.fabs.f32", f"float {v}", "float") for v in (near, single)]
    away = emit.pure(f"fcmp ogt float {sizes[0]}, {sizes[1]}")
    stepped = emit.sub("i8", code, emit.zext(away, "i1", "i8"))
    if SMALL_FLOATS[to].signed:
        return stepped
    # The smallest negative number has the code after NaN's; below it there is one zero.
    at_nan = emit.bitwise("and", "i1", emit.pure(f"icmp eq i8 {stepped}, -128"), away)
    return emit.pure(f"select i1 {at_nan}, i8 0, i8 {stepped}")


def _to_small_floats(low: Lowering, op: Cast, source: Scalar) -> None:
    """Cast registers two at a time."""
    live = low.live(op.result)
    count = low.layout(op.result).registers()
    single: list[str] = []
    for r in live:
        value = low.register(op.source, r)
        if source.is_integer:
            value = _integer_to_float(low, value, source, F32, op)
        elif source.bits == 8:
            value = _single(low, _from_small_float(low, value, source), "half")
        else:
            value = _single(low, value, llvm_type(source))
        single.append(value)
    truncates = source.is_float and _truncates(op, source.bits)
    registers: list[str | None] = [None] * count
    for i in range(0, len(live), 2):
        pair = [*single[i : i + 2], "0.0"][:2]
        codes = _small_floats(low, pair, op.to, truncates=truncates)
        for r, code in zip(live[i : i + 2], codes, strict=False):
            registers[r] = code
    low.set_registers(op.result, registers)


def _to_bytes(low: Lowering, op: Cast, source: Scalar) -> list[str | None] | None:
    """Cut a tile of floats to 8-bit integers four at a time; None: the chip packs none."""
    live = low.live(op.result)
    to_bytes = op.to.bits == 8 and op.to.is_integer and source.is_float and source.bits <= 32
    if not to_bytes or len(live) == 1:
        return None
    registers: list[str | None] = [None] * low.layout(op.result).registers()
    for i in range(0, len(live), 4):
        whole: list[str] = []
        for r in live[i : i + 4]:
            value = low.register(op.source, r)
            if source.bits == 8:
                value = _single(low, _from_small_float(low, value, source), "half")
            else:
                value = _single(low, value, llvm_type(source))
            cut = low.chip.to_integer(low.emit, value, signed=True)
            if cut is None:
                return None
            whole.append(cut)
        word = low.chip.to_bytes(low.emit, whole, signed=op.to.kind == "int")
        if word is None:
            return None
        for r, byte in zip(
            live[i : i + 4], low.packing.unpack(word, "i8", len(whole)), strict=True
        ):
            registers[r] = byte
    return registers


def _from_small_float(low: Lowering, value: str, source: Scalar) -> str:
    """Return an 8-bit float as half, which holds all its values."""
    emit = low.emit
    wide = emit.pure(f"zext i8 {value} to i16")
    if source.name == "f8e5m2":
        # The same exponent as half: the byte is its upper half.
        return emit.pure(f"bitcast i16 {emit.pure(f'shl i16 {wide}, 8')} to half")
    if source.name != "f8e4m3":
        return _widen_software(low, wide, SMALL_FLOATS[source])
    both = low.chip.decode(emit, wide, source)
    return _widen_e4m3(low, wide) if both is None else emit.elements("half", 2, both)[0]


def _widen_software(low: Lowering, wide: str, form: SmallFloat) -> str:
    """Formats that no instruction reads, to half: by f32, whose exponents hold all of theirs."""
    emit = low.emit
    sign = emit.pure(f"shl i16 {emit.pure(f'and i16 {wide}, 128')}, 8")
    magnitude = emit.pure(f"zext i16 {emit.pure(f'and i16 {wide}, 127')} to i32")
    placed = emit.shift("shl", "i32", magnitude, 23 - form.mantissa)
    number = emit.pure(f"bitcast i32 {placed} to float")
    scale = float_literal(2.0 ** (127 - form.bias), "float")
    half = emit.pure(f"fptrunc float {emit.pure(f'fmul float {number}, {scale}')} to half")
    bits = emit.pure(f"or i16 {emit.pure(f'bitcast half {half} to i16')}, {sign}")
    if not form.signed:
        bad = emit.pure(f"icmp eq i16 {wide}, {form.nan}")
        bits = emit.pure(f"select i1 {bad}, i16 {0x7E00}, i16 {bits}")
    return emit.pure(f"bitcast i16 {bits} to half")


def _widen_e4m3(low: Lowering, wide: str) -> str:
    """e4m3 to half by moving the bits and scaling by 2^8 (the difference of the biases)."""
    emit = low.emit
    sign = emit.pure(f"shl i16 {emit.pure(f'and i16 {wide}, 128')}, 8")
    magnitude = emit.pure(f"and i16 {wide}, 127")
    moved = emit.pure(f"shl i16 {magnitude}, 7")
    number = emit.pure(f"bitcast i16 {emit.pure(f'or i16 {moved}, {sign}')} to half")
    scaled = emit.pure(f"fmul half {number}, 0xH5C00")
    bad = emit.pure(f"icmp eq i16 {magnitude}, 127")
    return emit.pure(f"select i1 {bad}, half 0xH7E00, half {scaled}")


def _small_float_bits(low: Lowering, pair: list[str], to: Scalar) -> str:
    """The same as the instruction on chips that do not have it: round the f32's bits.

    Normal numbers: rebias, add half of the dropped ulp (ties to even), clip to the largest finite.
    Subnormals: adding 2^(lowest exponent) lets the f32 adder round at the right place.
    """
    emit = low.emit
    form = SMALL_FLOATS[to]
    mantissa, bias, largest = form.mantissa, form.bias, form.largest
    drop = 23 - mantissa
    bytes_: list[str] = []
    for value in pair:
        bits = emit.pure(f"bitcast float {value} to i32")
        sign = emit.bitwise("and", "i32", emit.shift("lshr", "i32", bits, 24), "128")
        magnitude = emit.bitwise("and", "i32", bits, str(0x7FFFFFFF))
        odd = emit.bitwise("and", "i32", emit.shift("lshr", "i32", magnitude, drop), "1")
        rounded = emit.add("i32", magnitude, str((1 << (drop - 1)) - 1 - ((127 - bias) << 23)))
        rounded = emit.shift("lshr", "i32", emit.add("i32", rounded, odd), drop)
        # The smallest normal's exponent; below it one ulp is fixed.
        magic = (127 - bias + 1 + drop) << 23
        single = emit.pure(f"bitcast i32 {magnitude} to float")
        pushed = struct.unpack(">f", struct.pack(">I", magic))[0]
        total = emit.pure(f"fadd float {single}, {float_literal(pushed, 'float')}")
        small = emit.add("i32", emit.pure(f"bitcast float {total} to i32"), str(-magic))
        is_small = emit.pure(f"icmp ult i32 {magnitude}, {(127 - bias + 1) << 23}")
        code = emit.pure(f"select i1 {is_small}, i32 {small}, i32 {rounded}")
        code = emit.call("i32", "llvm.umin.i32", f"i32 {code}, i32 {largest}", "i32, i32")
        is_nan = emit.pure(f"icmp ugt i32 {magnitude}, {0x7F800000}")
        if not form.signed:
            is_zero = emit.pure(f"icmp eq i32 {code}, 0")
            sign = emit.pure(f"select i1 {is_zero}, i32 0, i32 {sign}")
            code = emit.bitwise("or", "i32", code, sign)
            bytes_.append(emit.pure(f"select i1 {is_nan}, i32 {form.nan}, i32 {code}"))
            continue
        if not form.has_nan:
            sign = emit.pure(f"select i1 {is_nan}, i32 0, i32 {sign}")
        code = emit.pure(f"select i1 {is_nan}, i32 {form.nan}, i32 {code}")
        bytes_.append(emit.bitwise("or", "i32", code, sign))
    high = emit.shift("shl", "i32", bytes_[1], 8)
    return emit.pure(f"trunc i32 {emit.bitwise('or', 'i32', bytes_[0], high)} to i16")


@SIMT.lower(Bitcast)
def lower_bitcast(low: Lowering, op: Bitcast) -> None:
    source, to = element_of(op.source.type), op.to
    from_type, to_type = llvm_type(source), llvm_type(to)
    if from_type == to_type:
        low.set_lazy(op.result, lambda r: low.held(op.source, r))
        return
    if (known := floats_of_bits(low, op)) is not None:
        low.set_registers(op.result, known)
        return
    if floats_of_halves(low, op):
        return
    if low.is_packed(op.source):
        low.set_words(op.result, low.words(op.source))
        return

    def register(r: int) -> str:
        value = low.register(op.source, r)
        if isinstance(to, Pointer):
            return low.emit.pure(f"inttoptr i64 {value} to {GLOBAL}")
        if isinstance(source, Pointer):
            return low.emit.pure(f"ptrtoint {GLOBAL} {value} to i64")
        if to.kind == "bool" or source.kind == "bool":
            raise TargetError(f"bitcast from {source} to {to}", op.span)
        if is_integer(value) and to_type.startswith("i"):
            return value
        return low.emit.pure(f"bitcast {from_type} {value} to {to_type}")

    low.set_lazy(op.result, register)
