"""Laws of facing rows and paired ops."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.runtime.kernels import add
from tests.trace.samples import add_trace, matmul_trace
from workbench.questions.beside import beside
from workbench.questions.comparing import difference, line_pairs
from workbench.questions.facing import Row, face, longest_rising, plain_row
from workbench.questions.pairing import pair_ops
from workbench.trace import to_data
from workbench.trace.answers import Comparison
from workbench.trace.codec import decoder


def row(op: int | None, kind: str = "add", line: int = 1, text: str = "") -> Row:
    return Row(frozenset() if op is None else frozenset({op}), line, kind, text or kind)


rows = st.lists(
    st.builds(row, st.none() | st.integers(1, 4), st.sampled_from("ab"), st.integers(1, 3))
)


@given(rows, rows)
def test_every_row_of_both_sides_is_shown_once_and_in_order(a, b):
    shown_a, shown_b = [], []
    for kind, i, j, count in face(a, b):
        if kind in ("same", "changed", "removed", "moved-from"):
            shown_a += range(i, i + count)
        if kind in ("same", "changed", "added", "moved-to"):
            shown_b += range(j, j + count)
    assert shown_a == list(range(len(a)))
    assert shown_b == list(range(len(b)))


@given(rows, rows)
def test_what_has_moved_names_its_other_end(a, b):
    steps = [(kind, i + n, j + n) for kind, i, j, count in face(a, b) for n in range(count)
             if kind.startswith("moved")]  # fmt: skip
    gone = {(i, j) for kind, i, j in steps if kind == "moved-from"}
    assert gone == {(i, j) for kind, i, j in steps if kind == "moved-to"}
    assert all(a[i].ops == b[j].ops for i, j in gone)


@given(rows)
def test_a_text_beside_itself_is_the_same(a):
    assert all(kind == "same" for kind, *_ in face(a, a))


@given(st.lists(st.integers(), unique=True))
def test_longest_rising_rises_and_none_is_longer(numbers):
    kept = [numbers[place] for place in longest_rising(numbers)]
    assert kept == sorted(kept)
    best = [1] * len(numbers)
    for n, number in enumerate(numbers):
        best[n] += max((best[m] for m in range(n) if numbers[m] < number), default=0)
    assert len(kept) == max(best, default=0)


def test_rows_of_one_op_face_each_other_whatever_they_say():
    a = [row(1, "ld.v4"), row(2, "add"), row(None, "}")]
    b = [row(3, "mov", line=9), row(1, "ld.v2"), row(1, "ld.v2"), row(2, "add"), row(None, "}")]
    assert face(a, b) == (
        ("added", -1, 0, 1), ("changed", 0, 1, 1), ("added", -1, 2, 1), ("same", 1, 3, 2)
    )  # fmt: skip


def test_rows_that_change_places_have_moved():
    a, b = [row(1, "x"), row(2, "y"), row(3, "z")], [row(3, "z"), row(1, "x"), row(2, "y")]
    assert face(a, b) == (("moved-to", 2, 0, 1), ("same", 0, 1, 2), ("moved-from", 2, 0, 1))


@pytest.mark.parametrize(
    ("one", "other", "stage", "same"),
    [
        ("  ld.global.b32 %r1, [%rd4];", "  ld.global.b32 %r9, [%rd2];", "ptx", True),
        ("  ld.global.b32 %r1, [%rd4];", "  ld.global.b32 %r1, [%rd4+8];", "ptx", False),
        ("/*0010*/ @P0 LDG R1, [R2.64]; /* 0x1 */", "/*0a10*/ @P1 LDG R8, [R4.64];", "sass", True),
        ("/*0010*/ IADD3 R1, R2, 0x10, RZ ;", "/*0010*/ IADD3 R1, R2, 0x20, RZ ;", "sass", False),
        ("  %3 = add i32 %1, 4, !dbg !7", "  %9 = add i32 %x, 4, !dbg !8", "llvm", True),
        ("\tvaddps\t%ymm0, %ymm1, %ymm2", "\tvaddps\t%ymm3, %ymm1, %ymm2", "asm", True),
        ("\tvaddps\t%ymm0, %ymm1, %ymm2", "\tvsubps\t%ymm0, %ymm1, %ymm2", "asm", False),
        ("\taddq\t$16, %rax", "\taddq\t$32, %rbx", "asm", False),
    ],
)  # fmt: skip
def test_what_a_compilation_chooses_freely_is_no_difference(one, other, stage, same):
    assert (plain_row(one, stage) == plain_row(other, stage)) is same


def test_layouts_are_compared_by_what_they_are():
    layouts = [{"#a": "blocked(1)"}, {"#b": "blocked(1)"}, {"#a": "blocked(2)"}]
    texts = [plain_row(f"%1 = gpu.load : tile<4xf32, {name}>", "gpu", own)
             for name, own in zip(("#a", "#b", "#a"), layouts, strict=True)]  # fmt: skip
    assert texts[0] == texts[1] != texts[2]


def partners(a, b):
    return {None: None} | {mine: theirs for mine, theirs, _ in line_pairs(a, b)}


@pytest.mark.parametrize("make", [add_trace, matmul_trace])
def test_the_ops_of_a_trace_are_its_own(make):
    trace = make()
    assert pair_ops(trace, trace, partners(trace, trace)) == {op: op for op in trace.ops.id}


def test_ops_are_paired_though_their_ids_are_others():
    trace = add_trace()
    table = trace.ops
    later = replace(
        table, id=tuple(op + 100 for op in table.id),
        parents=tuple(tuple(op + 100 for op in parents) for parents in table.parents),
    )  # fmt: skip
    paired = pair_ops(trace, replace(trace, ops=later), partners(trace, trace))
    assert paired == {op: op + 100 for op in table.id}


def test_a_comparison_is_plain_data_and_comes_back():
    traces = (add_trace(), add_trace("cpu"))
    found = beside(*traces, difference(*traces, ("one", "other")))
    assert decoder(Comparison)(to_data(found)) == found
    assert [stage.id for stage in found.stages] == ["source", "tile"]
    assert "same" in found.said or found.stages


def test_the_same_is_said_outright_and_other_values_are_no_other_ops():
    words = "*f32:16 *f32:16 *f32:16 i32"
    one = wb.compile(add, words, {"BLOCK": 256}, target="sm_80").trace
    again = difference(one, one, ("a", "b")).text
    assert again.splitlines()[-1] == "the same: options, resources, tile, gpu, llvm, ptx, sass"
    other = wb.compile(add, words, {"BLOCK": 512}, target="sm_80").trace
    text = difference(one, other, ("a", "b")).text
    assert "\ntile: the same ops at every line, other values\n" in text
