"""Last products of a round that go on until the next round's first one has ended."""

from __future__ import annotations

import pytest

from tests.passes.meaning import meaning
from tests.targets.nvidia.hazards import RaceError, simulate
from tests.targets.nvidia.test_overlap import ROUNDS, N, arguments, late, module_of, with_options
from tests.targets.nvidia.test_roles import ordered
from tests.targets.nvidia.test_warpgroups import SM_90A, in_gpu_ir, products
from workbench.ir import Builder, Module, Op, Value, rebuild
from workbench.ops import For
from workbench.targets.nvidia.ops import TensorCopy, WaitProducts, WarpgroupDot
from workbench.targets.simt.ops import BlockBarrier

#: So few registers that no product starts a round late, and where nothing else is carried.
FEW = {"narrow_index": True, "maxnreg": 48}
FEWER = {**FEW, "maxnreg": 40}


def loop_of(module: Module) -> For:
    return next(
        op for op in module.walk()
        if isinstance(op, For) and any(isinstance(one, WarpgroupDot) for one in op.body.ops)
    )  # fmt: skip


def names_of(module: Module) -> list[str]:
    return [type(op).__name__ for op in loop_of(module).body.ops]


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("form", ["softmax", "backwards", "causal", "plain", "steps"])
def test_it_means_the_same_to_the_bit(form: str, stages: int):
    module = module_of(form, stages)
    last = in_gpu_ir(with_options(module, **(FEWER if form in ("plain", "steps") else FEW)))
    assert not late(last)
    assert [op.in_flight for op in products(last)] == [2, 2]
    assert any(isinstance(op, TensorCopy) for op in last.walk())
    for size in ROUNDS[1:]:
        wanted = meaning(module, (1,), arguments(size)())
        assert meaning(last, (1,), arguments(size)()) == wanted
    placed, offsets, total = ordered(last)
    assert simulate(placed, offsets, total, (1,), arguments(5 * N)(), SM_90A)


def test_copies_start_behind_the_first_product():
    names = names_of(in_gpu_ir(with_options(module_of(stages=3), **FEW)))
    first, meet = names.index("WarpgroupDot"), names.index("BlockBarrier")
    assert names[first + 1 : first + 3] == ["WaitProducts"] * 2
    assert first < meet < names.index("TensorCopy")
    assert names.count("BlockBarrier") == 1


def test_its_twin_ends_products_in_their_turn():
    off = in_gpu_ir(with_options(module_of(stages=3), **FEW, overlap=False))
    assert [op.in_flight for op in products(off)] == [0, 0]


def test_none_goes_on_where_the_first_product_adds_to_computed_sums():
    """Ptxas would have the first wait for it (C7517)."""
    biased = in_gpu_ir(with_options(module_of("biased", 3), **FEW))
    assert 2 not in [op.in_flight for op in products(biased)]


@pytest.mark.parametrize("gone", [WaitProducts, BlockBarrier])
def test_copies_into_what_is_read_are_found(gone: type[Op]):
    """Without the waits, or where warps do not meet, a slot is filled that a product reads."""
    placed, offsets, total = ordered(in_gpu_ir(with_options(module_of(stages=2), **FEW)))
    inside = {op.id for op in loop_of(placed).body.ops if isinstance(op, gone)}
    assert inside

    def left_out(op: Op, builder: Builder) -> tuple[Value, ...] | None:
        return op.operands if op.id in inside else None

    broken = rebuild(placed, left_out)
    with pytest.raises(RaceError):
        simulate(broken, offsets, total, (1,), arguments(5 * N)(), SM_90A)
