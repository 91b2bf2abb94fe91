"""Printing and asserting from a kernel."""

from __future__ import annotations

from workbench.ir import Pointer, Scalar, Value, element_of, shape_of
from workbench.ops import DeviceAssert, DevicePrint
from workbench.targets.simt.hardware import GLOBAL
from workbench.targets.simt.lowering import Lowering, llvm_type
from workbench.targets.simt.memory import first_of_copies
from workbench.targets.simt.rules import as_they_are
from workbench.targets.simt.table import SIMT

SIMT.layouts(DevicePrint, DeviceAssert)(as_they_are)


@SIMT.lower(DevicePrint)
def lower_print(low: Lowering, op: DevicePrint) -> None:
    """One line per element from the thread that owns it, as the interpreter prints it."""
    if not op.values:
        _print_where(low, _first_thread(low), op.prefix, [], [])
        return
    for value in op.values:
        if not shape_of(value.type):
            word, operand, type = _shown(low, value, 0, op.hexadecimal)
            _print_where(low, _first_thread(low), f"idx () {op.prefix}{word}", [operand], [type])
            continue
        layout = low.layout(value)
        for r in first_of_copies(low, value):
            word, operand, type = _shown(low, value, r, op.hexadecimal)
            coordinates = [low.coordinate(layout, axis, r) for axis in range(layout.rank)]
            place = [low.emit.add("i32", root, str(constant)) for root, constant in coordinates]
            comma = "," if layout.rank == 1 else ""
            spots = ", ".join(["%d"] * layout.rank)
            _print_where(
                low,
                low.and_all([low.owner(layout), low.inside(layout, r)]),
                f"idx ({spots}{comma}) {op.prefix}{word}",
                [*place, operand],
                ["i32"] * layout.rank + [type],
            )


def _first_thread(low: Lowering) -> str:
    return low.emit.pure(f"icmp eq i32 {low.thread}, 0")


def _shown(low: Lowering, value: Value, register: int, hexadecimal: bool) -> tuple[str, str, str]:
    """Return (format, operand, type) of one element as printf takes it."""
    emit, element = low.emit, element_of(value.type)
    operand = low.register(value, register)
    if isinstance(element, Pointer):
        return "%p", emit.pure(f"ptrtoint {GLOBAL} {operand} to i64"), "i64"
    if element.is_float:
        if element.bits < 64:
            from workbench.ir import F32
            from workbench.targets.simt.casts import cast_float

            operand = cast_float(low, operand, element, F32)
            operand = emit.pure(f"fpext float {operand} to double")
        return "%f", operand, "double"
    assert isinstance(element, Scalar)
    signed = element.kind == "int"
    wide = (emit.sext if signed else emit.zext)(operand, llvm_type(element), "i64")
    return "0x%llx" if hexadecimal else "%lld" if signed else "%llu", wide, "i64"


def _print_where(
    low: Lowering, condition: str | None, words: str, operands: list[str], types: list[str]
) -> None:
    emit = low.emit
    then, end = emit.fresh("print"), emit.fresh("printed")
    program = [("i32", low.program(axis)) for axis in range(3)]
    emit.branch(condition or "true", then, end)
    emit.label(then)
    with emit.scope():
        held = zip(types, operands, strict=True)
        low.chip.print_line(emit, f"pid (%d, %d, %d) {words}\n", [*program, *held])
    emit.jump(end)
    emit.label(end)


@SIMT.lower(DeviceAssert)
def lower_assert(low: Lowering, op: DeviceAssert) -> None:
    """Stop the kernel with the message and the user's line where the condition does not hold."""
    emit = low.emit
    values = [v for v in (op.condition, op.mask) if v is not None]
    registers = first_of_copies(low, op.condition) if shape_of(op.condition.type) else [0]
    failed: str | None = None
    for r in registers:
        condition, *mask = (low.register(v, r) for v in values)
        bad = emit.bitwise("xor", "i1", condition, "true")
        inside = low.inside(low.layout(op.condition), r) if shape_of(op.condition.type) else None
        bad = low.and_all([bad, *mask, inside]) or "true"
        failed = bad if failed is None else emit.bitwise("or", "i1", failed, bad)
    then, end = emit.fresh("failed"), emit.fresh("held")
    emit.branch(failed or "false", then, end)
    emit.label(then)
    file, line = (op.span.file, op.span.line) if op.span is not None else ("", 0)
    low.chip.fail(emit, op.message or "assertion failed", file, line, low.module.name)
    emit.jump(end)
    emit.label(end)
