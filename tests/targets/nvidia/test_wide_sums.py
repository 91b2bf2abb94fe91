"""Wide products that are added to something become mad.wide, where that is the same."""

from __future__ import annotations

import pytest

from workbench.targets.nvidia.wide_sums import with_wide_sums


def block(*lines: str) -> str:
    return "\n".join(line if line.endswith(":") else f"\t{line};" for line in lines)


PRODUCT, SUM = "mul.wide.s32 \t%rd5, %r63, 4", "add.s64 \t%rd6, %rd4, %rd5"
FUSED = "mad.wide.s32 \t%rd6, %r63, 4, %rd4"


def test_one_reader_that_adds():
    before = block("mov.u32 \t%r63, %ctaid.x", PRODUCT, "mov.b32 \t%r1, 0", SUM)
    after = block("mov.u32 \t%r63, %ctaid.x", "mov.b32 \t%r1, 0", FUSED)
    assert with_wide_sums(before) == after
    turned = before.replace("%rd4, %rd5", "%rd5, %rd4")
    assert with_wide_sums(turned) == after
    marked = block(PRODUCT, "$L__tmp7:", SUM)
    assert with_wide_sums(marked) == block("$L__tmp7:", FUSED)


def test_a_chain():
    lines = block(PRODUCT, SUM, "mul.wide.u32 \t%rd7, %r1, %r2", "add.s64 \t%rd8, %rd7, %rd6")
    assert with_wide_sums(lines) == block(FUSED, "mad.wide.u32 \t%rd8, %r1, %r2, %rd6")


@pytest.mark.parametrize(
    "lines",
    [
        (PRODUCT, SUM, "add.s64 \t%rd7, %rd1, %rd5"),  # read twice
        (PRODUCT, "add.s64 \t%rd6, %rd5, %rd5"),
        (PRODUCT, "$L__BB0_2:", SUM),  # in a loop, perhaps
        (PRODUCT, "mov.b32 \t%r63, %r7", SUM),  # what is multiplied has changed
        (PRODUCT, "@%p1 ld.global.v2.b32 {%r62, %r63}, [%rd1]", SUM),
        (PRODUCT, "mov.b64 \t{%r63, %r64}, %rd9", SUM),
        (PRODUCT, "sub.s64 \t%rd6, %rd4, %rd5"),
        (PRODUCT, "add.s64 \t%rd6, %rd4, 8"),
    ],
)
def test_what_stays(lines: tuple[str, ...]):
    assert with_wide_sums(block(*lines)) == block(*lines)


def test_registers_whose_names_begin_alike():
    lines = ("mul.wide.s32 \t%rd5, %r6, 4", "mov.b32 \t%r63, 1", "add.s64 \t%rd55, %rd4, %rd5")
    after = ("mov.b32 \t%r63, 1", "mad.wide.s32 \t%rd55, %r6, 4, %rd4")
    assert with_wide_sums(block(*lines)) == block(*after)


def test_not_beside_products_by_warpgroups():
    lines = block(PRODUCT, SUM, "wgmma.wait_group.sync.aligned 0")
    assert with_wide_sums(lines) == lines
