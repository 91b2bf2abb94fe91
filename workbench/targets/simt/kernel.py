"""A whole kernel: GPU IR to the body of one LLVM function."""

from __future__ import annotations

from contextlib import nullcontext

from workbench.analysis.affine import tile_forms
from workbench.ir import Module, Pointer, Value, element_of
from workbench.passes.expand_functions import expand_functions
from workbench.passes.manager import Remarks
from workbench.passes.widen_small_floats import widen_small_floats
from workbench.targets.simt.functions import has_function
from workbench.targets.simt.length import refuse_long
from workbench.targets.simt.lowering import Lowering, llvm_type
from workbench.targets.simt.ops import is_drawn, is_persistent
from workbench.targets.simt.placing import place_in_order
from workbench.targets.simt.rules import Device


def expand(module: Module, remarks: Remarks) -> Module:
    """Write out functions that have formulas, but for those that functions.py knows better.

    Before that, what is computed on 8-bit floats goes to types that GPUs compute in.
    """
    return expand_functions(widen_small_floats(module, remarks), remarks, has_function)


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
    ordered = low.order and not low.persistent
    places = [low.chip.program(low.emit, axis) for axis in range(3)] if ordered else []
    with low.as_program(place_in_order(low, places)) if ordered else nullcontext():
        low.block(module.body)
    return low


def parameters_of(module: Module) -> list[str]:
    """Return the function's parameters as LLVM writes them: %a0, %a1, ... as in `lower`.

    Where blocks take several programs, %grid0 to %grid2 are behind them: how many there are. Where
    they draw these, %tickets is behind that: a counter of the launch's own, which is 0.
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
    if is_drawn(module):
        parameters.append("ptr addrspace(1) %tickets")
    return parameters
