"""Tensor maps, copies of boxes, barriers that count what arrives: how they are written in PTX."""

from __future__ import annotations

from workbench.targets.nvidia.ops import (
    Arrive,
    Await,
    Barriers,
    Expect,
    MakeTensorMap,
    TensorCopy,
    TensorLoad,
)
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.simt.rules import as_they_are

NVIDIA.layouts(MakeTensorMap, TensorLoad, TensorCopy)(as_they_are)
NVIDIA.layouts(Barriers, Expect, Arrive, Await)(as_they_are)
