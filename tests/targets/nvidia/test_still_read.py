"""What products of a loop read from registers in all rounds stays there, whatever assembles it."""

from __future__ import annotations

import workbench.language as tl
from tests.passes.corpus import tile_ir
from tests.targets.nvidia.overwritten import overwritten, read_in_all_rounds
from tests.targets.nvidia.test_kept_operands import with_options
from tests.targets.nvidia.test_ptx import needs_nvdisasm
from tests.targets.nvidia.test_start_products import module_of
from tests.targets.nvidia.test_warpgroups import in_gpu_ir
from workbench.ir import Block, Module, layout_of, parse_module, print_module
from workbench.ops import For
from workbench.passes.manager import Recorder
from workbench.targets.nvidia.ops import StillRead, WarpgroupDot
from workbench.targets.nvidia.pipeline import build

#: A loop of attention as ptxas 13.0 wrote it: queries (R100) are read once more in the next round.
LISTING = """\
        /*0e00*/                   LDS R100, [R10+UR11] ;
.L_x_2:
        /*1ed0*/                   WARPGROUP.ARRIVE ;
        /*1ee0*/                   HGMMA.64x64x16.F32 R24, R100, gdesc[UR16], RZ, !UPT, gsb0 ;
        /*1fe0*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*23f0*/               @P1 BRA P0, `(.L_x_1) ;
        /*2400*/                   FSEL R24, R24, -INF , !P3 ;
.L_x_1:
        /*39a0*/                   F2FP.F16.F32.PACK_AB R100, R26, R25 ;
        /*4130*/                   HGMMA.64x64x16.F32 R56, R100, gdesc[UR16].tnspB, R56, gsb0 ;
        /*4200*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*4210*/              @!P0 BRA `(.L_x_2) ;
        /*4220*/                   FADD R100, R56, R57 ;
        /*4230*/                   EXIT ;
"""
QUERIES, WEIGHTS = 1, 2


def found_in(listing: str, products: set[int]) -> list[str]:
    rows = listing.splitlines()
    first = next(n for n, row in enumerate(rows) if "GMMA" in row)
    ops = [(QUERIES if n == first else WEIGHTS,) * ("GMMA" in r) for n, r in enumerate(rows)]
    return overwritten(listing, ops, products)


def test_a_listing_that_writes_over_what_the_next_round_reads_is_found():
    (said,) = found_in(LISTING, {QUERIES})
    assert said.startswith("a round writes R100 of /*1ee0*/")


def test_what_lies_elsewhere_is_right():
    assert found_in(LISTING.replace("PACK_AB R100", "PACK_AB R104"), {QUERIES}) == []


def test_what_a_round_loads_again_and_what_is_made_in_it_are_right():
    begins = ".L_x_2:\n"
    again = LISTING.replace(begins, begins + "        /*0f00*/  LDS.128 R100, [R10+UR11] ;\n")
    assert found_in(again, {QUERIES}) == []
    assert found_in(LISTING, {WEIGHTS}) == []


def test_writes_on_one_way_of_a_branch_count():
    moved = LISTING.replace("PACK_AB R100", "PACK_AB R104").replace("FSEL R24", "FSEL R103")
    (said,) = found_in(moved, {QUERIES})
    assert "writes R103 of" in said


def blocks(module: Module) -> list[Block]:
    return [module.body, *(region for op in module.walk() for region in op.regions)]


def kept(module: Module) -> Module:
    return in_gpu_ir(with_options(module, keep_operands=True))


def test_a_reader_stands_behind_the_loop_for_each_tile():
    module = kept(module_of("masked"))
    (block,) = [block for block in blocks(module) if any(isinstance(op, For) for op in block.ops)]
    place = next(n for n, op in enumerate(block.ops) if isinstance(op, For))
    behind = [op.tile for op in block.ops[place:] if isinstance(op, StillRead)]
    assert sorted(tile.hint for tile in behind) == ["k", "v"]
    assert {op.tile for op in module.walk() if isinstance(op, StillRead)} == {*behind}
    assert print_module(parse_module(print_module(module))) == print_module(module)


def test_it_stands_behind_the_outermost_loop_that_reads_the_tile():
    def twice(x_ptr, y_ptr, out_ptr, n):
        m, k = tl.arange(0, 64), tl.arange(0, 32)
        at = m[:, None] * 32 + k[None, :]
        x = tl.load(x_ptr + at)
        for j in range(n):
            z = tl.load(x_ptr + j * 2048 + at)
            found = tl.zeros((64, 64), tl.float32)
            for i in range(n):
                y = tl.trans(tl.load(y_ptr + i * 2048 + at))
                found = tl.dot(z, y, tl.dot(x, y, found))
            tl.store(out_ptr + j * 4096 + m[:, None] * 64 + m[None, :], found)

    module = tile_ir(twice, "*fp16:16 *fp16:16 *fp32:16 i32", {}, num_warps=4, num_stages=2)
    module = kept(module)
    outside = [op.tile.hint for op in module.body.ops if isinstance(op, StillRead)]
    everywhere = [op.tile.hint for op in module.walk() if isinstance(op, StillRead)]
    assert sorted(everywhere) == ["x", "z"]
    assert outside == ["x"]


def test_what_each_round_makes_needs_none():
    module = in_gpu_ir(with_options(module_of("masked"), keep_operands=False))
    assert any(layout_of(op.first.type) for op in module.walk() if isinstance(op, WarpgroupDot))
    assert not any(isinstance(op, StillRead) for op in module.walk())


@needs_nvdisasm
def test_code_keeps_what_all_rounds_read():
    built = build(with_options(module_of("masked"), keep_operands=True), "sm_90a", Recorder(), None)
    assert built.gpu is not None
    products = read_in_all_rounds(built.gpu)
    rows = built.texts["sass"]()
    assert products
    assert overwritten(rows.text, rows.rows, products) == []
    assert "NEVER" in built.texts["ptx"]().text
