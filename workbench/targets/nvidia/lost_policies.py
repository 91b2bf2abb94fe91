"""Copies whose policy of the L2 a ptxas has lost, and PTX that has none.

LDGSTS names what it copies to by a register, or by the sum of that and a uniform one. With the sum
the uniform one and the next are a pair: what is added, and the upper half of a policy, which has
all that it says; its lower half is 0. ptxas leaves the pair's number at 0 before 13.4.59, so such a
copy reads uniform registers that nobody has written: an illegal instruction on an H100.

| | opcode | names |
|---|---|---|
| `[R47+0x800], desc[UR6]` | 0xfae | UR6 and UR7, a policy |
| `[R47+UR6+0x800], desc[UR7]` | 0xdae | UR6 to add, UR7 of a policy |

`copies.py` gives such copies addresses that are no sums. Should a ptxas see through that, what it
made is not taken: the hint is not obeyed then. A policy in a pair of its own is never lost.
"""

from __future__ import annotations

import re
from collections import Counter

from workbench.targets.objects import code_sections

#: LDGSTS with a uniform register to add; nvdisasm 13.5 for sm_90.
_SUM_AND_POLICY = 0xDAE
_ROW_BYTES, _OPCODE_BITS = 16, 0xFFF

_MAKES = re.compile(r"^[ \t]*createpolicy\.\S+[ \t]+(%rd\d+)[^;\n]*;\n", re.MULTILINE)
_TAKES = re.compile(r"(cp\.async\.c[ag]\.shared\.global)\.L2::cache_hint([^;\n]*), %rd\d+;")


def has_policies(ptx: str) -> bool:
    """Return whether copies of a text tell the L2 how long to keep what they bring."""
    return _TAKES.search(ptx) is not None


def may_be_lost(cubin: bytes) -> bool:
    """Return whether a copy of a cubin names its policy, and what is added to its address."""
    return any(
        int.from_bytes(code[row : row + 2], "little") & _OPCODE_BITS == _SUM_AND_POLICY
        for code in code_sections(cubin)
        for row in range(0, len(code), _ROW_BYTES)
    )


def without_policies(ptx: str) -> str:
    """Return a text whose copies by threads tell the L2 nothing, row by row the same.

    A policy that something else takes, too, as an author's own instruction does, is still made.

    >>> without_policies("cp.async.cg.shared.global.L2::cache_hint [%r1], [%rd2], 16, %p3, %rd4;")
    'cp.async.cg.shared.global [%r1], [%rd2], 16, %p3;'
    """
    text = _TAKES.sub(r"\1\2;", ptx)
    named = Counter(re.findall(r"%rd\d+", text))
    return _MAKES.sub(lambda made: "\n" if named[made[1]] == 1 else made[0], text)
