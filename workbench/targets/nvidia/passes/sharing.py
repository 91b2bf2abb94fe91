"""Clusters: whether blocks copy what their programs both read together, each a part for all.

Of the operands of a product programs in a row mostly read one in common: a grouped order goes down
the rows of tiles first, so their columns are the same. Copies of it are then asked for once, which
pays where asking takes the time: of arrays whose rows begin anywhere in a line of 128 bytes each
row of a box is asked for twice (products of 4104: 0.83 of cuBLAS, 0.94 in clusters of two; of 4096
1 to 2 % less in clusters). Whether programs read the same is asked of each load and program,
where the code runs (`HasPeers`, and numbers of both): last groups may have one row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.ir import Module, Shared, Value
from workbench.ops import For
from workbench.passes.rules import constant_of
from workbench.targets.nvidia.passes.channels import Channel, RefusedError, producer_slice
from workbench.targets.nvidia.passes.staying import Told
from workbench.targets.simt.passes.longest_first import inner_ops
from workbench.targets.simt.passes.staged_loads import Known

#: Bytes of a line of memory.
_LINE = 128
#: Numbers of a launch that are multiples of this are known to be.
_TOLD = 16


def together(
    module: Module, channels: Mapping[For, Sequence[Channel]], held: Sequence[Channel],
    known: Known, *, stays: bool,
) -> tuple[int, Told]:  # fmt: skip
    """Return how many blocks are to be a cluster, 1 if each is by itself, and remarks.

    Their rounds keep step: no slot is filled before all have read it. So all programs of a launch
    have as many rounds.
    """
    asked: int | None = module.attributes.get("cluster")
    loads = [load for found in channels.values() for channel in found for load in channel.loads]
    far = [
        load.op for load in loads
        if any(_begins_anywhere(step, load.buffer, known) for step in load.box.steps)
    ]  # fmt: skip
    blocks = asked or (2 if far else 1)
    if blocks == 1 or not stays:
        return 1, []
    why = _why_alone(module, channels, held, known, blocks)
    if why:
        return 1, [(None, f"cluster={blocks} is not obeyed: {why}", "missed")] if asked else []
    (loop,) = channels
    name = "" if asked else far[0].result.hint or far[0].name
    ground = f": rows of {name} begin anywhere in a line of memory" if name else ""
    text = f"clusters of {blocks} blocks copy together what their programs all read{ground}"
    return blocks, [(loop, text, "applied")]


def _begins_anywhere(step: Value, buffer: Shared, known: Known) -> bool:
    """Say whether rows so many elements apart are known to begin in the midst of lines.

    Launches say of an integer whether it is a multiple of 16, and nothing beyond.
    """
    facts, size = known.on.facts, buffer.element.itemsize
    form = facts.form(step)
    divisor = 0 if form is None else facts.divisor(form)
    told = constant_of(step) is not None or divisor < _TOLD
    return divisor > 0 and told and divisor * size % _LINE != 0


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
        before, within, _ = producer_slice(loop, channel.loads, module, known, persistent=True)
    except RefusedError as refused:
        return refused.why
    for op in before:
        if op.at_peer(1) is None or any(inner.of_program for inner in inner_ops(op)):
            return f"{op.name} gives what another program cannot know"
    for op in within:  # what programs are compared by is computed before their rounds
        if any(inner.of_program for inner in (op, *inner_ops(op))):
            return f"{op.name} asks in each round which program it is"
    return ""


__all__ = ["together"]
