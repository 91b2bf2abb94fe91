"""What a launch is told beside its grid: to begin early, or that all programs are there at once.

A launch that begins before those it depends on are done (programmatic dependent launch) is of a
kernel that waits by itself. Who asks for one (`launch_pdl`) gets it where that is so: what does not
wait would read what nobody has stored yet. Who asks for all programs at one time
(`launch_cooperative_grid`) gets an error from the driver where a device has no room for them.
"""

from __future__ import annotations

from collections.abc import Iterator

from workbench.ir import Module
from workbench.ops import GridDependencyWait, LaunchDependents
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.chip import Chip, chip_of
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.simt.lowering import Lowering
from workbench.targets.simt.ops import is_drawn, is_persistent

#: The first chip that has dependent launches.
_FIRST = 90


@NVIDIA.lower(GridDependencyWait)
def lower_wait(low: Lowering, op: GridDependencyWait) -> None:
    """PTX ISA 9.0, griddepcontrol.wait; the clobber keeps accesses behind it."""
    if chip_of(low.chip).capability >= _FIRST:
        low.emit.do('call void asm sideeffect "griddepcontrol.wait;", "~{memory}"()')


@NVIDIA.lower(LaunchDependents)
def lower_launch_dependents(low: Lowering, op: LaunchDependents) -> None:
    """PTX ISA 9.0, griddepcontrol.launch_dependents."""
    if chip_of(low.chip).capability >= _FIRST:
        low.emit.do('call void asm sideeffect "griddepcontrol.launch_dependents;", ""()')


def attributes_of(module: Module, unit: Chip) -> list[str]:
    """Return the attributes of a kernel's launches: "early", "together"."""
    return [word for _, word, why in _asked(module, unit) if not why]


def note_attributes(module: Module, unit: Chip, remarks: Remarks) -> None:
    """Say why launches do not get what the author asks for."""
    for option, _, why in _asked(module, unit):
        if why:
            remarks.note(None, f"{option}=True is not obeyed: {why}", "missed")


def _asked(module: Module, unit: Chip) -> Iterator[tuple[str, str, str]]:
    """Yield options that are on, the attribute of each, and why a launch does not get it."""
    together = bool(module.attributes.get("launch_cooperative_grid"))
    if together:
        stays = "blocks stay for one program after the other, and none waits for another"
        yield "launch_cooperative_grid", "together", stays if is_persistent(module) else ""
    if module.attributes.get("launch_pdl"):
        beside = "a launch whose programs are all there at one time begins alone"
        yield "launch_pdl", "early", beside if together else _begins_late(module, unit)


def _begins_late(module: Module, unit: Chip) -> str:
    if unit.capability < _FIRST:
        return f"{unit.name} has no dependent launches"
    if is_drawn(module):
        return "blocks draw their programs, whose counter the launch before still uses"
    if not any(effect.is_wait for op in module.walk() for effect in op.own_effects()):
        return "the kernel does not wait for what it depends on (tl.extra.cuda.gdc_wait)"
    return ""
