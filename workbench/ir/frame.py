"""What an op may ask of whoever interprets it; implemented by interpreter/, used by ops/."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Self

import numpy as np

from workbench.ir.operation import Block, Op, Value

Array = np.ndarray[Any, Any]


class Rounds(Protocol):
    """One execution of a loop whose end is not known before."""

    def turned(self, before: Sequence[Array], after: Sequence[Array]) -> None:
        """Hear that the body has run: the carried values were `before` and are `after`.

        A round in which nothing changed would go round for ever if this program ran alone, so
        another one gets its turn here.
        """
        ...

    def ended(self) -> None:
        """Hear that the loop is over."""
        ...


class Frame(Protocol):
    """The state of one program instance while it runs.

    Arrays stand for values: 0-d for scalars. `index` and i64 are int64, i1 is bool, bf16 and the
    8-bit floats are float32 arrays holding representable values, pointers are int64 addresses.
    """

    def __getitem__(self, value: Value) -> Array: ...

    def get(self, value: Value | None, default: Any) -> Array:
        """Return the array of an optional operand, or `default`."""
        ...

    def program_id(self, axis: int) -> int:
        """Return which program instance this is along a grid axis."""
        ...

    def num_programs(self, axis: int) -> int:
        """Return how many program instances there are along a grid axis."""
        ...

    def programs(self, following: Callable[[], int] | None = None) -> Iterator[Self]:
        """Yield the frame of each program that this one's block takes, one after the other.

        With `following` that says which one comes behind each, and numbers that are none end it.
        """
        ...

    def draw(self) -> int:
        """Return the number of a program that no block has taken, or of none if there is none."""
        ...

    def read(self, op: Op, addresses: Array, live: Array, element: Any) -> Array:
        """Read one element through each live address, 0 elsewhere; out of bounds is reported."""
        ...

    def write(self, op: Op, addresses: Array, live: Array, values: Array, element: Any) -> None:
        """Write one element through each live address."""
        ...

    def check(self, op: Op, addresses: Array, live: Array, element: Any) -> None:
        """Report a live address at which an access of an element's size would be out of bounds."""
        ...

    def storage(self, addresses: Array) -> int:
        """Return where the memory begins that holds one of the addresses, 0 if there is none."""
        ...

    def run(self, block: Block, arguments: Sequence[Array]) -> tuple[Array, ...]:
        """Run a region with its arguments bound; return what its last op gives back."""
        ...

    def loop(self, op: Op) -> Rounds:
        """Return what is to be told of each round of a loop that may wait for memory."""
        ...

    def round(self, op: Op) -> None:
        """Hear that a loop goes round once more; raises where it has gone round too often."""
        ...

    def part(self, op: Op, regions: Mapping[str, Block]) -> None:
        """Run regions, by who runs them, that take turns: who waits lets the next one go on."""
        ...

    def until(self, op: Op, holds: Callable[[], bool], words: Callable[[], str]) -> None:
        """Wait until something holds, which is said in words where it never will."""
        ...

    def later(self, event: Callable[[], None]) -> None:
        """Let something happen at a time of its own, at the latest when somebody waits for it."""
        ...

    def emit(self, op: Op, text: str) -> None:
        """Deliver text that the kernel prints."""
        ...

    @property
    def memory(self) -> dict[Any, Any]:
        """Storage of the program instance for ops with state (shared buffers)."""
        ...
