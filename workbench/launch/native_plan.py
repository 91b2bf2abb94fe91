"""What a native launcher is made for: one shape of calls, and what it keeps of each specialisation.

An *entry* of its table holds the words by which a call is known and what is launched then. How
these are used is said in native.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from struct import pack, unpack
from typing import Any

from workbench.launch.measures import MEASURES, Measure

#: Words of an entry before its parameter places: code, threads, shared, result, condition, outcome,
#: assembly, most blocks, most programs that they take, blocks of a cluster.
HEAD = 10
CONDITION, OUTCOME, ASSEMBLY, BLOCKS, TAKEN, CLUSTER = 4, 5, 6, 7, 8, 9

#: Kinds of what is part of the code.
CONSTANT = "nvo"

Guards = Sequence[tuple[Mapping[str, Any], str, Any]]


@dataclass(frozen=True, slots=True)
class Slot:
    """One parameter or option that a call gives.

    `place` says where its object stands in the call's array of arguments (the grid is at 0).
    `kind`: "t" array, "i" integer, "f" float (32 bits), "d" double, "b" bool; of constants "n" an
    integer compared by value, "v" a float by its bits, "o" an object compared by identity.
    """

    name: str
    kind: str
    place: int

    @property
    def is_runtime(self) -> bool:
        """Whether the code may receive it."""
        return self.kind in "tifdb"


@dataclass(frozen=True, slots=True)
class Shape:
    """How a call passes its arguments: how many by position (the grid too), which by keyword."""

    positional: int
    keywords: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that the native code of a launcher depends on.

    `slots` are the parameters that the call gives, `options` the options; `defaults` are the
    parameters that it leaves out; where it is `guarded`, conditions find where the arrays' storages
    start and end behind the values. `launch` is the address of `cuLaunchKernel` or of a function
    that is called like it; `stream` is torch's function for the current stream, None where launches
    have none.
    """

    shape: Shape
    slots: tuple[Slot, ...]
    launch: int
    stream: Callable[[int], int] | None = None
    guards: Guards = ()
    options: tuple[Slot, ...] = ()
    defaults: tuple[tuple[str, Any], ...] = ()
    guarded: bool = False
    kept: list[Any] = field(default_factory=list[Any])

    @property
    def runtime(self) -> list[Slot]:
        """The slots that the code may receive."""
        return [slot for slot in self.slots if slot.is_runtime]

    @property
    def grid_places(self) -> list[int]:
        """Where among the slots of a launch its grid is: behind values and storages."""
        first = len(self.runtime) + 2 * len(self.arrays)
        return [first, first + 1, first + 2]

    @property
    def arrays(self) -> list[Slot]:
        """The arrays among them."""
        return [slot for slot in self.slots if slot.kind == "t"]

    @property
    def measures(self) -> list[tuple[Slot, Measure, int, int]]:
        """What is measured of the slots, each with its word among those of facts, and its place."""
        found: list[tuple[Slot, Measure, int, int]] = []
        word = bit = 0
        for slot in self.slots:
            for measure in MEASURES.get(slot.kind, ()):
                if bit + measure.bits > 64:
                    word, bit = word + 1, 0
                found.append((slot, measure, word, bit))
                bit += measure.bits
        return found

    @property
    def words(self) -> int:
        """How many words tell specialisations apart."""
        arrays = sum(slot.kind == "t" for slot in self.slots)
        constants = sum(slot.kind in CONSTANT for slot in (*self.slots, *self.options))
        return 2 * arrays + constants + len({word for *_, word, _ in self.measures})

    @property
    def width(self) -> int:
        """How many words an entry has."""
        return HEAD + len(self.runtime) + self.words


def words_of(plan: Plan, values: Sequence[Any]) -> list[int]:
    """Return the words that the native code computes; `values` follow `slots`, then `options`."""
    words: list[int] = []
    numbers: dict[str, int] = {}
    for slot, value in zip((*plan.slots, *plan.options), values, strict=True):
        match slot.kind:
            case "t":
                words += [id(value.dtype), value.get_device()]
                numbers[slot.name] = value.data_ptr()
            case "i":
                numbers[slot.name] = value
            case "n":
                words.append(value)
            case "v":
                words += unpack("<q", pack("<d", value))
            case "o":
                words.append(id(value))
    facts: dict[int, int] = {}
    for slot, measure, word, bit in plan.measures:
        facts[word] = facts.get(word, 0) | measure.of(numbers[slot.name]) << bit
    signed = [(fact + (1 << 63)) % (1 << 64) - (1 << 63) for fact in facts.values()]
    return [*words, *signed]
