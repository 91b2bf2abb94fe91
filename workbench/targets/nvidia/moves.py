"""What NVIDIA's own accesses move: asynchronous copies, loads of matrices; see simt/moves.py."""

from __future__ import annotations

from dataclasses import replace

from workbench.ir import Module, Op, Shared, element_of, layout_of
from workbench.layouts import MatrixPlan, Packing, apart_fits, byte_pairs_fit, f2, ldmatrix_fits
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.copied_rounds import VECTOR
from workbench.targets.nvidia.ops import AsyncCopy, CopyRounds, TensorStore
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.nvidia.tensors import stored_boxes
from workbench.targets.simt import moves
from workbench.targets.simt.moves import (
    Move,
    global_move,
    matrix_move,
    shared_load_moves,
    shared_move,
)
from workbench.targets.simt.ops import SharedLoad
from workbench.targets.simt.rules import Setting
from workbench.targets.simt.shared import buffer_layout, packing_of


@NVIDIA.moves(AsyncCopy)
def copy_moves(op: AsyncCopy, on: Setting) -> list[Move]:
    """PTX ISA 9.0, cp.async: a load of global memory that is a store of shared memory."""
    layout = layout_of(op.pointers.type)
    assert layout is not None
    read = global_move(op.pointers, op.mask, on, "load", "cp.async")
    return [read, shared_move(layout, op.buffer, on, "store", "cp.async", read.vector)]


@NVIDIA.moves(CopyRounds)
def rounds_moves(op: CopyRounds, on: Setting) -> list[Move]:
    """Rows that lanes share on their way to scratch, out of it, and by round to slots."""
    layout, type = layout_of(op.pointers.type), op.buffer.type
    assert layout is not None
    assert isinstance(type, Shared)
    elements = VECTOR // type.element.itemsize
    count = layout.registers() // elements * type.slots
    sharing = layout.shape[op.axis] // elements
    # Nobody knows how far rows lie apart.
    rows = tuple((lane // sharing << 24) + lane % sharing * VECTOR for lane in range(on.lanes))
    pieces = tuple(lane * VECTOR * type.slots for lane in range(on.lanes))
    read = Move("load", "global", "cp.async", elements, VECTOR, count, rows, apart=True)
    taken = Move("load", "shared", "", elements, VECTOR, count, pieces)
    put = shared_move(layout, op.buffer, on, "store", "", elements)
    return [read, taken, replace(put, requests=put.requests * type.slots)]


@NVIDIA.moves(SharedLoad)
def load_moves(op: SharedLoad, on: Setting) -> list[Move]:
    """PTX ISA 9.0, ldmatrix: a lane gives the address of 16 bytes, eight lanes are a matrix."""
    layout, itemsize = layout_of(op.result.type), element_of(op.result.type).itemsize
    assert layout is not None
    shared, packing = buffer_layout(op.buffer), packing_of(op.buffer)
    if itemsize == 1 and (plan := byte_pairs_fit(shared, layout)) is not None:
        return [_matrices(plan, packing, 16)]
    if itemsize <= 4:
        for transposed in (False, True):
            plan = ldmatrix_fits(shared, layout, itemsize, transposed)
            if plan is not None:
                return [_matrices(plan, packing, 16 // itemsize)]
        if (found := apart_fits(shared, layout, itemsize)) is not None:
            return [_matrices(found[0], packing, 16 // itemsize)]
    return [*shared_load_moves(op, on)]


@NVIDIA.moves(TensorStore)
def store_moves(op: TensorStore, on: Setting) -> list[Move]:
    """PTX ISA 9.0, stmatrix: what boxes are copied from; the copies are no warp's accesses."""
    found = stored_boxes(op)
    if isinstance(found.how, MatrixPlan):
        move = matrix_move(found.how, None, "store", "matrices", 8)
    else:
        (first, *_), count = found.how.instructions, len(found.how.instructions)
        places = tuple(f2.apply(found.how.lane, lane) for lane in range(on.lanes))
        side = len(first.registers)
        move = Move("store", "shared", "", side, 4 * side, count, places)
    steps = sum(len(piece.steps(found.how)) for piece in found.pieces)
    return [replace(move, requests=move.requests * steps // len(found.how.instructions))]


def _matrices(plan: MatrixPlan, packing: Packing, vector: int) -> Move:
    """Return the loads of a plan, `vector` elements of which a lane gives the address of."""
    how = f"ldmatrix.x{plan.count}{'.trans' if plan.trans else ''}"
    return matrix_move(plan, packing, "load", how, vector)


def moves_in(module: Module, target: str) -> list[tuple[Op, Move]]:
    """Return what each op of a module in GPU IR moves, in program order."""
    unit = chip(target)
    on = Setting(module, unit)
    return moves.moves_of(module, unit, on)
