"""Run a plan: bind arguments, compile, launch, check, time; collect it all in a KernelResult.

On a machine without a GPU a kernel launches on the CPU, and is compiled for sm_90a too, so that the
stages show what a GPU would run: two records, sm_90a first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from workbench.analysis.roles import parameter_roles
from workbench.bench import device
from workbench.bench.arrays import bytes_of, dtype_of, is_array, on_gpu, shape_of
from workbench.bench.baselines import Competitor, expression_call, known_call
from workbench.bench.checking import Verdict, check_launch
from workbench.bench.plan import Peer, Plan
from workbench.bench.recorded import recorded_accesses
from workbench.bench.results import KernelResult, Record
from workbench.bench.subject import Subject, call_by_name
from workbench.bench.sweep import Point, counted_work, time_points
from workbench.runtime.compiled import CompiledKernel
from workbench.runtime.compiling import compile as compile_kernel
from workbench.runtime.compiling import obtain, source_of
from workbench.runtime.options import DEFAULTS, SHORT_FORMS, check_options
from workbench.source import KernelError, KernelSource, OptionError, Span
from workbench.trace import Launch, LaunchArgument, Runs, Skipped

SHOWN_CHIP = "sm_90a"
#: Grids up to this many programs are recorded access by access in the interpreter.
MOST_RECORDED_PROGRAMS = 4096

#: Asked for the call that repeats an earlier result's launch on the arguments of a new one.
Previous = Callable[[Subject], Callable[[], object] | None]


def run_plan(kernel: Any, plan: Plan, previous: Previous = lambda subject: None) -> KernelResult:
    """Do what a plan says with a kernel.

    Raises KernelError where that is not possible; whatever exists by then is in the error's
    `result`. A failed check is an error too, raised after everything else was done.
    """
    run = _Run(kernel, plan, previous)
    try:
        result = run.finish()
    except KernelError as error:
        error.result = run.partial(error)  # type: ignore[attr-defined]
        raise
    if result.error is not None:
        result.error.result = result  # type: ignore[attr-defined]
        raise result.error
    return result


class _Run:
    """One plan in progress."""

    def __init__(self, kernel: Any, plan: Plan, previous: Previous) -> None:
        self.kernel = kernel
        self.plan = plan
        self.previous = previous
        self.source: KernelSource = source_of(kernel)
        self.records: list[Record] = []
        self.constants, self.options = split_settings(self.source, plan)
        self.last: Subject | None = None

    def finish(self) -> KernelResult:
        plan = self.plan
        with device.following(plan.target):
            if plan.arguments is None and plan.make is None:
                self._compile_without_data()
                return self._result(None)
            points = [Point(x, lambda x=x: self._bind(x)) for x in plan.points]
            subject = points[-1].build()
            points[-1] = replace(points[-1], build=lambda: subject)
            compiled = self._compile(subject)
            if not plan.run:
                self._skip("launch", "--no-run was given")
                return self._result(None)
            error = self._execute(subject, compiled, points)
            return self._result(error)

    def partial(self, error: KernelError) -> KernelResult | None:
        """Return what exists after an error: the stages up to it."""
        if error.trace is not None:
            trace = error.trace
            self.records.insert(0, Record(lambda: trace.trace))  # type: ignore[attr-defined]
        return self._result(error) if self.records else None

    def _result(self, error: BaseException | None) -> KernelResult:
        return KernelResult(
            self.kernel,
            self.source.name,
            self.records,
            launch=self._relaunch if self.last is not None else None,
            show=self.plan.show,
            embed=self.plan.embed,
            error=error,
        )

    def _relaunch(self, *args: Any, **settings: Any) -> Any:
        assert self.last is not None
        given = dict(zip(self.last.arguments, args, strict=False))
        constants = {**self._settings(self.last.constants), **settings}
        return self.kernel[self.last.grid](**{**self.last.arguments, **given}, **constants)

    def _settings(self, constants: Mapping[str, Any]) -> dict[str, Any]:
        """Return constexprs, options and target as a launch takes them."""
        target = {} if self.plan.target == "auto" else {"target": self.plan.target}
        return {**constants, **self.options, **target}

    # -- compiling ------------------------------------------------------------------------
    def _compile_without_data(self) -> None:
        plan = self.plan
        targets = [plan.target]
        if plan.target == "auto":
            targets = [chip()] if device.has_gpu() else [SHOWN_CHIP, "cpu"]
        for target in targets:
            compiled = compile_kernel(
                self.source, plan.signature, self.constants, target,
                assume=plan.assume, cached=plan.cached, **self.options,
            )  # fmt: skip
            self._add(compiled)
        self._skip("launch", "no arguments were given")

    def _compile(self, subject: Subject) -> CompiledKernel:
        compiled: CompiledKernel = subject.compiled
        self._add(compiled)
        if self.plan.target == "auto" and compiled.target == "cpu" and not device.has_gpu():
            self._add_shown_chip(compiled)
        return compiled

    def _add_shown_chip(self, compiled: CompiledKernel) -> None:
        """Compile what a GPU would run, from the same facts; its failure is shown, not raised."""
        try:
            peer = obtain(self.source, compiled.signature, SHOWN_CHIP, cached=self.plan.cached)
            record = Record(lambda: without_runs(peer), peer)
            record.runs.append(Skipped(what="launch", why="no CUDA device"))
            self.records.insert(0, record)
        except KernelError as error:
            trace = error.trace
            if trace is not None:
                record = Record(lambda: trace.trace)  # type: ignore[attr-defined]
                self.records.append(record)

    def _add(self, compiled: CompiledKernel) -> None:
        self.records.append(Record(lambda: without_runs(compiled), compiled))

    def _skip(self, what: str, why: str) -> None:
        for record in self.records:
            record.runs.append(Skipped(what=what, why=why))

    # -- binding --------------------------------------------------------------------------
    def _bind(self, x: Mapping[str, Any]) -> Subject:
        """Return the launch for one point of the sweep."""
        arguments, constants = self._arguments(x)
        constants = {**defaults(self.source), **constants}
        names = {**constants, **arguments}
        words = {word: name for word, name in self.plan.words.items() if name in arguments}
        names |= {word: arguments[name] for word, name in words.items()}
        grid = self._grid(names)
        settings = self._settings(constants)
        launcher = self.kernel[grid]
        compiled = self.kernel.warmup(**arguments, grid=grid, **settings)
        subject = Subject(
            name=self.source.name,
            arguments=arguments,
            constants=constants,
            grid=grid,
            launch=lambda: launcher(**arguments, **settings),
            module=compiled.module,
            roles=parameter_roles(compiled.module),
            target=compiled.target,
            words=words,
            options=dict(self.options),
            function=getattr(self.source, "function", None),
            compiled=compiled,
        )
        self.last = subject
        return subject

    def _arguments(self, x: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return (run-time arguments, constexprs) of one point."""
        plan = self.plan
        values = dict(plan.arguments or {}) if plan.make is None else self._made(x)
        parameters = {parameter.name: parameter for parameter in self.source.parameters}
        constants = dict(self.constants)
        arguments: dict[str, Any] = {}
        for name, value in values.items():
            if parameters[name].is_constexpr:
                constants.setdefault(name, value)
            else:
                arguments[name] = value
        missing = [
            name for name, parameter in parameters.items()
            if parameter.required and name not in arguments and name not in constants
        ]  # fmt: skip
        if missing and plan.make is not None and not parameters[missing[0]].is_constexpr:
            raise OptionError(
                f"--make returned no value for '{missing[0]}'",
                plan.place("make"),
                code="K115",
                hint=f"return a dict with {', '.join(n for n in parameters if n in missing)}",
            )
        order = [name for name in parameters if name in arguments]
        return {name: arguments[name] for name in order}, constants

    def _made(self, x: Mapping[str, Any]) -> dict[str, Any]:
        make, place = self.plan.make, self.plan.place("make")
        assert make is not None
        seed_torch()
        try:
            made = make(**x)
        except TypeError as error:
            if "unexpected keyword argument" in str(error):
                raise OptionError(
                    f"--make cannot take the axes {', '.join(x)}: {error}", place, code="K126",
                    hint="give the function one parameter per axis of --x",
                ) from error  # fmt: skip
            raise
        names = [parameter.name for parameter in self.source.parameters]
        if isinstance(made, (tuple, list)):
            made = dict(zip(names, made, strict=False))
        if not isinstance(made, Mapping):
            raise OptionError(
                f"--make returned a {type(made).__name__}", place, code="K115",
                hint="return a dict by parameter name, or a tuple in parameter order",
            )  # fmt: skip
        unknown = [str(name) for name in made if name not in names]
        if unknown:
            raise OptionError(
                f"--make returned '{unknown[0]}', which is no parameter of {self.source.name}",
                place, code="K115", hint=f"its parameters are {', '.join(names)}",
            )  # fmt: skip
        return dict(made)

    def _grid(self, names: Mapping[str, Any]) -> tuple[int, ...]:
        plan = self.plan
        value = plan.grid(names) if plan.grid is not None else getattr(self.kernel, "grid", None)
        if value is None:
            raise OptionError(
                f"no grid: how many programs of {self.source.name} are to run?",
                plan.place("args") or plan.place("make"), code="K111",
                hint='add --grid, e.g. --grid "cdiv(n, BLOCK)"',
            )  # fmt: skip
        return read_grid(value, names, plan.place("grid"))

    # -- running --------------------------------------------------------------------------
    def _execute(
        self, subject: Subject, compiled: CompiledKernel, points: Sequence[Point]
    ) -> BaseException | None:
        plan = self.plan
        record = next(r for r in self.records if r.compiled is compiled)
        if subject.target == "interpreter" and prod(subject.grid) <= MOST_RECORDED_PROGRAMS:
            record.access = recorded_accesses(subject)
        verdicts: list[Verdict] = []
        if not plan.timed and len(points) == 1:
            verdicts = self._once(subject, record)
        elif not plan.timed:
            for point in points:
                verdicts += self._once(point.build(), record)
        else:
            if subject.target == "interpreter":
                raise OptionError(
                    "--bench needs a device or --target cpu", plan.place("bench"), code="K118"
                )
            record.runs.append(launch_record(subject, None))
            benches, verdicts = time_points(
                points, self._competitors, self._check if plan.checked else None, self._work,
                name=self.source.name, gpu=subject.gpu, metric=plan.metric, warm=plan.warm,
            )  # fmt: skip
            record.runs += [*(verdict.record for verdict in verdicts), *benches]
        failed = [verdict for verdict in verdicts if verdict.error is not None]
        return failed[0].error if failed else None

    def _once(self, subject: Subject, record: Record) -> list[Verdict]:
        start = time.perf_counter()
        if not self.plan.checked:
            subject.launch()
            synchronize(subject)
            record.runs.append(launch_record(subject, (time.perf_counter() - start) * 1e3))
            return []
        verdict = self._check(subject)
        record.runs += [launch_record(subject, None), verdict.record]
        return [verdict]

    def _check(self, subject: Subject) -> Verdict:
        plan = self.plan
        return check_launch(
            subject, plan.reference, plan.reference_text or "the interpreter",
            rtol=plan.rtol, atol=plan.atol, place=plan.place("check"),
            synchronize=lambda: synchronize(subject),
        )  # fmt: skip

    def _competitors(self, subject: Subject) -> list[Competitor]:
        return [self._competitor(peer, subject) for peer in self.plan.peers]

    def _competitor(self, peer: Peer, subject: Subject) -> Competitor:
        if peer.call is not None:
            call, names = peer.call, subject.names()
            return Competitor(peer.name, lambda: call_by_name(call, names))
        if peer.text is not None:
            return expression_call(peer.name, peer.text, self.plan.namespace, subject)
        text = self.plan.reference_text if self.plan.reference is not None else None
        return known_call(peer.name, text, self.plan.namespace, subject, self.previous)

    def _work(self, subject: Subject, x: Mapping[str, Any]) -> tuple[float | None, float | None]:
        flops, moved = counted_work(subject)
        names = {**x, **subject.names()}
        if self.plan.flops is not None:
            flops = float(self.plan.flops(names))
        if self.plan.bytes is not None:
            moved = float(self.plan.bytes(names))
        return flops, moved


