"""Choosing between configurations by measuring them.

    @autotune([Config({"BLOCK": 128}), Config({"BLOCK": 256}, num_warps=8)], key=["n"])
    @jit
    def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr): ...

The first launch with a new key compiles all configurations in parallel, times them against each
other (`search.py`) and keeps what it found on disk; later launches look the choice up.
"""

from __future__ import annotations

import inspect
import math
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from workbench.devices import arrays
from workbench.interrupts import renewed_lock
from workbench.launch.options import SHORT_FORMS, option_elsewhere
from workbench.runtime import hooks, knobs
from workbench.runtime.jit import InterpretedFunction, Plan
from workbench.runtime.timing import Effort
from workbench.source import KernelError, OptionError, shown
from workbench.source.given import several, told, wrong_kind
from workbench.source.warning import warn_user
from workbench.tuning import store
from workbench.tuning.configs import Config, ConflictError
from workbench.tuning.given import (
    ask,
    hook,
    milliseconds,
    most,
    odd_one,
    prepare,
    pruning,
    quantiles,
)
from workbench.tuning.racing import Candidate, is_fatal
from workbench.tuning.search import Progress, Search, refuse_capture
from workbench.tuning.wrapping import Wrapper, as_kernel, asked

#: What a caller may call the options that every Config has.
_OPTION_WORDS = frozenset((*SHORT_FORMS, *SHORT_FORMS.values(), "maxnreg"))

__all__ = [
    "Autotuner", "AutotunerError", "Config", "ConflictError", "autotune",
]  # fmt: skip


class AutotunerError(KernelError):
    """A search that has nothing to choose from."""

    code = "K130"


