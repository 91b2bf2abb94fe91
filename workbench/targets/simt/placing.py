"""Where in the grid a program is: by its number, or in the order in which programs begin."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.targets.simt.lowering import Lowering

#: Numbers along the axes of a grid, i32.
Place = tuple[str, str, str]


def place_of(low: Lowering, number: str) -> Place:
    """Return where in the grid the program is that blocks which stay take by a number."""
    place = place_in_grid(low, number)
    return place_in_order(low, place) if low.order else place


def place_in_grid(low: Lowering, number: str) -> Place:
    """Return where in the grid a number is, axis 0 first."""
    emit, x, y = low.emit, low.programs(0), low.programs(1)
    row = emit.pure(f"udiv i32 {number}, {x}")
    texts = f"urem i32 {number}, {x}", f"urem i32 {row}, {y}", f"udiv i32 {row}, {y}"
    first, second, third = map(emit.pure, texts)
    return first, second, third


def place_in_order(low: Lowering, place: Sequence[str]) -> Place:
    """Return which program is taken at a place where some begin before others (longest_first.py).

    Of 2^s columns of the grid, side by side, the program of a row comes after those of the row
    before it, from the last row on where programs grow. s: as many columns as have so many programs
    in all as the order says, and as there are. Columns that are left over keep their order.
    """
    emit, (x, y, z), order = low.emit, place, low.order
    rows, columns = (low.programs(axis) for axis in range(2))

    def zeros(value: str) -> str:
        return emit.call("i32", "llvm.ctlz.i32", f"i32 {value}, i1 false", "i32, i1")

    def least(a: str, b: str) -> str:
        return emit.call("i32", "llvm.smin.i32", f"i32 {a}, i32 {b}", "i32, i32")

    def most(a: str, b: str) -> str:
        return emit.call("i32", "llvm.smax.i32", f"i32 {a}, i32 {b}", "i32, i32")

    # 2^(32 - zeros(rows - 1)) is the power of two that is not below the rows.
    fits = emit.sub("i32", zeros(emit.sub("i32", rows, "1")), str(32 - (abs(order) - 1)))
    shift = most(least(fits, emit.sub("i32", "31", zeros(columns))), "0")
    first = emit.pure(f"shl i32 {emit.pure(f'lshr i32 {y}, {shift}')}, {shift}")
    number = emit.add("i32", emit.mul("i32", emit.sub("i32", y, first), rows), x)
    row = emit.pure(f"lshr i32 {number}, {shift}")
    inside = emit.sub("i32", number, emit.pure(f"shl i32 {row}, {shift}"))
    end = emit.add("i32", first, emit.pure(f"shl i32 1, {shift}"))
    whole = emit.pure(f"icmp ule i32 {end}, {columns}")
    row = emit.pure(f"select i1 {whole}, i32 {row}, i32 {x}")
    column = emit.pure(f"select i1 {whole}, i32 {emit.add('i32', first, inside)}, i32 {y}")
    if order > 0:
        row = emit.sub("i32", emit.sub("i32", rows, "1"), row)
    return row, column, z
