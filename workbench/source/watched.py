"""What a launch asks of everything that its kernel was compiled of: does it mean the same still?

Entries of dicts stand by themselves, so that launchers ask for them in a row. All else (members of
classes, names that nothing has, slots, cells, what is in containers and arrays) is asked for in one
go, by loops that run in C where they can.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from itertools import repeat
from math import copysign
from operator import call, is_
from typing import Any, cast


class _Absent:
    """What stands in a guard for a name that its space does not have."""

    def __repr__(self) -> str:
        return "<absent>"


ABSENT = _Absent()

#: (space, name, value): the space's `get` gives that very value; a dict's, or what is below.
Guard = tuple[Any, Any, Any]


def holds(guard: Guard) -> bool:
    """Say whether what a guard says is still so."""
    space, name, value = guard
    return space.get(name, ABSENT) is value


def guard_key(guard: Guard) -> Hashable:
    """Return what is the same for guards of one name that stand for one object, made twice."""
    space, name, value = guard
    if isinstance(space, Watched):
        return space.identity
    return id(space), name, id(value)


#: The method of views of a dict's keys; it looks at no more than there are keys or names.
_NONE_OF: Any = type(dict[str, Any]().keys()).isdisjoint


class Watched:
    """Many things that must stay what they are.

    As a guard's space it knows one name, which means True as long as they have.
    """

    def __init__(self) -> None:
        self._kept: list[Any] = []
        self._dicts: list[tuple[dict[str, Any], str, Any]] = []
        self._classes: list[tuple[types.MappingProxyType[str, Any], str, Any]] = []
        self._absent: list[tuple[Any, frozenset[str]]] = []
        self._cells: list[tuple[types.CellType, Any]] = []
        self._parts: list[tuple[Iterable[Any], int, tuple[Any, ...]]] = []
        self._contents: list[Callable[[], bool]] = []
        self._checks: list[Callable[[], bool]] = []
        self._identity: list[Hashable] = []
        self._sets: dict[frozenset[str], frozenset[str]] = {}
        self._columns: tuple[tuple[Any, ...], ...] | None = None

    @property
    def guard(self) -> Guard:
        """All of it as one guard."""
        return self, "unchanged", True

    @property
    def identity(self) -> Hashable:
        """Return what is the same for the same things, watched twice."""
        return tuple(self._identity)

    def __bool__(self) -> bool:
        return bool(self._identity)

    def entry(self, owner: Any, space: Any, name: str, value: Any) -> None:
        """Watch an entry of a dict, or of a class's own dict.

        The owner is known by its identity: a view of a class's dict is made anew each time.
        """
        rows: list[Any] = self._dicts if type(space) is dict else self._classes
        rows.append((space, name, value))
        self._kept.append(owner)
        self._identity.append((id(owner), name, id(value)))

    def absent(self, owner: Any, space: Any, names: Iterable[str]) -> None:
        """Watch names that a dict, or a class's own, does not have."""
        found = frozenset(names)
        if found:
            found = self._sets.setdefault(found, found)
            self._absent.append((space.keys(), found))
            self._kept.append(owner)
            self._identity.append((id(owner), found))

    def cell(self, cell: types.CellType, value: Any) -> None:
        """Watch a variable that a function captured."""
        self._cells.append((cell, value))
        self._identity.append((id(cell), id(value)))

    def contents(self, held: Any, before: tuple[Any, ...], items: Callable[[Any], Any]) -> None:
        """Watch what is in a container, in its order; of a dict the keys, then the values."""
        parts = _parts(held)
        if parts is None:
            check = partial(same_items, held, before, items)
            self.check((id(held), tuple(map(id, before))), check)
            return
        size = len(before) // len(parts)
        for number, part in enumerate(parts):
            self._parts.append((part, size, before[number * size : (number + 1) * size]))
        self._contents.append(partial(same_items, held, before, items))
        self._identity.append((id(held), tuple(map(id, before))))

    def check(self, identity: Hashable, check: Callable[[], bool]) -> None:
        """Watch whatever a function without arguments says."""
        self._checks.append(check)
        self._identity.append(identity)

    def get(self, _name: str, _default: Any = None) -> Any:
        """Return True as long as everything is what it was."""
        return self.unchanged()

    def unchanged(self) -> bool:
        """Say whether everything is what it was; what cannot be asked any more is not."""
        try:
            return self._ask()
        except Exception:
            return False

    def _ask(self) -> bool:
        if self._columns is None:
            self._columns = tuple(
                tuple(zip(*rows, strict=True)) if rows else ()
                for rows in (self._dicts, self._classes, self._absent, self._cells, self._parts)
            )
        dicts, classes, absent, cells, parts = self._columns
        if dicts and not _same(_DICT_GET, dicts):
            return False
        if classes and not _same(_CLASS_GET, classes):
            return False
        if absent and not all(map(_NONE_OF, *absent)):
            return False
        contents: Iterable[Any] = map(_content_of, cells[0]) if cells else ()
        if cells and not all(map(is_, contents, cells[1])):
            return False
        if parts and not self._has_same_items(*parts):
            return False
        return not self._checks or all(map(call, self._checks))

    def _has_same_items(self, parts: tuple[Any, ...], sizes: Any, before: Any) -> bool:
        if tuple(map(len, parts)) != sizes:
            return False
        # Another object may be an equal number, which is asked of one container after the other.
        alike: Iterable[Iterable[bool]] = map(_IDENTITIES, parts, before)
        return all(map(all, alike)) or all(map(call, self._contents))


