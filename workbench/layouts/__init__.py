"""Linear layouts over F2: the algebra, the hardware's families, and plans for moving data.

Belongs here: pure mathematics on bases, with plain data as the result. Does not
belong here: ops, IR types, instructions of a target, cost models of whole
kernels. Imports nothing of ours.
"""

from workbench.layouts.linear import PLACE, LinearLayout, parse_layout

__all__ = ["PLACE", "LinearLayout", "parse_layout"]
