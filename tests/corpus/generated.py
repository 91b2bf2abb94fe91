"""Family 19: what a compiler of tensor programs emits."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn import functional

from tests.corpus.sample import (
    F32,
    Check,
    Launch,
    Maker,
    Problem,
    close,
    distinct,
    exact,
    once,
    sample,
)
from tests.kernels import generated
from workbench import cdiv, next_power_of_2

POINTWISE = "generated_pointwise"
REDUCTION = "generated_reduction"


def _flat(kernel, numel: int, arguments: tuple) -> Launch:
    block = 256 if numel < 2**16 else 1024
    return Launch(kernel, (cdiv(numel, block),), (*arguments, numel),
                  {"XBLOCK": block, "num_warps": 4})  # fmt: skip


@sample(POINTWISE, generated, fast=((1,), (11,)), slow=((8,),), gpu=((1001,),), bench=((1 << 18,),))
def add_relu_mul(make: Maker, rows: int) -> Problem:
    x, bias, scale = make.normal(rows, 96), make.normal(96), make.normal(rows)
    out = make.output(rows, 96)

    def by_torch() -> torch.Tensor:
        return (x + bias).relu() * scale[:, None]

    def checks() -> Iterator[Check]:
        want = (x.double() + bias.double()).relu() * scale.double()[:, None]
        size = (x.double().abs() + bias.double().abs()) * scale.double().abs()[:, None]
        yield close("out", out, want, size)

    launch = _flat(generated.poi_add_relu_mul, rows * 96, (x, bias, scale, out))
    return Problem((launch,), checks, once(x, bias, scale, out), by_torch)


@sample(POINTWISE, generated, fast=((1, 3, 5, 1), (2, 17, 33, 2)), slow=((3, 16, 16, 0),),
        gpu=((5, 200, 300, 3),), bench=((64, 1000, 1000, 4),))  # fmt: skip
def permute_pad(make: Maker, batch: int, rows: int, columns: int, pad: int) -> Problem:
    x, out = make.normal(batch, rows, columns), make.output(batch, columns, rows + 2 * pad)
    launch = _flat(generated.poi_permute_pad, out.numel(), (x, out, rows, columns, pad))

    def by_torch() -> torch.Tensor:
        return functional.pad(x.transpose(1, 2), (pad, pad)).contiguous()

    return Problem(
        (launch,), lambda: [exact("out", out, by_torch())], x.nbytes + out.nbytes, by_torch
    )


@sample(
    POINTWISE, generated, fast=((1,), (21,)), slow=((16,),), gpu=((10001,),), bench=((1 << 21,),)
)
def cat(make: Maker, rows: int) -> Problem:
    parts = [make.normal(rows, columns) for columns in (5, 8, 3)]
    out = make.output(rows, 16)

    def checks() -> Iterator[Check]:
        yield exact("copied", out[:, :13], torch.cat(parts[:2], 1))
        yield close("tanh", out[:, 13:], parts[2].double().tanh(), terms=4)

    launch = _flat(generated.poi_cat, rows * 16, (*parts, out))
    return Problem((launch,), checks, 2 * out.nbytes,
                   lambda: torch.cat([parts[0], parts[1], parts[2].tanh()], 1))  # fmt: skip


@sample(
    POINTWISE, generated, fast=((3, 5), (33, 20)), gpu=((1001, 3000),), bench=((1 << 19, 1 << 16),)
)
def index(make: Maker, count: int, rows: int) -> Problem:
    x, out = make.normal(rows, 48), make.output(count, 48)
    places = make.integers(-rows, rows, count, dtype=torch.int64)
    launch = _flat(generated.poi_index_put, count * 48, (places, x, out, rows))
    moved = once(places, out) + distinct(places % rows, rows) * once(x[0])
    return Problem((launch,), lambda: [exact("out", out, x[places])], moved,
                   lambda: x[places])  # fmt: skip


@sample(POINTWISE, generated, fast=((1,), (700,)), gpu=((98433,),), bench=((1 << 25,),))
def functions(make: Maker, n: int) -> Problem:
    x, out = make.normal(n), make.output(n)
    x[n // 2] = float("nan")

    def formula(x: torch.Tensor) -> torch.Tensor:
        total = (1 + x * x).rsqrt() + x.abs().log1p() + (x / 8).expm1() + (x.abs() + 0.5) ** 1.5
        return torch.where(x.isnan(), 0, total + x.floor())

    def checks() -> Iterator[Check]:
        yield close("out", out, formula(x.double()), 4 + x.double().nan_to_num().abs() * 4, 9)

    return Problem(
        (_flat(generated.poi_math, n, (x, out)),), checks, 2 * x.nbytes, lambda: formula(x)
    )


@sample(POINTWISE, generated, fast=((3, 5), (40, 65)), slow=((1, 64),), gpu=((1000, 777),),
        bench=((8192, 4096),))  # fmt: skip
def transpose_add(make: Maker, rows: int, columns: int) -> Problem:
    x, bias, out = make.normal(rows, columns), make.normal(columns), make.output(columns, rows)
    launch = Launch(generated.poi_transpose_add, (cdiv(rows, 32), cdiv(columns, 32)),
                    (x, bias, out, columns, rows),
                    {"YBLOCK": 32, "XBLOCK": 32, "num_warps": 4})  # fmt: skip
    return Problem((launch,), lambda: [exact("out", out, (x + bias).T)],
                   once(x, bias, out),
                   lambda: (x + bias).T.contiguous())  # fmt: skip


def _rows(kernel, rows: int, columns: int, arguments: tuple, *, whole: bool) -> Launch:
    block = next_power_of_2(columns) if whole else min(next_power_of_2(columns), 2048)
    rows_each = max(1, min(8, 1024 // block))
    return Launch(
        kernel,
        (cdiv(rows, rows_each),),
        (*arguments, rows, columns),
        {"XBLOCK": rows_each, "R0_BLOCK": block, "num_warps": 4 if block < 2048 else 8},
    )


@sample(REDUCTION, generated, fast=((2, 1), (5, 300)), slow=((3, 128),), gpu=((33, 20001),),
        bench=((4096, 16384), (1 << 18, 128)))  # fmt: skip
def sum_square(make: Maker, rows: int, columns: int) -> Problem:
    x, out, top = (
        make.normal(rows, columns),
        make.output(rows, dtype=F32),
        make.output(rows, dtype=F32),
    )
    launch = _rows(generated.red_sum_square, rows, columns, (x, out, top), whole=False)

    def checks() -> Iterator[Check]:
        yield close("sum", out, x.double().square().sum(1), terms=columns)
        yield exact("max", top, x.amax(1))

    return Problem((launch,), checks, once(x, out, top), lambda: (x.square().sum(1), x.amax(1)))


@sample(REDUCTION, generated, fast=((2, 1), (5, 300)), slow=((3, 128),), gpu=((33, 4001),),
        bench=((16384, 1024), (1 << 18, 128)))  # fmt: skip
def softmax(make: Maker, rows: int, columns: int) -> Problem:
    x, out = make.normal(rows, columns), make.output(rows, columns)
    launch = _rows(generated.per_softmax, rows, columns, (x, out), whole=True)

    def checks() -> Iterator[Check]:
        want = x.double().softmax(1)
        yield close("out", out, want, want * 2 * x.double().abs().amax(1, keepdim=True), columns)

    return Problem((launch,), checks, 2 * x.nbytes, lambda: x.softmax(1))


@sample(REDUCTION, generated, fast=((2, 3), (5, 300)), slow=((3, 128),), gpu=((33, 4001),),
        bench=((16384, 1024), (1 << 18, 128)))  # fmt: skip
def layer_norm(make: Maker, rows: int, columns: int) -> Problem:
    x, w, b = make.normal(rows, columns), make.normal(columns), make.normal(columns)
    out = make.output(rows, columns)
    launch = _rows(generated.per_layer_norm, rows, columns, (x, w, b, out), whole=True)

    def checks() -> Iterator[Check]:
        a = x.double()
        want = functional.layer_norm(a, (columns,), w.double(), b.double(), 1e-5)
        rstd = (a.var(1, unbiased=False, keepdim=True) + 1e-5).rsqrt()
        size = (a.abs() + 2 * a.abs().mean(1, keepdim=True)) * rstd * (1 + rstd)
        yield close("out", out, want, size * w.double().abs() + b.double().abs(), columns)

    return Problem((launch,), checks, once(x, w, b, out),
                   lambda: functional.layer_norm(x, (columns,), w, b))  # fmt: skip


@sample(REDUCTION, generated, fast=((1, 3), (3, 10)), slow=((2, 16),), gpu=((64, 100),),
        bench=((512, 256),))  # fmt: skip
def channel_variance(make: Maker, batch: int, channels: int) -> Problem:
    x = make.normal(batch, channels, 7, 7)
    mean, var = make.output(channels, dtype=F32), make.output(channels, dtype=F32)
    launch = Launch(
        generated.red_welford,
        (cdiv(channels, 4),),
        (x, mean, var, channels, batch * 49),
        {"XBLOCK": 4, "R0_BLOCK": 64 if batch < 64 else 512, "num_warps": 4},
    )

    def checks() -> Iterator[Check]:
        rows = x.double().transpose(0, 1).flatten(1)
        yield close("mean", mean, rows.mean(1), rows.abs().mean(1), batch * 49)
        yield close("var", var, rows.var(1, unbiased=False), rows.square().mean(1), batch * 49)

    return Problem((launch,), checks, once(x, mean, var), lambda: torch.var_mean(x, (0, 2, 3)))
