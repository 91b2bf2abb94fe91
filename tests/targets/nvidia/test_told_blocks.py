"""How many blocks ptxas is told of: sixteen warps', or those that shared memory has room for."""

from __future__ import annotations

import re

import pytest

import workbench
from tests.kernels import quantised
from tests.kernels.matmul import matmul
from tests.targets.nvidia.test_decoded_weights import MICROSCALED

MATRICES = "*fp16:16 *fp16:16 *fp16:16 i32:16 i32:16 i32:16 i32:16 i32=1 i32:16 i32=1 i32:16 i32=1"


def told(warps: int, stages: int, rows: int = 16, **options: object) -> int:
    """Return what is told of weights of 4 bits by 64 columns and 256 of K."""
    blocks = {"BLOCK_M": rows, "BLOCK_N": 64, "BLOCK_K": 256, "X_FORMAT": "fp16"}
    compiled = workbench.compile(
        quantised.product_with_microscales, MICROSCALED, {**blocks, "W_FORMAT": "e2m1"},
        target="sm_90a", num_warps=warps, num_stages=stages, **options,
    )  # fmt: skip
    found = re.search(r"\.minnctapersm (\d+)", compiled.asm["ptx"])
    return int(found[1]) if found else 0


@pytest.mark.parametrize(
    ("warps", "stages", "blocks"),
    [
        (2, 3, 4),  # 50 kB: four blocks, though sixteen warps are eight
        (2, 5, 2),
        (4, 3, 4),  # four are sixteen warps
        (4, 5, 2),
    ],
)
def test_of_no_more_blocks_than_shared_memory_has_room_for(warps: int, stages: int, blocks: int):
    assert told(warps, stages) == blocks


def test_who_asks_for_registers_or_tells_nothing_has_that():
    assert told(2, 3, tell_blocks=False) == 0
    assert told(2, 3, maxnreg=168) == 0


def test_operands_that_are_only_read_save_registers_as_before():
    """64x64x32 of two warps takes longer with more than 128 registers: it loads all of a round."""
    blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8, "ACTIVATION": ""}
    compiled = workbench.compile(
        matmul, MATRICES, blocks, target="sm_90a", num_warps=2, num_stages=6, tma=False,
        fewer_slots=False,
    )  # fmt: skip
    assert compiled.metadata.shared * 8 > 227 << 10
    assert ".minnctapersm 8" in compiled.asm["ptx"]
