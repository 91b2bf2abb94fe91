"""Mutated cells compile or are refused with a place: 250 by seed, more with `make fuzz`."""

from __future__ import annotations

import collections

import pytest

from tests.fuzz.cells import corpus, mutated
from tests.fuzz.children import answers
from tests.fuzz.run import COMMAND, PATIENCE

COUNT = 250


@pytest.mark.slow
def test_mutated_cells_are_compiled_or_refused_with_a_place():
    cases = [{"kind": "cells", "seed": seed} for seed in range(COUNT)]  # one child for all
    found = list(answers(COMMAND, cases, PATIENCE))
    assert [row["seed"] for row in found] == list(range(COUNT))
    wrong = [f"seed {row['seed']}: {row}" for row in found if row.get("failure", "ended")]
    assert not wrong, "\n".join(wrong)
    # Both happen, or the mutations are no test of anything.
    assert len(collections.Counter(row["outcome"] for row in found)) == 2


def test_cells_are_mutated_by_seed():
    assert len(corpus()) > 20
    assert mutated(3) == mutated(3)
    originals = {(cell.text, cell.types, cell.settings) for cell in corpus()}
    changed = [mutated(seed)[0] for seed in range(40)]
    assert sum((c.text, c.types, c.settings) not in originals for c in changed) > 30
