"""Additions of neighbours in one atomic instruction."""

from __future__ import annotations

from workbench.ir import BF16, F16, F32, element_of, shape_of
from workbench.ops import AtomicUpdate
from workbench.targets.nvidia.chip import chip_of
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.simt.atomics import lower_update as lower_each
from workbench.targets.simt.lowering import Lowering, element_scalar, llvm_type
from workbench.targets.simt.memory import access_condition, plan_access
from workbench.targets.simt.owners import answer, first_of_copies


@NVIDIA.lower(AtomicUpdate)
def lower_update(low: Lowering, op: AtomicUpdate) -> None:
    """Add vectors where the chip can, else element by element."""
    groups = _vectors(low, op) if shape_of(op.pointers.type) else None
    if groups is None:
        lower_each(low, op)
        return
    found = {r: v for g in groups for r, v in zip(g, _add_vector(low, op, g), strict=True)}
    answer(low, op, op.pointers, [found[r] for r in first_of_copies(low, op.pointers)])


def _vectors(low: Lowering, op: AtomicUpdate) -> tuple[tuple[int, ...], ...] | None:
    """Return groups of registers that one vector addition covers; None if there are none."""
    element = element_of(op.value.type)
    if chip_of(low.chip).capability < 90 or op.function != "add":
        return None
    if element not in (F32, F16, BF16):
        return None
    access = plan_access(low, op.pointers, op.mask, element.itemsize)
    return access.groups if access.width > 1 else None


def _add_vector(low: Lowering, op: AtomicUpdate, group: tuple[int, ...]) -> list[str]:
    """Add neighbours at once and return the old values. PTX ISA 9.0, atom.add.vec (sm_90)."""
    emit = low.emit
    element = element_scalar(op.value)
    type, count = llvm_type(element), len(group)
    bits, letter = ("float", "f") if element == F32 else ("i16", "h")
    condition = access_condition(low, op, op.pointers, op.mask, group[0])
    condition = low.and_all([condition, low.owner(low.layout(op.pointers))])
    operands = [low.register(op.value, r) for r in group]
    if element != F32:
        operands = [emit.pure(f"bitcast {type} {v} to i16") for v in operands]
    address = low.register(op.pointers, group[0])
    word = "add" if element == F32 else "add.noftz"
    old = ", ".join(f"${i}" for i in range(count))
    new = ", ".join(f"${count + 1 + i}" for i in range(count))
    text = (
        f"atom.{op.order}.{op.scope}.global.{word}.v{count}.{element.name} "
        f"{{{old}}}, [${count}], {{{new}}};"
    )
    constraints = [f"={letter}"] * count + ["l"] + [letter] * count
    arguments = [f"ptr addrspace(1) {address}", *(f"{bits} {v}" for v in operands)]
    if condition is not None:
        text = f"@${2 * count + 1} {text}"
        constraints += ["b", *map(str, range(count))]
        zero = "0.0" if element == F32 else "0"
        arguments += [f"i1 {condition}", *[f"{bits} {zero}"] * count]
    returned = emit.struct(bits, count)
    call = emit.effect(
        f'call {returned} asm sideeffect "{text}", "{",".join(constraints)},~{{memory}}"'
        f"({', '.join(arguments)})"
    )
    parts = [emit.effect(f"extractvalue {returned} {call}, {i}") for i in range(count)]
    return parts if element == F32 else [emit.pure(f"bitcast i16 {v} to {type}") for v in parts]
