"""Contests of attention's forward pass, plain pointers: cuDNN, Triton and ours."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.bench.contests import Config, Contest, Prepared, Tensors, configs
from tests.corpus.sample import Launch
from tests.kernels import attention_forward
from workbench import cdiv, next_power_of_2

F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32
BATCHES, HEADS = 4, 32
SIZES = (1024, 2048, 4096, 8192, 16384)
BF16_SIZES = (2048, 8192)
TUNED_AT = 4096

#: BLOCK_M, BLOCK_N, warps, stages; in causal form BLOCK_N may not be larger than BLOCK_M.
CONFIGS = configs(
    (64, 32, 4, 3),
    (64, 64, 4, 2),
    (64, 64, 4, 3),
    (64, 64, 4, 4),
    (64, 128, 4, 2),
    (128, 32, 4, 3),
    (128, 64, 4, 2),
    (128, 64, 4, 3),
    (128, 64, 8, 2),
    (128, 64, 8, 3),
    (128, 128, 8, 2),
    (128, 128, 8, 3),
)


def attention(
    tensors: Tensors, size: int, head: int, dtype: torch.dtype, *, causal: bool
) -> Prepared:
    """Return softmax(q k' / sqrt(D)) v with the logarithms of its sums, beside cuDNN."""
    q, k, v = (tensors.normal(BATCHES, HEADS, size, head, dtype=dtype) for _ in "qkv")
    out = tensors.empty(BATCHES, HEADS, size, head, dtype=dtype)
    lse = tensors.empty(BATCHES, HEADS, size, dtype=F32)

    def launch(config: Config) -> Launch:
        bm, bn = config.blocks
        strides = (*q.stride(), *k.stride(), *v.stride(), *out.stride())
        return Launch(
            attention_forward.attention,
            (cdiv(size, bm), BATCHES * HEADS),
            (q, k, v, out, lse, head**-0.5, *strides, HEADS, HEADS, size, size),
            {"HEAD": head, "BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_D": next_power_of_2(head),
             "CAUSAL": causal, "EVEN": size % bm == 0 == size % bn, **config.options},
        )  # fmt: skip

    def cudnn() -> torch.Tensor:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    # Weights are rounded to the type, sums are of `size` of them.
    return Prepared(launch, out, cudnn, (2**-6, 2**-8), {"cudnn": cudnn})


def contests() -> Iterator[Contest]:
    """Yield all contests of attention."""
    for head in (64, 128):
        for causal in (False, True):
            name = f"D{head} {'causal' if causal else 'full'}"
            table = tuple(c for c in CONFIGS if not causal or c.blocks[1] <= c.blocks[0])
            for dtype, sizes in ((F16, SIZES), (BF16, BF16_SIZES)):
                for size in sizes:
                    flops = 4 * BATCHES * HEADS * size**2 * head // (2 if causal else 1)
                    yield Contest(
                        "attention_fwd", name, dtype, size, attention_forward,
                        partial(attention, size=size, head=head, dtype=dtype, causal=causal),
                        table, flops, 4 * BATCHES * HEADS * size * head * dtype.itemsize,
                        f"attention {name}", tunes=size == TUNED_AT and dtype == F16,
                    )  # fmt: skip
