"""Builds for the interpreter: there is nothing to do, and nothing to load."""

from __future__ import annotations

from workbench.ir import Module
from workbench.passes.manager import Recorder
from workbench.targets.built import Binary, Built


def build(module: Module, target: str, recorder: Recorder) -> Built:
    """Return the module as it is; the interpreter runs tile IR of any stage."""
    return Built(module.name, lambda: Binary("module"))
