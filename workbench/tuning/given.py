"""What people give to `autotune`: functions that are called, and what these return."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from numbers import Integral, Number, Real
from typing import Any

from workbench.source import OptionError, shown
from workbench.source.given import by_name, function, wrong_kind
from workbench.tuning.configs import Config
from workbench.tuning.wrapping import asked


def ask(prune: Callable[..., Any], *args: Any, **given: Any) -> Any:
    """Call a function of `prune_configs_by`; raises OptionError K105 where it cannot be."""
    hint = "early_config_prune(configs, named_args, **kwargs), perf_model(**all_arguments)"
    return asked("a function of prune_configs_by", hint, prune, *args, **given)


def odd_one(values: Iterable[Any]) -> Any:
    """Return the first of values that cannot be ordered which is no number."""
    found = list(values)
    return next((v for v in found if not isinstance(v, Number)), found[0])


def pruning(given: Any) -> dict[str, Any]:
    """Return `prune_configs_by`; raises OptionError for words and values that are none of it."""
    what = "prune_configs_by is a dict of early_config_prune, perf_model and top_k"
    hint = 'e.g. {"early_config_prune": function} or {"perf_model": function, "top_k": 3}'
    found = by_name(given or {}, what, hint)
    for word, value in found.items():
        if value is None:
            continue
        if word == "top_k":
            most(value, 1)
        elif word not in ("early_config_prune", "perf_model"):
            raise OptionError(f"{what}, got {shown(word)}", hint=hint, code="K112")
        else:
            function(value, f"{word} of prune_configs_by is a function", hint)
    return {word: value for word, value in found.items() if value is not None}


def most(top_k: Any, count: int) -> int:
    """Return how many of `count` configurations are measured."""
    if isinstance(top_k, float) and 0.0 < top_k <= 1.0:
        return max(1, int(count * top_k))
    if not isinstance(top_k, Integral) or top_k < 1:
        what = "top_k is an int from 1 on, or a part of all, a float up to 1.0"
        raise wrong_kind(what, top_k, 'e.g. {"top_k": 3}')
    return int(top_k)


def quantiles(times: Any) -> list[float]:
    """Return what `do_bench` gave as numbers; what is none of a time counts as infinite."""
    found = times.tolist() if hasattr(times, "tolist") else times
    found = list(found) if isinstance(found, list | tuple) else [found]
    if not found or not all(isinstance(value, Number) for value in found):
        what = "do_bench returns milliseconds: a number, or a list of them"
        raise wrong_kind(what, times, "return the median and both quantiles, e.g. [0.5, 0.4, 0.6]")
    numbers = [float(value) for value in found]
    return [math.inf if math.isnan(value) else value for value in numbers]


def hook(option: str, given: Any) -> Any:
    """Return a function of a user's, None where there is none; raises K105 for anything else."""
    hint = "a function of the dict of all arguments"
    if option == "do_bench":
        hint = "e.g. triton.testing.do_bench"
    return None if given is None else function(given, f"{option} is a function", hint)


def milliseconds(option: str, given: Any) -> float | None:
    """Return a time, None where it is left out; raises K105 for anything else."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, Real) or not float(given) >= 0:
        raise wrong_kind(f"{option} is a number of milliseconds", given, f"e.g. {option}=25")
    return float(given)


def prepare(config: Config, named: dict[str, Any]) -> None:
    """Call the hook of a configuration, where it has one."""
    if config.pre_hook is not None:
        asked("pre_hook of a Config", "pre_hook(all_arguments)", config.pre_hook, named)
