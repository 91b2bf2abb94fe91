"""How long a kernel's code is at least, told before any is written.

Writing half a million instructions takes seconds, and to no purpose where they are too many.
"""

from __future__ import annotations

from collections.abc import Iterator

from workbench.ir import Module, Op, Value, layout_of
from workbench.ops import Elementwise, Gather
from workbench.source import limit_of, over_budget

#: Instructions for each register of a result: a gather writes an element down and reads another.
_EACH: dict[type, int] = {Elementwise: 1, Gather: 2}


def refuse_long(module: Module) -> None:
    """Raise ResourceError (K406) at the op with which a kernel in GPU IR is over the budget."""
    limit = limit_of("instructions")
    for op, found in at_least(module):
        if found > limit:
            what = "the code of the kernel has, counted up to here, at least"
            raise over_budget("instructions", what, found, op.span)


def at_least(module: Module) -> Iterator[tuple[Op, int]]:
    """Yield (op, how many instructions there are up to it at least) of a kernel in GPU IR.

    Counted are the registers of what is computed from memory: of all else registers may be alike,
    or numbers that are known.
    """
    found = 0
    varying: set[Value] = set()
    for op in module.walk():
        for region in op.regions:
            varying.update(region.arguments)
        if not op.effects() and not op.regions and varying.isdisjoint(op.operands):
            continue
        varying.update(op.results)
        each = _EACH.get(type(op), 0)
        layout = layout_of(op.results[0].type) if each else None
        if layout is not None:
            table = layout.table("register")
            found += each * len({table[r] for r in layout.live_registers()})
            yield op, found


__all__ = ["at_least", "refuse_long"]
