"""A few random kernels around products by warpgroups; `python -m tests.fuzz.boxes` tries more."""

from __future__ import annotations

import pytest

from tests.fuzz.boxes import difference


@pytest.mark.parametrize("seed", range(3))
def test_a_product_with_oddities_means_the_same(seed: int):
    assert not difference(seed)
