"""How values of a trace lie in registers and shared memory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from workbench.trace import Layout, Trace


def layouts_of(trace: Trace, ops: Collection[int]) -> list[tuple[Layout, tuple[int, ...]]]:
    """Return the layouts of what ops give, each once, with the ops; in the order of the code.

    A layout names the first of the ops' values; its bases are those of all.
    """
    found: list[tuple[Layout, tuple[int, ...]]] = []
    for layout in trace.layouts:
        own = [
            (op, value) for op, value in zip(layout.ops, layout.values, strict=True) if op in ops
        ]
        if own:
            op, value = own[0]
            mine = tuple(dict.fromkeys(op for op, _ in own))
            found.append((replace(layout, op=op, value=value, ops=(), values=()), mine))
    return found


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
