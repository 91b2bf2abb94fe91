"""Kernel objects: what `@jit` makes of a function, and how it is launched.

    @jit
    def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr): ...

    add[(cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)

Decorating never compiles and never rejects; errors surface at the first launch or warmup.
"""

from __future__ import annotations

import importlib
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeVar

from workbench.devices.streams import HOST, current_device
from workbench.launch import fastpath
from workbench.launch.abi import Runner
from workbench.launch.binding import (
    Call,
    bind_names,
    check_declared,
    choose_target,
    classify,
    leaves,
)
from workbench.launch.facts import Signature
from workbench.launch.grids import Grid, resolve_grid
from workbench.launch.index_width import fits_launch
from workbench.launch.launchers import NOT_GIVEN, OPTIONS
from workbench.launch.options import option_elsewhere, without_effect
from workbench.runtime import guards, hooks, knobs
from workbench.runtime.bound import load
from workbench.runtime.callables import JITCallable
from workbench.runtime.compiled import CompiledKernel
from workbench.runtime.compiling import obtain
from workbench.runtime.guarded import guarded_runner, written_by
from workbench.runtime.hooks import LaunchRecord, observing
from workbench.runtime.interface import KernelInterface
from workbench.runtime.kernel_caches import DeviceCaches, JitFunctionInfo
from workbench.runtime.launching import (
    check_outputs,
    load_and_run,
    load_once,
    run_bound,
    stream_number,
)
from workbench.source import KernelSource, LaunchError
from workbench.source.captures import Captures, captures_of, reaching
from workbench.source.given import misused, told, wrong_kind
from workbench.source.parameters import Parameter, named_parameters, parameters_of
from workbench.source.watched import guard_key

T = TypeVar("T")

__all__ = [
    "InterpretedFunction", "JITFunction", "JitFunctionInfo", "LaunchRecord",
    "NoGridError", "Plan", "jit", "kernel", "observing",
]  # fmt: skip


class NoGridError(LaunchError, RuntimeError):
    """A kernel that is called like a function (a RuntimeError as in Triton)."""

    code = "K507"


#: Launchers of one kernel that are kept; objects that are made for each call may want one each.
_MOST_PATHS = 16

#: By thread: kernels (their ids) whose latest launcher is asked already for the call in hand.
_asked = threading.local()


@dataclass(frozen=True, slots=True)
class Plan:
    """What one launch compiles, and for which integers and grid indices must be wide enough.

    Without a grid nothing is known of the launch, and indices keep their width.
    """

    source: KernelSource
    signature: Signature
    target: str
    captured: Captures
    integers: dict[str, int]
    grid: Grid | None
    device: int


