"""How much of a multiprocessor's memory is left to its first cache."""

from __future__ import annotations

import pytest

from workbench.devices.cuda import shared_percent

H100 = 227 << 10


@pytest.mark.parametrize(
    ("blocks", "size", "percent"),
    [(1, 98_304, 43), (2, 49_152, 43), (1, 73_728, 33), (1, H100, 100), (3, 76_800, 100)],
)
def test_shared_memory_is_what_blocks_take(blocks: int, size: int, percent: int):
    assert shared_percent(blocks, size, H100) == percent
    assert blocks * (size + 1024) <= percent * (228 << 10) / 100 or percent == 100
