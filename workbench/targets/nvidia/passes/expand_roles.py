"""Carries out what role_partition has decided: the producer's loops and the consumers'."""

from __future__ import annotations

from dataclasses import replace

from workbench.ir import (
    Block,
    Module,
    Op,
    Tile,
    Value,
)
from workbench.ops import Yield, counted_loops
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.ops import (
    Barriers,
    ClusterArrive,
    ClusterWait,
    FenceProducts,
)
from workbench.targets.nvidia.passes.consumers import Consumers
from workbench.targets.nvidia.passes.producers import Producer
from workbench.targets.nvidia.passes.role_rings import Roles
from workbench.targets.simt.ops import BlockBarrier
from workbench.targets.simt.passes.roles import part_warps
from workbench.targets.simt.rules import Device


def expand_roles(module: Module, remarks: Remarks, chip: Device) -> Module:
    """Write the loops of a producer and of the consumers, as `role_partition` has decided.

    Keeps: every value.
    """
    loops = [loop for loop in counted_loops(module.body.ops) if loop.schedule]
    if not loops:
        return module
    roles = Roles(module, loops, chip, remarks)
    builder = roles.builder
    with builder.block() as first:
        _begin(roles)
    with builder.block() as producer:
        Producer(roles).write()
        builder.insert(Yield(()))
    with builder.block() as rest:
        carried = Consumers(roles).write()
    *_, end = module.body.ops
    module = replace(module, body=Block((), (*rest, *first, end)), next_id=builder.next_id)
    return part_warps(
        module, Block((), tuple(producer)), warps=loops[0].decided("warps"),
        registers=loops[0].decided("registers"), stays=first, carried=carried,
    )  # fmt: skip


def _begin(roles: Roles) -> None:
    """Write what comes before all roles: rings, and the barrier behind which they are there."""
    builder = roles.builder
    for loop in roles.loops:
        for channel in roles.channels[loop]:
            roles.make(loop, channel)
    for channel in roles.held:
        roles.make(roles.loops[0], channel)
    roles.at(roles.loops[0])
    if roles.drawn:
        roles.make_numbers()
    # Where blocks stay, what comes first for a program comes beside the one before.
    wanted = roles.module.attributes.get("loads_first", True) and not roles.persistent
    waited = _waited_for(roles) if wanted else None
    if waited is not None:
        roles.hold = builder.add(Barriers(1, arrivals=roles.warps), "hold")
        text = "copies after the first wait for what is loaded before the loop"
        roles.remarks.note(waited, text, "applied")
    # Other buffers may have been where rings are, of which threads wrote elements. Where none has,
    # it keeps ptxas from putting what waits for arguments in front of the fetching of maps.
    builder.insert(FenceProducts())
    if roles.blocks > 1:
        builder.insert(ClusterArrive())
    builder.insert(BlockBarrier())
    if roles.blocks > 1:
        builder.insert(ClusterWait())


def _waited_for(roles: Roles) -> Op | None:
    """Return a load before the first loop whose tile a product of the loop reads, if one does.

    No product starts without it, and it comes by the same way as all that fills rings: it is
    to come before what is not needed as early.
    """
    loop = roles.loops[0]
    inside = {*loop.body.arguments, *(v for op in loop.body.ops for v in op.results)}
    work = [v for c in roles.channels[loop] for v in c.product.operands if v not in inside]
    seen: set[Value] = set()
    while work:
        value = work.pop()
        op = value.op
        if op is None or value in seen or not isinstance(value.type, Tile) or op.regions:
            continue
        seen.add(value)
        if roles.known.rules.access_of(op) is not None:
            return op
        work += op.operands
    return None


__all__ = ["expand_roles"]
