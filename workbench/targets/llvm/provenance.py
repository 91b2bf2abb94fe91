"""What LLVM IR says of ops: which kinds of instruction each has, and whose results they read.

A kind is a word and a width: ("add", 64). Kinds that code generation takes for each other are one:
additions are differences and steps of a pointer, products are shifts to the left.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from workbench.targets.llvm.listing import DBG, places

Kind = tuple[str, int]

_INSTRUCTION = re.compile(r"\s+(?:(%[\w.]+) = )?(\w+)\b(.*)")
_NAME = re.compile(r"%[\w.]+")
_WIDTH = re.compile(r"\bi(\d+)\b")
_SPECIAL = re.compile(r"@llvm\.nvvm\.read\.ptx\.sreg\.([\w.]+)\(")
_KINDS = {
    "add": "add", "sub": "add", "mul": "mul", "shl": "mul", "and": "and", "or": "or", "xor": "xor",
    "lshr": "shr", "ashr": "shr", "sext": "cvt", "zext": "cvt", "trunc": "cvt", "icmp": "setp",
    "fcmp": "setp", "select": "selp", "fadd": "fadd", "fsub": "fadd", "fmul": "fmul",
    "sitofp": "cvtf", "uitofp": "cvtf", "fptrunc": "cvtf", "fpext": "cvtf", "fptosi": "cvtf",
    "fptoui": "cvtf",
}  # fmt: skip
_EXACT = frozenset(("add", "mul", "and", "or", "xor", "shr"))


@dataclass
class Provenance:
    """What each op, by its number in the debug locations, is made of.

    Attributes:
        kinds: of its instructions; "" stands for one of any other kind that has a result.
        reads: the numbers of the ops whose results its instructions read.
        special: who reads each special register.
    """

    kinds: dict[int, set[Kind]] = field(default_factory=lambda: defaultdict(set))
    reads: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    special: dict[str, int] = field(default_factory=dict[str, int])

    def nearest(self, start: int, wanted: frozenset[Kind]) -> int:
        """Return the op nearest to one, itself first and then whom it reads, that has a kind.

        0 if there is none.
        """
        level, seen = [start], {start}
        while level:
            found = [number for number in level if wanted & self.kinds.get(number, set())]
            if found:
                return min(found)
            following = {other for number in level for other in self.reads.get(number, ())}
            level = sorted(following - seen)
            seen |= following
        return 0


def provenance(text: str) -> Provenance:
    """Read the LLVM IR of one kernel."""
    found = Provenance()
    lines = text.splitlines()
    numbers = places(lines)
    of: dict[str, int] = {}
    for line in lines:
        located, match = DBG.search(line), _INSTRUCTION.match(line)
        number = numbers.get(located[1], 0) if located else 0
        if match is None or not number:
            continue
        result, opcode, rest = match.groups()
        found.kinds[number] |= {_kind(opcode, rest)} if result else set()
        # What a loop carries is read a round later: it is nothing that the reader is made of.
        names = () if opcode == "phi" else _NAME.findall(rest)
        found.reads[number] |= {of[name] for name in names if name in of} - {number}
        if special := _SPECIAL.search(rest):
            found.special.setdefault(special[1], number)
        if result:
            of[result] = number
    return found


def _kind(opcode: str, rest: str) -> Kind:
    if opcode == "getelementptr":
        return "add", 64
    word = _KINDS.get(opcode, "")
    width = _WIDTH.search(rest)
    return word, int(width[1]) if width and word in _EXACT else 0
