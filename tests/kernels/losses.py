"""Losses over a vocabulary: cross entropy, its gradient in place, logsumexp, divergences."""

import workbench.language as tl


def cross_entropy(
    logits_ptr, target_ptr, loss_ptr, stride, n_cols, n_kept, ignore_index,
    SMOOTHING: tl.constexpr, SOFTCAP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One row: loss by online max and sum, then the gradient over the logits."""
    row = tl.program_id(0).to(tl.int64)
    logits_ptr += row * stride
    target = tl.load(target_ptr + row)
    if target == ignore_index:
        for start in range(0, n_cols, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            tl.store(logits_ptr + cols, 0.0, mask=cols < n_cols)
        tl.store(loss_ptr + row, 0.0)
        return

    label_logit = tl.load(logits_ptr + target).to(tl.float32)
    if SOFTCAP is not None:
        label_logit = SOFTCAP * (2 * tl.sigmoid(2 * label_logit / SOFTCAP) - 1)
    m = float("-inf")
    d = 0.0
    logit_sum = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(logits_ptr + cols, mask=mask, other=float("-inf")).to(tl.float32)
        if SOFTCAP is not None:
            x = tl.where(mask, SOFTCAP * (2 * tl.sigmoid(2 * x / SOFTCAP) - 1), float("-inf"))
        if SMOOTHING > 0:
            logit_sum += tl.sum(tl.where(mask, x, 0.0))
        m_new = tl.maximum(m, tl.max(x))
        d = d * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new))
        m = m_new
    lse = m + tl.log(d)

    loss = lse - label_logit
    if SMOOTHING > 0:
        loss = (1 - SMOOTHING) * loss + SMOOTHING * (lse - logit_sum / n_cols)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(logits_ptr + cols, mask=mask, other=float("-inf")).to(tl.float32)
        if SOFTCAP is not None:
            bent = 2 * tl.sigmoid(2 * x / SOFTCAP) - 1
            x = SOFTCAP * bent
        grad = tl.exp(x - lse) - SMOOTHING / n_cols
        grad = tl.where(cols == target, grad - (1 - SMOOTHING), grad)
        if SOFTCAP is not None:
            grad = grad * (1 - bent * bent)
        tl.store(logits_ptr + cols, grad / n_kept, mask=mask)
    tl.store(loss_ptr + row, loss / n_kept)


def cross_entropy_forward(
    logits_ptr, target_ptr, loss_ptr, lse_ptr, stride, n_cols, BLOCK: tl.constexpr
):
    """A row in one block; -100 is ignored."""
    row = tl.program_id(0)
    logits_ptr += row * stride.to(tl.int64)
    cols = tl.arange(0, BLOCK)
    target = tl.load(target_ptr + row).to(tl.int32)
    x = tl.load(logits_ptr + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    top = tl.max(x, 0)
    lse = top + tl.log(tl.sum(tl.exp(x - top), 0))
    if target != -100:
        loss = lse - tl.load(logits_ptr + target).to(tl.float32)
    else:
        loss = 0.0
    tl.store(lse_ptr + row, lse)
    tl.store(loss_ptr + row, loss)


def cross_entropy_backward(
    logits_ptr, target_ptr, dloss_ptr, lse_ptr, stride, n_cols, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    logits_ptr += row.to(tl.int64) * stride
    target = tl.load(target_ptr + row).to(tl.int32)
    dloss = tl.load(dloss_ptr + row) if target != -100 else 0.0
    x = tl.load(logits_ptr + cols, mask=mask, other=-float("inf")).to(tl.float32)
    y = tl.exp(x - tl.load(lse_ptr + row))
    y = tl.where(cols == target, y - 1.0, y)
    tl.store(logits_ptr + cols, dloss * y, mask=mask)


def logsumexp(x_ptr, out_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """Chunks with a running maximum for every lane; lanes are merged at the end."""
    row = tl.program_id(0).to(tl.int64)
    m = tl.full((BLOCK,), float("-inf"), tl.float32)
    d = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=float("-inf"))
        x = x.to(tl.float32)
        m_new = tl.maximum(m, x)
        shift = tl.where(m_new == float("-inf"), 0.0, m_new)
        d = d * tl.exp(m - shift) + tl.exp(x - shift)
        m = m_new
    top = tl.max(m, axis=0)
    shift = tl.where(top == float("-inf"), 0.0, top)
    tl.store(out_ptr + row, tl.log(tl.sum(d * tl.exp(m - shift), axis=0)) + shift)


def log_softmax(x_ptr, out_ptr, x_stride, out_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=-float("inf")).to(tl.float32)
    x -= tl.max(x, axis=0)
    out = x - tl.log(tl.sum(tl.exp(x), axis=0))
    tl.store(out_ptr + row * out_stride + cols, out, mask=mask)


def kl_divergence(
    input_ptr, target_ptr, loss_ptr, grad_ptr, stride, n_cols, scale, eps,
    LOG_TARGET: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Rows of log probabilities against probabilities (or their logarithms), and the gradient."""
    row = tl.program_id(0).to(tl.int64)
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(input_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
        y = tl.load(target_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
        if LOG_TARGET:
            weight = tl.where(mask, tl.exp(y), 0.0)
            total += tl.sum(weight * (y - x), axis=0)
        else:
            weight = y
            total += tl.sum(y * (tl.log(tl.maximum(y, eps)) - x), axis=0)
        tl.store(grad_ptr + row * stride + cols, -weight * scale, mask=mask)
    tl.store(loss_ptr + row, total * scale)
