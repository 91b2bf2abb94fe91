"""Types of IR values: scalars, pointers, tiles of them, shared buffers, tensor maps, tokens.

Text forms: `i1 i32 u8 index f16 bf16 f32 f8e4m3`, `ptr<f16>`, `tile<128x64xf16>`, in GPU IR
`tile<128x64xf16, #L1>`, `shared<128x64xf16, #S0, slots=3>`, `tensor_map<128x64xf16>`,
`token`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from typing import ClassVar, Literal

from workbench.layouts import LinearLayout, Packing, packing

Kind = Literal["bool", "int", "uint", "index", "float"]


class Type:
    """Base of all types; types are values: equal when written the same."""

    __slots__ = ()
    #: Whether threads share its elements out among themselves, as a layout says.
    takes_layout: ClassVar[bool] = False

    def with_layout(self, layout: LinearLayout | None) -> Type:
        """Return the type with another layout; itself if it takes none."""
        return self


@dataclass(frozen=True, slots=True)
class Scalar(Type):
    """A number. `index` is an exact integer: it holds any value of i32 `+ - *` arithmetic."""

    name: str
    kind: Kind
    bits: int

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer of any width, i1 and index included."""
        return self.kind != "float"

    @property
    def is_signed(self) -> bool:
        """Whether it has negative values."""
        return self.kind in ("int", "index", "float")

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory; i1 is stored as one byte."""
        return max(1, self.bits // 8)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Pointer(Type):
    """The address of an element in global memory; `constant` memory may not be written."""

    pointee: Scalar | Pointer
    constant: bool = False

    bits = 64
    itemsize = 8
    kind = "pointer"
    is_float = False
    is_integer = False

    def __str__(self) -> str:
        return f"ptr<{'const ' if self.constant else ''}{self.pointee}>"


Element = Scalar | Pointer


@dataclass(frozen=True)
class Tile(Type):
    """An array value of one program instance; `layout` says who holds what (GPU IR only)."""

    takes_layout = True

    shape: tuple[int, ...]
    element: Element
    layout: LinearLayout | None = None

    @cached_property
    def _hash(self) -> int:
        return hash((self.shape, self.element, self.layout))

    def __hash__(self) -> int:
        return self._hash

    @property
    def size(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    def with_layout(self, layout: LinearLayout | None) -> Tile:
        """Return the type with another layout."""
        return Tile(self.shape, self.element, layout)

    def __str__(self) -> str:
        return format_type(self)


@dataclass(frozen=True)
class Shared(Type):
    """A buffer in shared memory for a tile; `layout` maps offsets to coordinates of the tile.

    With `slots` it is a ring: so many tiles one after the other. Without (0) it is one tile.
    """

    shape: tuple[int, ...]
    element: Scalar
    layout: LinearLayout | None = None
    slots: int = 0

    @property
    def slot_bytes(self) -> int:
        """Bytes of one tile, from its start to that of the next."""
        if self.layout is None:
            return prod(self.shape) * self.element.itemsize
        return self.packing.size

    @property
    def packing(self) -> Packing:
        """Where the offsets of its layout lie in a tile, in bytes."""
        assert self.layout is not None
        return packing(self.layout, self.element.itemsize).scaled(self.element.itemsize)

    @property
    def bytes(self) -> int:
        """Bytes of the whole buffer."""
        return max(1, self.slots) * self.slot_bytes

    def reach(self, layout: LinearLayout | None, widest: int) -> int:
        """Return the bytes from its start on that are read with a tile in some layout.

        Threads and vectors of up to `widest` bytes read what does not exist beside what does.
        None: by anybody.
        """
        if self.layout is None:
            return self.bytes
        last, size = self.packing.reach, self.element.itemsize
        if layout is not None:
            places = self.layout.offsets(layout)
            threads = (widest - 1) // size
            for column in (*places.flat("lane"), *places.flat("warp")):
                threads |= column
            table = places.table("register")
            offsets = [(table[r] | threads) * size for r in layout.live_registers()]
            last = min(last, max(map(self.packing.place, offsets)) + size)
        return self.bytes + max(0, last - self.slot_bytes)

    def __str__(self) -> str:
        return format_type(self)


@dataclass(frozen=True, slots=True)
class TensorMap(Type):
    """How an array lies in global memory, for copies of boxes of it; `box` is one's extents.

    walked: a box goes on from the last axis but one to those outside of it, and begins anew there.
    """

    box: tuple[int, ...]
    element: Scalar
    walked: bool = False

    def __str__(self) -> str:
        words = "x".join([*map(str, self.box), str(self.element)])
        return f"tensor_map<{words}{', walked' if self.walked else ''}>"


@dataclass(frozen=True, slots=True)
class Token(Type):
    """Orders asynchronous work."""

    def __str__(self) -> str:
        return "token"


I1 = Scalar("i1", "bool", 1)
I8, I16, I32, I64 = (Scalar(f"i{bits}", "int", bits) for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (Scalar(f"u{bits}", "uint", bits) for bits in (8, 16, 32, 64))
INDEX = Scalar("index", "index", 64)
F16 = Scalar("f16", "float", 16)
BF16 = Scalar("bf16", "float", 16)
F32 = Scalar("f32", "float", 32)
F64 = Scalar("f64", "float", 64)
F8E4M3 = Scalar("f8e4m3", "float", 8)
F8E5M2 = Scalar("f8e5m2", "float", 8)
F8E4B8 = Scalar("f8e4b8", "float", 8)
F8E5B16 = Scalar("f8e5b16", "float", 8)
F8E4B15 = Scalar("f8e4b15", "float", 8)

SCALARS = {
    scalar.name: scalar
    for scalar in (
        I1, I8, I16, I32, I64, U8, U16, U32, U64, INDEX, F16, BF16, F32, F64, F8E4M3, F8E5M2,
        F8E4B8, F8E5B16, F8E4B15,
    )
}  # fmt: skip


# Asked of all values all the time, and a union that is written in a call is made there.
_SHAPED = (Tile, Shared)
_OF_ELEMENTS = (Tile, Shared, TensorMap)
_ELEMENTS = (Scalar, Pointer)
_LEADING = (Pointer, TensorMap)


def element_of(type: Type) -> Element:
    """Return the element type of a tile, buffer or map, or the scalar or pointer itself."""
    if isinstance(type, _OF_ELEMENTS):
        return type.element
    if isinstance(type, _ELEMENTS):
        return type
    raise TypeError(f"{type} has no elements")


def has_pointers(type: Type) -> bool:
    """Say whether a type is a pointer, a tile of pointers, or leads to memory as a pointer does."""
    if isinstance(type, Tile):
        return isinstance(type.element, Pointer)
    return isinstance(type, _LEADING)


def shape_of(type: Type) -> tuple[int, ...]:
    """Return the shape of a tile or buffer, () for a scalar or pointer."""
    return type.shape if isinstance(type, _SHAPED) else ()


def layout_of(type: Type) -> LinearLayout | None:
    """Return a tile's layout; None for scalars and in tile IR."""
    return type.layout if isinstance(type, Tile) else None


def with_element(type: Type, element: Element) -> Type:
    """Return `type` with another element type, shape and layout kept."""
    return replace(type, element=element) if isinstance(type, Tile) else element


@lru_cache(4096)
def tile(shape: tuple[int, ...], element: Element, layout: LinearLayout | None = None) -> Type:
    """Return the tile type, or the element itself for the empty shape (there are no 0-d tiles)."""
    return Tile(shape, element, layout) if shape else element


def format_type(type: Type, alias: dict[LinearLayout, str] | None = None) -> str:
    """Write a type; layouts are written as their alias where one is given."""
    if isinstance(type, Tile | Shared):
        word = "tile" if isinstance(type, Tile) else "shared"
        parts = ["x".join([*map(str, type.shape), str(type.element)])]
        if type.layout is not None:
            parts.append((alias or {}).get(type.layout) or str(type.layout))
        if isinstance(type, Shared) and type.slots:
            parts.append(f"slots={type.slots}")
        return f"{word}<{', '.join(parts)}>"
    return str(type)
