"""Facts about the columns of a linear map, each computed once.

A compiler asks the same questions of the same few maps, so all of this is cached.
"""

from functools import lru_cache

from workbench.layouts import f2


@lru_cache(4096)
def table(columns: tuple[int, ...]) -> tuple[int, ...]:
    """Return what each combination of the columns gives, by number."""
    return tuple(f2.table(columns))


@lru_cache(4096)
def kernel(columns: tuple[int, ...]) -> tuple[int, ...]:
    """Return a basis of the combinations that give 0."""
    return tuple(f2.kernel(columns))


@lru_cache(4096)
def owner_bits(columns: tuple[int, ...]) -> int:
    """Return the bits that are 0 in the one owner among places that hold the same."""
    return sum(1 << leading for leading in f2.reduced_echelon(kernel(columns)))


@lru_cache(4096)
def inverse(columns: tuple[int, ...]) -> tuple[int, ...]:
    """Return the columns of the inverse."""
    return tuple(f2.inverse(columns))
