"""The rules of the CPU target.

Two kinds: `CHUNKS` rules give a few elements of a value (`rule(writer, op, point, index)`), and
are asked for them whenever somebody needs some; `STATEMENTS` rules write code where the op
stands (`rule(writer, op)`): what touches memory, has regions, or needs a tile as a whole.
"""

from __future__ import annotations

from workbench.ops import InlineAssembly
from workbench.targets.llvm.table import LoweringTable

CPU = LoweringTable("cpu")
CPU.unsupported[InlineAssembly] = "is replaced by equal ops before (expand-assembly)"
CHUNKS = LoweringTable("cpu chunks")
STATEMENTS = CPU
