"""The ops of a block, one after the other: written where they stand, or left to who needs them."""

from __future__ import annotations

from workbench.ir import Block, Op, shape_of
from workbench.targets.cpu.nests import schedule
from workbench.targets.cpu.sinks import Fill
from workbench.targets.cpu.table import STATEMENTS
from workbench.targets.cpu.writer import Writer


def write_block(w: Writer, block: Block) -> None:
    """Write all ops of a block but its terminator."""
    for op in block.ops[:-1]:
        _write(w, op)


def _write(w: Writer, op: Op) -> None:
    rule = STATEMENTS.rule(type(op))
    if rule is not None:
        w.emit.at(op)
        rule(w, op)
        return
    for result in op.results:
        if not shape_of(result.type):
            w.settle(op.operands)
            w.emit.at(op)
            with w.body(0):
                w.scalars[result] = w.apply(op, (), result.index).text
        elif result in w.plan.kept:
            schedule(w, Fill(result, w.allocate(result)))
