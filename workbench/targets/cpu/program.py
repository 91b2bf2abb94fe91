"""Which program instance runs, and what the author promises."""

from __future__ import annotations

from workbench.ir import Op, element_of
from workbench.ops import (
    Assume,
    Barrier,
    GridDependencyWait,
    LaunchDependents,
    NumPrograms,
    ProgramId,
    Promise,
    Return,
    Yield,
)
from workbench.targets.cpu.chunks import Chunk, Point, register_type
from workbench.targets.cpu.table import CHUNKS, CPU
from workbench.targets.cpu.writer import Writer


@CHUNKS.lower(ProgramId)
def program_id(w: Writer, op: ProgramId, point: Point, index: int) -> Chunk:
    return Chunk(w.emit.trunc(w.pids[op.axis], "i64", _type(op)), 0)


@CHUNKS.lower(NumPrograms)
def num_programs(w: Writer, op: NumPrograms, point: Point, index: int) -> Chunk:
    return Chunk(w.emit.trunc(w.grid[op.axis], "i64", _type(op)), 0)


def _type(op: ProgramId | NumPrograms) -> str:
    return register_type(element_of(op.result.type))


@CHUNKS.lower(Promise)
def promise(w: Writer, op: Promise, point: Point, index: int) -> Chunk:
    """Return the value: memory is asked, not the author, so a promise changes nothing here."""
    return w.chunk(op.source, point)


@CPU.lower(Assume, Barrier, GridDependencyWait, LaunchDependents, Return, Yield)
def nothing(w: Writer, op: Op) -> None:
    """Do nothing: one thread runs a program instance, in order; terminators are their op's.

    Nor does a launch begin before the one in front of it is done.
    """