class JITFunction(JITCallable, KernelInterface[T]):
    """A kernel, or a function that kernels call.

    Attributes:
        fn: the Python function.
        params: its parameters with what is declared of them.
        arg_names: their names.
        constexprs: the places of those that are known at compile time.
        results: the compiled kernels of this object, the latest last.
        device_caches: compiled kernels by device, as Triton keeps them.
        pre_run_hooks: called with the arguments of every launch.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        version: object = None,
        do_not_specialize: Sequence[str | int] | None = None,
        do_not_specialize_on_alignment: Sequence[str | int] | None = None,
        debug: bool | None = None,
        noinline: bool | None = None,
        repr: Callable[[Any], str] | None = None,  # noqa: A002 - Triton's word
        launch_metadata: Callable[..., Any] | None = None,
        *,
        grid: Any = None,
    ) -> None:
        super().__init__(fn)
        self.module = fn.__module__
        self.version = version
        named = partial(named_parameters, self.__name__, self.signature)
        self.do_not_specialize = named("do_not_specialize", do_not_specialize)
        self.do_not_specialize_on_alignment = named(
            "do_not_specialize_on_alignment", do_not_specialize_on_alignment
        )
        self.debug = debug
        self.noinline = noinline
        self.launch_metadata = launch_metadata
        self.grid = grid
        self.params: list[Parameter] = list(
            parameters_of(
                self.signature, self.do_not_specialize, self.do_not_specialize_on_alignment
            )
        )
        self.arg_names = [p.name for p in self.params]
        self.constexprs = [p.num for p in self.params if p.is_constexpr]
        self.results: list[CompiledKernel] = []
        self.pre_run_hooks: list[Callable[..., object]] = []
        self.device_caches = DeviceCaches(self)
        self._repr = repr
        self._named: dict[str, KernelSource] = {}
        self._loaded: set[tuple[str, int]] = set()
        self._launch: Callable[..., Any] = self._first_launch
        #: Options that launchers take by name.
        self._options = OPTIONS
        #: By parameter: the letter that covers the constants it was given so far.
        self._constants = ""
        self._fast: dict[tuple[str, int, tuple[Any, ...]], fastpath.FastPath] = {}

    # -- what it is -----------------------------------------------------------------------
    @property
    def kernel_source(self) -> KernelSource:
        """The function as data; raises CompileError K216 where its text could not be read."""
        return self.text_source

    def is_gluon(self) -> bool:
        """Say whether this is a kernel of Triton's lower language; it never is."""
        return False

    def repr(self, specialization: Any) -> str:
        """Return the name of a specialisation (`.constants`, `.signature`), as `repr=` says."""
        return self._fn_name if self._repr is None else self._repr(specialization)

    @cached_property
    def declared(self) -> tuple[Parameter, ...]:
        """Its parameters; raises ArgumentError where what is declared of one cannot be."""
        return check_declared(self.kernel_source, self.params)

    def forget_text(self) -> None:
        """Forget everything that was derived from the text, here or in what it calls."""
        super().forget_text()
        self._named.clear()
        self.forget_launches()

    def captures_changed(self) -> None:
        """A captured name means something else now: what was generated no longer holds."""
        self.forget_launches()

    def forget_launches(self) -> None:
        """Drop the generated launchers; the next launch is made with care."""
        self._launch = self._first_launch
        self._fast = {}

    # -- launching ------------------------------------------------------------------------
    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Return a callable that launches over 1 to 3 integers or a function of the meta dict."""
        if hooks.watchers or self.pre_run_hooks:
            return partial(self._call, grid)
        return partial(self._launch, grid)

    def __call__(self, *args: Any, **given: Any) -> Any:
        """Launch over the grid that `kernel(grid=...)` gave; without one this is an error."""
        if self.grid is None:
            raise self.without_grid(f"write {self.__name__}[grid](...)")
        return self[self.own_grid](*args, **given)

    def without_grid(self, hint: str) -> NoGridError:
        """Return the error for a launch that names no grid."""
        said = f"{self.__name__} is a kernel: it is launched with a grid, or called in a kernel"
        return NoGridError(said, hint=hint)

    @property
    def own_grid(self) -> Any:
        """The grid of `kernel(grid=...)` as a function of the dict of all arguments."""
        grid = self.grid
        if not callable(grid):
            return grid
        try:
            names = list(inspect.signature(grid).parameters)
        except ValueError:  # a function of C
            return grid
        if names == ["meta"] or not set(names) <= set(self.arg_names):
            return grid
        return lambda meta: grid(**{name: meta[name] for name in names})

    def run(self, *args: Any, grid: Any = NOT_GIVEN, warmup: bool = False, **given: Any) -> Any:
        """Launch, or with `warmup` only compile; returns the compiled kernel.

        Args:
            args: positional arguments of the kernel.
            grid: 1 to 3 integers, or a function of the dict of all arguments.
            warmup: compile only; torch dtypes may stand for tensors.
            given: further arguments by name, compile options, `stream=` (a number or a torch
                stream), `target=` ("cpu", "interpreter", a chip), `device="cpu"`, `guard=`
                (whether a launch on the CPU is guarded).
        """
        if grid is NOT_GIVEN:
            raise self.without_grid(f"write {self.__name__}.run(..., grid=(...,))")
        if warmup:
            return self._compile_only(args, given, grid)
        if hooks.watchers or self.pre_run_hooks:
            return self._call(grid, *args, **given)
        return self._launch(grid, *args, **given)

    @property
    def interpret(self) -> _Interpreted:
        """`kernel.interpret[grid](...)` runs the same launch in the interpreter and watches it."""
        return _Interpreted(self)

    def add_pre_run_hook(self, hook: Callable[..., object]) -> None:
        """Have `hook` called with the arguments of every launch before it runs."""
        self.pre_run_hooks.append(hook)

    def _compile_only(
        self, args: Sequence[Any], given: dict[str, Any], grid: Any
    ) -> CompiledKernel | None:
        call, target, device = self._bind(args, given, launches=False)
        sizes = None if grid is None else resolve_grid(grid, lambda: call.values)
        return self._obtain(call, target, device, sizes, warmup=True)

    def _bind(
        self, args: Sequence[Any], given: Mapping[str, Any], *, launches: bool = True
    ) -> tuple[Call, str, int]:
        call = bind_names(self.kernel_source, args, given)
        if knobs.runtime.debug:
            call.options["debug"] = True
        elif self.debug:
            call.options.setdefault("debug", True)
        if not knobs.language.default_fp_fusion:
            call.options.setdefault("enable_fp_fusion", False)
        classify(self.kernel_source, self.declared, call)
        target, device = choose_target(self.kernel_source, call, launches=launches)
        if target is None or target == "auto":
            from workbench.devices import cuda

            target = cuda.chip(device)
        return call, target, device

    def _obtain(
        self,
        call: Call,
        target: str,
        device: int,
        grid: Grid | None,
        *,
        warmup: bool = False,
        guarded: bool = False,
    ) -> CompiledKernel | None:
        """Return the kernel for a call; None where `jit_cache_hook` forbids it."""
        signature = call.signature(self.kernel_source)
        source = self._source_for(signature)
        fits = None
        if grid is not None and target != "interpreter":
            fits = partial(fits_launch, integers=call.integers, grid=grid)
        known = self.device_caches[device][0]
        extra = without_effect(call.options)
        key = known.key(signature, target, extra)
        new = key not in known
        if new and known.ask(key, signature, target, extra, warmup=warmup):
            return None
        always = new and knobs.compilation.always_compile
        kernel = obtain(
            source, signature, target, captured=self.captures, fits=fits, cached=not always,
            guarded=guarded,
        )  # fmt: skip
        known[key] = kernel
        if new:
            known.tell(key, signature, target, extra, warmup=warmup)
        if kernel not in self.results:
            self.results.append(kernel)
        return kernel

    def plan(self, *args: Any, grid: Any, **given: Any) -> Plan:
        """Return what a launch would compile, without compiling it."""
        return self._plan(args, given, grid, launches=True)

    def plan_elsewhere(self, *args: Any, grid: Any, **given: Any) -> Plan:
        """Return what a launch would compile for a `target` that its arrays need not be on."""
        return self._plan(args, given, grid, launches=False)

    def _plan(
        self, args: Sequence[Any], given: Mapping[str, Any], grid: Any, *, launches: bool
    ) -> Plan:
        call, target, device = self._bind(args, given, launches=launches)
        sizes = resolve_grid(grid, lambda: call.values)
        signature = call.signature(self.kernel_source)
        source = self._source_for(signature)
        return Plan(source, signature, target, self.captures, call.integers, sizes, device)

    def _source_for(self, signature: Any) -> KernelSource:
        """Return the source, under the name that `repr=` gives to this specialisation."""
        if self._repr is None:
            return self.kernel_source
        name = "".join(c if c.isalnum() else "_" for c in self._repr(signature.proxy()))
        found = self._named.get(name)
        if found is None:
            made = replace(self.kernel_source, name=name or self.__name__)
            found = self._named.setdefault(name, made)
        return found

    def _call(self, grid: Any, /, *args: Any, **given: Any) -> Any:
        """Launch with care and nothing else: every launch that is watched comes here."""
        if hooks.is_suppressed():
            return None
        done = self._careful(grid, args, given)
        return None if done is None else done[0]

    def _careful(
        self, grid: Any, args: Sequence[Any], given: Mapping[str, Any]
    ) -> tuple[CompiledKernel, Call, Runner, int] | None:
        """Bind, compile if need be, run, and tell who watches."""
        for hook in self.pre_run_hooks:
            hook(*args, **given)
        call, target, device = self._bind(args, given)
        sizes = resolve_grid(grid, lambda: call.values)
        guarded = target == "cpu" and guards.is_on(call.places.get("guard"))
        kernel = self._obtain(call, target, device, sizes, guarded=guarded)
        if kernel is None:
            return None
        check_outputs(kernel, call)
        if guarded and kernel.hulls is None:
            # Its code without checks is assembled when somebody looks at it, or wants it to run.
            plain = partial(load_and_run, kernel, device)
        else:
            plain = load_once(kernel, device, self._loaded)
        runner = plain
        if guarded:
            runner = guarded_runner(kernel, call, plain, load, self.captures)
            if guards.is_trying():
                guards.keep(written_by(kernel, call), call.objects)
        stream = stream_number(call.places.get("stream"), device)
        watched = None
        if hooks.watchers:
            watched = LaunchRecord(kernel, sizes, call.values, device, call.asked, grid)
            hooks.tell_before(watched)
        run_bound(kernel, call, sizes, runner, stream, self.declared, self.launch_metadata)
        if watched is not None:
            hooks.tell_observers(watched)
        return kernel, call, plain, device

    # -- the fast path --------------------------------------------------------------------
    def _first_launch(self, grid: Any, /, *args: Any, **given: Any) -> Any:
        """Launch with care, unless `kernel[grid]` was kept from before there was generated code."""
        if self._launch != self._first_launch:
            return self._launch(grid, *args, **given)
        return self._launch_and_install(grid, *args, **given)

    def _launch_and_install(self, grid: Any, /, *args: Any, **given: Any) -> Any:
        """Launch with care, then put generated code in front of later launches."""
        done = self._careful(grid, args, given)
        if done is None:
            return None
        kernel, call, runner, device = done
        self._install(kernel, call, runner, device)
        return kernel

    def _slow(
        self,
        grid: Any,
        values: dict[str, Any],
        extra: tuple[Any, ...],
        options: dict[str, Any],
    ) -> Any:
        """Take over from a launcher that does not know a call.

        It may be one that was kept while launches of another kind became the latest, or an earlier
        one knows: objects by turns have one each.
        """
        options = {name: value for name, value in options.items() if value is not NOT_GIVEN}
        if extra:
            return self._call(grid, *values.values(), *extra, **options)
        values = {name: value for name, value in values.items() if value is not NOT_GIVEN}
        given = values | options
        asked: set[int] = _asked.__dict__.setdefault("kernels", set())
        if id(self) in asked:
            return self._launch_and_install(grid, **given)
        asked.add(id(self))
        try:
            for path in reversed(list(self._fast.values())):
                if path.knows(values, options):
                    path.activate()
                    break
            return self._launch(grid, **given)
        finally:
            asked.discard(id(self))

    def _install(self, kernel: CompiledKernel, call: Call, runner: Runner, device: int) -> None:
        """Put generated code in front of launches like this one."""
        guarded = kernel.target == "cpu" and guards.is_on()
        if guards.is_trying() or not fastpath.accepts(self.kernel_source, call, guarded=guarded):
            return
        gpu = fastpath.on_gpu(device)
        # What functions, classes and objects among the arguments reach is watched as well.
        reached = [
            guard
            for one in reaching(tuple(call.values.values()))
            for guard in captures_of(one).guards
        ]
        if kernel.target == "cpu":
            reached.append((guards.STATE, "on", guarded))
        reached += knobs.deciding_launches()
        watched = replace(self.captures, guards=[*self.captures.guards, *reached])
        # Where an array says it, one launcher serves all GPUs.
        place = int(gpu) if "t" in call.kinds else device
        with self._lock:
            # Calls with an option and without it share a launcher, which would change else.
            options = self._options = fastpath.with_options(self._options, call)
            # Constants of two kinds share one as well.
            before, self._constants = self._constants, fastpath.widen(self._constants, call)
            if "k" in self._constants and self._constants != before:
                self._fast.clear()  # paths for one kind of constants are not taken any more
            identity = call.kinds, place, (options, guarded, *map(guard_key, reached))
            path = self._fast.pop(identity, None)
            if path is None:
                path = fastpath.FastPath(
                    self.kernel_source,
                    call,
                    gpu,
                    watched,
                    self._slow,
                    self._set_launch,
                    device,
                    options=options,
                    guarded=guarded,
                )
            self._fast[identity] = path  # the latest last
            if len(self._fast) > _MOST_PATHS:
                del self._fast[next(iter(self._fast))]
            choose = self._chooser(kernel, call, device)
            checked = self._chooser(kernel, call, device, checked=True) if guarded else None
            path.add(kernel, call, runner, choose, checked)
            path.activate()

    def _set_launch(self, launch: Callable[..., Any]) -> None:
        self._launch = launch

    def _chooser(
        self, kernel: CompiledKernel, call: Call, device: int, *, checked: bool = False
    ) -> fastpath.Choose:
        """Return what finds the right twin of a kernel for other integers and another grid.

        `checked`: the one of its checked code.
        """
        received = [
            path
            for name, known in call.known
            for path, leaf, _ in leaves(name, known, call.values[name])
            if leaf.type is not None
        ]
        fixed = call.integers
        signature = call.signature(self.kernel_source)
        source, captured, target = kernel.source, self.captures, kernel.target

        def choose(grid: Grid, values: Sequence[Any]) -> tuple[CompiledKernel, Runner]:
            given = zip(received, values, strict=True)
            integers = fixed | {name: value for name, value in given if name in fixed}
            fits = partial(fits_launch, integers=integers, grid=grid)
            if checked:
                code = kernel.checked(captured, fits)
                return code, load(code, device)
            twin = obtain(source, signature, target, captured=captured, fits=fits)
            if twin not in self.results:
                self.results.append(twin)
            return twin, load(twin, device)

        return choose

    def preload(self, specialization_data: str) -> CompiledKernel | None:
        """Compile ahead what compile hooks have written down (`specialization_data`)."""
        from workbench.runtime.preloading import read_specialization

        signature, target = read_specialization(specialization_data, self._fn_name)
        source = self._source_for(signature)
        # Which launches will follow is not known; nearly all have indices of 32 bits.
        fits = None if target == "interpreter" else _has_program
        kernel = obtain(source, signature, target, captured=self.captures, fits=fits)
        device = HOST if not target.startswith("sm_") else current_device()
        known = self.device_caches[device][0]
        known[known.key(signature, target, {})] = kernel
        return kernel

    def __repr__(self) -> str:
        return f"<kernel {self.__module__}.{self.__qualname__}>"

    def __reduce__(self) -> tuple[Any, ...]:
        # By name: it makes kernels of what it reads.
        return importlib.import_module("workbench.runtime.pickling").reduce_by_place(self)


class _Interpreted:
    """`kernel.interpret`."""

    def __init__(self, kernel: JITFunction) -> None:
        self._kernel = kernel

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        from workbench.runtime.interpreted import run_watched

        return partial(run_watched, self._kernel, grid)


class InterpretedFunction(JITFunction[T]):
    """A kernel that always runs in the interpreter: what `jit` makes under TRITON_INTERPRET."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Return a callable that runs over 1 to 3 integers or a function of the meta dict."""
        return partial(self.run, grid=grid)

    def run(self, *args: Any, grid: Any = NOT_GIVEN, warmup: bool = False, **given: Any) -> Any:
        """Run in the interpreter, or with `warmup` only make the tile IR."""
        return super().run(*args, grid=grid, warmup=warmup, **{"target": "interpreter", **given})


