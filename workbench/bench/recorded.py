"""What the interpreter recorded of a launch, in the Trace's words."""

from __future__ import annotations

from collections import defaultdict

from workbench.bench.arrays import clone, to_host
from workbench.bench.subject import Subject
from workbench.interpreter import Access, run_module
from workbench.trace import MemoryAccess


def recorded_accesses(subject: Subject) -> tuple[MemoryAccess, ...]:
    """Run the kernel in the interpreter on copies of its arguments; return every access by op."""
    values = {name: to_host(clone(value)) for name, value in subject.arguments.items()}
    arguments = [values[parameter.name] for parameter in subject.module.parameters]
    recording = run_module(subject.module, subject.grid, arguments, record=True)
    by_op: dict[int, list[Access]] = defaultdict(list)
    for access in recording.accesses:
        by_op[access.op].append(access)
    atomics = {
        op.id
        for op in subject.module.walk()
        if any(effect.reads and effect.writes for effect in op.own_effects())
    }
    return tuple(
        MemoryAccess(
            op=op,
            direction="atomic" if op in atomics else "store" if found[0].write else "load",
            masked=sum(not access.live for access in found) / len(found),
            addr=tuple((a.program, a.lane, a.argument, a.element, a.live) for a in found),
        )
        for op, found in by_op.items()
    )
