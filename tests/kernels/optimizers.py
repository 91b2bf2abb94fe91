"""Optimiser steps over flat parameters and over lists of tensors; gradient norm and clipping."""

import workbench.language as tl


def adam(
    param_ptr, grad_ptr, m_ptr, v_ptr, n, lr, beta1, beta2, eps, weight_decay, correction1,
    correction2, DECOUPLED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Adam, or AdamW where the weight decay is decoupled; corrections are 1 - beta^step."""
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    param = tl.load(param_ptr + offsets, mask=mask).to(tl.float32)
    grad = tl.load(grad_ptr + offsets, mask=mask).to(tl.float32)
    m = tl.load(m_ptr + offsets, mask=mask)
    v = tl.load(v_ptr + offsets, mask=mask)
    if DECOUPLED:
        param *= 1 - lr * weight_decay
    else:
        grad += weight_decay * param
    m = beta1 * m + (1 - beta1) * grad
    v = beta2 * v + (1 - beta2) * grad * grad
    update = (m / correction1) / (tl.sqrt(v / correction2) + eps)
    tl.store(param_ptr + offsets, param - lr * update, mask=mask)
    tl.store(m_ptr + offsets, m, mask=mask)
    tl.store(v_ptr + offsets, v, mask=mask)


def lion(
    param_ptr, grad_ptr, m_ptr, n, lr, beta1, beta2, weight_decay, BLOCK: tl.constexpr
):  # fmt: skip
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    param = tl.load(param_ptr + offsets, mask=mask).to(tl.float32)
    grad = tl.load(grad_ptr + offsets, mask=mask).to(tl.float32)
    m = tl.load(m_ptr + offsets, mask=mask)
    param *= 1 - lr * weight_decay
    blend = m * beta1 + grad * (1 - beta1)
    sign = tl.where(blend > 0, 1.0, tl.where(blend < 0, -1.0, 0.0))
    tl.store(param_ptr + offsets, param - lr * sign, mask=mask)
    tl.store(m_ptr + offsets, m * beta2 + grad * (1 - beta2), mask=mask)


def sgd(
    param_ptr, grad_ptr, momentum_ptr, lr_ptr, n, momentum, weight_decay, NESTEROV: tl.constexpr,
    HAS_MOMENTUM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The learning rate is in device memory."""
    lr = tl.load(lr_ptr)
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    param = tl.load(param_ptr + offsets, mask=mask).to(tl.float32)
    grad = tl.load(grad_ptr + offsets, mask=mask).to(tl.float32) + weight_decay * param
    if HAS_MOMENTUM:
        buffer = tl.load(momentum_ptr + offsets, mask=mask) * momentum + grad
        tl.store(momentum_ptr + offsets, buffer, mask=mask)
        grad = grad + momentum * buffer if NESTEROV else buffer
    tl.store(param_ptr + offsets, param - lr * grad, mask=mask)


def sgd_kahan(param_ptr, grad_ptr, lost_ptr, n, lr, BLOCK: tl.constexpr):
    """Parameters in 16 bits; what rounding loses is kept for the next step."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    param = tl.load(param_ptr + offsets, mask=mask)
    lost = tl.load(lost_ptr + offsets, mask=mask).to(tl.float32)
    grad = tl.load(grad_ptr + offsets, mask=mask).to(tl.float32)
    step = lost - lr * grad
    stepped = (param.to(tl.float32) + step).to(param.dtype)
    lost = step - (stepped.to(tl.float32) - param.to(tl.float32))
    tl.store(param_ptr + offsets, stepped, mask=mask)
    tl.store(lost_ptr + offsets, lost, mask=mask)


def sgd_of_list(param_table, grad_table, size_ptr, lr, BLOCK: tl.constexpr):
    """Tensors by tables of addresses: the grid's second axis is the tensor."""
    which = tl.program_id(1)
    n = tl.load(size_ptr + which)
    if tl.program_id(0) * BLOCK >= n:
        return
    param_ptr = tl.load(param_table + which).to(tl.pointer_type(tl.float32))
    grad_ptr = tl.load(grad_table + which).to(tl.pointer_type(tl.float32))
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    param = tl.load(param_ptr + offsets, mask=mask)
    grad = tl.load(grad_ptr + offsets, mask=mask)
    tl.store(param_ptr + offsets, param - lr * grad, mask=mask)


def squares(grad_ptr, partial_ptr, n, BLOCK: tl.constexpr):
    """Each program adds up the squares of every num_programs-th block."""
    pid = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(pid * BLOCK, n, tl.num_programs(0) * BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        grad = tl.load(grad_ptr + offsets, mask=offsets < n, other=0.0).to(tl.float32)
        total += grad * grad
    tl.store(partial_ptr + pid, tl.sum(total, axis=0))


def clip(grad_ptr, partial_ptr, norm_ptr, n, n_partials, max_norm, PARTIALS: tl.constexpr,
         BLOCK: tl.constexpr):  # fmt: skip
    """Every program adds up the partial sums again: cheaper than another launch."""
    pid = tl.program_id(0)
    i = tl.arange(0, PARTIALS)
    norm = tl.sqrt(tl.sum(tl.load(partial_ptr + i, mask=i < n_partials, other=0.0), axis=0))
    if pid == 0:
        tl.store(norm_ptr, norm)
    scale = min(max_norm / (norm + 1e-6), 1.0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    grad = tl.load(grad_ptr + offsets, mask=offsets < n)
    tl.store(grad_ptr + offsets, grad * scale, mask=offsets < n)
