"""Elementwise kernels: activations, gated products, sums with bias and residual."""

import workbench.language as tl


def tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


def gelu_tanh(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    y = 0.5 * x * (1 + tanh(inner))
    tl.store(y_ptr + offsets, y, mask=mask)


def gelu_erf(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask).to(tl.float32)
    y = x * 0.5 * (1.0 + tl.erf(x * 0.7071067811865476))
    tl.store(y_ptr + offsets, y.to(y_ptr.dtype.element_ty), mask=mask)


def silu(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n).to(tl.float32)
    tl.store(y_ptr + offsets, x / (1 + tl.exp(-x)), mask=offsets < n)


def silu_backward(dy_ptr, x_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    s = tl.sigmoid(x)
    tl.store(dx_ptr + offsets, dy * s * (1 + x * (1 - s)), mask=mask)


def relu_squared(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.where(x > 0, x, 0.0)
    tl.store(y_ptr + offsets, y * y, mask=mask)


def swiglu(gate_ptr, up_ptr, out_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """One row per program; the gate in fp32, the product in the type of the data."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    gate = tl.load(gate_ptr + row * stride + cols, mask=mask, other=0).to(tl.float32)
    up = tl.load(up_ptr + row * stride + cols, mask=mask, other=0)
    out = (gate * tl.sigmoid(gate)).to(up.dtype) * up
    tl.store(out_ptr + row * stride + cols, out, mask=mask)


def swiglu_backward(dout_ptr, gate_ptr, up_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """The gradients take the place of gate and up."""
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    dout = tl.load(dout_ptr + row * stride + cols, mask=mask, other=0)
    gate = tl.load(gate_ptr + row * stride + cols, mask=mask, other=0).to(tl.float32)
    up = tl.load(up_ptr + row * stride + cols, mask=mask, other=0)
    s = tl.sigmoid(gate)
    activated = gate * s
    dup = dout * activated
    dgate = dout * (activated * (1 - s) + s) * up
    tl.store(gate_ptr + row * stride + cols, dgate, mask=mask)
    tl.store(up_ptr + row * stride + cols, dup, mask=mask)


def geglu(x_ptr, out_ptr, x_stride, out_stride, n_cols, BLOCK: tl.constexpr):
    """Rows hold the gate in their first and the values in their second half."""
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    gate = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0).to(tl.float32)
    value = tl.load(x_ptr + row * x_stride + n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    inner = 0.7978845608028654 * gate * (1 + 0.044715 * gate * gate)
    out = 0.5 * gate * (1 + tanh(inner)) * value
    tl.store(out_ptr + row * out_stride + cols, out, mask=mask)


def geglu_backward(dout_ptr, x_ptr, dx_ptr, x_stride, out_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    dout = tl.load(dout_ptr + row * out_stride + cols, mask=mask, other=0.0).to(tl.float32)
    gate = tl.load(x_ptr + row * x_stride + cols, mask=mask, other=0.0).to(tl.float32)
    value = tl.load(x_ptr + row * x_stride + n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    squared = gate * gate
    t = tanh(0.7978845608028654 * gate * (1 + 0.044715 * squared))
    slope = 0.5 * (1 + t) + 0.5 * gate * (1 - t * t) * 0.7978845608028654 * (1 + 0.134145 * squared)
    tl.store(dx_ptr + row * x_stride + cols, dout * value * slope, mask=mask)
    tl.store(dx_ptr + row * x_stride + n_cols + cols, dout * 0.5 * gate * (1 + t), mask=mask)


def bias_residual(
    x_ptr, bias_ptr, residual_ptr, out_ptr, n, n_cols, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr
):
    """act(x + bias) + residual over flat elements; the bias is found by the remainder."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    x = (x + tl.load(bias_ptr + offsets % n_cols, mask=mask)).to(tl.float32)
    if ACTIVATION == "relu":
        x = tl.maximum(x, 0.0)
    elif ACTIVATION == "silu":
        x = x * tl.sigmoid(x)
    out = x + tl.load(residual_ptr + offsets, mask=mask, eviction_policy="evict_first")
    tl.store(out_ptr + offsets, out, mask=mask)


def outer_sum(
    x_ptr, y_ptr, out_ptr, n_rows, n_cols, x_row, x_col, y_row, y_col, out_row, out_col,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """x + y over two dimensions; broadcast dimensions have stride 0."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    mask = (rows < n_rows) & (cols < n_cols)
    x = tl.load(x_ptr + rows * x_row + cols * x_col, mask=mask)
    y = tl.load(y_ptr + rows * y_row + cols * y_col, mask=mask)
    tl.store(out_ptr + rows * out_row + cols * out_col, x + y, mask=mask)


def pointwise(x_ptr, y_ptr, out_ptr, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=1)
    y = tl.load(y_ptr + offsets, mask=mask, other=1)
    if OP == "add":
        out = x + y
    elif OP == "sub":
        out = x - y
    elif OP == "mul":
        out = x * y
    elif OP == "div":
        out = x / y
    elif OP == "floordiv":
        out = x // y
    elif OP == "mod":
        out = x % y
    elif OP == "less":
        out = x < y
    else:
        out = x == y
    tl.store(out_ptr + offsets, out, mask=mask)
