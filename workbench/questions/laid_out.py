"""How values of a trace lie in registers and shared memory: what its GPU IR says of their types.

A row of GPU IR ends in the types of its results, and names a layout in each; the text's first rows
say what each name stands for. A trace whose `layouts` are filled in is asked for those.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from workbench.trace import Layout, Trace
from workbench.trace.links import ops_of_rows

_NAMED = re.compile(r"^(#\w+) = linear<[\dx]+(?P<dims>(?:, \w+=\[[\d(),]*\])+)>$")
_DIM = re.compile(r"(\w+)=\[([\d(),]*)\]")
_VECTOR = re.compile(r"\(([\d,]+)\)|(\d+)")
_RESULTS = re.compile(r"^\s*(?P<names>(?:%[\w.]+(?:, )?)+) = .* : (?P<types>[^:]*)$")
_TYPE = re.compile(r"(tile|shared)<((?:\d+x)+)(\w+(?:<\w+>)?), (#\w+)")


def layouts_of(trace: Trace, ops: Collection[int]) -> list[tuple[Layout, tuple[int, ...]]]:
    """Return the layouts of what ops give, each once, with the ops; in the order of the code."""
    if trace.layouts:
        return [(layout, (layout.op,)) for layout in trace.layouts if layout.op in ops]
    stage = trace.stage("gpu")
    if stage is None:
        return []
    rows = trace.text("gpu").split("\n")
    bases = {
        found[1]: _bases(found["dims"]) for row in rows if (found := _NAMED.match(row.strip()))
    }
    known: dict[str, tuple[Layout, list[int]]] = {}
    for row, own in zip(rows, ops_of_rows(stage.rows, len(rows)), strict=True):
        mine = [op for op in own if op in ops]
        result = _RESULTS.match(row) if mine else None
        if result is None:
            continue
        value = result["names"].split(", ")[0]
        for kind, shape, element, name in _TYPE.findall(result["types"])[:1]:
            if name not in bases:
                continue
            layout = Layout(
                op=mine[0], value=value, name=name, element=element, bases=bases[name],
                shape=tuple(map(int, shape.rstrip("x").split("x"))),
                kind="register" if kind == "tile" else "shared",
            )  # fmt: skip
            known.setdefault(name, (layout, []))[1].extend(mine)
    return [(layout, tuple(dict.fromkeys(own))) for layout, own in known.values()]


def _bases(text: str) -> dict[str, tuple[tuple[int, ...], ...]]:
    return {
        dim: tuple(
            tuple(int(part) for part in (several or single).split(",") if part)
            for several, single in _VECTOR.findall(vectors)
        )
        for dim, vectors in _DIM.findall(text)
    }


def layout_words(layout: Layout) -> str:
    """Return in a sentence how a value lies: over how many registers, lanes and warps."""
    shape = " x ".join(map(str, layout.shape))
    what = f"{layout.value} ({shape} {layout.element}, {layout.name or 'no name'})"
    if layout.kind == "shared":
        return f"{what} lies in shared memory"
    over = ", ".join(
        f"{2 ** len(held)} {dim}s"
        for dim, vectors in layout.bases.items()
        if (held := [vector for vector in vectors if any(vector)])
    )
    copies = 2 ** sum(not any(vector) for held in layout.bases.values() for vector in held)
    words = f"{what} is spread over {over}" if over else f"{what} is held whole by every thread"
    return words + (f"; {copies} places hold each element" if copies > 1 and over else "")
