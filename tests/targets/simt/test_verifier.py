"""The verifier of GPU IR: what passes make is right, and every planted disagreement is found."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.passes.corpus import Case
from tests.passes.corpus import cases as corpus
from tests.passes.pipelines import SM_80, gpu_steps, tile_steps
from tests.targets.nvidia.configurations import QUICK, Configuration
from workbench.ir import (
    InvalidModuleError,
    Module,
    Op,
    Tile,
    layout_of,
    parse_module,
    rebuild,
    shape_of,
    verify_module,
)
from workbench.layouts import LinearLayout, blocked
from workbench.ops import ConvertLayout
from workbench.passes.manager import Recorder
from workbench.targets.nvidia.chip import Chip
from workbench.targets.nvidia.table import NVIDIA
from workbench.targets.simt.kernel import lower
from workbench.targets.simt.passes.shared_memory import allocate
from workbench.targets.simt.rules import NO_SCRATCH, RuleTable, Setting, as_they_are
from workbench.targets.simt.verifier import verify_layouts


def gpu_ir(case: Case) -> Module:
    module = case.module()
    final = [module, *(after for _, after in tile_steps(module))][-1]
    return list(gpu_steps(final, **case.options))[-1][1]


def other(layout: LinearLayout) -> LinearLayout | None:
    """Return another layout of a tile on as many warps; None if there is none."""
    rank = len(layout.shape)
    warps = layout.size("warp")
    for order in (tuple(range(rank)), tuple(reversed(range(rank)))):
        for vector in (1, 2, 4):
            found = blocked(layout.shape, vector, order, warps)
            if found != layout:
                return found
    return None


def planted(module: Module, number: int, operand: int) -> Module:
    """Return the module with one operand of one op in another layout."""

    def rewrite(op: Op, builder: object) -> Op | None:
        if op.id != number:
            return None
        operands = list(op.operands)
        layout = other(layout_of(operands[operand].type))  # type: ignore[arg-type]
        operands[operand] = builder.add(ConvertLayout(operands[operand], layout))  # type: ignore
        # The results stay what their users expect.
        layouts = tuple(layout_of(r.type) for r in op.results) or None
        return op.with_operands(operands, layouts=layouts)

    return rebuild(module, rewrite)


def watched(module: Module) -> list[tuple[Op, int]]:
    """Return ops and their operands whose layouts the rules fix."""
    found = []
    on = Setting(module, SM_80)
    for op in module.walk():
        if not any(isinstance(v.type, Tile) for v in op.operands):
            continue
        plan = SM_80.rules.layout_rule(op)(op, on)
        for number, along in enumerate(plan.operands):
            operand = op.operands[number]
            if along is None or not shape_of(operand.type) or (op.regions and not plan.own):
                continue
            tiles = sum(isinstance(v.type, Tile) for v in (*op.operands, *op.results))
            if other(layout_of(operand.type)) is not None and tiles > 1:  # type: ignore
                found.append((op, number))
    return found


@pytest.mark.parametrize("case", corpus()[::2], ids=lambda case: case.name)
def test_an_operand_in_another_layout_is_found(case: Case):
    module = gpu_ir(case)
    verify_layouts(module, SM_80)
    places = watched(module)
    assert places
    for op, number in places:
        with pytest.raises(InvalidModuleError, match=op.name):
            verify_layouts(planted(module, op.id, number), SM_80)


WRONG = {
    "a sum in a layout of its own": """
        %a = tile.constant {value = 1.0, type = tile<64xf32, #L0>} : tile<64xf32, #L0>
        %b = tile.add [%a, %a] : tile<64xf32, #L1>
    """,
    "a row where its column would be": """
        %a = tile.constant {value = 1.0, type = tile<64xf32, #L0>} : tile<64xf32, #L0>
        %b = tile.expand_dims %a {axis = 0} : tile<1x64xf32, #L2>
    """,
    "a tile on other warps": """
        %b = tile.constant {value = 1.0, type = tile<64xf32, #L3>} : tile<64xf32, #L3>
    """,
    "a layout of another shape": """
        %b = tile.constant {value = 1.0, type = tile<64xf32, #L4>} : tile<64xf32, #L4>
    """,
    "no layout": """
        %b = tile.constant {value = 1.0, type = tile<64xf32>} : tile<64xf32>
    """,
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_layouts_are_found(name: str):
    text = f"""
#L0 = linear<64, register=[32], lane=[1,2,4,8,16]>
#L1 = linear<64, register=[1], lane=[2,4,8,16,32]>
#L2 = linear<1x64, register=[(0,1)], lane=[(0,2),(0,4),(0,8),(0,16),(0,32)]>
#L3 = linear<64, lane=[1,2,4,8,16], warp=[32]>
#L4 = linear<32, lane=[1,2,4,8,16]>
kernel @k() {{num_warps = 1}} {{
  {WRONG[name]}
  tile.return
}}
"""
    with pytest.raises(InvalidModuleError, match=r"%[ab]"):
        verify_layouts(parse_module(text), SM_80)


@dataclass(frozen=True)
class Elsewhere(Chip):
    """A chip with other rules."""

    table: RuleTable = NVIDIA

    @property
    def rules(self) -> RuleTable:
        return self.table


def test_an_op_without_an_entry_is_named():
    module = gpu_ir(corpus()[0])
    empty = Elsewhere("nowhere", 1 << 16, "80", table=RuleTable("empty"))
    first = next(iter(module.walk()))
    with pytest.raises(
        InvalidModuleError, match=f"{first.name} says nothing about layouts on empty"
    ):
        verify_layouts(module, empty)


def test_an_op_whose_scratch_was_forgotten_is_named():
    module = next(m for m in map(gpu_ir, corpus()) if allocate(m, SM_80)[2])
    needing = next(op for op in module.walk() if op.id in allocate(module, SM_80)[0])
    table = RuleTable("forgetful", parent=SM_80.rules)
    table.scratch(type(needing))(lambda op, chip, num_warps, used: NO_SCRATCH)
    forgetful = Elsewhere("sm_80", 1 << 16, "80", table=table)
    offsets, _, _ = allocate(module, forgetful)
    with pytest.raises(InvalidModuleError, match=f"{needing.name} .* was given no shared memory"):
        lower(module, forgetful, offsets)


def test_two_rules_for_the_layouts_of_an_op_are_an_error():
    table = RuleTable("test")
    table.layouts(ConvertLayout)(as_they_are)
    with pytest.raises(ValueError, match="test has two rules for layouts of ConvertLayout"):
        table.layouts(ConvertLayout)(as_they_are)
    child = RuleTable("child", parent=table)
    child.layouts(ConvertLayout)(as_they_are)


@pytest.mark.parametrize("configuration", QUICK, ids=lambda configuration: configuration.name)
def test_every_pass_of_a_benchmark_is_verified(configuration: Configuration):
    recorder = Recorder(check=True)
    configuration.built("sm_90a", recorder)
    assert recorder.verify is not verify_module
