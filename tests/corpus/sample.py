"""What the corpus says of one kernel: inputs, launches, references, tolerances and sizes.

A sample is a function `(make, *size) -> Problem`. `make` creates seeded tensors of the wanted type
and memory layout; what lies around and between the elements of a tensor is poison, and nothing
may write there. The same samples run on every target, and are measured on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import torch

import workbench

Size = tuple[Any, ...]

F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16
HALVES = (F32, BF16, F16)
_GUARD = 64  # elements before and after every tensor
_CANARY = 0xAB


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch: arguments in order, constexprs and options by name."""

    kernel: Callable[..., Any]
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    named: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """A result, what it should be, and how far it may be off, element by element."""

    name: str
    got: torch.Tensor
    want: torch.Tensor
    allowed: torch.Tensor | float = 0.0

    def excess(self) -> float:
        """Return the largest error beyond what is allowed; NaN and infinities must be equal."""
        got, want = self.got.double(), self.want.double()
        if got.shape != want.shape:
            return math.inf
        if not got.numel():
            return 0.0
        same = (got == want) | (got.isnan() & want.isnan())
        beyond = torch.where(same, 0.0, (got - want).abs() - self.allowed)
        return torch.where(beyond.isnan(), math.inf, beyond).max().item()


@dataclass(frozen=True, slots=True)
class Problem:
    """Launches that solve a problem, and how to tell whether they did.

    Attributes:
        launches: run in this order.
        checks: called after the launches; makes the references.
        moved_bytes: what has to be read and written once (`traffic.py` says what counts); a copy
            of as many is the ceiling.
        torch: the same by torch, as a baseline.
        flops: operations of its matrix products, 2 M N K each; 0 where it has none.
        scratch: tensors that are no part of the problem: what one launch leaves for the next.
    """

    launches: tuple[Launch, ...]
    checks: Callable[[], Iterable[Check]]
    moved_bytes: int = 0
    torch: Callable[[], object] | None = None
    flops: int = 0
    scratch: tuple[torch.Tensor, ...] = ()


