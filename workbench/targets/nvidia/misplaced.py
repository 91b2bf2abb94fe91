"""Instructions of SASS whose PTX row ptxas names wrongly: they belong to one that can make them.

What ptxas writes late (products by warpgroups, packed conversions, comparisons that it joins with
others) it gives the row of a neighbour. An instruction that a row cannot have made belongs to the
nearest row that can; where none is near, the row that is named stays.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

#: How far a row may be from the named one.
_NEAR = 128
_FLOAT = r"\.(f16|f16x2|bf16|bf16x2|f32|ftz)\b"
#: By the beginning of an instruction's name: what a row says that can make it, and what such rows
#: say, likelier ones first. `{}` stands for the comparison in its name, or that asks the same.
_MAKERS: dict[str, tuple[str, ...]] = {
    name: (row, row)
    for names, row in {
        ("HGMMA", "IGMMA", "QGMMA"): r"\bwgmma\.mma_async",
        ("WARPGROUP",): r"\bwgmma\b",
        ("HMMA", "IMMA", "DMMA", "QMMA"): r"\bmma\.",
        ("UTMALDG", "UTMASTG"): r"\bcp\.async\.bulk",
        ("LDGSTS",): r"\bcp\.async\b",
        ("LDSM",): r"\bldmatrix\b",
        ("STSM",): r"\bstmatrix\b",
        ("SHFL",): r"\bshfl\b",
        ("BAR",): r"\b(bar|barrier)\.",
        ("ATOM", "ATOMG", "ATOMS", "RED", "REDG"): r"\b(atom|red)\b",
        ("F2FP",): r"\bcvt\.\w+",
        ("STG",): r"\bst\.(\w+\.)*global",
        ("LDG",): r"\bld\.(\w+\.)*global",
    }.items()
    for name in names
} | {
    "FSETP": (_FLOAT, rf"\bsetp\.({{}})u?{_FLOAT}", rf"\bsetp\.\w+{_FLOAT}"),
    "FSEL": (rf"{_FLOAT}|\bselp\b", r"\bselp\.f32"),
    "FADD": (_FLOAT, rf"\b(add|sub)(\.\w+)*{_FLOAT}"),
    "FMUL": (_FLOAT, rf"\bmul(\.\w+)*{_FLOAT}"),
    "FFMA": (_FLOAT, rf"\bfma(\.\w+)*{_FLOAT}"),
    "ISETP": (
        r"\b(setp|bra|min|max|div|rem|slct|abs|cvt|mbarrier|sad|clz|bfind|shl|shr|shf|atom|call)\b",
        r"\bsetp\.({})\.[sub]\d+", r"\bsetp\.\w+\.[sub]\d+",
    ),
}  # fmt: skip
#: Comparisons that become each other where sides are turned or the answer is.
_SAME = ("lt|le|gt|ge", "eq|ne")
_NAME = re.compile(r"\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9]+)(?:\.([A-Z]+))?")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


class Makers:
    """Finds the row of PTX that made an instruction."""

    def __init__(self, rows: Sequence[str], is_code: Sequence[bool]) -> None:
        self._rows = rows
        self._is_code = is_code

    def of(self, instruction: str, named: int) -> int:
        """Return the index of the row that made an instruction, near the one that ptxas names."""
        found = _NAME.search(instruction)
        if found is None or not 0 <= named < len(self._rows):
            return named
        can, *likely = _MAKERS.get(found[1], ("",))
        if not can or _compiled(can).search(self._rows[named]):
            return named
        comparison = (found[2] or "").lower().removesuffix("u")
        asks = next((kind for kind in _SAME if comparison in kind.split("|")), comparison)
        tried = (self._nearest(pattern.replace("{}", asks), named) for pattern in likely)
        return next((row for row in tried if row is not None), named)

    def _nearest(self, pattern: str, named: int) -> int | None:
        for distance in range(1, _NEAR):
            for row in (named - distance, named + distance):
                if 0 < row < len(self._rows) and self._is_code[row] and (
                    _compiled(pattern).search(self._rows[row])
                ):  # fmt: skip
                    return row
        return None
