"""Exports by suffix, the one-file page, plots and their numbers."""

from __future__ import annotations

import base64
import csv
import dataclasses
import hashlib
import json
import re
from pathlib import Path

import pytest

from tests.trace.samples import add_trace, failed_trace, matmul_trace
from workbench.source import OptionError
from workbench.trace import Runs, unpack
from workbench.viewer import MIME, frontend, numbers, plots, save
from workbench.viewer.page import page

TRACES = [add_trace(), add_trace("cpu")]
FIRST = "kernel add; target sm_90a; f32·BLOCK=3; num_warps=4 num_stages=3; workbench 0.1.0"


def saved(path: Path, **options: object) -> str:
    return save(TRACES, path, **options).read_text(encoding="utf-8")


def test_trace_files_come_back(tmp_path: Path) -> None:
    for name in ("a.wbt", "a.json"):
        path = save(TRACES, tmp_path / name)
        assert [trace.id for trace in unpack(path.read_bytes())] == [t.id for t in TRACES]


@pytest.mark.parametrize(
    ("suffix", "first", "content"),
    [
        (".ptx", "// ", "ld.global.b32"),
        (".ll", "; ", "define ptx_kernel"),
        (".sass", "// ", "/*0000*/"),
        (".s", "# ", "vaddps"),
    ],
)
def test_stage_files_begin_with_what_made_them(
    tmp_path: Path, suffix: str, first: str, content: str
) -> None:
    text = saved(tmp_path / f"add{suffix}")
    target = "cpu" if suffix == ".s" else "sm_90a"
    assert text.startswith(first + FIRST.replace("sm_90a", target))
    assert content in text
    assert text.endswith("\n")


def test_csv_holds_every_point(tmp_path: Path) -> None:
    text = saved(tmp_path / "add.csv")
    comment, rest = text.split("\n", 1)
    rows = list(csv.DictReader(rest.splitlines()))
    assert comment.startswith("# kernel add; target cpu")
    assert len(rows) == 10
    assert rows[0]["x"] == "4096"
    assert rows[2]["ok"] == "false"
    gigabytes = 12 * 4096 / float(rows[0]["milliseconds"]) / 1e6
    assert float(rows[0]["rate"]) == pytest.approx(gigabytes, rel=1e-4)


def test_png_is_a_picture_within_its_limit(tmp_path: Path) -> None:
    data = save(TRACES, tmp_path / "add.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(plots.bench_png(TRACES)) <= plots.PNG_BYTES


def test_svg_says_what_was_compiled(tmp_path: Path) -> None:
    assert "kernel add; target cpu" in saved(tmp_path / "add.svg")


def test_cubin_is_written_byte_for_byte(tmp_path: Path) -> None:
    path = save(TRACES, tmp_path / "add.cubin", made={".cubin": lambda: b"\x7fELF\x00"})
    assert path.read_bytes() == b"\x7fELF\x00"


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("a.exe", "K803", "unknown suffix '.exe'"),
        ("add", "K803", "has no suffix"),
        ("a.cubin", "K804", "no cubin to write: a trace holds texts, no code that runs"),
        ("no/such/folder/a.ptx", "K805", "does not exist"),
    ],
)
def test_refusals_say_why(tmp_path: Path, name: str, code: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        save(TRACES, tmp_path / name)
    assert caught.value.code == code
    assert message in caught.value.message


def test_what_was_not_compiled_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="there is no cubin to write: add was not compiled"):
        save(TRACES, tmp_path / "a.cubin", made={".py": bytes})


