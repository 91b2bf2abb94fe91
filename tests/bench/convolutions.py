"""Contests of convolutions as implicit products: cuDNN and Triton, channels last and first."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import torch

from tests.bench.contests import Config, Contest, Prepared, Tensors, configs, with_options
from tests.corpus.sample import Launch
from tests.kernels import convolution
from workbench import cdiv

F16 = torch.float16
#: BLOCK_M, BLOCK_K, BLOCK_C, warps, stages: those of which one was best in a race of some shape.
CONFIGS = (
    *with_options(
        "warp_specialize persistent", (64, 256, 64, 4, 3), (64, 256, 64, 4, 4), (64, 128, 64, 4, 3),
        (64, 128, 128, 4, 2),
    ),
    *with_options("warp_specialize", (128, 64, 64, 4, 4)),
    *configs(
        (64, 128, 64, 4, 3), (64, 128, 64, 4, 4), (64, 128, 128, 4, 3), (128, 64, 64, 4, 3),
        (128, 128, 64, 4, 3), (128, 128, 64, 8, 3), (128, 256, 64, 8, 3), (256, 64, 32, 8, 3),
        (256, 64, 64, 8, 4),
    ),
)  # fmt: skip
#: Those of images and weights whose channels lie first; images are read an element at a time.
FIRST = (
    *configs(
        (128, 128, 64, 8, 3), (256, 64, 64, 8, 3), (128, 256, 32, 8, 3), (256, 128, 32, 8, 3),
        (128, 128, 32, 8, 3), (128, 128, 64, 16, 3),
    ),
    *with_options(
        "through_registers", (128, 128, 64, 8, 3), (128, 128, 64, 8, 2), (256, 128, 32, 8, 3),
        (128, 256, 32, 8, 3),
    ),
)  # fmt: skip
#: Triton's.
PEERS = configs(
    (64, 64, 32, 4, 4), (64, 64, 64, 4, 3), (64, 128, 64, 4, 3), (128, 64, 32, 4, 3),
    (128, 64, 64, 4, 3), (128, 64, 64, 4, 4), (128, 128, 32, 4, 4), (128, 128, 64, 4, 3),
    (128, 128, 64, 8, 3), (128, 256, 64, 8, 3), (256, 64, 32, 8, 3), (256, 64, 64, 8, 3),
    (256, 128, 32, 8, 3), (256, 128, 64, 8, 3),
)  # fmt: skip


class Shape(NamedTuple):
    """A convolution; padding keeps the image's size where the stride is 1."""

    batch: int
    channels: int
    extent: int
    outputs: int
    taps: int
    stride: int = 1

    @property
    def out(self) -> int:
        """Rows and columns of the result."""
        return (self.extent + 2 * (self.taps // 2) - self.taps) // self.stride + 1

    def __str__(self) -> str:
        stride = f"/{self.stride}" if self.stride > 1 else ""
        return f"{self.taps}x{self.taps}{stride} {self.channels} to {self.outputs}"


SHAPES = (
    Shape(32, 256, 28, 256, 1), Shape(32, 64, 56, 256, 1), Shape(32, 1024, 14, 256, 1),
    Shape(32, 256, 28, 256, 3), Shape(32, 64, 56, 64, 3), Shape(32, 512, 7, 512, 3),
    Shape(32, 128, 56, 128, 3, 2),
)  # fmt: skip


def convolve(tensors: Tensors, shape: Shape, *, last: bool) -> Prepared:
    """Return a convolution beside cuDNN's; `last`: channels of images and weights lie last."""
    b, c, size, k, taps, stride = shape
    form = torch.channels_last if last else torch.contiguous_format
    x = tensors.normal(b, c, size, size, dtype=F16).contiguous(memory_format=form)
    w = tensors.normal(k, c, taps, taps, dtype=F16).contiguous(memory_format=form)
    out = tensors.empty(b, k, shape.out, shape.out, dtype=F16).contiguous(memory_format=form)
    pad = taps // 2

    def launch(config: Config) -> Launch:
        bm, bk, bc = config.blocks
        return Launch(
            convolution.conv2d, (cdiv(b * shape.out**2, bm), cdiv(k, bk), 1),
            (x, w, None, out, b, c, size, size, k, shape.out, shape.out, stride, stride, pad, pad,
             1, *x.stride(), *w.stride(), *out.stride(), c, k),
            {"R": taps, "S": taps, "HAS_BIAS": False, "BLOCK_M": bm, "BLOCK_K": bk,
             "BLOCK_C": bc, **config.options},
        )  # fmt: skip

    def cudnn() -> torch.Tensor:
        return torch.nn.functional.conv2d(x, w, None, stride, pad)

    return Prepared(launch, out, cudnn, (2**-9, 1e-4 * (c * taps**2) ** 0.5), {"cudnn": cudnn})


def contests() -> Iterator[Contest]:
    """Yield all contests of convolutions."""
    for last in (True, False):
        for shape in SHAPES if last else SHAPES[3:4]:
            places = shape.batch * shape.out**2
            products = places * shape.channels * shape.outputs * shape.taps**2
            moved = 2 * (shape.batch * shape.channels * shape.extent**2 + places * shape.outputs)
            yield Contest(
                "conv2d", f"{shape} {'NHWC' if last else 'NCHW'}", F16, shape.extent, convolution,
                partial(convolve, shape=shape, last=last), CONFIGS if last else FIRST, 2 * products,
                moved + 2 * shape.channels * shape.outputs * shape.taps**2,
                f"conv {shape} {last}", tunes=True, peer_configs=PEERS,
            )  # fmt: skip
