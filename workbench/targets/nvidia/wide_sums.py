"""A wide product that is added to something is one instruction of PTX: mad.wide.

Addresses are a pointer and a number times a size. Of `mul.wide` and an addition ptxas makes the
same instruction of a thread as of `mad.wide`, but numbers that all threads have alike (of a
program, times a stride) it leaves to the unit that computes those once only in the latter.
LLVM's newer back ends write it so.

PTX ISA 9.0, mad.wide.
"""

from __future__ import annotations

import re

_PRODUCT = re.compile(r"\tmul\.wide\.([su]32) \t(%rd\d+), (%r\d+), (%r\d+|-?\d+);")
_SUM = re.compile(r"\tadd\.s64 \t(%rd\d+), (%rd\d+), (%rd\d+);")
#: An instruction with one result, which comes first.
_PLAIN = re.compile(r"\t[a-z][\w.:]* \t(%\w+)(?:,.*)?;")
_NAME = re.compile(r"%\w+")
#: Labels of debug information.
_MARK = "$L__tmp"


def with_wide_sums(text: str) -> str:
    """Write each wide product whose only reader adds to it, in the same block, as one with that.

    Before:
        mul.wide.s32 %rd5, %r63, 4;
        add.s64 %rd6, %rd4, %rd5;
    After:
        mad.wide.s32 %rd6, %r63, 4, %rd4;

    Registers of loops are written more than once: what is multiplied must not change in between.
    """
    lines = text.split("\n")
    mentioned: dict[str, int] = {}
    for name in _NAME.findall(text):
        mentioned[name] = mentioned.get(name, 0) + 1
    #: Products of this block that may still be written later, by their result.
    open_: dict[str, tuple[int, re.Match[str]]] = {}
    gone: set[int] = set()
    for place, line in enumerate(lines):
        if not line.startswith("\t"):
            if not line.startswith(_MARK):  # a block begins
                open_.clear()
            continue
        found = _SUM.fullmatch(line)
        if found is not None:
            for one, other in ((found[2], found[3]), (found[3], found[2])):
                if one in open_ and one != other:
                    first, made = open_.pop(one)
                    kind, _, a, b = made.groups()
                    lines[place] = f"\tmad.wide.{kind} \t{found[1]}, {a}, {b}, {other};"
                    gone.add(first)
                    break
        plain = _PLAIN.fullmatch(line)
        changed = {plain[1]} if plain else set(_NAME.findall(line))
        for name, (_, made) in list(open_.items()):
            if changed & {made[3], made[4]}:
                del open_[name]
        product = _PRODUCT.fullmatch(line)
        if product is not None and mentioned[product[2]] == 2:
            open_[product[2]] = place, product
    return "\n".join(line for place, line in enumerate(lines) if place not in gone)


__all__ = ["with_wide_sums"]
