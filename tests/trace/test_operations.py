"""Links, deltas, packing, trimming and limits on whole traces."""

from __future__ import annotations

import dataclasses
import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trace.samples import add_lazy, add_trace, matmul_trace
from workbench.trace import (
    Kernel,
    LateRows,
    Launch,
    Links,
    Made,
    MemoryAccess,
    Rendered,
    Resources,
    Trace,
    TraceBuilder,
    TraceError,
    coverage,
    delta,
    limits,
    links,
    pack,
    problems,
    row_runs,
    to_json,
    trim,
    unpack,
)
from workbench.trace.links import ops_of_rows, rows_of_ops, rows_of_text
from workbench.trace.packing import bundle_json

ROWS = st.lists(st.lists(st.integers(1, 5), max_size=3, unique=True), max_size=20)


@given(ROWS)
def test_runs_and_rows_are_inverse(rows: list[list[int]]) -> None:
    runs = row_runs(rows)
    assert ops_of_rows(runs, len(rows)) == [tuple(ops) for ops in rows]
    for op, found in rows_of_ops(runs).items():
        assert found == [row for row, ops in enumerate(rows) if op in ops]


def test_links_go_both_ways() -> None:
    links = Links(add_trace())
    assert links.ops_at("sass", [2]) == {9}
    assert links.rows_of("ptx", {9}) == [8]
    assert links.rows_of("source", {9}) == [4]
    assert links.rows_of("nowhere", {9}) == []


def test_relations_go_through_parents() -> None:
    links = Links(add_trace())
    assert links.ancestors(9) == {5}
    assert links.descendants(5) == {9}
    assert links.related({5}) == {9}


def test_ops_of_a_source_line() -> None:
    links = Links(add_trace())
    assert links.ops_of_line(0, 6) == {5, 9}
    assert links.line_of(9) == (0, 6)


def test_relations_end_on_a_cycle() -> None:
    build = TraceBuilder(
        kernel=Kernel(name="k", entry="k", file="f", target="cpu"), made=Made(workbench="0")
    )
    build.add_op(1, "a", parents=[2])
    build.add_op(2, "b", parents=[1])
    assert Links(build.finish().trace).ancestors(1) == {2}


def test_coverage_counts_rows_that_say_something() -> None:
    counts = coverage(add_trace())
    assert counts["sass"] == (6, 7)
    assert counts["tile"] == (8, 9)  # the lone brace does not count, the header does


def test_coverage_counts_no_row_beside_instructions() -> None:
    sass = [".text.k:", "  /*0000*/ MOV R1, R2 ;", ".L_x_0:", "  /*0010*/ BRA `(.L_x_0);",
            "  /*0020*/ NOP;", ".L_x_1:"]  # fmt: skip
    asm = [
        ".section .rodata",
        ".LC0:",
        "  .long 16",
        "k:  # @k",
        "  movl $1, %eax",
        "  nopw 0(%rax)",
    ]
    build = TraceBuilder(
        kernel=Kernel(name="k", entry="k", file="f", target="cpu"), made=Made(workbench="0")
    )
    build.add_op(1, "a")
    build.add_stage("sass", "\n".join(sass), "sass", [[], [1]])
    build.add_stage("asm", "\n".join(asm), "asm")
    counts = coverage(build.finish().trace)
    assert (counts["sass"], counts["asm"]) == ((1, 1), (0, 1))


def test_delta_names_what_changed() -> None:
    a = add_trace()
    b = dataclasses.replace(
        a,
        resources=dataclasses.replace(a.resources, registers=32),
        kernel=dataclasses.replace(a.kernel, options={"num_warps": 8}),
    )
    found = delta(a, b)
    assert found.resources == {"registers": (18, 32)}
    assert found.options["num_warps"] == (4, 8)
    assert all(stage.same for stage in found.stages)
    assert found.ratio is None


def test_delta_gives_the_time_ratio() -> None:
    assert delta(add_trace("cpu"), add_trace("cpu")).ratio == 1.0


def test_pack_is_deterministic_and_holds_several() -> None:
    traces = (add_trace(), add_trace("cpu"))
    packed = pack(traces, show=["ptx"])
    assert packed == pack((add_trace(), add_trace("cpu")), show=["ptx"])
    assert [to_json(trace) for trace in unpack(packed)] == [to_json(trace) for trace in traces]
    assert json.loads(gzip.decompress(packed))["show"] == ["ptx"]


