"""Builds for the interpreter: there is nothing to do, and nothing to load."""

from __future__ import annotations

from workbench.ir import Module
from workbench.passes.manager import Recorder
from workbench.source.overrides import Override
from workbench.targets.built import Binary, Built
from workbench.targets.stages import Step

#: It runs tile IR, and nothing is made of that.
STEPS: tuple[Step[Module], ...] = ()


def build(
    module: Module, target: str, recorder: Recorder, override: Override | None = None
) -> Built:
    """Return the module as it is; the interpreter runs tile IR of any stage."""
    return Built(module.name, lambda: Binary("module"))
