"""Whether an answer to a question is right, however it is spelled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

#: How far a number that is no integer may be off.
_NEAR = 0.02


def is_right(right: Any, given: Sequence[Any]) -> bool:
    """Say whether the values given are the right answer.

    A set stands for names or numbers in any order, a list for words in any order, some of which may
    be equal; a tuple of words is in order, another tuple holds one answer for each value given.
    """
    if isinstance(right, set | list):
        found = [_plain(value) for value in _flat(given)]
        wanted = [_plain(value) for value in right]
        if isinstance(right, set):
            return set(found) == set(wanted)
        return sorted(map(str, found)) == sorted(map(str, wanted))
    if isinstance(right, tuple):
        if all(isinstance(value, str) for value in right):
            return [_plain(v) for v in _flat(given)] == [_plain(v) for v in right]
        if len(given) == 1 and isinstance(given[0], tuple | list):
            given = given[0]
        return len(given) == len(right) and all(
            is_right(one, [value]) for one, value in zip(right, given, strict=True)
        )
    return len(given) == 1 and _same(right, given[0])


def _same(right: Any, value: Any) -> bool:
    if isinstance(right, int | float):
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                return False
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        near = 0.0 if isinstance(right, int) else _NEAR * abs(right)
        return abs(value - right) <= near
    return str(_plain(right)).lower() == str(_plain(value)).lower()


def _flat(values: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for value in values:
        if isinstance(value, str) and "," in value:
            found += [word for word in value.split(",") if word.strip()]
        elif isinstance(value, list | tuple | set | frozenset | range):
            found += _flat(value)
        else:
            found.append(value)
    return found


def _plain(value: Any) -> Any:
    """Return a word without what surrounds it in a listing; numbers as they are."""
    if not isinstance(value, str):
        return value
    word = value.strip().strip("'\"`").lstrip("%")
    return int(word) if word.isdecimal() else re.sub(r"\.\d+$", "", word)
