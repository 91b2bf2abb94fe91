"""Contests of attention's backward pass: cuDNN, Triton and ours, in two launches and fused."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from tests.bench.attentions import BATCHES, HEADS
from tests.bench.contests import Config, Contest, Prepared, Tensors, configs
from tests.corpus.sample import Launch
from tests.kernels import attention_backward as kernels
from workbench import cdiv

F16, F32 = torch.float16, torch.float32
SIZES = (1024, 2048, 4096, 8192)
#: From 4096 on power sets the pace: orders of configurations differ by 10 % from run to run.
TUNED_AT = 2048

#: BLOCK_M and BLOCK_N of dK and dV, those of dQ, warps, stages. The first is the tutorial's.
CONFIGS = configs(
    (32, 128, 128, 32, 4, 5),
    (32, 128, 128, 32, 4, 2),
    (32, 64, 64, 32, 4, 3),
    (64, 64, 64, 64, 4, 2),
    (64, 64, 128, 64, 4, 2),
    (64, 128, 128, 64, 4, 2),
    (32, 128, 128, 32, 8, 3),
    (64, 128, 128, 64, 8, 2),
    (64, 128, 128, 64, 8, 3),
    (64, 128, 128, 128, 8, 2),
    (128, 128, 128, 128, 8, 2),
    (64, 256, 256, 64, 8, 2),
)
#: One program does both, so the blocks of keys are as long as those of queries.
FUSED_CONFIGS = tuple(c for c in CONFIGS if c.blocks[1] == c.blocks[2])


def _sums(q: torch.Tensor, k: torch.Tensor, *, causal: bool) -> torch.Tensor:
    """Return the logarithms of the rows' sums, a head at a time."""
    found = torch.empty(q.shape[:-1], dtype=F32, device=q.device)
    hidden = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
    for head in range(q.shape[0]):
        scores = (q[head].float() @ k[head].float().T) * q.shape[-1] ** -0.5
        if causal:
            scores.masked_fill_(hidden, -torch.inf)
        found[head] = scores.logsumexp(-1)
    return found


def backward(
    tensors: Tensors, size: int, head: int, *, causal: bool, fused: bool = False
) -> Prepared:
    """Return dQ, dK and dV, one behind the other, beside cuDNN's."""
    rows = BATCHES * HEADS
    q, k, v, do = (tensors.normal(rows, size, head, dtype=F16) for _ in "qkvd")
    found = tensors.empty(3, rows, size, head, dtype=F16)
    delta, lse = (tensors.empty(rows, size, dtype=F32) for _ in "dl")
    out = tensors.empty(rows, size, head, dtype=F16)
    baselines = {}
    if tensors.device != "meta":
        leaves = [
            x.view(BATCHES, HEADS, size, head).detach().requires_grad_() for x in (q, k, v)
        ]  # fmt: skip
        backend = SDPBackend.CUDNN_ATTENTION if q.is_cuda else SDPBackend.MATH
        with sdpa_kernel(backend):
            made = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal)
        out = made.detach().contiguous().view(rows, size, head)
        lse = _sums(q, k, causal=causal)

        def cudnn() -> tuple[torch.Tensor, ...]:
            return torch.autograd.grad(made, leaves, do.view(made.shape), retain_graph=True)

        baselines["cudnn"] = cudnn

    def reference() -> torch.Tensor:
        return torch.stack([x.reshape(rows, size, head) for x in baselines["cudnn"]()])

    def launch(config: Config) -> Launch:
        return Launch(kernels.row_products, (cdiv(size, 32), rows),
                      (out, do, delta, size * head, head, size),
                      {"HEAD": head, "BLOCK": 32})  # fmt: skip

    def then(config: Config) -> tuple[Launch, ...]:
        m1, n1, m2, n2 = config.blocks
        named = {"HEAD": head, "CAUSAL": causal, "EVEN": True, **config.options}
        tail = (lse, delta, head**-0.5, size * head, head)
        if fused:
            return (
                Launch(kernels.fused_gradients, (cdiv(size, n1), rows),
                       (q, k, v, do, *found, *tail, size),
                       {"BLOCK_M1": m1, "BLOCK_N1": n1, "BLOCK_M2": m2, "BLOCK_N2": n2, **named}),
            )  # fmt: skip
        named["GROUP"] = 1
        tail = (lse, delta, head**-0.5, size * head, size * head, head, size, size)
        return (
            Launch(kernels.key_value_gradients, (cdiv(size, n1), rows),
                   (q, k, v, do, found[1], found[2], *tail),
                   {"BLOCK_M": m1, "BLOCK_N": n1, **named}),
            Launch(kernels.query_gradients, (cdiv(size, m2), rows),
                   (q, k, v, do, found[0], *tail), {"BLOCK_M": m2, "BLOCK_N": n2, **named}),
        )  # fmt: skip

    # The first keys of causal attention sum what is of size 1, rounded to fp16.
    return Prepared(launch, found, reference, (2**-5, 2**-7), baselines, then=then)


def contests() -> Iterator[Contest]:
    """Yield all contests of the backward pass."""
    for fused, table in ((False, CONFIGS), (True, FUSED_CONFIGS)):
        for head in (64, 128):
            for causal in (True, False):
                if fused and not causal:
                    continue
                name = f"D{head} {'causal' if causal else 'full'}{' fused' if fused else ''}"
                for size in SIZES[2:3] if fused else SIZES:
                    rows = BATCHES * HEADS * size
                    yield Contest(
                        "attention_bwd", name, F16, size, kernels,
                        partial(backward, size=size, head=head, causal=causal, fused=fused),
                        table, 10 * rows * size * head // (2 if causal else 1),
                        2 * 8 * rows * head + 8 * rows, f"attention backward {name}",
                        tunes=fused or size == TUNED_AT,
                    )  # fmt: skip
