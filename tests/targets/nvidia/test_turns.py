"""Groups of warps that start their products in turns: where, what it means, that all go on."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.kernels import attention_forward
from tests.passes.corpus import tile_ir
from tests.passes.meaning import meaning
from tests.passes.pipelines import with_barriers
from tests.targets.nvidia import lanes
from tests.targets.nvidia.persistent import SM_90A, attention_arguments, attention_before, staying
from tests.targets.nvidia.protocol import record, walks
from tests.targets.nvidia.test_ptx import needs_ptxas
from tests.targets.nvidia.test_specialised import planted
from workbench.analysis.affine import tile_forms
from workbench.ir import Builder, Module, Op, parse_module, rebuild, walk
from workbench.ops import For
from workbench.passes.manager import Recorder, Remarks
from workbench.passes.pipeline import tile_passes
from workbench.targets.nvidia.ops import AwaitTurn, PassTurn, WaitProducts, WarpgroupDot
from workbench.targets.nvidia.passes.take_turns import take_turns
from workbench.targets.nvidia.pipeline import build
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.simt.lowering import Lowering, Role
from workbench.targets.simt.ops import BlockBarrier, roles_of

Said = list[str]


def before(causal: bool) -> Module:
    """Attention of 128 queries by 16 keys, which eight warps multiply in two groups."""
    sizes = {"HEAD": 16, "BLOCK_M": 128, "BLOCK_N": 16, "BLOCK_D": 16, "CAUSAL": causal,
             "EVEN": False}  # fmt: skip
    words = "*fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp32:16 fp32 " + "i32:16 i32:16 i32:16 i32=1 " * 4
    return tile_ir(
        attention_forward.attention, f"{words}i32 i32 i32 i32", sizes, num_warps=8, num_stages=2
    )


@cache
def without_turns(causal: bool) -> Module:
    return with_barriers(staying(before(causal)), Remarks(), SM_90A)


def with_turns(module: Module) -> tuple[Module, Said]:
    remarks = Remarks()
    asked = replace(module, attributes={**module.attributes, "turns": True})
    found = take_turns(asked, remarks, SM_90A)
    return found, [one.text for one in remarks.items]


def order_in_rounds(module: Module) -> list[list[Any]]:
    kinds = (AwaitTurn, PassTurn, WarpgroupDot, WaitProducts)
    loops = [op for op in module.walk() if isinstance(op, For)]
    found = [[type(op) for op in loop.body.ops if isinstance(op, kinds)] for loop in loops]
    return [order for order in found if order]


def test_a_round_starts_its_products_in_one_turn():
    found, said = with_turns(without_turns(causal=False))
    roles = roles_of(found)
    assert roles is not None
    first = roles.consumers.ops[0]
    assert isinstance(first, PassTurn)
    assert first.first
    (order,) = order_in_rounds(found)
    assert order[:5] == [AwaitTurn, WarpgroupDot, WarpgroupDot, PassTurn, WaitProducts]
    assert said == ["2 groups of warps start these products in turns"]


def test_unasked_those_take_turns_whose_programs_are_as_long():
    for causal in (False, True):
        module = take_turns(without_turns(causal), Remarks(), SM_90A)
        assert any(isinstance(op, AwaitTurn) for op in module.walk()) != causal


def test_who_does_not_want_it_takes_no_turns():
    module = without_turns(causal=False)
    module = replace(module, attributes={**module.attributes, "turns": False})
    assert take_turns(module, Remarks(), SM_90A) is module


def test_one_group_takes_no_turns_and_is_told_so():
    module = with_barriers(staying(attention_before(False)), Remarks(), SM_90A)
    found, (said,) = with_turns(module)
    assert not any(isinstance(op, AwaitTurn) for op in found.walk())
    assert said.startswith("turns=True is not obeyed")


@pytest.mark.parametrize("causal", [False, True])
def test_values_are_the_same(causal: bool):
    module = without_turns(causal)
    found, _ = with_turns(module)
    assert meaning(found, (1, 3), attention_arguments()) == meaning(
        module, (1, 3), attention_arguments()
    )


@pytest.mark.parametrize("causal", [False, True])
def test_interleavings_come_to_their_end(causal: bool):
    """Two programs of a block, each of some rounds, by a producer and two groups: 40 of many."""
    found, _ = with_turns(without_turns(causal))
    assert walks(40, record(found, short(), 2, (1, 2))) == {"ok"}


def short() -> list[Any]:
    """Return arguments of two heads of 48 rows: three rounds each."""
    q, k, v, out, lse, scale, *_ = attention_arguments()
    return [q, k, v, out, lse, scale, *(768 * 2, 768, 16) * 4, 2, 2, 48, 48]


def without(kind: type[Op], holds: Callable[[Any], bool]) -> Callable[[Module], Module]:
    return lambda module: planted(
        module, lambda _, op: () if isinstance(op, kind) and holds(op) else None
    )


FAULTS = {
    "nobody begins": without(PassTurn, lambda op: op.first),
    "no turn is passed on": without(PassTurn, lambda op: not op.first),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str):
    found, _ = with_turns(without_turns(causal=False))
    assert walks(4, record(FAULTS[fault](found), short(), 2, (1, 2))) == {"deadlock"}


def test_groups_that_meet_amid_a_turn_take_none():
    """The first group would wait for the second, which waits for its turn."""
    module = without_turns(causal=False)

    def meet(op: Op, builder: Builder) -> None:
        if isinstance(op, WarpgroupDot) and op.stage:
            builder.insert(BlockBarrier())

    found, (said,) = with_turns(rebuild(module, meet))
    assert not any(isinstance(op, AwaitTurn) for op in walk(found.body))
    assert said.startswith("turns=True is not obeyed")


@needs_ptxas
def test_a_group_waits_where_another_only_arrives():
    module = before(causal=False)
    more = {"narrow_index": True, "warp_specialize": True, "persistent": True, "turns": True}
    module = replace(module, attributes={**module.attributes, **more})
    built = build(tile_passes(module, Recorder()), "sm_90a", Recorder())
    ptx = built.texts["ptx"]().text
    assert len(re.findall(r"(?:bar|barrier\.cta)\.arrive\S*\s+\S+, 256;", ptx)) == 2
    assert (built.assemble().resources.barriers or 0) >= 5


_BARRIER = r"@llvm.nvvm.barrier.cta.(\w+).aligned.count"


class _Written(lanes.Block):
    """Straight-line code around barriers: what each warp waits at and tells, in order."""

    def __init__(self, warps: int) -> None:
        super().__init__(lanes.Memory(1, [], 32 * warps), {})
        self.calls: list[tuple[str, Any]] = []

    def step(self, line: str) -> None:
        if found := re.match(rf"call void {_BARRIER}\(i32 (.*), i32 256\)", line):
            self.calls.append((found[1], self.value(found[2])[::32]))
        elif found := re.match(r"(%\S+) = select i1 (\S+), i32 (\S+), i32 (\S+)$", line):
            name, holds, *both = found.groups()
            self.values[name] = np.where(self.value(holds, 1), *map(self.value, both))
        elif not line.startswith("br "):
            super().step(line)


@pytest.mark.parametrize("groups", [2, 3])
def test_each_group_tells_the_next_one_and_the_last_tells_the_first(groups: int):
    """Barriers of their own: nobody else waits at one of these."""
    module = parse_module("kernel @k() {num_warps = 4} {\n  tile.return\n}")
    low = Lowering(module, SM_90A, {}, tile_forms(module))
    low.role = Role(0, 4 * groups, 1, low.warp)
    for op in (PassTurn(groups, first=True), AwaitTurn(groups), PassTurn(groups)):
        rule = NVIDIA.rule(type(op))
        assert rule is not None
        rule(low, op)
    written = _Written(4 * groups)
    for line in low.emit.lines:
        written.step(line.strip())
    (_, begun), (waits, at), (tells, other) = written.calls
    own = np.arange(4 * groups) // 4
    assert (waits, tells) == ("sync", "arrive")
    assert len(set(at)) == groups
    assert len(set(zip(own, at, strict=True))) == groups
    first = dict(zip(own, at, strict=True))
    assert [first[(group + 1) % groups] for group in own] == other.tolist()
    assert set(begun) == {first[0]}
