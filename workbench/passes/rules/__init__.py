"""The rewrite rules that `canonicalize` applies, by family, and the one table of them all.

A rule looks at one op and what computes its operands, never at its users, and keeps every result
bit for bit. Passes that look at more (loops, uses, intervals) stand beside this room.
"""

from workbench.passes.rules import arithmetic, casts, control, memory, shapes
from workbench.passes.rules.known import constant_of, scalar_of
from workbench.passes.rules.rule import Rule, RuleTable

RULES = RuleTable([*arithmetic.RULES, *casts.RULES, *shapes.RULES, *memory.RULES, *control.RULES])

__all__ = ["RULES", "Rule", "RuleTable", "constant_of", "scalar_of"]
