"""Kernels as operators of torch, so that `torch.compile` keeps them in one graph.

    @wb.torch_op("mylib::softmax")
    def softmax(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=wb.next_power_of_2(x.shape[1]))
        return out

What tracing needs to know, the shapes and dtypes of the results, is found by running the function
itself over tensors without memory, with all launches left out.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from workbench.runtime import hooks
from workbench.source import OptionError

#: The namespace of operators whose name has none.
NAMESPACE = "workbench"


def torch_op(
    function: Callable[..., Any] | str | None = None,
    *,
    name: str | None = None,
    mutates_args: str | Iterable[str] = (),
    fake: Callable[..., Any] | None = None,
    backward: Callable[..., Any] | None = None,
    setup_context: Callable[..., Any] | None = None,
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
) -> Any:
    """Make an operator of torch of a function that launches kernels.

    Bare, called with the operator's name, or with the function. What comes back is torch's own
    `CustomOpDef`: call it like the function, or register more with it.

    Args:
        function: the function, with annotated parameters and result, or the operator's name.
        name: "namespace::name"; by default the function's own, in the namespace `workbench`.
        mutates_args: the parameters that the function writes to.
        fake: returns results of the right shapes and dtypes for tensors without memory; by default
            the function itself, with all launches left out.
        backward: backward(ctx, *gradients of the results) -> a gradient per parameter or None.
            Kernels that it launches are launched by operators of their own.
        setup_context: setup_context(ctx, inputs, output) saves what backward needs. By default
            `ctx.saved_tensors` are the tensors among parameters and results, in order, and
            `ctx.others` the other parameters by name.
        device_types: the kinds of device for which this is the implementation; None for all.
        schema: torch's schema, where the annotations do not say it.

    Raises:
        OptionError: torch cannot make an operator of the function, with torch's reason (K133).
    """
    if isinstance(function, str):
        function, name = None, function
    if function is None:
        return functools.partial(
            torch_op,
            name=name,
            mutates_args=mutates_args,
            fake=fake,
            backward=backward,
            setup_context=setup_context,
            device_types=device_types,
            schema=schema,
        )
    qualified = _qualified(name or function.__name__)
    library: Any = importlib.import_module("torch.library")
    try:
        op = library.custom_op(
            qualified,
            function,
            mutates_args=mutates_args if isinstance(mutates_args, str) else tuple(mutates_args),
            device_types=device_types,
            schema=schema,
        )
    except (ValueError, RuntimeError) as error:
        raise OptionError(
            f"torch makes no operator of {function.__name__}: {_first_line(error)}",
            hint="annotate every parameter and the result, e.g. x: torch.Tensor, or pass schema=",
            code="K133",
        ) from error
    op.register_fake(fake or _without_launches(function))
    if backward is not None:
        op.register_autograd(backward, setup_context=setup_context or _save_all(function))
    functools.update_wrapper(op, function, updated=())
    return op


def _qualified(name: str) -> str:
    return name if "::" in name else f"{NAMESPACE}::{name}"


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _without_launches(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with all launches left out."""

    @functools.wraps(function)
    def run(*args: Any, **given: Any) -> Any:
        with hooks.suppressed():
            return function(*args, **given)

    return run


def _save_all(function: Callable[..., Any]) -> Callable[..., None]:
    """Return what saves all parameters and results for backward."""
    signature = inspect.signature(function)
    keywords = any(p.kind is p.KEYWORD_ONLY for p in signature.parameters.values())

    def save(ctx: Any, inputs: Sequence[Any], given: dict[str, Any], output: Any) -> None:
        torch: Any = importlib.import_module("torch")
        named = {**dict(zip(signature.parameters, inputs, strict=False)), **given}
        results = output if isinstance(output, tuple | list) else (output,)
        tensors = [value for value in named.values() if isinstance(value, torch.Tensor)]
        tensors += [value for value in results if isinstance(value, torch.Tensor)]
        ctx.save_for_backward(*tensors)
        ctx.others = {
            name: value for name, value in named.items() if not isinstance(value, torch.Tensor)
        }

    # Torch passes arguments by name, so the names are part of the interface.
    def setup(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        save(ctx, inputs, {}, output)

    def setup_with_keywords(
        ctx: Any, inputs: Sequence[Any], keyword_only_inputs: dict[str, Any], output: Any
    ) -> None:
        save(ctx, inputs, keyword_only_inputs, output)

    return setup_with_keywords if keywords else setup
