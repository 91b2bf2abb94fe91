"""In which layouts scans work."""

from __future__ import annotations

from tests.kernels import scans
from tests.passes.corpus import tile_ir
from tests.targets.nvidia.test_warpgroups import in_gpu_ir
from workbench.ir import layout_of
from workbench.ops import Scan, Store


def test_lanes_go_along_the_rows_of_a_scan_of_columns():
    """Each store of a warp writes a whole row of 128 bytes; before, 32 bytes of four rows."""
    module = tile_ir(
        scans.column_cumsum, "*bf16:16 *fp32:16 i32:16 i32:16", {"ROWS": 128, "COLS": 32},
        num_warps=4,
    )  # fmt: skip
    made = list(in_gpu_ir(module).walk())
    (scan,) = [op for op in made if isinstance(op, Scan)]
    (store,) = [op for op in made if isinstance(op, Store)]
    layout = layout_of(store.pointers.type)
    assert layout is not None
    assert layout == layout_of(scan.inputs[0].type)
    assert [layout.apply(lane=lane)[1] for lane in range(32)] == list(range(32))
    assert [layout.apply(warp=warp) for warp in range(4)] == [(32 * w, 0) for w in range(4)]