def test_unpack_takes_plain_json_of_one_trace() -> None:
    assert unpack(to_json(add_trace()).encode())[0].kernel.name == "add"


@pytest.mark.parametrize("damage", [lambda b: b[:40], lambda b: b[:60] + b"x" * 20 + b[80:]])
def test_damaged_bytes_are_refused(damage: object) -> None:
    with pytest.raises(TraceError, match="not a trace"):
        unpack(damage(pack([add_trace()])))


def test_a_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    packed, plain = pack([add_trace()]), to_json(add_trace()).encode()
    monkeypatch.setattr("workbench.trace.packing.UNPACKED_BYTES", 1000)
    for data in (packed, plain):
        with pytest.raises(TraceError, match="larger than 1,000 bytes"):
            unpack(data)


@pytest.mark.parametrize("share", [0.9, 0.5, 0.2])
def test_what_is_packed_can_be_unpacked(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    traces = [add_trace(), matmul_trace(noise=2_000), matmul_trace(100)]
    whole = len(bundle_json(traces, show=["ptx"]))
    monkeypatch.setattr("workbench.trace.packing.UNPACKED_BYTES", int(whole * share))
    monkeypatch.setattr("workbench.trace.packing._SHORTER", (50_000, 5_000, 500, 50))
    packed = pack(traces, show=["ptx"])
    assert len(gzip.decompress(packed)) <= whole * share
    found = unpack(packed)
    assert [trace.kernel.name for trace in found] == [trace.kernel.name for trace in traces]
    assert found[0] == traces[0]  # the small one is whole
    assert not any(map(problems, found))


def test_what_nothing_makes_small_enough_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.trace.packing.UNPACKED_BYTES", 500)
    with pytest.raises(TraceError, match="the trace of add is larger than"):
        pack([add_trace()])


def test_a_number_of_too_many_digits_is_no_trace() -> None:
    with pytest.raises(TraceError, match="not JSON"):
        unpack(b'{"version": ' + b"1" * 5_000 + b"}")


def test_trimming_follows_the_order_and_keeps_the_laws() -> None:
    trace = matmul_trace(noise=20_000)
    small, dropped = trim(trace, lambda _: False)
    assert dropped == ("texts of LLVM passes", "texts of inner passes", "AST")
    assert problems(small) == []
    assert small.text("sass") == trace.text("sass")
    assert len(small.passes) == len(trace.passes)
    assert {len(small.strings)} < {len(trace.strings)} or len(small.strings) < len(trace.strings)


def test_trimming_stops_when_it_fits() -> None:
    trace = matmul_trace(noise=20_000)
    size = len(pack([trace]))
    small, dropped = trim(trace, lambda each: len(pack([each])) < size)
    assert dropped == ("texts of LLVM passes",)
    assert small.passes[0].before is not None


def test_trimming_drops_encodings_but_no_row() -> None:
    small, dropped = trim(add_trace(), lambda trace: "/* 0x" not in trace.text("sass"))
    assert dropped[-1] == "SASS encodings"
    assert small.text("sass").count("\n") == add_trace().text("sass").count("\n")
    assert "/*0010*/" in small.text("sass")


def test_dropped_passes_leave_their_row_maps_to_others() -> None:
    trace = matmul_trace()
    kept = limits.keep_pass_texts(trace, {61})
    last = kept.passes[61]
    assert rows_of_text(kept)[last.before] == rows_of_text(trace)[trace.passes[61].before]


def test_a_text_above_the_limit_is_cut_at_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TEXT_CHARACTERS", 1000)
    trace = limits.limited(matmul_trace(sass_rows=100))
    assert all(len(text) <= 1000 for text in trace.strings)
    assert problems(trace) == []
    assert trace.stage("sass").state == "partial"


def test_passes_above_the_limit_keep_what_they_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PASSES_WITH_TEXT", 10)
    trace = limits.limited(matmul_trace(sass_rows=100))
    assert sum(step.after is not None for step in trace.passes) == 10
    assert len(trace.passes) == 62
    assert problems(trace) == []


def test_nothing_is_printed_before_somebody_looks() -> None:
    printed: list[str] = []

    def produce(name: str) -> Rendered:
        printed.append(name)
        return Rendered(name, [(1,)])

    build = TraceBuilder(
        kernel=Kernel(name="k", entry="k", file="f", target="cpu"), made=Made(workbench="0")
    )
    module = object()
    text = build.lazy_text(module, lambda: produce("module"))
    assert build.lazy_text(module, lambda: produce("again")) is text
    build.add_stage("tile", text, "ir")
    build.add_pass("cse", "tile", 0.1, changed=False, before=text, after=text)
    build.later(lambda: build.add_op(1, "tile.add"))
    lazy = build.finish()
    lazy.record(Launch(t=0.0, grid=(1,), device="cpu"))
    assert printed == []
    assert not lazy.printed
    assert lazy.trace.text("tile") == "module"
    assert lazy.trace is lazy.trace
    assert printed == ["module"]
    assert len(lazy.trace.runs.launches) == 1


def test_runs_added_after_reading_appear() -> None:
    lazy = add_lazy("cpu")
    before = lazy.trace
    lazy.record(Launch(t=9.0, grid=(1,), device="cpu"))
    lazy.update(resources=Resources(registers=40))
    assert len(lazy.trace.runs.launches) == len(before.runs.launches) + 1
    assert lazy.trace.resources.registers == 40


def test_a_failing_printer_costs_one_stage_and_says_so() -> None:
    def broken() -> Rendered:
        raise KeyError("op 7")

    build = TraceBuilder(
        kernel=Kernel(name="k", entry="k", file="f", target="cpu"), made=Made(workbench="0")
    )
    build.add_stage("gpu", broken, "ir")
    build.add_stage("llvm", lambda: Rendered("", LateRows(lambda: broken().rows)), "llvm")
    build.add_stage("ptx", "ret;", "ptx")
    trace = build.finish().trace
    for stage in ("gpu", "llvm"):
        assert trace.stage(stage).state == "missing"
        assert trace.stage(stage).note == "printing failed: KeyError: 'op 7'"
    assert trace.text("ptx") == "ret;"


def test_rows_are_found_when_they_are_asked_for_and_once() -> None:
    found: list[int] = []
    rows = LateRows(lambda: found.append(1) or [(1,), (), (2, 3)])
    text = Rendered("a\nb\nc", rows)
    assert text.text
    assert found == []
    assert [*rows] == [(1,), (), (2, 3)] == list(rows[:])
    assert (len(rows), rows[2], rows[:1], found) == (3, (2, 3), [(1,)], [1])


def test_matmul_packs_within_the_saved_output_limit() -> None:
    packed = pack([matmul_trace()])
    assert len(packed) * 4 / 3 < 280_000


def broken_traces() -> list[tuple[str, Trace]]:
    trace = add_trace()
    stage = dataclasses.replace(trace.stages[0], rows=((0, 900, (1,)),))
    return [
        ("rows", dataclasses.replace(trace, stages=(stage, *trace.stages[1:]))),
        ("string", dataclasses.replace(trace, strings=trace.strings[:1])),
        ("op table", dataclasses.replace(trace, ops=dataclasses.replace(trace.ops, id=(1,)))),
    ]


@pytest.mark.parametrize("name", ["rows", "string", "op table"])
def test_problems_finds_broken_laws(name: str) -> None:
    assert problems(dict(broken_traces())[name])


def test_a_part_of_the_accesses_says_that_it_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ACCESSES", 4)
    found = tuple((0, lane, "out", lane, True) for lane in range(6))
    entries = tuple(MemoryAccess(op=5, direction="store", addr=found[:n]) for n in (4, 6))
    whole, part = limits.limited(dataclasses.replace(add_trace(), access=entries)).access
    assert (len(whole.addr), whole.accesses) == (4, None)
    assert (len(part.addr), part.accesses) == (4, 6)


def test_texts_that_were_counted_are_not_kept() -> None:
    trace = add_trace()
    for n in range(40):
        strings = tuple(f"{text}\n# {n}" for text in trace.strings)
        assert coverage(dataclasses.replace(trace, strings=strings))
    assert len(links._known) <= links._MOST_KNOWN
    assert all(len(digest) == 32 for digest, _ in links._known)
