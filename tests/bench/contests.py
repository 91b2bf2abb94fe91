"""What a contest is: one problem, the configurations that may solve it, and what it is beside.

    suite ── contest ── configurations (ours and Triton's, at most 14)
                │ └──── baselines: cuBLAS, cuDNN, torch
                └ family: tuned at one of its contests, whose best three are tried at the others

Contests are built on "meta" tensors where they are only compiled (`ahead.py`), else on the device
(`racing.py`), always from one seed.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import torch

from tests.corpus.sample import Launch

WORDS = {
    torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.int8: "int8",
    torch.float8_e4m3fn: "e4m3", torch.float8_e5m2: "e5m2",
}  # fmt: skip

#: At most so many configurations are tuned for each compiler.
MOST_CONFIGS = 14


class Config(NamedTuple):
    """A configuration: extents of blocks in the kernel's order, warps, stages.

    `more`: options of ours that are switched on, with "no " in front off, or that have a number
    behind "=". Triton has none.
    """

    blocks: tuple[int, ...]
    warps: int
    stages: int
    more: tuple[str, ...] = ()

    def __str__(self) -> str:
        blocks = "x".join(map(str, self.blocks))
        return " ".join((blocks, f"w{self.warps}", f"s{self.stages}", *self.more))

    @property
    def options(self) -> dict[str, int | bool]:
        """What a launch gets beside the kernel's own names."""
        more: dict[str, int | bool] = {}
        for word in self.more:
            name, _, number = word.removeprefix("no ").partition("=")
            more[name] = int(number) if number else not word.startswith("no ")
        return {"num_warps": self.warps, "num_stages": self.stages, **more}


def configs(*rows: tuple[int, ...]) -> tuple[Config, ...]:
    """Return configurations, each given as its blocks, warps and stages."""
    assert len(rows) <= MOST_CONFIGS
    return tuple(Config(row[:-2], *row[-2:]) for row in rows)


def with_options(options: str, *rows: tuple[int, ...]) -> tuple[Config, ...]:
    """Return configurations with options of ours, given as for `configs`."""
    more = tuple(re.findall(r"(?:no )?\S+", options))
    return tuple(config._replace(more=more) for config in configs(*rows))


def instead(
    table: tuple[Config, ...], taken: tuple[Config, ...], left: tuple[Config, ...]
) -> tuple[Config, ...]:
    """Return a table with some configurations of ours in the place of others."""
    found = (*taken, *(config for config in table if config not in left))
    assert len(found) <= MOST_CONFIGS
    return found


class Tensors:
    """Makes the tensors of one contest, on a device or as types alone ("meta")."""

    def __init__(self, device: str, seed: int = 1) -> None:
        self.device = device
        self._generator = None
        if device != "meta":
            self._generator = torch.Generator(device=device).manual_seed(seed)

    def normal(self, *shape: int, dtype: torch.dtype, scale: float = 1.0) -> torch.Tensor:
        """Return random normal numbers; of an integer type, what they round to in steps of 1/16."""
        if self._generator is None:
            return torch.empty(shape, dtype=dtype, device="meta")
        found = torch.empty(shape, dtype=dtype, device=self.device)
        rows = found.flatten(0, -2) if found.dim() > 1 else found[None]
        for part in rows.split(max(1, (1 << 26) // max(1, shape[-1]))):  # less memory than at once
            values = torch.randn(part.shape, generator=self._generator, device=self.device)
            values *= scale
            part.copy_(values if dtype.is_floating_point else (values * 16).clamp(-128, 127))
        return found

    def integers(self, low: int, high: int, *shape: int, dtype: torch.dtype) -> torch.Tensor:
        """Return random integers, `high` excluded."""
        found = torch.empty(shape, dtype=dtype, device=self.device)
        if self._generator is not None:
            found.random_(low, high, generator=self._generator)
        return found

    def empty(self, *shape: int, dtype: torch.dtype) -> torch.Tensor:
        """Return a tensor that a kernel will fill."""
        return torch.zeros(shape, dtype=dtype, device=self.device)

    def copier(self, moved: int) -> Callable[[], object]:
        """Return what moves so many bytes in all, half of them read and half written."""
        source, copied = (self.empty(max(16, moved // 2), dtype=torch.uint8) for _ in "sc")
        return lambda: copied.copy_(source)

    def of(self, values: torch.Tensor) -> torch.Tensor:
        """Return small tables on the device."""
        return values.to(self.device)


@dataclass(frozen=True, slots=True)
class Prepared:
    """One contest on a device.

    Attributes:
        launch: the launch of a configuration.
        result: what it fills.
        reference: makes what the result should be.
        allowed: how far off it may be, of the reference's size and absolutely.
        baselines: what it is measured beside.
        variants: further launches of ours, which count as baselines at their best configuration.
        then: launches that follow, and are timed with it: sums of parts, other results.
    """

    launch: Callable[[Config], Launch]
    result: torch.Tensor
    reference: Callable[[], torch.Tensor]
    allowed: tuple[float, float]
    baselines: Mapping[str, Callable[[], object]] = field(default_factory=dict[str, Any])
    variants: Mapping[str, Callable[[Config], Launch]] = field(default_factory=dict[str, Any])
    then: Callable[[Config], tuple[Launch, ...]] = lambda config: ()

    def launches(self, config: Config) -> tuple[Launch, ...]:
        """Return all that a configuration launches, in order."""
        return (self.launch(config), *self.then(config))


@dataclass(frozen=True, slots=True, eq=False)
class Contest:
    """One problem of a suite.

    Attributes:
        suite, name, dtype, size: what it is called in results.
        module: the kernels, which Triton compiles from the same text.
        prepare: builds it.
        configs: what may be tried.
        flops: operations of its products; moved: bytes that it must read and write.
        family: those with one name share what was tuned; `tunes`: here.
        hot: whether its inputs are in the L2 when it is timed.
        peer: whether it is measured under Triton.
        peer_configs: what Triton tries where that is something else, since it takes no extents
            but powers of two.
    """

    suite: str
    name: str
    dtype: torch.dtype
    size: int
    module: ModuleType
    prepare: Callable[[Tensors], Prepared]
    configs: tuple[Config, ...]
    flops: int
    moved: int
    family: str
    tunes: bool = False
    hot: bool = False
    peer: bool = True
    peer_configs: tuple[Config, ...] = ()

    def table(self, compiler: str) -> tuple[Config, ...]:
        """Return the configurations that a compiler may try."""
        return self.peer_configs or self.configs if compiler == "triton" else self.configs

    @property
    def word(self) -> str:
        """The type as results name it."""
        return WORDS[self.dtype]

    @property
    def title(self) -> str:
        """What the contest is called in messages, unlike all others."""
        return f"{self.suite} {self.name} {self.word} {self.size}"


#: The modules of tests/bench that have contests, in the order in which suites are measured.
FAMILIES = (
    "products", "attentions", "ladder", "backward", "paged", "skinny", "mixed", "experts",
    "convolutions",
)  # fmt: skip


@cache
def all_contests() -> tuple[Contest, ...]:
    """Return all contests; those at which a family is tuned come first in their suite."""
    found: dict[str, list[Contest]] = {}
    for family in FAMILIES:
        for contest in importlib.import_module(f"tests.bench.{family}").contests():
            found.setdefault(contest.suite, []).append(contest)
    return tuple(
        contest for suite in found.values() for contest in sorted(suite, key=lambda c: not c.tunes)
    )


@cache
def suites() -> tuple[str, ...]:
    """Return the names of the suites."""
    return tuple(dict.fromkeys(contest.suite for contest in all_contests()))
