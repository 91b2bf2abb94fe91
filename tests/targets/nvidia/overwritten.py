"""A model of what products by four warps read from registers in a listing of nvdisasm.

Where all rounds of a loop read the same first operand (the IR says which), its registers hold it as
a round begins, so nothing of the loop may write them. An assembler that takes a register for free
once a product has read it, though the next round reads it again, is found so, without a GPU: only
the first round is right there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from workbench.ir import Block, Module, Op, layout_of
from workbench.targets.nvidia.ops import WarpgroupDot
from workbench.targets.nvidia.passes.kept_operands import made_in

_ROW = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+ )?\s*([A-Z][A-Za-z0-9_.]*)\s*([^;]*);")
_LABEL = re.compile(r"\s*(\.L_\w+):")
_TARGET = re.compile(r"`\((\.L_\w+)\)")
_REGISTER = re.compile(r"R(\d+)\b")
_PRODUCT = re.compile(r"[HIQ]GMMA\.64x(\d+)x")
#: Instructions whose first operand is no result.
_NO_RESULT = ("ST", "RED", "BAR", "BRA", "EXIT", "MEMBAR", "LDGSTS", "SYNCS", "UTMA", "NOP")


@dataclass(frozen=True, slots=True)
class _Row:
    """An instruction: the registers that it writes, and of a product those of its first operand."""

    text: str
    writes: frozenset[int]
    first: frozenset[int]
    ops: Collection[int]


@dataclass(slots=True)
class _Part:
    """Instructions that run one after the other, and the parts that may follow."""

    rows: list[_Row] = field(default_factory=list[_Row])
    after: list[int] = field(default_factory=list[int])


def read_in_all_rounds(module: Module) -> set[int]:
    """Return the products in loops whose first operand, in registers, no round changes."""
    found: set[int] = set()

    def within(block: Block, loop: Op | None) -> None:
        for op in block.ops:
            first = op.first if isinstance(op, WarpgroupDot) else None
            if loop is None or first is None or first in made_in(loop):
                pass
            elif layout_of(first.type) is not None:
                found.add(op.id)
            for region in op.regions:
                within(region, op if op.repeats else loop)

    within(module.body, None)
    return found


def overwritten(text: str, rows: Sequence[Collection[int]], products: set[int]) -> list[str]:
    """Return what is wrong with `products` in a listing whose rows are of such ops."""
    parts, wrong = _parts(text, rows, products), dict[str, None]()
    loops = _loops(parts)
    for head, inside in loops:
        written = {r for number in inside for row in parts[number].rows for r in row.writes}
        begins = _as_at(parts, head, inside, written)
        for number in inside:
            if any(number in more and more < inside for _, more in loops):
                continue  # of a loop inside of this one
            same = set(begins[number])
            for row in parts[number].rows:
                lost = same & row.first
                if lost and not products.isdisjoint(row.ops):
                    names = ", ".join(f"R{r}" for r in sorted(lost))
                    wrong[f"a round writes {names} of {row.text}"] = None
                same -= row.writes
    return list(wrong)


def _parts(text: str, rows: Sequence[Collection[int]], products: set[int]) -> list[_Part]:
    parts, labels, targets = [_Part()], dict[str, int](), dict[int, str]()
    for line, ops in zip(text.splitlines(), _of_statements(text, rows, products), strict=False):
        if label := _LABEL.match(line):
            if parts[-1].rows:
                parts[-1].after.append(len(parts))
                parts.append(_Part())
            labels[label[1]] = len(parts) - 1
        elif found := _ROW.match(line):
            _, name, operands = found.groups()
            parts[-1].rows.append(_row(line, name, operands, ops))
            if name.split(".")[0] in ("BRA", "EXIT"):
                if target := _TARGET.search(operands):
                    targets[len(parts) - 1] = target[1]
                always = "@" not in line and not re.match(r"U?P|!", operands)
                if not always:
                    parts[-1].after.append(len(parts))
                parts.append(_Part())
    for number, label in targets.items():
        parts[number].after.append(labels[label])
    for part in parts:
        part.after = [number for number in part.after if number < len(parts)]
    return parts


def _of_statements(
    text: str, rows: Sequence[Collection[int]], products: set[int]
) -> list[Collection[int]]:
    """Return the ops of rows; all products of a statement are of the op that most of them name."""
    found, statement = list[Collection[int]](), list[int]()
    for number, (line, ops) in enumerate(zip(text.splitlines(), rows, strict=False)):
        found.append(ops)
        if "GMMA" in line:
            statement.append(number)
            if "gsb0" in line:
                named = Counter(op for one in statement for op in rows[one])
                most = sorted(named, key=lambda op: (named[op], op in products))[-1:]
                for one in statement:
                    found[one] = most
                statement.clear()
    return found


def _row(line: str, name: str, operands: str, ops: Collection[int]) -> _Row:
    named = [part.strip() for part in operands.split(",")]
    while named and re.fullmatch(r"!?U?P(\d|T)", named[0]):
        named.pop(0)
    result = _REGISTER.match(named[0]) if named else None
    writes, first = frozenset[int](), frozenset[int]()
    if result is not None and not name.startswith(_NO_RESULT):
        low = int(result[1])
        writes = frozenset(range(low, low + _width(name)))
    if _PRODUCT.match(name) and (a := _REGISTER.match(named[1])):
        first = frozenset(range(int(a[1]), int(a[1]) + 4))
    return _Row(" ".join(line.split()), writes, first, ops)


def _width(name: str) -> int:
    """Return how many registers an instruction writes, at least."""
    if product := _PRODUCT.match(name):
        return int(product[1]) // 2
    words = name.split(".")
    if "128" in words:
        return 4
    return 2 if "64" in words or "WIDE" in words or words == ["CS2R"] else 1


def _loops(parts: Sequence[_Part]) -> list[tuple[int, set[int]]]:
    """Return the loops of a flow graph: where a round begins, and its parts."""
    before: dict[int, list[int]] = {number: [] for number in range(len(parts))}
    for number, part in enumerate(parts):
        for following in part.after:
            before[following].append(number)
    everything = set(range(len(parts)))
    over = dict.fromkeys(everything, everything) | {0: {0}}
    changed = True
    while changed:  # which parts lie on all ways to a part
        changed = False
        for number in range(1, len(parts)):
            ways = [over[one] for one in before[number]]
            new = {number} | (set.intersection(*ways) if ways else set())
            changed |= new != over[number]
            over[number] = new
    found: dict[int, set[int]] = {}
    for number, part in enumerate(parts):
        for head in part.after:
            if head in over[number]:
                inside, left = found.setdefault(head, {head}), [number]
                while left:
                    if (one := left.pop()) not in inside:
                        inside.add(one)
                        left += before[one]
    return list(found.items())


def _as_at(
    parts: Sequence[_Part], head: int, inside: set[int], registers: set[int]
) -> dict[int, set[int]]:
    """Return which registers may hold at each part what they held as the round began."""
    same: dict[int, set[int]] = {number: set() for number in inside} | {head: set(registers)}
    left = [head]
    while left:
        number = left.pop()
        kept = same[number].difference(*(row.writes for row in parts[number].rows))
        for following in parts[number].after:
            if following in inside and following != head and not kept <= same[following]:
                same[following] |= kept
                left.append(following)
    return same
