"""Reads SASS for registers that a product of a warpgroup under way still reads or has yet to write.

HGMMA.64x128x16.F32 R24, R88, gdesc[UR4], R24          reads R88 … R91, adds to R24 …
HGMMA.64x128x16.F32 R24, R92, gdesc[UR12], R24, gsb0   ends a group of products
WARPGROUP.DEPBAR.LE gsb0, 0x1                          all but the latest group have ended
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_ROW = re.compile(r"/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Zx0-9_.]+)\s*([^;]*);")
_PRODUCT = re.compile(r"R(\d+), (?:R(\d+), )?gdesc")


@dataclass(frozen=True, slots=True)
class Row:
    """An instruction: its name with modifiers, its operands, the text."""

    name: str
    operands: str
    text: str

    @property
    def written(self) -> range:
        """The registers that it writes, if its first operand is one."""
        found = re.match(r"R(\d+)\b", self.operands)
        if found is None or self.name.startswith(("ST", "RED", "BAR", "SYNCS", "LDGSTS")):
            return range(0)
        wide = 4 if ".128" in self.name else 2 if ".64" in self.name or "WIDE" in self.name else 1
        return range(int(found[1]), int(found[1]) + wide)


def loop_of_products(sass: str, by: str = "HGMMA") -> list[Row]:
    """Return the instructions of the shortest loop that multiplies by some instruction."""
    lines = sass.splitlines()
    labels = {line.strip().rstrip(":"): i for i, line in enumerate(lines) if line.startswith(".L")}
    loops: list[list[str]] = []
    for i, line in enumerate(lines):
        target = re.search(r"BRA.*`\((\.L\w+)\)", line)
        if target is not None and labels.get(target[1], i) < i:
            loops.append(lines[labels[target[1]] : i + 1])
    found = min((loop for loop in loops if any(by in line for line in loop)), key=len)
    return [Row(m[1], m[2], line.strip()) for line in found if (m := _ROW.search(line))]


def written_in_flight(loop: Sequence[Row]) -> Iterator[str]:
    """Yield the instructions of two rounds of a loop that write what products in flight have."""
    pending: list[set[int]] = []
    group: set[int] = set()
    for row in (*loop, *loop):
        if row.name.startswith("HGMMA"):
            product = _PRODUCT.match(row.operands)
            assert product is not None, row.text
            columns = int(row.name.split("x")[1])
            group |= {*range(int(product[1]), int(product[1]) + columns // 2)}
            if product[2] is not None:
                group |= {*range(int(product[2]), int(product[2]) + 4)}
            if "gsb0" in row.operands:
                pending.append(group)
                group = set()
        elif row.name.startswith("WARPGROUP.DEPBAR"):
            most = int(row.operands.split(",")[1], 16)
            del pending[: max(0, len(pending) - most)]
        elif any(register in one for one in (*pending, group) for register in row.written):
            yield row.text


def read_before_the_end(sass: str) -> Iterator[str]:
    """Yield what reads sums behind the last product of a kernel, in front of the wait for all."""
    rows = [Row(m[1], m[2], line.strip()) for line in sass.splitlines() if (m := _ROW.search(line))]
    last = max(i for i, row in enumerate(rows) if row.name.startswith("HGMMA"))
    product = _PRODUCT.match(rows[last].operands)
    assert product is not None, rows[last].text
    sums = range(int(product[1]), int(product[1]) + int(rows[last].name.split("x")[1]) // 2)
    for row in rows[last + 1 :]:
        if row.name.startswith("WARPGROUP.DEPBAR") and row.operands.strip() == "gsb0, 0x0":
            return
        _, *read = re.findall(r"\bR(\d+)\b", row.operands) or [""]
        if any(int(register) in sums for register in read):
            yield row.text
    raise AssertionError("nobody waits for all products")
