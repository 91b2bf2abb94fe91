"""Forms as scalars of a kernel, of values that exist where they are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from workbench.analysis.affine import Affine
from workbench.analysis.forms import Atom, Form
from workbench.ir import I1, I32, I64, Builder, Place, Scalar, Value, shape_of
from workbench.ops import Cast, Constant, Elementwise, NumPrograms, ProgramId, Select
from workbench.targets.nvidia.form_names import Names
from workbench.targets.simt.corners import Elements


class Scalars:
    """Writes forms as scalars of a type; in 32 bits only those whose value fits them.

    Sums and products may wrap on the way, which takes nothing from a result that fits. What is
    divided or compared is exact, in 64 bits.
    """

    def __init__(
        self, builder: Builder, facts: Affine, names: Names, scopes: Sequence[dict[Form, Value]],
        values: Mapping[Value, Value], type: Scalar, fits: Callable[[Form], bool],
    ) -> None:  # fmt: skip
        """Write with a builder.

        scopes: the scalars of the blocks around, by what they are, the innermost last; what is
            written is added. values: what stands for values of the module, if another one does.
        fits: says whether 32 bits are known to hold a form.
        """
        self.builder = builder
        self.facts = facts
        self.names = names
        self.scopes = scopes
        self.values = values
        self.type = type
        self.fits = fits

    def value(self, form: Form) -> Value:
        """Return a form's value where ops are being written."""
        known = self._known(form)
        if known is not None:
            return known
        if form.constant is not None:
            return self._keep(form, self.builder.add(Constant(form.constant, self.type)))
        total: Value | None = None
        for monomial, coefficient in form.terms.items():
            term = self._product(monomial, coefficient)
            total = term if total is None else self._apply("add", total, term)
        assert total is not None
        return self._keep(form, total)

    def _wide(self) -> Scalars:
        return Scalars(
            self.builder, self.facts, self.names, self.scopes, self.values, I64, self.fits
        )

    def _product(self, monomial: tuple[Atom, ...], coefficient: int) -> Value:
        known = self._known(Form({monomial: coefficient}))
        if known is not None:
            return known
        product: Value | None = self._known(Form({monomial: 1}))
        if product is None:
            for atom in monomial:
                factor = self._atom(atom)
                product = factor if product is None else self._apply("mul", product, factor)
        constant = None
        if coefficient != 1 or product is None:
            constant = self.builder.add(Constant(coefficient, self.type))
        if product is None or constant is None:
            held = product if product is not None else constant
            assert held is not None
            return held
        return self._apply("mul", product, constant)

    def _atom(self, atom: Atom) -> Value:
        form = Form({(atom,): 1})
        known = self._known(form)
        if known is not None:
            return known
        wide = atom.kind in ("trip", "value") or not all(map(self.fits, atom.parts))
        if self.type == I32 and wide:
            wide = self._wide()._atom(atom)
            return self._keep(form, self.builder.add(Cast(wide, I32)))
        builder = self.builder
        match atom.kind:
            case "pid" | "programs":
                made = ProgramId if atom.kind == "pid" else NumPrograms
                return self._keep(form, self._sized(builder.add(made(axis=atom.key, type=I32))))
            case "div" | "rem" | "min" | "max":
                a, b = (self.value(part) for part in atom.parts)
                return self._keep(form, self._apply(atom.kind, a, b))
            case "select":
                *conditions, then, otherwise = atom.parts
                chosen, other = self.value(then), self.value(otherwise)
                for condition in conditions:
                    on = self._holds(condition)
                    chosen = builder.add(Select(on, chosen, other))
                return self._keep(form, chosen)
            case "element":
                value, place = atom.key
                return self._keep_number(form, self._element(value, place))
            case "trip":
                loop = self.names.loops[atom.key]
                lower, step = (self.facts.form(v) for v in (loop.lower, loop.step))
                assert lower is not None
                assert step is not None
                counted = self._apply("sub", self._sized(atom.key), self.value(lower))
                return self._keep(form, self._apply("div", counted, self.value(step)))
            case _:
                raise AssertionError(f"{atom} has no value here")

    def _element(self, value: Value, place: Place) -> Value:
        """Return an element of a tile that is loaded, loaded by itself."""
        assert value.op is not None
        before = self.builder.span, self.builder.origins
        self.builder.span, self.builder.origins = value.op.span, (value.op.id,)
        elements = Elements(self.builder, self.values)
        given = [elements.at(v, place if shape_of(v.type) else ()) for v in value.op.operands]
        made = self.builder.insert(value.op.duplicate(given).changed(layouts=None)).results[0]
        made.hint = value.hint
        self.builder.span, self.builder.origins = before
        return made

    def _keep_number(self, form: Form, value: Value) -> Value:
        """Remember a number that is what a form is, and give it the size that is wanted."""
        self.scopes[-1].setdefault(form, value)
        return self._sized(value)

    def _holds(self, condition: Form) -> Value:
        """Return whether a form is below 0."""
        flag = self.names.flag(condition)
        if flag is not None:
            return self.values.get(flag, flag)
        zero = self.builder.add(Constant(0, self.type))
        return self.builder.add(Elementwise("lt", (self.value(condition), zero)))

    def _known(self, form: Form) -> Value | None:
        for scope in reversed(self.scopes):
            found = scope.get(form)
            if found is not None and found.type != I1:
                return self._sized(found)
        return None

    def _sized(self, value: Value) -> Value:
        return value if value.type == self.type else self.builder.add(Cast(value, self.type))

    def _keep(self, form: Form, value: Value) -> Value:
        """Remember a value that is exact, for those who need it next."""
        if self.type == I64:
            self.scopes[-1].setdefault(form, value)
        return value

    def _apply(self, function: str, a: Value, b: Value) -> Value:
        return self.builder.add(Elementwise(function, (a, b), no_wrap=self.type == I64))
