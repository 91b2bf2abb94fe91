"""Reads the text form of a layout back; LinearLayout writes it."""

import re

from workbench.layouts.coordinates import Coordinates
from workbench.layouts.linear import LinearLayout

_TEXT = re.compile(r"linear<(\d+(?:x\d+)*|scalar)((?:, \w+=\[[\d,()]*\])*)>")


def parse_layout(text: str) -> LinearLayout:
    """Return the layout that a `linear<...>` text describes. Raises ValueError if it is none.

    >>> parse_layout("linear<8, register=[1], lane=[2,4]>").apply(lane=3)
    (6,)
    """
    whole = _TEXT.fullmatch(text.strip())
    if whole is None:
        raise ValueError(
            f"{text!r} is no layout; expected e.g. linear<4x8, register=[(0,1)], lane=[(1,0)]>"
        )
    shape = () if whole[1] == "scalar" else tuple(int(extent) for extent in whole[1].split("x"))
    bases: dict[str, list[Coordinates]] = {}
    for name, vectors in re.findall(r"(\w+)=\[([^]]*)\]", whole[2]):
        bases[name] = [
            tuple(int(coordinate) for coordinate in re.findall(r"\d+", vector))
            for vector in re.findall(r"\([\d,]*\)|\d+", vectors)
        ]
    return LinearLayout(bases, shape)
