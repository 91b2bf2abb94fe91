"""Which accesses may meet, and what memory still holds later."""

from __future__ import annotations

from typing import Any

import pytest

import workbench.language as tl
from tests.passes.corpus import tile_ir
from workbench.analysis.memory import Memory
from workbench.ops.memory import Load


def copied_back(a_ptr, c_ptr, flag_ptr, ORDERED: tl.constexpr):
    """Reads a, writes c, may raise a flag, reads a."""
    tl.store(c_ptr, tl.load(a_ptr))
    if ORDERED:
        tl.atomic_add(flag_ptr, 1)
    tl.store(c_ptr + 1, tl.load(a_ptr))


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize(("type", "kept"), [("*fp32", False), ("*kfp32", True)])
def test_what_overlapping_arguments_may_have_written_is_not_kept(
    ordered: bool, type: str, kept: bool
):
    """An order between the two asks for more, not for less."""
    sizes: dict[str, Any] = {"ORDERED": ordered}
    module = tile_ir(copied_back, f"{type} *fp32 *i32", sizes)
    first, second = (op for op in module.walk() if isinstance(op, Load))
    assert Memory(module).is_kept(first, second) is kept
