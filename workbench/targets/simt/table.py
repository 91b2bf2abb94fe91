"""What is known of each op on any GPU."""

from workbench.targets.simt.rules import RuleTable

SIMT = RuleTable("simt")
