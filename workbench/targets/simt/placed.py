"""Where values lie, as a Trace tells it: each layout of GPU IR once, with values that have it."""

from __future__ import annotations

from dataclasses import replace

from workbench.ir import (
    Module,
    Shared,
    Tile,
    element_of,
    layout_names,
    shape_of,
    value_names,
)
from workbench.trace import Layout


def layouts(module: Module) -> tuple[Layout, ...]:
    """Return the layouts of tiles and buffers that ops make, in program order.

    Values of one layout and one type of elements are told together, the first one by name.
    """
    names, aliases = value_names(module), layout_names(module)
    found: dict[tuple[str, str], Layout] = {}
    for op in module.walk():
        for value in op.results:
            layout = value.type.layout if isinstance(value.type, Tile | Shared) else None
            if layout is None:
                continue
            element, name = str(element_of(value.type)), f"%{names[value]}"
            key = (aliases[layout], element)
            known = found.get(key) or Layout(
                op=op.id, value=name, name=aliases[layout], element=element,
                shape=shape_of(value.type) or layout.shape,
                kind="register" if isinstance(value.type, Tile) else "shared",
                bases={dim: vectors for dim, vectors in layout.bases.items() if vectors},
            )  # fmt: skip
            found[key] = replace(known, ops=(*known.ops, op.id), values=(*known.values, name))
    return tuple(found.values())
