"""A producer's warp and those that multiply: what it means, and what planted faults do."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.passes.meaning import meaning
from tests.targets.nvidia.hazards import simulate
from tests.targets.nvidia.raised import SM_90A, raised_matmul
from tests.targets.nvidia.test_odd_extents import staged, staged_arguments
from tests.targets.nvidia.test_roles import ordered
from workbench.interpreter.machine import Machine
from workbench.ir import Builder, Module, Op, rebuild
from workbench.passes.cleanup import drop_dead, merge_equal
from workbench.passes.manager import Remarks
from workbench.source import LaunchError
from workbench.targets.nvidia.ops import (
    Arrive,
    Await,
    Barriers,
    Expect,
    TensorCopy,
    WaitProducts,
    WarpgroupDot,
)
from workbench.targets.nvidia.passes.expand_roles import expand_roles
from workbench.targets.nvidia.passes.roles import role_partition
from workbench.targets.simt.ops import roles_of
from workbench.targets.simt.verifier import verify_layouts


def specialised(module: Module) -> tuple[Module, Remarks]:
    remarks = Remarks()
    module = expand_roles(role_partition(module, remarks, SM_90A), remarks, SM_90A)
    module = drop_dead(merge_equal(module, remarks), remarks)
    verify_layouts(module, SM_90A)
    return module, remarks


#: Rows, columns, depth of a tile; warps; how operands lie in memory.
SHAPES = [(128, 64, 64, 4, "nn"), (128, 64, 32, 8, "nt"), (64, 64, 64, 4, "tn"),
          (64, 128, 16, 4, "tt")]  # fmt: skip


@pytest.mark.parametrize(("m", "n", "k", "warps", "kind"), SHAPES)
def test_roles_compute_what_one_did(m: int, n: int, k: int, warps: int, kind: str):
    def arguments() -> list[Any]:
        return staged_arguments(m, n, 6 * k + 16, kind)

    wanted = meaning(staged(m, n, k, warps, kind), (1,), arguments())
    module, remarks = specialised(raised_matmul(m, n, k, warps, kind))
    assert any(r.severity == "applied" and "specialised: 1 producer" in r.text
               for r in remarks.items)  # fmt: skip
    module, offsets, total = ordered(module)
    verify_layouts(module, SM_90A)
    assert meaning(module, (1,), arguments()) == wanted
    simulate(module, offsets, total, (1,), arguments(), SM_90A)


@pytest.mark.parametrize("seed", range(1, 7))
@pytest.mark.parametrize("rounds", [1, 2, 3, 9])
def test_every_order_of_turns_gives_the_same(seed: int, rounds: int):
    m, n, k = 64, 64, 16
    module = matmul_of(m, n, k)
    arguments = staged_arguments(m, n, max(1, rounds) * k)
    arguments[5] = rounds * k
    wanted = [np.array(a, copy=True) if isinstance(a, np.ndarray) else a for a in arguments]
    Machine(staged(m, n, k, 4), (1,), wanted).run_all()
    machine = Machine(module, (1,), arguments)
    machine.roles_seed = seed
    machine.run_all()
    assert np.array_equal(arguments[2], wanted[2])


@cache
def matmul_of(m: int, n: int, k: int) -> Module:
    return specialised(raised_matmul(m, n, k, 4))[0]


def in_region(module: Module, name: str, op: Op) -> bool:
    roles = roles_of(module)
    region = getattr(roles, name)
    work = list(region.ops)
    while work:
        found = work.pop()
        if found.id == op.id:
            return True
        work += [inner for block in found.regions for inner in block.ops]
    return False


#: What is planted, by what is wrong: gives another op, () for none, None for the op as it is.
Plant = Callable[[Module, Op], Any]


def producers(kind: type[Op], change: Callable[[Any], Any]) -> Plant:
    return lambda module, op: (
        change(op) if isinstance(op, kind) and in_region(module, "producer", op) else None
    )


def consumers(kind: type[Op], change: Callable[[Any], Any]) -> Plant:
    return lambda module, op: (
        change(op) if isinstance(op, kind) and in_region(module, "consumers", op) else None
    )


def is_empty(op: Barriers) -> bool:
    return op.result.hint == "empty"


#: Faults that end in an error at a line.
DEADLOCKS: dict[str, Plant] = {
    "the producer's parity is not inverted": lambda module, op: None,
    "a phase expects one copy of two": producers(
        Expect, lambda op: op.changed(bytes=op.bytes // 2)
    ),
    "a phase expects more than comes": producers(Expect, lambda op: op.changed(bytes=op.bytes * 2)),
    "no slot is ever given back": consumers(Arrive, lambda op: ()),
    "one arrival too few is counted": lambda module, op: (
        op.changed(arrivals=op.arrivals - 1) if isinstance(op, Barriers) and is_empty(op) else None
    ),
    "one arrival too many is counted": lambda module, op: (
        op.changed(arrivals=op.arrivals + 1) if isinstance(op, Barriers) and is_empty(op) else None
    ),
    "a copy is not started": producers(TensorCopy, lambda op: ()),
    "nothing is expected": producers(Expect, lambda op: ()),
    "slots are not waited for": producers(Await, lambda op: ()),
}
#: Faults that end in an error or in wrong results.
WRONG: dict[str, Plant] = {
    "copies are not waited for": consumers(Await, lambda op: ()),
    "sums are read while the product goes on": consumers(
        WaitProducts, lambda op: (op.accumulator,)
    ),
    "a slot is given back before its product has ended": consumers(
        WarpgroupDot, lambda op: op.changed(in_flight=2)
    ),
}


def planted(module: Module, plant: Plant) -> Module:
    def rewrite(op: Op, builder: Builder) -> Any:
        return plant(module, op)

    return rebuild(module, rewrite)


@pytest.mark.parametrize("fault", [name for name in DEADLOCKS if "inverted" not in name])
def test_a_planted_fault_is_an_error(fault: str):
    m, n, k = 64, 64, 16
    module = matmul_of(m, n, k)
    wrong = planted(module, DEADLOCKS[fault])
    with pytest.raises(LaunchError) as caught:
        Machine(wrong, (1,), staged_arguments(m, n, 9 * k)).run_all()
    assert caught.value.code == "K515"
    assert caught.value.span is not None


@pytest.mark.parametrize("fault", WRONG)
def test_a_planted_fault_shows_in_some_order(fault: str):
    m, n, k = 64, 64, 16
    module = matmul_of(m, n, k)
    good = staged_arguments(m, n, 9 * k)
    Machine(module, (1,), good).run_all()
    wrong, shown = planted(module, WRONG[fault]), 0
    for seed in range(4):
        arguments = staged_arguments(m, n, 9 * k)
        machine = Machine(wrong, (1,), arguments)
        machine.roles_seed = seed
        try:
            machine.run_all()
        except LaunchError as error:
            shown += error.code == "K515"
        else:
            shown += not np.array_equal(arguments[2], good[2])
    assert shown
