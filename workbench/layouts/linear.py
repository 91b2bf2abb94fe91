"""Layouts: where each element of a tile lives, as linear maps over F2.

In words. A tile is spread over hardware. A *place* is (register, lane, warp,
cta): which register, of which lane of a warp (here 32), of which warp of the
block, of which block of the cluster. A *distributed layout* says which element
is at a place. Every layout that hardware likes has one property: write place
and element in binary, and each bit of the place flips a fixed set of bits of
the element. That is a linear map over F2 (bits, with XOR as addition), and it
is fixed by one *basis* per bit of the place: the element at the place where
only this bit is 1.

In a table. An 8x8 tile in the fragment of one mma instruction. A lane holds
two neighbours of a row, four lanes hold a row, and eight such rows follow:

    register=[(0,1)]                           registers  0    1
    lane=[(0,2),(0,4),(1,0),(2,0),(4,0)]       lane 0   (0,0)(0,1)
                                               lane 1   (0,2)(0,3)
                                               lane 2   (0,4)(0,5)
                                               lane 4   (1,0)(1,1)
                                               lane 7   (1,6)(1,7)

Lane 7 = 4 ^ 2 ^ 1, so its first element is (1,0) ^ (0,4) ^ (0,2) = (1,6).

The law. L(place) is the XOR of the bases of the bits set in place. Therefore

    L(a ^ b) = L(a) ^ L(b)         L(0) = 0: a layout has no offset
    a zero basis                   the bit makes a copy: replication
    the kernel of L                all replication, also "lane 3 = register 0"
    L onto the padded tile         each element is somewhere (`verify`)

A *shared layout* maps an `offset` in elements to the tile and is a bijection:
swizzles are XORs, so they are linear as well.

Why from place to element, and not back? Replication. Several places may hold
one element, and a function from elements would have to choose one of them; a
register holds exactly one. For the same reason an inverse is never "the"
inverse: `invert`, `right_inverse` and `left_inverse` say which one they are.

Extents that are not powers of two are padded; coordinates beyond the real
extent are *holes*. A register that holds holes in every thread is *dead*
(`live_registers`) and never exists in code.

In memory a basis is one int, its padded coordinates concatenated row-major
(the last coordinate lowest): the *flat* form. Then composition, inversion,
kernel and division are eliminations over a handful of ints (`f2.py`). The
algebra follows triton-lang/triton include/triton/Tools/LinearLayout.h.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, Self

from workbench.layouts import columns, f2
from workbench.layouts.coordinates import (
    Coordinates,
    axis_bits,
    fits,
    flatten,
    reshape_is_linear,
    unflatten,
)
from workbench.layouts.holes import live_registers

Dimension = Literal["register", "lane", "warp", "cta", "offset"]
PLACE: tuple[Dimension, ...] = ("register", "lane", "warp", "cta")
"""The input dimensions of a distributed layout; always in this order."""
SHARED: tuple[Dimension, ...] = ("offset",)
_PLACE_AT = {str(name): number for number, name in enumerate(PLACE)}
_SHARED_AT = {str(name): number for number, name in enumerate(SHARED)}

Flat = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class LinearLayout:
    """A linear map over F2 from hardware places, or shared offsets, to tile coordinates.

    shape holds the real extents, dims the flat bases of each input dimension in
    the order register, lane, warp, cta (or offset alone), kind a word for the
    reader ("blocked", "mma"); equality and hash leave it out. Raises ValueError
    for a basis outside the padded shape and for dimensions that do not go
    together.
    """

    shape: Coordinates
    dims: Flat
    bits: Coordinates
    kind: str
    _hash: int = field(repr=False)

    def __init__(
        self,
        bases: Mapping[str, Sequence[Sequence[int]]],
        shape: Sequence[int],
        kind: str = "",
    ) -> None:
        """Make a layout from bases given as coordinate tuples; missing dimensions have none."""
        shape = tuple(shape)
        if any(extent < 1 for extent in shape):
            raise ValueError(f"layout shape is {shape}; expected extents of at least 1")
        names = SHARED if "offset" in bases else PLACE
        if unknown := set(bases) - set(names):
            raise ValueError(
                f"layout has the dimensions {sorted(bases)}; expected {', '.join(names)} "
                f"and not {', '.join(sorted(unknown))}"
            )
        bits = axis_bits(shape)
        for name, vectors in bases.items():
            for vector in vectors:
                if not fits(vector, bits):
                    raise ValueError(
                        f"{name} basis {tuple(vector)} is outside the tile; expected {len(shape)} "
                        f"coordinates below {tuple(1 << width for width in bits)}"
                    )
        dims = tuple(
            tuple(flatten(vector, bits) for vector in bases.get(name, ())) for name in names
        )
        self._fill(shape, dims, bits, kind)

    def _fill(self, shape: Coordinates, dims: Flat, bits: Coordinates, kind: str) -> None:
        put = object.__setattr__
        put(self, "shape", shape)
        put(self, "dims", dims)
        put(self, "bits", bits)
        put(self, "kind", kind)
        put(self, "_hash", hash((shape, dims)))

    @classmethod
    def from_flat(cls, dims: Flat, shape: Coordinates, kind: str = "") -> Self:
        """Make a layout from flat bases: four dimensions, or one for a shared layout.

        Trusts its caller: no basis may exceed the padded shape.
        """
        self = object.__new__(cls)
        self._fill(shape, dims, axis_bits(shape), kind)
        return self

    def __hash__(self) -> int:
        """Return the hash computed once, when the layout was made."""
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Return whether shape and bases are the same; see same_data for less."""
        if self is other:
            return True
        return (
            isinstance(other, LinearLayout)
            and self._hash == other._hash
            and self.shape == other.shape
            and self.dims == other.dims
        )

    # ------------------------------------------------------------------ reading

    @property
    def padded(self) -> Coordinates:
        """The extents rounded up to powers of two."""
        return tuple(1 << width for width in self.bits)

    @property
    def rank(self) -> int:
        """The number of tile axes."""
        return len(self.shape)

    @property
    def tile_bits(self) -> int:
        """log2 of the number of elements of the padded tile."""
        return sum(self.bits)

    @property
    def is_shared(self) -> bool:
        """Whether this maps shared-memory offsets rather than places."""
        return len(self.dims) == 1

    @property
    def names(self) -> tuple[Dimension, ...]:
        """The names of the input dimensions, in order."""
        return SHARED if self.is_shared else PLACE

    @property
    def bases(self) -> dict[str, tuple[Coordinates, ...]]:
        """The bases as coordinate tuples, one entry per input dimension."""
        return {
            name: tuple(unflatten(flat, self.bits) for flat in dim)
            for name, dim in zip(self.names, self.dims, strict=True)
        }

    @property
    def columns(self) -> tuple[int, ...]:
        """All flat bases in a row: the matrix of the map on flat places."""
        return tuple(flat for dim in self.dims for flat in dim)

    def flat(self, dimension: str) -> tuple[int, ...]:
        """Return the flat bases of one input dimension. Raises KeyError for an unknown one."""
        return self.dims[(_SHARED_AT if len(self.dims) == 1 else _PLACE_AT)[dimension]]

    def size(self, dimension: str) -> int:
        """Return how many values the input dimension has: lanes of a warp, warps, ..."""
        return 1 << len(self.flat(dimension))

    def apply(self, **place: int) -> Coordinates:
        """Return the tile coordinates held at a hardware place.

        Bit i of input d contributes the vector bases[d][i], by XOR:

            L(place) = XOR over d, i of  bit_i(place[d]) * bases[d][i]
            L(a ^ b) = L(a) ^ L(b),  L(0) = 0

        >>> l = LinearLayout({"register": [(1,)], "lane": [(2,), (4,)]}, (8,))
        >>> [l.apply(register=r, lane=2) for r in (0, 1)]
        [(4,), (5,)]

        Raises KeyError for an unknown dimension.
        """
        return unflatten(self.apply_flat(**place), self.bits)

    def apply_flat(self, **place: int) -> int:
        """Return the flat tile coordinate held at a hardware place."""
        flat = 0
        for dimension, index in place.items():
            flat ^= f2.apply(self.flat(dimension), index)
        return flat

    def table(self, dimension: str) -> tuple[int, ...]:
        """Return the flat coordinate of every value of one dimension, the others at 0."""
        return columns.table(self.flat(dimension))

    def flatten(self, coordinates: Sequence[int]) -> int:
        """Return padded coordinates concatenated row-major, the last one lowest."""
        return flatten(coordinates, self.bits)

    def unflatten(self, flat: int) -> Coordinates:
        """Return the coordinates of a flat one."""
        return unflatten(flat, self.bits)

    def place(self, flat_place: int) -> dict[str, int]:
        """Split a flat place (register bits lowest, then lane, warp, cta) by dimension."""
        split: dict[str, int] = {}
        for name, dim in zip(self.names, self.dims, strict=True):
            split[name] = flat_place & (1 << len(dim)) - 1
            flat_place >>= len(dim)
        return split

    def registers(self) -> int:
        """Return the number of registers of a thread, dead ones included."""
        return 1 << len(self.dims[0])

    def live_registers(self) -> tuple[int, ...]:
        """Return the registers that hold a real element in at least one thread, ascending.

        The others are dead: they hold only holes, in every lane and warp.
        """
        return _live_registers(self)

    def consecutive(self, dimension: str = "register", axis: int = -1) -> int:
        """Return how many elements along `axis` the lowest registers hold side by side.

        A power of two: 4 if the first bases are 1, 2 (and no 4) along the axis
        and 0 along every other one.
        """
        if not self.rank:
            return 1
        shift, count = sum(self.bits[axis % self.rank + 1 :]), 0
        for flat in self.flat(dimension):
            if flat != 1 << shift + count or count >= self.bits[axis]:
                break
            count += 1
        return 1 << count

    def side_by_side(self, dimension: str = "register", axis: int = -1) -> int:
        """Return how many elements along `axis` registers hold side by side, whichever these are.

        As `consecutive`, wherever among the bases those are.
        """
        if not self.rank:
            return 1
        shift, count = sum(self.bits[axis % self.rank + 1 :]), 0
        held = set(self.flat(dimension))
        while count < self.bits[axis] and 1 << shift + count in held:
            count += 1
        return 1 << count

    def verify(self) -> Self:
        """Return self. Raises ValueError unless each element of the padded tile has a place.

        A shared layout must be a bijection.
        """
        found, bits = f2.rank(self.columns), self.tile_bits
        if found < bits or (self.is_shared and len(self.columns) != bits):
            wanted = "a bijection" if self.is_shared else "onto the tile"
            raise ValueError(
                f"{self} has {len(self.columns)} bases of rank {found}; "
                f"expected rank {bits}, so that it is {wanted}"
            )
        return self

    def with_shape(self, shape: Coordinates) -> "LinearLayout":
        """Return the same map on other real extents with the same padding."""
        if axis_bits(shape) != self.bits:
            raise ValueError(f"shape is {shape}; expected one that pads to {self.padded}")
        return LinearLayout.from_flat(self.dims, shape, self.kind)

    def without_holes(self) -> "LinearLayout":
        """Return the layout of the whole padded tile."""
        return self if self.shape == self.padded else self.with_shape(self.padded)

    # ------------------------------------------------------------------ equality of data

    def kernel(self) -> tuple[int, ...]:
        """Return a basis of the flat places that hold the same element as place 0."""
        return columns.kernel(self.columns)

    def owners(self) -> dict[str, int]:
        """Return per dimension the mask of place bits that are 0 in an element's owner.

        Exactly one of the places that hold an element owns it. Atomics, prints
        and stores from several warps are made by owners only.
        """
        return self.place(columns.owner_bits(self.columns))

    def same_data(self, other: "LinearLayout") -> bool:
        """Return whether every thread holds the same set of elements in both layouts."""
        if self.shape != other.shape:
            return False
        return self == other or _canonical(self) == _canonical(other)

    def compact(self) -> "tuple[LinearLayout, tuple[int, ...]]":
        """Return (the layout without registers that are copies, the register bits it keeps).

        Register r of the result is the register of this layout whose bits kept[i]
        are the bits i of r.
        """
        return _compact(self)

    # ------------------------------------------------------------------ algebra

    def compose(self, inner: "LinearLayout") -> "LinearLayout":
        """Return self after `inner`, whose only coordinate is the offset into self.

        self is a shared layout: where does an access pattern of offsets land?
        """
        columns = self.flat("offset")
        if inner.rank != 1 or inner.tile_bits > len(columns):
            raise ValueError(
                f"cannot compose with {inner}: expected one axis of at most "
                f"{1 << len(columns)} offsets"
            )
        return inner.map(columns, self.shape)

    def offsets(self, layout: "LinearLayout") -> "LinearLayout":
        """Return place -> (offset,) of the elements of `layout` in this shared layout.

        compose undoes it: s.compose(s.offsets(l)) = l.
        """
        if layout.shape != self.shape:
            raise ValueError(f"layout of shape {layout.shape}; expected {self.shape}")
        return layout.map(self.invert(), (1 << self.tile_bits,))

    def map(self, columns: Sequence[int], shape: Coordinates, kind: str = "") -> "LinearLayout":
        """Return f after self, for a linear f on flat coordinates given by its columns."""
        dims = tuple(tuple(f2.apply(columns, flat) for flat in dim) for dim in self.dims)
        return LinearLayout.from_flat(dims, shape, kind)

    def product(self, outer: "LinearLayout", kind: str = "") -> "LinearLayout":
        """Return self x outer: the tile self, repeated by `outer`.

            (T x Q)(low, high) = T(low) | Q(high) << size(T)   per coordinate and dimension

        Associative, not commutative. Raises ValueError if self has holes, which
        would then lie inside the larger tile.
        """
        if self.rank != outer.rank or len(self.dims) != len(outer.dims):
            raise ValueError(f"cannot repeat {self} by {outer}: expected the same rank and inputs")
        sizes = list(zip(self.shape, self.padded, outer.shape, strict=True))
        if any(extent != padded and times > 1 for extent, padded, times in sizes):
            raise ValueError(f"cannot repeat a tile of {self.shape}; expected powers of two")
        shape = tuple(extent if times == 1 else padded * times for extent, padded, times in sizes)
        bits = axis_bits(shape)

        def high(flat: int) -> int:
            shifted = (c << s for c, s in zip(outer.unflatten(flat), self.bits, strict=True))
            return flatten(tuple(shifted), bits)

        dims = tuple(
            (*(flatten(self.unflatten(flat), bits) for flat in low), *map(high, top))
            for low, top in zip(self.dims, outer.dims, strict=True)
        )
        return LinearLayout.from_flat(dims, shape, kind)

    def divide(self, tile: "LinearLayout", *, right: bool = False) -> "LinearLayout | None":
        """Return Q with self = tile x Q, or None if self does not start with that tile.

        With `right`, Q with self = Q x tile: the tile is outermost, which peels
        repetitions off. The extents of Q are rounded up.
        """
        return _divide(self, tile, right)

    def invert(self) -> tuple[int, ...]:
        """Return the offset of each flat coordinate bit: the inverse of a shared layout."""
        return columns.inverse(self.flat("offset"))

    def right_inverse(self) -> tuple[int, ...]:
        """Return one flat place for each flat coordinate bit, L(L'(y)) = y.

        Which of the copies of an element it names is arbitrary; a conversion
        that should stay near must use convert.classify instead.
        """
        found = f2.right_inverse(self.columns, self.tile_bits)
        if found is None:
            raise ValueError(f"{self} has no right inverse: expected a map onto the tile")
        return tuple(found)

    def left_inverse(self) -> tuple[int, ...]:
        """Return L' on flat coordinates with L'(L(place)) = place, if nothing is replicated."""
        found = f2.left_inverse(self.columns, self.tile_bits)
        if found is None:
            raise ValueError(f"{self} has no left inverse: expected no replication")
        return tuple(found)

    # ------------------------------------------------------------------ views

    def _recoordinate(self, source: Sequence[int | None], shape: Coordinates) -> "LinearLayout":
        return _recoordinated(self, tuple(source), shape)

    def transpose(self, order: Sequence[int]) -> "LinearLayout":
        """Return the layout of the tile whose axis d is axis order[d] of this one."""
        if sorted(order) != list(range(self.rank)):
            raise ValueError(f"order is {tuple(order)}; expected each of {self.rank} axes once")
        return self._recoordinate(order, tuple(self.shape[axis] for axis in order))

    def reshape(self, shape: Sequence[int]) -> "LinearLayout | None":
        """Return the layout of the tile seen as `shape`, in row-major order; None if not linear.

        Flat coordinates stay what they are. With padding that is right if in
        every group of axes that map onto each other all but the leading one
        are powers of two: (96)->(3,32) is linear, (6)->(2,3) is not.
        """
        shape = tuple(shape)
        if not reshape_is_linear(self.shape, shape):
            return None
        return LinearLayout.from_flat(self.dims, shape)

    def expand_dims(self, axis: int) -> "LinearLayout":
        """Return the layout with a new axis of extent 1 at position `axis` of the result."""
        axis %= self.rank + 1
        source: list[int | None] = [*range(axis), None, *range(axis, self.rank)]
        return self._recoordinate(source, (*self.shape[:axis], 1, *self.shape[axis:]))

    def slice_axis(self, axis: int) -> "LinearLayout":
        """Return the layout with `axis` projected out: the result of a reduction along it."""
        axis %= self.rank
        kept = [*range(axis), *range(axis + 1, self.rank)]
        return self._recoordinate(kept, tuple(self.shape[d] for d in kept))

    def squeeze(self, axis: int) -> "LinearLayout":
        """Return the layout without `axis`, which must have extent 1."""
        if self.shape[axis] != 1:
            raise ValueError(f"axis {axis} has extent {self.shape[axis]}; expected 1")
        return self.slice_axis(axis)

    def broadcast_source(self, axes: Sequence[int]) -> "LinearLayout":
        """Return the layout that an operand needs so that broadcasting along `axes` moves no data.

        The axes get extent 1, their bits become zero bases.
        """
        chosen = {axis % self.rank for axis in axes}
        source = [None if axis in chosen else axis for axis in range(self.rank)]
        shape = (1 if axis in chosen else extent for axis, extent in enumerate(self.shape))
        return self._recoordinate(source, tuple(shape))

    def join(self) -> "LinearLayout":
        """Return the layout of two such tiles joined: a last axis of 2 on a new lowest register."""
        register, *rest = (tuple(flat << 1 for flat in dim) for dim in self.dims)
        return LinearLayout.from_flat(((1, *register), *rest), (*self.shape, 2))

    def split(self) -> "tuple[LinearLayout, tuple[int, ...], tuple[int, ...]] | None":
        """Return (layout of one half, registers of the first half, registers of the second).

        Undoes join: the last axis must have extent 2. None if the two halves of
        some thread are not both in its registers, or if which register holds
        which half depends on the thread: convert first.
        """
        rho = f2.solve(f2.echelon(self.dims[0])[0], 1)
        if not self.shape or self.shape[-1] != 2 or rho is None:
            return None
        if any(flat & 1 for dim in self.dims[1:] for flat in dim):
            return None
        kept = [bit for bit in range(len(self.dims[0])) if bit != f2.log2(rho)]
        places, held = f2.table(1 << bit for bit in kept), self.table("register")
        halves = [(p ^ rho, p) if held[p] & 1 else (p, p ^ rho) for p in places]
        dims = (tuple(self.dims[0][bit] >> 1 for bit in kept),)
        dims += tuple(tuple(flat >> 1 for flat in dim) for dim in self.dims[1:])
        layout = LinearLayout.from_flat(dims, self.shape[:-1])
        return layout, tuple(first for first, _ in halves), tuple(second for _, second in halves)

    # ------------------------------------------------------------------ text

    def __str__(self) -> str:
        """Return one line that parse_layout reads back.

        >>> print(LinearLayout({"register": [(0, 1)], "lane": [(1, 0)]}, (2, 2)))
        linear<2x2, register=[(0,1)], lane=[(1,0)]>
        """
        return _text(self)

    __repr__ = __str__


