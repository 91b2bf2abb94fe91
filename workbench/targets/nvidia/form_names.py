"""What forms are called in remarks: as the author wrote them, as far as values have names."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from workbench.analysis.affine import Affine
from workbench.analysis.forms import Atom, Form
from workbench.ir import I1, I32, I64, Module, Value
from workbench.ops import For, counted_loops
from workbench.source import Span


class Names:
    """What things are called in remarks, and which scalars there are."""

    def __init__(self, module: Module, facts: Affine) -> None:
        self.facts = facts
        self.loops: dict[Value, For] = {loop.counter: loop for loop in counted_loops(module.walk())}
        self._names: dict[Form, str] = {}
        self._narrow: set[Form] = set()
        for p in module.parameters:
            self._note(p.value, p.name)
        for op in module.walk():
            for value in op.results:
                self._note(value, value.hint)
            for region in op.regions:  # carried values have the names of pointers
                for place, value in enumerate(region.arguments):
                    self._note(value, "" if place else value.hint)

    def _note(self, value: Value, name: str) -> None:
        if value.type not in (I32, I64):
            return
        form = self.facts.form(value)
        if form is None:
            return
        if value.type == I32:
            self._narrow.add(form)
        if name and form.constant is None:
            self._names.setdefault(form, name)

    def narrow(self, form: Form) -> bool:
        """Say whether a value of 32 bits is what a form is."""
        return form in self._narrow

    def flag(self, condition: Form) -> Value | None:
        """Return the i1 that is on where a form is below 0, if that is one."""
        if len(condition.terms) == 1:
            ((monomial, coefficient),) = condition.terms.items()
            if coefficient == -1 and len(monomial) == 1 and monomial[0].kind == "value":
                value: Value = monomial[0].key
                return value if value.type == I1 else None
        return None

    def of(self, value: Value) -> str:
        """Return what the author calls a value."""
        if value.hint or value.op is None:
            return value.hint or "a value without a name"
        line = f" at line {value.op.span.line}" if isinstance(value.op.span, Span) else ""
        return f"what {value.op.name}{line} gives"

    def spelled(self, form: Form) -> str:
        """Write a form as the author might."""
        known = self._names.get(form)
        if known is not None:
            return known
        if form.constant is not None:
            return str(form.constant)
        common = gcd(*form.terms.values())
        known = self._names.get(Form({m: c // common for m, c in form.terms.items()}))
        if known is not None:
            return f"{known}·{common}"
        start = Form({m: c for m, c in form.terms.items() if m and not any(a.axes for a in m)})
        if len(start.terms) not in (0, len(form.terms)):
            return f"{self.spelled(start)} {self._added(form - start)}"
        text = ""
        for monomial, coefficient in form.terms.items():
            sign = "-" if coefficient < 0 else "+" if text else ""
            words = self._term(monomial, abs(coefficient))
            text += f" {sign} {words}" if text else f"{sign}{words}"
        return text

    def _added(self, form: Form) -> str:
        text = self.spelled(form)
        return f"- {text[1:]}" if text.startswith("-") else f"+ {text}"

    def _term(self, monomial: Sequence[Atom], coefficient: int) -> str:
        names = [self._atom(atom) for atom in monomial]
        return "·".join([*names, *([str(coefficient)] if coefficient != 1 or not names else [])])

    def _atom(self, atom: Atom) -> str:
        known = self._names.get(Form({(atom,): 1}))
        if known is not None:
            return known
        if atom.kind in ("div", "rem"):
            a, b = (self._inside(part) for part in atom.parts)
            return f"({a} {'//' if atom.kind == 'div' else '%'} {b})"
        if atom.kind in ("min", "max", "select"):
            word = {"min": "minimum", "max": "maximum"}.get(atom.kind, "where")
            return f"{word}({', '.join(map(self.spelled, atom.parts[-2:]))})"
        if atom.kind == "x":
            return f"x{atom.key}"
        if atom.kind in ("pid", "programs"):
            return f"{'program_id' if atom.kind == 'pid' else 'num_programs'}({atom.key})"
        if atom.kind == "element":
            value, place = atom.key
            return f"{self.of(value)}[{', '.join(map(str, place))}]"
        value = atom.key[0] if atom.kind in ("promise", "moved") else atom.key
        if isinstance(value, Value):
            name = self.of(value)
            return f"rounds of {name}" if atom.kind in ("trip", "trips") else name
        return str(value)

    def _inside(self, form: Form) -> str:
        text = self.spelled(form)
        return f"({text})" if " " in text else text
