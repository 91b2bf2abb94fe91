"""Launches of random programs: the numbers and arrays that they get."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.files.form import filled
from workbench.ir import (
    F16,
    F32,
    I32,
    I64,
)

if TYPE_CHECKING:
    from hypothesis import strategies as st

from tests.passes.leaves import GRID, ROOM, SIZE

#: The large numbers that `m` takes: around the 32-bit limits, and small.
NUMBERS = (0, 1, -1, 7, 4096, 123_456_789, (1 << 31) - 1, -(1 << 31))


@dataclass(frozen=True)
class Launch:
    """Numbers of one launch; `arguments` makes fresh arrays."""

    n: int
    m: int
    seed: int

    def values(self) -> dict[str, str]:
        """Return what parameters get, in the words of tests/files/form.py."""
        outputs = f"[{ROOM * GRID[0]}] zeros"
        return {
            "f": f"[{SIZE}] random -8 8 {self.seed}",
            "h": f"[{SIZE}] halves -8 8 {self.seed}",
            "g": f"[{SIZE}] random {-(1 << 31)} {(1 << 31) - 1} {self.seed}",
            "floats": outputs, "integers": outputs, "n": str(self.n), "m": str(self.m),
        }  # fmt: skip

    def arguments(self) -> list[Any]:
        types = (F32, F16, I32, F32, I64)
        words = list(self.values().values())
        arrays = [filled(w, t, k) for k, (w, t) in enumerate(zip(words, types, strict=False))]
        return [*arrays, self.n, self.m]

    @property
    def numbers(self) -> dict[str, int]:
        return {"n": self.n, "m": self.m}


def launches() -> st.SearchStrategy[Launch]:
    """Numbers to run a program with."""
    from hypothesis import strategies as st

    return st.builds(Launch, st.integers(0, 8), st.sampled_from(NUMBERS), st.integers(0, 3))
