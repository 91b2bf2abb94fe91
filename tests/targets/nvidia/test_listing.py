"""Which op each row of SASS came from."""

from __future__ import annotations

from workbench.targets.nvidia.listing import ptx_rows, sass_rows
from workbench.trace import Rendered

LISTING = """\t.section\t.text.k
.text.k:
\t//## File ".nv_debug_ptx_txt", line 1
        /*0000*/                   LDG.E R2, desc[UR4][R2.64] ;
\t//## File ".nv_debug_ptx_txt", line 2
        /*0010*/                   STG.E desc[UR4][R4.64], R2 ;
        /*0020*/                   EXIT ;
.L_x_0:
        /*0030*/                   BRA `(.L_x_0);
        /*0040*/                   NOP;
        /*0050*/              @!P0 BRA `(.L_x_7) ;
\t.section\t.debug
"""


def test_padding_and_the_branch_behind_the_end_belong_to_nobody():
    found = sass_rows(LISTING, Rendered("ld\nst\n", [(5,), (6,)]))
    named = dict(zip(found.text.split("\n"), found.rows, strict=False))
    ops = {line.split("*/")[-1].split()[0]: op for line, op in named.items() if "*/" in line}
    assert ops == {"LDG.E": (5,), "STG.E": (6,), "EXIT": (6,), "BRA": (), "NOP;": (), "@!P0": (6,)}


def test_a_statement_that_is_a_block_belongs_to_its_op():
    text = """.visible .entry k(
)
{
\t.loc\t1 1 7
\tmov.b32 \t%r1, 0;
\t{ // callseq 0, 0
\t// begin inline asm
\t{ .reg .pred P; AGAIN: mbarrier.try_wait P, [%r1], 0; @!P bra AGAIN; }
\t// end inline asm
\t} // callseq 0
}
"""
    found = ptx_rows(text, {7: 42})
    lines = [line.strip() for line in text.splitlines()]
    assert [line[:5] for line, ops in zip(lines, found.rows, strict=True) if ops == (42,)] == [
        "mov.b", "{ .re",
    ]  # fmt: skip
