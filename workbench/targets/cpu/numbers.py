"""How elements go between memory and registers, and from one type to another."""

from __future__ import annotations

from workbench.ir import BF16, F16, F32, F64, I1, Element, Scalar
from workbench.ops.small_floats import SMALL_FLOATS, SmallFloat
from workbench.targets.cpu.arithmetic import Arithmetic
from workbench.targets.cpu.chunks import register_type

NARROW_FLOATS = (BF16, *SMALL_FLOATS)


def from_memory(a: Arithmetic, text: str, element: Element) -> str:
    """Return the register form of what was read from memory."""
    if element == BF16:
        wide = a.cast("zext", text, "i16", "i32")
        return a.cast("bitcast", a.binary("shl", "i32", wide, a.integer(16, "i32")), "i32", "float")
    if element == I1:
        return a.compare("icmp ne", "i8", text, a.integer(0, "i8"))
    if isinstance(element, Scalar) and element in SMALL_FLOATS:
        return _decode_small(a, text, SMALL_FLOATS[element])
    return text


def to_memory(a: Arithmetic, text: str, element: Element) -> str:
    """Return the bits to be written for a register."""
    if element == BF16:
        bits = a.cast("bitcast", text, "float", "i32")
        high = a.binary("lshr", "i32", bits, a.integer(16, "i32"))
        return a.cast("trunc", high, "i32", "i16")
    if element == I1:
        return a.cast("zext", text, "i1", "i8")
    if isinstance(element, Scalar) and element in SMALL_FLOATS:
        return _held_small(a, text, SMALL_FLOATS[element])
    return text


def _held_small(a: Arithmetic, text: str, form: SmallFloat) -> str:
    """Return the code of a value of the type: only conversions to the type saturate."""
    code = _encode_small(a, text, form)
    beyond = form.infinity or (0x7F if form.nan <= form.largest else 0)
    if not beyond:
        return code
    magnitude = a.intrinsic("fabs", "float", [text])
    outside = a.compare("fcmp ogt", "float", magnitude, a.real(form.top, "float"))
    sign = a.binary("and", "i8", code, a.integer(-128, "i8"))
    return a.select(outside, a.binary("or", "i8", sign, a.integer(beyond, "i8")), code, "i8")


def _decode_small(a: Arithmetic, text: str, form: SmallFloat) -> str:
    """Shift the bits to where f32 has them and scale by 2^(127 - bias): exact, subnormals too."""
    wide = a.cast("zext", text, "i8", "i32")
    magnitude = a.binary("and", "i32", wide, a.integer(0x7F, "i32"))
    placed = a.binary("shl", "i32", magnitude, a.integer(23 - form.mantissa, "i32"))
    number = a.cast("bitcast", placed, "i32", "float")
    value = a.binary("fmul", "float", number, a.real(2.0 ** (127 - form.bias), "float"))
    nan = a.real(float("nan"), "float")
    if not form.signed:
        bad = a.compare("icmp eq", "i32", wide, a.integer(form.nan, "i32"))
        value = a.select(bad, nan, value, "float")
    elif form.nan > form.largest:
        bad = a.compare("icmp ugt", "i32", magnitude, a.integer(form.largest, "i32"))
        odd = nan
        if form.infinity is not None:
            infinite = a.compare("icmp eq", "i32", magnitude, a.integer(form.infinity, "i32"))
            odd = a.select(infinite, a.real(float("inf"), "float"), nan, "float")
        value = a.select(bad, odd, value, "float")
    sign = a.binary("shl", "i32", a.binary("and", "i32", wide, a.integer(0x80, "i32")),
                    a.integer(24, "i32"))  # fmt: skip
    bits = a.binary("or", "i32", a.cast("bitcast", value, "float", "i32"), sign)
    return a.cast("bitcast", bits, "i32", "float")


