"""Clusters: whether blocks copy what their programs both read together, each a part for all.

Of the operands of a product programs in a row mostly read one in common: a grouped order goes down
the rows of tiles first, so their columns are the same. Copies of it are then asked for once, which
pays where asking takes the time: of arrays whose rows begin anywhere in a line of 128 bytes each
row of a box is asked for twice. Whether programs read the same is asked of each load and program,
where the code runs (`HasPeers`, and numbers of both): last groups may have one row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.ir import Module, Value
from workbench.ops import For
from workbench.targets.nvidia.passes.channels import Channel, RefusedError, producer_slice
from workbench.targets.nvidia.passes.staying import Told
from workbench.targets.simt.passes.longest_first import inner_ops
from workbench.targets.simt.passes.staged_loads import Known


def together(
    module: Module, channels: Mapping[For, Sequence[Channel]], held: Sequence[Channel],
    known: Known, *, stays: bool,
) -> tuple[int, Told]:  # fmt: skip
    """Return how many blocks are to be a cluster, 1 if each is by itself, and remarks.

    Their rounds keep step: no slot is filled before all have read it. So all programs of a launch
    have as many rounds.
    """
    wanted: int | None = module.attributes.get("cluster")
    if wanted is None or wanted == 1:
        return 1, []
    why = "blocks go with their programs"
    why = _why_alone(module, channels, held, known, wanted) if stays else why
    if why:
        return 1, [(None, f"no clusters: {why}", "missed")]
    (loop,) = channels
    text = f"clusters of {wanted} blocks: what their programs both read is copied once for all"
    return wanted, [(loop, text, "applied")]


def _why_alone(
    module: Module, channels: Mapping[For, Sequence[Channel]], held: Sequence[Channel],
    known: Known, blocks: int,
) -> str:  # fmt: skip
    """Say why blocks cannot copy together; "" if they can."""
    if len(channels) != 1 or held or any(len(found) != 1 for found in channels.values()):
        return "there are several products"
    ((loop, (channel,)),) = channels.items()
    made = {result: op for op in module.body.ops for result in op.results}
    same = known.stays(programs=True)
    bounds: list[Value] = [loop.lower, loop.upper, loop.step]
    if any(value in made and made[value] not in same for value in bounds):
        return "programs may have other numbers of rounds"
    for load in channel.loads:
        if load.box.shared(load.buffer, blocks) is None:
            return f"{load.op.result.hint or load.op.name} does not come in {blocks} parts"
    try:
        before, _, _ = producer_slice(loop, channel.loads, module, known, persistent=True)
    except RefusedError as refused:
        return refused.why
    for op in before:
        if op.at_peer(1) is None or any(inner.of_program for inner in inner_ops(op)):
            return f"{op.name} gives what another program cannot know"
    return ""


__all__ = ["together"]
