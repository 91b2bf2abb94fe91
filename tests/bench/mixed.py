"""Contests of fp16 times quantised weights: a copy of the weights' bytes, cuBLAS in fp16, Triton.

Sizes of results are M; names say the weights' type and K x N. Groups of 128 along K share a scale
(microscaled formats: 32).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from tests.bench.contests import (
    Config,
    Contest,
    Prepared,
    Tensors,
    configs,
    instead,
    with_options,
)
from tests.corpus.quantised import E2M1
from tests.corpus.sample import Launch
from tests.kernels import quantised as kernels
from workbench import cdiv

F16, I8, U8, E4M3 = torch.float16, torch.int8, torch.uint8, torch.float8_e4m3fn
ROWS = (1, 16, 256, 4096)
#: K and N.
SHAPES = ((8192, 28672), (7168, 11008))
GROUP = 128
#: What stands for 0 in words of eight numbers.
ZERO = 8
#: The multiprocessors of an H100.
PROGRAMS = 132

#: BLOCK_M, BLOCK_N, BLOCK_K, warps, stages, by rows.
FEW = configs(
    (16, 32, 128, 2, 4), (16, 32, 128, 2, 6), (16, 32, 128, 4, 5), (16, 64, 64, 4, 5),
    (16, 64, 128, 2, 4), (16, 64, 128, 2, 6), (16, 64, 128, 4, 3), (16, 64, 128, 4, 4),
    (16, 64, 128, 4, 6), (16, 128, 128, 2, 4), (16, 128, 128, 4, 3), (16, 128, 128, 4, 4),
    (16, 128, 128, 4, 6), (16, 128, 128, 8, 4),
)  # fmt: skip
#: Of ours alone: rounds ask together for what they read of a row, 64 or 128 bytes each.
OWN_FEW = instead(
    FEW,
    with_options(
        "rounds_together", (16, 32, 128, 2, 8), (16, 32, 128, 4, 8), (16, 64, 128, 4, 4),
        (16, 128, 128, 8, 4),
    ),
    configs((16, 32, 128, 2, 4), (16, 64, 64, 4, 5), (16, 64, 128, 2, 6), (16, 128, 128, 2, 4)),
)  # fmt: skip
#: Of int4, scales behind the product and steps shared out over programs of each multiprocessor.
BEHIND = (
    *with_options("BEHIND", (16, 64, 128, 4, 4), (16, 128, 128, 4, 4), (16, 128, 128, 2, 4, 4)),
    *configs((16, 128, 128, 2, 4, 4), (16, 64, 128, 3, 4, 4)),
)
NOT_BEHIND = configs(
    (16, 32, 128, 4, 5), (16, 64, 128, 2, 4), (16, 32, 128, 2, 4), (16, 64, 128, 4, 3),
    (16, 64, 128, 2, 6),
)  # fmt: skip
#: Of ours alone: 256 or 512 blocks, as many for each multiprocessor but a few, some with two steps
#: a round; columns of W as the rows of warpgroups' instructions, brought by a producer.
EVEN = (
    *with_options("BEHIND", (16, 112, 128, 4, 4), (16, 112, 128, 4, 5), (16, 56, 128, 2, 4)),
    *with_options("BEHIND UNROLL=2", (16, 112, 128, 4, 3), (16, 128, 128, 4, 3)),
    *with_options("BEHIND swap_operands warp_specialize no persistent", (16, 128, 128, 4, 4)),
)
NOT_EVEN = configs(
    (16, 64, 128, 4, 6), (16, 128, 128, 4, 3), (16, 32, 128, 2, 6), (16, 64, 64, 4, 5),
    (16, 128, 128, 8, 4), (16, 128, 128, 2, 4, 4),
)  # fmt: skip
#: Of e2m1, half as many rounds: what a round takes beside its numbers is half as much.
DEEP = configs((16, 64, 256, 2, 3), (16, 64, 256, 4, 3), (16, 32, 256, 2, 3), (16, 128, 256, 4, 2))
NOT_DEEP = (
    *configs((16, 32, 128, 4, 5), (16, 64, 64, 4, 5), (16, 128, 128, 8, 4), (16, 32, 128, 2, 4)),
    *with_options("rounds_together", (16, 32, 128, 2, 8), (16, 32, 128, 4, 8)),
)
#: Of ours alone: as many blocks for each multiprocessor but a few, rounds as deep as rings allow.
EVEN_DEEP = configs((16, 112, 256, 4, 4), (16, 112, 512, 4, 2), (16, 128, 512, 4, 2))
NOT_EVEN_DEEP = configs((16, 128, 256, 4, 2), (16, 32, 256, 2, 3), (16, 128, 128, 4, 6))
MANY = configs(
    (64, 64, 64, 4, 4), (64, 128, 64, 4, 3), (64, 128, 64, 4, 4), (64, 256, 64, 8, 3),
    (128, 64, 64, 4, 4), (128, 128, 32, 4, 4), (128, 128, 64, 4, 3), (128, 128, 64, 8, 3),
    (128, 128, 128, 8, 2), (128, 256, 64, 8, 3), (256, 128, 64, 8, 3), (256, 128, 64, 8, 4),
    (256, 128, 128, 8, 2),
)  # fmt: skip


def _weights(
    tensors: Tensors, kind: str, n: int, k: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return (N, K) weights as they are kept, scales, and (K, N) of what they are in fp16.

    On "meta" the last has no content, as the others.
    """
    if kind in ("e2m1", "mxfp8"):
        scale = tensors.integers(118, 124, n, k // 32, dtype=U8)
        factors = (2.0 ** (scale.float() - 127)).repeat_interleave(32, 1)
    else:
        scale = (tensors.normal(k // GROUP, n, dtype=F16, scale=0.02).abs() + 0.01).to(F16)
        factors = scale.T.repeat_interleave(GROUP, 1)
    if kind == "words":
        w = tensors.integers(-(1 << 31), 1 << 31, k // 8, n, dtype=torch.int32)
        codes = torch.stack([(w >> 4 * i) & 15 for i in range(8)], 1).reshape(k, n)
        return w, scale, ((codes - ZERO).to(F16) * factors.T).to(F16)
    if kind in ("int4", "e2m1"):
        w = tensors.integers(0, 256, n, k // 2, dtype=U8)
        halves = torch.stack([w & 15, w >> 4], -1).flatten(1).long()
        signed = [float(i if i < 8 else i - 16) for i in range(16)]
        numbers = tensors.of(torch.tensor(E2M1 if kind == "e2m1" else signed)).to(F16)
        plain = numbers[halves] if w.device.type != "meta" else factors
        w = w if kind == "e2m1" else w.view(I8)
    else:
        dtype = I8 if kind == "int8" else E4M3
        w = tensors.normal(n, k, dtype=F16, scale=2.0).to(dtype)
        plain = w.to(F16)
    return w, scale, (plain * factors).to(F16).T


def mixed(tensors: Tensors, kind: str, m: int, k: int, n: int) -> Prepared:
    """Return C = X @ W with W dequantised on the way."""
    x = tensors.normal(m, k, dtype=F16)
    w, scale, plain = _weights(tensors, kind, n, k)
    c, library = (tensors.empty(m, n, dtype=F16) for _ in "cl")
    parts = tensors.empty(3 * PROGRAMS, 16 * 128, dtype=torch.float32)
    flags = tensors.empty(3 * PROGRAMS, dtype=torch.int32)
    zeros = tensors.empty(k // GROUP, n // 8, dtype=torch.int32)
    zeros += ZERO * 0x11111111 - (1 << 32)

    def launch(config: Config) -> Launch:
        bm, bn, bk, *shares = config.blocks
        grid = (cdiv(n, bn), cdiv(m, bm))
        named = {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, **config.options}
        if shares:
            share = cdiv(cdiv(n, bn) * (k // bk), shares[0] * PROGRAMS)
            programs = cdiv(cdiv(n, bn) * (k // bk), share)
            return Launch(
                kernels.product_by_shares, (programs,),
                (x, w, scale, c, parts, flags, m, n, k, share, k, 1, w.stride(0), n),
                {"GROUP": GROUP, **named},
            )  # fmt: skip
        if kind in ("e2m1", "mxfp8"):
            return Launch(
                kernels.product_with_microscales, grid,
                (x, w, scale, c, m, n, k, k, w.stride(0), scale.stride(0), n),
                {"X_FORMAT": "fp16", "W_FORMAT": "e2m1" if kind == "e2m1" else "e4m3",
                 "EVEN_K": k % bk == 0, **named},
            )  # fmt: skip
        if kind == "words":
            return Launch(
                kernels.product_with_words, grid,
                (x, w, scale, zeros, c, m, n, k, k, n, 1, n), {"GROUP": GROUP, **named},
            )  # fmt: skip
        kernel = kernels.product_with_int4 if kind == "int4" else kernels.product_with_8_bits
        return Launch(kernel, grid, (x, w, scale, c, m, n, k, k, 1, w.stride(0), n),
                      {"GROUP": GROUP, "EVEN_K": k % bk == 0, **named})  # fmt: skip

    def multiply() -> torch.Tensor:
        return torch.mm(x, plain, out=library)

    moved = w.numel() * w.element_size() + scale.numel() * scale.element_size()
    moved += 2 * (m * k + m * n)
    return Prepared(launch, c, multiply, (2**-8, 1e-3 * k**0.5),
                    {"cublas": multiply, "copy": tensors.copier(moved)})  # fmt: skip


def tables_for(kind: str, m: int) -> tuple[tuple[Config, ...], tuple[Config, ...]]:
    """Return Triton's configurations and ours."""
    if m > 16:
        return MANY, MANY
    table, own = FEW, OWN_FEW
    if kind == "int4":
        table = instead(FEW, BEHIND, NOT_BEHIND)
        own = instead(table, EVEN, NOT_EVEN)
    if kind == "e2m1":
        table, own = (instead(one, DEEP, NOT_DEEP) for one in (table, own))
        own = instead(own, EVEN_DEEP, NOT_EVEN_DEEP)
    if m == 1:  # eight rows of a block are as many columns as an instruction has
        own = tuple(config._replace(blocks=(8, *config.blocks[1:])) for config in own)
    return table, own


def contests() -> Iterator[Contest]:
    """Yield all contests of quantised weights."""
    for kind, bits in (
        ("int4", 4),
        ("words", 4),
        ("int8", 8),
        ("fp8", 8),
        ("e2m1", 4),
        ("mxfp8", 8),
    ):
        for k, n in SHAPES if kind not in ("words", "e2m1", "mxfp8") else SHAPES[:1]:
            for m in ROWS:
                table, own = tables_for(kind, m)
                yield Contest(
                    "mixed", f"{kind} {k}x{n}", F16, m, kernels,
                    partial(mixed, kind=kind, m=m, k=k, n=n), own,
                    2 * m * k * n, k * n * bits // 8 + 2 * (m * k + m * n),
                    f"mixed {kind} {m}{f' {k}x{n}' if m == 256 else ''}",
                    tunes=m == 256 or (k, n) == SHAPES[0],
                    peer_configs=table,
                )  # fmt: skip
