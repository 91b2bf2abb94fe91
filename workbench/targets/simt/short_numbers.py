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


__all__ = ["LEAST", "MOST", "nearest_in_32"]
