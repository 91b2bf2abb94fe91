"""Every op has a rule on NVIDIA targets, or a sentence that says why not."""

from __future__ import annotations

import pytest

import workbench.targets.nvidia.pipeline  # noqa: F401 - imports every family of rules
from workbench.ir import MNEMONICS
from workbench.targets.llvm.table import LoweringTable
from workbench.targets.nvidia.table import NVIDIA


@pytest.mark.parametrize("op", sorted(set(MNEMONICS.values()), key=lambda op: op.__name__))
def test_every_op_has_a_rule_or_a_reason(op: type):
    reason = NVIDIA.unsupported.get(op)
    if NVIDIA.rule(op) is None:
        assert NVIDIA.reason(op), f"{op.__name__} has neither a rule nor an entry in `unsupported`"
    else:
        assert reason is None, f"{op.__name__} has a rule and a reason why there is none"


def test_two_rules_for_one_op_are_an_error():
    table = LoweringTable("test", parent=NVIDIA)
    op = MNEMONICS["tile.load"]
    assert table.rule(op) is NVIDIA.rule(op)
    table.lower(op)(lambda low, op: None)
    assert table.rule(op) is not NVIDIA.rule(op)
    with pytest.raises(ValueError, match="test has two rules for Load"):
        table.lower(op)(lambda low, op: None)
