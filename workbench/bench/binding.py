"""Bind a kernel to the arguments of one launch: given ones, or what `--make` makes for a size."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from workbench.analysis.memory import parameter_roles
from workbench.bench.arrays import clone, is_array, on_gpu
from workbench.bench.plan import Plan
from workbench.bench.subject import Subject, call_by_name
from workbench.interrupts import imported
from workbench.launch.options import DEFAULTS, check_options, long_names
from workbench.runtime import CompiledKernel, JITFunction
from workbench.source import KernelError, KernelSource, OptionError, Span, shown
from workbench.tuning.tune import without_search


class Binder:
    """Makes launches of one kernel as a plan says.

    Attributes:
        constants: constexprs of `--set`.
        options: compile options of `--set`, under their long names.
        last: the launch that was bound last, None before the first.
    """

    def __init__(self, kernel: Any, source: KernelSource, plan: Plan) -> None:
        self.kernel = kernel
        self.source = source
        self.plan = plan
        self.constants, self.options = split_settings(source, plan)
        self.last: Subject | None = None

    @property
    def relaunch(self) -> Callable[..., Any] | None:
        """Repeats the latest launch, with the same or with other arguments; None without one."""
        last, kernel = self.last, self.kernel
        if last is None:
            return None

        def launch(*args: Any, **settings: Any) -> Any:
            arguments = {**last.arguments, **dict(zip(last.arguments, args, strict=False))}
            return kernel[last.grid](**arguments, **{**last.settings, **settings})

        return launch

    def bind(self, x: Mapping[str, Any]) -> Subject:
        """Return the launch for one point of a sweep, compiled and ready."""
        return self.bind_arguments(*self.arguments(x))

    @property
    def plain_kernel(self) -> Any:
        """The kernel without the search that `autotune` puts before it."""
        return without_search(self.kernel)

    def bind_arguments(self, arguments: dict[str, Any], given: dict[str, Any]) -> Subject:
        """Return the launch for run-time arguments and constexprs, compiled and ready."""
        known = {**defaults(self.source), **given}
        words = {word: name for word, name in self.plan.words.items() if name in arguments}
        names = {**known, **arguments, **{word: arguments[name] for word, name in words.items()}}
        settings = {**given, **self.options}
        compiled, constants = self._compile(arguments, names, settings)
        grid = self.grid({**names, **constants})
        # The fast path of a launch takes no target, and needs none where the arrays say it.
        if compiled.target != natural_target(arguments):
            settings["target"] = compiled.target
        # Tuned kernels choose constexprs at the launch, so their grid has to follow them.
        tuned = not isinstance(self.kernel, JITFunction)
        sizes: Any = (lambda meta: self.grid({**names, **meta})) if tuned else grid
        kernel = self.kernel
        # Positional arguments are what the fast path of a launch binds fastest.
        names_in_order = [parameter.name for parameter in self.source.parameters]
        leading = names_in_order[: len(arguments)] == list(arguments)
        positional = tuple(arguments.values()) if leading else ()
        named = settings if leading else {**arguments, **settings}
        self.last = Subject(
            name=self.source.name,
            arguments=arguments,
            constants={**known, **constants},
            grid=grid,
            launch=lambda: kernel[sizes](*positional, **named),
            module=compiled.module,
            roles=parameter_roles(compiled.module),
            target=compiled.target,
            words=words,
            settings=settings,
            compiled=compiled,
            relaunch=lambda values: kernel[sizes](**values, **settings),
        )
        return self.last

    def _compile(
        self, arguments: dict[str, Any], names: dict[str, Any], settings: dict[str, Any]
    ) -> tuple[CompiledKernel, dict[str, Any]]:
        """Return the compiled kernel and the constexprs it was compiled for."""
        target = {} if self.plan.target == "auto" else {"target": self.plan.target}
        if isinstance(self.kernel, JITFunction):
            self._require(names, settings)
            grid = self.grid(names)
            compiled = self.kernel.warmup(**arguments, grid=grid, **settings, **target)
            return compiled, {}
        # A tuned kernel is known once it has run: on copies, so that outputs stay as they were.
        copies = {name: clone(value) for name, value in arguments.items()}
        grid_of = self.grid
        compiled = self.kernel[lambda meta: grid_of({**names, **meta})](
            **copies, **settings, **target
        )
        constexprs = {p.name for p in self.source.parameters if p.is_constexpr}
        found = {n: fact.value for n, fact in compiled.signature.arguments if n in constexprs}
        return compiled, found

    def _require(self, names: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        """Raise OptionError K111 or K220 that names everything that nobody gave, at once."""
        given = {*names, *settings}
        constants = [
            parameter.name
            for parameter in self.source.parameters
            if parameter.is_constexpr and parameter.required and parameter.name not in given
        ]
        no_grid = self.plan.grid is None and getattr(self.kernel, "grid", None) is None
        if not constants:
            return  # a grid that is missing says so itself
        plural = "s" * (len(constants) > 1)
        wanted = f"{'a value' if not plural else 'values'} for constexpr{plural} "
        wanted += ", ".join(map(repr, constants))
        if no_grid:
            wanted = f"a grid, and {wanted}"
        place = self.plan.place("args") or self.plan.place("make")
        if place is None:  # of a call in Python
            hint = ", ".join(["grid=…"] * no_grid + [f"{name}=…" for name in constants])
        else:
            options = ['--grid "cdiv(n, BLOCK)"'] * no_grid + [f"--set {n}=…" for n in constants]
            hint = " ".join(options)
        raise OptionError(
            f"{self.source.name} needs {wanted}",
            place,
            code="K111" if no_grid else "K220",
            hint=f"add {hint}",
        )

    def arguments(self, x: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return (run-time arguments, constexprs) of one point."""
        plan = self.plan
        values = dict(plan.arguments or {}) if plan.make is None else self._made(x)
        parameters = {parameter.name: parameter for parameter in self.source.parameters}
        constants = dict(self.constants)
        arguments: dict[str, Any] = {}
        for name, parameter in parameters.items():
            if name in values and parameter.is_constexpr:
                constants.setdefault(name, values[name])
            elif name in values:
                arguments[name] = values[name]
        missing = [
            name
            for name, parameter in parameters.items()
            if parameter.required and not parameter.is_constexpr and name not in arguments
            and name not in constants
        ]  # fmt: skip
        if missing and plan.make is not None:
            raise OptionError(
                f"--make returned no value for '{missing[0]}'",
                plan.place("make"),
                code="K115",
                hint=f"return a dict with {', '.join(missing)} too",
            )
        return arguments, constants

    def _made(self, x: Mapping[str, Any]) -> dict[str, Any]:
        make, place = self.plan.make, self.plan.place("make")
        assert make is not None
        seed_torch()
        self._check_axes(make, x)
        made = make(**x)
        names = [parameter.name for parameter in self.source.parameters]
        if isinstance(made, (tuple, list)):
            made = dict(zip(names, made, strict=False))
        if not isinstance(made, Mapping):
            raise OptionError(
                f"--make returned a {type(made).__name__}",
                place,
                code="K115",
                hint="return a dict by parameter name, or a tuple in parameter order",
            )
        unknown = [str(name) for name in made if name not in names]
        if unknown:
            raise OptionError(
                f"--make returned '{unknown[0]}', which is no parameter of {self.source.name}",
                place,
                code="K115",
                hint=f"its parameters are {', '.join(names)}",
            )
        return dict(made)

    def _check_axes(self, make: Callable[..., Any], x: Mapping[str, Any]) -> None:
        """Raise OptionError K126 where the function takes something else than the axes."""
        try:
            signature = inspect.signature(make)
        except (TypeError, ValueError):  # a function of C that does not tell
            return
        try:
            signature.bind(**x)
        except TypeError as error:
            found = f"cannot take the axes {', '.join(x)}" if x else "has no axes to take"
            hint = "give the function one parameter per axis of --x"
            raise OptionError(
                f"--make {found}: {error}",
                self.plan.place("make"),
                code="K126",
                hint=hint if x else f"{hint}, and its sizes, e.g. --x n=1024,4096",
            ) from error

    def grid(self, names: Mapping[str, Any]) -> tuple[int, ...]:
        """Return the grid for arguments and constexprs by name; raises OptionError K111."""
        plan = self.plan
        value = plan.grid(names) if plan.grid is not None else getattr(self.kernel, "grid", None)
        if value is None:
            raise OptionError(
                f"no grid: how many programs of {self.source.name} are to run?",
                plan.place("args") or plan.place("make"),
                code="K111",
                hint='add --grid, e.g. --grid "cdiv(n, BLOCK)"',
            )
        return read_grid(value, names, plan.place("grid"))


