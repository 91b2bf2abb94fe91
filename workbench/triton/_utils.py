"""`triton._utils`: helpers that libraries import although their name is private."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from math import prod
from typing import Any

from workbench.source.elements import ITEM_BITS, TYPE_NAMES, parse_type, triton_name

TRITON_MAX_TENSOR_NUMEL = 1048576

#: Every spelling of an element type -> the one in signatures.
type_canonicalisation_dict = {
    **{word: triton_name(name) for word, name in TYPE_NAMES.items()},
    **{triton_name(name): triton_name(name) for name in TYPE_NAMES.values()},
    "void": "void",
}

#: Every spelling of an element type -> its bits.
BITWIDTH_DICT = {
    word: ITEM_BITS.get(parse_type(word) or "", 0) for word in type_canonicalisation_dict
}


def get_iterable_path(iterable: Any, path: Sequence[int]) -> Any:
    """Return the member of nested sequences at a path of places."""
    return reduce(lambda found, place: found[place], path, iterable)


def find_paths_if(
    iterable: Iterable[Any], pred: Callable[[tuple[int, ...], Any], bool]
) -> list[tuple[int, ...]]:
    """Return the paths of all members of nested sequences for which `pred(path, member)` holds."""
    found: list[tuple[int, ...]] = []

    def visit(path: tuple[int, ...], value: Any) -> None:
        if isinstance(value, list | tuple):
            for place, item in enumerate(value):
                visit((*path, place), item)
        elif pred(path, value):
            found.append(path)

    visit((), iterable)
    return found


def is_power_of_two(x: int) -> bool:
    """Say whether a positive number is a power of two."""
    return x & (x - 1) == 0


def validate_block_shape(shape: Sequence[int]) -> int:
    """Return how many elements a block has; raises ValueError for one that is too large."""
    for place, extent in enumerate(shape):
        if not isinstance(extent, int):
            raise TypeError(f"extent {place} of a block is an int, got {extent!r}")
    count = prod(shape)
    if count > TRITON_MAX_TENSOR_NUMEL:
        raise ValueError(f"a block of {count} elements, at most {TRITON_MAX_TENSOR_NUMEL}")
    return count


def canonicalize_dtype(dtype: Any) -> str:
    """Return an element type's spelling in signatures."""
    return type_canonicalisation_dict[str(dtype).rpartition(".")[2]]


def canonicalize_ptr_dtype(dtype: Any, is_const: bool) -> str:
    """Return a pointer type's spelling in signatures."""
    return f"{'*k' if is_const else '*'}{canonicalize_dtype(dtype)}"


def get_primitive_bitwidth(dtype: str) -> int:
    """Return the bits of an element type."""
    return BITWIDTH_DICT[dtype]


def is_namedtuple(val: Any) -> bool:
    """Say whether a value is a named tuple's class."""
    return isinstance(val, type) and issubclass(val, tuple) and hasattr(val, "_fields")
