"""What is said of pipelined loops: who does what in a round, how far ahead, through which rings."""

from __future__ import annotations

from dataclasses import replace

import pytest

import workbench.language as tl
from tests.kernels import attention_forward
from tests.passes.corpus import tile_ir
from tests.targets.nvidia.test_odd_extents import staged
from workbench.ir import Module, print_module
from workbench.ops import For
from workbench.passes.manager import Recorder
from workbench.passes.pipeline import tile_passes
from workbench.targets.built import Built
from workbench.targets.nvidia.pipeline import build
from workbench.trace import Pipeline, Step


def built(module: Module, chip: str = "sm_90a", **options: object) -> Built:
    recorder = Recorder()
    options = {**module.attributes, "narrow_index": True, **options}
    module = replace(module, attributes=options)
    return build(tile_passes(module, recorder), chip, recorder)


def pipelines(found: Built) -> tuple[Pipeline, ...]:
    return found.fields["pipelines"]()


def said(pipeline: Pipeline, phase: str = "round") -> list[tuple[str, int, str]]:
    """Return (role, stage, words) of what is done in a phase, arithmetic left out."""
    return [
        (pipeline.roles[step.role], step.stage, step.text)
        for step in pipeline.steps
        if step.phase == phase and step.kind != "compute"
    ]


def check_ops(found: Built) -> None:
    """Each op of a step exists, none is of two steps, and what a round does is in `ops`."""
    assert found.gpu is not None
    known = {op.id for op in found.gpu.walk()}
    for pipeline in pipelines(found):
        steps: list[Step] = list(pipeline.steps)
        named = [op for step in steps for op in step.ops]
        assert len(named) == len(set(named))
        assert known.issuperset(named)
        assert known.issuperset(op for ring in pipeline.rings for op in (ring.op,))
        rounds = {op for step in steps if step.phase == "round" for op in step.ops}
        assert {op for op, _, _ in pipeline.ops} == rounds
        assert pipeline.loop in known


def test_copies_of_vectors_are_rounds_ahead_of_the_product():
    found = built(staged(128, 256, 64, 8), tma=False)
    check_ops(found)
    (one,) = pipelines(found)
    assert (one.roles, one.warps, one.registers, one.stages) == (("all warps",), (8,), (None,), 4)
    assert [(r.value, r.slots, r.bytes, r.full, r.empty) for r in one.rings] == [
        ("a", 4, 16384, None, None), ("b", 4, 32768, None, None),
    ]  # fmt: skip
    (product,) = (step for step in one.steps if step.kind == "product")
    assert (product.stage, product.in_flight, product.rings) == (0, 1, (0, 1))
    assert said(one) == [
        ("all warps", 0, "wait for copies, 1 may be under way"),
        ("all warps", 0, "all its warps meet"),
        ("all warps", -2, "copy a[fill]"),
        ("all warps", -2, "copy b[fill]"),
        ("all warps", 0, product.text),
    ]
    assert product.text.endswith(" = a[slot] @ b[slot]")
    first = [text for *_, text in said(one, "before")]
    assert first == ["copy a[0]", "copy b[0]", "copy a[1]", "copy b[1]"]
    assert said(one, "after")[-1][2].startswith("store ")
    assert found.gpu is not None
    text = print_module(found.gpu)
    assert text.count("stage = -2}") == 2
    assert "in_flight = 1" in text


def test_boxes_are_waited_for_at_barriers():
    found = built(staged(128, 256, 64, 8), warp_specialize=False)
    check_ops(found)
    (one,) = pipelines(found)
    assert found.gpu is not None
    (full,) = (op.id for op in found.gpu.walk() if op.name == "gpu.barriers")
    assert {(ring.full, ring.empty) for ring in one.rings} == {(full, None)}
    words = said(one)
    assert [text for _, stage, text in words if stage == -2] == [
        "expect 49,152 bytes: a[fill], b[fill]", "copy a[fill]", "copy b[fill]",
    ]  # fmt: skip
    assert ("all warps", 0, "wait: a[slot], b[slot] full") in words


def test_operands_of_warps_are_read_from_the_ring():
    found = built(staged(64, 64, 32, 4), "sm_80")
    check_ops(found)
    (one,) = pipelines(found)
    kinds = [step.kind for step in one.steps if step.phase == "round" and step.kind != "compute"]
    assert kinds == ["wait", "meet", "copy", "copy", "read", "read", "product"]
    (product,) = (step for step in one.steps if step.kind == "product")
    assert product.in_flight is None