def _encode_small(a: Arithmetic, text: str, form: SmallFloat) -> str:
    """Round to nearest even, saturating; see ops/small_floats.py for NaN and the sign of zero."""
    bits = a.cast("bitcast", text, "float", "i32")
    sign = a.binary("lshr", "i32", a.binary("and", "i32", bits, a.integer(-(1 << 31), "i32")),
                    a.integer(24, "i32"))  # fmt: skip
    magnitude = a.intrinsic("fabs", "float", [text])
    clipped = a.select(
        a.compare("fcmp olt", "float", magnitude, a.real(form.top, "float")), magnitude,
        a.real(form.top, "float"), "float",
    )  # fmt: skip
    whole = a.cast("bitcast", clipped, "float", "i32")
    shift = 23 - form.mantissa
    odd = a.binary("and", "i32", a.binary("lshr", "i32", whole, a.integer(shift, "i32")),
                   a.integer(1, "i32"))  # fmt: skip
    half = a.binary("add", "i32", whole, a.integer((1 << (shift - 1)) - 1, "i32"))
    rounded = a.binary("lshr", "i32", a.binary("add", "i32", half, odd), a.integer(shift, "i32"))
    offset = (127 - form.bias) << form.mantissa
    normal = a.binary("sub", "i32", rounded, a.integer(offset, "i32"))
    # Below the smallest normal number, adding 2^23 steps of the smallest subnormal rounds.
    magic = 2.0 ** (23 + 1 - form.bias - form.mantissa)
    pushed = a.binary("fadd", "float", clipped, a.real(magic, "float"))
    tiny = a.binary("sub", "i32", a.cast("bitcast", pushed, "float", "i32"),
                    a.cast("bitcast", a.real(magic, "float"), "float", "i32"))  # fmt: skip
    small = a.compare("fcmp olt", "float", clipped, a.real(form.lowest_normal, "float"))
    code = a.select(small, tiny, normal, "i32")
    unordered = a.compare("fcmp uno", "float", text, text)
    if form.signed:
        code = a.select(unordered, a.integer(form.nan, "i32"), code, "i32")
        if not form.has_nan:
            sign = a.select(unordered, a.integer(0, "i32"), sign, "i32")
        return a.cast("trunc", a.binary("or", "i32", code, sign), "i32", "i8")
    zero = a.compare("icmp eq", "i32", code, a.integer(0, "i32"))
    code = a.binary("or", "i32", code, a.select(zero, a.integer(0, "i32"), sign, "i32"))
    code = a.select(unordered, a.integer(form.nan, "i32"), code, "i32")
    return a.cast("trunc", code, "i32", "i8")


def round_register(a: Arithmetic, text: str, element: Element) -> str:
    """Return an f32 register rounded to a narrower float, still held as f32."""
    if element == BF16:
        bits = a.cast("bitcast", text, "float", "i32")
        odd = a.binary("and", "i32", a.binary("lshr", "i32", bits, a.integer(16, "i32")),
                       a.integer(1, "i32"))  # fmt: skip
        biased = a.binary("add", "i32", a.binary("add", "i32", bits, a.integer(0x7FFF, "i32")), odd)
        quiet = a.binary("or", "i32", bits, a.integer(0x400000, "i32"))
        unordered = a.compare("fcmp uno", "float", text, text)
        chosen = a.select(unordered, quiet, biased, "i32")
        cut = a.binary("and", "i32", chosen, a.integer(-65536, "i32"))
        return a.cast("bitcast", cut, "i32", "float")
    if isinstance(element, Scalar) and element in SMALL_FLOATS:
        form = SMALL_FLOATS[element]
        return _decode_small(a, _encode_small(a, text, form), form)
    return text


def convert(a: Arithmetic, text: str, source: Scalar, to: Scalar, rounding: str = "rtne") -> str:
    """Return a register of type `source` as a register of type `to`; rules as ops.Cast."""
    if source == to:
        return text
    have, want = register_type(source), register_type(to)
    if to == I1:
        if source.is_float:
            return a.compare("fcmp une", have, text, a.real(0.0, have))
        return a.compare("icmp ne", have, text, a.integer(0, have))
    if source.is_float and to.is_float:
        return _float_to_float(a, text, source, to, rounding)
    if source.is_float:
        word = "fptoui.sat" if to.kind == "uint" else "fptosi.sat"
        return a.convert_intrinsic(word, text, have, want)
    if to.is_float:
        wide = "float" if to in NARROW_FLOATS else want
        signed = source.kind in ("int", "index")
        number = a.cast("sitofp" if signed else "uitofp", text, have, wide)
        return round_register(a, number, to)
    if to.bits <= source.bits:
        return text if have == want else a.cast("trunc", text, have, want)
    signed = source.kind in ("int", "index")
    return a.cast("sext" if signed else "zext", text, have, want)


