"""The README's tables say what the committed results say."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.bench import figures, render


def result(suite, case, ours, baseline="torch", theirs=None, **more):
    ratio = None if theirs is None else theirs / ours
    return {"suite": suite, "case": case, "dtype": "fp32", "size": 8, "ours_us": ours,
            "baseline": baseline, "baseline_us": theirs, "ratio": ratio, **more}  # fmt: skip


def test_the_readme_and_the_notebooks_are_what_the_results_say():
    assert render.main(["--check"]) == 0


def test_a_notebook_gets_the_numbers_of_new_results(tmp_path, monkeypatch, capsys):
    results = json.loads(figures.RESULTS.read_text())
    rows = [r for r in results["rows"] if r["case"] == "int4 8192x28672" and r["size"] == 16]
    old = f"{rows[0]['ours_us']:.1f}"
    for row in rows:
        row["ours_us"] = 61.25
    monkeypatch.setattr(figures, "RESULTS", tmp_path / "h200.json")
    figures.RESULTS.write_text(json.dumps(results))
    for name in figures.CELLS:
        shutil.copy(figures.NOTEBOOKS / f"{name}.ipynb", tmp_path)
    monkeypatch.setattr(figures, "NOTEBOOKS", tmp_path)
    assert render.main(["--check"]) == 1
    assert capsys.readouterr().out.startswith("09-quantised-matmul.ipynb is older")
    assert figures.stale(write=True) == ["09-quantised-matmul.ipynb"]
    assert figures.stale(write=False) == []
    text = (tmp_path / "09-quantised-matmul.ipynb").read_text()
    before = (Path(render.ROOT) / "notebooks" / "09-quantised-matmul.ipynb").read_text()
    changed = [pair for pair in zip(before.split("\n"), text.split("\n"), strict=True)
               if pair[0] != pair[1]]  # fmt: skip
    assert [(old in a, "61.2" in b) for a, b in changed] == [(True, True)]


def test_a_suite_is_one_row_with_its_means(tmp_path):
    rows = [
        result("row_sums", "sum 8x8", 2.0, "triton", 1.0),
        result("row_sums", "sum 9x8", 2.0, "triton", 4.0),
        result("row_sums", "sum 8x8", 2.0, "cublas", 6.0),
        result("compile", "sum, cold", 1500.0),
    ]
    data = {"machine": "a chip", "versions": {"torch": "2"}, "date": "2026-01-01", "rows": rows}
    (tmp_path / "chip.json").write_text(json.dumps(data))
    lines = render.rendered(tmp_path).splitlines()
    assert lines[0] == "**a chip** (2026-01-01; torch 2)"
    assert "| row sums | sum | fp32 | 2 | 1.00 (0.50) | 3.00 |" in lines
    assert "| sum, cold | 1.5 |" in lines


def test_many_times_are_summed_up(tmp_path):
    rows = [result("corpus_compile", f"k{i}", 1000.0 * i) for i in range(1, 12)]
    data = {"machine": "a chip", "versions": {}, "date": "2026-01-01", "rows": rows}
    (tmp_path / "chip.json").write_text(json.dumps(data))
    text = render.rendered(tmp_path)
    assert "| corpus compile: 11 kernels, cold to PTX | median 6, longest 11 (k11) |" in text


def rendered(tmp_path, rows):
    data = {"machine": "a chip", "versions": {}, "date": "2026-01-01", "rows": rows}
    (tmp_path / "chip.json").write_text(json.dumps(data))
    return render.rendered(tmp_path).splitlines()


def test_host_and_unsteady_rows_are_in_no_mean(tmp_path):
    lines = rendered(tmp_path, [
        result("row_sums", "sum 8x8", 1.0, "triton", 2.0, timed="cold"),
        result("row_sums", "sum 8x8", 1.0, "torch", 9.0, timed="host"),
        result("row_sums", "sum 9x8", 1.0, "triton", 7.0, timed="cold", unsteady=True),
        result("row_sums", "sum 9x8", 1.0, "roofline", 0.5, timed="cold"),
    ])  # fmt: skip
    assert (
        "| suite | kernels | types | cases | ÷ triton | ÷ torch, cuBLAS | ÷ roofline " in lines[2]
    )
    assert "| row sums | sum | fp32 | 2 | 2.00 |  | 0.50 | 1 host, 1 unsteady |" in lines


def test_a_suite_of_the_host_stands_apart(tmp_path):
    lines = rendered(tmp_path, [
        result("launch", "3 tensors", 3.0, "torch", 4.5, timed="host"),
        result("launch", "3 tensors", 3.0, "triton", 9.0, timed="host", unsteady=True),
    ])  # fmt: skip
    assert "| launch: 3 tensors | 3.00 | ÷ torch 1.50, ÷ triton 3.00 (unsteady) |" in lines


def test_contests_say_how_fast_they_are(tmp_path):
    more = {"timed": "cold", "config": "64x64x64 w4 s3", "flops": 2 * 10**9}
    lines = rendered(tmp_path, [
        result("matmul_nt", "nt", 4.0, "cublas", 2.0, **more),
        result("matmul_nt", "nt", 4.0, "triton", 6.0, **more, unsteady=True),
        {**result("matmul_nt", "nt", 2.0, "cublas", 2.0, **more), "size": 4},
    ])  # fmt: skip
    assert "| matmul nt, nt | fp32 | 4: 1000 (1.00, –) · 8: 500 (0.50, 1.50~) |" in lines


def test_the_readme_has_contests_of_all_machines_and_sums_up_the_rest(tmp_path):
    more = {"timed": "cold", "config": "64x64x64 w4 s3", "flops": 10**9}
    newest = [
        result("matmul_nt", "nt", 4.0, "cublas", 2.0, **more),
        {**result("matmul_nt", "nt", 2.0, "cublas", 4.0, **more), "size": 4},
        result("matmul_nt", "nt", 4.0, "triton", 6.0, **more, unsteady=True),
        result("unnamed_contest", "c", 4.0, "triton", 6.0, **more),
        result("ladder", "step", 4.0, "cublas", 1.0, **more),
        result("row_sums", "sum 8x8", 2.0, "torch", 8.0),
        result("sorts", "sort 8", 2.0, "torch", 1.0),
        result("launch", "3 tensors", 3.0, "torch", 30.0, timed="host"),
        result("compile", "sum, cold", 1500.0),
    ]
    for name, date, rows in (
        ("old", "2026-01-01", [result("matmul_nn", "nn", 1.0, "cublas", 1.0, **more)]),
        ("chip", "2026-01-02", newest),
        ("host", "2026-01-03", [result("row_sums", "sum 8x8", 2.0, "torch", 8.0)]),
    ):
        machine = {"old": "NVIDIA A100", "chip": "NVIDIA B100 80GB"}.get(name, f"a {name}")
        data = {"machine": machine, "versions": {}, "date": date, "rows": rows}
        (tmp_path / f"{name}.json").write_text(json.dumps(data))
    beside = ["÷ cuBLAS, cuDNN, torch", "÷ Triton"]
    heads = [f"{machine}: {what}" for machine in ("B100", "A100") for what in beside]
    assert render.summary(tmp_path).splitlines() == [
        "**NVIDIA B100 80GB**, 2026-01-02; **NVIDIA A100**, 2026-01-01",
        "",
        f"| work | cases | {' | '.join(heads)} |",
        "|---|---|---|---|---|---|",
        "| A @ B.T | 2 | 1.00 (0.50) |  |  |  |",
        "| unnamed contest | 1 |  | 1.50 |  |  |",
        "| A @ B, fp16 and bf16, 512 to 16384 | 1 |  |  | 1.00 |  |",
        "| 2 suites of other kernels, most of them bound by memory | 2 | 1.41 (0.50 sort)"
        " |  |  |  |",
    ]
    (tmp_path / "old.json").unlink()
    assert render.summary(tmp_path).splitlines()[:3] == [
        "**NVIDIA B100 80GB**, 2026-01-02",
        "",
        f"| work | cases | {' | '.join(beside)} |",
    ]
    machines = [line for line in render.rendered(tmp_path).splitlines() if line.startswith("**")]
    assert [line.split("**")[1] for line in machines] == ["a host", "NVIDIA B100 80GB"]


def test_each_contest_that_is_kept_has_a_title_for_the_readme():
    names = {
        row["suite"]
        for path in render.RESULTS.glob("*.json")
        for row in json.loads(path.read_text())["rows"]
        if row.get("config")
    }
    assert names - render.LADDERS <= render.TITLES.keys()
