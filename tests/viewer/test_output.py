"""What a saved output holds: every part readable alone, within its limit, safe to show."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import bleach
import pytest
from bleach.css_sanitizer import CSSSanitizer

from tests.trace.samples import add_lazy, add_trace, failed_trace, matmul_trace
from tests.viewer.hostile import hostile
from workbench.trace import STAGE_IDS, Bench, Kernel, Made, Runs, TraceBuilder, unpack
from workbench.viewer import MIME, frontend, mimebundle, output, plain, static_html
from workbench.viewer.summary import bench_notes, bench_table

VOID = {"img", "br"}


class Reader(HTMLParser):
    """Checks nesting, and collects tags, attributes and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)


def hostile_trace(text: str):
    build = TraceBuilder(
        kernel=Kernel(name=text, entry=text, file=text, target="cpu", spec=text),
        made=Made(workbench="0.1.0"),
    )
    build.add_source(text, text)
    for name in ("source", "ast", "tile", "llvm", "asm"):
        build.add_stage(name, text, name, note=text)
    build.add_remark("K1", "note", text)
    return build.finish().trace


HOSTILE = '</pre></script><script>alert(1)</script><img src=x onerror="alert(2)">&amp;\x00\x1b[31m'
HOSTILE += "\ud800"
KEPT_TAGS = ("details", "summary", "pre", "table", "thead", "tbody", "tr", "th", "td", "p", "b")
KEPT_TAGS += ("ul", "li", "img", "span", "div")

TRACES = {
    "add": lambda: [add_trace(), add_trace("cpu")],
    "failed": lambda: [failed_trace()],
    "matmul": lambda: [matmul_trace()],
    "hostile": lambda: [hostile_trace(HOSTILE)],
}


@pytest.fixture(params=TRACES)
def traces(request: pytest.FixtureRequest):
    return TRACES[request.param]()


def test_every_part_is_within_its_limit(traces) -> None:
    bundle = mimebundle(traces)
    assert len(json.dumps(bundle[MIME])) <= 290_000
    assert len(bundle["text/html"].encode()) <= 100_000
    lines = bundle["text/plain"].split("\n")
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert len(bundle["text/plain"]) <= 4_000


def test_bundle_is_json_and_deterministic(traces) -> None:
    assert json.dumps(mimebundle(traces)) == json.dumps(mimebundle(traces))


def test_html_is_well_formed_and_plain(traces) -> None:
    html = Reader(mimebundle(traces)["text/html"])
    assert html.tags.isdisjoint({"script", "style", "svg", "link", "iframe", "object"})
    assert html.attributes <= {"open", "style", "alt", "src"}


def test_hostile_text_is_shown_not_obeyed() -> None:
    html = Reader(static_html([hostile_trace(HOSTILE)]))
    assert "img" not in html.tags
    assert "<script>alert(1)</script>" in html.text
    assert "\x1b" not in html.text


@pytest.mark.parametrize("name", ["add", "failed"])
def test_no_text_of_a_trace_becomes_markup(name: str) -> None:
    trace, count = hostile(TRACES[name]()[-1])
    assert count > 50
    html = Reader(static_html([trace], limit=None))
    assert html.tags <= set(KEPT_TAGS) - {"img"}
    assert html.attributes <= {"open", "style"}


def test_sanitizer_takes_nothing_away(traces) -> None:
    html = mimebundle(traces)["text/html"]
    clean = bleach.clean(
        html,
        tags=KEPT_TAGS,
        attributes={"*": ["style"], "details": ["open"], "img": ["src", "alt"]},
        css_sanitizer=CSSSanitizer(
            allowed_css_properties=["color", "background-color", "padding", "margin", "overflow"]
        ),
        protocols=["data"],
        strip=True,
    )
    kept = Reader(clean)
    assert kept.text == Reader(html).text
    assert "data:image/png" in clean or "img" not in Reader(html).tags


def test_html_names_what_a_reader_needs() -> None:
    text = Reader(mimebundle([add_trace(), add_trace("cpu")])["text/html"]).text
    for fact in (
        "add", "sm_90a", "f32·BLOCK=3", "In[3]", "check failed", "out_ptr[3] = 0, expected nan",
        "triton: not installed", "no CUDA device", "registers", "18", "GB/s", "ld.global.b32",
        "LDG.E", "not vectorised: BLOCK is 3", "assign-layouts", "x_ptr[6]",
    ):  # fmt: skip
        assert fact in text, fact


def test_failed_compile_shows_the_caret_and_the_stages_that_exist() -> None:
    html = Reader(static_html([failed_trace()]))
    assert "error K302: dot needs matching inner sizes: <a> is (128, 64)" in html.text
    assert "  6 |     x = tl.load(x_ptr + offsets, mask=live)\n    |         ^^^^^" in html.text
    assert "help: use the same BK for both tiles" in html.text
    assert "Tile IR" in html.text


def test_source_is_open_and_others_are_excerpts() -> None:
    html = static_html([matmul_trace()])
    assert html.count("<details open>") == 1
    assert "5,860 more rows" in html


def test_enormous_rows_still_give_a_verdict() -> None:
    text = "\n".join(f"{'é' * 5000}{row}" for row in range(300))
    build = TraceBuilder(
        kernel=Kernel(name="add", entry="add", file="f", target="cpu"), made=Made(workbench="0")
    )
    for name in STAGE_IDS:
        build.add_stage(name, text, name)
    html = static_html([build.finish().trace])
    assert html.startswith("<div><p><b>add</b>")
    assert len(html.encode()) <= 100_000
    Reader(html)


