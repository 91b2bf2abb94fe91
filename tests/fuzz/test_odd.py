"""Odd objects under names of kernels: their code is not run, keys and launches do not fail."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import workbench.language as tl
import workbench.triton as triton
from tests.fuzz.odd import odd
from workbench.source import register_text
from workbench.source.captures import captures_of_value, describe_value, reaching

KERNEL = """
@triton.constexpr_function
def reads(x):
    if x > 5:
        return ODD, ODD.n, ODD(), [getattr(ODD, "n", 3)]
    return x
@triton.jit
def k(o, A: tl.constexpr):
    if A > 5:
        tl.store(o, ODD)
        tl.store(o, ODD.n)
    tl.store(o, reads(A))
"""


@pytest.mark.parametrize("first", range(0, 600, 200))
def test_odd_objects_are_described(first: int):
    for seed in range(first, first + 200):
        value = odd(seed)
        described = describe_value(value)
        assert type(described) is str, seed
        assert len(list(reaching((value,)))) < 3, seed


def test_odd_objects_are_told_again():
    """What nobody changed is what it was: launches stay quick."""
    changed = [seed for seed in range(200) if not captures_of_value(odd(seed)).unchanged()]
    assert not changed


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_kernels_that_leave_odd_objects_alone_are_launched(first: int):
    for seed in range(first, first + 20):
        file = f"<odd {seed}>"
        register_text(file, KERNEL)
        names: dict[str, Any] = {"triton": triton, "tl": tl, "ODD": odd(seed), "__name__": "odd"}
        exec(compile(KERNEL, file, "exec"), names)
        out = torch.zeros(1)
        for n in (1, 2, 1):
            names["k"][(1,)](out, n)
            assert out.item() == n, seed
