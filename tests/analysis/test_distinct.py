"""Whether the elements of a tile have addresses of their own."""

from __future__ import annotations

from workbench.analysis.distinct import is_one_to_one
from workbench.analysis.forms import Atom, Form

I = Atom("x", 0, 0, frozenset((0,)))  # noqa: E741
J = Atom("x", 1, 1, frozenset((1,)))
STRIDE = Atom("arg", "s", 2, frozenset())
PROGRAM = Atom("pid", 0, 3, frozenset())


def _halves(divided: Form) -> Form:
    """Return the quotient by 2, which counts by 1, and the remainder, which counts by 8."""
    parts = (divided, Form({(): 2}))
    quotient, remainder = (
        Atom(kind, parts, order, divided.axes) for kind, order in (("div", 4), ("rem", 5))
    )
    return Form({(quotient,): 1, (remainder,): 8})


def test_a_stride_that_only_the_launch_knows_proves_nothing():
    rows = Form({(I, STRIDE): 1, (J,): 1})
    assert not is_one_to_one(rows, (8, 16))
    assert is_one_to_one(rows, (1, 16))
    assert is_one_to_one(Form({(PROGRAM, STRIDE): 1, (J,): 1}), (1, 16))


def test_a_stride_in_a_quotient_proves_nothing():
    assert not is_one_to_one(_halves(Form({(I, STRIDE): 1})), (16,))


def test_what_counts_down_has_one_more_quotient():
    assert is_one_to_one(_halves(Form({(I,): 1})), (16,))
    assert not is_one_to_one(_halves(Form({(): 16, (I,): -1})), (16,))
