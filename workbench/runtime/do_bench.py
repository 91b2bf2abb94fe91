"""How long a call takes, asked in Triton's way and measured by our clocks."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal

from workbench.devices import cuda
from workbench.runtime.measuring import measure
from workbench.runtime.timing import Effort, Timing


def do_bench(
    fn: Callable[[], object],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: Literal["min", "max", "mean", "median", "all"] = "mean",
) -> Any:
    """Return how many milliseconds a call takes, measured with a cold L2 cache.

    On a machine with a GPU the device times itself, so that time of the host is not part of it:
    `fn` is captured into a CUDA graph, and is called once for several runs. What cannot be captured
    is timed by events around each call. Without a GPU the host's clock is used.

    Args:
        fn: what to time.
        warmup: milliseconds of calls before measuring.
        rep: milliseconds to measure.
        grad_to_none: tensors whose `.grad` is dropped before each call.
        quantiles: return these quantiles as a list instead.
        return_mode: which number to return, or "all" for the list of all times.
    """

    def call() -> None:
        for tensor in grad_to_none or ():
            tensor.grad = None
        fn()

    timing = measure(
        {"": call}, gpu=_has_gpu(), effort=Effort(warm_up=warmup, milliseconds=rep, runs=5)
    )[""]
    return _summarise(timing, quantiles, return_mode)


def do_bench_cudagraph(
    fn: Callable[[], object],
    rep: float = 20,
    grad_to_none: Sequence[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: Literal["min", "max", "mean", "median", "all"] = "mean",
) -> Any:
    """Return the milliseconds of a call right after the same call, in a CUDA graph: a hot cache."""
    if not _has_gpu():
        return do_bench(fn, 25, rep, grad_to_none, quantiles, return_mode)
    for tensor in grad_to_none or ():
        tensor.grad = None
    effort = Effort(warm_up=0, milliseconds=rep, runs=5)
    timing = measure({"": fn}, gpu=True, warm=True, effort=effort)[""]
    return _summarise(timing, quantiles, return_mode)


def _summarise(timing: Timing, quantiles: Sequence[float] | None, mode: str) -> Any:
    samples = sorted(timing.samples)
    if quantiles is not None:
        found = [_quantile(samples, q) for q in quantiles]
        return found[0] if len(found) == 1 else found
    summaries: dict[str, Callable[[Sequence[float]], Any]] = {
        "min": min, "max": max, "mean": statistics.fmean, "median": statistics.median, "all": list,
    }  # fmt: skip
    return summaries[mode](samples)


def _quantile(samples: Sequence[float], q: float) -> float:
    place = q * (len(samples) - 1)
    low = int(place)
    high = min(low + 1, len(samples) - 1)
    return samples[low] + (samples[high] - samples[low]) * (place - low)


def _has_gpu() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available() and cuda.available()
