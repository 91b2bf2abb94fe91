"""A wide product that is added to something is one instruction of PTX: mad.wide.

Addresses are a pointer and a number times a size. Of `mul.wide` and an addition ptxas makes the
same instruction of a thread as of `mad.wide`, but numbers that all threads have alike (of a
program, times a stride) it leaves to the unit that computes those once only in the latter.
LLVM's newer back ends write it so. Beside products by warpgroups, whose descriptors are in the
registers of that unit, it costs.

PTX ISA 9.0, mad.wide.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_PRODUCT = re.compile(r"\tmul\.wide\.([su]32) \t(%rd\d+), (%r\d+), (%r\d+|-?\d+);")
_SUM = re.compile(r"\tadd\.s64 \t(%rd\d+), (%rd\d+), (%rd\d+);")
#: An instruction with one result, which comes first.
_PLAIN = re.compile(r"\t[a-z][\w.:]* \t(%\w+)(?:,[^;]*)?;")
_NAME = re.compile(r"%\w+")
#: Labels of debug information.
_MARK = "$L__tmp"


class _Product(NamedTuple):
    """Which line a product is, s32 or u32, and what is multiplied."""

    place: int
    kind: str
    a: str
    b: str


def with_wide_sums(text: str) -> str:
    """Write each wide product whose only reader adds to it, in the same block, as one with that.

    Not where warpgroups multiply.

    Before:
        mul.wide.s32 %rd5, %r63, 4;
        add.s64 %rd6, %rd4, %rd5;
    After:
        mad.wide.s32 %rd6, %r63, 4, %rd4;

    Registers of loops are written more than once: what is multiplied must not change in between.
    """
    if "wgmma." in text:
        return text
    lines = text.split("\n")
    mentioned: dict[str, int] = {}
    for name in _NAME.findall(text):
        mentioned[name] = mentioned.get(name, 0) + 1
    #: Products of this block that may still be written later, by their result.
    later: dict[str, _Product] = {}
    gone: set[int] = set()
    for place, line in enumerate(lines):
        if not line.startswith("\t"):
            if not line.startswith(_MARK):  # a block begins
                later.clear()
            continue
        if (found := _SUM.fullmatch(line)) is not None:
            made, other = _added(found, later)
            if made is not None:
                lines[place] = f"\tmad.wide.{made.kind} \t{found[1]}, {made.a}, {made.b}, {other};"
                gone.add(made.place)
        changed = _changed(line)
        later = {n: p for n, p in later.items() if not changed & {p.a, p.b}}
        product = _PRODUCT.fullmatch(line)
        if product is not None and mentioned[product[2]] == 2:  # here, and where it is read
            kind, result, first, second = product.groups()
            later[result] = _Product(place, kind, first, second)
    return "\n".join(line for place, line in enumerate(lines) if place not in gone)


def _added(found: re.Match[str], later: dict[str, _Product]) -> tuple[_Product | None, str]:
    """Return the product that a sum adds, which is no longer open, and what it adds it to."""
    for one, other in ((found[2], found[3]), (found[3], found[2])):
        if one in later and one != other:
            return later.pop(one), other
    return None, ""


def _changed(line: str) -> set[str]:
    """Return the registers that a line may change."""
    plain = _PLAIN.fullmatch(line)
    return {plain[1]} if plain else set(_NAME.findall(line))


__all__ = ["with_wide_sums"]
