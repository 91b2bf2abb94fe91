"""Family 4: elementwise kernels and dropout."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch.nn import functional

from tests.corpus.philox import philox, uniform
from tests.corpus.sample import (
    F32,
    HALVES,
    Check,
    Launch,
    Maker,
    Problem,
    close,
    exact,
    once,
    sample,
)
from tests.kernels import activations, dropout
from workbench import cdiv, next_power_of_2

LENGTHS = ((1,), (1023,), (1025,))
FLAT_BENCH = ((1 << 22,), (1 << 26,))
ROW_SIZES = ((1, 1), (3, 100))
ROW_BENCH = ((4096, 4096), (4096, 11008))


def _flat(make: Maker, n: int, kernel, reference: Callable[[torch.Tensor], torch.Tensor],
          slope: float) -> Problem:  # fmt: skip
    """A function of one tensor; `slope` bounds how it enlarges a relative error."""
    x, y = make.normal(n, scale=3.0), make.output(n)
    launch = Launch(kernel, (cdiv(n, 1024),), (x, y, n), {"BLOCK": 1024, "num_warps": 4})

    def checks() -> Iterator[Check]:
        yield close("y", y, reference(x.double()), slope * (1 + x.double().abs()), terms=4)

    return Problem((launch,), checks, 2 * x.nbytes, lambda: reference(x))


@sample("gelu", activations, fast=LENGTHS, gpu=((98433,),), bench=FLAT_BENCH)
def gelu_tanh(make: Maker, n: int) -> Problem:
    return _flat(make, n, activations.gelu_tanh,
                 lambda x: functional.gelu(x, approximate="tanh"), 2)  # fmt: skip


@sample("gelu", activations, fast=LENGTHS, gpu=((98433,),), bench=FLAT_BENCH)
def gelu_erf(make: Maker, n: int) -> Problem:
    return _flat(make, n, activations.gelu_erf, functional.gelu, 2)


@sample("silu", activations, fast=LENGTHS, gpu=((98433,),), bench=FLAT_BENCH)
def silu(make: Maker, n: int) -> Problem:
    return _flat(make, n, activations.silu, functional.silu, 1)


@sample("silu", activations, fast=LENGTHS[1:], gpu=((98433,),), bench=FLAT_BENCH)
def silu_backward(make: Maker, n: int) -> Problem:
    x, dy, dx = make.normal(n, scale=3.0), make.normal(n), make.output(n)
    launch = Launch(activations.silu_backward, (cdiv(n, 1024),), (dy, x, dx, n),
                    {"BLOCK": 1024, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        s = x.double().sigmoid()
        want = dy.double() * s * (1 + x.double() * (1 - s))
        yield close("dx", dx, want, dy.double().abs() * (1 + x.double().abs()))

    return Problem((launch,), checks, 3 * x.nbytes,
                   lambda: torch.ops.aten.silu_backward(dy, x))  # fmt: skip


@sample("relu2", activations, fast=LENGTHS, gpu=((98433,),), bench=FLAT_BENCH)
def relu_squared(make: Maker, n: int) -> Problem:
    x, y = make.normal(n), make.output(n)
    launch = Launch(activations.relu_squared, (cdiv(n, 512),), (x, y, n),
                    {"BLOCK": 512, "num_warps": 4})  # fmt: skip
    return Problem((launch,), lambda: [close("y", y, x.double().relu().square())], 2 * x.nbytes,
                   lambda: x.relu().square_())  # fmt: skip


def _row_warps(block: int) -> int:
    return min(max(block // 512, 1), 32)


@sample("swiglu", activations, fast=ROW_SIZES, slow=((2, 1000),), gpu=((5, 11008), (7, 14336)),
        bench=ROW_BENCH, layouts=("contiguous", "shifted", "padded"))  # fmt: skip
def swiglu(make: Maker, rows: int, columns: int) -> Problem:
    gate, up, out = (
        make.normal(rows, columns),
        make.normal(rows, columns),
        make.output(rows, columns),
    )
    block = next_power_of_2(columns)
    launch = Launch(activations.swiglu, (rows,), (gate, up, out, gate.stride(0), columns),
                    {"BLOCK": block, "num_warps": _row_warps(block)})  # fmt: skip

    def checks() -> Iterator[Check]:
        want = functional.silu(gate.double()) * up.double()
        # The activation is rounded to the type of the data before the product.
        yield Check("out", out, want, 3 * torch.finfo(make.dtype).eps * want.abs()
                    + 16 * torch.finfo(F32).eps * (gate * up).double().abs()
                    + torch.finfo(make.dtype).tiny * (1 + up.double().abs()))  # fmt: skip

    return Problem((launch,), checks, 3 * gate.nbytes, lambda: functional.silu(gate) * up)


@sample("swiglu", activations, fast=ROW_SIZES, slow=((2, 1000),), gpu=((5, 11008),),
        bench=ROW_BENCH)  # fmt: skip
def swiglu_backward(make: Maker, rows: int, columns: int) -> Problem:
    dout, gate, up = (make.normal(rows, columns) for _ in range(3))
    old_gate, old_up = gate.clone(), up.clone()
    block = next_power_of_2(columns)
    launch = Launch(activations.swiglu_backward, (rows,), (dout, gate, up, gate.stride(0), columns),
                    {"BLOCK": block, "num_warps": _row_warps(block)})  # fmt: skip

    def checks() -> Iterator[Check]:
        g, u, d = old_gate.double(), old_up.double(), dout.double()
        s = g.sigmoid()
        size = (d * u).abs() * (1 + g.abs())
        yield close("dgate", gate, d * u * s * (1 + g * (1 - s)), size, 4)
        yield close("dup", up, d * functional.silu(g), (d * g).abs(), 4)

    def by_torch() -> object:
        s = old_gate.sigmoid()
        return dout * old_gate * s, dout * old_up * s * (1 + old_gate * (1 - s))

    return Problem((launch,), checks, 5 * gate.nbytes, by_torch)


def _gelu(x: torch.Tensor) -> torch.Tensor:
    return functional.gelu(x, approximate="tanh")


@sample("geglu", activations, fast=ROW_SIZES, slow=((2, 1025),), gpu=((5, 11008),),
        bench=ROW_BENCH, layouts=("contiguous", "shifted", "padded"))  # fmt: skip
def geglu(make: Maker, rows: int, columns: int) -> Problem:
    x, out = make.normal(rows, 2 * columns), make.output(rows, columns)
    launch = Launch(
        activations.geglu,
        (rows, cdiv(columns, 1024)),
        (x, out, x.stride(0), out.stride(0), columns),
        {"BLOCK": 1024, "num_warps": 4},
    )

    def checks() -> Iterator[Check]:
        gate, value = x.double().split(columns, 1)
        yield close("out", out, _gelu(gate) * value, 2 * (gate * value).abs(), 4)

    return Problem((launch,), checks, 3 * out.nbytes,
                   lambda: _gelu(x[:, :columns]) * x[:, columns:])  # fmt: skip


@sample("geglu", activations, fast=ROW_SIZES, slow=((2, 1025),), gpu=((5, 11008),), bench=ROW_BENCH)
def geglu_backward(make: Maker, rows: int, columns: int) -> Problem:
    x, dout = make.normal(rows, 2 * columns), make.normal(rows, columns)
    dx = make.output(rows, 2 * columns)
    launch = Launch(
        activations.geglu_backward,
        (rows, cdiv(columns, 1024)),
        (dout, x, dx, x.stride(0), dout.stride(0), columns),
        {"BLOCK": 1024, "num_warps": 4},
    )

    def checks() -> Iterator[Check]:
        leaf = x.double().requires_grad_()
        gate, value = leaf.split(columns, 1)
        (want,) = torch.autograd.grad(_gelu(gate) * value, leaf, dout.double())
        gate, value, d = gate.detach().abs(), value.detach().abs(), dout.double().abs()
        # 1 - tanh^2 cancels, and is multiplied by up to |gate|^3 where it does.
        size = torch.cat([d * value * (2 + 4 * gate + gate**3), d * gate * 2], 1)
        yield close("dx", dx, want, size, 4)

    leaf = x.detach().requires_grad_()
    y = _gelu(leaf[:, :columns]) * leaf[:, columns:]
    return Problem((launch,), checks, 5 * dout.nbytes,
                   lambda: torch.autograd.grad(y, leaf, dout, retain_graph=True))  # fmt: skip


@sample("bias_residual", activations, fast=((3, 5, ""), (7, 100, "silu")),
        slow=((33, 31, "relu"), (1, 1, "silu")), gpu=((129, 999, "relu"),),
        bench=((4096, 4096, "silu"),))  # fmt: skip
def bias_residual(make: Maker, rows: int, columns: int, activation: str) -> Problem:
    x, residual, bias = make.normal(rows, columns), make.normal(rows, columns), make.normal(columns)
    out = make.output(rows, columns)
    functions = {"": lambda x: x, "relu": torch.relu, "silu": functional.silu}
    n = rows * columns
    launch = Launch(
        activations.bias_residual,
        (cdiv(n, 1024),),
        (x, bias, residual, out, n, columns),
        {"ACTIVATION": activation, "BLOCK": 1024, "num_warps": 4},
    )

    def checks() -> Iterator[Check]:
        inner = (x + bias).double()  # rounded to the type of the data
        want = functions[activation](inner) + residual.double()
        yield close("out", out, want, inner.abs() + residual.double().abs())

    return Problem((launch,), checks, once(x, residual, bias, out),
                   lambda: functions[activation](x + bias) + residual)  # fmt: skip


@sample("broadcast", activations, fast=((5, 33), (70, 1)), slow=((1, 65), (64, 64)),
        gpu=((1000, 1001),), bench=((8192, 4096),),
        layouts=("contiguous", "shifted", "padded", "strided"))  # fmt: skip
def outer_sum(make: Maker, rows: int, columns: int) -> Problem:
    x, y = make.normal(rows, 1).expand(rows, columns), make.normal(1, columns).expand(rows, columns)
    out = make.output(rows, columns)
    launch = Launch(
        activations.outer_sum,
        (cdiv(rows, 32), cdiv(columns, 64)),
        (x, y, out, rows, columns, *x.stride(), *y.stride(), *out.stride()),
        {"ROWS": 32, "COLS": 64, "num_warps": 4},
    )
    return Problem((launch,), lambda: [exact("out", out, x + y)],
                   once(out, x[:, 0], y[0]),
                   lambda: torch.add(x, y, out=out))  # fmt: skip


INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)


def _operate(op: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return what the language defines: C division and remainder, fp32 quotients of integers."""
    if op == "div":
        return (x.double() / y.double()) if x.dtype == torch.float64 else x.float() / y.float()
    if not x.dtype.is_floating_point:
        wide_x, wide_y = x.long(), y.long()
        if op == "floordiv":
            return torch.div(wide_x, wide_y, rounding_mode="trunc").to(x.dtype)
        if op == "mod":
            return torch.fmod(wide_x, wide_y).to(x.dtype)
        x, y = wide_x, wide_y
    function = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "less": torch.lt,
                "equal": torch.eq, "mod": torch.fmod}[op]  # fmt: skip
    return function(x, y)


