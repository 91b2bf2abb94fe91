"""What holds for every row of the table of elementwise functions."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

from workbench.ir import I8, I32, INDEX, U8, U32, Scalar
from workbench.ops.functions import FUNCTIONS
from workbench.ops.numbers import round_to, truncated_quotient, truncated_remainder


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_keeps_the_shape(name: str, shape: tuple[int, ...]):
    row = FUNCTIONS[name]
    either = [np.float32, np.int32]
    types = {"float": either[:1], "integer": either[1:]}.get(row.takes, either)
    for one in types:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            result = row.evaluate(*(np.ones(shape, one) for _ in range(row.arity)))
        assert np.shape(result) == shape


@pytest.mark.parametrize("element", [I8, U8, I32, U32, INDEX], ids=str)
def test_division_of_integers_rounds_toward_zero_and_leaves_the_sign_of_a(element: Scalar):
    edges = [1 << element.bits - 1, (1 << element.bits - 1) - 1] if element.bits < 64 else []
    numbers = np.array([*range(-130, 260), *edges])
    divisors = np.array([-128, -7, -3, -1, 1, 2, 5, 100, 127, *edges])
    a, b = (round_to(x, element).ravel() for x in np.meshgrid(numbers, divisors))
    with np.errstate(all="ignore"):
        quotients, remainders = (FUNCTIONS[name].evaluate(a, b) for name in ("div", "rem"))
    for x, y, quotient, remainder in zip(
        *(v.tolist() for v in (a, b, quotients, remainders)), strict=True
    ):
        wanted = math.trunc(Fraction(x, y))
        assert truncated_quotient(x, y) == wanted
        assert truncated_remainder(x, y) == x - wanted * y == remainder
        assert quotient == round_to(np.array(wanted), element)


def test_division_of_integers_by_zero_gives_zero_and_leaves_a():
    a, b = np.array([-7, 0, 7], np.int32), np.zeros(3, np.int32)
    assert FUNCTIONS["div"].evaluate(a, b).tolist() == [0, 0, 0]
    assert FUNCTIONS["rem"].evaluate(a, b).tolist() == [-7, 0, 7]