def test_roles_are_told_apart():
    found = built(staged(128, 256, 64, 8), warp_specialize=True, persistent=False)
    check_ops(found)
    (one,) = pipelines(found)
    assert (one.roles, one.warps) == (("producer", "consumers"), (1, 8))
    assert all(ring.full and ring.empty and ring.full != ring.empty for ring in one.rings)
    assert said(one)[:4] == [
        ("producer", -4, "wait: a[slot], b[slot] empty"),
        ("producer", -4, "expect 49,152 bytes: a[slot], b[slot]"),
        ("producer", -4, "copy a[slot]"),
        ("producer", -4, "copy b[slot]"),
    ]
    assert {role for role, *_ in said(one)[4:]} == {"consumers"}
    assert said(one)[4][2] == "wait: a[slot.1], b[slot.1] full"
    assert said(one)[-1][2].startswith("give back ")
    assert {role for role, *_ in said(one, "after")} == {"consumers"}
    assert found.gpu is not None
    text = print_module(found.gpu)
    assert text.count('role = "producer", stage = -4}') == 2
    assert text.count('role = "consumer"') == 1


def attention(causal: bool, head: int = 128, rows: int = 128, keys: int = 128) -> Module:
    sizes = {"HEAD": head, "BLOCK_M": rows, "BLOCK_N": keys, "BLOCK_D": head, "CAUSAL": causal,
             "EVEN": False}  # fmt: skip
    words = "*fp16:16 *fp16:16 *fp16:16 *fp16:16 *fp32:16 fp32 " + "i32:16 i32:16 i32:16 i32=1 " * 4
    return tile_ir(
        attention_forward.attention, f"{words}i32 i32 i32 i32", sizes, num_warps=8, num_stages=2
    )


def test_loops_after_each_other_share_rings_and_a_product_is_late():
    found = built(attention(True))
    check_ops(found)
    first, second = pipelines(found)
    assert first.registers == second.registers == (24, 240)
    assert first.rings == second.rings
    assert [ring.value for ring in first.rings] == ["kt", "v"]  # queries are in registers
    for one in (first, second):
        late = [step for step in one.steps if step.phase == "round" and step.stage == 1]
        assert [step.kind for step in late] == ["wait", "product", "wait", "arrive"]
        assert late[1].in_flight == 2
        assert "then scale_products" in late[2].text
        peeled = [step.kind for step in one.steps if step.phase == "before" and step.role == 1]
        assert peeled.count("product") == 1
    assert [s.text.split()[0] for s in second.steps if s.kind == "store"] == ["store", "store"]
    assert not [s for s in first.steps if s.kind == "store"]


def test_no_loop_is_pipelined_without_a_ring():
    found = built(staged(64, 64, 32, 4), num_stages=1)
    assert found.gpu is not None
    assert any(isinstance(op, For) for op in found.gpu.walk())
    assert pipelines(found) == ()


def tiles(a_ptr, b_ptr, c_ptr, T, K, N: tl.constexpr, BK: tl.constexpr):
    """Multiply T pairs of matrices one after the other."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    for tile in range(tl.program_id(0), T, tl.num_programs(0)):
        total = tl.zeros((N, N), tl.float32)
        for start in range(0, K, BK):
            k = start + tl.arange(0, BK)
            a = tl.load(a_ptr + (tile * N + i) * K + k[None, :])
            b = tl.load(b_ptr + (tile * K + k[:, None]) * N + j)
            total = tl.dot(a, b, total)
        tl.store(c_ptr + (tile * N + i) * N + j, total)


@pytest.mark.parametrize(("chip", "tma"), [("sm_80", False), ("sm_90a", False), ("sm_90a", True)])
def test_of_a_loop_in_a_loop_the_inner_one_is_told(chip: str, tma: bool):
    """What the outer one does around it is before and after it."""
    words = "*fp16:16 *fp16:16 *fp32:16 i32:16 i32:16"
    module = tile_ir(tiles, words, {"N": 64, "BK": 32}, num_warps=4, num_stages=3)
    found = built(module, chip, tma=tma)
    check_ops(found)
    assert found.gpu is not None
    (outer,) = (op for op in found.gpu.body.ops if isinstance(op, For))
    (one,) = pipelines(found)
    assert one.loop in {op.id for op in outer.body.ops}
    stores = [step for step in one.steps if step.kind == "store"]
    assert [step.phase for step in stores] == ["after"]
    assert {step.kind for step in one.steps if step.phase == "before"} >= {"copy"}
