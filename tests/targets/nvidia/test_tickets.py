"""Blocks that draw their programs, where lengths are loaded: meaning, protocol, what is decided."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.passes.meaning import meaning
from tests.targets.nvidia.hazards import simulate
from tests.targets.nvidia.persistent import (
    HEADS,
    SM_90A,
    attention_arguments,
    attention_before,
    each_of,
    results,
    staying,
)
from tests.targets.nvidia.protocol import explore, record
from tests.targets.nvidia.test_odd_extents import staged, staged_arguments
from tests.targets.nvidia.test_pages import prefill, sequences_of, steps
from tests.targets.nvidia.test_specialised import planted
from workbench.ir import Module, walk
from workbench.targets.nvidia.ops import Arrive, Await
from workbench.targets.nvidia.pipeline import llvm_module
from workbench.targets.simt.kernel import lower
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


@pytest.mark.parametrize("blocks", [1, 3])
def test_products_that_are_asked_to_are_drawn_too(blocks: int):
    """Their results are stored by boxes where they can be, by what is carried beside a number."""
    m, n, k = 64, 64, 16
    module = staying(staged(m, n, k, 4), tickets=True)
    assert is_drawn(module)
    wanted = meaning(staged(m, n, k, 4), (6,), staged_arguments(m * 6, n, 3 * k))
    assert results(module, (6,), staged_arguments(m * 6, n, 3 * k), blocks) == wanted
    assert explore(record(module, staged_arguments(m * 3, n, 2 * k), 1, (3,)))[0] == "ok"


@pytest.mark.parametrize("causal", [False, True])
def test_what_is_loaded_first_is_that_of_the_program_that_is_drawn(causal: bool):
    module = staying(attention_before(causal), loads_first=True, tickets=True)
    grid, wanted = (2, HEADS), meaning(attention_before(causal), (2, HEADS), attention_arguments())
    for blocks, seed in ((1, 0), (2, 1), (4, 2)):
        assert results(module, grid, attention_arguments(), blocks, seed) == wanted


# -- what is written -----------------------------------------------------------------------------
def text_of(module: Module) -> str:
    offsets, _, total = allocate(module, SM_90A)
    return llvm_module(lower(module, SM_90A, offsets), module, SM_90A, total)


def test_one_thread_draws_from_the_launchs_counter():
    text = text_of(drawn()[1])
    assert re.search(r"define .*i32 %grid2, ptr addrspace\(1\) %tickets, ptr byval", text)
    (drawing,) = re.findall(r"atom[^;]*;[^;]*;[^;]*;", text)
    assert drawing.count("@$4") == 2
    assert "%tickets" not in text_of(drawn(tickets=False)[1])


def test_each_warp_of_a_producer_starts_a_share_of_many_boxes():
    """A tile of 128 rows by 128 numbers in pages of 16 is 16 boxes: 4 for each of the warps."""
    module = [*steps(prefill(16, 128, 32, head=128, warps=8), **STAY).values()][-1]
    text = text_of(module)
    assert text.count("cp.async.bulk.tensor") == 32
    starts = [n for n in (256, 288, 320, 352) if re.search(rf"icmp eq i32 %\S+, {n}\b", text)]
    assert starts == [256, 288, 320, 352]
    few = [*steps(prefill(64, 64), **STAY).values()][-1]  # one warp produces, and two boxes
    assert not re.search(r"icmp eq i32 %\S+, 160\b", text_of(few))


# -- what is decided -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "order", "last"),
    [({}, 0, 1), ({"reorder": False}, 0, 0), ({"reorder": True}, 15, 0)],
)
def test_the_last_columns_are_drawn_from_their_ends(
    options: dict[str, bool], order: int, last: int
):
    """Loaded numbers say where programs begin to grow; from there they do with each block."""
    found = drawn(**options)[1].attributes
    assert (found.get("longest_first", 0), found.get("longest_drawn", 0)) == (order, last)


def test_blocks_that_go_keep_the_authors_order_where_lengths_are_loaded():
    found = steps(prefill(64, 64), persistent=False)
    assert found["longest-first"].attributes["longest_drawn"] == 1
    last = [*found.values()][-1].attributes
    assert not {"longest_first", "longest_drawn"} & last.keys()
