"""Intervals of forms that hold what is read from memory."""

from __future__ import annotations

from workbench.analysis.affine import Affine
from workbench.analysis.forms import Atom, Form
from workbench.analysis.hulls import FormSteps, UnknownForm, known_intervals
from workbench.analysis.ranges import FULL32, FULL64
from workbench.ir import I32, Module, Value, element_of


class AnyForm(FormSteps):
    """Writes the intervals of forms where what nobody can tell is any number of its type."""

    def _new_atom(self, atom: Atom, under: tuple[Form, ...]) -> int:
        try:
            return super()._new_atom(atom, under)
        except UnknownForm:
            low, high = FULL64
            if atom.kind in ("trip", "trips"):
                return self.step("between", (), (0, high))
            value = atom.key[0] if atom.kind == "element" else atom.key
            if isinstance(value, Value) and element_of(value.type) == I32:
                low, high = FULL32
            return self.step("between", (), (low, high))


class KnownForm(FormSteps):
    """Writes the intervals of forms; a remainder has one, whatever is divided."""

    def __init__(self, module: Module, facts: Affine) -> None:
        super().__init__(module, facts)
        self._anything = AnyForm(module, facts)

    def _new_atom(self, atom: Atom, under: tuple[Form, ...]) -> int:
        try:
            return super()._new_atom(atom, under)
        except UnknownForm:
            if not atom.parts:
                raise
            step = self._anything.of(Form({(atom,): 1}), self._shape)
            low, high = known_intervals(self._anything.steps)[step]
            if low <= FULL32[0] or high >= FULL32[1]:
                raise
            return self.step("between", (), (low, high))
