"""Launches that begin before those they depend on are done (programmatic dependent launch).

Who asks for such a launch (`launch_pdl`) says that the kernel waits by itself, and gets one where
that is so: what does not wait would read what nobody has stored yet.
"""

from __future__ import annotations

from workbench.ir import Module
from workbench.ops import GridDependencyWait, LaunchDependents
from workbench.passes.manager import Remarks
from workbench.targets.nvidia.chip import Chip, chip_of
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.simt.lowering import Lowering
from workbench.targets.simt.ops import is_drawn
from workbench.targets.simt.rules import as_they_are

#: The first chip that has it.
_FIRST = 90
NVIDIA.layouts(GridDependencyWait, LaunchDependents)(as_they_are)


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


def begins_early(module: Module, unit: Chip) -> bool:
    """Say whether launches of a kernel begin before those that they depend on are done."""
    return bool(module.attributes.get("launch_pdl")) and not _why_not(module, unit)


def note_early_launch(module: Module, unit: Chip, remarks: Remarks) -> None:
    """Say why launches that shall begin early do not."""
    if module.attributes.get("launch_pdl") and (why := _why_not(module, unit)):
        remarks.note(None, f"launch_pdl=True is not obeyed: {why}", "missed")


def _why_not(module: Module, unit: Chip) -> str:
    if unit.capability < _FIRST:
        return f"{unit.name} has no dependent launches"
    if is_drawn(module):
        return "blocks draw their programs, whose counter the launch before still uses"
    if not any(isinstance(op, GridDependencyWait) for op in module.walk()):
        return "the kernel does not wait for what it depends on (tl.extra.cuda.gdc_wait)"
    return ""
