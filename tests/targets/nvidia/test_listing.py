"""Which op each row of SASS came from."""

from __future__ import annotations

from workbench.targets.nvidia.listing import ptx_rows, sass_rows
from workbench.targets.nvidia.spilled_values import spilled_values
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


def test_braces_of_a_statement_do_not_end_the_kernel():
    text = """.visible .entry k(
)
{
\t.loc\t1 1 7
\t// begin inline asm
\t{
.reg .b32 t;
add.u32 t, %r2, 1;
}
\t// end inline asm
\t.loc\t1 1 8
\tmov.b32 \t%r1, 0;
}
"""
    found = ptx_rows(text, {7: 42, 8: 43})
    named = {line.split()[0]: ops for line, ops in zip(text.splitlines(), found.rows, strict=True)}
    assert (named["add.u32"], named["mov.b32"]) == ((42,), (43,))
    assert named["{"] == named["}"] == ()


PTX = """.visible .entry k(
)
{
\t.loc\t1 1 7
\tmov.u32 \t%r1, %tid.x;
\tsetp.gt.f32 \t%p1, %f1, %f2;
\t.loc\t1 2 8
\tsetp.lt.s32 \t%p2, %r1, %r2;
\t@%p2 bra \t$L__BB0_2;
\t.loc\t1 0 8
\tmul.lo.s32 \t%r4, %r1, %r2;
\tmov.b32 \t%r5, 0;
\tmov.b32 \t%r6, 0;
$L__BB0_1:
\t.loc\t1 3 9
\tst.global.b32 \t[%rd1], %r5;
\tadd.s32 \t%r9, %r4, %r1;
\t.loc\t1 4 10
\tadd.s32 \t%r6, %r6, 1;
\t.loc\t1 0 10
\tmov.b32 \t%r6, %r9;
\t.loc\t1 4 10
\t@%p1 bra \t$L__BB0_1;
\t.loc\t1 0 10
\tbra.uni \t$L__BB0_2;
$L__BB0_2:
\t.loc\t1 5 11
\tret;
}
"""
OPS = {7: 70, 8: 80, 9: 90, 10: 100, 11: 110}


def owners(llvm: str = "") -> dict[str, tuple[int, ...]]:
    """Return the ops of the rows without a place, by their text."""
    found = ptx_rows(PTX, OPS, llvm)
    lines = [" ".join(line.split()) for line in PTX.splitlines()]
    return dict(zip(lines, found.rows, strict=True))


def test_a_row_without_a_place_belongs_to_who_reads_it_or_carries_it():
    found = owners()
    assert found["mul.lo.s32 %r4, %r1, %r2;"] == (90,)  # read by what op 90 adds
    assert found["mov.b32 %r5, 0;"] == (90,)  # stored by it
    assert found["mov.b32 %r6, 0;"] == (100,)  # what a loop begins with: its branch decides
    assert found["mov.b32 %r6, %r9;"] == (100,)
    assert found["bra.uni $L__BB0_2;"] == (100,)


LLVM = """
  %v1 = mul nsw i32 %a, %b, !dbg !5
  %v2 = add nsw i32 %v1, %b, !dbg !6
!5 = !DILocation(line: 1, column: 7, scope: !1)
!6 = !DILocation(line: 3, column: 9, scope: !1)
"""


def test_a_row_that_was_moved_belongs_to_the_op_that_has_such_an_instruction():
    """Op 90 adds what op 70 has multiplied."""
    assert owners(LLVM)["mul.lo.s32 %r4, %r1, %r2;"] == (70,)
    assert owners(LLVM)["mov.b32 %r5, 0;"] == (90,)


SASS = """\t.section\t.text.k
.text.k:
\t//## File ".nv_debug_ptx_txt", line 8
        /*0000*/                   BSSY B0, `(.L_x_2) ;
        /*0010*/                   FSETP.GT.AND P0, PT, R1, R2, PT ;
        /*0020*/                   ISETP.GE.AND P1, PT, R1, R2, PT ;
\t//## File ".nv_debug_ptx_txt", line 16
        /*0030*/              @!P0 BRA `(.L_x_1) ;
        /*0040*/                   CALL.REL.NOINC `($__internal_0_$__cuda_sm20_div_s64) ;
.L_x_1:
\t//## File ".nv_debug_ptx_txt", line 8
        /*0050*/                   BSYNC B0 ;
.L_x_2:
\t//## File ".nv_debug_ptx_txt", line 28
        /*0060*/                   EXIT ;
$__internal_0_$__cuda_sm20_div_s64:
        /*0070*/                   I2F.U64.RP R14, R4 ;
        /*0080*/                   RET.REL.NODEC R8 `(k) ;
\t.section\t.debug
"""


def test_rows_that_ptxas_names_wrongly():
    found = sass_rows(SASS, ptx_rows(PTX, OPS))
    named = zip(found.text.splitlines(), found.rows, strict=True)
    ops = {line.split("*/")[1].split()[0]: op for line, op in named if "*/" in line}
    assert ops["FSETP.GT.AND"] == (70,)  # no comparison of integers makes it
    assert ops["ISETP.GE.AND"] == (80,)
    assert ops["BSSY"] == ops["BSYNC"] == ops["@!P0"] == (90,)  # of the branch between them
    assert ops["I2F.U64.RP"] == ops["RET.REL.NODEC"] == ops["CALL.REL.NOINC"] == (90,)
    assert ops["EXIT"] == (110,)


LIVE = """
                                                   // | # 0 1 2 |
        /*0000*/              LDG.E R2, [R0] ;     // | 1 v   ^ |
        /*0010*/              STL [R1+0x4], R2 ;   // | 1 : v v |
        /*0020*/              FADD R2, R0, R0 ;    // | 1 v   ^ |
        /*0030*/              STL [R1], R2 ;       // | 1   v v |
        /*0040*/              LDL R2, [R1+0x4] ;   // | 1   v ^ |
        /*0050*/              STL [R1], R2 ;       // | 1   v v |
        /*0060*/              STL [R1+0x8], RZ ;   // | 1   v   |
"""


def test_a_spill_belongs_to_the_value_that_is_spilled():
    ops = {0x00: (1,), 0x10: (9,), 0x20: (2,), 0x30: (9,), 0x40: (9,), 0x50: (9,), 0x60: (9,)}
    assert spilled_values(LIVE, ops) == {
        0x10: (1,), 0x30: (2,), 0x40: (1,), 0x50: (1,),  # a zero that nobody stores after: nobody's
    }  # fmt: skip