# Everything below is pure and keyed by hashable values, so that a compiler that
# asks the same question of the same few layouts pays once.


@lru_cache(4096)
def _canonical(layout: LinearLayout) -> tuple[object, ...]:
    registers = f2.reduced_echelon(layout.dims[0])
    rest = (tuple(f2.reduce_modulo(registers, flat) for flat in dim) for dim in layout.dims[1:])
    return tuple(sorted(registers.values())), *rest


@lru_cache(4096)
def _compact(layout: LinearLayout) -> tuple[LinearLayout, tuple[int, ...]]:
    copies = {f2.log2(inputs) for inputs in f2.kernel(layout.dims[0])}
    kept = tuple(bit for bit in range(len(layout.dims[0])) if bit not in copies)
    register = tuple(layout.dims[0][bit] for bit in kept)
    if not copies:
        return layout, kept
    return LinearLayout.from_flat((register, *layout.dims[1:]), layout.shape, layout.kind), kept


@lru_cache(4096)
def _text(layout: LinearLayout) -> str:
    def vector(coordinates: Coordinates) -> str:
        joined = ",".join(map(str, coordinates))
        return joined if len(coordinates) == 1 else f"({joined})"

    parts = ["x".join(map(str, layout.shape)) or "scalar"]
    for name, vectors in layout.bases.items():
        if vectors or name == "offset":
            parts.append(f"{name}=[{','.join(map(vector, vectors))}]")
    return f"linear<{', '.join(parts)}>"


