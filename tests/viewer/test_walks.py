"""Ways and programs as outputs and pages: within limits, readable, safe."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.trace.samples import add_trace
from tests.viewer.hostile import hostile, hostile_answer
from tests.viewer.test_comparisons import compared
from tests.viewer.test_output import KEPT_TAGS, Reader
from workbench.questions.following import follow
from workbench.source import OptionError
from workbench.trace.answers import Executed, FacingStage, Layout, Route, Seen, Stop, Tile, Walk
from workbench.viewer import save
from workbench.viewer.comparisons import answer_of
from workbench.viewer.kept import answer_in
from workbench.viewer.page import page
from workbench.viewer.reading import read_whole
from workbench.viewer.walks import route_answer, walk_answer

#: A program of the add kernel's sample: its loads, its sum and its store, twice round.
WALK = Walk(
    kernel="add", program=(1, 0, 0), grid=(3,), at=2, watched="x[1]",
    notes=("it ended early: because",),
    steps=tuple(
        Executed(
            op=op, text=f"%{name} = tile.{kind}", line=line, names=(name,), round=n // 4,
            value="3  1 … 3", accessed="reads x_ptr, elements 3 to 5", plumbing=kind == "constant",
            tile=Tile(shape=(3,), numbers=(("1", "2", "nan"),), picture=("am!",), low="1",
                      high="2"),
        )
        for n in range(8)
        for op, name, kind, line in [
            ((1, "c", "constant", 4), (5, "x", "load", 6), (6, "y", "load", 7),
             (7, "sum", "add", 8))[n % 4]
        ]
    ),
    seen=(Seen(step=1, what="%x", value="2", line=6), Seen(step=5, what="%x", value="2", line=6)),
)  # fmt: skip


def routed() -> tuple[Route, str]:
    """The way of a line of the sample, with a layout and a buffer that it does not have."""
    way = follow(add_trace(), "6")
    layout = Layout(
        op=9, value="%x", shape=(2, 4), element="f32", kind="register", name="#L0",
        bases={"register": ((0, 1),), "lane": ((0, 2), (1, 0))},
    )  # fmt: skip
    more = Stop(where="layout", sentence="%x is spread", stage="gpu", ops=(9,), layout=layout)
    route = way.route()
    return Route(question=route.question, stops=(*route.stops, more)), way.text


@pytest.mark.parametrize("kind", ["compare", "follow", "step"])
def test_what_a_file_keeps_is_shown_again(kind, tmp_path):
    traces = [add_trace()]
    answer = walk_answer(WALK, "", "") if kind == "step" else route_answer(*routed())
    if kind == "compare":
        traces, _, answer = compared()
    read, beside = read_whole(save(traces, tmp_path / "a.wbt", answer=answer))
    again = answer_in(beside, read)
    assert again is not None
    assert (again.kind, again.data) == (kind, answer.data)
    assert Reader(again.html("the end")).tags <= {*KEPT_TAGS, "br"}
    assert f'"asked":"{kind}"' in page(read, answer=again)


def test_what_is_damaged_is_told_and_nothing_is_waited_for(tmp_path):
    traces, facing, _ = compared()
    for beside in ({"follow": {"stops": 3}}, {"step": []}, {"compare": {"labels": ["a"]}}):
        with pytest.raises(OptionError, match="what was asked of the trace is damaged"):
            answer_in(beside, traces)
    assert answer_in({"show": ["sass"]}, traces) is None
    endless = replace(facing, stages=(FacingStage(id="ptx", rows=(("changed", 0, 0, 10**15),)),))
    assert answer_of(endless, traces, "").html("")


def test_static_html_of_a_way_is_a_table():
    route, text = routed()
    html = Reader(route_answer(route, text).html("the end"))
    assert "assign-layouts" in html.text
    assert "the end" in html.text
    assert html.tags <= set(KEPT_TAGS)


def test_a_way_without_end_is_cut():
    stops = tuple(Stop(where=str(n), sentence="x" * 1000) for n in range(1000))
    html = route_answer(Route(question="why", stops=stops), "").html("the end")
    assert len(html.encode()) <= 100_000
    assert "the rest is left out" in html
    assert len(route_answer(Route(question="y" * 200_000), "").html("").encode()) <= 100_000


def test_no_text_of_a_way_or_a_walk_becomes_markup(tmp_path):
    trace = hostile(add_trace())[0]
    route, text = routed()
    for found, made in (
        (hostile_answer(route), lambda each: route_answer(each, text)),
        (hostile_answer(WALK), lambda each: walk_answer(each, text, "")),
    ):
        planted, count = found
        assert count > 10
        answer = made(planted)
        html = Reader(answer.html("<img src=x>"))
        assert html.tags <= set(KEPT_TAGS) - {"img"}
        text_of_page = page([trace], answer=answer)
        assert text_of_page.count("<script") == 2
        assert save([trace], tmp_path / f"{answer.kind}.wbt", answer=answer).stat().st_size < 20_000
