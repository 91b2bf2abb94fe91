"""Whether an answer to a question is right, however it is spelled."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

#: How far a number that is no integer may be off.
_NEAR = 0.02
#: No answer has more values, deeper lists or longer words.
_MOST_VALUES, _DEEPEST, _MOST_LETTERS = 1000, 4, 100


def is_right(right: Any, given: Sequence[Any]) -> bool:
    """Say whether the values given are the right answer; what is no number or word is not.

    They may be in lists or arrays. A set stands for names or numbers in any order, a list for words
    in any order, some of which may be equal; a tuple of words is in order, another tuple holds one
    answer for each value given.
    """
    try:
        return _is_right(right, [_listed(value, _DEEPEST) for value in given])
    except _OddError:
        return False


class _OddError(Exception):
    """A value that is no answer to anything."""


def _listed(value: Any, deep: int) -> Any:
    """Return a value as a plain number or text, or as a list of them."""
    if hasattr(value, "tolist") and type(value).__module__ in ("numpy", "torch"):
        value = value.tolist() if value.nbytes <= 16 * _MOST_VALUES else None
    if type(value) in (int, float, bool):
        return value
    if isinstance(value, str) and len(value) <= _MOST_LETTERS * _MOST_VALUES:
        return str(value)
    if not isinstance(value, list | tuple | set | frozenset | range) or not deep:
        raise _OddError
    if len(value) > _MOST_VALUES:
        raise _OddError
    return [_listed(item, deep - 1) for item in value]


def _is_right(right: Any, given: Sequence[Any]) -> bool:
    if isinstance(right, set | list):
        found = [_plain(value) for value in _flat(given)]
        wanted = [_plain(value) for value in right]
        if isinstance(right, set):
            return set(found) == set(wanted)
        return sorted(map(str, found)) == sorted(map(str, wanted))
    if isinstance(right, tuple):
        if all(isinstance(value, str) for value in right):
            return [_plain(v) for v in _flat(given)] == [_plain(v) for v in right]
        if len(given) == 1 and isinstance(given[0], list):
            given = given[0]
        return len(given) == len(right) and all(
            _is_right(one, [value]) for one, value in zip(right, given, strict=True)
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
        if isinstance(right, int):
            return value == right
        return right - _NEAR * abs(right) <= value <= right + _NEAR * abs(right)
    return str(_plain(right)).lower() == str(_plain(value)).lower()


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, str) and "," in value:
            yield from (word for word in value.split(",") if word.strip())
        elif isinstance(value, list):
            yield from _flat(value)
        else:
            yield value


def _plain(value: Any) -> Any:
    """Return a word without what surrounds it in a listing; numbers as they are."""
    if not isinstance(value, str):
        return value
    word = value.strip().strip("'\"`").lstrip("%")[:_MOST_LETTERS]
    return int(word) if word.isdecimal() else re.sub(r"\.\d+$", "", word)
