"""In the style of fused training layers: version checks, settings by size, autograd functions."""

import functools
import importlib
import operator
from collections.abc import Callable

import torch
import triton
import triton.language as tl


def compare_version(package: str, compare: Callable, target: str):
    module = importlib.import_module(package)
    found = tuple(int(part) for part in module.__version__.split(".")[:2])
    return compare(found, tuple(int(part) for part in target.split(".")[:2]))


if compare_version("triton", operator.ge, "3.0"):
    try:
        from triton.language.extra.libdevice import rsqrt
    except ModuleNotFoundError:
        from triton.language.math import rsqrt
else:
    from triton.language.math import rsqrt


def ensure_contiguous(fn):
    @functools.wraps(fn)
    def wrapper(ctx, *args, **kwargs):
        def maybe(x):
            return x.contiguous() if isinstance(x, torch.Tensor) else x

        return fn(ctx, *(maybe(a) for a in args), **{k: maybe(v) for k, v in kwargs.items()})

    return wrapper


def calculate_settings(n):
    block_size = triton.next_power_of_2(n)
    if block_size > 65536:
        raise RuntimeError(f"cannot launch a kernel for {n} columns")
    num_warps = 4
    if block_size >= 32768:
        num_warps = 32
    elif block_size >= 8192:
        num_warps = 16
    elif block_size >= 2048:
        num_warps = 8
    return block_size, num_warps


@triton.jit
def _rms_norm_forward(
    Y_ptr, Y_row_stride, X_ptr, X_row_stride, W_ptr, RSTD_ptr, n_cols, eps,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    row_idx = tl.program_id(0).to(tl.int64)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    X_row = tl.load(X_ptr + row_idx * X_row_stride + col_offsets, mask=mask, other=0)
    W_row = tl.load(W_ptr + col_offsets, mask=mask, other=0)
    dtype = X_row.dtype
    X_row = X_row.to(tl.float32)
    rstd = rsqrt(tl.sum(X_row * X_row, axis=0) / n_cols + eps)
    tl.store(RSTD_ptr + row_idx, rstd)
    Y_row = (X_row * rstd).to(dtype) * W_row
    tl.store(Y_ptr + row_idx * Y_row_stride + col_offsets, Y_row, mask=mask)


@triton.jit
def _rms_norm_backward(
    dY_ptr, X_ptr, W_ptr, RSTD_ptr, dX_ptr, dW_ptr, n_rows, n_cols, rows_per_program,
    BLOCK_SIZE: tl.constexpr,
):  # fmt: skip
    block_id = tl.program_id(0).to(tl.int64)
    row_start = block_id * rows_per_program
    row_end = min((block_id + 1) * rows_per_program, n_rows)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < n_cols
    dW_row = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    W_row = tl.load(W_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    for row in range(row_start, row_end):
        dY = tl.load(dY_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        X = tl.load(X_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(RSTD_ptr + row)
        m = dY * W_row
        dX = rstd * m - (rstd * rstd * rstd / n_cols) * tl.sum(m * X, axis=0) * X
        dW_row += dY * (X * rstd)
        tl.store(dX_ptr + row * n_cols + cols, dX, mask=mask)
    tl.store(dW_ptr + block_id * n_cols + cols, dW_row, mask=mask)


class RMSNorm(torch.autograd.Function):
    @staticmethod
    @ensure_contiguous
    def forward(ctx, X, W, eps):
        shape = X.shape
        X = X.view(-1, shape[-1])
        n_rows, n_cols = X.shape
        BLOCK_SIZE, num_warps = calculate_settings(n_cols)
        Y = torch.empty_like(X)
        RSTD = torch.empty(n_rows, dtype=torch.float32, device=X.device)
        _rms_norm_forward[(n_rows,)](
            Y, Y.stride(0), X, X.stride(0), W, RSTD, n_cols, eps,
            BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps,
        )  # fmt: skip
        ctx.save_for_backward(X, W, RSTD)
        ctx.settings = BLOCK_SIZE, num_warps
        return Y.view(*shape)

    @staticmethod
    @ensure_contiguous
    def backward(ctx, dY):
        X, W, RSTD = ctx.saved_tensors
        BLOCK_SIZE, num_warps = ctx.settings
        shape = dY.shape
        dY = dY.view(-1, shape[-1])
        n_rows, n_cols = dY.shape
        programs = 3
        rows_per_program = triton.cdiv(n_rows, programs)
        dX = torch.empty_like(dY)
        dW = torch.empty((programs, n_cols), dtype=torch.float32, device=W.device)
        _rms_norm_backward[(programs,)](
            dY, X, W, RSTD, dX, dW, n_rows, n_cols, rows_per_program,
            BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps,
        )  # fmt: skip
        return dX.view(*shape), dW.sum(0).to(W.dtype), None
