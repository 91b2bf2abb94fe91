"""Choosing between configurations by measuring them, and arguments computed from others.

Configurations are tried one after the other at the first launch with a new key; what was found is
forgotten when the process ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from workbench.runtime import arrays
from workbench.runtime.jit import JITFunction, KernelInterface
from workbench.source import CompileError, KernelError, KernelSource, OptionError


class ConflictError(OptionError, ValueError):
    """A value that both the caller and a configuration give."""

    code = "K112"


class AutotunerError(KernelError):
    """A search that has nothing to choose from."""

    code = "K130"


class Config:
    """One configuration: values of constexprs, and compile options.

    Attributes:
        kwargs: constexprs by name.
        pre_hook: called with the dict of all arguments before each run with this configuration.
    """

    def __init__(
        self,
        kwargs: Mapping[str, Any],
        num_warps: int | None = 4,
        num_stages: int | None = 3,
        num_ctas: int = 1,
        maxnreg: int | None = None,
        pre_hook: Callable[[dict[str, Any]], object] | None = None,
        ir_override: str | None = None,
    ) -> None:
        self.kwargs = dict(kwargs)
        self.num_warps = num_warps
        self.num_stages = num_stages
        self.num_ctas = num_ctas
        self.maxnreg = maxnreg
        self.pre_hook = pre_hook
        self.ir_override = ir_override

    def all_kwargs(self) -> dict[str, Any]:
        """Return constexprs and set options in one dict."""
        options = {
            "num_warps": self.num_warps,
            "num_stages": self.num_stages,
            "num_ctas": self.num_ctas,
            "maxnreg": self.maxnreg,
        }
        return {**self.kwargs, **{k: v for k, v in options.items() if v is not None}}

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value}" for name, value in self.all_kwargs().items())

    def __repr__(self) -> str:
        return f"Config({self})"

    def _identity(self) -> tuple[Any, ...]:
        return (tuple(sorted(self.all_kwargs().items())), self.pre_hook)

    def __hash__(self) -> int:
        return hash(self._identity())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self._identity() == other._identity()


class _Wrapper(KernelInterface):
    """A kernel object around another one."""

    def __init__(self, fn: Any) -> None:
        self.fn = fn
        self.base_fn = getattr(fn, "base_fn", getattr(fn, "fn", fn))
        for name in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(self, name, getattr(fn, name, None))

    @property
    def kernel_source(self) -> KernelSource:
        """The function as data."""
        return self.fn.kernel_source

    @property
    def arg_names(self) -> list[str]:
        """Names of the parameters, in order."""
        return self.fn.arg_names

    @property
    def results(self) -> list[Any]:
        """The compiled kernels, the latest last."""
        return self.fn.results

    @property
    def interpret(self) -> Any:
        """`kernel.interpret[grid](...)` runs the launch in the interpreter, without tuning."""
        return _Interpreted(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__["fn"], name)


class _Interpreted:
    def __init__(self, kernel: _Wrapper) -> None:
        self._kernel = kernel

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return partial(self._kernel.run, grid=grid, target="interpreter")


class Autotuner(_Wrapper):
    """A kernel that measures its configurations at the first launch with a new key.

    Attributes:
        cache: the chosen configuration by key.
        best_config: the configuration of the latest launch.
        configs_timings: the timings of the latest search by configuration (infinite: it failed).
    """

    def __init__(
        self,
        fn: Any,
        configs: Sequence[Config],
        key: Sequence[str],
        *,
        prune_configs_by: Mapping[str, Any] | None = None,
        reset_to_zero: Sequence[str] | None = None,
        restore_value: Sequence[str] | None = None,
        pre_hook: Callable[..., object] | None = None,
        post_hook: Callable[..., object] | None = None,
        warmup: float | None = None,
        rep: float | None = None,
        do_bench: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(fn)
        self.configs = list(configs) or [Config({}, num_warps=None, num_stages=None)]
        self.keys = list(key)
        self.prune = dict(prune_configs_by or {})
        self.reset_to_zero = list(reset_to_zero or ())
        self.restore_value = list(restore_value or ())
        self.pre_hook = pre_hook
        self.post_hook = post_hook
        self.warmup_milliseconds = 25.0 if warmup is None else warmup
        self.rep_milliseconds = 100.0 if rep is None else rep
        self.do_bench = do_bench
        self.cache: dict[tuple[Any, ...], Config] = {}
        self.best_config: Config | None = None
        self.configs_timings: dict[Config, Any] = {}

    def run(self, *args: Any, grid: Any, warmup: bool = False, **given: Any) -> Any:
        """Launch with the best configuration for the key; with `warmup` compile all of them."""
        named = {**dict(zip(self.arg_names, args, strict=False)), **given}
        self._check_conflicts(named)
        if warmup:
            return [
                self.fn.run(*args, grid=grid, warmup=True, **{**given, **config.all_kwargs()})
                for config in self._pruned(named, given)
            ]
        if len(self.configs) == 1 or given.get("target") == "interpreter":
            config = self.configs[0]
        else:
            config = self._chosen(named, args, grid, given)
        self.best_config = config
        self._call_hook(config, named)
        return self.fn.run(*args, grid=grid, **{**given, **config.all_kwargs()})

    def _check_conflicts(self, named: Mapping[str, Any]) -> None:
        for config in self.configs:
            both = sorted(set(config.kwargs) & set(named))
            if both:
                raise ConflictError(
                    f"{', '.join(both)} is given by the caller and by a configuration",
                    hint="leave it out of the call, or out of the Configs",
                )

    def _key(self, named: Mapping[str, Any]) -> tuple[Any, ...]:
        values = [named[name] for name in self.keys if name in named]
        dtypes = [str(value.dtype) for value in named.values() if hasattr(value, "dtype")]
        return (*values, *dtypes)

    def _chosen(
        self, named: dict[str, Any], args: Sequence[Any], grid: Any, given: dict[str, Any]
    ) -> Config:
        key = self._key(named)
        config = self.cache.get(key)
        if config is None:
            config = self._search(named, args, grid, given)
            self.cache[key] = config
        return config

    def _search(
        self, named: dict[str, Any], args: Sequence[Any], grid: Any, given: dict[str, Any]
    ) -> Config:
        timings: dict[Config, Any] = {}
        failed: KernelError | None = None
        for config in self._pruned(named, given):
            try:
                timings[config] = self._time(config, named, args, grid, given)
            except CompileError as error:  # too much shared memory, a static_assert, ...
                failed = failed or error
                timings[config] = [float("inf")] * 3
        self.configs_timings = timings
        best = min(timings, key=lambda config: timings[config][0])
        if failed is not None and timings[best][0] == float("inf"):
            raise failed
        self._zero(named)
        return best

    def _time(
        self,
        config: Config,
        named: dict[str, Any],
        args: Sequence[Any],
        grid: Any,
        given: dict[str, Any],
    ) -> Any:
        from workbench.runtime.testing import do_bench

        saved = {name: _copy(named[name]) for name in self.restore_value if name in named}

        def call() -> None:
            self._call_hook(config, named)
            self._zero(named)
            if self.pre_hook is not None:
                self.pre_hook(named)
            try:
                self.fn.run(*args, grid=grid, **{**given, **config.all_kwargs()})
            finally:
                if self.post_hook is not None:
                    self.post_hook(named)
                for name, value in saved.items():
                    _assign(named[name], value)

        if self.do_bench is not None:
            return self.do_bench(call, quantiles=(0.5, 0.2, 0.8))
        return do_bench(
            call,
            warmup=self.warmup_milliseconds,
            rep=self.rep_milliseconds,
            quantiles=(0.5, 0.2, 0.8),
        )

    def _call_hook(self, config: Config, named: Mapping[str, Any]) -> None:
        if config.pre_hook is not None:
            config.pre_hook({**named, **config.all_kwargs()})

    def _zero(self, named: Mapping[str, Any]) -> None:
        for name in self.reset_to_zero:
            _clear(named[name])

    def _pruned(self, named: Mapping[str, Any], given: Mapping[str, Any]) -> list[Config]:
        """Return the configurations that are worth measuring, as `prune_configs_by` says."""
        configs = list(self.configs)
        early = self.prune.get("early_config_prune")
        if early is not None:
            configs = list(early(configs, dict(named), **given)) or configs
        model = self.prune.get("perf_model")
        if model is not None:
            most = self.prune.get("top_k", 1.0)
            count = max(1, int(len(configs) * most)) if isinstance(most, float) else int(most)
            cost = {c: model(**{**named, **c.all_kwargs()}) for c in configs}
            configs = sorted(configs, key=lambda c: cost[c])[:count]
        return configs


class Heuristics(_Wrapper):
    """A kernel some of whose arguments are computed from the others, in the order given."""

    def __init__(self, fn: Any, values: Mapping[str, Callable[[dict[str, Any]], Any]]) -> None:
        super().__init__(fn)
        self.values = dict(values)

    def run(self, *args: Any, grid: Any, warmup: bool = False, **given: Any) -> Any:
        """Launch with the computed arguments added."""
        named = dict(zip(self.arg_names, args, strict=False))
        for name, compute in self.values.items():
            given[name] = compute({**named, **given})
        return self.fn.run(*args, grid=grid, warmup=warmup, **given)


def _copy(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else value.copy()


def _assign(target: Any, value: Any) -> None:
    if hasattr(target, "copy_"):
        target.copy_(value)
    else:
        target[...] = value


def _clear(value: Any) -> None:
    if value is None or not arrays.is_array(value):
        return
    if hasattr(value, "zero_"):
        value.zero_()
    else:
        value[...] = 0


def autotune(
    configs: Sequence[Config],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Callable[..., object] | None = None,
    post_hook: Callable[..., object] | None = None,
    warmup: float | None = None,
    rep: float | None = None,
    use_cuda_graph: bool = False,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool = False,
) -> Callable[[Any], Autotuner]:
    """Measure `configs` at the first launch with a new key, and launch the best one from then on.

    Args:
        configs: the configurations to try.
        key: parameters whose values, with the dtypes of all arrays, select what was found.
        prune_configs_by: functions `early_config_prune` and `perf_model`, and `top_k`.
        reset_to_zero: arrays that are zeroed before each trial and once after them.
        restore_value: arrays that are restored after each trial.
        pre_hook: called with the dict of all arguments before each trial.
        post_hook: called with it after each trial.
        warmup: milliseconds of runs before measuring (25).
        rep: milliseconds to measure (100).
        use_cuda_graph: accepted; runs are timed by events.
        do_bench: replaces the measurement: do_bench(call, quantiles=...) -> list.
        cache_results: accepted; what was found is forgotten when the process ends.
    """

    def decorate(fn: Any) -> Autotuner:
        return Autotuner(
            fn if isinstance(fn, KernelInterface) else JITFunction(fn),
            configs,
            key,
            prune_configs_by=prune_configs_by,
            reset_to_zero=reset_to_zero,
            restore_value=restore_value,
            pre_hook=pre_hook,
            post_hook=post_hook,
            warmup=warmup,
            rep=rep,
            do_bench=do_bench,
        )

    return decorate


def heuristics(
    values: Mapping[str, Callable[[dict[str, Any]], Any]],
) -> Callable[[Any], Heuristics]:
    """Compute arguments at each launch: {name: function of the dict of all arguments}."""
    return lambda fn: Heuristics(fn if isinstance(fn, KernelInterface) else JITFunction(fn), values)