class Maker:
    """Makes the tensors of one problem.

    Layouts: `contiguous`; `shifted` starts one element late, so no address is aligned; `padded`
    leaves room after each row; `strided` takes every second element.
    """

    def __init__(
        self, dtype: torch.dtype, device: str = "cpu", layout: str = "contiguous", seed: int = 1
    ) -> None:
        self.dtype = dtype
        self.device = device
        self.layout = layout
        self.generator = torch.Generator(device=device).manual_seed(seed)
        self._buffers: list[tuple[torch.Tensor, torch.Tensor]] = []

    def normal(
        self, *shape: int, dtype: torch.dtype | None = None, scale: float = 1.0
    ) -> torch.Tensor:
        """Return random normal numbers."""
        values = torch.randn(shape, generator=self.generator, device=self.device)
        return self.tensor((values * scale).to(dtype or self.dtype))

    def uniform(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return random numbers from 0 to 1."""
        values = torch.rand(shape, generator=self.generator, device=self.device)
        return self.tensor(values.to(dtype or self.dtype))

    def integers(
        self, low: int, high: int, *shape: int, dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        """Return random integers, `high` excluded, in any type."""
        values = torch.randint(low, high, shape, generator=self.generator, device=self.device)
        return self.tensor(values.to(dtype or self.dtype))

    def permutation(self, n: int) -> torch.Tensor:
        """Return the numbers below n in random order, as int64."""
        return torch.randperm(n, generator=self.generator, device=self.device)

    def tensor(self, values: torch.Tensor) -> torch.Tensor:
        """Return the values in this problem's memory layout; in-place kernels may write there."""
        found = self.output(*values.shape, dtype=values.dtype)
        found.copy_(values)
        return found

    def output(
        self, *shape: int, dtype: torch.dtype | None = None, fill: float | None = None
    ) -> torch.Tensor:
        """Return a tensor full of poison, or of `fill`."""
        dtype = dtype or self.dtype
        strides, extent = self._strides(shape)
        start = _GUARD + (1 if self.layout == "shifted" else 0)
        count = start + extent + _GUARD
        data = torch.full((count * dtype.itemsize,), _CANARY, dtype=torch.uint8, device=self.device)
        buffer = data.view(dtype)
        if dtype.is_floating_point and not fill:
            buffer.fill_(math.nan)
        found = buffer.as_strided(shape, strides, start)
        if fill is not None:
            found.fill_(fill)
        outside = torch.ones(count, dtype=torch.bool, device=self.device)
        outside.as_strided(shape, strides, start).fill_(False)
        if count < 1 << 22:  # the guards of large tensors would cost more than the kernels
            kept = data.view(count, dtype.itemsize)
            self._buffers.append((kept, outside, kept[outside].clone()))  # type: ignore[arg-type]
        return found

    def _strides(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
        """Return strides in elements, and how many elements the tensor spans."""
        step = 2 if self.layout == "strided" else 1
        strides: list[int] = []
        for place, extent in enumerate(reversed(shape)):
            strides.insert(0, step)
            padding = 3 if self.layout == "padded" and place == 0 and len(shape) > 1 else 0
            step *= max(1, extent) + padding
        return tuple(strides), step

    def intact(self) -> bool:
        """Say whether everything around and between the tensors is as it was."""
        return all(torch.equal(data[outside], before) for data, outside, before in self._buffers)  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Sample:
    """One entry of the corpus.

    Attributes:
        suite: the family's name in results.
        module: the kernels, which a peer compiles from the same text.
        build: makes a problem.
        dtypes, layouts: what `make` is asked for.
        fast, slow, gpu: sizes by where they run: always, with all tests, on a GPU only.
        bench: sizes that are measured on a GPU.
        bench_dtypes: the types that are measured.
        repeatable: whether two runs give the same bits (no float atomics).
    """

    suite: str
    name: str
    module: ModuleType
    build: Callable[..., Problem]
    dtypes: tuple[torch.dtype, ...]
    layouts: tuple[str, ...]
    fast: tuple[Size, ...]
    slow: tuple[Size, ...]
    gpu: tuple[Size, ...]
    bench: tuple[Size, ...]
    bench_dtypes: tuple[torch.dtype, ...]
    repeatable: bool

    def combinations(self, sizes: tuple[Size, ...]) -> Iterator[tuple[torch.dtype, Size, str]]:
        """Return (type, size, layout) to try: all types and layouts at one size, some at others."""
        count = max(2, len(self.dtypes) // 2)
        for number, size in enumerate(sizes):
            turns = [
                (
                    self.dtypes[(number + i) % len(self.dtypes)],
                    self.layouts[(number + i) % len(self.layouts)],
                )
                for i in range(count)
            ]
            if size == self.fast[-1]:
                turns = [(dtype, self.layouts[0]) for dtype in self.dtypes]
                turns += [(self.dtypes[0], layout) for layout in self.layouts[1:]]
            for dtype, layout in dict.fromkeys(turns):
                yield dtype, size, layout


SAMPLES: list[Sample] = []


def sample(
    suite: str,
    module: ModuleType,
    *,
    fast: Iterable[Size],
    slow: Iterable[Size] = (),
    gpu: Iterable[Size] = (),
    bench: Iterable[Size] = (),
    dtypes: tuple[torch.dtype, ...] = HALVES,
    layouts: tuple[str, ...] = ("contiguous", "shifted"),
    bench_dtypes: tuple[torch.dtype, ...] | None = None,
    repeatable: bool = True,
) -> Callable[[Callable[..., Problem]], Callable[..., Problem]]:
    """Enter a function that makes problems into the corpus."""

    def enter(build: Callable[..., Problem]) -> Callable[..., Problem]:
        if bench_dtypes is None:
            measured = (BF16,) if BF16 in dtypes else dtypes[:1]
        else:
            measured = bench_dtypes
        SAMPLES.append(Sample(
            suite, build.__name__, module, build, dtypes, layouts, tuple(fast), tuple(slow),
            tuple(gpu), tuple(bench), measured, repeatable,
        ))  # fmt: skip
        return build

    return enter


_jitted: dict[Callable[..., Any], Any] = {}


def jitted(kernel: Callable[..., Any]) -> Any:
    """Return the kernel object of a function; one for each."""
    if kernel not in _jitted:
        _jitted[kernel] = workbench.jit(kernel)
    return _jitted[kernel]


def once(*tensors: torch.Tensor) -> int:
    """Return the bytes of tensors that are read or written once."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def distinct(index: torch.Tensor, count: int) -> int:
    """Return how many different numbers below `count` an index names."""
    named = torch.zeros(count, dtype=torch.bool, device=index.device)
    named[index.flatten().long()] = True
    return int(named.sum())


def run(problem: Problem, target: str | None = None) -> None:
    """Run a problem's launches; without a target, where its tensors are."""
    named = {} if target is None else {"target": target}
    for launch in problem.launches:
        jitted(launch.kernel)[launch.grid](*launch.arguments, **launch.named, **named)


def failures(problem: Problem, make: Maker) -> Iterator[str]:
    """Say what is wrong after a run."""
    if not make.intact():
        yield "wrote outside of its tensors"
    for check in problem.checks():
        excess = check.excess()
        if not excess <= 0:
            yield f"{check.name} is off by {excess:.3g} more than allowed"


# -- tolerances ---------------------------------------------------------------------------------


def close(
    name: str,
    got: torch.Tensor,
    want: torch.Tensor,
    magnitude: torch.Tensor | float = 0.0,
    terms: float = 1,
    accumulator: torch.dtype = F32,
    out: torch.dtype | None = None,
) -> Check:
    """Compare with a float64 reference: `eps(out) |want| + (2 sqrt(terms) + 2) eps(acc) magnitude`.

    Args:
        name: what is compared.
        got: the result.
        want: the reference.
        magnitude: the sum of what was added up, without signs; |want| is always counted.
        terms: how many numbers were added up.
        accumulator: the type they were added up in.
        out: the coarsest type the result was rounded to, where that is not its own.
    """
    rounding = out or got.dtype
    eps = torch.finfo(rounding).eps if rounding.is_floating_point else 0.0
    factor = (2 * math.sqrt(terms) + 2) * torch.finfo(accumulator).eps
    smallest = torch.finfo(rounding).tiny if rounding.is_floating_point else 0.0
    size = want.double().abs()
    return Check(name, got, want, eps * size + factor * (size + magnitude) + smallest)


def exact(name: str, got: torch.Tensor, want: torch.Tensor) -> Check:
    """Compare bit for bit (NaN equals NaN)."""
    return Check(name, got, want)
