"""In the style of hand-tuned fine-tuning kernels: jit and heuristics as plain calls."""

import torch
import triton
import triton.language as tl

MAX_FUSED_SIZE: int = 65536
next_power_of_2 = triton.next_power_of_2

triton_cast = tl.cast
if hasattr(tl.math, "tanh"):
    triton_tanh = tl.math.tanh
else:
    from triton.language.extra import libdevice

    triton_tanh = libdevice.tanh


def _cross_entropy_forward(
    logits_ptr, logits_row_stride, loss_ptr, logsumexp_ptr, labels_ptr,
    VOCAB_SIZE: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    DO_SOFTCAPPING: tl.constexpr, SOFTCAP: tl.constexpr,
):  # fmt: skip
    row_idx = tl.program_id(0)
    logits_ptr += row_idx * triton_cast(logits_row_stride, tl.int64)
    loss_ptr += row_idx
    logsumexp_ptr += row_idx
    labels_ptr += row_idx
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < VOCAB_SIZE
    label_idx = tl.load(labels_ptr).to(tl.int32)
    logits = tl.load(logits_ptr + col_offsets, mask=mask, other=-float("inf")).to(tl.float32)
    if DO_SOFTCAPPING:
        logits = SOFTCAP * triton_tanh(logits / SOFTCAP)
    c = tl.max(logits, 0)
    logsumexp = c + tl.log(tl.sum(tl.exp(logits - c), 0))
    if label_idx != -100:
        x = tl.load(logits_ptr + label_idx).to(tl.float32)
        if DO_SOFTCAPPING:
            x = SOFTCAP * triton_tanh(x / SOFTCAP)
        loss = logsumexp - x
    else:
        loss = 0.0
    tl.store(logsumexp_ptr, logsumexp)
    tl.store(loss_ptr, loss)


_cross_entropy_forward = triton.jit(_cross_entropy_forward)
_cross_entropy_forward = triton.heuristics(
    {"DO_SOFTCAPPING": lambda args: bool(args["DO_SOFTCAPPING"])}
)(_cross_entropy_forward)


def cross_entropy(logits, labels, softcap=0):
    rows, vocab = logits.shape
    losses = torch.empty(rows, dtype=torch.float32, device=logits.device)
    logsumexp = torch.empty(rows, dtype=torch.float32, device=logits.device)
    _cross_entropy_forward[(rows,)](
        logits, logits.stride(0), losses, logsumexp, labels,
        VOCAB_SIZE=vocab, BLOCK_SIZE=next_power_of_2(vocab),
        DO_SOFTCAPPING=softcap != 0, SOFTCAP=softcap, num_warps=4,
    )  # fmt: skip
    return losses, logsumexp
