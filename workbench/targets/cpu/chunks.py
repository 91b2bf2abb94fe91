"""Chunks: the few elements of a tile that are computed at once, and where in the tile they lie.

No tile exists as a whole unless somebody needs it so. A *point* names, for each axis of a tile,
which coordinates are wanted; a rule turns it into a *chunk*, LLVM text of one vector (or of one
number, where all lanes are equal). So a chain of elementwise ops becomes one loop by itself.

| coordinate | of lane i |
|---|---|
| uniform | text (i64) |
| lanes | text + i (i64) |
| vector | element i of text (a vector of i32) |
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from workbench.ir import BF16, I1, Element, Scalar
from workbench.ops.small_floats import SMALL_FLOATS

CoordinateKind = Literal["uniform", "lanes", "vector"]


class Coordinate(NamedTuple):
    """The coordinates along one axis; see the top of this file."""

    kind: CoordinateKind
    text: str


Point = tuple[Coordinate, ...]
ZERO = Coordinate("uniform", "0")


class Chunk(NamedTuple):
    """LLVM text of some elements; `lanes` 0: one number that stands for every lane."""

    text: str
    lanes: int


def uniform(text: str) -> Coordinate:
    """Return the coordinate that is the same in all lanes."""
    return Coordinate("uniform", text)


def register_type(element: Element) -> str:
    """Return the LLVM type that holds one element in a register.

    bf16 and the 8-bit floats are held as f32 that are representable in them; pointers and
    exact integers as i64.
    """
    if not isinstance(element, Scalar):
        return "i64"
    if element.kind == "float":
        return {"f16": "half", "f64": "double"}.get(element.name, "float")
    return f"i{element.bits}"


def memory_type(element: Element) -> str:
    """Return the LLVM type of one element in memory."""
    if isinstance(element, Scalar) and (element in (BF16, I1) or element in SMALL_FLOATS):
        return f"i{max(8, element.bits)}"
    return register_type(element)


def register_bytes(element: Element) -> int:
    """Return the bytes of one element as it is kept in scratch memory."""
    return {"i1": 1, "i8": 1, "i16": 2, "half": 2, "i64": 8, "double": 8}.get(
        register_type(element), 4
    )


def vector(type: str, lanes: int) -> str:
    """Return the type of a chunk."""
    return f"<{lanes} x {type}>" if lanes else type


def suffix(type: str, lanes: int) -> str:
    """Return the suffix of an overloaded intrinsic, e.g. `v32f32`."""
    word = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(type, type)
    return f"v{lanes}{word}" if lanes else word
