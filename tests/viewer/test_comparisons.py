"""A comparison as an output, a page and a file: within limits, readable, safe."""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache

from tests.trace.samples import add_trace, bench, matmul_trace
from tests.viewer.hostile import hostile, hostile_answer
from tests.viewer.test_output import KEPT_TAGS, Reader
from workbench.questions.beside import beside
from workbench.questions.comparing import difference
from workbench.trace import Launch, Runs, Trace, to_data, unpack
from workbench.trace.answers import Comparison, Quantity, Share
from workbench.trace.codec import decoder
from workbench.viewer import MIME, Answer, mimebundle, save
from workbench.viewer.comparisons import answer_of
from workbench.viewer.page import page


def with_code(trace: Trace, old: str, new: str) -> Trace:
    """The trace with a text of its stages changed."""
    data = to_data(trace)
    data["strings"] = [text.replace(old, new) for text in data["strings"]]
    return decoder(Trace)(data)


@cache
def compared(*, large: bool = False) -> tuple[tuple[Trace, Trace], Comparison, Answer]:
    a = matmul_trace() if large else add_trace()
    b = with_code(a, "ld.shared" if large else "ld.global", "ld.weak")
    found = difference(a, b, ("one <b>", "other"))
    facing = beside(a, b, found)
    return (a, b), facing, answer_of(facing, (a, b), found.text)


def test_both_sides_and_what_faces_are_stored_and_come_back():
    traces, facing, answer = compared()
    bundle = mimebundle(traces, answer=answer)
    stored = json.loads(gzip.decompress(base64.b64decode(bundle[MIME]["data"])))
    assert decoder(Comparison)(stored["compare"]) == facing
    assert len(stored["traces"]) == 2
    assert bundle["text/plain"].startswith("A: one <b>")
    assert bundle[MIME]["summary"]["asked"] == "compare"


def test_an_output_is_small_enough_to_be_saved():
    traces, facing, answer = compared(large=True)
    bundle = mimebundle(traces, answer=answer)
    assert len(json.dumps(bundle)) <= 400_000
    assert len(bundle["text/html"].encode()) <= 100_000
    assert any(kind == "changed" for stage in facing.stages for kind, *_ in stage.rows)


def test_static_html_tells_numbers_lines_and_rows():
    traces, facing, _ = compared()
    numbers = Quantity(
        name="registers", title="registers", unit="a thread", a=18, b=59, better="less",
        shares=(Share(amount=41, words="line 28", a=(0, 28), b=(0, 28)),),
    )  # fmt: skip
    facing = Comparison(labels=facing.labels, quantities=(numbers,), stages=facing.stages)
    html = Reader(answer_of(facing, traces, "").html("the end"))
    assert "+41: line 28" in html.text
    assert "A ~    10  \t@%p1 ld.global.b32" in html.text
    assert "B ~    10  \t@%p1 ld.weak.b32" in html.text
    assert "the end" in html.text
    assert html.tags <= {*KEPT_TAGS, "br"}


def test_no_text_of_a_comparison_becomes_markup():
    traces, facing, _ = compared()
    planted = (hostile(traces[0])[0], hostile(traces[1])[0])
    found, count = hostile_answer(facing)
    assert count > 15
    answer = answer_of(found, planted, "<script>alert(1)</script>")
    html = Reader(answer.html("<img src=x>"))
    assert html.tags <= {*KEPT_TAGS, "br"} - {"img"}
    assert html.attributes <= {"open", "style"}
    text = page(planted, answer=answer)
    assert text.count("<script") == 2  # the data, the viewer
    assert "<script>alert" not in text.split('type="module"')[0]


def test_a_page_is_called_by_both_sides_and_a_file_holds_both(tmp_path):
    traces, _, answer = compared()
    text = save(traces, tmp_path / "a.html", answer=answer).read_text()
    assert "<title>one &lt;b&gt; and other</title>" in text
    packed = save(traces, tmp_path / "a.wbt", answer=answer).read_bytes()
    assert len(unpack(packed)) == 2
    assert "compare" in json.loads(gzip.decompress(packed))


def test_times_of_both_are_told_with_their_noise():
    def timed(slow: float, *, launch: bool = False) -> Trace:
        run = Launch(t=0.0, grid=(1,), device="a CPU", milliseconds=slow)
        runs = Runs(launches=(run,)) if launch else Runs(benches=(bench("a", "self", (64,), slow),))
        return decoder(Trace)({**to_data(add_trace()), "runs": to_data(runs)})

    def verdict(a: Trace, b: Trace) -> str:
        return difference(a, b, ("A", "B")).timings[0].verdict

    assert verdict(timed(1.0), timed(1.0)) == "same"
    assert verdict(timed(2.0), timed(1.0)) == "faster"
    assert verdict(timed(1.0), timed(2.0)) == "slower"
    assert verdict(timed(1.0, launch=True), timed(0.95, launch=True)) == "same"  # one says little
    assert verdict(timed(2.0, launch=True), timed(1.0, launch=True)) == "faster"
    assert not difference(timed(1.0), timed(1.0, launch=True), ("A", "B")).timings
