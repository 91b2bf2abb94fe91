"""Program ids, promises, barriers."""

from __future__ import annotations

from workbench.ops import (
    Assume,
    Barrier,
    GridDependencyWait,
    LaunchDependents,
    NumPrograms,
    ProgramId,
    Promise,
)
from workbench.targets.simt.lowering import Lowering, llvm_type
from workbench.targets.simt.ops import Asked, BlockBarrier, WarpBarrier
from workbench.targets.simt.placing import place_of
from workbench.targets.simt.rules import as_they_are, elementwise
from workbench.targets.simt.table import SIMT

SIMT.layouts(
    ProgramId,
    NumPrograms,
    Assume,
    Barrier,
    BlockBarrier,
    WarpBarrier,
    Asked,
    GridDependencyWait,
    LaunchDependents,
)(as_they_are)
SIMT.layouts(Promise)(elementwise)


@SIMT.lower(ProgramId)
def lower_program_id(low: Lowering, op: ProgramId) -> None:
    if not op.peer:
        _set_index(low, op, low.program(op.axis))
        return
    number, there = low.peer(str(op.peer))
    held = low.emit.pure(f"select i1 {there}, i32 {number}, i32 {low.number}")
    _set_index(low, op, place_of(low, held)[op.axis])


@SIMT.lower(NumPrograms)
def lower_num_programs(low: Lowering, op: NumPrograms) -> None:
    _set_index(low, op, low.programs(op.axis))


def _set_index(low: Lowering, op: ProgramId | NumPrograms, value: str) -> None:
    low.set_scalar(op.result, low.emit.sext(value, "i32", llvm_type(op.type)))


@SIMT.lower(Promise)
def lower_promise(low: Lowering, op: Promise) -> None:
    low.set_lazy(op.result, lambda r: low.held(op.source, r))


@SIMT.lower(Assume)
def lower_assume(low: Lowering, op: Assume) -> None:
    """The analyses have used it; nothing is executed."""


@SIMT.lower(GridDependencyWait, LaunchDependents)
def lower_dependence(low: Lowering, op: GridDependencyWait | LaunchDependents) -> None:
    """Do nothing: a launch begins when the one in front of it is done, unless a chip has more."""


@SIMT.lower(Barrier)
def lower_barrier(low: Lowering, op: Barrier) -> None:
    barrier(low)


@SIMT.lower(BlockBarrier)
def lower_block_barrier(low: Lowering, op: BlockBarrier) -> None:
    if op.when is None:
        barrier(low)
        return
    emit = low.emit
    wait, end = emit.fresh("wait"), emit.fresh("waited")
    emit.branch(low.register(op.when, 0), wait, end)
    emit.label(wait)
    barrier(low)
    emit.jump(end)
    emit.label(end)


@SIMT.lower(WarpBarrier)
def lower_warp_barrier(low: Lowering, op: WarpBarrier) -> None:
    warp_barrier(low)


@SIMT.lower(Asked)
def lower_asked(low: Lowering, op: Asked) -> None:
    found = low.loaded[len(low.loaded) - op.loads :]
    words = [word for scope, of_one in found if low.emit.is_open(scope) for word in of_one]
    low.chip.end_stretch(low.emit, words)


def barrier(low: Lowering) -> None:
    """Let all threads of the block wait for each other; in a role, those of the role."""
    role = low.role
    if (role.warps if role is not None else low.all_warps) == 1:
        warp_barrier(low)
    elif role is not None:
        low.chip.wait_for_warps(low.emit, role.number, role.warps)
    else:
        low.chip.wait_for_block(low.emit)


def warp_barrier(low: Lowering) -> None:
    """Let all lanes of a warp wait for each other."""
    low.chip.wait_for_warp(low.emit)
