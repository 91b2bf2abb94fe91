"""Atomic updates of global memory. PTX ISA 9.0, atom."""

from __future__ import annotations

from collections.abc import Callable

from workbench.ir import BF16, F16, F32, Scalar, Value, element_of, shape_of
from workbench.ops import AtomicCompareExchange, AtomicUpdate
from workbench.source import TargetError
from workbench.targets.nvidia.arithmetic import literal
from workbench.targets.nvidia.lowering import Lowering, element_scalar, llvm_type
from workbench.targets.nvidia.memory import (
    access_condition,
    access_layouts,
    plan_access,
)
from workbench.targets.nvidia.owners import answer, answer_scratch, first_of_copies, owner_of
from workbench.targets.nvidia.table import NVIDIA

NVIDIA.layouts(AtomicUpdate, AtomicCompareExchange)(access_layouts)

_ORDER = {"relaxed": "relaxed", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
_LETTER = {16: "h", 32: "r", 64: "l"}


@NVIDIA.lower(AtomicUpdate)
def lower_update(low: Lowering, op: AtomicUpdate) -> None:
    element = element_of(op.value.type)
    assert isinstance(element, Scalar)
    by_sign = element.is_float and op.function in ("max", "min")
    word = "" if by_sign else _instruction(op, element)

    def one(register: int) -> str:
        if by_sign:
            return _by_sign(low, op, register, element)
        return _atom(low, op, op.mask, register, word, [op.value], element)

    _for_owners(low, op, one)


def _instruction(op: AtomicUpdate, element: Scalar) -> str:
    kind = {"float": "f", "int": "s", "uint": "u", "bool": "b"}[element.kind]
    bits = element.bits
    name = op.function
    if name == "exchange":
        return f"exch.b{bits}"
    if name in ("and", "or", "xor"):
        return f"{name}.b{bits}"
    if name == "add":
        if element.name in ("f16", "bf16"):
            return f"add.noftz.{element.name}"
        return f"add.{'u' if kind == 's' else kind}{bits}"
    if kind == "f":
        raise TargetError(f"atomic {name} on {element} values", op.span)
    return f"{name}.{kind}{bits}"


def _by_sign(low: Lowering, op: AtomicUpdate, register: int, element: Scalar) -> str:
    """Float max or min on bit patterns: as signed numbers for values >= 0, else as unsigned ones.

    Bit patterns of floats grow with the value where the sign bit is 0 and shrink where it is 1.
    """
    emit, bits = low.emit, f"i{element.bits}"
    raw = emit.pure(f"bitcast {llvm_type(element)} {low.register(op.value, register)} to {bits}")
    positive = emit.pure(f"icmp sge {bits} {raw}, 0")
    negative = emit.pure(f"icmp slt {bits} {raw}, 0")
    other = "min" if op.function == "max" else "max"
    words = ((f"{op.function}.s{element.bits}", positive), (f"{other}.u{element.bits}", negative))
    old = [
        _atom(low, op, op.mask, register, word, [op.value], element, when) for word, when in words
    ]
    type = llvm_type(element)
    return emit.pure(f"select i1 {positive}, {type} {old[0]}, {type} {old[1]}")


@NVIDIA.lower(AtomicCompareExchange)
def lower_compare_exchange(low: Lowering, op: AtomicCompareExchange) -> None:
    element = element_of(op.value.type)
    assert isinstance(element, Scalar)

    def one(register: int) -> str:
        values = [op.expected, op.value]
        return _atom(low, op, None, register, f"cas.b{element.bits}", values, element)

    _for_owners(low, op, one)


NVIDIA.scratch(AtomicUpdate, AtomicCompareExchange)(answer_scratch)


def _for_owners(
    low: Lowering, op: AtomicUpdate | AtomicCompareExchange, one: Callable[[int], str]
) -> None:
    """Run the atomic in the owning thread of each element; the result goes to all copies."""
    groups = _vectors(low, op) if shape_of(op.pointers.type) else None
    if groups is None:
        answer(low, op, op.pointers, [one(r) for r in first_of_copies(low, op.pointers)])
        return
    assert isinstance(op, AtomicUpdate)
    found = {r: v for g in groups for r, v in zip(g, _add_vector(low, op, g), strict=True)}
    answer(low, op, op.pointers, [found[r] for r in first_of_copies(low, op.pointers)])


def _vectors(
    low: Lowering, op: AtomicUpdate | AtomicCompareExchange
) -> tuple[tuple[int, ...], ...] | None:
    """Return groups of registers that one vector addition covers; None if there are none."""
    element = element_of(op.value.type)
    if low.chip.capability < 90 or not isinstance(op, AtomicUpdate) or op.function != "add":
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
    returned = "{" + ", ".join([bits] * count) + "}"
    call = emit.effect(
        f'call {returned} asm sideeffect "{text}", "{",".join(constraints)},~{{memory}}"'
        f"({', '.join(arguments)})"
    )
    parts = [emit.effect(f"extractvalue {returned} {call}, {i}") for i in range(count)]
    return parts if element == F32 else [emit.pure(f"bitcast i16 {v} to {type}") for v in parts]


def _atom(
    low: Lowering, op: AtomicUpdate | AtomicCompareExchange, mask: Value | None, register: int,
    word: str, values: list[Value], element: Scalar, when: str | None = None,
) -> str:  # fmt: skip
    emit, type = low.emit, llvm_type(element)
    bits = f"i{element.bits}"
    condition = access_condition(low, op, op.pointers, mask, register)
    condition = low.and_all([condition, owner_of(low, op.pointers), when])
    operands: list[str] = []
    for value in values:
        held = low.register(value, register)
        operands.append(held if type == bits else emit.pure(f"bitcast {type} {held} to {bits}"))
    address = low.register(op.pointers, register)
    letter = _LETTER[element.bits]
    names = ", ".join(f"${2 + i}" for i in range(len(operands)))
    text = f"atom.{_ORDER[op.order]}.{op.scope}.global.{word} $0, [$1], {names};"
    constraints = [f"={letter}", "l", *[letter] * len(operands)]
    arguments = [f"ptr addrspace(1) {address}", *(f"{bits} {v}" for v in operands)]
    if condition is not None:
        text = f"@${len(operands) + 2} {text}"
        constraints += ["b", "0"]
        arguments += [f"i1 {condition}", f"{bits} {literal(0, _integer(element))}"]
    call = emit.effect(
        f'call {bits} asm sideeffect "{text}", "{",".join(constraints)},~{{memory}}"'
        f"({', '.join(arguments)})"
    )
    return call if type == bits else emit.pure(f"bitcast {bits} {call} to {type}")


def _integer(element: Scalar) -> Scalar:
    return Scalar(f"i{element.bits}", "int", element.bits)
