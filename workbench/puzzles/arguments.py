"""The arrays of a launch, between guards: what lies around and between elements must stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.puzzles.puzzle import Case, Data, Layout, Puzzle

#: Bytes of guard on either side of an array; arrays start at multiples of this.
GUARD = 256
#: What outputs and gaps hold at first, for floats; another one on request.
NAN, ODD = float("nan"), -123456.75
_INTEGER = -1_234_567


class Arguments:
    """Fresh arguments of one launch.

    `values` holds torch tensors, each with a storage of its own, and integers, by parameter;
    `before` copies of the tensors.
    """

    def __init__(
        self, puzzle: Puzzle, case: Case, data: Mapping[str, Data], garbage: float = NAN
    ) -> None:
        import torch

        self.data = data
        self.values: dict[str, Any] = {}
        self._buffers: dict[str, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = {}
        self._own: dict[str, np.ndarray[Any, Any]] = {}
        numbers = dict(case.sizes)
        for name, held in data.items():
            named = puzzle.strides.get(name, ())
            steps = strides_of(held.values.shape, named, case.layout)
            numbers |= {word: step for word, step in zip(named, steps, strict=False) if word}
            view = self._placed(name, held, steps, garbage)
            self.values[name] = torch.from_numpy(view)
        self.values = {
            name: self.values[name] if name in data else numbers[name] for name in puzzle.parameters
        }
        self.before = {name: self.values[name].clone() for name in data}

    def _placed(
        self, name: str, held: Data, steps: tuple[int, ...], garbage: float
    ) -> np.ndarray[Any, Any]:
        """Lay an array out in a buffer that holds garbage; return the view of its elements."""
        values = held.values
        extents = zip(values.shape, steps, strict=True)
        count = 1 + sum((n - 1) * step for n, step in extents) if values.size else 0
        size = values.dtype.itemsize
        raw = np.full(3 * GUARD + count * size, 0xA5, np.uint8)
        start = GUARD - raw.ctypes.data % GUARD + GUARD
        inner = raw[start : start + count * size].view(values.dtype)
        inner[...] = garbage_of(values.dtype, garbage)
        strides = [step * size for step in steps]
        view = np.lib.stride_tricks.as_strided(inner, values.shape, strides)
        if held.role in ("in", "inout") and values.size:
            view[...] = values
        self._buffers[name] = raw, raw.copy()
        self._own[name] = view
        return view

    def damaged(self) -> str | None:
        """Say which bytes were written that nobody may write; None: none were."""
        for name, (now, before) in self._buffers.items():
            may = np.zeros(now.shape, bool)
            if self.data[name].role != "in":
                view = self._own[name]
                start = view.ctypes.data - now.ctypes.data
                offsets = np.full(view.shape, start, np.int64)
                for axis, stride in enumerate(view.strides):
                    extent = [1] * view.ndim
                    extent[axis] = -1
                    offsets += (np.arange(view.shape[axis]) * stride).reshape(extent)
                may[(offsets.reshape(-1, 1) + np.arange(view.itemsize)).ravel()] = True
            if ((now != before) & ~may).any():
                if self.data[name].role == "in":
                    return f"something was written to {name}, which is there to be read"
                return f"something was written between the elements of {name}, or beside them"
        return None


def strides_of(shape: tuple[int, ...], named: tuple[str, ...], layout: Layout) -> tuple[int, ...]:
    """Return the strides of an array in elements; only those that a parameter holds are odd."""
    if not named or not shape:
        layout = "dense"
    whole = all(named)
    steps = [1] * len(shape)
    if layout == "transposed" and whole:
        for axis in range(1, len(shape)):
            steps[axis] = steps[axis - 1] * max(1, shape[axis - 1])
        return tuple(steps)
    steps[-1:] = [3 if layout == "strided" and whole else 1][: len(shape)]
    for axis in range(len(shape) - 2, -1, -1):
        row = steps[axis + 1] * max(1, shape[axis + 1])
        if layout in ("pitch", "strided"):
            row += 5
        elif layout == "padded":
            row = -(-row // 16) * 16
        steps[axis] = row
    return tuple(steps)


def garbage_of(dtype: np.dtype[Any], garbage: float) -> Any:
    """Return what fills memory that nobody has written."""
    if dtype.kind == "f":
        return garbage if np.isnan(garbage) else np.clip(garbage, -60000, 60000)
    info = np.iinfo(dtype)
    return max(info.min, _INTEGER) if info.min else info.max - 3
