"""Facts of SASS: what the hot loops of kernels on tensor cores are made of, by configuration.

    python -m tests.bench.sass_facts [WORD ...]

compiles what contests and the samples of the corpus launch (those whose title begins with the
words, all without any) for sm_90a, once per kernel, and prints a row each: registers, and of all
hot loops what multiplies, what copies to shared memory and how wide, loads to registers by width,
conversions, and all other instructions. What should not be is said below the row, behind "!".

A hot loop is an innermost one that multiplies.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from tests.bench import contests
from tests.bench.ahead import compile_ours, environment, kind
from tests.bench.contests import Tensors
from tests.corpus import every
from tests.corpus.sample import Launch, Maker, Problem, Sample
from workbench.source import KernelError

#: What multiplies: by four warps (fp16, 8-bit floats, bytes), by one, and in fp64.
PRODUCTS = ("HGMMA", "QGMMA", "IGMMA", "HMMA", "QMMA", "IMMA", "DMMA")
_ROW = re.compile(r"/\*([0-9a-f]+)\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Za-z0-9_.]+)\s*([^;]*);")
_LABEL = re.compile(r"^\s*(\.L\w+):")
#: From one number format to another: to and of 8 bits, floats and integers. (F2FP.*.F32 packs two
#: sums into halves, as what is multiplied by a second product always is.)
_CONVERSIONS = re.compile(r"(?:F2I|I2F|F2F|I2I|I2FP|F2IP|FRND)|F2FP\.(?!\w*\.?F32)")
_AHEAD = re.compile(r"\d+ loads? copied |loaded .*ahead|specialised: ")
_NARROW = ("U8", "S8", "U16", "S16")


@dataclass(frozen=True, slots=True)
class Loop:
    """An innermost loop: its instructions by name with modifiers, and what they work on."""

    rows: tuple[tuple[str, str], ...]

    def count(self, *names: str) -> int:
        """Return how many instructions have one of these names."""
        return sum(name.split(".")[0] in names for name, _ in self.rows)

    @property
    def products(self) -> int:
        """Instructions that multiply."""
        return self.count(*PRODUCTS)

    def widths(self, opcode: str) -> Counter[int]:
        """Return how many bits instructions of an opcode move: LDG, LDGSTS, STG, LDS."""
        found: Counter[int] = Counter()
        for name, _ in self.rows:
            first, *modifiers = name.split(".")
            if first == opcode:
                narrow = [int(m[1:]) for m in modifiers if m in _NARROW]
                wide = [int(m) for m in modifiers if m in ("64", "128")]
                found[(narrow or wide or [32])[0]] += 1
        return found

    @property
    def conversions(self) -> int:
        """Instructions that turn one number format into another."""
        return sum(bool(_CONVERSIONS.match(name)) for name, _ in self.rows)

    @property
    def local(self) -> int:
        """Accesses to a thread's own memory: spills."""
        return self.count("LDL", "STL")

    @property
    def others(self) -> int:
        """All but products and copies."""
        moves = self.count("LDGSTS", "LDSM", "UTMALDG", "LDS", "STS", "LDG", "NOP")
        return len(self.rows) - self.products - moves


@dataclass(frozen=True, slots=True)
class Facts:
    """What a kernel was made of."""

    registers: int
    spills: int
    notes: tuple[str, ...]
    boxes: int
    loops: tuple[Loop, ...]
    ahead: int

    @property
    def mma(self) -> str:
        """What multiplies in the hot loops, with how many."""
        found: Counter[str] = Counter()
        for loop in self.loops:
            found.update(n.split(".")[0] for n, _ in loop.rows if n.split(".")[0] in PRODUCTS)
        return " ".join(f"{name} {count}" for name, count in found.items())

    def widths(self, opcode: str) -> Counter[int]:
        """Return the widths of all hot loops."""
        return sum((loop.widths(opcode) for loop in self.loops), Counter[int]())

    def faults(self) -> Iterator[str]:
        """Yield what no hot loop of a kernel should have."""
        if self.spills:
            yield f"{self.spills} bytes spilled"
        if local := sum(loop.local for loop in self.loops):
            yield f"{local} accesses to spilled registers in a hot loop"
        yield from (note for note in self.notes if "C75" in note)
        if not self.loops:
            yield "no loop that multiplies"
        narrow = sum(count for width, count in self.widths("LDG").items() if width <= 16)
        if narrow:
            yield f"{narrow} loads of 16 bits or fewer in a hot loop"
        copies = self.widths("LDGSTS")
        if narrow := sum(count for width, count in copies.items() if width < 128):
            yield f"{narrow} of {copies.total()} copies narrower than 16 bytes"
        if not copies and not self.boxes and not self.ahead:
            yield "nothing is loaded ahead"


