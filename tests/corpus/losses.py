"""Family 7: cross entropy, logsumexp and divergences."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.nn import functional

from tests.corpus.sample import F32, Check, Launch, Maker, Problem, close, exact, once, sample
from tests.kernels import losses
from workbench import cdiv, next_power_of_2

IGNORED = -100


def _targets(make: Maker, rows: int, columns: int) -> torch.Tensor:
    """Return labels, some of them the ignored one, which lies outside of the row."""
    target = make.integers(0, columns, rows, dtype=torch.int64)
    target[1::3] = IGNORED
    return target


def _wants(logits, target, smoothing: float, softcap: float | None):
    """Return losses of rows and the gradient of their mean over rows that are not ignored."""
    leaf = logits.double().requires_grad_()
    bent = leaf if softcap is None else softcap * torch.tanh(leaf / softcap)
    rows = functional.cross_entropy(bent, target, label_smoothing=smoothing, reduction="none",
                                    ignore_index=IGNORED)  # fmt: skip
    kept = (target != IGNORED).sum()
    (gradient,) = torch.autograd.grad(rows.sum() / kept, leaf)
    return rows.detach() / kept, gradient, int(kept)


@sample(
    "cross_entropy", losses,
    fast=((4, 100, 0.0, None), (7, 1000, 0.1, None)),
    slow=((1, 2, 0.0, None), (5, 129, 0.0, 30.0), (3, 128, 0.5, 5.0)),
    gpu=((64, 32000, 0.0, None), (9, 50257, 0.1, None), (3, 128256, 0.1, 30.0)),
    bench=((4096, 32000, 0.0, None), (2048, 128256, 0.0, None)),
    layouts=("contiguous", "shifted", "padded"),
)  # fmt: skip
def cross_entropy(
    make, rows: int, columns: int, smoothing: float, softcap: float | None
) -> Problem:
    logits = make.normal(rows, columns, scale=3.0)
    target, loss = _targets(make, rows, columns), make.output(rows, dtype=F32)
    before = logits.clone() if rows * columns < 1 << 26 else logits
    kept = int((target != IGNORED).sum())
    block = min(next_power_of_2(columns), 256 if columns < 2048 else 8192)
    launch = Launch(
        losses.cross_entropy,
        (rows,),
        (logits, target, loss, logits.stride(0), columns, kept, IGNORED),
        {"SMOOTHING": smoothing, "SOFTCAP": softcap, "BLOCK": block,
         "num_warps": 4 if block < 2048 else 16},
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        wanted_loss, gradient, _ = _wants(before, target, smoothing, softcap)
        yield close(
            "loss",
            loss,
            wanted_loss,
            (3 * before.double().abs().amax(1) + 10 + (softcap or 0)) / kept,
            columns,
        )
        p = functional.softmax(before.double(), 1) * (
            1 + 2 * before.double().abs() + (softcap or 0)
        )
        onehot = functional.one_hot(target.clamp(min=0), columns)
        size = (p + onehot + smoothing / columns) / kept
        yield close("gradient", logits, gradient, size, 16)

    leaf = logits.detach().requires_grad_()

    def by_torch() -> object:
        total = functional.cross_entropy(leaf, target, label_smoothing=smoothing)
        return torch.autograd.grad(total, leaf)

    # Rows that are ignored are not read; their gradients are written.
    moved = once(target, loss, logits) + kept * once(logits[0])
    return Problem((launch,), checks, moved, by_torch)


@sample("cross_entropy", losses, fast=((4, 100), (3, 129)), slow=((1, 1), (5, 1024)),
        gpu=((100, 32000),), bench=((4096, 4096), (4096, 32000)),
        layouts=("contiguous", "shifted", "padded"))  # fmt: skip
def cross_entropy_two_kernels(make: Maker, rows: int, columns: int) -> Problem:
    logits = make.normal(rows, columns)
    target = _targets(make, rows, columns)
    loss, lse = make.output(rows, dtype=F32), make.output(rows, dtype=F32)
    dloss = make.normal(rows, dtype=F32)
    before = logits.clone() if rows * columns < 1 << 26 else logits
    block = next_power_of_2(columns)
    warps = min(max(block // 1024, 4), 16)
    launches = (
        Launch(losses.cross_entropy_forward, (rows,),
               (logits, target, loss, lse, logits.stride(0), columns),
               {"BLOCK": block, "num_warps": warps}),
        Launch(losses.cross_entropy_backward, (rows, cdiv(columns, 1024)),
               (logits, target, dloss, lse, logits.stride(0), columns),
               {"BLOCK": 1024, "num_warps": 4}),
    )  # fmt: skip

    def checks() -> Iterator[Check]:
        x = before.double()
        want = functional.cross_entropy(x, target, reduction="none", ignore_index=IGNORED)
        yield close("lse", lse, x.logsumexp(1), x.abs().amax(1) + 1, columns)
        yield close("loss", loss, want, 2 * x.abs().amax(1) + 1, columns)
        kept = (target != IGNORED)[:, None]
        onehot = functional.one_hot(target.clamp(min=0), columns)
        gradient = torch.where(kept, dloss.double()[:, None] * (x.softmax(1) - onehot), 0.0)
        size = dloss.double().abs()[:, None] * (x.softmax(1) * (8 + 2 * x.abs()) + onehot)
        yield close("gradient", logits, gradient, size, 4)

    moved = once(logits, logits, target, dloss[target != IGNORED], loss, lse)
    return Problem(launches, checks, moved)


@sample("logsumexp", losses, fast=((3, 70), (4, 1000)), slow=((2, 1), (3, 256)),
        gpu=((17, 50257),), bench=((4096, 32000),),
        layouts=("contiguous", "shifted", "padded"))  # fmt: skip
def logsumexp(make: Maker, rows: int, columns: int) -> Problem:
    x, out = make.normal(rows, columns, scale=4.0), make.output(rows, dtype=F32)
    if rows > 2:
        x[0] = float("-inf")  # a row without mass
        x[1, : columns // 2] = float("-inf")  # whole chunks of it
    block = 256 if columns < 4096 else 1024
    launch = Launch(losses.logsumexp, (rows,), (x, out, x.stride(0), columns),
                    {"BLOCK": block, "num_warps": 4})  # fmt: skip

    def checks() -> Iterator[Check]:
        finite = torch.where(x.isinf(), 0, x).double().abs().amax(1)
        yield close("out", out, x.double().logsumexp(1), finite + 1, columns)

    return Problem((launch,), checks, once(x, out), lambda: torch.logsumexp(x, 1))


@sample("log_softmax", losses, fast=((3, 70), (4, 129)), slow=((2, 1),), gpu=((17, 5000),),
        bench=((4096, 4096),), layouts=("contiguous", "shifted", "padded"))  # fmt: skip
def log_softmax(make: Maker, rows: int, columns: int) -> Problem:
    x, out = make.normal(rows, columns), make.output(rows, columns)
    block = next_power_of_2(columns)
    launch = Launch(losses.log_softmax, (rows,), (x, out, x.stride(0), out.stride(0), columns),
                    {"BLOCK": block, "num_warps": min(max(block // 256, 1), 8)})  # fmt: skip

    def checks() -> Iterator[Check]:
        size = x.double().abs() + x.double().abs().amax(1, keepdim=True) + 1
        yield close("out", out, x.double().log_softmax(1), size, columns)

    return Problem((launch,), checks, 2 * x.nbytes, lambda: torch.log_softmax(x, 1))


@sample("kl_div", losses, fast=((3, 70, False), (4, 1000, True)), slow=((1, 1, False),),
        gpu=((17, 32000, False),), bench=((4096, 32000, False),))  # fmt: skip
def kl_divergence(make: Maker, rows: int, columns: int, log_target: bool) -> Problem:
    x = make.tensor(make.normal(rows, columns).double().log_softmax(1).to(make.dtype))
    y = make.normal(rows, columns).double().log_softmax(1)
    y = y.to(make.dtype) if log_target else y.exp().to(make.dtype)
    if not log_target:
        y[:, 0] = 0  # log 0 must not show
    y = make.tensor(y)
    loss, grad = make.output(rows, dtype=F32), make.output(rows, columns)
    block = 256 if columns < 4096 else 4096
    launch = Launch(
        losses.kl_divergence,
        (rows,),
        (x, y, loss, grad, x.stride(0), columns, 1.0 / rows, 1e-10),
        {"LOG_TARGET": log_target, "BLOCK": block, "num_warps": 4 if block < 1024 else 8},
    )

    def checks() -> Iterator[Check]:
        parts = functional.kl_div(x.double(), y.double(), reduction="none", log_target=log_target)
        weight = y.double().exp() if log_target else y.double()
        size = (weight * (y.double().abs() + x.double().abs() + 30)).sum(1) / rows
        yield close("loss", loss, parts.sum(1) / rows, size, columns)
        yield close("grad", grad, -weight / rows, weight * (1 + y.double().abs()) / rows)

    return Problem((launch,), checks, once(x, y, loss, grad))


@sample("cross_entropy", losses, fast=((3, 100),), dtypes=(F32,))
def cross_entropy_extremes(make: Maker, rows: int, columns: int) -> Problem:
    """Infinite logits give what the formulas give, and stay in their rows."""
    logits = make.normal(rows, columns)
    logits[0, 1:] = float("-inf")  # all mass on one label
    logits[2, 5] = float("nan")
    target = torch.zeros(rows, dtype=torch.int64, device=logits.device)
    before = logits.clone()
    loss = make.output(rows)
    launch = Launch(losses.cross_entropy, (rows,),
                    (logits, target, loss, logits.stride(0), columns, 1, IGNORED),
                    {"SMOOTHING": 0.0, "SOFTCAP": None, "BLOCK": 32})  # fmt: skip

    def checks() -> Iterator[Check]:
        yield exact("certain", loss[0], torch.zeros((), device=loss.device))
        want = functional.cross_entropy(before[1].double(), target[1])
        yield close("usual", loss[1], want, 10.0, columns)
        yield exact("finite gradients", logits[:2].isfinite(), torch.ones_like(logits[:2]).bool())

    return Problem((launch,), checks)
