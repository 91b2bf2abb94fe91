"""What is known of each op on the NVIDIA targets."""

from workbench.ops import CheckAccess
from workbench.targets.simt.rules import RuleTable

NVIDIA = RuleTable("nvidia")
NVIDIA.unsupported[CheckAccess] = "is for processors: --guard tries a GPU's launch before it"
