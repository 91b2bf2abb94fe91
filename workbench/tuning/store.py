"""What searches found, on disk: the timings of configurations by kernel, key and device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from workbench.runtime import cache, compiling
from workbench.tuning.configs import Config

Timings = dict[Config, list[float]]


def key_of(kernel_key: str, tuning_key: Any, device: int, configs: Sequence[Config]) -> str:
    """Return the key under which a search is stored."""
    words = [str(config) for config in configs]
    return cache.make_key("tuning", kernel_key, str(tuning_key), device_name(device), *words)


def device_name(device: int) -> str:
    """Return a text that differs between devices on which other configurations may be best."""
    if device < 0:
        return sha256(compiling.host_text().encode()).hexdigest()
    from workbench.devices import cuda

    found = cuda.properties(device)
    return f"{found.name} {cuda.chip(device)} {found.multiprocessors} {found.clock}"


def load(key: str, configs: Sequence[Config]) -> Timings | None:
    """Return the timings of a stored search, None if there is none."""
    entry = cache.load(key)
    if entry is None:
        return None
    times = entry.data.get("timings")
    if not isinstance(times, list) or len(times) != len(configs):
        return None
    return {
        config: [math.inf] * 3 if row is None else [float(value) for value in row]
        for config, row in zip(configs, times, strict=True)
    }


def store(key: str, timings: Timings, configs: Sequence[Config]) -> None:
    """Store the timings of a search; configurations without one failed."""
    rows = [timings.get(config, [math.inf]) for config in configs]
    times = [None if math.isinf(row[0]) else row for row in rows]
    cache.store(key, cache.Entry({"timings": times}))
