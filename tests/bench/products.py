"""Contests of matrix products: cuBLAS, Triton and ours on plain pointers, M = N = K."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

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
from tests.corpus.sample import Launch
from tests.kernels import matmul as plain
from tests.kernels import products as typed
from workbench import cdiv
from workbench.bench.roundings import UNIT

F16, BF16, F32, I8 = torch.float16, torch.bfloat16, torch.float32, torch.int8
E4M3 = torch.float8_e4m3fn

#: BLOCK_M, BLOCK_N, BLOCK_K, warps, stages, for operands of 16 bits.
CONFIGS = configs(
    (64, 64, 64, 4, 5),
    (64, 128, 64, 4, 4),
    (64, 128, 128, 4, 3),
    (128, 64, 64, 4, 4),
    (128, 128, 32, 4, 4),
    (128, 128, 64, 4, 3),
    (128, 128, 64, 4, 4),
    (128, 128, 64, 8, 3),
    (64, 256, 64, 4, 3),
    (128, 256, 32, 8, 4),
    (128, 256, 64, 8, 3),
    (128, 256, 64, 8, 4),
    (256, 128, 64, 8, 3),
    (256, 128, 64, 8, 4),
)
#: Where inputs of 512 and 1024 are small enough for few, small blocks.
SMALL_CONFIGS = configs(
    (32, 32, 64, 2, 5),
    (32, 64, 64, 4, 5),
    (64, 32, 64, 4, 8),
    (32, 64, 128, 4, 4),
    (64, 64, 64, 4, 4),
    (64, 64, 64, 4, 8),
    (64, 64, 128, 4, 4),
    (64, 128, 64, 4, 4),
    (64, 128, 64, 4, 8),
    (64, 128, 128, 4, 4),
    (128, 64, 64, 4, 4),
    (128, 64, 64, 4, 8),
    (128, 64, 128, 4, 3),
    (128, 128, 64, 8, 4),
)
#: Where powers of two leave multiprocessors idle in the last wave: 1536 = 11 * 144 in 132 blocks,
#: 3072 = 16 * 192 and 22 * 144, 5120 = 32 * 160. Triton takes powers of two alone.
WAVE_CONFIGS = configs(
    (64, 144, 64, 4, 4),
    (64, 192, 64, 4, 3),
    (128, 96, 64, 8, 4),
    (128, 128, 64, 4, 4),
    (128, 128, 64, 8, 3),
    (128, 144, 64, 8, 4),
    (128, 160, 64, 8, 4),
    (128, 192, 64, 8, 3),
    (128, 192, 64, 8, 4),
    (128, 224, 64, 8, 3),
    (128, 256, 64, 8, 3),
    (256, 128, 64, 8, 3),
    (256, 144, 64, 8, 3),
    (256, 160, 64, 8, 3),
)
#: Where rows begin at 16 bytes and not at 128, each line is asked for twice: large ones, which ask
#: for least, and those that leave no wave nearly empty (4104 = 21.4 * 192 = 16.03 * 256, 2056 =
#: 10.7 * 192). Ours are clusters of two blocks there, unasked.
ODD_CONFIGS = (
    *configs(
        (64, 128, 64, 4, 4),
        (64, 128, 128, 4, 3),
        (128, 128, 64, 8, 3),
        (128, 192, 64, 8, 4),
        (128, 208, 64, 8, 4),
        (128, 256, 64, 8, 3),
        (128, 256, 64, 8, 4),
        (192, 176, 64, 8, 4),
        (192, 192, 64, 8, 4),
        (192, 256, 64, 8, 3),
        (256, 160, 64, 8, 3),
        (256, 176, 64, 8, 3),
        (256, 192, 64, 8, 3),
    ),
    *with_options("tma_stores", (176, 192, 64, 8, 4)),
)
#: Ours with blocks that stay for several tiles, instead of some that were the best of no contest.
#: Triton has no such options and keeps all of its own.
STAYING = "warp_specialize persistent"
OURS = instead(
    CONFIGS,
    with_options(STAYING, (128, 256, 64, 8, 3), (256, 128, 64, 8, 3), (128, 128, 64, 8, 4)),
    configs((64, 256, 64, 4, 3), (128, 128, 32, 4, 4), (128, 64, 64, 4, 4)),
)
#: Tiles of 96 and 192 leave two groups of warps no row too many, and those of 8 warps that leave
#: one block on a multiprocessor stay unasked. A round of 128x144x64 receives for 680 cycles what it
#: multiplies in 576: in clusters of two blocks (asked for) it receives for 510 or 490. Where
#: columns lie side by side in B those of 144 begin amid a line, of 128 (144 rows, turned) do not,
#: and the results of these are stored by boxes that four warps make together.
OUR_WAVES = instead(
    WAVE_CONFIGS,
    (
        *configs((192, 192, 64, 8, 4)),
        *with_options(
            "tma_stores", (144, 128, 64, 8, 6), (128, 160, 32, 8, 8), (128, 160, 64, 8, 5)
        ),
        *with_options("tma_stores warp_specialize no persistent", (144, 128, 64, 8, 6)),
        *with_options("cluster=2", (128, 144, 64, 8, 4), (128, 160, 64, 8, 4)),
    ),
    configs(
        (64, 144, 64, 4, 4),
        (64, 192, 64, 4, 3),
        (128, 96, 64, 8, 4),
        (128, 128, 64, 4, 4),
        (128, 144, 64, 8, 4),
        (128, 160, 64, 8, 4),
        (256, 144, 64, 8, 3),
    ),
)
#: In one round of tiles nothing hides a program's end: results by boxes, of rings of three slots.
OUR_2048 = instead(
    OURS,
    with_options("tma_stores", (128, 256, 64, 8, 3)),
    configs((64, 128, 128, 4, 3)),
)
#: Small ones whose results go by boxes, and whose warps part: one product of 64 rows a round leaves
#: little time for the copies of the next.
OUR_SMALL = instead(
    SMALL_CONFIGS,
    (
        *with_options("tma_stores", (64, 128, 64, 4, 8)),
        *with_options("warp_specialize no persistent", (64, 128, 64, 4, 8)),
    ),
    configs((32, 32, 64, 2, 5), (32, 64, 64, 4, 5)),
)
#: Small ones in clusters: only blocks that stay are.
OUR_SMALL_ODD = instead(
    SMALL_CONFIGS,
    with_options(STAYING, (64, 128, 64, 4, 8), (64, 128, 128, 4, 4), (128, 64, 128, 4, 4)),
    configs((32, 32, 64, 2, 5), (32, 64, 64, 4, 5), (64, 32, 64, 4, 8)),
)
#: Where memory has both operands of tf32 with k as rows, threads turn the smaller one.
OUR_TURNED = instead(
    OURS,
    with_options("through_registers", (128, 256, 64, 8, 3), (256, 128, 64, 8, 3)),
    configs((64, 64, 64, 4, 5), (64, 128, 128, 4, 3)),
)
#: The sizes that take WAVE_CONFIGS.
WAVE_SIZES = (1536, 3072, 5120)

SIZES = (512, 1024, 1536, 2048, 3072, 4096, 5120, 6144, 8192, 16384)
#: bf16 is fp16's code but for one letter of its instructions: fewer sizes, tuned with fp16.
BF16_SIZES = (1024, 4096, 8192)
LAYOUTS = ("nn", "nt", "tn", "tt")
TF32_SIZES = INT8_SIZES = (2048, 4096, 8192)
FP8_SIZES = (1024, 2048, 4096, 8192, 16384)
LEAKY_SIZES = (1024, 2048, 4096, 8192)
ODD = {"nn": (1000, 2056, 4104, 1001, 4095), "nt": (1000, 2056, 4104, 4095)}


def sized(table: tuple[Config, ...], dtype: torch.dtype) -> tuple[Config, ...]:
    """Return the configurations of 16-bit operands with as many bytes along K for a type."""
    return tuple(
        config._replace(blocks=(*config.blocks[:2], config.blocks[2] * 2 // dtype.itemsize))
        for config in table
    )


def operands(
    tensors: Tensors, size: int, dtype: torch.dtype, layout: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return A and B, each square; "t": stored transposed."""
    a, b = (tensors.normal(size, size, dtype=dtype) for _ in "ab")
    return a if layout[0] == "n" else a.T, b if layout[1] == "n" else b.T