def test_a_missing_stage_gives_its_note(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no ptx to write: not reached: see Problems"):
        save([failed_trace()], tmp_path / "a.ptx")
    assert list(tmp_path.iterdir()) == []


def test_nothing_benchmarked_is_said(tmp_path: Path) -> None:
    for name in ("a.csv", "a.png"):
        with pytest.raises(OptionError, match="nothing was benchmarked"):
            save([matmul_trace(100)], tmp_path / name)


def test_existing_files_need_force(tmp_path: Path) -> None:
    path = tmp_path / "a.ptx"
    path.write_text("mine")
    with pytest.raises(OptionError, match="exists") as caught:
        save(TRACES, path)
    assert "--force" in caught.value.hint
    assert path.read_text() == "mine"
    assert "ld.global" in saved(path, force=True)


def test_page_carries_traces_and_static_html() -> None:
    text = page(TRACES, comment="a --> b")
    (stored,) = re.findall(rf'<script type="{re.escape(MIME)}">(.*?)</script>', text)
    envelope = json.loads(stored)
    back = unpack(base64.b64decode(envelope["data"]))
    assert [trace.id for trace in back] == [trace.id for trace in TRACES]
    assert "&lt;script&gt;alert" in text
    assert "<!-- a - -  b -->" in text


def test_page_makes_no_request_of_its_own() -> None:
    text = page(TRACES)
    outside = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.findall(r'(?:src|href)="(?!data:)', outside)


def test_page_inlines_the_bundle_so_that_it_cannot_end_early(monkeypatch) -> None:
    bundle = b'export const a="</script><!-- x";'
    monkeypatch.setattr(frontend, "script", lambda name: bundle)
    text = page(TRACES)
    assert text.count("<script") == 2
    assert '<script type="module">export const a="<\\/script><\\!-- x";</script>' in text


def test_a_page_may_run_its_one_script_and_nothing_else(monkeypatch) -> None:
    monkeypatch.setattr(frontend, "script", lambda name: b'const a="</script>";\r\nb()\r')
    text = page(TRACES)
    (rules,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="(.*?)">', text)
    (script,) = re.findall(r'<script type="module">(.*?)</script>', text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert rules.startswith(f"default-src 'none'; script-src 'sha256-{digest}'; ")
    assert "\r" not in script
    assert text.index("Content-Security-Policy") < text.index("<style")
    monkeypatch.setattr(frontend, "script", lambda name: None)
    assert "script-src 'none'" in page(TRACES)


def test_page_without_a_bundle_says_so(monkeypatch) -> None:
    monkeypatch.setattr(frontend, "script", lambda name: None)
    text = page(TRACES)
    assert 'type="module"' not in text
    assert "static output only" in text


def test_rates_are_of_the_median() -> None:
    assert numbers.rate("gbps", 2.0, None, 4e9) == 2000.0
    assert numbers.rate("tflops", 2.0, 4e12, None) == 2000.0
    assert numbers.rate("gbps", 2.0, 1.0, None) is None


def test_percent_is_of_the_nearer_limit() -> None:
    ceilings = add_trace("cpu").runs.ceilings  # 20 GB/s
    assert numbers.rate("percent", 1.0, None, 10e6, ceilings) == pytest.approx(50.0)
    assert numbers.rate("percent", 1.0, 1e9, None, ceilings) is None


def test_wrong_points_are_compared_with_nobody() -> None:
    found = numbers.ratios(add_trace("cpu"))
    assert 2**14 not in found
    assert found[2**12] == pytest.approx(1.1)


def test_a_dot_is_shown_in_operations() -> None:
    trace = matmul_trace(100)
    trace = dataclasses.replace(trace, runs=add_trace("cpu").runs)
    benches = tuple(dataclasses.replace(b, metric=None) for b in trace.runs.benches)
    trace = dataclasses.replace(trace, runs=dataclasses.replace(trace.runs, benches=benches))
    assert numbers.metric_of(trace) == "tflops"


def test_throughput_plot_shows_what_went_wrong() -> None:
    figure = plots.throughput_figure(add_trace("cpu"))
    axes = figure.axes[0]
    words = [text.get_text() for text in axes.texts]
    assert "wrong result" in words
    assert {"add", "torch"} <= set(words)
    assert "copy 20 (measured)" in words
    assert axes.get_xscale() == "log"
    assert axes.get_ylim()[0] == 0
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["triton: not installed"]
    own = axes.containers[0].lines[0].get_xdata()
    assert 2**14 not in own  # the wrong point is no part of the line


def test_names_with_dollars_are_not_formulas() -> None:
    trace = add_trace("cpu")
    renamed = tuple(dataclasses.replace(b, name=b.name + r" $\x$") for b in trace.runs.benches)
    runs = dataclasses.replace(trace.runs, benches=renamed)
    assert plots.png(plots.throughput_figure(dataclasses.replace(trace, runs=runs)))


def test_text_axes_are_categories() -> None:
    trace = add_trace("cpu")
    benches = tuple(dataclasses.replace(b, x=tuple(map(str, b.x))) for b in trace.runs.benches)
    runs = dataclasses.replace(trace.runs, benches=benches)
    figure = plots.throughput_figure(dataclasses.replace(trace, runs=runs))
    assert figure.axes[0].get_xscale() == "linear"


def test_roofline_needs_work_counts() -> None:
    figure = plots.roofline_figure(add_trace("cpu"))
    assert figure.axes[0].get_xlabel() == "FLOP/B"
    with pytest.raises(ValueError, match="no roofline"):
        plots.roofline_figure(dataclasses.replace(add_trace("cpu"), runs=Runs()))
