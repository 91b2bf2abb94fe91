"""Family 3: LayerNorm and RMSNorm."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn import functional

from tests.corpus.sample import F32, Check, Launch, Maker, Problem, close, once, sample
from tests.kernels import norms
from workbench import cdiv, next_power_of_2

EPS = 1e-5
SMALL = ((3, 1), (2, 127), (5, 300))
MORE = ((1, 128), (2, 129), (7, 768), (2, 1000))
LARGE = ((4, 4096), (33, 5120), (17, 8192))
BENCH = ((4096, 1024), (4096, 4096), (4096, 8192))
ROWS = ("contiguous", "shifted", "padded")


def warps_of(block: int) -> int:
    """Return how many warps take a row: 8 elements a thread or more."""
    return min(max(block // 256, 1), 8)


def _statistics(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    mean = x.double().mean(1)
    return mean, (x.double().var(1, unbiased=False) + EPS).rsqrt()


def _forward_checks(x, w, b, y, mean, rstd) -> Iterator[Check]:
    wanted_mean, wanted_rstd = _statistics(x)
    columns = x.shape[1]
    want = functional.layer_norm(x.double(), (columns,), w.double(), b.double(), EPS)
    centre = wanted_mean[:, None].abs() + x.double().abs().mean(1, keepdim=True)
    size = (x.double().abs() + centre) * wanted_rstd[:, None] * w.double().abs() + b.double().abs()
    yield close("mean", mean, wanted_mean, x.double().abs().mean(1), columns)
    yield close("rstd", rstd, wanted_rstd, wanted_rstd * (1 + centre[:, 0] * wanted_rstd), columns)
    yield close("y", y, want, size, columns)


def _forward_inputs(make: Maker, rows: int, columns: int):
    x, w, b = make.normal(rows, columns), make.normal(columns), make.normal(columns)
    y = make.output(rows, columns)
    return x, w, b, y, make.output(rows, dtype=F32), make.output(rows, dtype=F32)


@sample("layernorm", norms, fast=SMALL, slow=MORE, gpu=(*LARGE, (5, 20001)), layouts=ROWS,
        bench=((4096, 4096), (4096, 12288)))  # fmt: skip
def layer_norm(make: Maker, rows: int, columns: int) -> Problem:
    x, w, b, y, mean, rstd = _forward_inputs(make, rows, columns)
    block = min(next_power_of_2(columns), 64 if columns < 1024 else 1024)
    launch = Launch(
        norms.layer_norm,
        (rows,),
        (x, y, w, b, mean, rstd, x.stride(0), y.stride(0), columns, EPS),
        {"BLOCK": block, "num_warps": 4},
    )
    return Problem(
        (launch,),
        lambda: _forward_checks(x, w, b, y, mean, rstd),
        once(x, w, b, y, mean, rstd),
        lambda: functional.layer_norm(x, (columns,), w, b, EPS),
    )


@sample("layernorm", norms, fast=SMALL[:2], slow=MORE, gpu=LARGE, bench=BENCH, layouts=ROWS)
def layer_norm_row(make: Maker, rows: int, columns: int) -> Problem:
    x, w, b, y, mean, rstd = _forward_inputs(make, rows, columns)
    block = next_power_of_2(columns)
    launch = Launch(
        norms.layer_norm_row,
        (rows,),
        (x, y, w, b, mean, rstd, x.stride(0), y.stride(0), columns, EPS),
        {"BLOCK": block, "HAS_WEIGHT": True, "HAS_BIAS": True, "num_warps": warps_of(block)},
    )
    return Problem(
        (launch,),
        lambda: _forward_checks(x, w, b, y, mean, rstd),
        once(x, w, b, y, mean, rstd),
        lambda: functional.layer_norm(x, (columns,), w, b, EPS),
    )


@sample("layernorm", norms, fast=((2, 65),), slow=((3, 1),), gpu=((9, 777),), layouts=ROWS)
def layer_norm_plain(make: Maker, rows: int, columns: int) -> Problem:
    """Without weight and bias: their pointers are None."""
    x, y = make.normal(rows, columns), make.output(rows, columns)
    mean, rstd = make.output(rows, dtype=F32), make.output(rows, dtype=F32)
    block = next_power_of_2(columns)
    launch = Launch(
        norms.layer_norm_row,
        (rows,),
        (x, y, None, None, mean, rstd, x.stride(0), y.stride(0), columns, EPS),
        {"BLOCK": block, "HAS_WEIGHT": False, "HAS_BIAS": False},
    )
    one, zero = torch.ones(columns, device=x.device), torch.zeros(columns, device=x.device)
    return Problem((launch,), lambda: _forward_checks(x, one, zero, y, mean, rstd))


def _backward_checks(x, w, dy, dx, dw, db, rstd) -> Iterator[Check]:
    rows, columns = x.shape
    leaves = [t.double().requires_grad_() for t in (x, w, torch.zeros_like(w))]
    y = functional.layer_norm(leaves[0], (columns,), leaves[1], leaves[2], EPS)
    wants = torch.autograd.grad(y, leaves, dy.double())
    scaled = (w.double() * dy.double()).abs()
    # rstd of nearly constant rows is large, and so is what cancels.
    x_hat = (x.double().abs() + x.double().abs().mean(1, keepdim=True)) * rstd.double()[:, None]
    mean = scaled.mean(1, keepdim=True)
    size = (scaled + (1 + x_hat) * (mean + (scaled * x_hat).mean(1, keepdim=True))) * rstd[:, None]
    yield close("dx", dx, wants[0], size, columns)
    yield close("dw", dw, wants[1], (dy.double().abs() * (1 + x_hat)).sum(0), rows + columns)
    yield close("db", db, wants[2], dy.double().abs().sum(0), rows)


def _sum_partials(partial: torch.Tensor, out: torch.Tensor) -> Launch:
    columns = partial.shape[1]
    return Launch(
        norms.sum_partials,
        (cdiv(columns, 128),),
        (partial, out, *partial.shape),
        {"ROWS": 32, "COLS": 128, "num_warps": 4},
    )


def _dense(make: Maker) -> Maker:
    """Return a maker of contiguous tensors: partial sums have no strides."""
    return Maker(make.dtype, make.device)


def _backward_inputs(make: Maker, rows: int, columns: int):
    x, w, dy = make.normal(rows, columns), make.normal(columns), make.normal(rows, columns)
    mean, rstd = (t.float() for t in _statistics(x))
    return x, w, dy, make.output(rows, columns), mean, rstd


@sample("layernorm", norms, fast=SMALL[1:], slow=((1, 128), (40, 33)), gpu=LARGE, bench=BENCH,
        layouts=ROWS)  # fmt: skip
def layer_norm_backward(make: Maker, rows: int, columns: int) -> Problem:
    x, w, dy, dx, mean, rstd = _backward_inputs(make, rows, columns)
    programs = min(rows, 2 if rows < 64 else 264)
    dense = _dense(make)
    partials = [dense.output(programs, columns, dtype=F32) for _ in "wb"]
    dw, db = (make.output(columns, dtype=F32) for _ in "wb")
    block = next_power_of_2(columns)
    arguments = (dy, x, w, mean, rstd, dx, *partials, dy.stride(0), x.stride(0), dx.stride(0),
                 rows, columns, cdiv(rows, programs))  # fmt: skip
    main = Launch(
        norms.layer_norm_backward,
        (programs,),
        arguments,
        {"BLOCK": block, "num_warps": min(2 * warps_of(block), 16)},
    )
    leaves = [t.detach().requires_grad_() for t in (x, w, w.clone())]
    y = functional.layer_norm(leaves[0], (columns,), leaves[1], leaves[2], EPS)
    return Problem(
        (main, _sum_partials(partials[0], dw), _sum_partials(partials[1], db)),
        lambda: _backward_checks(x, w, dy, dx, dw, db, rstd),
        once(dy, x, w, mean, rstd, dx, dw, db),
        lambda: torch.autograd.grad(y, leaves, dy, retain_graph=True),
        scratch=tuple(partials),
    )


@sample("layernorm", norms, fast=((9, 65),), slow=((16, 128), (1, 3)), gpu=((300, 1000),),
        bench=((4096, 4096),), repeatable=False)  # fmt: skip
def layer_norm_backward_locked(make: Maker, rows: int, columns: int) -> Problem:
    x, w, dy, dx, mean, rstd = _backward_inputs(make, rows, columns)
    groups = 4 if rows < 1024 else 96
    partials = [torch.zeros(groups, columns, device=x.device) for _ in "wb"]
    locks = torch.zeros(2 * groups, dtype=torch.int32, device=x.device)
    dw, db = (make.output(columns, dtype=F32) for _ in "wb")
    block = next_power_of_2(columns)
    main = Launch(
        norms.layer_norm_backward_locked,
        (rows,),
        (dy, x, w, mean, rstd, dx, *partials, locks, x.stride(0), columns),
        {"GROUPS": groups, "BLOCK": block, "num_warps": warps_of(block)},
    )
    return Problem(
        (main, _sum_partials(partials[0], dw), _sum_partials(partials[1], db)),
        lambda: _backward_checks(x, w, dy, dx, dw, db, rstd),
        once(dy, x, w, mean, rstd, dx, dw, db),
        scratch=(*partials, locks),
    )


def _rms(x: torch.Tensor, w: torch.Tensor, offset: float) -> torch.Tensor:
    return x * (x.square().mean(1, keepdim=True) + EPS).rsqrt() * (offset + w)


@sample("rmsnorm", norms, fast=SMALL[:2], slow=MORE, gpu=LARGE, bench=BENCH, layouts=ROWS)
def rms_norm(make: Maker, rows: int, columns: int) -> Problem:
    x, w, y = make.normal(rows, columns), make.normal(columns), make.output(rows, columns)
    rstd = make.output(rows, dtype=F32)
    block = next_power_of_2(columns)
    launch = Launch(
        norms.rms_norm,
        (rows,),
        (x, y, w, rstd, x.stride(0), y.stride(0), columns, EPS, 0.0),
        {"BLOCK": block, "num_warps": warps_of(block)},
    )

    def checks() -> Iterator[Check]:
        yield close("y", y, _rms(x.double(), w.double(), 0.0), terms=columns)
        want = (x.double().square().mean(1) + EPS).rsqrt()
        yield close("rstd", rstd, want, terms=columns)

    return Problem((launch,), checks, once(x, w, y, rstd),
                   lambda: functional.rms_norm(x, (columns,), w, EPS))  # fmt: skip


@sample("rmsnorm", norms, fast=SMALL[1:], slow=((1, 128), (40, 33)), gpu=LARGE, bench=BENCH,
        layouts=ROWS)  # fmt: skip
def rms_norm_backward(make: Maker, rows: int, columns: int) -> Problem:
    x, w, dy = make.normal(rows, columns), make.normal(columns), make.normal(rows, columns)
    rstd = (x.double().square().mean(1) + EPS).rsqrt().float()
    dx, dw = make.output(rows, columns), make.output(columns, dtype=F32)
    programs = min(rows, 2 if rows < 64 else 264)
    partial = _dense(make).output(programs, columns, dtype=F32)
    block = next_power_of_2(columns)
    main = Launch(
        norms.rms_norm_backward,
        (programs,),
        (dy, x, w, rstd, dx, partial, dy.stride(0), x.stride(0), dx.stride(0), rows, columns, 1.0,
         cdiv(rows, programs)),
        {"BLOCK": block, "num_warps": min(2 * warps_of(block), 16)},
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        leaves = [t.double().requires_grad_() for t in (x, w)]
        wants = torch.autograd.grad(_rms(*leaves, 1.0), leaves, dy.double())
        m, x_hat = (dy.double() * (1 + w.double())).abs(), (x.double() * rstd[:, None]).abs()
        size = rstd[:, None] * (m + x_hat * (m * x_hat).mean(1, keepdim=True))
        yield close("dx", dx, wants[0], size, columns)
        yield close("dw", dw, wants[1], (dy.double().abs() * x_hat).sum(0), rows)

    leaves = [t.detach().requires_grad_() for t in (x, w)]
    y = functional.rms_norm(leaves[0], (columns,), leaves[1], EPS)
    return Problem((main, _sum_partials(partial, dw)), checks,
                   once(dy, x, w, rstd, dx, dw),
                   lambda: torch.autograd.grad(y, leaves, dy, retain_graph=True),
                   scratch=(partial,))  # fmt: skip


@sample("rmsnorm", norms, fast=((3, 65),), slow=((2, 128), (1, 1)), gpu=LARGE, bench=BENCH,
        layouts=ROWS)  # fmt: skip
def add_rms_norm(make: Maker, rows: int, columns: int) -> Problem:
    x, residual, w = make.normal(rows, columns), make.normal(rows, columns), make.normal(columns)
    y, total = make.output(rows, columns), make.output(rows, columns)
    block = next_power_of_2(columns)
    launch = Launch(
        norms.add_rms_norm,
        (rows,),
        (x, residual, y, total, w, x.stride(0), columns, EPS),
        {"BLOCK": block, "num_warps": warps_of(block)},
    )

    def checks() -> Iterator[Check]:
        want = x + residual
        yield close("sum", total, want)
        normed = _rms(want.double(), w.double(), 0.0)
        yield close(
            "y",
            y,
            normed,
            torch.finfo(make.dtype).eps / torch.finfo(F32).eps * normed.abs(),
            columns,
        )

    def by_torch() -> object:
        return functional.rms_norm(torch.add(x, residual, out=total), (columns,), w, EPS)

    return Problem((launch,), checks, once(x, residual, w, y, total), by_torch)
