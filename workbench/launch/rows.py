"""How many blocks a multiprocessor holds where they read their rows again: what the L1 can keep.

A kernel says which rows its programs read more than once (targets/nvidia/rereading.py). Where as
many blocks as there may be have more of them than the L1 keeps, and few blocks do not, a launch
takes a second copy of the code, for which the driver gives all memory to the L1 and as little as
there is to shared memory: that leaves room for few blocks. It is chosen by the values of the
launch, in Python by an expression, in native code by a function that is called like
`cuLaunchKernel` and is given a record instead of a function.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.analysis.rows import rows_from_data
from workbench.devices import cuda
from workbench.interrupts import MadeOnce
from workbench.launch.conditions import (
    INTERPRETER,
    Program,
    encoded,
    llvm_interpreter,
    python_expressions,
)
from workbench.launch.hulls import HullWriter
from workbench.launch.machine import Code

if TYPE_CHECKING:
    from workbench.launch.abi import Loadable

#: Warps that have to stay for memory to be kept busy, each of whose accesses brings 16 bytes.
LEAST_WARPS = 24
#: Which part of a multiprocessor's memory rows may take before they push each other out, and how
#: much of it few blocks may want for fewer of them to be pushed out (an H100: of 228 kB 198 are
#: read once, 222 are not; of 432 some are kept, of 576 none).
MOST_KEPT, MOST_WANTED = 7 / 8, 2


class Held(NamedTuple):
    """How many blocks a multiprocessor holds, how many it would, bytes that they and the L1 share.

    `few` are those for which shared memory has room where it is as small as it gets.
    """

    blocks: int
    few: int
    room: int


def rows_program(kernel: Loadable, held: Held, *, required: bool = False) -> Program | None:
    """Return what says whether a launch is better off with few blocks; None: none is.

    The answer is the program's result, or what it requires.
    """
    launch, (blocks, few, room) = kernel.launch, held
    stored = launch.extra.get("rows")
    plain = not (launch.made or launch.persistent or launch.attribute)
    if stored is None or not plain or few * launch.num_warps < LEAST_WARPS or few >= blocks:
        return None
    rows = rows_from_data(stored)
    words = enumerate(launch.parameters)
    given = {name: (n, False) for n, (name, word) in words if word[0] in "iu"}
    writer = HullWriter(rows, given, {})
    ends, build = writer.ends(), writer.build

    def total(of: tuple[tuple[int, int], ...]) -> int:
        found = build.constant(0)
        for step, size in of:
            row = build.apply("mul", ends[step][1].number, build.constant(size))
            found = build.apply("add", found, row)
        return found

    own, common = total(rows.own), total(rows.common)

    def wanted(count: int) -> int:
        return build.apply("add", build.apply("mul", own, build.constant(count)), common)

    pushed = build.between(wanted(blocks), int(MOST_KEPT * room), 1 << 62)
    kept = build.between(wanted(few), 0, MOST_WANTED * room)
    choice = build.apply("mask", pushed, kept)
    if not required:
        return build.finish(choice)
    build.require(choice)
    return build.finish()


_CHOOSING = """
define i32 @launch(ptr %record, {numbers}, ptr %stream, ptr %parameters, ptr %more) {{
entry:
  %few_at = getelementptr i64, ptr %record, i64 1
  %few = load ptr, ptr %few_at
  %program_at = getelementptr i64, ptr %record, i64 2
  %program = load ptr, ptr %program_at
  %count_at = getelementptr i64, ptr %record, i64 3
  %count = load i64, ptr %count_at
  %many = load ptr, ptr %record
  %values = alloca i64, i64 %count, align 16
  %grid = alloca [3 x i64], align 16
{programs}  br label %head
head:
  %n = phi i64 [ 0, %entry ], [ %next, %copy ]
  %left = icmp slt i64 %n, %count
  br i1 %left, label %copy, label %choose
copy:
  %next = add i64 %n, 1
  %from_at = getelementptr ptr, ptr %parameters, i64 %n
  %from = load ptr, ptr %from_at
  %value = load i64, ptr %from
  %to = getelementptr i64, ptr %values, i64 %n
  store i64 %value, ptr %to
  br label %head
choose:
  %said = call i64 @{holds}(ptr %program, ptr %values, ptr %grid)
  %yes = icmp ne i64 %said, 0
  %function = select i1 %yes, ptr %few, ptr %many
  %code = call i32 inttoptr (i64 {address} to ptr)(
      ptr %function, {numbers}, ptr %stream, ptr %parameters, ptr %more)
  ret i32 %code
}}
"""


@MadeOnce
def _choosing(address: int) -> Code:
    numbers = ", ".join(f"i32 %n{number}" for number in range(7))
    programs = "".join(
        f"  %g{axis} = sext i32 %n{axis} to i64\n"
        f"  %at{axis} = getelementptr i64, ptr %grid, i64 {axis}\n"
        f"  store i64 %g{axis}, ptr %at{axis}\n"
        for axis in range(3)
    )
    text = _CHOOSING.format(numbers=numbers, programs=programs, holds=INTERPRETER, address=address)
    return Code(llvm_interpreter() + text)


class Chosen:
    """Which of two functions a launch takes, by its values.

    `expression` is one over the names of the values; `launch` and `record` are what native code
    calls and gives to it, 0 where the driver's library cannot be opened by name.
    """

    def __init__(self, kernel: Loadable, functions: tuple[Any, Any], held: Held) -> None:
        result = rows_program(kernel, held)
        required = rows_program(kernel, held, required=True)
        assert result is not None
        assert required is not None
        names = [f"a{n}" for n in range(len(kernel.launch.parameters))]
        (self.expression,) = python_expressions(result, names)
        words = encoded(required)
        self._words = (ctypes.c_int64 * len(words))(*words)
        many, few = map(int, functions)
        count = len(kernel.launch.parameters)
        self._record = (ctypes.c_int64 * 4)(many, few, ctypes.addressof(self._words), count)
        self.record = ctypes.addressof(self._record)

    @property
    def launch(self) -> int:
        """The address of what is called like `cuLaunchKernel`, with a record."""
        address = cuda.launch_address()
        return _choosing(address).address("launch") if address else 0
