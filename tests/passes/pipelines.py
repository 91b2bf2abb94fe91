"""The passes by name and, for a chip, in the order in which they run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from workbench.ir import Module
from workbench.passes.accumulation import accumulate_products
from workbench.passes.check_accesses import check_accesses
from workbench.passes.float_differences import float_differences
from workbench.passes.load_once import load_once
from workbench.passes.manager import Pass, Recorder, Remarks
from workbench.passes.narrow_index import narrow_index
from workbench.passes.part_quotients import part_quotients
from workbench.passes.pipeline import TILE_PASSES, tile_passes
from workbench.passes.repeated_rows import multiply_rows_once
from workbench.passes.select_extremes import select_extremes
from workbench.passes.sums_to_products import multiply_broadcast_tiles
from workbench.passes.widen_small_floats import widen_small_floats
from workbench.targets.nvidia.chip import Chip, chip
from workbench.targets.nvidia.passes.expand_roles import expand_roles
from workbench.targets.nvidia.passes.keep_extremes import keep_extremes
from workbench.targets.nvidia.passes.overlap_products import overlap_products
from workbench.targets.nvidia.passes.pipeline_loads import pipeline_loads
from workbench.targets.nvidia.passes.raise_tma import raise_tma
from workbench.targets.nvidia.passes.roles import role_partition
from workbench.targets.nvidia.passes.stage_products import stage_products
from workbench.targets.nvidia.pipeline import _beside_rings, _gpu_passes
from workbench.targets.simt.passes.apart import split_by_overlap
from workbench.targets.simt.passes.ask_first import ask_first
from workbench.targets.simt.passes.assign_layouts import assign_layouts
from workbench.targets.simt.passes.barriers import insert_barriers
from workbench.targets.simt.passes.begin_early import begin_early
from workbench.targets.simt.passes.conversions import halve_conversions
from workbench.targets.simt.passes.early_loads import load_early
from workbench.targets.simt.passes.flatten_loops import flatten_loops
from workbench.targets.simt.passes.full_blocks import split_full_blocks
from workbench.targets.simt.passes.longest_first import longest_first, told_order
from workbench.targets.simt.passes.order_loops import order_loops
from workbench.targets.simt.passes.own_rounds import load_in_own_round
from workbench.targets.simt.passes.shared_memory import allocate
from workbench.targets.simt.passes.skip_masks import skip_masks
from workbench.targets.simt.passes.skip_ones import skip_ones
from workbench.targets.simt.passes.spread_quotients import spread_quotients
from workbench.targets.simt.passes.turn_tiles import turn_tiles
from workbench.targets.simt.verifier import verify_layouts

SM_80 = chip("sm_80")


def with_barriers(module: Module, remarks: Remarks, unit: Chip = SM_80) -> Module:
    """Place shared memory and insert the barriers that it needs."""
    offsets, _, _ = allocate(module, unit)
    return insert_barriers(module, remarks, offsets, unit)


#: Every pass by the name that golden files use.
PASSES: dict[str, Pass] = {
    **{name.removesuffix("-again"): work for name, work in TILE_PASSES},
    "narrow-index": narrow_index,
    "check-accesses": check_accesses,
    "split-full-blocks": partial(split_full_blocks, chip=SM_80),
    "order-loops": partial(order_loops, chip=SM_80),
    "load-in-own-round": partial(load_in_own_round, chip=SM_80),
    "sums-to-products": multiply_broadcast_tiles,
    "multiply-rows-once": multiply_rows_once,
    "load-once": load_once,
    "part-quotients": part_quotients,
    "float-differences": float_differences,
    "select-extremes": select_extremes,
    "widen-small-floats": widen_small_floats,
    "accumulate-products": accumulate_products,
    "longest-first": partial(longest_first, chip=SM_80),
    "told-order": told_order,
    "assign-layouts": partial(assign_layouts, chip=SM_80),
    "raise-tma": partial(raise_tma, chip=chip("sm_90a")),
    "flatten-boxes": partial(flatten_loops, chip=chip("sm_90a"), boxes=True),
    "split-by-overlap": partial(split_by_overlap, chip=SM_80),
    "flatten-loops": partial(flatten_loops, chip=SM_80),
    "load-early": partial(load_early, chip=SM_80),
    "pipeline-loads": partial(pipeline_loads, chip=SM_80),
    "role-partition": partial(role_partition, chip=chip("sm_90a")),
    "expand-roles": partial(expand_roles, chip=chip("sm_90a")),
    "overlap-products": partial(overlap_products, rules=chip("sm_90a").rules),
    "skip-masks": skip_masks,
    "skip-ones": partial(skip_ones, chip=chip("sm_90a")),
    "spread-quotients": spread_quotients,
    "keep-extremes": keep_extremes,
    "stage-products": partial(stage_products, chip=chip("sm_90a")),
    "turn-tiles": partial(turn_tiles, chip=SM_80),
    "halve-conversions": partial(halve_conversions, chip=SM_80),
    "begin-early": begin_early,
    "ask-first": partial(ask_first, chip=chip("sm_90a")),
    "insert-barriers": with_barriers,
}


def tile_steps(module: Module) -> Iterator[tuple[str, Module]]:
    """Yield each tile pass and what it makes of the module."""
    recorder = Recorder()
    tile_passes(module, recorder)
    for record in recorder.passes:
        yield record.name, record.after


def gpu_steps(
    module: Module, unit: Chip = SM_80, **attributes: object
) -> Iterator[tuple[str, Module]]:
    """Yield each pass of the chip, narrow-index first, and what it makes of tile IR."""
    recorder = Recorder()
    options = {"num_warps": 4, "num_stages": 3, **module.attributes, **attributes}
    module = narrow_index(replace(module, attributes=options), recorder.remarks)
    yield "narrow-index", module
    recorder.check = True
    module = _gpu_passes(module, unit, recorder)
    for record in recorder.passes:
        yield record.name, record.after
    module = with_barriers(module, recorder.remarks, _beside_rings(module, unit))
    verify_layouts(module, unit)
    yield "insert-barriers", module