def loops_of(sass: str) -> list[Loop]:
    """Return the innermost loops of a listing that multiply, the longest last."""
    rows: list[tuple[str, str]] = []
    labels: dict[str, int] = {}
    jumps: list[tuple[int, int]] = []
    for line in sass.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(rows)
        if row := _ROW.search(line):
            target = re.search(r"`\((\.L\w+)\)", row[3])
            if row[2].startswith("BRA") and target and target[1] in labels:
                jumps.append((labels[target[1]], len(rows) + 1))
            rows.append((row[2], row[3]))
    # Several jumps back to one place are one loop.
    ends = {first: max(last for f, last in jumps if f == first) for first, _ in jumps}
    spans = list(ends.items())
    found = [Loop(tuple(rows[a:b])) for a, b in spans
             if not any(a <= c and d <= b and (a, b) != (c, d)
                        and Loop(tuple(rows[c:d])).products for c, d in spans)]  # fmt: skip
    return sorted((loop for loop in found if loop.products), key=lambda loop: len(loop.rows))


def facts_of(kernel: Any) -> Facts:
    """Return the facts of a kernel that was compiled for an NVIDIA chip."""
    sass = kernel.asm["sass"]
    said = [remark.text for remark in kernel.trace.remarks]
    return Facts(
        kernel.n_regs, kernel.n_spills, tuple(text for text in said if "C75" in text),
        sass.count("UTMALDG"), tuple(loops_of(sass)), sum(bool(_AHEAD.match(t)) for t in said),
    )  # fmt: skip


# -- what is looked at ----------------------------------------------------------------------------
def launches(words: Sequence[str]) -> Iterator[tuple[str, Launch]]:
    """Yield each kernel that is measured once, by a title that begins with the words."""
    known: set[tuple[Any, ...]] = set()
    for name, launch in chain(_of_contests(" ".join(words)), _of_samples(" ".join(words))):
        key = kind(launch, "ours")
        if key not in known:
            known.add(key)
            yield f"{name} {launch.kernel.__name__}", launch


def _of_contests(wanted: str) -> Iterator[tuple[str, Launch]]:
    for contest in contests.all_contests():
        if contest.title.startswith(wanted):
            prepared = contest.prepare(Tensors("meta"))
            for config in contest.configs:
                for launch in prepared.launches(config):
                    yield f"{contest.title} {config}", launch


def _of_samples(wanted: str) -> Iterator[tuple[str, Launch]]:
    for entry in every.SAMPLES:
        title = f"{entry.suite} {entry.name}"
        if title.startswith(wanted):
            yield from ((title, launch) for launch in sample(entry).launches)


def sample(entry: Sample) -> Problem:
    """Return a sample of the corpus at a size that is measured, or the largest that is tested."""
    size = (*entry.bench, *entry.slow[-1:], *entry.fast[-1:])[0]
    return entry.build(Maker((*entry.bench_dtypes, *entry.dtypes)[0]), *size)


def row(name: str, facts: Facts) -> str:
    """Return a kernel's line of the table."""

    def widths(opcode: str) -> str:
        found = sorted(facts.widths(opcode).items(), reverse=True)
        return " ".join(f"{count}x{width}" for width, count in found) or "-"

    return (
        f"{name:64} {facts.registers:4} {facts.mma:18} boxes {facts.boxes:2} "
        f"copies {widths('LDGSTS'):8} loads {widths('LDG'):12} "
        f"conversions {sum(loop.conversions for loop in facts.loops):3} "
        f"others {sum(loop.others for loop in facts.loops):4}"
    )


def main(words: list[str]) -> int:
    """Print the table; return how many kernels have something that should not be."""
    bad = count = 0
    with tempfile.TemporaryDirectory() as cache, environment({"WORKBENCH_CACHE_DIR": cache}):
        for name, launch in launches(words):
            try:
                facts = facts_of(compile_ours(launch))
            except KernelError as error:
                print(f"{name:64} {error.code} {error.message}", flush=True)
                continue
            if not facts.mma:
                continue
            print(row(name, facts), flush=True)
            faults = list(facts.faults())
            for fault in faults:
                print(f"    ! {fault}", flush=True)
            bad, count = bad + bool(faults), count + 1
    print(f"{count} kernels, {bad} of them with something that should not be")
    return bad


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
