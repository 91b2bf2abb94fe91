"""Printing and asserting from a kernel.

Both go through the CUDA runtime's device functions: vprintf(format, arguments) and
__assertfail(message, file, line, function, character size); CUDA C++ Programming Guide,
"Formatted Output" and "Assertion".
"""

from __future__ import annotations

from workbench.ir import Pointer, Scalar, Value, element_of, shape_of
from workbench.ops import DeviceAssert, DevicePrint
from workbench.targets.nvidia.lowering import Lowering, llvm_type
from workbench.targets.nvidia.memory import first_of_copies
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.simt.rules import as_they_are

NVIDIA.layouts(DevicePrint, DeviceAssert)(as_they_are)


def _text(low: Lowering, text: str) -> str:
    """Return the generic address of a constant string."""
    data = text.encode("ascii", "replace") + b"\0"
    escaped = "".join(chr(b) if 32 <= b < 127 and b not in (34, 92) else f"\\{b:02X}" for b in data)
    name = f"@text{len(low.emit.globals)}"
    low.emit.globals.append(
        f'{name} = private unnamed_addr addrspace(1) constant [{len(data)} x i8] c"{escaped}"'
    )
    return f"addrspacecast (ptr addrspace(1) {name} to ptr)"


@NVIDIA.lower(DevicePrint)
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
        return "%p", emit.pure(f"ptrtoint ptr addrspace(1) {operand} to i64"), "i64"
    if element.is_float:
        if element.bits < 64:
            from workbench.ir import F32
            from workbench.targets.nvidia.casts import cast_float

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
    program = [_program(low, axis) for axis in "xyz"]
    text = _text(low, f"pid (%d, %d, %d) {words}\n")
    emit.branch(condition or "true", then, end)
    emit.label(then)
    with emit.scope():
        kinds = ["i32"] * 3 + types
        layout = "{ " + ", ".join(kinds) + " }"
        held = emit.effect(f"alloca {layout}, align 8")
        for i, (kind, operand) in enumerate(zip(kinds, [*program, *operands], strict=True)):
            place = emit.effect(f"getelementptr {layout}, ptr {held}, i32 0, i32 {i}")
            emit.do(f"store {kind} {operand}, ptr {place}")
        emit.declare("vprintf", "declare i32 @vprintf(ptr, ptr)")
        emit.effect(f"call i32 @vprintf(ptr {text}, ptr {held})")
    emit.jump(end)
    emit.label(end)


def _program(low: Lowering, axis: str) -> str:
    name = f"llvm.nvvm.read.ptx.sreg.ctaid.{axis}"
    return low.emit.call("i32", name, "", "", " nounwind memory(none) speculatable")


@NVIDIA.lower(DeviceAssert)
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
    message, place, name = (
        _text(low, t) for t in (op.message or "assertion failed", file, low.module.name)
    )
    emit.declare("__assertfail", "declare void @__assertfail(ptr, ptr, i32, ptr, i64)")
    emit.do(f"call void @__assertfail(ptr {message}, ptr {place}, i32 {line}, ptr {name}, i64 1)")
    emit.jump(end)
    emit.label(end)
