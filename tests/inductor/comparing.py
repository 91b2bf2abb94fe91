"""Compiles a case through us, and compares it with eager: results, and gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

import workbench as wb
from tests.inductor.functions import Case, Maker
from tests.inductor.models import MODELS


@dataclass(frozen=True)
class Compared:
    """What came of one case: the graphs it was compiled to, and what differed (empty if equal)."""

    graphs: Any
    difference: str


def compare(case: Case, device: str = "cpu") -> Compared:
    """Run a case eagerly and compiled; sums of 16-bit floats are compared with those in 32."""
    arguments = case.arguments(Maker(device))
    torch._dynamo.reset()
    with wb.use_in_torch_compile() as graphs:
        compiled = torch.compile(
            case.function, options=case.options or None, dynamic=case.dynamic, fullgraph=True
        )
        got = results_and_gradients(compiled, arguments)
    if case.random:
        return Compared(graphs, _dropped_alike(arguments, got))
    wanted = results_and_gradients(case.function, in_float(arguments))
    return Compared(graphs, difference(got, wanted, case.tolerance))


def compare_model(name: str, device: str = "cpu") -> Compared:
    """Run a model eagerly and compiled, forward and backward."""
    make, example = MODELS[name]
    torch.manual_seed(0)
    model, x = make().to(device), example().to(device)
    torch._dynamo.reset()
    parameters = tuple(model.parameters())
    wanted = results_and_gradients(lambda x, *_: model(x), (x, *parameters))
    with wb.use_in_torch_compile() as graphs:
        compiled = torch.compile(model, fullgraph=True)
        got = results_and_gradients(lambda x, *_: compiled(x), (x, *parameters))
    return Compared(graphs, difference(got, wanted, 1e-4))


def results_and_gradients(function: Callable[..., Any], arguments: Sequence[Any]) -> list[Any]:
    """Return all results, then the gradients of the arguments that have one."""
    inputs = [
        x.detach().clone().requires_grad_() if isinstance(x, torch.Tensor) and x.requires_grad and
        not isinstance(x, torch.nn.Parameter) else x
        for x in arguments
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = [x for x in pytree.tree_leaves(function(*inputs)) if isinstance(x, torch.Tensor)]
        floating = [x for x in results if x.requires_grad]
        wanted = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
        gradients: list[Any] = []
        if floating and wanted:
            weights = [_weights(x) for x in floating]
            gradients = list(torch.autograd.grad(floating, wanted, weights, allow_unused=True))
    return [x.detach() for x in results] + [x for x in gradients if x is not None]


def _weights(x: torch.Tensor) -> torch.Tensor:
    steps = torch.arange(x.numel(), device=x.device, dtype=torch.float32)
    # Numbers that floats of 16 bits hold too: the reference has 32.
    return torch.cos(steps).to(torch.bfloat16).reshape(x.shape).to(x.dtype)


def in_float(arguments: Sequence[Any]) -> list[Any]:
    """Return arguments with 32 bits in place of 16."""
    return [
        x.detach().float().requires_grad_(x.requires_grad)
        if isinstance(x, torch.Tensor) and x.dtype in (torch.float16, torch.bfloat16)
        else x
        for x in arguments
    ]


def difference(got: list[Any], wanted: list[Any], tolerance: float | None) -> str:
    """Say how results differ, by torch's tolerances for their dtypes; empty if they do not."""
    if len(got) != len(wanted):
        return f"{len(got)} results and gradients instead of {len(wanted)}"
    given = {} if tolerance is None else {"atol": tolerance, "rtol": tolerance}
    for number, (one, other) in enumerate(zip(got, wanted, strict=True)):
        if one.dtype.is_floating_point:
            other = other.to(one.dtype)
        try:
            torch.testing.assert_close(one, other, equal_nan=True, **given)
        except AssertionError as error:
            return f"result {number}: {error}"
    return ""


def _dropped_alike(arguments: Sequence[Any], got: list[Any]) -> str:
    """Say what is wrong with a dropout of a quarter: share, scale, and the gradient's mask."""
    x, (result, gradient) = arguments[0].detach(), got
    kept = result != 0
    share = kept.float().mean().item()
    if abs(share - 0.75) > 0.03:
        return f"{share} of the elements were kept"
    torch.testing.assert_close(result[kept], x[kept] / 0.75)
    return "" if torch.equal(kept, gradient != 0) else "the gradient drops other elements"
