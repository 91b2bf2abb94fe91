"""Puts a check in front of every access to global memory, before anything else is done."""

from __future__ import annotations

from workbench.interpreter.dependence import Dependence, accessed, unread
from workbench.ir import Builder, Module, Op, rebuild
from workbench.ops import CheckAccess
from workbench.passes.manager import Remarks


def check_accesses(module: Module, remarks: Remarks) -> Module:
    """Check the addresses of each load, store and atomic where it stands in the author's program.

    Before:
        %1 = tile.load %p : f32
    After:
        tile.check_access %p {access = 1, roots = ("p",)}
        %1 = tile.load %p : f32

    Needs: the IR as the front end made it. Keeps: every effect of a launch whose accesses are
    right. What passes widen, move or leave out afterwards is checked where the author wrote it,
    but for a load whose value the author does not use: no code has it.
    """
    del remarks
    dependence = Dependence(module)
    names = {parameter.value: parameter.name for parameter in module.parameters}
    before: dict[int, CheckAccess] = {}
    unneeded = unread(module)
    for op in module.walk():
        pointers, writes = accessed(op)
        if pointers is not None and op.id not in unneeded:
            roots = dependence.roots(pointers)
            before[op.id] = CheckAccess(
                pointers,
                getattr(op, "mask", None),
                access=op.id,
                writes=writes,
                roots=tuple(
                    names[p.value] for p in module.parameters if p.value in roots.parameters
                ),
                open=roots.open,
            )

    def rewrite(op: Op, builder: Builder) -> Op | None:
        check = before.get(op.id)
        if check is not None:
            operands = [v for v in (op.operands[0], getattr(op, "mask", None)) if v is not None]
            builder.insert(check.with_operands(operands))
        return None

    return rebuild(module, rewrite)
