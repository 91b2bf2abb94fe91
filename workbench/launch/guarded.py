"""Guarded launches on the CPU: unchecked code where no access can go wrong, else checked code.

Which it is, a program over the launch says (`hulls.py`): generated code asks arrays where their
storages lie and evaluates it. Checked code gets a block behind its arguments, and leaves in it what
went wrong (`devices/guard_block.py`); then no further program started, and all threads have
stopped before the error is raised.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from workbench.devices import guard_block as block
from workbench.interpreter import Memory, Storage, mapped, storage_of
from workbench.interpreter.outside import Wrong, outside
from workbench.launch.abi import Loadable, Runner
from workbench.launch.conditions import Program, python_lines
from workbench.source import LaunchError, Note

#: run(x, y, z, values, words of the guard block) -> the block's head afterwards
RunChecked = Callable[[int, int, int, Sequence[Any], Sequence[int]], Sequence[int]]


_remarks: dict[str, None] = {}


def remarks() -> list[str]:
    """Return what launches had to say since this was asked last, each sentence once."""
    found = list(_remarks)
    _remarks.clear()
    return found


def guarding(
    program: Program, count: int, arrays: Sequence[int], plain: Runner, checked: Runner
) -> Runner:
    """Return what runs the plain code where `program` holds, else the checked code.

    It takes `count` values, then the arrays whose addresses stand at the places `arrays`, which it
    hands on to the checked code. The program finds the storages' ends behind the values.
    """
    words = [f"a{n}" for n in range(count)]
    held = [f"t{n}" for n in range(len(arrays))]
    values = "".join(f", {word}" for word in words)
    objects = "".join(f", {word}" for word in held)
    names = [*words]
    text = [f"def run(x, y, z, stream{values}{objects}):", "    try:"]
    for n, array in enumerate(held):
        text.append(f"        b = {array}.untyped_storage()")
        text.append(f"        l{n} = b.data_ptr()")
        text.append(f"        h{n} = l{n} + b.nbytes()")
        names += [f"l{n}", f"h{n}"]
    otherwise = f"return checked(x, y, z, stream{values}{objects})"
    text += ["        pass", "    except Exception:", f"        {otherwise}"]
    text += python_lines(program, names, "    ", otherwise)
    text += [f"    return plain(x, y, z, stream{values})"]
    space: dict[str, Any] = {"plain": plain, "checked": checked}
    exec(compile("\n".join(text), "<launcher>", "exec"), space)
    return space["run"]


def holds(
    program: Program, values: Sequence[int], arrays: Sequence[Any], grid: Sequence[int]
) -> bool:
    """Say whether no access of a launch can go wrong."""
    words = list(values)
    for array in arrays:
        storage = storage_of(array) or Storage(0, 0, False)
        words += storage[:2]
    return program.evaluate(words, grid) is not None


class CheckedCode:
    """Checked code, loaded: run(x, y, z, stream, *values, *arrays).

    The arrays are those of the kernel's pointers, in their order; a number stands for a pointer of
    which nobody knows where it leads.
    """

    def __init__(self, kernel: Loadable, run: RunChecked) -> None:
        self.kernel = kernel
        self._run = run
        self._open = bool(kernel.launch.extra.get("open"))
        words = [word for _, word in kernel.launch.parameters]
        self._pointers = [n for n, word in enumerate(words) if word.startswith("*")]

    def __call__(self, x: int, y: int, z: int, stream: Any, *given: Any) -> Loadable:
        """Launch; raises LaunchError for an access that goes wrong (K502, K505)."""
        count = len(self.kernel.launch.parameters)
        values, arrays = given[:count], given[count:]
        storages = [storage_of(a) or Storage(0, 0, False) for a in arrays]
        table = _Table() if self._open else None
        words = [0] * block.HEAD
        if table is not None:
            words[block.TABLE], words[block.ROWS] = table.address, table.rows
        for storage in storages:
            end = storage.end if storage.writable else storage.start
            words += [storage.start, storage.end, end]
        found = self._run(x, y, z, values, words)
        if found[block.OP]:
            raise self._error(found, (x, y, z), arrays)
        if found[block.MAPPED]:
            said = "pointers that are data were checked against mapped memory only"
            _remarks[f"{self.kernel.name}: {said}"] = None
        return self.kernel

    def _error(
        self, found: Sequence[int], grid: tuple[int, int, int], arrays: Sequence[Any]
    ) -> LaunchError:
        """Return the error for what checked code left, in the words of the interpreter."""
        module = self.kernel.module
        number = found[block.OP] - 1
        op = next(op for op in module.walk() if op.id == number)
        from workbench.interpreter.dependence import Dependence, accessed
        from workbench.ops import pointee_of

        memory = Memory()
        pointers, writes = accessed(op)
        assert pointers is not None
        home: dict[str, int] = {}
        names = [self.kernel.launch.parameters[n][0] for n in self._pointers]
        for name, array in zip(names, arrays, strict=True):
            home[name] = len(memory.allocations)
            memory.add(name, array)
        roots = Dependence(module).roots(pointers)
        among = [memory.allocations[home[p.name]] for p in module.parameters
                 if p.value in roots.parameters and p.name in home]  # fmt: skip
        x, y, _ = grid
        program = found[block.PROGRAM]
        whole = (program % x, program // x % y, program // (x * y))
        last = max((axis for axis in range(3) if grid[axis] > 1), default=0)
        size = pointee_of(pointers.type).itemsize
        wrong = Wrong(whole[: last + 1], found[block.LANE], found[block.ADDRESS], size, writes)
        error = outside(op, wrong, memory, [] if roots.open else among, module)
        total = grid[0] * grid[1] * grid[2]
        error.notes = (
            *error.notes,
            Note(f"{found[block.ENDED]} of {total} programs had ended; what they wrote stays"),
        )
        error.guarded = True  # type: ignore[attr-defined]  # nothing is lost
        return error


class _Table:
    """The process's memory as checked code reads it; it lives as long as this."""

    def __init__(self) -> None:
        ranges = mapped() or [(4096, (1 << 63) - 1, 3)]
        self.rows = len(ranges)
        self._words = (ctypes.c_int64 * (3 * self.rows))(*(
            min(word, (1 << 63) - 1) for row in ranges for word in row
        ))  # fmt: skip
        self.address = ctypes.addressof(self._words)
