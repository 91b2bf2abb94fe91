"""How long the rows are that programs go through, as data that launches evaluate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.analysis.hulls import KINDS
from workbench.analysis.ranges import Step, steps_from_data, steps_to_data


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a program as (step that says how many rounds go through one, bytes of a round).

    `own` are those that a program reads again and no other reads; `common` all programs read.
    """

    steps: tuple[Step, ...]
    own: tuple[tuple[int, int], ...]
    common: tuple[tuple[int, int], ...] = ()

    @property
    def closed(self) -> tuple[int, ...]:
        """The steps that launchers compute: all of them."""
        return tuple(range(len(self.steps)))

    def to_data(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        kinds = {"own": self.own, "common": self.common}
        found = {name: [[*one] for one in rows] for name, rows in kinds.items()}
        return {"steps": steps_to_data(self.steps), **found}


def rows_from_data(stored: Mapping[str, Any]) -> Rows:
    """Return the rows in plain data; raises ValueError for data that is none."""
    steps = steps_from_data(stored["steps"], KINDS)
    own, common = (tuple((step, size) for step, size in stored[name]) for name in ("own", "common"))
    for step, size in (*own, *common):
        if step not in range(len(steps)) or type(size) is not int:
            raise ValueError(f"of {len(steps)} steps a row is {step, size}")
    return Rows(steps, own, common)
