"""What the launches of a problem have to move: the bytes that a perfect memory system would see.

Every access of every launch is recorded by the interpreter, byte by byte, in order. What counts:

- a byte whose first access is a read has to be read once: it was there before;
- a byte that is written has to be written once, unless its last value is only there for a later
  launch (read by it, and no result that is checked): such a byte need not have left the chip;
- the problem's `scratch` does not count.

So inputs count once, outputs once, what is updated in place twice, what an atomic adds to twice,
and what one launch leaves for the next not at all. How often anything is read does not matter.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from tests.corpus.sample import Launch, Problem, jitted
from workbench.bench.work import dot_work
from workbench.interpreter import Access, run_module
from workbench.ir import Module


class Moved(NamedTuple):
    """What a problem has to move, and multiply (None: a loop around a product depends on data)."""

    read: int
    written: int
    flops: float | None

    @property
    def bytes(self) -> int:
        return self.read + self.written


class _Accessed(NamedTuple):
    """Bytes in the order of their accesses, and which of these are writes."""

    addresses: np.ndarray
    write: np.ndarray


def moved(problem: Problem) -> Moved:
    """Run a problem's launches in the interpreter; return what they have to move."""
    found: list[_Accessed] = []
    flops: float | None = 0.0
    for launch in problem.launches:
        module, arguments = _bound(launch)
        found.append(_accessed(module, launch, arguments))
        scalars = {name: v for name, v in arguments.items() if not isinstance(v, torch.Tensor)}
        dots = dot_work(module, launch.grid, scalars)
        if dots is not None:
            flops = None if flops is None or dots.flops is None else flops + dots.flops
    results = _extents(check.got for check in problem.checks())
    scratch = _extents(problem.scratch)
    read, left = np.setdiff1d(_read_first(found), scratch), _left(found, results)
    return Moved(read.size, np.setdiff1d(left, scratch).size, flops)


def _extents(tensors: Iterable[torch.Tensor]) -> np.ndarray:
    return np.concatenate([np.empty(0, np.int64), *map(_extent, tensors)])


def _extent(tensor: torch.Tensor) -> np.ndarray:
    """Return the addresses of a tensor's bytes."""
    size = tensor.element_size()
    places = torch.zeros(tensor.shape, dtype=torch.int64)
    for axis, (extent, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        shape = [extent if n == axis else 1 for n in range(tensor.dim())]
        places += (torch.arange(extent) * stride * size).view(shape)
    first = tensor.data_ptr() + places.flatten().numpy()
    return (first[:, None] + np.arange(size)).ravel()


def _bound(launch: Launch) -> tuple[Module, dict[str, object]]:
    """Return the tile IR of a launch, and its arguments by the names of the parameters."""
    compiled = jitted(launch.kernel).warmup(
        *launch.arguments, **launch.named, grid=launch.grid, target="interpreter"
    )
    names = inspect.signature(launch.kernel).parameters
    return compiled.module, dict(zip(names, launch.arguments, strict=False))


def _accessed(module: Module, launch: Launch, arguments: dict[str, object]) -> _Accessed:
    """Run one launch; what it does to the problem's tensors stays, for the next one."""
    values = [arguments[parameter.name] for parameter in module.parameters]
    recording = run_module(module, launch.grid, values, record=True)
    assert not recording.truncated, "too many accesses: choose a smaller size"
    tensors = {name: v for name, v in arguments.items() if isinstance(v, torch.Tensor)}
    parts = list(_bytes(recording.accesses, tensors))
    if not parts:
        return _Accessed(np.empty(0, np.int64), np.empty(0, bool))
    return _Accessed(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _bytes(accesses: Sequence[Access], tensors: dict[str, torch.Tensor]) -> Iterator[_Accessed]:
    """Yield the bytes of all live accesses in order."""
    live = [a for a in accesses if a.live]
    assert all(a.argument in tensors for a in live), "an access that belongs to no argument"
    for start in range(0, len(live), 1 << 16):
        part = live[start : start + (1 << 16)]
        sizes = np.array([tensors[a.argument].element_size() for a in part])
        first = np.array([tensors[a.argument].data_ptr() for a in part])
        first += sizes * np.array([a.element for a in part])
        places = np.repeat(first - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
        yield _Accessed(places, np.repeat(np.array([a.write for a in part]), sizes))


def _read_first(found: list[_Accessed]) -> np.ndarray:
    """Return the bytes that are read before they are written."""
    addresses = np.concatenate([one.addresses for one in found])
    write = np.concatenate([one.write for one in found])
    bytes_, first = np.unique(addresses, return_index=True)
    return bytes_[~write[first]]


def _left(found: list[_Accessed], results: np.ndarray) -> np.ndarray:
    """Return the bytes that are written for someone else than a later launch."""
    left = np.empty(0, np.int64)
    for one in found:
        read = np.unique(one.addresses[~one.write])
        written = np.unique(one.addresses[one.write])
        # What a later launch reads was for it, if nothing else is written there afterwards.
        left = np.union1d(np.setdiff1d(left, np.setdiff1d(read, results)), written)
    return left
