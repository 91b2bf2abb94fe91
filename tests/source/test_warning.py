"""Warnings of options stand at the user's line, not at ours."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tests.runtime.kernels import fill
from workbench.launch.options import UnheardOptionWarning
from workbench.source.warning import warn_user


def test_what_has_no_effect_is_said_at_the_line_that_asks() -> None:
    with pytest.warns(UnheardOptionWarning) as told:
        fill.warmup(np.zeros(8, np.float32), 1.0, 8, grid=(1,), target="cpu", ir_override="a")
    assert {w.filename for w in told} == {__file__}


def test_each_line_is_told_once() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in range(2):
            warn_user("first")
        warn_user("first")
    assert [w.filename for w in told] == [__file__] * 2
