"""Programs that blocks draw: a counter of the launch, and slots that hand numbers over."""

from __future__ import annotations

from workbench.targets.nvidia.ops import Draw, Drawn
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.simt.lowering import Lowering
from workbench.targets.simt.rules import as_they_are
from workbench.targets.simt.shared import slot_base

NVIDIA.layouts(Draw, Drawn)(as_they_are)


@NVIDIA.lower(Draw)
def lower_draw(low: Lowering, op: Draw) -> None:
    """PTX ISA 9.0, atom.inc: the last of all numbers makes the counter 0 again.

    A block draws behind each of its programs, so there are as many draws as programs, and the next
    launch on the stream finds the counter as this one did.
    """
    emit = low.emit
    total = low.programs(0)
    for axis in (1, 2):
        total = emit.mul("i32", total, low.programs(axis))
    last, blocks = emit.sub("i32", total, "1"), low.chip.programs(emit, 0)
    place = emit.pure(f"ptrtoint {low.shared_pointer} {slot_base(low, op.buffer, op.slot)} to i32")
    text = (
        "{ .reg .b32 N; @$4 atom.relaxed.gpu.global.inc.u32 N, [$1], $2; @$4 add.u32 N, N, $3; "
        "@$4 st.shared::cta.u32 [$0], N; }"
    )
    emit.do(
        f'call void asm sideeffect "{text}", "r,l,r,r,b,~{{memory}}"(i32 {place}, '
        f"ptr addrspace(1) %tickets, i32 {last}, i32 {blocks}, i1 {low.first_thread})"
    )


@NVIDIA.lower(Drawn)
def lower_drawn(low: Lowering, op: Drawn) -> None:
    """The shuffle says to who assembles that all lanes have one number: control stays uniform."""
    place = slot_base(low, op.buffer, op.slot)
    held = low.emit.effect(f"load volatile i32, {low.shared_pointer} {place}")
    low.set_scalar(op.result, low.chip.shuffle(low.emit, "index", held, "0"))
