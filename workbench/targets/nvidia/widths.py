"""How wide accesses are, for passes that know these chips only."""

from __future__ import annotations

from workbench.analysis.affine import Affine
from workbench.ir import Value
from workbench.layouts import LinearLayout
from workbench.targets.nvidia.chip import WIDEST_BYTES
from workbench.targets.simt.passes import costs


def vector_width(
    facts: Affine, pointers: Value, mask: Value | None, layout: LinearLayout, itemsize: int
) -> tuple[int, int | None]:
    """Return (elements per access, axis) as targets/simt finds them."""
    return costs.vector_width(facts, pointers, mask, layout, itemsize, WIDEST_BYTES)
