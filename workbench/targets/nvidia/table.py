"""What is known of each op on the NVIDIA targets, beside what is the same on any GPU."""

from workbench.targets.simt.rules import RuleTable
from workbench.targets.simt.table import SIMT

NVIDIA = RuleTable("nvidia", parent=SIMT)
