"""A program that was run as a viewer walks through it: every step, values as tables and pictures.

Values beyond `MOST_LETTERS` of text are left out, those farthest from the step that is shown first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from workbench.questions.stepping import Step, Steps, is_address, number, summary, touched
from workbench.trace.answers import Executed, Seen, Tile, Walk

#: Elements of a table, of a picture; letters of all values together.
ROWS, COLUMNS, HIGH, WIDE, MOST_LETTERS = 8, 8, 32, 64, 300_000
#: Steps that are kept, around the one that is shown first.
MOST_STEPS = 5_000
LEVELS = "abcdefghijklm"


def walk(steps: Steps) -> Walk:
    """Return a program that was run, as a viewer walks through it."""
    first = max(0, min(steps.at - MOST_STEPS // 2, len(steps.steps) - MOST_STEPS))
    kept = steps.steps[first : first + MOST_STEPS]
    tiles = dict(_tiles(kept, steps.at))
    left = sum(map(_has_tile, kept)) - len(tiles)
    notes = [f"it ended early: {steps.error}"] if steps.error else []
    if not steps.complete:
        notes.append(
            "the values take too much memory: the program was ended at the last of its steps"
        )
    if len(kept) < len(steps.steps):
        notes.append(
            f"steps {first:,} to {first + len(kept) - 1:,} of {len(steps.steps):,} are here: "
            "--at N shows those around N"
        )
    if left:
        notes.append(f"{left:,} values are not here to save space: --at N shows those around N")
    return Walk(
        kernel=steps.kernel, program=steps.program, grid=steps.grid, at=steps.at,
        first=first, lines=steps.stops, watched=steps.watched, notes=tuple(notes),
        steps=tuple(
            Executed(
                op=step.op.id, text=step.text, line=step.line, names=step.names,
                round=step.event.round, plumbing=step.is_plumbing, value=summary(step),
                accessed=touched(steps, step), tile=tiles.get(step.number),
            )
            for step in kept
        ),
        seen=tuple(
            Seen(step=one.step, what=one.what, value=number(one.value), line=one.line)
            for one in steps.seen
        ),
    )  # fmt: skip


def _has_tile(step: Step) -> bool:
    return not step.is_plumbing and step.value is not None and not is_address(step)


def _tiles(steps: Sequence[Step], at: int) -> Iterator[tuple[int, Tile]]:
    """Yield values by their steps, as long as there is room."""
    room = MOST_LETTERS
    for step in sorted(steps, key=lambda step: abs(step.number - at)):
        value = step.value
        if value is None or not _has_tile(step):
            continue
        tile = tile_of(value)
        room -= sum(map(len, tile.picture)) + sum(len(n) + 3 for row in tile.numbers for n in row)
        if room < 0:
            return
        yield step.number, tile


def tile_of(value: np.ndarray[Any, Any]) -> Tile:
    """Return a value as its first elements and a picture.

    >>> tile_of(np.array([0.0, 1.0, np.nan])).picture
    ('am!',)
    """
    flat = value.reshape(-1, value.shape[-1]) if value.ndim else value.reshape(1, 1)
    numbers = tuple(tuple(map(number, row[:COLUMNS])) for row in flat[:ROWS])
    if flat.size < 2:
        return Tile(shape=value.shape, numbers=numbers)
    every = (-(-flat.shape[0] // HIGH), -(-flat.shape[1] // WIDE))
    cells = flat[:: every[0], :: every[1]].astype(np.float64)
    finite = np.isfinite(cells)
    low, high = (
        (float(cells[finite].min()), float(cells[finite].max())) if finite.any() else (0.0, 0.0)
    )
    with np.errstate(invalid="ignore", over="ignore"):
        # Halved first: the difference of the ends may be infinite.
        span = high / 2 - low / 2
        share = (cells / 2 - low / 2) / span if span else np.zeros(cells.shape)
    levels = np.rint(np.where(finite, share, 0.0) * (len(LEVELS) - 1)).astype(int)
    picture = tuple(
        "".join(LEVELS[level] if known else "!" for level, known in zip(row, own, strict=True))
        for row, own in zip(levels, finite, strict=True)
    )
    return Tile(
        shape=value.shape, numbers=numbers, picture=picture, low=number(low), high=number(high),
        every=every,
    )  # fmt: skip
