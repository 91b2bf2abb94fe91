"""One product and one attention, with what the compiler does for tensor cores added step by step.

A rung is a row of RUNGS: what it is called, and what the launch gets. To add one, add a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import torch

from tests.bench import attentions, products
from tests.bench.contests import Config, Contest, Prepared, Tensors
from tests.corpus.sample import Launch
from tests.kernels import attention_forward, matmul
from tests.kernels import products as typed
from workbench import cdiv

F16 = torch.float16
SIZE = 4096
#: BLOCK_M, BLOCK_N, BLOCK_K and warps of the product; BLOCK_M, BLOCK_N and warps of attention.
PRODUCT = ((128, 256, 64), 8)
ATTENTION = ((128, 64), 8)
#: Multiply-adds hold both operands in registers: smaller blocks.
FMA = ((128, 128, 32), 8)


class Rung(NamedTuple):
    """What is switched on.

    Attributes:
        name: of the rung.
        stages: depth of the pipelined loop.
        more: options that are switched on or off.
        fma: operands are widened to fp32 and multiplied exactly: no tensor core takes that.
    """

    name: str
    stages: int
    more: tuple[str, ...] = ()
    fma: bool = False

    def config(self, blocks: tuple[int, ...], warps: int) -> Config:
        """Return the configuration of a kernel with what is switched on."""
        return Config(blocks, warps, self.stages, self.more)


#: What a rung has not come to yet.
WARPS, COPIES = ("no wgmma",), ("no tma", "no overlap")

RUNGS = (
    Rung("0 multiply-adds", 1, WARPS, fma=True),
    Rung("1 mma.sync", 1, WARPS),
    *(Rung(f"2 mma.sync, {stages} stages", stages, WARPS) for stages in (2, 3, 4)),
    Rung("3 wgmma", 1, COPIES),
    *(Rung(f"4 wgmma, {stages} stages", stages, COPIES) for stages in (2, 3, 4)),
    *(Rung(f"5 tensor maps, {stages} stages", stages, ("no overlap",)) for stages in (2, 3, 4)),
)
#: What only one of the two has.
OF_PRODUCTS = tuple(
    Rung(f"6 a producer's warp, {stages} stages", stages, ("warp_specialize",))
    for stages in (2, 3, 4)
)
OF_ATTENTION = tuple(
    Rung(f"6 two products at once, {stages} stages", stages) for stages in (2, 3, 4)
)


def _widened(tensors: Tensors, size: int) -> Prepared:
    """Return the product of `products.product`, by a kernel without tensor cores."""
    usual = products.product(tensors, size, F16, "nn")

    def launch(config: Config) -> Launch:
        bm, bn, bk = config.blocks
        arguments = usual.launch(config).arguments
        named = {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "GROUP_M": 8}
        grid = (cdiv(size, bm) * cdiv(size, bn),)
        return Launch(typed.product_widened, grid, arguments, {**named, **config.options})

    return Prepared(launch, usual.result, usual.reference, usual.allowed, usual.baselines)


def contests() -> Iterator[Contest]:
    """Yield the rungs of the product, then those of attention."""
    for rung in (*RUNGS, *OF_PRODUCTS):
        blocks, warps = FMA if rung.fma else PRODUCT
        prepare = (
            partial(_widened, size=SIZE)
            if rung.fma
            else partial(products.product, size=SIZE, dtype=F16, layout="nn")
        )
        yield Contest(
            "ladder", f"matmul: {rung.name}", F16, SIZE, typed if rung.fma else matmul, prepare,
            (rung.config(blocks, warps),), 2 * SIZE**3, 6 * SIZE**2, f"product {rung.name}",
            tunes=True, peer=False,
        )  # fmt: skip
    pairs = attentions.BATCHES * attentions.HEADS * SIZE**2
    for rung in (*RUNGS, *OF_ATTENTION):
        if rung.fma:
            continue
        blocks, warps = ATTENTION
        yield Contest(
            "ladder", f"attention: {rung.name}", F16, SIZE, attention_forward,
            partial(attentions.attention, size=SIZE, head=128, dtype=F16, causal=False),
            (rung.config(blocks, warps),), 4 * pairs * 128, 0, f"attention {rung.name}",
            tunes=True, peer=False,
        )  # fmt: skip