def natural_target(arguments: Mapping[str, Any]) -> str:
    """Return the target that a launch takes where none is asked for: where the arrays lie."""
    arrays = [value for value in arguments.values() if is_array(value)]
    return chip() if any(map(on_gpu, arrays)) else "cpu"


def split_settings(source: KernelSource, plan: Plan) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (constexprs, options) of `--set`; raises OptionError K112 for unknown names."""
    names = {parameter.name for parameter in source.parameters}
    constants = {name: value for name, value in plan.settings.items() if name in names}
    try:
        options = long_names({n: v for n, v in plan.settings.items() if n not in names})
    except KernelError as error:
        raise error.at(plan.place("settings")) from None
    for name, value in options.items():
        try:
            check_options({name: value}, source)
        except KernelError as error:
            place = plan.place(f"settings.{name}") or plan.place("settings")
            raise error.at(place) from None
    return constants, {name: options[name] for name in options if name in DEFAULTS}


def defaults(source: KernelSource) -> dict[str, Any]:
    """Return the constexpr parameters that have a default."""
    return {p.name: p.default for p in source.parameters if p.is_constexpr and not p.required}


def read_grid(value: Any, names: Mapping[str, Any], place: Span | None) -> tuple[int, ...]:
    """Return a grid as 1 to 3 integers from 0 up; raises OptionError K111."""
    if callable(value):
        try:
            value = call_by_name(value, names)
        except Exception as error:
            said = f"{type(error).__name__}: {shown(str(error))}"
            raise OptionError(f"--grid: its function raised {said}", place, code="K111") from error
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    try:
        grid = tuple(extent.__index__() for extent in given)
    except (AttributeError, TypeError):
        grid = ()
    if not 1 <= len(grid) <= 3 or len(grid) != len(given) or min(grid) < 0:
        raise OptionError(
            f"--grid needs 1 to 3 integers ≥ 0 (0: nothing runs), got {shown(value)}",
            place,
            hint='e.g. --grid 4, --grid 4,8 or --grid "cdiv(n, BLOCK)"',
            code="K111",
        )
    return grid


def seed_torch() -> None:
    """Make what --make draws the same in every run; it may seed itself afterwards."""
    imported("torch").manual_seed(0)


def chip() -> str:
    """Return the chip of the current device with its `a` suffix where there is one."""
    major, minor = imported("torch").cuda.get_device_capability()
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")
