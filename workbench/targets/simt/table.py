"""What is known of each op on any GPU."""

from workbench.ops import CheckAccess, InlineAssembly
from workbench.targets.simt.rules import RuleTable

SIMT = RuleTable("simt")
SIMT.unsupported[InlineAssembly] = "is written in the words of one maker's chips"
SIMT.unsupported[CheckAccess] = "is for processors: --guard tries a GPU's launch before it"