def without_runs(compiled: CompiledKernel) -> Any:
    """Return a compilation's trace without the launches that others recorded in it."""
    return replace(compiled.trace, runs=Runs())


def split_settings(source: KernelSource, plan: Plan) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (constexprs, options) of `--set`; raises OptionError K112 for unknown names."""
    names = {parameter.name for parameter in source.parameters}
    constants = {name: value for name, value in plan.settings.items() if name in names}
    options = {
        SHORT_FORMS.get(name, name): value
        for name, value in plan.settings.items()
        if name not in names
    }
    try:
        check_options(options, source)
    except KernelError as error:
        raise error.at(plan.place("settings")) from None
    return constants, {name: options[name] for name in options if name in DEFAULTS}


def defaults(source: KernelSource) -> dict[str, Any]:
    """Return the constexpr parameters that have a default."""
    return {p.name: p.default for p in source.parameters if p.is_constexpr and not p.required}


def read_grid(value: Any, names: Mapping[str, Any], place: Span | None) -> tuple[int, ...]:
    """Return a grid as 1 to 3 integers from 0 up; raises OptionError K111."""
    if callable(value):
        value = call_by_name(value, names)
    given = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    try:
        grid = tuple(extent.__index__() for extent in given)
    except AttributeError:
        grid = ()
    if not 1 <= len(grid) <= 3 or len(grid) != len(given) or min(grid) < 0:
        raise OptionError(
            f"--grid needs 1 to 3 integers ≥ 0 (0: nothing runs), got {value!r}", place, code="K111"
        )
    return grid


def synchronize(subject: Subject) -> None:
    """Wait until the device has done everything, so that its errors come up here."""
    if subject.gpu:
        import torch

        torch.cuda.synchronize()


def seed_torch() -> None:
    """Make what --make draws the same in every run; it may seed itself afterwards."""
    import torch

    torch.manual_seed(0)


def chip() -> str:
    """Return the chip of device 0 with its `a` suffix where there is one."""
    import torch

    major, minor = torch.cuda.get_device_capability(0)
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


def launch_record(subject: Subject, milliseconds: float | None) -> Launch:
    """Return the record of one launch."""
    where = "cpu"
    if subject.target == "interpreter":
        where = "interpreter"
    elif subject.gpu:
        array = next(value for value in subject.arguments.values() if on_gpu(value))
        where = str(array.device)
    return Launch(
        t=time.time(),
        grid=subject.grid,
        device=where,
        milliseconds=milliseconds,
        args=tuple(_argument(name, value) for name, value in subject.arguments.items()),
    )


def _argument(name: str, value: Any) -> LaunchArgument:
    if not is_array(value):
        plain = value if isinstance(value, (bool, int, float, str)) else str(value)
        return LaunchArgument(name=name, type=type(value).__name__, value=plain)
    item = max(1, bytes_of(value) // max(1, prod(shape_of(value))))
    numpy_strides = getattr(value, "strides", None)
    stride = tuple(s // item for s in numpy_strides) if numpy_strides else tuple(value.stride())
    return LaunchArgument(
        name=name, type=f"*{dtype_of(value)}", shape=shape_of(value), stride=stride
    )
