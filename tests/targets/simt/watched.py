"""Puts a question before each access of the pretended machine's code: does it lie where it may?

In global memory that is the arrays of the launch; in shared memory what the op was given for
itself, or all that the kernel has where its buffers are meant. The text of the code is what is
asked, so what the rules of lowering made of an address, whatever the IR says of it.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any

import numpy as np

from workbench.targets.llvm.emit import Emitter
from workbench.targets.simt.passes.shared_memory import Interval

#: Why a thread gives its turn away for good.
OUTSIDE = 5
#: Arrays that a launch may have.
_MOST_ARRAYS = 64

RUNTIME = f"""
@watched.first = global [{_MOST_ARRAYS} x i64] zeroinitializer
@watched.end = global [{_MOST_ARRAYS} x i64] zeroinitializer
@watched.found = global [4 x i64] zeroinitializer

define void @watched.outside(i64 %address, i64 %size, i64 %op, i64 %space) noinline {{
  store i64 %address, ptr @watched.found
  store i64 %size, ptr getelementptr (i64, ptr @watched.found, i32 1)
  store i64 %op, ptr getelementptr (i64, ptr @watched.found, i32 2)
  store i64 %space, ptr getelementptr (i64, ptr @watched.found, i32 3)
  call void @pretend.wait(i32 {OUTSIDE})
  ret void
}}
define void @watched.shared(i64 %address, i64 %size, i64 %op, i64 %first, i64 %end) noinline {{
  %base = ptrtoint ptr addrspace(3) @shared_memory to i64
  %place = sub i64 %address, %base
  %next = add i64 %place, %size
  %after = icmp sge i64 %place, %first
  %before = icmp sle i64 %next, %end
  %inside = and i1 %after, %before
  br i1 %inside, label %good, label %bad
bad:
  call void @watched.outside(i64 %place, i64 %size, i64 %op, i64 3)
  ret void
good:
  ret void
}}
define void @watched.global(i64 %address, i64 %size, i64 %op) noinline {{
  %next = add i64 %address, %size
  br label %look
look:
  %i = phi i32 [ 0, %0 ], [ %j, %other ]
  %f = getelementptr i64, ptr @watched.first, i32 %i
  %first = load i64, ptr %f
  %e = getelementptr i64, ptr @watched.end, i32 %i
  %end = load i64, ptr %e
  %after = icmp uge i64 %address, %first
  %before = icmp ule i64 %next, %end
  %inside = and i1 %after, %before
  br i1 %inside, label %good, label %other
other:
  %j = add i32 %i, 1
  %more = icmp ult i32 %j, {_MOST_ARRAYS}
  br i1 %more, label %look, label %bad
bad:
  call void @watched.outside(i64 %address, i64 %size, i64 %op, i64 1)
  ret void
good:
  ret void
}}
"""

_PLACE = (
    r"ptr addrspace\(([13])\) "
    r"(%[\w.]+|@shared_memory|getelementptr \(i8, ptr addrspace\(3\) @shared_memory, i32 \d+\))"
)
_TYPE = r"(<\d+ x \w+>|\w+)"
#: How each instruction writes (type, space, place), in some order.
_FORMS = (
    re.compile(rf"load (?:volatile )?(?P<type>{_TYPE}), {_PLACE}"),
    re.compile(rf"store (?:volatile )?(?P<type>{_TYPE}) .*, {_PLACE}"),
    re.compile(rf"atomicrmw (?:volatile )?\w+ {_PLACE}, (?P<type>{_TYPE}) "),
    re.compile(rf"cmpxchg {_PLACE}, (?P<type>{_TYPE}) "),
)
_ACCESS = re.compile(r"^  (?:%\S+ = )?(load|store|atomicrmw|cmpxchg) .*addrspace")
_LOCATION = re.compile(r"^!(\d+) = !DILocation\(line: \d+, column: (\d+)", re.MULTILINE)
_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}


def _bytes(type: str) -> int:
    if type.startswith("<"):
        count, _, element = type[1:-1].split()
        return int(count) * _bytes(element)
    return max(8, _BITS.get(type) or int(type[1:])) // 8


def watched(emit: Emitter, intervals: tuple[Interval, ...], total: int) -> list[str]:
    """Return the lines of a function with a question before each that accesses memory."""
    owned = {i.op: (i.offset, i.offset + i.bytes) for i in intervals}
    locations = _LOCATION.findall(emit.metadata())
    ops = {number: emit.op_numbers.get(int(column), -1) for number, column in locations}
    lines: list[str] = []
    for count, line in enumerate(emit.lines):
        if _ACCESS.match(line):
            found = next(match for form in _FORMS if (match := form.search(line)))
            space, place = (g for g in found.groups() if g and g != found["type"])
            op = ops.get(line.rpartition("!dbg !")[2], -1)
            size, bounds = _bytes(found["type"]), ""
            if space == "3":
                bounds = "".join(f", i64 {end}" for end in owned.get(op, (0, total)))
            lines.append(f"  %w{count} = ptrtoint ptr addrspace({space}) {place} to i64")
            kind = {"1": "global", "3": "shared"}[space]
            lines.append(
                f"  call void @watched.{kind}(i64 %w{count}, i64 {size}, i64 {op}{bounds})"
                f"{line[line.index(', !dbg') :]}"
            )
        lines.append(line)
    return lines


def allow(engine: Any, arrays: list[np.ndarray[Any, Any]]) -> None:
    """Say which arrays code may touch."""
    kind = ctypes.c_int64 * _MOST_ARRAYS
    first = kind.from_address(engine.get_global_value_address("watched.first"))
    end = kind.from_address(engine.get_global_value_address("watched.end"))
    for number, array in enumerate(arrays):
        first[number] = array.ctypes.data
        end[number] = array.ctypes.data + array.nbytes


def complaint(engine: Any, arrays: list[np.ndarray[Any, Any]]) -> str:
    """Say which access lay outside."""
    kind = ctypes.c_int64 * 4
    address, size, op, space = kind.from_address(engine.get_global_value_address("watched.found"))
    if space == 3:
        return f"op %{op} touches bytes {address} to {address + size} of shared memory, not its own"
    near = min(arrays, key=lambda a: abs(address - a.ctypes.data), default=None)
    where = "" if near is None else f", {address - near.ctypes.data} bytes after an array's start"
    return f"op {op} touches {size} bytes of global memory outside all arrays{where}"


__all__ = ["OUTSIDE", "RUNTIME", "allow", "complaint", "watched"]
