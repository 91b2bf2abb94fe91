"""Puts together what code takes beyond its arguments, in native code for every kind of launcher.

A launch has *slots*, one of eight bytes for each value. Mostly the code's parameters are the slots.
Where they are not (`LaunchData.made`), a parameter may be any number of bytes that a *maker* writes
from some slots and from numbers that the compiler fixed:

    i32 make(ptr data, ptr inputs, ptr destination)    0: fine; both arrays hold 64-bit integers

Makers are found by name, since compiled code is plain data that is kept on disk. `words` is one,
`tensor_map` (tensor_maps.py) another.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from workbench.interrupts import MadeOnce
from workbench.launch.abi import MOST_ALIGNMENT, MOST_INPUTS, Parameter
from workbench.launch.machine import Code
from workbench.source import LaunchError

_HEAD, _WIDTH = 2, 6  # words of a table: how many, bytes; of one of its parameters

#: `assemble` fills the pointers to parameters; `words` writes its inputs, then its data, of which
#: the first two words say how many there are.
_TEXT = f"""
define i32 @assemble(ptr %table, ptr %slots, ptr %pointers, ptr %room) {{
entry:
  %inputs = alloca [{MOST_INPUTS} x i64], align 16
  %count = load i64, ptr %table
  br label %each
each:
  %n = phi i64 [ 0, %entry ], [ %n1, %next ]
  %more = icmp slt i64 %n, %count
  br i1 %more, label %one, label %fine
one:
  %skipped = mul i64 %n, {_WIDTH}
  %start = add i64 %skipped, {_HEAD}
  %row = getelementptr i64, ptr %table, i64 %start
  %maker = load ptr, ptr %row
  %place_at = getelementptr i64, ptr %row, i64 1
  %place = load i64, ptr %place_at
  %pointer_at = getelementptr ptr, ptr %pointers, i64 %n
  %is_slot = icmp eq ptr %maker, null
  br i1 %is_slot, label %slot, label %make
slot:
  %slot_at = getelementptr i64, ptr %slots, i64 %place
  store ptr %slot_at, ptr %pointer_at
  br label %next
make:
  %target = getelementptr i8, ptr %room, i64 %place
  store ptr %target, ptr %pointer_at
  %data_at = getelementptr i64, ptr %row, i64 2
  %data = load ptr, ptr %data_at
  %given_at = getelementptr i64, ptr %row, i64 3
  %given = load i64, ptr %given_at
  %which_at = getelementptr i64, ptr %row, i64 4
  %which = load ptr, ptr %which_at
  br label %gather
gather:
  %i = phi i64 [ 0, %make ], [ %i1, %copy ]
  %left = icmp slt i64 %i, %given
  br i1 %left, label %copy, label %call
copy:
  %number_at = getelementptr i64, ptr %which, i64 %i
  %number = load i64, ptr %number_at
  %from = getelementptr i64, ptr %slots, i64 %number
  %value = load i64, ptr %from
  %to = getelementptr i64, ptr %inputs, i64 %i
  store i64 %value, ptr %to
  %i1 = add i64 %i, 1
  br label %gather
call:
  %status = call i32 %maker(ptr %data, ptr %inputs, ptr %target)
  %made = icmp eq i32 %status, 0
  br i1 %made, label %next, label %failed
next:
  %n1 = add i64 %n, 1
  br label %each
fine:
  ret i32 0
failed:
  ret i32 %status
}}

define internal void @copied(ptr %from, ptr %to, i64 %count) {{
entry:
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %i1, %word ]
  %left = icmp slt i64 %i, %count
  br i1 %left, label %word, label %done
word:
  %from_at = getelementptr i64, ptr %from, i64 %i
  %value = load i64, ptr %from_at
  %to_at = getelementptr i64, ptr %to, i64 %i
  store i64 %value, ptr %to_at
  %i1 = add i64 %i, 1
  br label %each
done:
  ret void
}}

