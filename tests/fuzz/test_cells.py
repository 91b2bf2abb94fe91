"""Mutated cells compile or are refused with a place: 500 by seed, more with `make fuzz`."""

from __future__ import annotations

import collections

import pytest

from tests.fuzz.cells import corpus, mutated, outcomes

COUNT = 500


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, COUNT, 125))
def test_mutated_cells_are_compiled_or_refused_with_a_place(first: int):
    found = list(outcomes(first, 125))
    assert [seed for seed, _, _ in found] == list(range(first, first + 125))
    wrong = [f"seed {seed}: {said}" for seed, what, said in found if what == "wrong"]
    assert not wrong, "\n".join(wrong)
    # Both happen, or the mutations are no test of anything.
    assert len(collections.Counter(what for _, what, _ in found)) == 2


def test_cells_are_mutated_by_seed():
    assert len(corpus()) > 20
    assert mutated(3) == mutated(3)
    originals = {(cell.text, cell.types, cell.settings) for cell in corpus()}
    changed = [mutated(seed)[0] for seed in range(40)]
    assert sum((c.text, c.types, c.settings) not in originals for c in changed) > 30
