"""Family 22: optimiser steps, gradient norm and clipping."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tests.corpus.sample import BF16, F16, F32, Check, Launch, Maker, Problem, close, once, sample
from tests.kernels import optimizers
from workbench import cdiv

BENCH = ((1 << 24,), (1 << 27,))


def _rounded(value: float) -> float:
    """Return what a Python float is as an fp32 argument."""
    return torch.tensor(value, dtype=F32).double().item()


def _adam(make: Maker, n: int, decoupled: bool) -> Problem:
    param, grad = make.normal(n), make.normal(n)
    m, v = make.normal(n, dtype=F32), make.uniform(n, dtype=F32)
    small = n < 1 << 22
    old = [t.double().clone() for t in (param, grad, m, v)] if small else []
    lr, beta1, beta2, eps, decay, step = 1e-2, 0.9, 0.999, 1e-8, 0.1, 3
    numbers = (lr, beta1, beta2, eps, decay, 1 - beta1**step, 1 - beta2**step)
    launch = Launch(optimizers.adam, (cdiv(n, 1024),), (param, grad, m, v, n, *numbers),
                    {"DECOUPLED": decoupled, "BLOCK": 1024, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        p, g, m0, v0 = old
        rate, b1, b2, e, d, c1, c2 = map(_rounded, numbers)
        p, g = (p * (1 - rate * d), g) if decoupled else (p, g + d * p)
        m1, v1 = b1 * m0 + (1 - b1) * g, b2 * v0 + (1 - b2) * g * g
        root = (v1 / c2).sqrt() + e
        size = m0.abs() + g.abs()
        # beta2 is rounded to fp32, so 1 - beta2 has only 14 good bits; so has the torch expression.
        yield close("m", m, m1, size)
        yield close("v", v, v1, v0 + g * g)
        step_size = rate * 4 * size / c1 / root * (1 + (v0 + g * g) / v1)
        yield close("param", param, p - rate * (m1 / c1) / root, old[0].abs() + step_size, 4)

    make_step = torch.optim.AdamW if decoupled else torch.optim.Adam
    state: list[torch.optim.Optimizer] = []

    def by_torch() -> None:
        if not state:
            param.grad = grad
            # Capturable: its step can be part of a CUDA graph.
            on_gpu = {"fused": param.is_cuda, "capturable": param.is_cuda}
            state.append(make_step([param], lr=lr, weight_decay=decay, **on_gpu))
        state[0].step()

    moved = 2 * param.nbytes + grad.nbytes + 2 * (m.nbytes + v.nbytes)
    return Problem((launch,), checks, moved, by_torch)


@sample("adam", optimizers, fast=((1,), (1025,)), slow=((4096,),), gpu=((98433,),), bench=BENCH)
def adam(make: Maker, n: int) -> Problem:
    return _adam(make, n, decoupled=False)


@sample("adam", optimizers, fast=((1025,),), slow=((1,),), gpu=((98433,),), bench=BENCH)
def adamw(make: Maker, n: int) -> Problem:
    return _adam(make, n, decoupled=True)


@sample("lion", optimizers, fast=((1,), (1025,)), gpu=((98433,),), bench=BENCH)
def lion(make: Maker, n: int) -> Problem:
    param, grad, m = make.normal(n), make.normal(n), make.normal(n, dtype=F32)
    old = [t.double().clone() for t in (param, grad, m)] if n < 1 << 22 else []
    numbers = 1e-2, 0.9, 0.99, 0.1
    launch = Launch(optimizers.lion, (cdiv(n, 1024),), (param, grad, m, n, *numbers),
                    {"BLOCK": 1024, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        p, g, m0 = old
        lr, b1, b2, decay = map(_rounded, numbers)
        want = p * (1 - lr * decay) - lr * (b1 * m0 + (1 - b1) * g).sign()
        yield close("param", param, want, p.abs() + lr)
        yield close("m", m, b2 * m0 + (1 - b2) * g, m0.abs() + g.abs())

    return Problem((launch,), checks, 2 * param.nbytes + grad.nbytes + 2 * m.nbytes)


@sample("sgd", optimizers, fast=((1, True, False), (1025, True, True)),
        slow=((100, False, False),), gpu=((98433, True, False),),
        bench=((1 << 24, True, False), (1 << 27, True, False)))  # fmt: skip
def sgd(make: Maker, n: int, has_momentum: bool, nesterov: bool) -> Problem:
    param, grad, buffer = make.normal(n), make.normal(n), make.normal(n, dtype=F32)
    lr = torch.full((1,), 0.05, device=param.device)
    old = [t.double().clone() for t in (param, grad, buffer)] if n < 1 << 22 else []
    momentum, decay = 0.9, 0.01
    launch = Launch(
        optimizers.sgd,
        (cdiv(n, 1024),),
        (param, grad, buffer if has_momentum else None, lr, n, momentum, decay),
        {"NESTEROV": nesterov, "HAS_MOMENTUM": has_momentum, "BLOCK": 1024, "num_warps": 4},
    )

    moved = 2 * once(param) + once(grad, lr) + (2 * once(buffer) if has_momentum else 0)

    def checks() -> Iterator[Check]:
        p, g, b = old
        g = g + _rounded(decay) * p
        kept = _rounded(momentum) * b + g
        if has_momentum:
            yield close("momentum", buffer, kept, b.abs() + g.abs())
            g = g + _rounded(momentum) * kept if nesterov else kept
        yield close("param", param, p - _rounded(0.05) * g, p.abs() + g.abs() + b.abs())

    return Problem((launch,), checks, moved)


@sample("sgd", optimizers, fast=((1025,),), gpu=((98433,),), bench=((1 << 26,),),
        dtypes=(BF16, F16))  # fmt: skip
def sgd_kahan(make: Maker, n: int) -> Problem:
    param, grad, lost = make.normal(n), make.normal(n), make.normal(n, scale=1e-3)
    old = [t.double().clone() for t in (param, grad, lost)] if n < 1 << 22 else []
    launch = Launch(optimizers.sgd_kahan, (cdiv(n, 1024),), (param, grad, lost, n, 1e-3),
                    {"BLOCK": 1024, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        p, g, left = old
        want = p + left - _rounded(1e-3) * g
        yield close("param", param, want)
        # Together they hold what neither does alone: the error is one rounding of the small part.
        eps = torch.finfo(make.dtype).eps
        allowed = eps * (eps * p.abs() + left.abs() + 1e-3) + 4 * torch.finfo(F32).eps * p.abs()
        yield Check("sum", param.double() + lost.double(), want, allowed)

    return Problem((launch,), checks, 5 * param.nbytes)


@sample("sgd", optimizers, fast=((5,),), gpu=((200,),), bench=((200,),), dtypes=(F32,))
def sgd_of_list(make: Maker, count: int) -> Problem:
    sizes = [1 + 37 * i * i % 5003 for i in range(count)]
    params, grads = ([make.normal(n) for n in sizes] for _ in range(2))
    old = [p.double().clone() for p in params]
    tables = [torch.tensor([t.data_ptr() for t in ts], dtype=torch.int64, device=make.device)
              for ts in (params, grads)]  # fmt: skip
    size = torch.tensor(sizes, dtype=torch.int32, device=make.device)
    launch = Launch(optimizers.sgd_of_list, (cdiv(max(sizes), 512), count), (*tables, size, 0.1),
                    {"BLOCK": 512, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        for i, (p, g, before) in enumerate(zip(params, grads, old, strict=True)):
            yield close(f"tensor {i}", p, before - _rounded(0.1) * g.double(), g.double().abs())

    return Problem((launch,), checks, 3 * once(*params) + once(*tables, size),
                   lambda: torch._foreach_add_(params, grads, alpha=-0.1))  # fmt: skip


@sample("grad_norm", optimizers, fast=((1, 1), (5000, 3)), slow=((1024, 1),),
        gpu=((10**6 + 1, 264),), bench=((1 << 26, 1024),))  # fmt: skip
def clipped_gradient(make: Maker, n: int, programs: int) -> Problem:
    grad, norm = make.normal(n), make.output(1, dtype=F32)
    before = grad.double().clone() if n < 1 << 22 else grad
    partial = make.output(programs, dtype=F32)
    launches = (
        Launch(optimizers.squares, (programs,), (grad, partial, n),
               {"BLOCK": 1024, "num_warps": 4}),
        Launch(optimizers.clip, (cdiv(n, 1024),), (grad, partial, norm, n, programs, 1.0),
               {"PARTIALS": 1024, "BLOCK": 1024, "num_warps": 4}),
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        want = before.square().sum().sqrt()
        yield close("norm", norm, want[None], terms=n)
        scale = torch.clamp(1.0 / (want + 1e-6), max=1.0)
        yield close("grad", grad, before * scale, before.abs() * scale, terms=n)

    return Problem(launches, checks, 2 * once(grad) + once(norm), scratch=(partial,))