def test_plain_text_says_the_facts() -> None:
    text = plain([add_trace(), add_trace("cpu")])
    assert text.startswith("add · sm_90a · f32·BLOCK=3 · In[3]\n")
    assert "regs 18" in text
    assert "link coverage 6/7" in text
    assert "FAILED  x + <y>    max abs inf, 4 of 7 wrong, 1 NaN (" in text
    assert "not done: launch: no CUDA device" in text
    assert "  4096    0.006096   8.063" in text


def test_embedded_traces_come_back() -> None:
    traces = [add_lazy(), add_lazy("cpu")]
    stored = mimebundle(traces, show=["ptx"])[MIME]
    assert stored["enc"] == "gzip+base64"
    back = unpack(base64.b64decode(stored["data"]))
    assert [trace.id for trace in back] == [lazy.trace.id for lazy in traces]
    assert stored["state"] == "check failed"
    assert stored["summary"]["show"] == ["ptx"]
    assert stored["summary"]["kernels"][0]["target"] == "sm_90a"


def test_large_trace_is_trimmed_and_says_what_is_gone() -> None:
    bundle = mimebundle([matmul_trace(noise=400_000)])
    assert bundle[MIME]["summary"]["trimmed"] == ["texts of LLVM passes"]
    assert len(bundle[MIME]["data"]) <= output.DATA_CHARACTERS
    assert "Left out to save space: texts of LLVM passes" in bundle["text/html"]


def test_small_trace_is_trimmed_before_its_neighbour_only_if_needed() -> None:
    bundle = mimebundle([add_trace(), matmul_trace(noise=400_000)])
    small = unpack(base64.b64decode(bundle[MIME]["data"]))[0]
    assert small.passes == add_trace().passes


def test_too_large_trace_goes_beside_the_notebook(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(output, "DATA_CHARACTERS", 1_000)
    stored = mimebundle([add_trace()], notebook=tmp_path / "nb.ipynb")[MIME]
    assert "data" not in stored
    assert stored["ref"]["path"].startswith("nb.traces/")
    assert stored["summary"]["trimmed"]
    content = (tmp_path / stored["ref"]["path"]).read_bytes()
    assert len(content) == stored["ref"]["bytes"]
    assert unpack(content)[0].id == add_trace().id


def test_too_large_trace_without_a_notebook_writes_nothing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(output, "DATA_CHARACTERS", 1_000)
    bundle = mimebundle([add_trace()])
    assert "data" not in bundle[MIME]
    assert "too large to embed" in bundle["text/plain"]
    assert list(tmp_path.iterdir()) == []


def test_summary_and_none_store_no_trace_and_write_no_file(tmp_path: Path) -> None:
    stored = mimebundle([add_trace()], embed="summary", notebook=tmp_path / "nb.ipynb")[MIME]
    assert "data" not in stored
    assert "ref" not in stored
    assert MIME not in mimebundle([add_trace()], embed="none")
    assert list(tmp_path.iterdir()) == []


def test_full_embeds_whatever_the_size(monkeypatch) -> None:
    monkeypatch.setattr(output, "DATA_CHARACTERS", 1_000)
    assert "data" in mimebundle([add_trace()], embed="full")[MIME]


def test_a_missing_front_end_is_said(monkeypatch) -> None:
    monkeypatch.setattr(frontend, "built", lambda: False)
    bundle = mimebundle([add_trace()])
    assert "static output only" in bundle["text/plain"]
    assert "static output only" in bundle["text/html"]


def test_no_trace_is_an_error_of_the_caller() -> None:
    with pytest.raises(ValueError, match="at least one trace"):
        mimebundle([])


def test_small_rates_stand_in_the_smaller_unit() -> None:
    series = {"axis": "n", "x": (64.0, 128.0), "metric": "tflops"}
    times = ((1.0, 1.0, 1.0, 20), (2.0, 2.0, 2.0, 20))
    own = Bench(name="add", kind="self", milliseconds=times, flops=(5e6, 4e8), **series)
    trace = replace(add_trace(), runs=Runs(benches=(own,)))
    headings, rows = bench_table(trace)
    assert headings == ["n", "ours ms", "GFLOP/s"]
    assert rows == [["64", "1", "5"], ["128", "2", "200"]]
    fast = replace(own, flops=(5e9, 4e9))
    headings, rows = bench_table(replace(trace, runs=Runs(benches=(fast,))))
    assert headings[-1] == "TFLOP/s"
    assert rows[0][-1] == "5"


def test_a_time_that_may_hold_the_hosts_is_marked_and_compared_with_nothing():
    times = ((1.0, 1.0, 1.0, 20),) * 2
    own = Bench(name="add", kind="self", axis="n", x=(1, 2), milliseconds=times, metric="ms",
                timed=("cold", "cold"))  # fmt: skip
    peer = replace(own, name="torch", kind="baseline", timed=("cold", "host"))
    trace = replace(add_trace(), runs=Runs(benches=(own, peer)))
    _, rows = bench_table(trace)
    assert rows == [["1", "1", "1", "1.00"], ["2", "1", "1 host", "-"]]
    notes = " ".join(bench_notes(trace))
    assert "cold: each run finds its inputs in memory" in notes
    assert "host: could not be captured" in notes
    assert "hot:" not in notes


def test_columns_agree_in_the_static_form():
    html = static_html([failed_trace()])
    blocks = re.findall(r'<pre style="([^"]*)">', html)
    assert blocks
    assert all("monospace" in style and "white-space:pre" in style for style in blocks)
