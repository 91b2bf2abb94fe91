"""How far apart two scalars are, of which only what they are made of is looked at."""

from __future__ import annotations

from dataclasses import replace

from workbench.analysis.affine import Affine
from workbench.ir import Block, Module, Op, Value, shape_of

#: Ops that two scalars may be made of; beyond, nothing is said of them.
_MOST_OPS = 64


class Distances:
    """Distances of a module's scalars, also of those that a pass is inserting into it.

    Forms of a whole module take as long as a pass; those of some ops, next to nothing.
    """

    def __init__(self, module: Module) -> None:
        self._module = module

    def between(self, first: Value, second: Value) -> int | None:
        """Return how much larger the second of two scalars always is; None if that is not known."""
        forms = self._forms(first, second)
        one, other = (None, None) if forms is None else (forms.form(first), forms.form(second))
        return None if one is None or other is None else (other - one).constant

    def is_off(self, condition: Value) -> bool:
        """Say whether a scalar condition is known to be never true."""
        forms = self._forms(condition)
        below = () if forms is None else forms.conjuncts(condition)  # all are below 0, or it is off
        constants = (form.constant for form in below)
        return any(number is not None and number >= 0 for number in constants)

    def _forms(self, *values: Value) -> Affine | None:
        ops = _made_of(values)
        if ops is None:
            return None
        forms = Affine(replace(self._module, body=Block(self._module.body.arguments, ())))
        made = {result for op in ops for result in op.results}
        for value in dict.fromkeys((*values, *(v for op in ops for v in op.operands))):
            # What they are not looked into for has a name.
            if value not in made and not shape_of(value.type) and forms.form(value) is None:
                forms.own(value)
        forms.block(Block((), ops))
        return forms


def _made_of(values: tuple[Value, ...]) -> tuple[Op, ...] | None:
    """Return the ops that values are made of, first the first; None if there are too many.

    What has regions, or memory says, is not looked into.
    """
    found: dict[Op, None] = {}
    seen: set[Op] = set()
    work = [(value.op, False) for value in values]
    while work:
        op, ready = work.pop()
        if op is None or op.regions or not op.pure:
            continue
        if ready:
            found[op] = None
        elif op not in seen:
            seen.add(op)
            if len(seen) > _MOST_OPS:
                return None
            work.append((op, True))
            work += [(value.op, False) for value in op.operands]
    return tuple(found)
