"""A launch that is bound and compiled: what is refused before it runs, and the hooks around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.devices.streams import HOST, current_stream
from workbench.launch.abi import Runner
from workbench.launch.binding import Call, classify
from workbench.launch.grids import Grid
from workbench.launch.host_copies import on_host
from workbench.runtime import hooks, knobs
from workbench.runtime.bound import load, run_grid
from workbench.runtime.compiled import CompiledKernel
from workbench.source import LaunchError, Parameter
from workbench.source.given import wrong_kind


def check_outputs(kernel: CompiledKernel, call: Call) -> None:
    """Raise LaunchError (K505) for read-only arrays that the kernel would write."""
    for name, array in call.arrays:
        if not array.writable and name in kernel.outputs:
            raise LaunchError(
                f"{name} is a read-only array, and {kernel.name} stores to it",
                hint=f"pass a copy: {name}.copy()",
                code="K505",
            )


def stream_number(stream: Any, device: int) -> int:
    """Return the number of what `stream=` gave, of the current stream for None."""
    if stream is None:
        return current_stream(device)
    number = getattr(stream, "cuda_stream", stream)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 1 << 64:
        raise wrong_kind(
            "stream= is a torch stream or the number of one", stream,
            "leave it out: launches go to the current stream",
        )  # fmt: skip
    return number


def load_once(kernel: CompiledKernel, device: int, loaded: set[tuple[str, int]]) -> Runner:
    """Load a kernel on a device, between the hooks for that where it is not in `loaded` yet."""
    start, end = knobs.runtime.kernel_load_start_hook, knobs.runtime.kernel_load_end_hook
    if not (start.calls or end.calls) or (kernel.hash, device) in loaded:
        return load(kernel, device)
    loaded.add((kernel.hash, device))
    start(None, None, kernel.name, {}, kernel.hash)
    runner = load(kernel, device)
    end(kernel, runner, kernel.name, {}, kernel.hash)
    return runner


def load_and_run(kernel: CompiledKernel, device: int, *given: Any) -> Any:
    """Load a kernel when it runs; `given` is what a runner takes."""
    return load(kernel, device)(*given)


def run_bound(
    kernel: CompiledKernel,
    call: Call,
    grid: Grid,
    runner: Runner,
    stream: int,
    declared: Sequence[Parameter],
    described: Callable[..., Any] | None = None,
) -> None:
    """Run a bound launch between the launch hooks.

    Args:
        kernel: the compiled kernel.
        call: what it is launched with.
        grid: programs along each axis.
        runner: what runs it.
        stream: the number of the stream.
        declared: the kernel's parameters, for what is bound again.
        described: `launch_metadata` of the kernel.
    """
    if len(call.runtime) != len(kernel.signature.runtime()):
        raise LaunchError(
            f"{kernel.name}: a dtype stands where an array is needed",
            hint="dtypes stand for tensors in warmup only",
        )
    chains = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook
    metadata = None
    if chains[0].calls or chains[1].calls:
        metadata = _metadata(kernel, grid, stream, call.values, described)
        chains[0](metadata)
    if kernel.target != "interpreter":
        run_grid(runner, kernel, grid, stream, call.runtime)
    elif any(array.device != HOST for _, array in call.arrays):
        _interpret_copies(kernel, call, grid, runner, declared)
    else:
        run_grid(runner, kernel, grid, stream, call.objects)
    if metadata is not None:
        chains[1](metadata)


def _interpret_copies(
    kernel: CompiledKernel, call: Call, grid: Grid, runner: Runner, declared: Sequence[Parameter]
) -> None:
    """Run the interpreter over host copies of CUDA tensors, and copy the results back."""
    with on_host(call.values) as values:
        copied = Call(values, call.options, {"target": "interpreter"})
        classify(kernel.source, declared, copied)
        run_grid(runner, kernel, grid, 0, copied.objects)


def _metadata(
    kernel: CompiledKernel,
    grid: Grid,
    stream: int,
    values: Mapping[str, Any],
    described: Callable[..., Any] | None,
) -> hooks.LaunchMetadata:
    """Return what launch hooks receive."""
    found = hooks.LaunchMetadata({"name": kernel.name, "function": kernel.hash, "stream": stream})
    if described is not None:
        found.add(described, (grid, kernel.metadata, dict(values)))
    return found