_DICT_GET: Any = vars(dict)["get"]
_CLASS_GET: Any = vars(types.MappingProxyType)["get"]
#: Of two rows, whether their items are the very same, one after the other.
_IDENTITIES: Any = partial(map, is_)
_content_of: Any = vars(types.CellType)["cell_contents"].__get__


def _same(get: Any, columns: tuple[Any, ...]) -> bool:
    spaces, names, values = columns
    found: Iterable[Any] = map(get, spaces, names, repeat(ABSENT))
    return all(map(is_, found, values))


def _parts(held: Any) -> tuple[Iterable[Any], ...] | None:
    """Return what to iterate over, each time anew, for what a container of Python's own holds."""
    if type(held) is dict:
        return cast("dict[Any, Any]", held).keys(), cast("dict[Any, Any]", held).values()
    if type(held) is list or type(held) is set:
        return (cast("Iterable[Any]", held),)
    return None


def same_items(held: Any, before: tuple[Any, ...], items: Callable[[Any], Any]) -> bool:
    """Say whether a container holds the same things, in their order, numbers and texts by value."""
    now = tuple(items(held))
    return len(now) == len(before) and all(map(_is_same, now, before))


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    kind = cast("type[Any]", type(one))
    if kind is not type(other) or kind not in (int, float, bool, str) or one != other:
        return False
    return kind is not float or one != 0.0 or copysign(1.0, one) == copysign(1.0, other)


#: Bytes that are compared at once: a part that stays in a core's cache.
_PART = 1 << 18


def in_parts(view: memoryview) -> list[bytes]:
    """Return a copy of what a buffer holds, to compare."""
    flat = _flat(view)
    return [bytes(flat[start : start + _PART]) for start in range(0, len(flat), _PART)]


def same_bytes(view: memoryview, before: list[bytes]) -> bool:
    """Say whether a buffer holds the same bytes."""
    flat = _flat(view)
    size = sum(map(len, before))
    return len(flat) == size and all(
        flat[n * _PART : (n + 1) * _PART].tobytes() == part for n, part in enumerate(before)
    )


def _flat(view: memoryview) -> memoryview:
    """Return a buffer as bytes in a row."""
    if view.nbytes == 0:
        return memoryview(b"")
    if not view.c_contiguous:
        return memoryview(view.tobytes())
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")
