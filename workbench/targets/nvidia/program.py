"""Program ids, promises, barriers."""

from __future__ import annotations

from workbench.ops import Assume, Barrier, NumPrograms, ProgramId, Promise
from workbench.targets.nvidia.lowering import Lowering, llvm_type
from workbench.targets.nvidia.ops import BlockBarrier
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.simt.rules import as_they_are, elementwise

NVIDIA.layouts(ProgramId, NumPrograms, Assume, Barrier, BlockBarrier)(as_they_are)
NVIDIA.layouts(Promise)(elementwise)

_READ = " nounwind memory(none) speculatable"


@NVIDIA.lower(ProgramId)
def lower_program_id(low: Lowering, op: ProgramId) -> None:
    _special(low, op, "ctaid")


@NVIDIA.lower(NumPrograms)
def lower_num_programs(low: Lowering, op: NumPrograms) -> None:
    _special(low, op, "nctaid")


def _special(low: Lowering, op: ProgramId | NumPrograms, register: str) -> None:
    name = f"llvm.nvvm.read.ptx.sreg.{register}.{'xyz'[op.axis]}"
    value = low.emit.call("i32", name, "", "", _READ)
    low.set_scalar(op.result, low.emit.sext(value, "i32", llvm_type(op.type)))


@NVIDIA.lower(Promise)
def lower_promise(low: Lowering, op: Promise) -> None:
    low.set_lazy(op.result, lambda r: low.held(op.source, r))


@NVIDIA.lower(Assume)
def lower_assume(low: Lowering, op: Assume) -> None:
    """The analyses have used it; nothing is executed."""


@NVIDIA.lower(Barrier)
def lower_barrier(low: Lowering, op: Barrier) -> None:
    barrier(low)


@NVIDIA.lower(BlockBarrier)
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


def barrier(low: Lowering) -> None:
    """Let all threads of the block wait for each other."""
    if low.num_warps == 1:
        warp_barrier(low)
        return
    name = "llvm.nvvm.barrier.cta.sync.aligned.all"
    low.emit.declare(name, f"declare void @{name}(i32) convergent nounwind")
    low.emit.do(f"call void @{name}(i32 0)")


def warp_barrier(low: Lowering) -> None:
    """Let all lanes of a warp wait for each other."""
    name = "llvm.nvvm.bar.warp.sync"
    low.emit.declare(name, f"declare void @{name}(i32) convergent nounwind")
    low.emit.do(f"call void @{name}(i32 -1)")