define i32 @words(ptr %data, ptr %inputs, ptr %destination) {{
  %given = load i64, ptr %data
  %fixed_at = getelementptr i64, ptr %data, i64 1
  %fixed = load i64, ptr %fixed_at
  %numbers = getelementptr i64, ptr %data, i64 2
  %rest = getelementptr i64, ptr %destination, i64 %given
  call void @copied(ptr %inputs, ptr %destination, i64 %given)
  call void @copied(ptr %numbers, ptr %rest, i64 %fixed)
  ret i32 0
}}
"""


@MadeOnce
def _code() -> Code:
    return Code(_TEXT)


def assemble_address() -> int:
    """Return where `i32 assemble(ptr table, ptr slots, ptr pointers, ptr room)` lies."""
    return _code().address("assemble")


#: Gives the words that a maker reads, of a parameter's data and the number of its inputs.
Encode = Callable[[Sequence[int], int], Sequence[int]]


def _counted(data: Sequence[int], inputs: int) -> list[int]:
    return [inputs, len(data), *data]


_MAKERS: dict[str, tuple[Callable[[], int], Encode]] = {
    "words": (lambda: _code().address("words"), _counted)
}


def register_maker(name: str, address: Callable[[], int], encode: Encode | None = None) -> None:
    """Let parameters name a maker; `address` says where it lies once one is needed.

    `encode` makes the words that it reads of a parameter's data; None: they are the data.
    Raises ValueError for a name that is taken.
    """
    if name in _MAKERS:
        raise ValueError(f"there is a maker {name!r} already")
    _MAKERS[name] = address, encode or (lambda data, inputs: data)


class Assembly:
    """The parameters of one code as `assemble` reads them: words at `address`.

    Attributes:
        room_bytes: how much room the made parameters take together.
        count: how many parameters there are.
    """

    def __init__(self, parameters: Sequence[Parameter], slots: Sequence[int] | None = None) -> None:
        """Take the parameters; `slots` says where the code's values lie, if not in order."""
        self._kept: list[Any] = []
        self.count = len(parameters)
        self.room_bytes = 0
        rows: list[int] = []
        for parameter in parameters:
            places = [n if slots is None else slots[n] for n in parameter.inputs]
            if not parameter.maker:
                rows += [0, places[0], 0, 0, 0, 0]
                continue
            offset = -(-self.room_bytes // parameter.alignment) * parameter.alignment
            self.room_bytes = offset + parameter.size
            address, encode = _maker(parameter.maker)
            rows += [address(), offset, self._words(encode(parameter.data, len(places)))]
            rows += [len(places), self._words(places), 0]
        self.address = self._words([self.count, self.room_bytes, *rows])

    def _words(self, words: Sequence[int]) -> int:
        held = (ctypes.c_int64 * max(1, len(words)))(*words)
        self._kept.append(held)
        return ctypes.addressof(held)


def _maker(name: str) -> tuple[Callable[[], int], Encode]:
    found = _MAKERS.get(name)
    if found is None:
        raise LaunchError(
            f"the code takes a parameter that {name!r} makes, which is not known here",
            hint="clear the kernel cache: the code may be of another version",
        )
    return found


class Arguments:
    """The memory of one launch at a time: packed slots, and pointers to the code's parameters.

    Attributes:
        memory: the slots, into which values are packed.
        pointers: the address of the array of pointers that a launch takes.
    """

    def __init__(self, count: int, made: Sequence[Parameter] = ()) -> None:
        """Take the number of slots, and the parameters where they are not the slots."""
        self.memory = ctypes.create_string_buffer(max(8, 8 * count))
        self._slots = ctypes.addressof(self.memory)
        total = len(made) or count
        self._held = (ctypes.c_void_p * max(1, total))(
            *(self._slots + 8 * n for n in range(0 if made else count))
        )
        self.pointers = ctypes.addressof(self._held)
        self._assembly: Assembly | None = None
        if made:
            self._assembly = Assembly(made)
            self._room = ctypes.create_string_buffer(self._assembly.room_bytes + MOST_ALIGNMENT)
            start = ctypes.addressof(self._room)
            self._start = -(-start // MOST_ALIGNMENT) * MOST_ALIGNMENT
            call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)
            self._assemble = call(assemble_address())

    def assemble(self) -> int:
        """Make the parameters of what is packed; 0, or what a maker answered."""
        if self._assembly is None:
            return 0
        return self._assemble(self._assembly.address, self._slots, self.pointers, self._start)

    def follow(self, target: int, parameters: Sequence[tuple[int, int]]) -> None:
        """Copy the parameters to (offset, bytes) from an address on."""
        for pointer, (offset, size) in zip(self._held, parameters, strict=True):
            assert pointer is not None
            ctypes.memmove(target + offset, pointer, size)


def not_made(name: str, status: int) -> LaunchError:
    """Return the error for a launch whose parameters could not be made."""
    return LaunchError(
        f"{name}: a parameter that the compiler makes cannot be made of these arguments "
        f"(code {status})",
        hint="kernel.interpret[grid](...) runs the same launch without it",
        code="K509",
    )
