"""What becomes of a measured case: rows, host marks, and what is missing. Needs a GPU for times."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.bench import cases, compare, contests, gpu
from tests.bench.cases import Case
from tests.bench.gpu import Missing, measured, rows_of
from tests.corpus.sample import F32, Maker
from tests.kernels import vector_add
from workbench.runtime.timing import Timed, Timing

needs_device = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def add_case(torch_call=None, **more):
    def build(make):
        problem = cases._add(make, 4096)
        return problem if torch_call is None else replace(problem, torch=torch_call)

    return Case("vector_add", "add", F32, 4096, vector_add, build, peer=False, **more)


def timing(*rounds: float, timed: Timed = "cold") -> Timing:
    found = Timing()
    for milliseconds in rounds:
        found.add_round(Timing([milliseconds], timed=timed))
    return found


def test_every_baseline_that_was_timed_has_a_row(monkeypatch):
    monkeypatch.setattr(gpu, "roofline", lambda moved, flops, operand: moved / 4.8e9)
    case = add_case()
    problem = case.build(Maker(F32))
    rows = rows_of(case, problem, {
        "ours": timing(0.02, 0.02), "torch": timing(0.04, 0.04, timed="host"),
        "copy": timing(0.01, 0.011),
    })  # fmt: skip
    assert [(r.baseline, r.timed, r.unsteady) for r in rows] == [
        ("torch", "host", False), ("copy", "cold", True), ("roofline", "cold", False)
    ]  # fmt: skip
    assert {r.bytes for r in rows} == {3 * 4096 * 4}
    assert rows[2].baseline_us == pytest.approx(3 * 4096 * 4 / 4.8e9 * 1e3, abs=1e-3)


def test_a_baseline_that_fails_is_missing(monkeypatch):
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)

    def bad():
        raise ValueError("no such function\nin this version")

    missing = Missing()
    found = gpu.tried(add_case(), {"ours": lambda: None, "triton": bad}, missing)
    assert list(found) == ["ours"]
    assert missing == ["vector_add add fp32: triton: ValueError: no such function"]


def test_every_suite_has_cases():
    raced = contests.suites()
    assert set(gpu.SUITES) == {*cases.SUITES, "launch", *raced, "compile", *gpu.INDUCTOR}
    assert not set(raced) & set(cases.SUITES)
    names = [(case.suite, case.name, case.word, case.size) for case in cases.ALL]
    assert len(names) == len(set(names))


@pytest.mark.gpu
@pytest.mark.alone
@needs_device
def test_a_case_on_the_device():
    x = torch.randn(1 << 20, device="cuda")
    missing = Missing()
    rows = {r.baseline: r for r in measured([add_case(lambda: x.sum().item())], missing)}
    assert not missing
    assert rows["torch"].timed == "host"
    assert rows["copy"].timed == "cold"
    assert len(rows["copy"].rounds) == 2


@pytest.mark.gpu
@pytest.mark.alone
@needs_device
def test_two_trees_on_the_device(tmp_path, capsys):
    out = tmp_path / "rows.json"
    compare.main([str(compare.ROOT), "relu2", "--minutes", "2", "--out", str(out)])
    said = capsys.readouterr().out
    assert "0 of 2 rows missing" in said
    assert "0 of 2 rows host" in said
