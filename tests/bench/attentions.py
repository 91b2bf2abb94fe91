"""Contests of attention's forward pass, plain pointers: cuDNN, Triton and ours."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import accumulate

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.bench.contests import Config, Contest, Prepared, Tensors, configs, with_options
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

#: The twin of what stays for several tiles unasked; Triton has no such option.
OURS = (*CONFIGS, *with_options("no persistent", (128, 128, 8, 2)))


def attention(
    tensors: Tensors, size: int, head: int, dtype: torch.dtype, *, causal: bool,
    heads_kv: int = HEADS,
) -> Prepared:  # fmt: skip
    """Return softmax(q k' / sqrt(D)) v with the logarithms of its sums, beside cuDNN."""
    q = tensors.normal(BATCHES, HEADS, size, head, dtype=dtype)
    k, v = (tensors.normal(BATCHES, heads_kv, size, head, dtype=dtype) for _ in "kv")
    out = tensors.empty(BATCHES, HEADS, size, head, dtype=dtype)
    lse = tensors.empty(BATCHES, HEADS, size, dtype=F32)

    def launch(config: Config) -> Launch:
        bm, bn = config.blocks
        strides = (*q.stride(), *k.stride(), *v.stride(), *out.stride())
        return Launch(
            attention_forward.attention,
            (cdiv(size, bm), BATCHES * HEADS),
            (q, k, v, out, lse, head**-0.5, *strides, HEADS, heads_kv, size, size),
            {"HEAD": head, "BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_D": next_power_of_2(head),
             "CAUSAL": causal, "EVEN": size % bm == 0 == size % bn, **config.options},
        )  # fmt: skip

    def cudnn() -> torch.Tensor:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, is_causal=causal, enable_gqa=heads_kv != HEADS
            )

    # Weights are rounded to the type, sums are of `size` of them.
    return Prepared(launch, out, cudnn, (2**-6, 2**-8), {"cudnn": cudnn})


def varlen(
    tensors: Tensors, lengths: tuple[int, ...], head: int, window: int = 0, soft_cap: float = 0.0
) -> Prepared:
    """Return causal attention of sequences one behind the other; nothing is beside it but Triton.

    A window of 0 is none, and so is a cap of 0.
    """
    tokens = sum(lengths)
    q, k, v = (tensors.normal(tokens, HEADS, head, dtype=F16) for _ in "qkv")
    out = tensors.empty(tokens, HEADS, head, dtype=F16)
    lse = tensors.empty(HEADS, tokens, dtype=F32)
    starts = tensors.of(torch.tensor([0, *accumulate(lengths)], dtype=torch.int32))

    def launch(config: Config) -> Launch:
        bm, bn = config.blocks
        strides = (*q.stride()[:2], *k.stride()[:2], *v.stride()[:2], *out.stride()[:2])
        return Launch(
            attention_forward.attention_varlen,
            (cdiv(max(lengths), bm), HEADS, len(lengths)),
            (q, k, v, out, lse, starts, starts, None, None, None, head**-0.5, soft_cap, *strides,
             tokens, 0, 0, HEADS, HEADS),
            {"HEAD": head, "BLOCK_M": bm, "BLOCK_N": bn, "BLOCK_D": next_power_of_2(head),
             "CAUSAL": True, "WINDOW": window, "SOFT_CAP": soft_cap > 0, **config.options},
        )  # fmt: skip

    def reference() -> torch.Tensor:
        want, at = torch.empty_like(q), 0
        for length in lengths:
            rows = slice(at, at + length)
            at += length
            place = torch.arange(length, device=q.device)
            behind = place[:, None] - place[None, :]
            hidden = (behind < 0) | (behind >= (window or length))
            for h in range(HEADS):
                scores = q[rows, h].float() @ k[rows, h].float().T * head**-0.5
                if soft_cap:
                    scores = soft_cap * (scores / soft_cap).tanh()
                weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
                want[rows, h] = (weights @ v[rows, h].float()).half()
        return want

    return Prepared(launch, out, reference, (2**-6, 2**-8))


#: Sequences of the contest with lengths of all kinds: as many tokens as four of 4096.
RAGGED = (4096, 3000, 2500, 2048, 1777, 1111, 900, 512, 333, 100, 7)


def forms() -> Iterator[Contest]:
    """Yield contests of other heads, lengths and masks, S = 4096: Triton's same source counts."""
    size = TUNED_AT
    for name, head, heads_kv in (
        ("D80", 80, HEADS),
        ("D96", 96, HEADS),
        ("D256", 256, HEADS),
        ("grouped 32/8", 128, 8),
    ):
        table = tuple(c for c in CONFIGS if c.blocks[1] <= c.blocks[0])
        if head == 256:
            table = tuple(c for c in table if c.blocks[0] * c.blocks[1] <= 128 * 64)
        prepare = partial(attention, size=size, head=head, dtype=F16, causal=True,
                          heads_kv=heads_kv)  # fmt: skip
        yield Contest(
            "attention_forms", f"{name} causal", F16, size, attention_forward, prepare, table,
            2 * BATCHES * HEADS * size**2 * head,
            2 * BATCHES * (2 * HEADS + 2 * heads_kv) * size * head, f"attention {name}", tunes=True,
        )  # fmt: skip
    equal = (size,) * BATCHES
    for name, lengths, window, cap in (
        ("varlen", RAGGED, 0, 0.0),
        ("window 1024", equal, 1024, 0.0),
        ("soft cap", equal, 0, 30.0),
    ):
        pairs = sum(sum(min(i + 1, window or n) for i in range(n)) for n in lengths)
        yield Contest(
            "attention_forms", f"{name} causal", F16, sum(lengths), attention_forward,
            partial(varlen, lengths=lengths, head=128, window=window, soft_cap=cap), CONFIGS,
            4 * HEADS * pairs * 128, 8 * HEADS * sum(lengths) * 128, f"attention {name}",
            tunes=True,
        )  # fmt: skip


def contests() -> Iterator[Contest]:
    """Yield all contests of attention."""
    yield from forms()
    for head in (64, 128):
        for causal in (False, True):
            name = f"D{head} {'causal' if causal else 'full'}"
            table = tuple(c for c in OURS if not causal or c.blocks[1] <= c.blocks[0])
            peers = tuple(c for c in table if not c.more)
            for dtype, sizes in ((F16, SIZES), (BF16, BF16_SIZES)):
                for size in sizes:
                    flops = 4 * BATCHES * HEADS * size**2 * head // (2 if causal else 1)
                    yield Contest(
                        "attention_fwd", name, dtype, size, attention_forward,
                        partial(attention, size=size, head=head, dtype=dtype, causal=causal),
                        table, flops, 4 * BATCHES * HEADS * size * head * dtype.itemsize,
                        f"attention {name}", tunes=size == TUNED_AT and dtype == F16,
                        peer_configs=peers,
                    )  # fmt: skip
