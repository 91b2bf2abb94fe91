"""A whole kernel: GPU IR to the body of one LLVM function."""

from __future__ import annotations

from contextlib import nullcontext

from workbench.analysis.affine import tile_forms
from workbench.ir import Module, Pointer, Value, element_of
from workbench.passes.expand_functions import expand_functions
from workbench.passes.manager import Remarks
from workbench.targets.simt.functions import has_function
from workbench.targets.simt.length import refuse_long
from workbench.targets.simt.lowering import Lowering, llvm_type
from workbench.targets.simt.ops import is_persistent
from workbench.targets.simt.rules import Device


def expand(module: Module, remarks: Remarks) -> Module:
    """Write out functions that have formulas, but for those that functions.py knows better."""
    return expand_functions(module, remarks, has_function)


def lower(module: Module, chip: Device, offsets: dict[int, int]) -> Lowering:
    """Return a finished lowering of GPU IR; raises ResourceError (K406) for too much code."""
    refuse_long(module)
    low = Lowering(module, chip, offsets, tile_forms(module))
    first = next((op.span for op in module.walk() if op.span is not None), None)
    file, line = (first.file, first.line) if first is not None else ("kernel", 1)
    low.debug = low.emit.start_debug(module.name, file, line)
    low.emit.at(None)
    for i, parameter in enumerate(module.parameters):
        value: Value = parameter.value
        low.set_scalar(value, f"%a{i}")
    order: int = module.attributes.get("longest_first", 0)
    with low.as_program(_place(low, order), "") if order else nullcontext():
        low.block(module.body)
    return low


def _place(low: Lowering, order: int) -> tuple[str, str, str]:
    """Return which program a block is where some begin before others (longest_first.py).

    Of 2^s columns of the grid, side by side, the program of a row comes after those of the row
    before it, from the last row on where programs grow. s: as many columns as have so many programs
    in all as `order` says, and as there are. Columns that are left over keep their order.
    """
    emit = low.emit
    x, y, z = (low.chip.program(emit, axis) for axis in range(3))
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


def parameters_of(module: Module) -> list[str]:
    """Return the function's parameters as LLVM writes them: %a0, %a1, ... as in `lower`.

    Where blocks take several programs, %grid0 to %grid2 are behind them: how many there are.
    """
    parameters: list[str] = []
    for i, parameter in enumerate(module.parameters):
        element = element_of(parameter.value.type)
        words = [llvm_type(element)]
        if isinstance(element, Pointer):
            if parameter.noalias:
                words.append("noalias")
            if parameter.divisible > 1:
                words.append(f"align {min(128, parameter.divisible & -parameter.divisible)}")
        parameters.append(f"{' '.join(words)} %a{i}")
    if is_persistent(module):
        parameters += [f"i32 %grid{axis}" for axis in range(3)]
    return parameters
