"""What an op answers that could be a copy: one that starts before its turn, or one of a whole tile.

The rules that give these answers are registered on a table (targets/simt/rules.py).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from workbench.ir import Builder, Op, Scalar, Shared, Value


class Copy(Protocol):
    """Makes the op that starts a copy into a slot of a buffer, with other pointers and mask."""

    def __call__(self, pointers: Value, mask: Value | None, buffer: Value, slot: Value) -> Op:
        """Return the op."""
        ...


@dataclass(frozen=True, slots=True)
class Box:
    """A copy of a whole tile that one thread starts, and whose bytes a barrier counts.

    source: what it copies from; the copies of two loads are prepared once if that is one value.
    kind: copies of one kind into buffers of one type may share a ring.
    reads: the numbers that say where the tile begins.
    bytes: how many the barrier is to expect, for the type of the buffer.
    slots: of the ring that was decided upon, 0 if none was.
    decided: the op's fields that say that a producer fills (channel, slots) of a ring with it.
    prepare: writes, before any copy, what all of them read, for the type of the buffer.
    copy: makes what starts a copy: of what was prepared, from the numbers, to (buffer, slot),
        counted by (barriers, turn), if a number of type i1 says so (None: always).
    shared: the copy into a buffer as so many blocks make it together, each a part for all, where
        its op says that they are to (`together`); None: they cannot.
    steps: how many elements rows and what is outside of them lie apart in memory.
    """

    source: Value
    kind: Hashable
    reads: tuple[Value, ...]
    bytes: Callable[[Shared], int]
    slots: int
    decided: Callable[[int, int], Mapping[str, Any]]
    prepare: Callable[[Builder, Shared], Value]
    copy: Callable[
        [Value, Sequence[Value], tuple[Value, Value], tuple[Value, Value], Value | None], Op
    ]
    shared: Callable[[Shared, int], Box | None]
    steps: tuple[Value, ...]


#: Why a copy does not do what its load is asked for.
TAKES_NONE = "the load is copied ahead, and such a copy takes none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ahead:
    """How an op that reads a tile of global memory becomes a copy to shared memory.

    buffer: the type of the buffer, with no slots.
    others: other types of it, for who reads it through a layout.
    copy: makes what starts the copy, vector by vector (masked-off elements become zero).
    box: or how the tile is copied as a whole.
    obstacle: why it cannot be copied; empty if it can.
    unheard: what the author asked of the access and a copy does not do, by its name in `tl`.
    why_unheard: why, by that name, where it is not that copies take no such thing.
    """

    buffer: Shared
    others: tuple[Shared, ...] = ()
    copy: Copy | None = None
    box: Box | None = None
    obstacle: str = ""
    unheard: Mapping[str, str] = field(default_factory=dict[str, str])
    why_unheard: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """An op that reads a tile of global memory, which a copy of the whole tile could do for it.

    pointers, mask: where, and which of the elements (None: all).
    other: what the others become (None: zero).
    element: of the tile.
    obstacle: why no such copy reads as it does; empty if one could.
    unheard: what the author asked of the access and a copy does not do, by its name in `tl`.
    """

    pointers: Value
    mask: Value | None
    other: Value | None
    element: Scalar
    obstacle: str = ""
    unheard: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """An op that writes a tile to global memory, which copies of boxes of it could do.

    pointers, mask: where, and which of the elements (None: all). tile: what is written.
    obstacle, unheard: as in `Raised`.
    """

    pointers: Value
    mask: Value | None
    tile: Value
    obstacle: str = ""
    unheard: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Lasting:
    """An op that waits for the end of reads of its scratch: itself as one that leaves them going.

    It waits before it writes there again; drain: who waits after the last one.
    """

    kept: Op
    drain: Op
