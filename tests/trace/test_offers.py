"""What is offered to paste evaluates nothing, whoever made the trace."""

from __future__ import annotations

from dataclasses import replace

import pytest

import workbench as wb
from workbench import tl
from workbench.magics.grammar import parse, split_cell
from workbench.magics.planning import make_plan
from workbench.trace import Tune, TuneRow
from workbench.trace.offers import override_cell, settings
from workbench.viewer.summary import tune_line

#: Each would call `boom` if an option line, or a cell, evaluated it.
TEXTS = (
    "{boom()}", "a{boom()}", "a\n{boom()}", "boom()", "a boom()", "a\nboom()", 'x" {boom()} "',
    "x' {boom()} '", "--set A={boom()}", "--make boom", "{{{boom()}}}", "a\\\n--make boom",
    "%time boom()", "a\r{boom()}", "a\u2028boom()", "a#{boom()}", "boom",
)  # fmt: skip


@wb.jit
def copy(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))


@pytest.fixture(scope="module")
def trace():
    return wb.compile(copy, "*f32 *f32", {"BLOCK": 16}, "sm_80").trace


def forged(trace):
    """Yield 51 traces, each with one of the texts where a name or a value is."""
    for text in TEXTS:
        yield replace(trace, kernel=replace(trace.kernel, name=text))
        yield replace(trace, kernel=replace(trace.kernel, target=text))
        rows = (TuneRow(config={"BLOCK": text}, milliseconds=1.0, state="ok"),)
        names = (TuneRow(config={text: 16}, milliseconds=1.0, state="ok"),)
        for tuned in (rows, names):
            tunes = (Tune(axes=("BLOCK",), rows=tuned, best=0),)
            yield replace(trace, runs=replace(trace.runs, tunes=tunes))


def test_forged_traces_evaluate_nothing(trace):
    called = []
    names = {"boom": lambda: called.append(1) or 16}
    source = copy.kernel_source
    traces = list(forged(trace))
    assert len(traces) >= 50
    for one in traces:
        cell = override_cell(one, "ptx")
        if cell is not None:
            head, _, body = cell.partition("\n")
            line, rest, _ = split_cell(head.removeprefix("%%override "), body)
            assert rest == body
            parse("override", line, names)
        line = tune_line(one).partition("    best of")[0]
        if line.startswith("--set"):
            request = parse("kernel", line, names)
            # A name without a call is looked up in the user's own namespace at most.
            assert all(
                value in ("boom", 16)
                for value in make_plan(request, source, names).settings.values()
            )
    assert not called


def test_what_is_plain_is_offered(trace):
    assert settings({"BM": 128, "x": 0.5, "flag": True, "mode": "relu"}) == (
        "--set BM=128 --set x=0.5 --set flag=True --set \"mode='relu'\""
    )
    cell = override_cell(trace, "ptx", origin="other\n{boom()}.wbt")
    head, comment, *rest = cell.splitlines()
    assert head == "%%override copy@sm_80 ptx"
    assert comment == "// from other boom .wbt: a trace that was not made here"
    assert "\n".join(rest) == trace.text("ptx").rstrip()
    assert override_cell(trace, "sass") is None
