"""Printing and assertions, through the C library's printf."""

from __future__ import annotations

from workbench.ir import Element, Scalar, Value, element_of, shape_of
from workbench.ops import DeviceAssert, DevicePrint
from workbench.targets.cpu.chunks import Coordinate, register_type
from workbench.targets.cpu.reductions import nested
from workbench.targets.cpu.table import CPU
from workbench.targets.cpu.writer import Writer

#: The variable that holds the number of an assertion that failed, and 0 before.
FAILED = "failed_assertion"


def _text(w: Writer, text: str) -> str:
    """Return the name of a constant C string."""
    raw = text.encode() + b"\0"
    body = "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in raw)
    line = f'constant [{len(raw)} x i8] c"{body}"'
    name = f"@text{len(w.emit.globals)}"
    w.emit.globals.append(f"{name} = internal {line}")
    return name


def _program(w: Writer) -> str:
    return ", ".join(f"i64 {text}" for text in w.pids)


def _print(w: Writer, form: str, arguments: str) -> None:
    w.prints = True
    w.emit.declare("printf", "declare i32 @printf(ptr, ...)")
    comma = ", " if arguments else ""
    w.emit.effect(f"call i32 (ptr, ...) @printf(ptr {_text(w, form)}{comma}{arguments})")


@CPU.lower(DevicePrint)
def device_print(w: Writer, op: DevicePrint) -> None:
    w.flush()
    prefix = op.prefix.replace("%", "%%")
    if not op.values:
        _print(w, f"pid (%lld, %lld, %lld) {prefix}\n", _program(w))
    for value in op.values:
        _print_value(w, op, value, prefix)


def _print_value(w: Writer, op: DevicePrint, value: Value, prefix: str) -> None:
    shape, element = shape_of(value.type), element_of(value.type)
    places = ", ".join("%lld" for _ in shape) + ("," if len(shape) == 1 else "")

    def one(point: list[Coordinate]) -> None:
        with w.body(0):
            text = w.chunk(value, tuple(point)).text
            w.emit.at(op)
            word, argument = _argument(w, text, element, hexadecimal=op.hexadecimal)
            indices = "".join(f", i64 {c.text}" for c in point)
            form = f"pid (%lld, %lld, %lld) idx ({places}) {prefix}{word}\n"
            _print(w, form, f"{_program(w)}{indices}, {argument}")

    nested(w, shape, None, one)


def _argument(w: Writer, text: str, element: Element, *, hexadecimal: bool) -> tuple[str, str]:
    """Return the printf conversion and the argument for one number."""
    a, type = w.arithmetic(0), register_type(element)
    if type in ("float", "half", "double"):
        return "%.9g", f"double {a.cast('fpext', text, type, 'double')}"
    signed = isinstance(element, Scalar) and element.kind in ("int", "index")
    wide = (w.emit.sext if signed else w.emit.zext)(text, type, "i64")
    if hexadecimal:
        return "0x%llx", f"i64 {wide}"
    return ("%lld" if signed else "%llu"), f"i64 {wide}"


@CPU.lower(DeviceAssert)
def device_assert(w: Writer, op: DeviceAssert) -> None:
    """Leave the op's number where an assertion fails; the launch then raises an error."""
    w.flush()
    if not w.asserts:
        w.emit.globals.append(f"@{FAILED} = global i64 0")
    w.asserts = True
    emit = w.emit
    with w.temporary():
        flag = w.reserve(8)
        emit.do(f"store i8 0, ptr {flag}, align 1")

        def one(point: list[Coordinate]) -> None:
            with w.body(0):
                place = tuple(point)
                holds = w.chunk(op.condition, place).text
                if op.mask is not None:
                    off = emit.bitwise("xor", "i1", w.chunk(op.mask, place).text, "true")
                    holds = emit.pure(f"or i1 {holds}, {off}")
                emit.at(op)
                failed = emit.pure(f"xor i1 {holds}, true")
                before = emit.effect(f"load i8, ptr {flag}, align 1")
                both = emit.effect(f"or i8 {before}, {emit.zext(failed, 'i1', 'i8')}")
                emit.do(f"store i8 {both}, ptr {flag}, align 1")

        nested(w, shape_of(op.condition.type), None, one)
        emit.at(op)
        failed = emit.effect(f"load i8, ptr {flag}, align 1")
        bad = emit.effect(f"icmp ne i8 {failed}, 0")

        def complain() -> list[tuple[str, str]]:
            # The numbers of ops begin with 0.
            emit.do(f"store atomic i64 {op.id + 1}, ptr @{FAILED} monotonic, align 8")
            return []

        w.either(bad, complain, list)
