"""The list of target-independent passes on tile IR, in the order in which they run."""

from __future__ import annotations

from workbench.ir import Module
from workbench.passes.canonicalize import canonicalize
from workbench.passes.carries import drop_constant_carries
from workbench.passes.cleanup import drop_dead, hoist_invariants, merge_equal
from workbench.passes.induction import scalar_inductions
from workbench.passes.intervals import use_intervals
from workbench.passes.manager import Pass, Recorder
from workbench.passes.narrow_index import narrow_index
from workbench.passes.order import keep_polls, relax_atomics
from workbench.passes.promises import place_promises
from workbench.passes.unroll import unroll_loops

TILE_PASSES: list[tuple[str, Pass]] = [
    ("place-promises", place_promises),
    ("canonicalize", canonicalize),
    ("merge-equal", merge_equal),
    ("drop-constant-carries", drop_constant_carries),
    ("unroll-loops", unroll_loops),
    ("use-intervals", use_intervals),
    ("scalar-inductions", scalar_inductions),
    ("canonicalize-again", canonicalize),
    ("hoist-invariants", hoist_invariants),
    ("merge-equal-again", merge_equal),
    ("drop-dead", drop_dead),
    ("keep-polls", keep_polls),
    ("relax-atomics", relax_atomics),
]


def tile_passes(module: Module, recorder: Recorder) -> Module:
    """Run everything that every target wants; the module keeps its exact index types."""
    return recorder.pipeline(TILE_PASSES, module, "tile")


def narrow(module: Module, recorder: Recorder) -> Module:
    """Give exact integers their machine width: the last pass before a target's own."""
    return recorder.run("narrow-index", narrow_index, module, "tile")
