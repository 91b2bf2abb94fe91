"""What one bound of a mask says of another, against all small numbers."""

from __future__ import annotations

import itertools

import pytest

from workbench.analysis.forms import Atom, Form, number
from workbench.analysis.masks import implies

EXTENT = 4
NOWHERE: frozenset[int] = frozenset()
INDEX, COUNT = Atom("value", "i", 0, NOWHERE), Atom("value", "n", 1, NOWHERE)
PLACE = Atom("x", 0, 2, frozenset((0,)))


def of(atom: Atom) -> Form:
    return Form({(atom,): 1})


def quotient(dividend: Form, by: int) -> Form:
    return of(Atom("div", (dividend, number(by)), 3, NOWHERE))


AT, N, X = of(INDEX), of(COUNT), of(PLACE)
#: A conjunct, another form, and whether it is below 0 wherever the conjunct is.
CASES: dict[str, tuple[Form, Form, bool]] = {
    "i + x < n": (AT + X - N, AT - N, True),
    "i + x + 1 < n": (AT + X + number(1) - N, AT - N, True),
    "i + x - 1 < n": (AT + X - number(1) - N, AT - N, False),
    "i - x < n": (AT - X - N, AT - N, False),
    "i + 3 - x < n": (AT + number(3) - X - N, AT - N, True),
    "i + 2 - x < n": (AT + number(2) - X - N, AT - N, False),
    "i + x < n / 2, 2 i < n": (AT + X - quotient(N, 2), AT.scaled(2) - N, True),
    "i + x - 1 < n / 2, 2 i < n": (AT + X - number(1) - quotient(N, 2), AT.scaled(2) - N, False),
    "i + x < n / 3, 3 i < n": (AT + X - quotient(N, 3), AT.scaled(3) - N, True),
    "i + x < n / 2, 3 i < n": (AT + X - quotient(N, 2), AT.scaled(3) - N, False),
    "i < (n + 1) / 2, 2 i < n": (AT - quotient(N + number(1), 2), AT.scaled(2) - N, False),
}


def at(form: Form, known: dict[Atom, int]) -> int:
    total = 0
    for monomial, coefficient in form.terms.items():
        for atom in monomial:
            if atom.kind == "div":
                dividend, by = (at(part, known) for part in atom.parts)
                coefficient *= int(dividend / by)  # towards 0
            else:
                coefficient *= known[atom]
        total += coefficient
    return total


@pytest.mark.parametrize("name", CASES)
def test_what_a_bound_implies_holds_for_all_numbers(name: str):
    held, other, wanted = CASES[name]
    assert implies(held, other, (EXTENT,)) == wanted
    places = itertools.product(range(-9, 10), range(-9, 10), range(EXTENT))
    known = [{INDEX: i, COUNT: n, PLACE: x} for i, n, x in places]
    wrong = [one for one in known if at(held, one) < 0 <= at(other, one)]
    assert bool(wrong) != wanted
