"""Polynomials in named atoms; what they stand for is said in affine.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Monomial = tuple["Atom", ...]
#: Atoms that are made of forms: see affine.py.
OPAQUE = frozenset(("div", "rem", "min", "max", "select"))


class Atom:
    """A name in a form; interned per analysis, compared by identity."""

    __slots__ = ("axes", "key", "kind", "order")

    def __init__(self, kind: str, key: Any, order: int, axes: frozenset[int]) -> None:
        self.kind = kind
        self.key = key
        self.order = order
        #: Axes of the tile whose coordinates the atom depends on.
        self.axes = axes

    @property
    def parts(self) -> tuple[Form, ...]:
        """The forms that a quotient, remainder, minimum, maximum or selection is made of."""
        return self.key if self.kind in OPAQUE else ()

    @property
    def beside(self) -> Form | None:
        """The form that a promised tile has all the same, if that is known."""
        return self.key[-1] if self.kind == "promise" else None

    def __repr__(self) -> str:
        if self.parts:
            return f"{self.kind}({', '.join(map(repr, self.parts))})"
        if self.kind == "promise":
            return f"promise({getattr(self.key[0], 'name', self.key[0])})"
        return f"{self.kind}({getattr(self.key, 'name', self.key)})"


class Form:
    """A polynomial with integer coefficients; immutable."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: dict[Monomial, int]) -> None:
        self.terms = terms
        self._hash: int | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Form) and self.terms == other.terms

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __add__(self, other: Form) -> Form:
        terms = dict(self.terms)
        for monomial, coefficient in other.terms.items():
            total = terms.get(monomial, 0) + coefficient
            if total:
                terms[monomial] = total
            else:
                terms.pop(monomial, None)
        return Form(terms)

    def scaled(self, factor: int) -> Form:
        """Return the form times a number."""
        return Form({m: c * factor for m, c in self.terms.items()} if factor else {})

    def __neg__(self) -> Form:
        return self.scaled(-1)

    def __sub__(self, other: Form) -> Form:
        return self + other.scaled(-1)

    def __mul__(self, other: Form) -> Form:
        terms: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            for n, d in other.terms.items():
                key = tuple(sorted((*m, *n), key=lambda a: a.order)) if m and n else m or n
                total = terms.get(key, 0) + c * d
                if total:
                    terms[key] = total
                else:
                    terms.pop(key, None)
        return Form(terms)

    @property
    def constant(self) -> int | None:
        """The value if the form is a number, else None."""
        if not self.terms:
            return 0
        return self.terms.get(()) if len(self.terms) == 1 else None

    @property
    def axes(self) -> frozenset[int]:
        """Axes whose coordinates occur, inside opaque atoms too."""
        return frozenset(axis for m in self.terms for atom in m for axis in atom.axes)

    def atoms(self) -> Iterable[Atom]:
        """Yield the atoms of all monomials, repeated as they are."""
        for monomial in self.terms:
            yield from monomial

    def __repr__(self) -> str:
        if not self.terms:
            return "0"
        words: list[str] = []
        for monomial, coefficient in self.terms.items():
            names = "·".join(map(repr, monomial))
            words.append(
                f"{coefficient}·{names}"
                if names and coefficient != 1
                else names or str(coefficient)
            )
        return " + ".join(words)


def all_atoms(form: Form) -> Iterable[Atom]:
    """Yield the atoms of a form and those inside of them, repeated as they are."""
    for atom in form.atoms():
        yield atom
        for part in atom.parts:
            yield from all_atoms(part)
        if atom.beside is not None:
            yield from all_atoms(atom.beside)


def number(value: int) -> Form:
    """Return the form of a number."""
    return Form({(): value} if value else {})
