"""How scalar types are rounded and held as bits."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.ir import BF16, F8E4M3, F8E5M2, F16, F32, F64, I1, I8, I32, U16
from workbench.ops.casts import convert
from workbench.ops.numbers import bits_of, from_bits, value_dtype

ELEMENTS = (BF16, F8E4M3, F8E5M2, F16, F32, F64, I1, I8, I32, U16)


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)], ids=str)
@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_bits_have_the_shape_of_their_values(element, shape):
    values = np.ones(shape, value_dtype(element))
    bits = bits_of(values, element)
    assert np.shape(bits) == shape
    assert np.shape(from_bits(bits, element)) == shape


@pytest.mark.parametrize("to", [BF16, F16, F8E4M3, F8E5M2], ids=str)
def test_a_scalar_rounds_toward_zero_as_a_tile_does(to):
    numbers = np.asarray([1.999, -1.999, 0.1], np.float32)
    tile = convert(numbers, F32, to, "rtz")
    scalars = [convert(number, F32, to, "rtz") for number in numbers]
    assert [np.shape(scalar) for scalar in scalars] == [()] * 3
    assert np.array_equal(tile, scalars)
