"""What is known of each op on the NVIDIA targets."""

from workbench.targets.simt.rules import RuleTable

NVIDIA = RuleTable("nvidia")