@lru_cache(4096)
def _live_registers(layout: LinearLayout) -> tuple[int, ...]:
    return live_registers(layout.dims, layout.shape)


def _divide(whole: LinearLayout, tile: LinearLayout, right: bool) -> LinearLayout | None:
    if whole.rank != tile.rank or len(whole.dims) != len(tile.dims):
        return None
    if any(a < b for a, b in zip(whole.bits, tile.bits, strict=True)):
        return None
    extents = tuple(1 << a - b for a, b in zip(whole.bits, tile.bits, strict=True))
    if right:
        shape = extents
    else:
        pairs = zip(whole.shape, tile.padded, strict=True)
        shape = tuple(-(-extent // step) for extent, step in pairs)
    bits = axis_bits(extents)
    dims: list[tuple[int, ...]] = []
    for dim, known in zip(whole.dims, tile.dims, strict=True):
        if len(dim) < len(known):
            return None
        rest = dim[: len(dim) - len(known)] if right else dim[len(known) :]
        parts = (zip(whole.unflatten(flat), tile.bits, extents, strict=True) for flat in rest)
        dims.append(
            tuple(
                flatten([c & e - 1 if right else c >> b for c, b, e in part], bits)
                for part in parts
            )
        )
    quotient = LinearLayout.from_flat(tuple(dims), extents)
    inner, outer = (quotient, tile) if right else (tile, quotient)
    again = inner.without_holes().product(outer.without_holes())
    return LinearLayout.from_flat(tuple(dims), shape) if again.dims == whole.dims else None


@lru_cache(4096)
def _recoordinated(
    layout: LinearLayout, source: tuple[int | None, ...], shape: Coordinates
) -> LinearLayout:
    """Return a layout whose axis d is the old axis source[d], None for a coordinate of 0."""
    bits = axis_bits(shape)

    def move(flat: int) -> int:
        old = unflatten(flat, layout.bits)
        return flatten([0 if axis is None else old[axis] for axis in source], bits)

    return LinearLayout.from_flat(tuple(tuple(map(move, dim)) for dim in layout.dims), shape)
