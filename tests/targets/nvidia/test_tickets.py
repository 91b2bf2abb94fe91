"""Blocks that draw their programs, where lengths are loaded: meaning, protocol, what is decided."""

from __future__ import annotations

from typing import Any

import pytest

from tests.passes.meaning import meaning
from tests.targets.nvidia.hazards import simulate
from tests.targets.nvidia.persistent import SM_90A, each_of, results
from tests.targets.nvidia.protocol import explore, record
from tests.targets.nvidia.test_pages import prefill, sequences_of, steps
from tests.targets.nvidia.test_specialised import planted
from workbench.ir import Module, walk
from workbench.targets.nvidia.ops import Arrive, Await
from workbench.targets.simt.ops import is_drawn
from workbench.targets.simt.passes.shared_memory import allocate

STAY = {"warp_specialize": True, "persistent": True}


def drawn(**options: Any) -> tuple[Module, Module]:
    """Return prefill over pages before warps part, and as blocks that draw."""
    found = steps(prefill(64, 64), **STAY, **options)
    return found["hoist-invariants"], [*found.values()][-1]


@pytest.mark.parametrize(("blocks", "seed"), [(1, 0), (1, 3), (3, 1), (5, 2), (0, 0)])
def test_every_program_is_drawn_once(blocks: int, seed: int):
    """Blocks run one after the other here: the first draws all that is left."""
    before, module = drawn()
    assert is_drawn(module)
    arguments, grid = sequences_of(64)
    assert results(module, grid, sequences_of(64)[0], blocks, seed) == meaning(
        before, grid, arguments
    )


def test_nobody_waits_for_ever_nor_takes_a_number_that_is_gone():
    _, module = drawn()
    arguments, grid = sequences_of(64)
    offsets, _, total = allocate(module, SM_90A)
    simulate(module, offsets, total, grid, arguments, SM_90A, blocks=2)
    verdict, states = explore(record(module, sequences_of(64)[0], 1, grid))
    assert verdict == "ok"
    assert states > 10


def role_of(module: Module, role: str, kind: type) -> Any:
    """Return the op of a kind in a role's work that has to do with numbers of programs."""
    body = each_of(module, role).body
    *_, found = [op for op in walk(body) if isinstance(op, kind)]  # the last of a program's
    return found


FAULTS = {
    "consumers do not wait for the number": ("consumers", Await),
    "consumers do not give the slot back": ("consumers", Arrive),
    "the producer does not give the slot back": ("producer", Arrive),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str):
    module = drawn()[1]
    gone = role_of(module, *FAULTS[fault])
    wrong = planted(module, lambda _, op: () if op.id == gone.id else None)
    arguments, grid = sequences_of(64)
    assert explore(record(wrong, arguments, 1, grid))[0] not in ("ok", "too many states")
