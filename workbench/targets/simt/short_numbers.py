"""Numbers of 64 bits cut to 32: the nearest of these says all that a comparison asks."""

from __future__ import annotations

from workbench.targets.llvm.emit import Emitter, is_integer

#: The least and the largest number of 32 bits.
LEAST, MOST = -(1 << 31), (1 << 31) - 1


def nearest_in_32(emit: Emitter, value: str) -> str:
    """Return the number of 32 bits that is nearest to one of 64, as i32.

    Its own low half where its high one repeats the sign of that, else the end on its side.
    """
    if is_integer(value):
        return str(max(LEAST, min(int(value), MOST)))
    half = emit.trunc(value, "i64", "i32")
    high = emit.trunc(emit.pure(f"lshr i64 {value}, 32"), "i64", "i32")
    fits = emit.pure(f"icmp eq i32 {high}, {emit.pure(f'ashr i32 {half}, 31')}")
    end = emit.pure(f"xor i32 {emit.pure(f'ashr i32 {high}, 31')}, {MOST}")
    return emit.pure(f"select i1 {fits}, i32 {half}, i32 {end}")


def difference_in_32(emit: Emitter, a: str, b: str) -> str:
    """Return the number of 32 bits that is nearest to a - b, of two such numbers.

    It leaves 32 bits where the signs differ and its own is not that of `a`, on the side of `a`.
    Numbers of 64 bits would be fewer words, but LLVM widens loops' counters for them.
    """
    difference = emit.sub("i32", a, b)
    if is_integer(a) or is_integer(b) or is_integer(difference):
        wide = emit.sub("i64", emit.sext(a, "i32", "i64"), emit.sext(b, "i32", "i64"))
        return nearest_in_32(emit, wide)
    signs, turned = emit.bitwise("xor", "i32", a, b), emit.bitwise("xor", "i32", a, difference)
    leaves = emit.pure(f"icmp slt i32 {emit.bitwise('and', 'i32', signs, turned)}, 0")
    end = emit.pure(f"xor i32 {emit.pure(f'ashr i32 {a}, 31')}, {MOST}")
    return emit.pure(f"select i1 {leaves}, i32 {end}, i32 {difference}")


__all__ = ["LEAST", "MOST", "difference_in_32", "nearest_in_32"]
