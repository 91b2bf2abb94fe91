"""Loaded kernels, and launches of one compilation as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.devices.streams import current_stream
from workbench.interrupts import imported
from workbench.launch.abi import Loadable, Runner
from workbench.launch.binding import Call, choose_target, classify
from workbench.launch.grids import Grid, check_limits, resolve_grid
from workbench.runtime import guards, hooks
from workbench.runtime.guarded import guarded_runner
from workbench.source import LaunchError
from workbench.source.parameters import undeclared


def load(kernel: Loadable, device: int) -> Runner:
    """Return the runner of a kernel on a device (HOST for the CPU and the interpreter)."""
    runner = kernel.loaded.get(device)
    if runner is None:
        if kernel.target == "interpreter":
            runner = _interpreter_runner(kernel)
        elif kernel.target == "cpu":
            runner = imported("workbench.launch.on_cpu").load(kernel)
        else:
            runner = imported("workbench.launch.on_cuda").load(kernel, device)
        kernel.loaded[device] = runner
    return runner


def _interpreter_runner(kernel: Any) -> Runner:
    def run(x: int, y: int, z: int, stream: Any, *values: Any) -> Loadable:
        from workbench.runtime.interpreted import interpret

        interpret(kernel, (x, y, z), values)
        return kernel

    return run


def run_grid(
    runner: Runner, kernel: Loadable, grid: Grid, stream: Any, values: Sequence[Any]
) -> Loadable:
    """Start a runner over a checked grid; an empty grid runs nothing."""
    check_limits(grid, kernel.name, gpu=kernel.target.startswith("sm_"))
    if 0 in grid:
        return kernel
    return runner(*grid, stream, *values)


class BoundLaunch:
    """`compiled[grid]`: launches one compilation with run-time arguments, no specialisation."""

    def __init__(self, kernel: Any, grid: Any) -> None:
        self._kernel = kernel
        self._grid = grid

    def __call__(self, *args: Any) -> Loadable:
        """Run the kernel; `args` are all parameters, or the run-time ones only.

        What is 1, and so in the code, may be among these or not: launch caches of libraries know
        which parameters are declared constexprs, and no more.

        Raises LaunchError where a number that is in the code is given as another one.
        """
        kernel = self._kernel
        if hooks.watchers and hooks.is_suppressed():
            return kernel
        values = self._values(args)
        call = Call(values, {}, {"target": kernel.target})
        parameters = [
            undeclared("constexpr", p.name)  # what is 1 is in the code, too
            if known.is_constant
            else undeclared(known.type, p.name, fixed=True)
            for p, (_, known) in zip(
                kernel.source.parameters, kernel.signature.arguments, strict=True
            )
        ]
        classify(kernel.source, parameters, call)
        runtime = self._runtime(call)
        _, device = choose_target(kernel.source, call)
        grid = resolve_grid(self._grid, lambda: values)
        kernel = self._wide_enough(call, grid)
        if kernel.target == "cpu" and guards.is_on() and kernel.can_be_checked:
            runner = guarded_runner(kernel, call, load(kernel, device), load)
            return run_grid(runner, kernel, grid, current_stream(device), runtime)
        return run_grid(load(kernel, device), kernel, grid, current_stream(device), runtime)

    def _wide_enough(self, call: Call, grid: Grid) -> Any:
        """Return the kernel, or its twin with exact indices where 32 bits do not hold them."""
        kernel = self._kernel
        program = kernel.index_program
        if not kernel.launch.narrow_index or program is None:
            return kernel
        if program.fits(call.integers, grid):
            return kernel
        return kernel.twin()

    def _values(self, args: Sequence[Any]) -> dict[str, Any]:
        source, known = self._kernel.source, self._kernel.signature.arguments
        names = [p.name for p in source.parameters]
        free = [name for name, fact in known if not fact.is_constant]
        outside = [p.name for p in source.parameters if not p.is_constexpr]
        given = next((form for form in (names, free, outside) if len(form) == len(args)), None)
        if given is not None:
            values = dict(zip(given, args, strict=True))
            for name, fact in known:
                if fact.is_constant and _differs(values.get(name, fact.value), fact.value):
                    raise LaunchError(
                        f"{name} = {values[name]!r} is not {fact.value!r}, for which this code was "
                        f"compiled",
                        hint="launch the jit object, which compiles for each such value",
                    )
            return {n: fact.value if fact.is_constant else values[n] for n, fact in known}
        raise LaunchError(
            f"{source.name} was compiled to take {len(free)} arguments, got {len(args)}",
            hint=f"pass {', '.join(free)}",
        )

    def _runtime(self, call: Call) -> list[Any]:
        kernel = self._kernel
        for name, known in kernel.signature.arguments:
            value = call.values[name]
            if known.is_constant or known.divisible == 1 or isinstance(value, tuple):
                continue
            number = next((a.address for n, a in call.arrays if n == name), value)
            if isinstance(number, int) and number % known.divisible:
                raise LaunchError(
                    f"{name} = {number} is not a multiple of {known.divisible}, for which this "
                    f"code was compiled",
                    hint="compile without that fact, or launch the jit object",
                )
        return call.objects if kernel.target == "interpreter" else call.runtime


def _differs(given: Any, compiled: Any) -> bool:
    """Say whether an argument is surely another one than the constant that is in the code."""
    if type(given).__name__ == "constexpr":
        given = given.value
    if compiled is None:
        return given is not None
    if not isinstance(compiled, bool | int | float | str) or compiled != compiled:
        return False
    return isinstance(given, bool | int | float | str) and given != compiled
