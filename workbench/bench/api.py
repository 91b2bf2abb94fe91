"""`workbench.check` and `workbench.bench`: what those magics do, from Python values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.bench.plan import Peer, Plan
from workbench.bench.results import KernelResult
from workbench.bench.running import run_plan
from workbench.bench.sweep import points_of
from workbench.interpreter import Report, checked_report
from workbench.runtime.compiling import source_of
from workbench.source import KernelSource, OptionError

Arguments = Sequence[Any] | Mapping[str, Any]


def check(
    kernel: Any,
    reference: Any = None,
    *,
    args: Arguments,
    grid: Any = None,
    target: str = "auto",
    rtol: float | None = None,
    atol: float | None = None,
    guard: bool = False,
    report: Report = "error",
    **settings: Any,
) -> KernelResult:
    """Launch a kernel and compare its outputs with a reference.

    The interpreter looks for races for two seconds at most, `guard` for ten and before the launch.

    Args:
        kernel: the kernel object.
        reference: an array, a tuple of them in parameter order, a dict by parameter name, or a
            function of the parameters that it names, called with copies from before the launch;
            None lets the interpreter compute it.
        args: launch arguments in parameter order without constexprs, or by name.
        grid: 1 to 3 integers, or a function of the parameters that it names.
        target: "auto", "cpu", "interpreter" or a chip.
        rtol: relative tolerance; both replace the model of rounding errors that allows what a
            right kernel may differ by (bench/tolerances.py), one is allowed beside it.
        atol: absolute tolerance, likewise.
        guard: run the launch in the interpreter first, and launch only what is found right there.
        report: "error" raises what the interpreter finds, "remark" writes it into the result.
        settings: constexprs and compile options.

    Raises:
        CheckError: the result differs (K601); the KernelResult is the error's `result`.
        LaunchError: an access that leaves its argument (K502), a race (K514), programs that wait
            for ever (K515).
    """
    plan = Plan(
        arguments=_by_name(source_of(kernel), args),
        grid=_grid(grid),
        settings=settings,
        target=target,
        reference=None if reference is None else lambda names: reference,
        interpreted=reference is None,
        reference_text=getattr(reference, "__name__", "the reference"),
        rtol=rtol,
        atol=atol,
        guard=guard,
        report=checked_report(report),
    )
    return run_plan(kernel, plan)


def bench(
    kernel: Any,
    *,
    args: Arguments | None = None,
    make: Callable[..., Any] | None = None,
    x: Mapping[str, Sequence[Any]] | None = None,
    cross: bool = False,
    grid: Any = None,
    reference: Any = None,
    baselines: Mapping[str, Callable[..., object]] | None = None,
    target: str = "auto",
    flops: float | Callable[[Mapping[str, Any]], float] | None = None,
    bytes: float | Callable[[Mapping[str, Any]], float] | None = None,  # noqa: A002 - the option's name
    metric: str = "auto",
    warm: bool = False,
    **settings: Any,
) -> KernelResult:
    """Time a kernel, beside baselines and over sizes if they are given.

    Args:
        kernel: the kernel object.
        args: launch arguments in parameter order without constexprs, or by name.
        make: instead of `args`: a function of the axes that returns the arguments.
        x: values of each axis; several axes go together, or each with each if `cross`.
        cross: cross the axes.
        grid: 1 to 3 integers, or a function of the parameters that it names.
        reference: checked at every point if given, as in `check`.
        baselines: functions by name, called with the parameters that they name.
        target: "auto", "cpu" or a chip.
        flops: operations of one launch; counted if None.
        bytes: bytes of one launch; counted if None.
        metric: "auto", "tflops", "gbps", "ms" or "percent".
        warm: keep the L2 cache between runs.
        settings: constexprs and compile options.
    """
    if (args is None) == (make is None):
        raise OptionError("bench needs args or make, one of them", code="K124")
    plan = Plan(
        arguments=None if args is None else _by_name(source_of(kernel), args),
        make=make,
        points=points_of(x or {}, cross),
        grid=_grid(grid),
        settings=settings,
        target=target,
        reference=None if reference is None else lambda names: reference,
        reference_text=getattr(reference, "__name__", "the reference"),
        timed=True,
        peers=tuple(Peer(name, call=call) for name, call in (baselines or {}).items()),
        flops=_number(flops),
        bytes=_number(bytes),
        metric=metric,
        warm=warm,
    )
    return run_plan(kernel, plan)


def _by_name(source: KernelSource, args: Arguments) -> dict[str, Any]:
    if isinstance(args, Mapping):
        return dict(args)
    names = [parameter.name for parameter in source.parameters if not parameter.is_constexpr]
    if len(args) > len(names):
        raise OptionError(
            f"args has {len(args)} values, {source.name} takes {len(names)}: {', '.join(names)}",
            code="K110",
        )
    return dict(zip(names, args, strict=False))


def _grid(grid: Any) -> Callable[[Mapping[str, Any]], Any] | None:
    return None if grid is None else lambda names: grid


def _number(value: Any) -> Callable[[Mapping[str, Any]], float] | None:
    if value is None:
        return None
    if not callable(value):
        return lambda names: float(value)
    count: Callable[..., Any] = value
    return lambda names: float(count(names))
