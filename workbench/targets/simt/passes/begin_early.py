"""What takes time elsewhere is begun as a kernel's first act.

A block that has just started has nothing but waiting to do: for its number, its arguments, for
quotients that say where its tile lies. What the hardware needs to be told before the first copy
(where a tensor lies, which barriers count its bytes) waits for none of that and takes as long: told
first, it is there when the first copy starts.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.ir import Block, Module, Op, Value
from workbench.passes.manager import Remarks


def begin_early(module: Module, remarks: Remarks) -> Module:
    """Have what begins something come first at the top of a kernel, and what it is told with it.

    Before:
        %0 = tile.program_id {axis = 0} : index
        %1 = tile.div [%0, %n] : index
        %2 = gpu.barriers {count = 4} : shared<1xi64, slots=4>
    After:
        %2 = gpu.barriers {count = 4} : shared<1xi64, slots=4>
        %0 = tile.program_id {axis = 0} : index
        %1 = tile.div [%0, %n] : index

    Keeps: every value; what is moved reads nothing that changes.
    """
    del remarks
    ops = module.body.ops
    own = {result: op for op in ops for result in op.results}
    first: set[int] = set()
    for op in ops:
        needed = _told_with(op, own) if op.begins else None
        first.update(one.id for one in needed or ())
    if not first:
        return module
    early = [op for op in ops if op.id in first]
    early.sort(key=lambda op: not op.pure)  # descriptions take longest to be there
    if list(ops[: len(early)]) == early:
        return module
    late = (op for op in ops if op.id not in first)
    return replace(module, body=Block(module.body.arguments, (*early, *late)))


def _told_with(op: Op, own: dict[Value, Op]) -> list[Op] | None:
    """Return an op and all that it is computed of, None where that is more than arithmetic."""
    found, work = [op], [*op.operands]
    while work:
        made = own.get(work.pop())
        if made is None or made in found:
            continue
        if not (made.pure or made.begins) or made.of_program or made.regions:
            return None
        found.append(made)
        work += made.operands
    return found


__all__ = ["begin_early"]