def product(
    tensors: Tensors, size: int, dtype: torch.dtype, layout: str, activation: str = ""
) -> Prepared:
    """Return C = A @ B by the tutorials' kernel, beside cuBLAS; with a fused activation or none."""
    a, b = operands(tensors, size, dtype, layout)
    c, library = (tensors.empty(size, size, dtype=dtype) for _ in "cl")

    def launch(config: Config, activation: str = activation) -> Launch:
        bm, bn, bk = config.blocks
        named = {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "GROUP_M": 8}
        return Launch(
            plain.matmul,
            (cdiv(size, bm) * cdiv(size, bn),),
            (a, b, c, size, size, size, *a.stride(), *b.stride(), *c.stride()),
            {**named, "ACTIVATION": activation, **config.options},
        )

    def multiply() -> torch.Tensor:
        return torch.mm(a, b, out=library)

    def multiply_in_tf32() -> torch.Tensor:
        torch.backends.cuda.matmul.allow_tf32 = True  # as `tl.dot` has it by default
        try:
            return torch.mm(a, b, out=library)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False

    call = multiply_in_tf32 if dtype == F32 else multiply
    # Sums of `size` products of normal numbers, rounded to the type. Of tf32, sums of cut operands
    # and of rounded ones differ by 8.7e-4 sqrt(size) (standard deviation, simulated), so of 8192^2
    # of them the furthest by 5.3e-3 sqrt(size); a lost block of k by far more.
    allowed = (2 * torch.finfo(dtype).eps, (6.5e-3 if dtype == F32 else 1e-4) * size**0.5)
    if not activation:
        return Prepared(launch, c, call, allowed, {"cublas": call})

    def activated() -> torch.Tensor:
        return torch.nn.functional.leaky_relu(multiply(), 0.01)

    unfused = {"unfused": partial(launch, activation="")}
    return Prepared(launch, c, activated, allowed, {"torch": activated}, unfused)


