"""Atomic updates of global memory."""

from __future__ import annotations

from collections.abc import Callable

from workbench.ir import Scalar, Value, element_of
from workbench.ops import AtomicCompareExchange, AtomicUpdate
from workbench.source import TargetError
from workbench.targets.simt.hardware import Atomic
from workbench.targets.simt.lowering import Lowering, llvm_type
from workbench.targets.simt.memory import access_condition, access_layouts
from workbench.targets.simt.owners import answer, answer_scratch, first_of_copies, owner_of
from workbench.targets.simt.table import SIMT

SIMT.layouts(AtomicUpdate, AtomicCompareExchange)(access_layouts)
SIMT.scratch(AtomicUpdate, AtomicCompareExchange)(answer_scratch)

#: What floats cannot be asked for; their maxima and minima are found by sign.
_OF_BITS = ("and", "or", "xor", "exchange")


@SIMT.lower(AtomicUpdate)
def lower_update(low: Lowering, op: AtomicUpdate) -> None:
    """Update in the owning thread of each element; the result goes to all copies."""
    element = element_of(op.value.type)
    assert isinstance(element, Scalar)
    by_sign = element.is_float and op.function in ("max", "min")
    if element.is_float and not by_sign and op.function not in (*_OF_BITS, "add"):
        raise TargetError(f"atomic {op.function} on {element} values", op.span)

    def one(register: int) -> str:
        if by_sign:
            return _by_sign(low, op, register, element)
        return _atom(low, op, op.mask, register, op.function, [op.value], element)

    _for_owners(low, op, one)


def _by_sign(low: Lowering, op: AtomicUpdate, register: int, element: Scalar) -> str:
    """Float max or min on bit patterns: as signed numbers for values >= 0, else as unsigned ones.

    Bit patterns of floats grow with the value where the sign bit is 0 and shrink where it is 1.
    """
    emit, bits = low.emit, f"i{element.bits}"
    raw = emit.pure(f"bitcast {llvm_type(element)} {low.register(op.value, register)} to {bits}")
    positive = emit.pure(f"icmp sge {bits} {raw}, 0")
    negative = emit.pure(f"icmp slt {bits} {raw}, 0")
    other = "min" if op.function == "max" else "max"
    signed = Scalar(f"i{element.bits}", "int", element.bits)
    unsigned = Scalar(f"u{element.bits}", "uint", element.bits)
    ways = ((op.function, signed, positive), (other, unsigned, negative))
    old = [
        _atom(low, op, op.mask, register, word, [op.value], kind, when) for word, kind, when in ways
    ]
    type = llvm_type(element)
    return emit.pure(f"select i1 {positive}, {type} {old[0]}, {type} {old[1]}")


@SIMT.lower(AtomicCompareExchange)
def lower_compare_exchange(low: Lowering, op: AtomicCompareExchange) -> None:
    element = element_of(op.value.type)
    assert isinstance(element, Scalar)

    def one(register: int) -> str:
        return _atom(low, op, None, register, "cas", [op.expected, op.value], element)

    _for_owners(low, op, one)


def _for_owners(
    low: Lowering, op: AtomicUpdate | AtomicCompareExchange, one: Callable[[int], str]
) -> None:
    """Run the atomic in the owning thread of each element; the result goes to all copies."""
    answer(low, op, op.pointers, [one(r) for r in first_of_copies(low, op.pointers)])


def _atom(
    low: Lowering, op: AtomicUpdate | AtomicCompareExchange, mask: Value | None, register: int,
    function: str, values: list[Value], element: Scalar, when: str | None = None,
) -> str:  # fmt: skip
    """Return what was there, in the type of the values; `element` says how they are compared."""
    emit, type = low.emit, llvm_type(element_of(op.value.type))
    bits = f"i{element.bits}"
    condition = access_condition(low, op, op.pointers, mask, register)
    condition = low.and_all([condition, owner_of(low, op.pointers), when])
    operands: list[str] = []
    for value in values:
        held = low.register(value, register)
        operands.append(held if type == bits else emit.pure(f"bitcast {type} {held} to {bits}"))
    address = low.register(op.pointers, register)
    update = Atomic(function, op.order, op.scope, element)
    old = low.chip.atomic(emit, update, address, operands, condition)
    return old if type == bits else emit.pure(f"bitcast {bits} {old} to {type}")
