"""Launchers as native code: what `launchers.py` generates in Python, written by LLVM instead.

A launcher is one function of CPython's vectorcall kind, made for one kernel and one shape of calls
(how many positional arguments, which keywords). It calls CPython's C API and the driver by
address; there is no C compiler, and no wheel per platform. For each call it

1. checks shape, and that captured names still mean what they meant;
2. reads each argument into a slot of eight bytes: `data_ptr()` of arrays, the value of numbers;
3. writes down what the call is specialised on as *words*: dtype and device of arrays, the value or
   identity of constexprs, and what `measures.py` measures of arrays and integers, packed;
4. finds these words in a table of entries that it owns; where a kernel has twins, an entry has a
   *condition* over the integers and the grid (`conditions.py`) and says how it must turn out;
5. launches the entry's function on the current stream, the GIL released.

Whatever is new or odd, and every Python error on the way, is left to the Python launcher, which is
called with the same arguments. Entries are never moved; one that gives way to another is only
overwritten while the GIL is held, and the native code has read all of it before it lets go.

The code is written in native_code.py, for what native_plan.py says.

Facts about CPython that are relied on: `ob_type` lies 8 bytes into an object, the length of a tuple
16, its items where its fixed part ends (builds with the GIL, 3.11 to 3.14; `supported` says no
elsewhere); a dropped reference may be compared as an address, never read.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable, Sequence
from typing import Any

from workbench.launch.assembly import Assembly
from workbench.launch.conditions import Program, encoded
from workbench.launch.machine import Code
from workbench.launch.native_code import Writer
from workbench.launch.native_plan import Plan

#: Specialisations of one call shape that are kept natively.
ENTRIES = 32


def supported() -> bool:
    """Say whether this Python has the object layout that the code relies on."""
    return (
        sys.implementation.name == "cpython"
        and (3, 11) <= sys.version_info[:2] <= (3, 14)
        and not sysconfig.get_config_var("Py_GIL_DISABLED")
        and ctypes.sizeof(ctypes.c_void_p) == 8
    )


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("method", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


#: Never freed, 32 bytes each: a function that dies in a cycle is asked for its flags after the
#: cycle's members have dropped what they own.
_definitions: list[_MethodDef] = []


class Launcher:
    """Owns everything that a call reads; CPython keeps it as the function's `self`."""

    def __init__(self, plan: Plan, slow: Callable[..., Any]) -> None:
        self.plan = plan
        self.slow = slow
        self.table = (ctypes.c_int64 * (1 + ENTRIES * plan.width))()
        self._kept: list[Any] = [None] * ENTRIES
        self._next = 0
        self._code = Code(Writer(plan, ctypes.addressof(self.table), slow).module())
        fastcall, keywords = 0x80, 0x02
        self._definition = _MethodDef(
            b"launch", self._code.address("call"), fastcall | keywords, None
        )
        _definitions.append(self._definition)

    def function(self) -> Callable[..., Any]:
        """Return the native function as a Python callable, which takes the grid first."""
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        return make(ctypes.addressof(self._definition), self, None)

    def add(
        self,
        words: Sequence[int],
        code: int,
        threads: int,
        shared: int,
        places: Sequence[int],
        result: Any,
        kept: Any = None,
        condition: Condition | None = None,
        outcome: bool = True,
        assembly: Assembly | None = None,
        most_blocks: int = 0,
        most_taken: int = 0,
        cluster: int = 1,
    ) -> None:
        """Enter one specialisation; when all places are taken the oldest gives way.

        Args:
            words: what `words_of` gives for its calls.
            code: the handle that the launch function takes.
            threads: threads of a program.
            shared: bytes of dynamic shared memory.
            places: which run-time slots the code receives, in the order of its parameters.
            result: the object that a launch returns.
            kept: what must stay alive as long as the entry (loaded code, dtypes, constants).
            condition: what is asked of the integers and the grid besides the words.
            outcome: what it must say.
            assembly: puts the code's parameters together where they are not the slots themselves.
            most_blocks: how many blocks take all programs, 0 where each has one of its own.
            most_taken: how many programs they take; where there are more, each has a block.
            cluster: blocks are started in multiples of this power of two.
        """
        plan = self.plan
        number = self._next
        self._next = (number + 1) % ENTRIES
        filled = [*places, *[0] * (len(plan.runtime) - len(places))]
        asked = 0 if condition is None else condition.address
        entry = [code, threads, shared, id(result), asked, int(outcome)]
        entry += [0 if assembly is None else assembly.address, most_blocks, most_taken, cluster]
        entry += [*filled, *words]
        start = 1 + number * plan.width
        self.table[start : start + plan.width] = entry
        self._kept[number] = (result, kept, condition, assembly)
        self.table[0] = max(self.table[0], number + 1)


class Condition:
    """A condition as native launchers read it: words at an address."""

    def __init__(self, program: Program) -> None:
        words = encoded(program)
        self._words = (ctypes.c_int64 * len(words))(*words)
        self.address = ctypes.addressof(self._words)
