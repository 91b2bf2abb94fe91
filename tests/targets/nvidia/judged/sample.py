"""The rows that are judged by hand: drawn with a seed, shown with what they are judged by.

    python -m tests.targets.nvidia.judged.sample draw          keep kernels anew, draw rows
    python -m tests.targets.nvidia.judged.sample show KERNEL   rows of a kernel with their context

`rows.tsv` holds the rows, one a line: kernel, address, SASS, the op it belongs to by the code of
the day it was judged (id, kind, source line), a verdict, and if that is not "exact" the right op
and why. Verdicts: *exact*, the instruction is part of what the op was lowered to; *related*, of
what an op was lowered to that this one reads or feeds, or that stands around it; *unrelated*;
*impossible*, no lowering of such an op holds such an instruction. What is drawn anew is to be
judged anew.
"""

from __future__ import annotations

import csv
import random
import re
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from tests.targets.nvidia.judged.kernels import WANTED, Compiled, keep, kept
from workbench.targets.nvidia.control import address_of_row

ROWS = Path(__file__).parent / "rows.tsv"
SEED = 20261124
COUNT = 500
_OPCODE = re.compile(r"/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_]+)")


@dataclass(frozen=True)
class Judged:
    """A row of the file."""

    kernel: str
    address: str
    sass: str
    op: int
    kind: str
    line: int
    verdict: str
    right: str
    reason: str


def opcode(row: str) -> str:
    """Return the name of an instruction without what is behind the first dot, "" for no row."""
    found = _OPCODE.search(row)
    return found[1] if found else ""


def attributed(kernel: Compiled) -> dict[int, tuple[str, int]]:
    """Return each instruction that belongs to an op, and that op, by address."""
    found = kernel.rows()
    rows = zip(found.text.splitlines(), found.rows, strict=False)
    return {
        address: (text, ops[0])
        for text, ops in rows
        if ops and (address := address_of_row(text)) is not None
    }


def text_of(row: str) -> str:
    """Return an instruction without its address and blanks."""
    return " ".join(row.split("*/", 1)[1].split())


def draw() -> list[Judged]:
    """Draw rows: of each kernel about as many, half of them one of each opcode."""
    found: list[Judged] = []
    for place, what in enumerate(WANTED):
        kernel = kept()[what]
        wanted = COUNT * (place + 1) // len(WANTED) - COUNT * place // len(WANTED)
        choose = random.Random(f"{SEED} {what}")
        rows = attributed(kernel)
        groups: defaultdict[str, list[int]] = defaultdict(list)
        for address, (row, _) in rows.items():
            groups[opcode(row)].append(address)
        # One of each opcode as far as they go, common ones first, then any.
        drawn = [choose.choice(g) for g in sorted(groups.values(), key=len, reverse=True)]
        drawn = drawn[: wanted // 2]
        rest = sorted(set(rows) - set(drawn))
        drawn += choose.sample(rest, wanted - len(drawn))
        for address in sorted(drawn):
            row, op = rows[address]
            found.append(Judged(
                what, f"{address:04x}", text_of(row), op, kernel.kinds[op],
                kernel.lines.get(op, 0), "", "", "",
            ))  # fmt: skip
    return found


def read() -> list[Judged]:
    """Return the rows of the file."""
    with ROWS.open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [
        Judged(**{**row, "op": int(row["op"]), "line": int(row["line"])})  # type: ignore[arg-type]
        for row in rows
    ]


def write(rows: list[Judged]) -> None:
    """Write the file."""
    with ROWS.open("w", newline="") as file:
        names = [field.name for field in fields(Judged)]
        table = csv.DictWriter(file, names, delimiter="\t", lineterminator="\n")
        table.writeheader()
        table.writerows(asdict(row) for row in rows)


def show(what: str, around: int = 2) -> str:
    """Return the rows drawn of a kernel with what they are judged by."""
    kernel = kept()[what]
    texts, places = kernel.ptx.splitlines(), ptx_places(kernel.listing)
    rows = attributed(kernel)
    ir: dict[int, str] = {}
    for row, op in kernel.ir:
        ir.setdefault(op, row.strip())
    order = sorted(places)
    said: list[str] = []
    for judged in (row for row in read() if row.kernel == what):
        address = int(judged.address, 16)
        _, op = rows[address]
        at = order.index(address)
        said.append(f"== {judged.address} {judged.sass}   [{judged.verdict}] {judged.reason}")
        for near in order[max(0, at - around) : at + around + 1]:
            if near != address:
                belongs = rows[near][1] if near in rows else "-"
                said.append(f"      {places[near][1][:60]:<60} {belongs}")
        row = places[address][0]
        said.append(f"   ptx {row}: {texts[row - 1].strip()[:110]}")
        said.append(f"   op  {op}: {ir.get(op, '')[:150]}")
        line = kernel.lines.get(op, 0)
        said.append(f"   {line}: {kernel.source.get(line, '').strip()}")
    return "\n".join(said)


def ptx_places(listing: str) -> dict[int, tuple[int, str]]:
    """Return the PTX row (from 1) and the text of each instruction of a listing, by address."""
    found: dict[int, tuple[int, str]] = {}
    row = 0
    for line in listing.splitlines():
        named = re.search(r"nv_debug_ptx_txt[^\d]*, line (\d+)", line)
        if named:
            row = int(named[1])
        elif (address := address_of_row(line)) is not None:
            found.setdefault(address, (row, text_of(line)))
    return found


def main(words: list[str]) -> None:
    """Run as the command line says."""
    if words[0] == "draw":
        keep()
        kept.cache_clear()
        write(draw())
    else:
        sys.stdout.write(show(words[1], *map(int, words[2:])) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
