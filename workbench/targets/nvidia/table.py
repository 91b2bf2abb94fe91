"""The lowering rules of the NVIDIA targets."""

from workbench.targets.llvm.table import LoweringTable

NVIDIA = LoweringTable("nvidia")
