"""What holds for every row of the table of elementwise functions."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from workbench.ops.functions import FUNCTIONS


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
