"""Kernel objects: what `@jit` makes of a function, and how it is launched.

    @jit
    def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr): ...

    add[(cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)

Decorating never compiles and never rejects; errors surface at the first launch or warmup.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial, update_wrapper
from hashlib import sha256
from typing import Any

from workbench.runtime import fastpath
from workbench.runtime.binding import (
    Call,
    Policy,
    bind_names,
    choose_target,
    classify,
    policies_of,
)
from workbench.runtime.compiled import CompiledKernel
from workbench.runtime.compiling import obtain
from workbench.runtime.grids import Grid, resolve_grid
from workbench.runtime.launching import NOT_GIVEN, Runner, current_stream, load, run_grid
from workbench.source import KernelError, KernelSource, LaunchError, OptionError, kernel_source
from workbench.source.captures import Captures, captures


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """One launch, as observers see it: `values` are all parameters by name, as given."""

    kernel: CompiledKernel
    grid: Grid
    values: Mapping[str, Any]
    device: int


_observers: list[Callable[[LaunchRecord], object]] = []


@contextmanager
def observing(observer: Callable[[LaunchRecord], object]) -> Iterator[None]:
    """Have `observer` called after every launch within the block; launches are slower meanwhile."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


class KernelInterface:
    """What everything that is launched as `kernel[grid](...)` has in common."""

    def run(self, *args: Any, grid: Any, warmup: bool = False, **given: Any) -> Any:
        """Launch, or with `warmup` only compile; returns the compiled kernel."""
        raise TypeError(f"{type(self).__name__} does not say how it runs")

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Return a callable that launches over `grid`."""
        return lambda *args, **given: self.run(*args, grid=grid, warmup=False, **given)

    def warmup(self, *args: Any, grid: Any = None, **given: Any) -> Any:
        """Compile for these arguments without launching; torch dtypes may stand for tensors."""
        return self.run(*args, grid=grid, warmup=True, **given)


class JITFunction(KernelInterface):
    """A kernel, or a function that kernels call.

    Attributes:
        fn: the Python function.
        results: the compiled kernels of this object, the latest last.
    """

    __name__: str
    __qualname__: str

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        version: object = None,
        repr: Callable[[Any], str] | None = None,  # noqa: A002 - Triton's word
        launch_metadata: Callable[..., Any] | None = None,
        do_not_specialize: Sequence[str | int] = (),
        do_not_specialize_on_alignment: Sequence[str | int] = (),
        debug: bool | None = None,
        noinline: bool = False,
        grid: Any = None,
    ) -> None:
        self.fn = fn
        self.version = version
        self.repr = repr
        self.launch_metadata = launch_metadata
        self.do_not_specialize = tuple(do_not_specialize or ())
        self.do_not_specialize_on_alignment = tuple(do_not_specialize_on_alignment or ())
        self.debug = debug
        self.noinline = noinline
        self.grid = grid
        self.results: list[CompiledKernel] = []
        self.pre_run_hooks: list[Callable[..., object]] = []
        self._source: KernelSource | KernelError = _read(fn)
        self._captures: Captures | None = None
        self._launch: Callable[..., Any] = self._first_launch
        self._fast: fastpath.FastPath | None = None
        self._lock = threading.RLock()
        update_wrapper(self, fn)

    # -- what it is -----------------------------------------------------------------------
    @property
    def kernel_source(self) -> KernelSource:
        """The function as data; raises CompileError K216 where its text could not be read."""
        if isinstance(self._source, KernelError):
            raise self._source
        return self._source

    @property
    def arg_names(self) -> list[str]:
        """Names of the parameters, in order."""
        return list(inspect.signature(self.fn).parameters)

    @property
    def params(self) -> tuple[Any, ...]:
        """The parameters with what is declared of them."""
        return self.kernel_source.parameters

    @property
    def constexprs(self) -> list[int]:
        """Places of the constexpr parameters."""
        return [n for n, p in enumerate(self.kernel_source.parameters) if p.is_constexpr]

    @property
    def src(self) -> str:
        """The function's text, from its `def` on."""
        return self.kernel_source.text

    def _unsafe_update_src(self, text: str) -> None:
        """Replace the function's text; the function object itself stays what it was."""
        source = self.kernel_source
        self._source = KernelSource(
            source.name,
            text,
            source.file,
            source.first_line,
            source.indent,
            source.function,
            source.names,
        )
        self._forget()

    @property
    def cache_key(self) -> str:
        """A hash over the function, what it calls, and the values that it captures."""
        found = self.captures
        parts = [source.text for source in found.sources]
        parts += [f"{where} {value}" for where, value in found.values]
        return sha256("\n".join(parts).encode()).hexdigest()

    @property
    def captures(self) -> Captures:
        """What the function reaches outside itself, as of now."""
        if self._captures is None or not self._captures.unchanged():
            self._captures = captures(self.kernel_source)
            self._forget(keep_captures=True)
        return self._captures

    @cached_property
    def _policies(self) -> tuple[Policy, ...]:
        return policies_of(
            self.kernel_source, self.do_not_specialize, self.do_not_specialize_on_alignment
        )

    @property
    def device_caches(self) -> dict[int, list[CompiledKernel]]:
        """Compiled kernels by device."""
        found: dict[int, list[CompiledKernel]] = {}
        for kernel in self.results:
            for device in kernel.loaded:
                found.setdefault(device, []).append(kernel)
        return found

    def _forget(self, *, keep_captures: bool = False) -> None:
        self._launch = self._first_launch
        self._fast = None
        if not keep_captures:
            self._captures = None

    # -- launching ------------------------------------------------------------------------
    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Return a callable that launches over 1 to 3 integers or a function of the meta dict."""
        if _observers or self.pre_run_hooks:
            return partial(self._call, grid)
        return partial(self._launch, grid)

    def __call__(self, *args: Any, **given: Any) -> Any:
        """Launch over the grid that `kernel(grid=...)` gave; without one this is an error."""
        if self.grid is None:
            raise LaunchError(
                f"{self.__name__} is a kernel: it is launched with a grid, or called in a kernel",
                hint=f"write {self.__name__}[grid](...)",
                code="K507",
            )
        return self[self._own_grid](*args, **given)

    @property
    def _own_grid(self) -> Any:
        """The grid of `kernel(grid=...)` as a function of the dict of all arguments."""
        grid = self.grid
        if not callable(grid):
            return grid
        names = list(inspect.signature(grid).parameters)
        if names == ["meta"] or not set(names) <= set(self.arg_names):
            return grid
        return lambda meta: grid(**{name: meta[name] for name in names})

    def run(self, *args: Any, grid: Any, warmup: bool = False, **given: Any) -> Any:
        """Launch, or with `warmup` only compile; returns the compiled kernel.

        Args:
            args: positional arguments of the kernel.
            grid: 1 to 3 integers, or a function of the dict of all arguments.
            warmup: compile only; torch dtypes may stand for tensors.
            given: further arguments by name, compile options, `stream=` (a number or a torch
                stream), `target=` ("cpu", "interpreter", a chip), `device="cpu"`.
        """
        if warmup:
            return self._compile_only(args, given, grid)
        return self._call(grid, *args, **given)

    @property
    def interpret(self) -> _Interpreted:
        """`kernel.interpret[grid](...)` runs the same launch in the interpreter."""
        return _Interpreted(self)

    def add_pre_run_hook(self, hook: Callable[..., object]) -> None:
        """Have `hook` called with the arguments of every launch before it runs."""
        self.pre_run_hooks.append(hook)

    def _compile_only(
        self, args: Sequence[Any], given: dict[str, Any], grid: Any
    ) -> CompiledKernel:
        call, target, _ = self._bind(args, given)
        sizes = None if grid is None else resolve_grid(grid, lambda: call.values)
        return self._obtain(call, target, sizes)

    def _bind(self, args: Sequence[Any], given: Mapping[str, Any]) -> tuple[Call, str, int]:
        call = bind_names(self.kernel_source, args, given)
        if self.debug:
            call.options.setdefault("debug", True)
        classify(self.kernel_source, self._policies, call)
        target, device = choose_target(self.kernel_source, call)
        if target is None or target == "auto":
            from workbench.runtime import cuda

            target = cuda.chip(device)
        return call, target, device

    def _obtain(self, call: Call, target: str, grid: Grid | None) -> CompiledKernel:
        signature = call.signature(self.kernel_source)
        fits = None
        if grid is not None and target != "interpreter":
            fits = partial(_fits, integers=call.integers, grid=grid)
        kernel = obtain(self.kernel_source, signature, target, captured=self.captures, fits=fits)
        if kernel not in self.results:
            self.results.append(kernel)
        return kernel

    def _call(self, grid: Any, *args: Any, **given: Any) -> Any:
        """Launch with care and nothing else: every launch with observers or hooks comes here."""
        return self._careful(grid, args, given)[0]

    def _careful(
        self, grid: Any, args: Sequence[Any], given: Mapping[str, Any]
    ) -> tuple[CompiledKernel, Call, Grid, Runner, int]:
        """Bind, compile if need be, run, and tell observers."""
        call, target, device = self._bind(args, given)
        sizes = resolve_grid(grid, lambda: call.values)
        for hook in self.pre_run_hooks:
            hook(*call.values.values())
        kernel = self._obtain(call, target, sizes)
        self._check_outputs(kernel, call)
        stream = _stream_number(call.places.get("stream"), device)
        runner = load(kernel, device)
        values = call.objects if target == "interpreter" else call.runtime
        if len(values) != len(kernel.launch.parameters):
            raise LaunchError(
                f"{kernel.name}: a dtype stands where an array is needed",
                hint="dtypes stand for tensors in warmup only",
            )
        run_grid(runner, kernel, sizes, stream, values)
        for observer in _observers:
            observer(LaunchRecord(kernel, sizes, call.values, device))
        return kernel, call, sizes, runner, device

    def _check_outputs(self, kernel: CompiledKernel, call: Call) -> None:
        """Refuse read-only arrays that the kernel would write."""
        for name, array in call.arrays:
            if not array.writable and name in kernel.launch.outputs:
                raise LaunchError(
                    f"{name} is a read-only array, and {kernel.name} stores to it",
                    hint=f"pass a copy: {name}.copy()",
                    code="K505",
                )

    # -- the fast path --------------------------------------------------------------------
    def _first_launch(self, grid: Any, *args: Any, **given: Any) -> Any:
        """Launch with care, then put generated code in front of later launches."""
        kernel, call, sizes, runner, device = self._careful(grid, args, given)
        self._install(kernel, call, sizes, runner, device)
        return kernel

    def _slow(
        self,
        grid: Any,
        values: dict[str, Any],
        extra: tuple[Any, ...],
        num_warps: Any,
        num_stages: Any,
        options: dict[str, Any],
    ) -> Any:
        """Take over from a launcher that does not know a call."""
        if extra:
            return self._call(grid, *values.values(), *extra, **options)
        given = {name: value for name, value in values.items() if value is not NOT_GIVEN}
        given |= options
        if num_warps is not None:
            given["num_warps"] = num_warps
        if num_stages is not None:
            given["num_stages"] = num_stages
        return self._first_launch(grid, **given)

    def _install(
        self, kernel: CompiledKernel, call: Call, grid: Grid, runner: Runner, device: int
    ) -> None:
        """Put generated code in front of launches like this one."""
        if not fastpath.accepts(self.kernel_source, call):
            return
        gpu = fastpath.on_gpu(device)
        with self._lock:
            if self._fast is None or self._fast.identity != (call.kinds, gpu):
                self._fast = fastpath.FastPath(
                    self.kernel_source, call, gpu, self.captures, self._slow, self._set_launch
                )
            choose = self._chooser(kernel, call, device)
            self._fast.add(kernel, call, grid, runner, choose)

    def _set_launch(self, launch: Callable[..., Any]) -> None:
        self._launch = launch

    def _chooser(self, kernel: CompiledKernel, call: Call, device: int) -> fastpath.Choose:
        """Return what finds the right twin of a kernel for other integers and another grid."""
        received = [name for name, known in call.known if known.type is not None]
        fixed = call.integers
        signature = call.signature(self.kernel_source)
        captured, target = self.captures, kernel.target

        def choose(grid: Grid, values: Sequence[Any]) -> tuple[CompiledKernel, Runner]:
            given = zip(received, values, strict=True)
            integers = fixed | {name: value for name, value in given if name in fixed}
            fits = partial(_fits, integers=integers, grid=grid)
            twin = obtain(self.kernel_source, signature, target, captured=captured, fits=fits)
            if twin not in self.results:
                self.results.append(twin)
            return twin, load(twin, device)

        return choose

    def preload(self, data: str) -> None:
        """Accepted as in Triton; kernels are found on disk by themselves."""

    def __repr__(self) -> str:
        return f"<kernel {self.__module__}.{self.__qualname__}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.__module__, self.__qualname__)


class _Interpreted:
    """`kernel.interpret`."""

    def __init__(self, kernel: JITFunction) -> None:
        self._kernel = kernel

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return partial(self._kernel.run, grid=grid, target="interpreter")


def _read(fn: Callable[..., Any]) -> KernelSource | KernelError:
    """Read the text now, while it is what was compiled; complain only when it is needed."""
    try:
        return kernel_source(fn)
    except KernelError as error:
        return error
    except SyntaxError as error:
        return OptionError(f"the text of {fn.__name__} does not parse: {error}", code="K216")


def _restore(module: str, name: str) -> Any:
    """Find a pickled kernel again by its place."""
    import importlib

    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _fits(program: Any, *, integers: Mapping[str, int], grid: Grid) -> bool:
    return program is not None and bool(program.fits(integers, grid))


def _stream_number(stream: Any, device: int) -> int:
    if stream is None:
        return current_stream(device)
    return int(getattr(stream, "cuda_stream", stream))


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
    if fn is None:
        return lambda function: JITFunction(function, **options)
    if isinstance(fn, JITFunction):
        return fn
    return JITFunction(fn, **options)


def kernel(fn: Callable[..., Any] | None = None, *, grid: Any = None, **options: Any) -> Any:
    """Make a kernel object with a grid of its own: it can then be called like a function.

    Args:
        fn: the function.
        grid: 1 to 3 integers, a function of the parameters that it names, or of the dict `meta`.
        options: those of `jit`.
    """
    if fn is None:
        return lambda function: JITFunction(function, grid=grid, **options)
    return JITFunction(fn, grid=grid, **options)