def typed_product(
    tensors: Tensors, size: int, dtype: torch.dtype, imprecise: int | None = None,
    layout: str = "nt",
) -> Prepared:  # fmt: skip
    """Return C = A @ B of 8-bit operands, beside cuBLAS where B is a transpose and A is none."""
    a, b = operands(tensors, size, dtype, layout)
    out = torch.int32 if dtype == I8 else F16
    c = tensors.empty(size, size, dtype=out)

    def launch(config: Config) -> Launch:
        bm, bn, bk = config.blocks
        named: dict[str, Any] = {"BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_K": bk, "GROUP_M": 8}
        if imprecise is not None:
            named["IMPRECISE"] = imprecise
        return Launch(
            typed.product_int8 if dtype == I8 else typed.product_fp8,
            (cdiv(size, bm) * cdiv(size, bn),),
            (a, b, c, size, size, size, *a.stride(), *b.stride(), *c.stride()),
            {**named, **config.options},
        )

    if dtype == I8:
        first, second = a.contiguous(), b.T.contiguous().T  # as cuBLAS takes them

        def multiply() -> torch.Tensor:
            return torch._int_mm(first, second)

        return Prepared(launch, c, multiply, (0.0, 0.0),
                        {"cublas": multiply} if layout == "nt" else {})  # fmt: skip
    one = tensors.of(torch.ones((), dtype=F32))

    def scaled() -> torch.Tensor:
        fast = imprecise is None
        return torch._scaled_mm(a, b, one, one, out_dtype=F16, use_fast_accum=fast)

    # Hopper adds 32 products of fp8 at a time with some 13 bits below the largest of a sum, all of
    # a row or `imprecise` before they go to fp32. What is cut adds up like a random walk
    # (bench/tolerances.py): four times the root of the steps, of numbers up to 8 deviations large.
    steps = (imprecise or size) / 32
    allowed = (2**-8, 4 * steps**0.5 * UNIT["sums of 8-bit products"] * 8 * size**0.5)
    return Prepared(launch, c, scaled, allowed, {"cublas": scaled})


def _contest(
    suite: str, name: str, dtype: torch.dtype, size: int, prepare: Callable[[Tensors], Prepared],
    table: tuple[Config, ...], family: str, *, tunes: bool, out: int | None = None,
    peers: tuple[Config, ...] = (), **more: Any,
) -> Contest:  # fmt: skip
    module = typed if dtype.itemsize == 1 else plain
    moved = size * size * (2 * dtype.itemsize + (out or dtype.itemsize))
    return Contest(suite, name, dtype, size, module, prepare, sized(table, dtype), 2 * size**3,
                   moved, family, tunes=tunes, peer_configs=sized(peers, dtype),
                   **more)  # fmt: skip