@sample("pointwise", activations, fast=((129, "mul"), (513, "less")),
        slow=tuple((257, op) for op in ("add", "sub", "div", "floordiv", "mod", "equal")),
        gpu=((5001, "add"),),
        dtypes=(*INTEGERS, *UNSIGNED, *HALVES, torch.float64))  # fmt: skip
def pointwise(make: Maker, n: int, op: str) -> Problem:
    signed = make.dtype not in UNSIGNED
    if make.dtype.is_floating_point and op == "floordiv":
        op = "mul"  # // is for integers
    x = make.integers(-11 if signed and op != "sub" else 8, 12, n)
    y = make.integers(1, 8, n)
    out_dtype = make.dtype
    if op in ("less", "equal"):
        out_dtype = torch.bool
    elif op == "div" and make.dtype not in (F32, torch.float64):
        out_dtype = F32
    out = make.output(n, dtype=out_dtype)
    launch = Launch(
        activations.pointwise, (cdiv(n, 256),), (x, y, out, n), {"OP": op, "BLOCK": 256}
    )

    # Division is not correctly rounded in fp32.
    def checks() -> Iterator[Check]:
        want = _operate(op, x, y)
        yield close("out", out, want) if op == "div" else exact("out", out, want)

    return Problem((launch,), checks)


