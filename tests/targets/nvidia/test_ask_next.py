"""What threads load first for a program that is drawn is asked for by the producer before."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.passes.meaning import meaning
from tests.targets.nvidia.persistent import each_of, results
from tests.targets.nvidia.protocol import explore, record
from tests.targets.nvidia.test_pages import prefill, sequences_of, steps
from tests.targets.nvidia.test_tickets import STAY, drawn, text_of
from workbench.ir import Frame, shape_of, walk
from workbench.ops import Load
from workbench.targets.nvidia.ops import Prefetch
from workbench.targets.nvidia.passes import ask_next
from workbench.targets.simt.ops import AsConsumers


@pytest.fixture(autouse=True)
def tiles_of_two_kilobytes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ask_next, "LEAST_BYTES", 1024)


@pytest.mark.parametrize(("blocks", "seed"), [(1, 0), (3, 1), (0, 0)])
def test_what_is_asked_for_is_what_the_program_loads(
    blocks: int, seed: int, monkeypatch: pytest.MonkeyPatch
):
    """Each address of each program once, and no other."""
    before, module = drawn()
    asked: dict[tuple[int, int], list[int]] = {}
    loaded: dict[tuple[int, int], list[int]] = {}

    def note(to: dict[tuple[int, int], list[int]], op: Any, frame: Frame) -> None:
        shape = shape_of(op.pointers.type)
        live = np.broadcast_to(frame.get(op.mask, True), shape).astype(bool)
        found = np.broadcast_to(frame[op.pointers], shape)[live]
        place = frame.program_id(0), frame.program_id(1)
        to.setdefault(place, []).extend(int(address) for address in found)

    def loading(op: Load, frame: Frame, plain: Callable[..., Any] = Load.interpret) -> Any:
        if len(shape_of(op.pointers.type)) == 2:
            note(loaded, op, frame)
        return plain(op, frame)

    monkeypatch.setattr(Prefetch, "interpret", lambda op, frame: note(asked, op, frame))
    monkeypatch.setattr(Load, "interpret", loading)
    arguments, grid = sequences_of(64)
    found = results(module, grid, sequences_of(64)[0], blocks, seed)
    assert {k: sorted(v) for k, v in asked.items()} == {k: sorted(v) for k, v in loaded.items()}
    assert any(asked.values())
    monkeypatch.undo()
    assert found == meaning(before, grid, arguments)


def test_it_is_in_front_of_the_copies_of_the_same_program():
    _, module = drawn()
    ops = [type(op) for op in walk(each_of(module, "producer").body)]
    assert ops.count(AsConsumers) == ops.count(Prefetch) == 1
    assert not any(isinstance(op, Prefetch) for op in walk(each_of(module, "consumers").body))
    assert explore(record(module, sequences_of(64)[0], 1, sequences_of(64)[1]))[0] == "ok"


@pytest.mark.parametrize("options", [{"ask_next": False}, {"tickets": False}])
def test_nobody_asks_without_the_option_or_where_no_program_is_drawn(options: dict[str, bool]):
    _, module = drawn(**options)
    assert not any(isinstance(op, Prefetch | AsConsumers) for op in module.walk())


class Words:
    """What one thread computes in straight-line LLVM; what is loaded or chosen by a branch is 0."""

    def __init__(self, text: str, thread: int, given: dict[str, int]) -> None:
        self.thread, self.given = thread, given
        self.made = dict(re.findall(r"^\s*(%\S+) = (.*?)(?:, !dbg.*)?$", text, re.MULTILINE))
        self.value = cache(self._value)

    def _value(self, word: str) -> int:
        if not word.startswith("%"):
            return int(word)
        text = self.made.get(word)
        if text is None:
            return self.given.get(word.lstrip("%"), 0)
        if "tid.x" in text:
            return self.thread
        words = re.findall(r"(?<![\w.])(%[\w.]+|-?\d+)(?![\w.])", text)
        name = text.split()[0]
        if name in ("sext", "zext", "trunc", "ptrtoint", "bitcast", "freeze"):
            return self.value(words[0])
        if name == "getelementptr":
            assert " i8, " in text
            return self.value(words[-2]) + self.value(words[-1])
        binary: dict[str, Callable[[int, int], int]] = {
            "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
            "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
            "shl": lambda a, b: a << b, "lshr": lambda a, b: a >> b, "ashr": lambda a, b: a >> b,
            "udiv": lambda a, b: a // b, "urem": lambda a, b: a % b,
        }  # fmt: skip
        if name in binary:
            return binary[name](self.value(words[-2]), self.value(words[-1]))
        return 0


def test_a_producers_threads_ask_for_all_lines_of_the_tile():
    """Four warps take the parts of eight: 128 rows (32 tokens, 4 heads) of two lines each."""
    module = [*steps(prefill(16, 128, 32, head=128, warps=8), **STAY).values()][-1]
    text = text_of(module)
    asks = re.findall(
        r'prefetch\.global\.L2 \[\$0(?:\+(\d+))?\];", "l,b"\(ptr addrspace\(1\) (%\S+),', text
    )
    assert len(asks) == 16
    start, token, head = 1 << 20, 4096, 128
    given = {"a0": start, "a10": token, "a11": head}  # q_ptr, stride_qt, stride_qh
    lines: set[int] = set()
    for thread in range(256, 384):
        words = Words(text, thread, given)
        found = [words.value(pointer) + int(more or 0) for more, pointer in asks]
        lines |= {address // 128 for address in found if address % 128 < 16}
    # Of what is loaded all is 0, so the sequence is number -1 and the block its second one.
    rows = [start + 2 * ((32 + i // 4) * token + i % 4 * head) for i in range(128)]
    assert lines == {row // 128 + n for row in rows for n in range(2)}
