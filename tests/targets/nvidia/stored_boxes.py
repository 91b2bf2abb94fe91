"""A machine for what gpu.tensor_store is written as: straight LLVM IR, all threads at once.

It has shared memory byte by byte, the copies to global memory that are under way, and finds what a
missing instruction breaks: a copy that reads what no fence and no meeting of the warp has shown it,
bytes that are written while a copy still reads them, copies that read on at the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.ir import Module
from workbench.layouts import SWIZZLES
from workbench.layouts.predict import phases, wavefronts
from workbench.targets.nvidia.chip import Chip, chip
from workbench.targets.nvidia.ops import MakeTensorMap
from workbench.targets.simt.kernel import lower
from workbench.targets.simt.passes.shared_memory import allocate

SM_90A = chip("sm_90a")
_ASM = re.compile(r'asm sideeffect "([^"]*)", "[^"]*"\((.*)\)')
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "shl": np.left_shift, "lshr": np.right_shift,
}  # fmt: skip


class BrokenError(AssertionError):
    """Something is read, written or left in the wrong order."""


def lines_of(module: Module, unit: Chip = SM_90A) -> list[str]:
    """Return the instructions of a module of GPU IR."""
    offsets, _, _ = allocate(module, unit)
    text = lower(module, unit, offsets).emit.lines
    return [line.strip().split(", !dbg")[0] for line in text]


class Block:
    """A block of warps that runs instructions, with the arguments of its kernel as numbers."""

    def __init__(self, module: Module, arguments: dict[str, int]) -> None:
        self.warps: int = module.attributes["num_warps"]
        self.maps = [op for op in module.walk() if isinstance(op, MakeTensorMap)]
        self.threads = np.arange(32 * self.warps, dtype=np.int64)
        zero = np.zeros_like(self.threads)
        names = {f"%a{n}": p.name for n, p in enumerate(module.parameters)}
        self.values = {name: zero + arguments.get(held, 0) for name, held in names.items()}
        size = 1 << 18
        self.memory = np.full(size, -1, np.int64)  # by byte: the element that begins there
        #: Whose write it was, -1: copies see it; and what that thread has done to have it seen.
        self.writer = np.full(size, -1, np.int64)
        self.fenced = np.zeros(size, bool)
        #: By warp: groups of copies under way, the latest last, each the ranges that it reads.
        self.groups: list[list[list[range]]] = [[] for _ in range(self.warps)]
        self.open: list[list[range]] = [[] for _ in range(self.warps)]
        #: By warp: what its copies have read, as far as it knows alone: it has met nobody since.
        self.waited: list[list[range]] = [[] for _ in range(self.warps)]
        self.stored: dict[tuple[int, ...], int] = {}
        self.conflicts = 0

    def run(self, lines: Sequence[str], *, ends: bool = True) -> dict[tuple[int, ...], int]:
        """Run instructions; returns what was stored, by coordinates of the map.

        ends: whether the block has nothing to do after them.
        """
        for line in lines:
            if line == "ret void":
                break
            name, _, rest = line.partition(" = ")
            if rest:
                self.values[name] = self.computed(rest)
            elif "bar.warp.sync" in line or "barrier.cta.sync.aligned.count" in line:
                self.meet(line)
            elif line.startswith("store <2 x i32>"):
                self.vectors(*map(self.of, re.findall(r"%\S+|@\S+", line.replace(",", " "))))
            elif asm := _ASM.search(line):
                operands = [one.split() for one in asm[2].split(", ")] if asm[2] else []
                self.do(asm[1], [self.of(words[-1]) for words in operands])
            else:
                raise NotImplementedError(line)
        if ends and (any(self.groups) or any(self.open)):
            raise BrokenError("copies read shared memory that nobody waits for")
        return self.stored

    def of(self, word: str) -> Any:
        if word.lstrip("-").isdigit():
            return np.zeros_like(self.threads) + int(word)
        if word in ("@shared_memory", "poison"):
            return np.zeros_like(self.threads)
        if word.startswith("%map"):
            return np.zeros_like(self.threads) + int(word[4:])
        if found := re.match(r"getelementptr \(i8, .*i32 (\d+)\)", word):
            return np.zeros_like(self.threads) + int(found[1])
        return self.values[word]

    def computed(self, text: str) -> Any:
        words = text.replace(",", " ").split()
        if "tid.x" in text:
            return self.threads
        if words[0] in _BINARY:
            mask = (1 << int(words[-3][1:])) - 1
            return _BINARY[words[0]](self.of(words[-2]), self.of(words[-1])) & mask
        if words[0] == "getelementptr":
            start = re.search(r"getelementptr \(i8.*?i32 (\d+)\)", text[3:])
            base = np.zeros_like(self.threads) + int(start[1]) if start else self.of(words[-3])
            return base + self.of(words[-1])
        if words[0] == "ptrtoint":
            start = re.search(r"getelementptr \(i8.*?i32 (\d+)\)", text)
            return self.of(start[1]) if start else self.of(words[-3])
        if words[:2] == ["icmp", "eq"]:
            return self.of(words[-2]) == self.of(words[-1])
        if words[0] == "insertelement":
            before = self.of(re.search(r"> (\S+),", text)[1])  # type: ignore[index]
            bits = int(words[3].rstrip(">")[1:])
            return before | (self.of(words[-3]) & (1 << bits) - 1) << bits * int(words[-1])
        if words[0] == "bitcast":
            return self.of(words[-3])
        if "cvt.u16.u32" in text:
            return self.of(text.rstrip(")").split()[-1]) & 0xFFFF
        if words[0] in ("trunc", "zext"):
            return self.of(words[-3]) & 0xFFFF
        raise NotImplementedError(text)

    def do(self, text: str, operands: list[Any]) -> None:  # noqa: C901, a table of instructions
        condition = np.ones_like(self.threads, bool)
        if text.startswith("@"):
            condition, text = operands[-1], text.partition(" ")[2]
        if text.startswith("stmatrix"):
            self.matrices(operands[0], operands[1:], turned=".trans" in text)
        elif text.startswith("fence.proxy.async"):
            self.fenced[self.writer >= 0] = True
        elif text.startswith("cp.async.bulk.tensor"):
            copies = condition.reshape(-1, 32).sum(1)
            assert copies[:: self.warps // int(copies.sum())].tolist() == [1] * int(copies.sum())
            for thread in self.threads[condition]:
                place, number, *coordinates = (int(held[thread]) for held in operands[:-1])
                self.copy(int(thread) // 32, self.maps[number], place, coordinates[::-1])
        elif text.startswith("prefetch.tensormap"):
            pass
        elif "commit_group" in text:
            for warp in range(self.warps):
                self.groups[warp].append(self.open[warp])
                self.open[warp] = []
        elif "wait_group" in text:
            most = int(text.rstrip(";").split()[-1])
            for groups, waited in zip(self.groups, self.waited, strict=True):
                ended = max(0, len(groups) - most)
                waited += [held for group in groups[:ended] for held in group]
                del groups[:ended]
        else:
            raise NotImplementedError(text)

    def matrices(self, rows: Any, words: list[Any], *, turned: bool) -> None:
        """PTX ISA 9.0, stmatrix: lane 8 j + r gives the address of row r of matrix j."""
        lane = self.threads % 32
        first = self.threads - lane
        for warp in range(self.warps):
            at = [int(n) for n in rows[32 * warp : 32 * warp + 8 * len(words)]]
            self.conflicts += wavefronts(at, 16) - phases(16, len(at))
            going = [held for groups in self.groups for group in groups for held in group]
            going += [r for other, held in enumerate(self.waited) if other != warp for r in held]
            if any(row < held.stop and held.start < row + 16 for row in at for held in going):
                raise BrokenError("written while a copy reads it")
        for matrix, held in enumerate(words):
            for part in range(2):
                row, column = lane // 4, 2 * (lane % 4) + part
                row, column = (column, row) if turned else (row, column)
                bytes_ = rows[first + 8 * matrix + row] + 2 * column
                self.memory[bytes_] = held >> 16 * part & 0xFFFF
                self.writer[bytes_], self.fenced[bytes_] = self.threads, False

    def vectors(self, held: Any, places: Any) -> None:
        """Store two words of each thread side by side."""
        for thread, place in enumerate(places):
            going = [one for group in self.groups[thread // 32] for one in group]
            if any(place < one.stop and one.start < place + 8 for one in going):
                raise BrokenError("written while a copy reads it")
        for part in range(2):
            self.memory[places + 4 * part] = held >> 32 * part & 0xFFFFFFFF
            self.writer[places + 4 * part] = self.threads
            self.fenced[places + 4 * part] = False

    def meet(self, line: str) -> None:
        """What was fenced before is seen by all that meet, and by their copies.

        Warps meet others as many as they are told, by a number for each group of these.
        """
        self.writer[self.fenced] = -1
        if "warp.sync" not in line:
            self.waited = [[] for _ in range(self.warps)]
        if found := re.search(r"count\(i32 (\S+), i32 (\d+)\)", line):
            numbers, counts = np.unique(self.of(found[1]), return_counts=True)
            assert numbers.min() >= 8
            assert numbers.max() < 16
            assert set(counts.tolist()) == {int(found[2])}

    def copy(self, warp: int, of_box: MakeTensorMap, place: int, start: list[int]) -> None:
        """Copy a box, the 16-byte chunks of its rows exchanged by their addresses."""
        box, width = of_box.copied, of_box.swizzle
        item = of_box.type.element.itemsize
        (mask, shift), size = SWIZZLES[width], box[0] * width
        assert place % (8 * width) == 0
        row, column = np.indices(box)
        bytes_ = place + row * width + item * column
        bytes_ ^= (bytes_ // width >> shift & mask) << 4
        if (self.writer[bytes_] >= 0).any() or (self.memory[bytes_] < 0).any():
            raise BrokenError("a copy reads what it has not been shown")
        for by, held in np.ndenumerate(self.memory[bytes_]):
            where = (start[0] + by[0], start[1] + by[1])
            assert where not in self.stored, "stored twice"
            self.stored[where] = int(held)
        self.open[warp].append(range(place, place + size))