def _keeps(p: float, seed: int, n: int, device: torch.device) -> torch.Tensor:
    words = philox(seed, torch.arange(n, device=device))[0]
    return uniform(words) > torch.tensor(p, dtype=F32, device=device)


@sample("dropout", dropout, fast=((7, 0.5, 123), (1025, 0.25, 2**40 + 7)), slow=((1000, 0.9, 1),),
        gpu=((98433, 0.1, -1),), bench=((1 << 22, 0.5, 5), (1 << 26, 0.5, 5)))  # fmt: skip
def seeded_dropout(make: Maker, n: int, p: float, seed: int) -> Problem:
    x, out = make.normal(n), make.output(n)
    launch = Launch(dropout.dropout, (cdiv(n, 1024),), (x, out, n, p, seed),
                    {"BLOCK": 1024, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        keep = _keeps(p, seed, n, x.device)
        want = torch.where(keep, x.double() / (1 - p), 0.0)
        yield exact("kept", out != 0, keep & (x != 0))
        yield close("out", out, want)

    return Problem((launch,), checks, 2 * x.nbytes, lambda: functional.dropout(x, p))


@sample("dropout", dropout, fast=((1000, 0.5, 9),), slow=((1, 0.25, 3),), gpu=((98433, 0.1, 4),),
        bench=((1 << 22, 0.5, 5), (1 << 26, 0.5, 5)))  # fmt: skip
def dropout_by_four(make: Maker, n: int, p: float, seed: int) -> Problem:
    x, out = make.normal(n), make.output(n)
    block = 256
    programs = cdiv(n, 4 * block)
    launch = Launch(dropout.dropout_by_four, (programs,), (x, out, n, p, seed),
                    {"BLOCK": block, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        words = philox(seed, torch.arange(programs * block, device=x.device))
        by_word = torch.stack([uniform(word).view(programs, block) for word in words], 1)
        keep = by_word.reshape(-1)[:n] > torch.tensor(p, dtype=F32)
        yield close("out", out, torch.where(keep, x.double() / (1 - p), 0.0))

    return Problem((launch,), checks, 2 * x.nbytes, lambda: functional.dropout(x, p))


@sample("dropout", dropout, fast=((1025, 77),), gpu=((65537, 3),), bench=((1 << 24, 5),),
        dtypes=(F32, torch.bfloat16))  # fmt: skip
def normal_noise(make: Maker, n: int, seed: int) -> Problem:
    out = make.output(n)
    launch = Launch(dropout.normal_noise, (cdiv(n, 1024),), (out, n, seed, 2.0),
                    {"BLOCK": 1024, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        words = philox(seed, torch.arange(n, device=out.device))
        u1 = uniform(words[0]).clamp(min=1e-7).double()
        radius = (-2 * u1.log()).sqrt()
        want = 2 * radius * torch.cos(2 * math.pi * uniform(words[1]).double())
        # The logarithm of numbers near 1 and the angle lose bits: 1e-6 of the radius and 1/u1.
        yield close("out", out, want, 8 * radius + 4 / radius.clamp(min=1e-3))

    return Problem((launch,), checks, out.nbytes, lambda: torch.randn_like(out))


@sample("dropout", dropout, fast=((1025, 77),), slow=((3, 2**63 - 1),), gpu=((65537, -3),),
        dtypes=(torch.int32,))  # fmt: skip
def random_words(make: Maker, n: int, seed: int) -> Problem:
    out = make.output(n)
    launch = Launch(dropout.random_words, (cdiv(n, 512),), (out, n, seed), {"BLOCK": 512})

    def checks() -> Iterator[Check]:
        words = philox(seed, torch.arange(n, device=out.device))[0]
        yield exact("out", out, torch.where(words >= 1 << 31, words - (1 << 32), words))

    return Problem((launch,), checks)