def _has_program(program: Any) -> bool:
    return program is not None


@told("jit", option_elsewhere)
def jit(
    fn: Callable[..., Any] | None = None,
    *,
    version: object = None,
    repr: Callable[[Any], str] | None = None,  # noqa: A002 - Triton's word
    launch_metadata: Callable[..., Any] | None = None,
    do_not_specialize: Sequence[str | int] = (),
    do_not_specialize_on_alignment: Sequence[str | int] = (),
    debug: bool | None = None,
    noinline: bool = False,
) -> Any:
    """Make a kernel object of a function; bare or with Triton's arguments.

    Args:
        fn: the function.
        version: accepted; our compile key holds the text itself.
        repr: names the kernel from its specialisation.
        launch_metadata: function(grid, metadata, args) for profilers.
        do_not_specialize: parameters (names or places) whose value is never looked at.
        do_not_specialize_on_alignment: parameters whose divisibility is never looked at.
        debug: turn device assertions on.
        noinline: accepted; helpers are inlined.
    """
    options: dict[str, Any] = {
        "version": version,
        "repr": repr,
        "launch_metadata": launch_metadata,
        "do_not_specialize": do_not_specialize,
        "do_not_specialize_on_alignment": do_not_specialize_on_alignment,
        "debug": debug,
        "noinline": noinline,
    }
    make = InterpretedFunction if knobs.runtime.interpret else JITFunction
    if fn is None:
        return lambda function: make(_function(function), **options)
    if isinstance(fn, JITFunction):
        return fn
    return make(_function(fn), **options)


