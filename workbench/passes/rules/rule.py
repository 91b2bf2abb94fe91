"""A rewrite rule: its name, what it replaces by what, and the function that does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from workbench.ir import Builder, Op, Value

#: What stands in the op's place, None where the rule does not apply. The first argument is an
#: op of one of the rule's classes.
Rewrite = Callable[[Any, Builder], "Op | Value | tuple[Value, ...] | None"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rewrite of one op.

    `identity` is what the rule uses, for readers and for the test that tries every rule: two
    expressions in Python's notation around " = ". Names stand for values whose types `given`
    declares as IR does; functions are the mnemonics of ops, their further arguments attributes;
    numbers are constants of the type that the place wants.

        Rule("subtract-zero", "x - 0 = x", "x: i32", Elementwise, rewrite, ("sub",))
    """

    name: str
    identity: str
    given: str
    op: type[Op] | tuple[type[Op], ...]
    rewrite: Rewrite
    #: The functions of elementwise ops that it is about; empty: all.
    functions: tuple[str, ...] = ()

    def concerns(self, op: Op) -> bool:
        """Say whether the rule is about ops of this name; whether it applies, `rewrite` says."""
        if not isinstance(op, self.op):
            return False
        return not self.functions or getattr(op, "function", "") in self.functions


class RuleTable:
    """Rules in the order in which they are tried; the first that applies is used."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        names = [rule.name for rule in self.rules]
        if twice := {name for name in names if names.count(name) > 1}:
            raise TypeError(f"two rules are called {', '.join(sorted(twice))}")
        self._by_op: dict[str, tuple[Rule, ...]] = {}

    def about(self, op: Op) -> tuple[Rule, ...]:
        """Return the rules about ops of this name."""
        name = op.name
        found = self._by_op.get(name)
        if found is None:
            found = self._by_op[name] = tuple(r for r in self.rules if r.concerns(op))
        return found