def _float_to_float(a: Arithmetic, text: str, source: Scalar, to: Scalar, rounding: str) -> str:
    have, want = register_type(source), register_type(to)
    if to.bits >= source.bits and source not in SMALL_FLOATS and to not in (BF16, F16):
        return text if have == want else a.cast("fpext", text, have, want)
    if to in NARROW_FLOATS:
        single = text
        if have == "half":
            single = a.cast("fpext", text, have, "float")
        elif have == "double":
            single = _round_to_odd(a, text)
        near = round_register(a, single, to)
        return _step_back(a, near, single, to) if _truncates(rounding, source, to) else near
    if have == want:
        return text
    if to in (F32, F64) and have in ("float", "half"):
        return a.cast("fpext", text, have, want)
    if (to == F16 and source in (*NARROW_FLOATS, F32, F64)) or to == F32:
        if have == "double" and want == "half":
            text, have = _round_to_odd(a, text), "float"
        near = a.cast("fptrunc", text, have, want)
        if not _truncates(rounding, source, to):
            return near
        return _step_back_bits(a, near, text, have, want)
    return a.cast("fpext", text, have, want)


def _round_to_odd(a: Arithmetic, text: str) -> str:
    """Return an f64 as an f32 that rounds to narrower floats alike: what is cut marks a bit."""
    near = a.cast("fptrunc", text, "double", "float")
    cut = _step_back_bits(a, near, text, "double", "float")
    inexact = a.compare("fcmp une", "double", a.cast("fpext", cut, "float", "double"), text)
    bits = a.binary("or", "i32", a.cast("bitcast", cut, "float", "i32"),
                    a.cast("zext", inexact, "i1", "i32"))  # fmt: skip
    return a.cast("bitcast", bits, "i32", "float")


def _truncates(rounding: str, source: Scalar, to: Scalar) -> bool:
    return rounding == "rtz" and to.bits < source.bits


def _step_back_bits(a: Arithmetic, near: str, text: str, have: str, want: str) -> str:
    """Undo a rounding away from zero: the next smaller magnitude has the bits minus one."""
    back = a.intrinsic("fabs", have, [a.cast("fpext", near, want, have)])
    away = a.compare("fcmp ogt", have, back, a.intrinsic("fabs", have, [text]))
    integer = "i16" if want == "half" else "i32"
    bits = a.cast("bitcast", near, want, integer)
    bits = a.binary("sub", integer, bits, a.cast("zext", away, "i1", integer))
    return a.cast("bitcast", bits, integer, want)


def _step_back(a: Arithmetic, near: str, text: str, to: Scalar) -> str:
    away = a.compare(
        "fcmp ogt", "float", a.intrinsic("fabs", "float", [near]),
        a.intrinsic("fabs", "float", [text]),
    )  # fmt: skip
    integer = "i16" if to == BF16 else "i8"
    bits = a.binary("sub", integer, to_memory(a, near, to), a.cast("zext", away, "i1", integer))
    if to in SMALL_FLOATS and not SMALL_FLOATS[to].signed:
        # The smallest negative number has the code after NaN's; below it there is one zero.
        at_nan = a.compare("icmp eq", integer, bits, a.integer(-128, integer))
        lost = a.binary("and", "i1", at_nan, away)
        bits = a.select(lost, a.integer(0, integer), bits, integer)
    return from_memory(a, bits, to)


def to_bits(a: Arithmetic, text: str, element: Element) -> str:
    """Return a register as an integer register of the element's width."""
    if isinstance(element, Scalar) and element.is_float:
        if element in NARROW_FLOATS:
            return to_memory(a, text, element)
        return a.cast("bitcast", text, register_type(element), f"i{element.bits}")
    return text


def from_bits(a: Arithmetic, text: str, element: Element) -> str:
    """Return the register of a type that has the given bits."""
    if isinstance(element, Scalar) and element.is_float:
        if element in NARROW_FLOATS:
            return from_memory(a, text, element)
        return a.cast("bitcast", text, f"i{element.bits}", register_type(element))
    return text