def _function(value: Any) -> Any:
    """Return a Python function, or what stands for one; raises K105 for anything else."""
    kinds = (type, KernelInterface)
    if not callable(value) or isinstance(value, kinds) or not hasattr(value, "__qualname__"):
        hint = "write @triton.jit above a def"
        if isinstance(value, KernelInterface):
            hint = "@triton.jit stands next to the def, below all other decorators of a kernel"
        elif isinstance(value, tuple) or type(value) is int:
            hint = "the grid is given at the launch, kernel[grid](...), or by @kernel(grid=...)"
        raise wrong_kind("jit takes a Python function", value, hint)
    return value


@told("kernel", option_elsewhere)
def kernel(fn: Callable[..., Any] | None = None, *, grid: Any = None, **options: Any) -> Any:
    """Make a kernel object with a grid of its own: it can then be called like a function.

    Args:
        fn: the function.
        grid: 1 to 3 integers, a function of the parameters that it names, or of the dict `meta`.
        options: those of `jit`.
    """
    if not options.keys() <= inspect.signature(jit).parameters.keys():
        raise misused("kernel", jit, options, "", option_elsewhere)
    if fn is None:
        return lambda function: JITFunction(_function(function), grid=grid, **options)
    return JITFunction(_function(fn), grid=grid, **options)