class _Launches(threading.local):
    """What the launch in hand keeps, by thread, and the lock that all threads search under."""

    def __init__(self, searching: Any) -> None:
        self.searching = searching
        self.nargs: dict[str, Any] | None = None
        self.copies: dict[str, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _no_launches, ()  # a kernel is pickled with what its wrappers hold


def _no_launches() -> _Launches:
    return _Launches(renewed_lock())


class Autotuner(Wrapper):
    """A kernel that measures its configurations at the first launch with a new key.

    Attributes:
        configs: the configurations.
        keys: the parameters whose values select what was found.
        cache: the chosen configuration by key.
        best_config: the configuration of the latest launch.
        configs_timings: (median, 20 %, 80 %) milliseconds by configuration of the latest search;
            infinite where one failed.
        reasons: why those failed, in one line each.
        bench_time: seconds that the latest search took.
        nargs: positional arguments by name, during a launch of this thread.
        restore_copies: what a trial of this thread is to put back, by name.
    """

    def __init__(
        self,
        fn: Any,
        arg_names: Sequence[str],
        configs: Sequence[Config] | None,
        key: Sequence[str],
        reset_to_zero: Sequence[str] | None,
        restore_value: Sequence[str] | None,
        pre_hook: Callable[..., object] | None = None,
        post_hook: Callable[..., object] | None = None,
        prune_configs_by: Mapping[str, Any] | None = None,
        warmup: float | None = None,
        rep: float | None = None,
        use_cuda_graph: bool = False,
        do_bench: Callable[..., Any] | None = None,
        cache_results: bool | None = None,
    ) -> None:
        super().__init__(fn, arg_names)
        self._launches = _no_launches()
        what, hint = "configs is a list of Config", 'e.g. [triton.Config({"BLOCK": 128})]'
        self.configs = several(() if configs is None else configs, what, hint, Config) or [
            Config({})
        ]
        for config in self.configs:
            config.tell_contradictions(self.arg_names)
        self.keys = self._in_key(key)
        self.cache: dict[tuple[Any, ...], Config] = {}
        self.reset_to_zero = self._of_parameters("reset_to_zero", reset_to_zero)
        self.restore_value = self._of_parameters("restore_value", restore_value)
        self.user_defined_pre_hook = pre_hook is not None
        self.user_defined_post_hook = post_hook is not None
        self.pre_hook = hook("pre_hook", pre_hook) or self._prepare_arrays
        self.post_hook = hook("post_hook", post_hook) or self._restore_arrays
        prune = pruning(prune_configs_by)
        self.perf_model = prune.get("perf_model")
        self.configs_top_k = prune.get("top_k", 1.0)
        self.early_config_prune = prune.get("early_config_prune")
        self.num_warmups = milliseconds("warmup", warmup)
        self.num_reps = milliseconds("rep", rep)
        self.use_cuda_graph = use_cuda_graph
        self.cache_results = cache_results
        self.best_config: Config | None = None
        self.configs_timings: dict[Config, Any] = {}
        self.reasons: dict[Config, str] = {}
        self.bench_time = 0.0
        self._do_bench = hook("do_bench", do_bench)
        self._options: dict[Config, dict[str, Any]] = {}

    @property
    def do_bench(self) -> Callable[..., Any]:
        """What measures a call where one of its own was given, else the driver's."""
        if self._do_bench is not None:
            return self._do_bench
        from workbench.runtime.do_bench import do_bench

        return partial(do_bench, warmup=self.num_warmups or 25, rep=self.num_reps or 100)

    @property
    def nargs(self) -> dict[str, Any] | None:
        """Positional arguments by name, during a launch of this thread."""
        return self._launches.nargs

    @nargs.setter
    def nargs(self, given: dict[str, Any] | None) -> None:
        self._launches.nargs = given

    @property
    def restore_copies(self) -> dict[str, Any]:
        """What a trial of this thread is to put back, by name."""
        return self._launches.copies

    @restore_copies.setter
    def restore_copies(self, copies: dict[str, Any]) -> None:
        self._launches.copies = copies

    # -- launching ------------------------------------------------------------------------
    def run(self, *args: Any, **given: Any) -> Any:
        """Launch with the best configuration for the key; with `warmup` compile all of them."""
        if hooks.watchers and hooks.is_suppressed():
            return None
        if given.pop("warmup", False):
            return self.warmup(*args, **given)
        self.check_grid(given)
        named = self.nargs = dict(zip(self.arg_names, args, strict=False))
        try:
            config = self._choose(args, given)
            self.best_config = config
            prepare(config, {**named, **given, **config.all_kwargs()})
            return self.fn.run(*args, **given, **self._launch_options(config))
        finally:
            self.nargs = None

    def warmup(self, *args: Any, **given: Any) -> Any:
        """Compile all configurations for these arguments; returns the kernels."""
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        try:
            return [
                self.fn.run(*args, warmup=True, **given, **config.launch_kwargs())
                for config in self.prune_configs(given)
            ]
        finally:
            self.nargs = None

    def _launch_options(self, config: Config) -> dict[str, Any]:
        options = self._options.get(config)
        if options is None:
            options = self._options[config] = config.launch_kwargs()
        return options

    def _choose(self, args: Sequence[Any], given: Mapping[str, Any]) -> Config:
        self._check_conflicts(given)
        if len(self.configs) == 1 or self._is_interpreted(given):
            return self.configs[0]
        key = self._key(given)
        config = self.cache.get(key)
        if config is None:
            with self._launches.searching:  # two searches at a time would measure each other
                config = self.cache.get(key)
                if config is None:
                    self._find(key, args, given)
                    config = self.cache[key]
        return config

    def _is_interpreted(self, given: Mapping[str, Any]) -> bool:
        interpreted = isinstance(self.base_kernel, InterpretedFunction)
        return interpreted or given.get("target") == "interpreter"

    def _check_conflicts(self, given: Mapping[str, Any]) -> None:
        taken = {*(self.nargs or ()), *given}
        words = _OPTION_WORDS.intersection(given)
        for config in self.configs:
            both = config.kwargs.keys() & taken
            if words:
                own = config.launch_kwargs()
                both |= {word for word in words if self._option(word) in own}
            if both:
                raise ConflictError(
                    f"{', '.join(sorted(both))} is given by the caller and by a configuration",
                    hint="leave it out of the call, or out of the Configs"
                    + (" (Config(..., num_warps=None, num_stages=None))" if words else ""),
                )

    def _option(self, word: str) -> str:
        return word if word in self.arg_names else SHORT_FORMS.get(word, word)

    def _key(self, given: Mapping[str, Any]) -> tuple[Any, ...]:
        everything = {**(self.nargs or {}), **given}
        named = {name: value for name, value in everything.items() if name in self.arg_names}
        values = [named[name] for name in self.keys if name in named]
        key = (*values, *(str(v.dtype) for v in named.values() if hasattr(v, "dtype")))
        if not _is_hashed(key):
            raise self._unhashable(named)
        return key

    def _unhashable(self, named: Mapping[str, Any]) -> OptionError:
        """Return the error for a value that cannot tell launches apart."""
        name = next(name for name in self.keys if not _is_hashed(named.get(name)))
        what = f"a key's values can be hashed: {name} of {self.base_fn.__name__} is in the key"
        return wrong_kind(what, named.get(name), "pass a tuple, or leave it out of key=[...]")

    # -- searching ------------------------------------------------------------------------
    def _find(self, key: Any, args: Sequence[Any], given: Mapping[str, Any]) -> None:
        """Search for the best configuration, or find what an earlier search stored."""
        configs = self.prune_configs(given)
        if len(configs) == 1:
            self.cache[key] = configs[0]
            return
        place = self._stored_at(key, configs, args, given)
        if place is not None:
            found = store.load(place, configs)
            if found is not None:
                self._keep(key, found)
                return
        begin = time.time()
        complete = self._measure(configs, args, given)
        self.bench_time = time.time() - begin
        self._keep(key, self.configs_timings)
        if complete and place is not None:
            store.store(place, self.configs_timings, configs)
        self._after_search({**(self.nargs or {}), **given, **self.cache[key].all_kwargs()})
        if knobs.autotuning.print:
            sys.stdout.write(
                f"Autotuning of {self.base_fn.__name__} with key {key} took "
                f"{self.bench_time:.2f} s; best: {self.cache[key]}\n"
            )

    def _keep(self, key: Any, timings: Mapping[Config, Any]) -> None:
        self.configs_timings = dict(timings)
        self.cache[key] = min(timings, key=lambda config: timings[config][0])

    def _measure(
        self, configs: Sequence[Config], args: Sequence[Any], given: Mapping[str, Any]
    ) -> bool:
        """Fill in `configs_timings`; returns whether every configuration got its chance."""
        if self._do_bench is not None or type(self)._bench is not Autotuner._bench:
            refuse_capture()
            with hooks.unobserved():
                timings = {c: self._bench(*args, config=c, **given) for c in configs}
            self.configs_timings = {c: quantiles(t) for c, t in timings.items()}
            if all(math.isinf(times[0]) for times in self.configs_timings.values()):
                raise self._failure or AutotunerError("no configuration could be timed")
            return True
        search = self.search(configs, args, given)
        search.run()
        self.configs_timings = {row.config: row.times for row in search.rows}
        self.reasons = {row.config: row.reason for row in search.rows if row.reason}
        if search.best is None:
            if search.stopped:
                raise KeyboardInterrupt
            raise search.error or AutotunerError("no configuration could be timed")
        return not search.stopped

    def search(
        self,
        configs: Sequence[Config],
        args: Sequence[Any],
        given: Mapping[str, Any],
        *,
        seconds: float | None = None,
        effort: Effort | None = None,
        check: Callable[[Config], str | None] | None = None,
        progress: Progress | None = None,
    ) -> Search:
        """Return a search among configurations for one launch, not yet run."""
        own = Effort(
            25.0 if self.num_warmups is None else self.num_warmups,
            100.0 if self.num_reps is None else self.num_reps,
        )
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        return Search(
            configs,
            plan=lambda config: self._plan(config, args, given),
            candidate=lambda config: self.candidate(config, args, given),
            effort=effort or own,
            seconds=seconds,
            check=check,
            progress=progress,
        )

    def remember(self, search: Search, args: Sequence[Any], given: Mapping[str, Any]) -> None:
        """Launch what a search found from now on, for the same key."""
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        self._keep(self._key(given), {row.config: row.times for row in search.rows})
        self.nargs = None

    @property
    def base_kernel(self) -> Any:
        """The kernel object behind all wrappers."""
        kernel = self.fn
        while isinstance(kernel, Wrapper):
            kernel = kernel.fn
        return kernel

    def _named(self, args: Sequence[Any], given: Mapping[str, Any]) -> dict[str, Any]:
        return {**dict(zip(self.arg_names, args, strict=False)), **given}

    def _plan(self, config: Config, args: Sequence[Any], given: Mapping[str, Any]) -> Plan | None:
        if not hasattr(self.fn, "plan"):
            return None
        prepare(config, {**self._named(args, given), **config.all_kwargs()})
        return self.fn.plan(*args, **given, **config.launch_kwargs())

    def candidate(self, config: Config, args: Sequence[Any], given: Mapping[str, Any]) -> Candidate:
        """Return a launch with one configuration as something to be timed."""
        named = {**self._named(args, given), **config.all_kwargs()}

        options = config.launch_kwargs()
        return Candidate(
            lambda: self.fn.run(*args, **given, **options),
            lambda: self._before(config, named),
            lambda: self._after(named, None),
        )

    def _before(self, config: Config, named: dict[str, Any]) -> None:
        """Call what is to be called before a trial."""
        prepare(config, named)
        asked("pre_hook", "pre_hook(all_arguments, reset_only=False)", self.pre_hook, named)

    def _after(self, named: dict[str, Any], error: Exception | None) -> None:
        """Call what is to be called after a trial."""
        hint = "post_hook(all_arguments, exception)"
        asked("post_hook", hint, self.post_hook, named, exception=error)

    _failure: KernelError | None = None

    def _bench(self, *args: Any, config: Config, **meta: Any) -> Any:
        """Time one configuration with `do_bench`; one that cannot be built is infinitely slow."""
        self._check_conflicts(meta)
        named = {**self._named(args, meta), **config.all_kwargs()}
        options = config.launch_kwargs()

        def call() -> None:
            self._before(config, named)
            try:
                self.fn.run(*args, **meta, **options)
            except Exception as error:
                self._after(named, error)
                raise
            self._after(named, None)

        hint = "do_bench(call, quantiles) -> the median and both quantiles, in milliseconds"
        try:
            return asked("do_bench", hint, self.do_bench, call, quantiles=(0.5, 0.2, 0.8))
        except KernelError as error:
            if is_fatal(error):
                raise
            self._failure = self._failure or error
            self.reasons[config] = error.message
            return [math.inf] * 3

    # -- arrays before and after trials ---------------------------------------------------
    def _prepare_arrays(self, named: Mapping[str, Any], reset_only: bool = False) -> None:
        for value in self._arrays(self.reset_to_zero, named).values():
            _clear(value)
        if not reset_only:
            found = self._arrays(self.restore_value, named)
            self.restore_copies = {name: _copy(value) for name, value in found.items()}

    def _names(self, option: str, given: Sequence[str] | None) -> list[str]:
        return several(
            () if given is None else given, f"{option} is a list of parameters' names",
            f'e.g. {option}=["{self.arg_names[0] if self.arg_names else "n"}"]', str,
        )  # fmt: skip

    def _of_parameters(self, option: str, given: Sequence[str] | None) -> list[str]:
        """Return the names of an option; each must be a parameter's."""
        names = self._names(option, given)
        for name in names:
            if name not in self.arg_names:
                raise self.no_parameter(option, name)
        return names

    def _in_key(self, given: Sequence[str] | None) -> list[str]:
        """Return the parameters of a key; Triton passes over what is none, here that is told."""
        names = self._names("key", given)
        for name in names:
            if name not in self.arg_names:
                warn_user(f"{self.no_parameter('key', name).message}: nothing is measured for it")
        return [name for name in names if name in self.arg_names]

    def _arrays(self, names: Sequence[str], named: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arrays of some names; an optional one may not be there in this launch."""
        return {name: named[name] for name in names if arrays.is_array(named.get(name))}

    def _restore_arrays(self, named: Mapping[str, Any], exception: Any = None) -> None:
        for name, value in self.restore_copies.items():
            _assign(named[name], value)
        self.restore_copies = {}

    def _after_search(self, named: dict[str, Any]) -> None:
        """Zero once more what trials have written; a hook of the user's is told so."""
        parameters = inspect.signature(self.pre_hook).parameters
        if "reset_only" in parameters or any(
            parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()
        ):
            self.pre_hook(named, reset_only=True)

    # -- pruning --------------------------------------------------------------------------
    def prune_configs(self, kwargs: Mapping[str, Any]) -> list[Config]:
        """Return the configurations that are worth measuring, as `prune_configs_by` says."""
        configs = list(self.configs)
        nargs = dict(self.nargs or {})
        if self.early_config_prune is not None:
            found = ask(self.early_config_prune, configs, nargs, **kwargs)
            what = "early_config_prune returns a list of Config"
            configs = several(found, what, "return some of those that it is given", Config)
            if not configs:
                raise AutotunerError(
                    "early_config_prune left no configuration",
                    hint="have it return at least one",
                )
        if self.perf_model is None:
            return configs
        fewer = most(self.configs_top_k, len(self.configs))
        if len(configs) <= fewer:
            return configs
        model = self.perf_model
        cost = {c: ask(model, **{**nargs, **kwargs, **c.all_kwargs()}) for c in configs}
        try:
            return sorted(configs, key=lambda c: cost[c])[:fewer]
        except TypeError:  # they have no order
            odd = shown(odd_one(cost.values()), 40)
            raise AutotunerError(
                f"perf_model returns a number for each Config, got {odd}",
                hint="have it return the expected time",
            ) from None

    # -- the disk -------------------------------------------------------------------------
    def _stored_at(
        self, key: Any, configs: Sequence[Config], args: Sequence[Any], given: Mapping[str, Any]
    ) -> str | None:
        """Return the key of this search on disk, None where nothing is to be stored."""
        wanted = self.cache_results
        if wanted is None:
            wanted = knobs.autotuning.cache and self._do_bench is None
        if not wanted or not hasattr(self.fn, "plan"):
            return None
        try:
            plan = self._plan(configs[0], args, given)
        except KernelError:
            return None
        if plan is None:
            return None
        return store.key_of(self.fn.text_key, key, plan.device, configs)


def _is_hashed(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _copy(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else value.copy()


def _assign(target: Any, value: Any) -> None:
    if hasattr(target, "copy_"):
        target.copy_(value)
    else:
        target[...] = value


def _clear(value: Any) -> None:
    if hasattr(value, "zero_"):
        value.zero_()
    else:
        value[...] = 0


@told("autotune", option_elsewhere)
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
    cache_results: bool | None = None,
) -> Callable[[Any], Autotuner]:
    """Measure `configs` at the first launch with a new key, and launch the best one from then on.

    Args:
        configs: the configurations to try.
        key: parameters whose values, with the dtypes of all arrays, select what was found.
        prune_configs_by: functions `early_config_prune` and `perf_model`, and `top_k`.
        reset_to_zero: arrays that are zeroed before each trial and once after them.
        restore_value: arrays that are restored after each trial.
        pre_hook: called with the dict of all arguments before each trial, and with
            `reset_only=True` after them; replaces the zeroing and saving above.
        post_hook: called with the dict and `exception=` after each trial; replaces the restoring.
        warmup: milliseconds of runs before measuring (25).
        rep: milliseconds to measure (100).
        use_cuda_graph: accepted; graphs are used wherever a launch can be captured.
        do_bench: replaces the measurement: do_bench(call, quantiles=...) -> list.
        cache_results: keep what was found on disk; by default where no `do_bench` is given.
    """
    if use_cuda_graph:
        warnings.warn(
            "use_cuda_graph is not needed: launches are captured wherever they can be",
            DeprecationWarning,
            stacklevel=2,
        )

    def decorate(fn: Any) -> Autotuner:
        kernel = as_kernel(fn)
        return Autotuner(
            kernel,
            kernel.arg_names,
            configs,
            key,
            reset_to_zero,
            restore_value,
            pre_hook,
            post_hook,
            prune_configs_by,
            warmup,
            rep,
            use_cuda_graph,
            do_bench,
            cache_results,
        )

    return decorate
