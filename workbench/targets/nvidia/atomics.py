"""Atomic updates of global memory. PTX ISA 9.0, atom."""

from __future__ import annotations

from workbench.ir import Op, Scalar, Value, element_of, shape_of
from workbench.ops import AtomicCompareExchange, AtomicUpdate
from workbench.source import TargetError
from workbench.targets.nvidia.arithmetic import literal
from workbench.targets.nvidia.lowering import Lowering, llvm_type
from workbench.targets.nvidia.memory import access_condition, first_of_copies
from workbench.targets.nvidia.program import barrier
from workbench.targets.nvidia.table import NVIDIA

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


def _for_owners(low: Lowering, op: AtomicUpdate | AtomicCompareExchange, one) -> None:  # type: ignore[no-untyped-def]
    """Run the atomic in the owning thread of each element; a scalar's result goes to all."""
    if shape_of(op.pointers.type):
        table = low.layout(op.pointers).table("register")
        found = {table[r]: one(r) for r in first_of_copies(low, op.pointers)}
        live = set(low.live(op.result))
        low.set_registers(op.result, [found[f] if r in live else None for r, f in enumerate(table)])
        return
    value = one(0)
    low.set_scalar(op.result, _broadcast(low, op, value))


def _broadcast(low: Lowering, op: Op, value: str) -> str:
    """Give thread 0's value to all threads, through shared memory."""
    emit, element = low.emit, element_of(op.results[0].type)
    if op.id not in low.offsets:
        return value
    type = llvm_type(element)
    address = low.shared(low.offsets[op.id])
    then, end = emit.fresh("tell"), emit.fresh("told")
    emit.branch(emit.pure(f"icmp eq i32 {low.thread}, 0"), then, end)
    emit.label(then)
    emit.do(f"store {type} {value}, ptr addrspace(3) {address}, align {element.itemsize}")
    emit.jump(end)
    emit.label(end)
    barrier(low)
    return emit.effect(f"load {type}, ptr addrspace(3) {address}, align {element.itemsize}")


def _atom(
    low: Lowering, op: AtomicUpdate | AtomicCompareExchange, mask: Value | None, register: int,
    word: str, values: list[Value], element: Scalar, when: str | None = None,
) -> str:  # fmt: skip
    emit, type = low.emit, llvm_type(element)
    bits = f"i{element.bits}"
    condition = access_condition(low, op, op.pointers, mask, register)
    if shape_of(op.pointers.type):
        owner = low.owner(low.layout(op.pointers))
    else:
        owner = emit.pure(f"icmp eq i32 {low.thread}, 0")
    condition = low.and_all([condition, owner, when])
    operands = []
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
