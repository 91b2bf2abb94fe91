"""Runs LLVM text of straight-line code for all threads of a block at once, without a GPU.

Every instruction is carried out for all threads before the next one. Who reads what another thread
has written without having met it since, or writes what another reads, is an error: on a GPU the
two come in any order. Shared memory begins at address 0, arrays lie behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.ir import Module
from workbench.targets.nvidia.chip import Chip
from workbench.targets.simt.kernel import lower

_LANES, _APART = 32, 1 << 20
Words = Any  # a number for each thread, as 64 bits


class UnorderedError(AssertionError):
    """Two threads touch a byte, one of them writes it, and they have not met in between."""


class Memory:
    def __init__(self, shared: int, arrays: Sequence[np.ndarray[Any, Any]], threads: int) -> None:
        self.starts = [_APART * (1 + n) for n in range(len(arrays))]
        self.bytes = np.zeros(_APART * (1 + len(arrays)), np.uint8)
        self.arrays = arrays
        self.allowed = np.zeros(len(self.bytes), bool)
        self.allowed[:shared] = True
        for start, array in zip(self.starts, arrays, strict=True):
            self.bytes[start : start + array.nbytes] = array.view(np.uint8).ravel()
            self.allowed[start : start + array.nbytes] = True
        self.threads = np.arange(threads)
        self.time = 1
        self.block_met = 0
        self.warp_met = 0
        #: Of the latest write and read of each byte of shared memory: thread (-1: several), time.
        self.wrote, self.written = np.zeros(shared, int), np.zeros(shared, int)
        self.read_by, self.read_at = np.zeros(shared, int), np.zeros(shared, int)

    def meet(self, *, block: bool) -> None:
        """Hear that all threads of a warp, or of the block, have waited for each other."""
        self.time += 1
        self.warp_met = self.time
        self.block_met = self.time if block else self.block_met

    def places(self, addresses: Words, size: int, live: Any) -> Any:
        self.time += 1
        places = addresses[:, None] + np.arange(size)
        assert not np.any(addresses[live] % size), "an access is not aligned"
        assert self.allowed[places[live]].all(), "an access lies outside"
        return places

    def _is_met(self, by: Any, at: Any) -> Any:
        own = self.threads[:, None]
        warp = (by >= 0) & (by // _LANES == own // _LANES) & (at < self.warp_met)
        return (at == 0) | (by == own) | (at < self.block_met) | warp

    def load(self, addresses: Words, size: int, live: Any) -> Any:
        places = self.places(addresses, size, live)
        if places[live].size and places[live].max() < len(self.wrote):
            met = self._is_met(self.wrote[places], self.written[places])
            if not met[live].all():
                raise UnorderedError("what is read was written by threads that nobody waited for")
            for thread in np.flatnonzero(live):
                here = places[thread]
                new = self.read_at[here] < max(self.block_met, self.warp_met)
                self.read_by[here] = np.where(new | (self.read_by[here] == thread), thread, -1)
                self.read_at[here] = self.time
        return np.where(live[:, None], self.bytes[np.where(live[:, None], places, 0)], 0)

    def store(self, addresses: Words, data: Any, live: Any) -> None:
        places = self.places(addresses, data.shape[1], live)
        if places[live].size and places[live].max() < len(self.wrote):
            read = self._is_met(self.read_by[places], self.read_at[places])
            wrote = self._is_met(self.wrote[places], self.written[places])
            if not (read & wrote)[live].all():
                raise UnorderedError("what is written is in use by threads that nobody waited for")
            self.wrote[places[live]] = np.broadcast_to(self.threads[:, None], places.shape)[live]
            self.written[places[live]] = self.time
        self.bytes[places[live]] = data[live]


def run(
    module: Module, offsets: dict[int, int], total: int, chip: Chip, arguments: Sequence[Any]
) -> None:
    """Run one program of GPU IR that has no branches, arguments in place."""
    low = lower(module, chip, offsets)
    threads = chip.lanes * module.attributes["num_warps"]
    arrays = [a for a in arguments if isinstance(a, np.ndarray)]
    memory = Memory(max(1, total), arrays, threads)
    starts = iter(memory.starts)
    values: dict[str, Any] = {
        f"%a{n}": np.full(threads, next(starts) if isinstance(a, np.ndarray) else a, np.int64)
        for n, a in enumerate(arguments)
    }
    block = Block(memory, values)
    for line in low.emit.lines:
        block.step(line.strip().rpartition(", !dbg")[0] or line.strip())
    for start, array in zip(memory.starts, arrays, strict=True):
        array.view(np.uint8).ravel()[:] = memory.bytes[start : start + array.nbytes]


def _signed(words: Words, bits: int) -> Words:
    return words if bits == 64 else ((words & (1 << bits) - 1) ^ (1 << bits - 1)) - (1 << bits - 1)


def _unsigned(words: Words, bits: int) -> Words:
    return words if bits == 64 else words & (1 << bits) - 1


_SIGNED: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "shl": np.left_shift,
}  # fmt: skip
_UNSIGNED = {"lshr": np.right_shift, "udiv": np.floor_divide, "urem": np.remainder}
_COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
            "gt": np.greater, "ge": np.greater_equal}  # fmt: skip
_OPERAND = r"(?:getelementptr \(.*?\)|[%@][\w.]+|-?\w+)"


_FORMS = {
    "binary": rf"(\w+)(?: nsw| nuw| exact| disjoint)* i(\d+) ({_OPERAND}), ({_OPERAND})$",
    "compare": rf"icmp ([us]?)(\w\w) (\S+) ({_OPERAND}), ({_OPERAND})$",
    "extend": rf"(sext|zext|trunc)(?: \w+)* i(\d+) ({_OPERAND}) to i(\d+)$",
    "address": rf"ptrtoint .*? ({_OPERAND}) to \S+$",
    "bitcast": rf"bitcast (<.*?>|\w+) ({_OPERAND}) to (<.*?>|\w+)$",
    "moved": rf"getelementptr(?: inbounds)? (\w+), ptr(?: addrspace\(\d\))? ({_OPERAND}), "
    rf"i(\d+) ({_OPERAND})$",
    "load": rf"load (?:volatile )?(<.*?>|\w+), ptr addrspace\(\d\) ({_OPERAND})(?:, align|$)",
    "store": rf"store (<.*?>|\w+) ({_OPERAND}), ptr addrspace\(\d\) ({_OPERAND})(?:, align|$)",
    "extract": rf"extractelement <.*> ({_OPERAND}), i32 (\d+)$",
    "insert": rf"insertelement (<.*>) ({_OPERAND}), \w+ ({_OPERAND}), i32 (\d+)$",
    "thread": r"call i32 @llvm.nvvm.read.ptx.sreg.tid.x\(\)",
    "meet": r"call void @llvm.nvvm.(bar.warp|barrier.cta).sync",
    "permute": rf"call i32 @llvm.nvvm.prmt\(i32 ({_OPERAND}), i32 ({_OPERAND}), i32 (\d+)\)",
    "ballot": rf"call i32 @llvm.nvvm.vote.ballot.sync\(i32 -1, i1 ({_OPERAND})\)",
    "copy": rf'call void asm sideeffect "cp.async.cg.shared.global \[\$0\], \[\$1\+(\d+)\], 16'
    rf'(?:, \$2)?;", "[rlb,]+"\(i32 ({_OPERAND}), ptr addrspace\(1\) ({_OPERAND})'
    rf"(?:, i1 ({_OPERAND}))?\)",
    "nothing": r'call void asm sideeffect "(cp.async.(commit_group|wait_group 0)|fence\.[\w.:]+);"',
}


def _parts(type: str) -> tuple[int, int]:
    """Return how many elements a type has, and the bits of one."""
    found = re.fullmatch(r"<(\d+) x (\w+)>", type)
    count, element = (int(found[1]), found[2]) if found else (1, type)
    return count, {"half": 16, "ptr": 64}.get(element) or int(element[1:])


class Block:
    """The values of all threads; of a vector a list."""

    def __init__(self, memory: Memory, values: dict[str, Any]) -> None:
        self.memory = memory
        self.values = values
        self.threads = memory.threads
        self.all = np.ones(len(self.threads), bool)

    def value(self, text: str, bits: int = 64) -> Any:
        if text in self.values:
            return self.values[text]
        if text == "@shared_memory":
            return np.zeros(len(self.threads), np.int64)
        if found := re.fullmatch(r"getelementptr \(i8, ptr addrspace\(3\) (.*), i32 (\d+)\)", text):
            return self.value(found[1]) + int(found[2])
        number = {"true": 1, "false": 0, "poison": 0, "zeroinitializer": 0}.get(text)
        number = np.int64(text) if number is None else np.int64(number)
        return np.full(len(self.threads), _signed(number, bits) if bits > 1 else number)

    def step(self, line: str) -> None:
        name, _, text = line.partition(" = ") if line.startswith("%") else ("", "", line)
        if not text or text.startswith("ret") or text.endswith(":"):
            return
        for form, pattern in _FORMS.items():
            if found := re.match(pattern, text):
                result = getattr(self, form)(*found.groups())
                if name:
                    self.values[name] = result
                return
        raise NotImplementedError(text)

    def binary(self, name: str, width: str, left: str, right: str) -> Any:
        bits = int(width)
        a, b = self.value(left, bits), self.value(right, bits)
        if name in _SIGNED:
            found = _SIGNED[name](a, b)
            return found & 1 if bits == 1 else _signed(found, bits)
        return _signed(_UNSIGNED[name](_unsigned(a, bits), _unsigned(b, bits)), bits)

    def compare(self, sign: str, name: str, type: str, left: str, right: str) -> Any:
        _, bits = _parts(type)
        a, b = self.value(left, bits), self.value(right, bits)
        if sign == "u":
            a, b = _unsigned(a, bits), _unsigned(b, bits)
        return _COMPARE[name](a, b).astype(np.int64)

    def extend(self, how: str, width: str, given: str, to: str) -> Any:
        value = self.value(given, int(width))
        value = _unsigned(value, int(width)) if how == "zext" else value
        return value & 1 if to == "1" else _signed(value, int(to))

    def address(self, given: str) -> Any:
        return self.value(given)

    def moved(self, type: str, start: str, width: str, by: str) -> Any:
        return self.value(start) + _parts(type)[1] // 8 * self.value(by, int(width))

    def load(self, type: str, place: str) -> Any:
        count, bits = _parts(type)
        return self.taken_apart(
            self.memory.load(self.value(place), count * bits // 8, self.all), type
        )

    def store(self, type: str, given: str, place: str) -> None:
        self.memory.store(self.value(place), self.put_together(given, type), self.all)

    def bitcast(self, type: str, given: str, to: str) -> Any:
        return self.taken_apart(self.put_together(given, type), to)

    def taken_apart(self, data: Any, type: str) -> Any:
        count, bits = _parts(type)
        padded = np.zeros((len(self.threads), count, 8), np.uint8)
        padded[:, :, : bits // 8] = data.reshape(len(self.threads), count, bits // 8)
        words = [_signed(padded[:, n].copy().view(np.int64)[:, 0], bits) for n in range(count)]
        return words if type.startswith("<") else words[0]

    def put_together(self, given: str, type: str) -> Any:
        count, bits = _parts(type)
        parts = self.value(given, bits)
        parts = parts if type.startswith("<") else [parts]
        assert len(parts) == count
        return np.concatenate(
            [p.astype(np.int64).view(np.uint8).reshape(-1, 8)[:, : bits // 8] for p in parts], 1
        )

    def extract(self, given: str, number: str) -> Any:
        return self.values[given][int(number)]

    def insert(self, type: str, into: str, given: str, number: str) -> Any:
        parts = [*self.values.get(into, [self.value("0")] * _parts(type)[0])]
        parts[int(number)] = self.value(given, _parts(type)[1])
        return parts

    def thread(self) -> Any:
        return self.threads.astype(np.int64)

    def meet(self, who: str) -> None:
        self.memory.meet(block=who == "barrier.cta")

    def permute(self, first: str, second: str, chosen: str) -> Any:
        low, high = (_unsigned(self.value(text, 32), 32) for text in (first, second))
        both, word = low | high << 32, np.zeros(len(self.threads), np.int64)
        for byte in range(4):
            word |= (both >> 8 * (int(chosen) >> 4 * byte & 7) & 255) << 8 * byte
        return _signed(word, 32)

    def ballot(self, given: str) -> Any:
        on = self.value(given, 1).reshape(-1, _LANES)
        return _signed(np.repeat((on << np.arange(_LANES)).sum(1), _LANES), 32)

    def copy(self, offset: str, target: str, source: str, ignored: str | None) -> None:
        live = self.all if ignored is None else self.value(ignored, 1) == 0
        data = self.memory.load(self.value(source) + int(offset), 16, live)
        self.memory.store(self.value(target), data, self.all)

    def nothing(self, *_: str) -> None: ...
