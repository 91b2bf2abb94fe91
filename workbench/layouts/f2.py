"""Linear algebra over F2 on Python integers.

A *vector* is an int, one bit per coordinate; adding is XOR. A *linear map* is
the sequence of its columns: the images of the unit vectors 1, 2, 4, ... . So
one elimination over at most twenty ints answers every question that a layout
asks (rank, kernel, image, inverse), without NumPy and in microseconds.

There are four ways to "solve" and they are not interchangeable:

    inverse        of a bijection                        M(M'(y)) = y, M'(M(x)) = x
    right_inverse  of a surjection                       M(M'(y)) = y, picks one of many x
    left_inverse   of an injection                       M'(M(x)) = x
    solve          neither: one x on the image, None off it
"""

from collections.abc import Iterable, Sequence

Pivots = dict[int, tuple[int, int]]
"""Leading bit -> (vector, the inputs that were combined to make it)."""


def units(count: int) -> list[int]:
    """Return the unit vectors 1, 2, 4, ... of a space of `count` bits."""
    return [1 << bit for bit in range(count)]


def extent_bits(extent: int) -> int:
    """Return the number of bits of the padded extent: log2 of the next power of two."""
    return (extent - 1).bit_length()


def log2(power: int) -> int:
    """Return the exponent of a power of two, or of the largest one below."""
    return power.bit_length() - 1


def apply(columns: Sequence[int], vector: int) -> int:
    """Return the map at `vector`: the XOR of the columns whose bit is set."""
    image = 0
    for column in columns:
        if vector & 1:
            image ^= column
        vector >>= 1
    return image


def table(columns: Iterable[int]) -> list[int]:
    """Return the image of every vector 0, 1, 2, ...; by doubling, so one XOR each."""
    images = [0]
    for column in columns:
        images += [image ^ column for image in images]
    return images


def echelon(vectors: Iterable[int]) -> tuple[Pivots, list[int]]:
    """Return (pivots, kernel) of the map with these columns.

    rank = len(pivots), and rank + len(kernel) = number of vectors. Each kernel
    entry is a set of inputs (bit i = vector i) whose vectors add up to 0; the
    entries are independent.
    """
    pivots: Pivots = {}
    kernel: list[int] = []
    for position, original in enumerate(vectors):
        vector, inputs = original, 1 << position
        while vector:
            pivot = pivots.get(vector.bit_length())
            if pivot is None:
                pivots[vector.bit_length()] = (vector, inputs)
                break
            vector ^= pivot[0]
            inputs ^= pivot[1]
        else:
            kernel.append(inputs)
    return pivots, kernel


def solve(pivots: Pivots, target: int) -> int | None:
    """Return one x with M(x) = target, None if target is not in the image.

    Linear in `target` as long as the pivots stay the same.
    """
    inputs = 0
    while target:
        pivot = pivots.get(target.bit_length())
        if pivot is None:
            return None
        target ^= pivot[0]
        inputs ^= pivot[1]
    return inputs


def rank(vectors: Iterable[int]) -> int:
    """Return the dimension of the span."""
    return len(echelon(vectors)[0])


def kernel(columns: Iterable[int]) -> list[int]:
    """Return a basis of the vectors that the map sends to 0."""
    return echelon(columns)[1]


def basis(vectors: Iterable[int]) -> list[int]:
    """Return independent vectors with the same span."""
    return [vector for vector, _ in echelon(vectors)[0].values()]


def contains(vectors: Iterable[int], target: int) -> bool:
    """Return whether `target` lies in the span of `vectors`."""
    return solve(echelon(vectors)[0], target) is not None


def extend(vectors: Iterable[int], pool: Iterable[int]) -> list[int]:
    """Return those of `pool`, in order, that raise the rank of `vectors` and of those chosen."""
    pivots = {leading: vector for leading, (vector, _) in echelon(vectors)[0].items()}
    chosen: list[int] = []
    for candidate in pool:
        vector = candidate
        while vector:
            pivot = pivots.get(vector.bit_length())
            if pivot is None:
                pivots[vector.bit_length()] = vector
                chosen.append(candidate)
                break
            vector ^= pivot
    return chosen


def complement(vectors: Iterable[int], bits: int) -> list[int]:
    """Return unit vectors that complete span(vectors) to the whole space of `bits` bits."""
    return extend(vectors, units(bits))


def intersection(first: Iterable[int], second: Iterable[int]) -> list[int]:
    """Return a basis of span(first) & span(second).

    Where a combination of the one equals a combination of the other, the two
    together are in the kernel of the concatenation; the first's part is kept.
    """
    first, second = basis(first), basis(second)
    return [apply(first, k & (1 << len(first)) - 1) for k in kernel(first + second)]


def reduced_echelon(vectors: Iterable[int]) -> dict[int, int]:
    """Return {leading bit: vector} in which no leading bit is set in another vector.

    Unique for the span, so two spans are equal exactly when these are.
    """
    pivots: dict[int, int] = {}
    for original in vectors:
        if vector := reduce_modulo(pivots, original):
            leading = log2(vector)
            for other, pivot in pivots.items():
                if pivot >> leading & 1:
                    pivots[other] = pivot ^ vector
            pivots[leading] = vector
    return pivots


def reduce_modulo(pivots: dict[int, int], vector: int) -> int:
    """Return the smallest vector of `vector` + the span of a reduced echelon form."""
    for leading, pivot in pivots.items():
        if vector >> leading & 1:
            vector ^= pivot
    return vector


def right_inverse(columns: Sequence[int], bits: int) -> list[int] | None:
    """Return M' with M(M'(y)) = y for a map onto `bits` bits; None if it is not onto."""
    pivots, _ = echelon(columns)
    if len(pivots) < bits:
        return None
    images = [solve(pivots, unit) for unit in units(bits)]
    return [image for image in images if image is not None]


def left_inverse(columns: Sequence[int], bits: int) -> list[int] | None:
    """Return M' with M'(M(x)) = x for an injective map into `bits` bits; None if not injective.

    Off the image it is fixed by a complement of unit vectors, which go to 0.
    """
    if rank(columns) < len(columns):
        return None
    whole = right_inverse([*columns, *complement(columns, bits)], bits)
    return whole and [image & (1 << len(columns)) - 1 for image in whole]


def inverse(columns: Sequence[int]) -> list[int]:
    """Return the inverse of a bijection of len(columns) bits. Raises ValueError if it is none."""
    found = right_inverse(columns, len(columns))
    if found is None or any(column >> len(columns) for column in columns):
        raise ValueError(
            f"map with columns {list(columns)} has no inverse: "
            f"expected {len(columns)} independent vectors of {len(columns)} bits"
        )
    return found


def common_complement(first: Iterable[int], second: Iterable[int], bits: int) -> list[int]:
    """Return K that meets neither span(first) nor span(second), of the largest dimension.

    dim K = bits - max(rank first, rank second). After the smaller span is made
    as large as the other one (by vectors of the other, then unit vectors), let
    a_i and d_i complete the intersection to the two spans. K is spanned by the
    sums a_i + d_i and by a complement of both: an element of K in span(first)
    would put a sum of d_i into the intersection.
    """
    first, second = extend((), first), extend((), second)
    while len(first) != len(second):
        small, big = (first, second) if len(first) < len(second) else (second, first)
        small.append(extend(small, big + units(bits))[0])
    shared = intersection(first, second)
    pairs = zip(extend(shared, first), extend(shared, second), strict=True)
    return [a ^ d for a, d in pairs] + complement(first + second, bits)
