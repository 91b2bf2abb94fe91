"""Every op has a rule on NVIDIA targets, or a sentence that says why not."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import workbench
import workbench.targets.nvidia.pipeline
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


def test_passes_ask_no_op_what_it_is():
    """What they must know of ops, ops and tables of rules say (ARCHITECTURE.md)."""
    ops = {op.__name__ for op in MNEMONICS.values()}
    named: dict[str, set[str]] = {}
    for path in Path(workbench.__file__).parent.glob("targets/*/passes/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            told = node if _tells(node) else None
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                told = node.args[1]
            words = [] if told is None else ast.walk(told)
            found = {word.id for word in words if isinstance(word, ast.Name)}
            named.setdefault(path.name, set()).update(found & ops)
    assert not {name: found for name, found in named.items() if found}


def _tells(node: ast.AST) -> bool:
    """Say whether a node compares types or matches a class."""
    return isinstance(node, ast.MatchClass) or (
        isinstance(node, ast.Compare) and "type(" in ast.unparse(node)
    )


def test_what_accesses_cost_is_known_wherever_code_is_made():
    """Rings are laid out by it: no module that only tells users of it may have to be imported."""
    code = (
        "import workbench.targets.nvidia.pipeline as p\n"
        "from workbench.targets.nvidia.ops import AsyncCopy\n"
        "from workbench.targets.nvidia.table import NVIDIA\n"
        "from workbench.targets.simt.ops import SharedLoad\n"
        "assert {AsyncCopy, SharedLoad} <= {*NVIDIA.__dict__['_moves']}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
