"""Where in the grid a program is: by its number, or in the order in which programs begin."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.targets.simt.lowering import Lowering

#: Numbers along the axes of a grid, i32.
Place = tuple[str, str, str]


def place_of(low: Lowering, number: str) -> Place:
    """Return where in the grid the program is that blocks which stay take by a number."""
    place = place_in_grid(low, number)
    if low.last:
        return _with_short_ones_last(low, place)
    return place_in_order(low, place) if low.order else place


def place_in_grid(low: Lowering, number: str) -> Place:
    """Return where in the grid a number is, axis 0 first.

    Most grids have one axis: there nothing is divided, and no code for it fetched.
    """
    emit, x, y = low.emit, low.programs(0), low.programs(1)
    beyond = emit.pure(f"icmp uge i32 {number}, {x}")
    before, divided, end = emit.block, emit.fresh("further"), emit.fresh("placed")
    emit.branch(beyond, divided, end)
    emit.label(divided)
    with emit.scope():
        row = emit.pure(f"udiv i32 {number}, {x}")
        texts = f"urem i32 {number}, {x}", f"urem i32 {row}, {y}", f"udiv i32 {row}, {y}"
        then = [*map(emit.pure, texts)]
    emit.jump(end)
    emit.label(end)
    first, second, third = (
        emit.phi("i32", [(held, before), (found, divided)])
        for held, found in zip((number, "0", "0"), then, strict=True)
    )
    return first, second, third


def place_in_order(low: Lowering, place: Sequence[str]) -> Place:
    """Return which program is taken at a place where some begin before others (longest_first.py).

    Of 2^s columns of the grid, side by side, the program of a row comes after those of the row
    before it, from the last row on where programs grow. s: as many columns as have so many programs
    in all as the order says, and as there are. Columns that are left over keep their order.
    """
    emit, (_, y, z), order = low.emit, place, low.order
    rows, columns = (low.programs(axis) for axis in range(2))
    # 2^(32 - zeros(rows - 1)) is the power of two that is not below the rows.
    fits = emit.sub("i32", _zeros(low, emit.sub("i32", rows, "1")), str(32 - (abs(order) - 1)))
    whole = emit.sub("i32", "31", _zeros(low, columns))
    shift = _most(low, _call(low, "smin", fits, whole), "0")
    first = emit.pure(f"shl i32 {emit.pure(f'lshr i32 {y}, {shift}')}, {shift}")
    end = emit.add("i32", first, emit.pure(f"shl i32 1, {shift}"))
    together = emit.pure(f"icmp ule i32 {end}, {columns}")
    row, column = _in_rows(low, place, first, shift, together)
    return _from_the_end(low, row) if order > 0 else row, column, z


def _with_short_ones_last(low: Lowering, place: Sequence[str]) -> Place:
    """Return which program is taken at a place where a launch is to end with short ones.

    Of the last half of the columns, or less, a power of two, the programs of a row come after those
    of the row before it, from the last row on where programs grow.
    """
    emit, (x, y, z) = low.emit, place
    columns = low.programs(1)
    shift = _most(low, emit.sub("i32", "30", _zeros(low, columns)), "0")
    first = emit.sub("i32", columns, emit.pure(f"shl i32 1, {shift}"))
    together = emit.pure(f"icmp uge i32 {y}, {first}")
    row, column = _in_rows(low, place, first, shift, together)
    if low.last > 0:
        row = emit.pure(f"select i1 {together}, i32 {_from_the_end(low, row)}, i32 {x}")
    return row, column, z


def _in_rows(
    low: Lowering, place: Sequence[str], first: str, shift: str, together: str
) -> tuple[str, str]:
    """Return row and column where 2^shift columns from `first` on go row by row, if `together`."""
    emit, (x, y, _) = low.emit, place
    number = emit.add("i32", emit.mul("i32", emit.sub("i32", y, first), low.programs(0)), x)
    row = emit.pure(f"lshr i32 {number}, {shift}")
    inside = emit.sub("i32", number, emit.pure(f"shl i32 {row}, {shift}"))
    row = emit.pure(f"select i1 {together}, i32 {row}, i32 {x}")
    return row, emit.pure(f"select i1 {together}, i32 {emit.add('i32', first, inside)}, i32 {y}")


def _from_the_end(low: Lowering, row: str) -> str:
    return low.emit.sub("i32", low.emit.sub("i32", low.programs(0), "1"), row)


def _zeros(low: Lowering, value: str) -> str:
    return low.emit.call("i32", "llvm.ctlz.i32", f"i32 {value}, i1 false", "i32, i1")


def _most(low: Lowering, a: str, b: str) -> str:
    return _call(low, "smax", a, b)


def _call(low: Lowering, name: str, a: str, b: str) -> str:
    return low.emit.call("i32", f"llvm.{name}.i32", f"i32 {a}, i32 {b}", "i32, i32")