def _family(size: int) -> tuple[str, int, tuple[Config, ...]]:
    """Return what sizes are tuned together, at which of them, with what."""
    if size in WAVE_SIZES:
        return str(size), size, OUR_WAVES
    if size <= 512:
        return "to 512", 512, OUR_SMALL
    if size < 2048:
        return "to 2047", 1024, OUR_SMALL
    return ("2048", 2048, OUR_2048) if size == 2048 else ("from 2048", 4096, OURS)


def _peers(size: int) -> tuple[Config, ...]:
    """Return what Triton tries, which takes no options of ours."""
    return CONFIGS if size >= 2048 or size in WAVE_SIZES else SMALL_CONFIGS


def _squares(
    suite: str, layout: str, dtype: torch.dtype, sizes: tuple[int, ...], **more: Any
) -> Iterator[Contest]:
    for size in sizes:
        name, tuned_at, table = _family(size)
        table = OUR_TURNED if dtype == F32 and layout == "tn" else table
        tunes = size == tuned_at and dtype != BF16
        yield _contest(
            suite, layout, dtype, size,
            partial(product, size=size, dtype=dtype, layout=layout), table,
            f"{suite} {layout} {'fp32' if dtype == F32 else 'fp16'} {name}", tunes=tunes,
            peers=_peers(size), **more,
        )  # fmt: skip


def _integers() -> Iterator[Contest]:
    """Yield products of 8-bit integers; in layouts that cuBLAS does not take, at one size."""
    for size in INT8_SIZES:
        prepare = partial(typed_product, size=size, dtype=I8)
        yield _contest("int8", "nt", I8, size, prepare, OURS, "int8", tunes=size == 4096, out=4,
                       peers=CONFIGS)  # fmt: skip
    for layout in ("nn", "tn", "tt"):
        prepare = partial(typed_product, size=4096, dtype=I8, layout=layout)
        yield _contest("int8", layout, I8, 4096, prepare, OURS, f"int8 {layout}", tunes=True,
                       out=4, peers=CONFIGS)  # fmt: skip


def contests() -> Iterator[Contest]:
    """Yield all contests of products."""
    for layout in LAYOUTS:
        yield from _squares(f"matmul_{layout}", layout, F16, SIZES)
        yield from _squares(f"matmul_{layout}", layout, BF16, BF16_SIZES)
    for layout, sizes in ODD.items():
        for size in sizes:
            # What 8 does not divide is another kernel, tuned by itself.
            even = size % 8 == 0 and size >= 2048
            table = SMALL_CONFIGS if size < 2048 else ODD_CONFIGS if even else CONFIGS
            peers = CONFIGS if even else ()
            if size % 8 == 0 and size < 2048:
                table, peers = OUR_SMALL_ODD, SMALL_CONFIGS
            prepare = partial(product, size=size, dtype=F16, layout=layout)
            yield _contest("odd", layout, F16, size, prepare, table, f"odd {layout} {size}",
                           tunes=True, peers=peers)  # fmt: skip
    for layout in ("nn", "nt"):
        yield from _squares("small", layout, F16, (512, 1024), hot=True)
    for imprecise, name in ((None, "fast"), (128, "exact")):
        for size in FP8_SIZES:
            prepare = partial(typed_product, size=size, dtype=E4M3, imprecise=imprecise)
            label, tuned_at, table = _family(size)
            # Sums cannot go to fp32 in the midst of a block.
            table, peers = (
                tuple(c for c in one if 2 * c.blocks[2] >= (imprecise or 0))
                for one in (table, _peers(size))
            )
            yield _contest("fp8", name, E4M3, size, prepare, table, f"fp8 {name} {label}",
                           tunes=size == tuned_at, out=2, peers=peers)  # fmt: skip
    yield from _integers()
    for layout in LAYOUTS:
        yield from _squares("tf32", layout, F32, TF32_SIZES)
    for size in LEAKY_SIZES:
        label, tuned_at, table = _family(size)
        prepare = partial(product, size=size, dtype=F16, layout="nn", activation="leaky_relu")
        yield _contest("leaky_relu", "nn", F16, size, prepare, table, f"leaky {label}",
                       tunes=size == tuned_at, peers=_peers(size))  # fmt: skip
