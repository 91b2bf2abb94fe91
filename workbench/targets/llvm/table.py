"""Lowering rules by op class: one table per target, with a parent for what it does not override."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.ir import Op

Rule = Callable[..., Any]


class LoweringTable:
    """Rules of one target. A second rule for the same op class is an error.

    `unsupported` maps op classes that the target cannot run to the sentence the user gets.
    """

    def __init__(self, name: str, parent: LoweringTable | None = None) -> None:
        self.name = name
        self.parent = parent
        self.rules: dict[type[Op], Rule] = {}
        self.unsupported: dict[type[Op], str] = {}

    def lower(self, *classes: type[Op]) -> Callable[[Rule], Rule]:
        """Register the decorated function as the rule for op classes."""

        def register(rule: Rule) -> Rule:
            for cls in classes:
                if cls in self.rules:
                    raise ValueError(f"{self.name} has two rules for {cls.__name__}")
                self.rules[cls] = rule
            return rule

        return register

    def reason(self, cls: type[Op]) -> str | None:
        """Return why there is no rule for an op class, the parent's words if it has none."""
        table: LoweringTable | None = self
        while table is not None:
            if cls in table.unsupported:
                return table.unsupported[cls]
            table = table.parent
        return None

    def rule(self, cls: type[Op]) -> Rule | None:
        """Return the rule for an op class, the parent's if there is none of its own."""
        table: LoweringTable | None = self
        while table is not None:
            if cls in table.rules:
                return table.rules[cls]
            table = table.parent
        return None
