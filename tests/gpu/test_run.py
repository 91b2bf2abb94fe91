"""`make gpu` says what did not run, and needs no package that a bare machine lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu import run
from tests.gpu.report import Report

PARTLY = """
import pytest

def test_good():
    pass

def test_bad():
    assert 1 == 2

def test_here():
    pytest.skip("no CUDA device")

def test_elsewhere():
    pytest.skip("needs Windows")

@pytest.fixture
def broken():
    raise OSError("no such file")

def test_fixture(broken):
    pass
"""


def report_of(tmp_path, **files):
    """Run pytest on some files of their own; return the report of one group, and its counts."""
    for name, text in files.items():
        (tmp_path / f"test_{name}.py").write_text(text)
    junit = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path),
               "--continue-on-collection-errors", f"--junitxml={junit}",
               "--rootdir", str(tmp_path)]  # fmt: skip
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run(command, cwd=tmp_path, capture_output=True, env=environment)
    report = Report()
    return report, report.read_tests("group", [junit])


def test_failures_and_what_did_not_run_are_named(tmp_path):
    report, counts = report_of(tmp_path, partly=PARTLY, lost="import no_such_package\n")
    assert set(counts.split(", ")) == {
        "1 passed", "2 failed", "2 skipped", "1 not collected"
    }  # fmt: skip
    assert [line.split("::")[-1].split(":")[0] for line in report.failed] == [
        "test_bad", "test_fixture"
    ]  # fmt: skip
    assert any("no_such_package" in line for line in report.missing)
    assert any("no CUDA device" in line for line in report.missing)
    assert report.skipped == {"group: needs Windows": 1}
    assert report.finish() == 1


def test_a_group_without_tests_did_not_run(tmp_path):
    report, counts = report_of(tmp_path, empty="x = 1\n")
    assert counts == "no test ran"
    assert report.missing == ["group: no test ran"]
    assert report.finish() == 1


def test_what_passes_is_counted(tmp_path):
    report, counts = report_of(tmp_path, good="def test_a(): pass\ndef test_b(): pass\n")
    assert counts == "2 passed"
    assert report.finish() == 0


def test_a_run_without_a_report_is_missing():
    report = Report()
    assert report.read_tests("group", ["No module named pytest"]) == "no test ran"
    assert any("No module named pytest" in line for line in report.missing)


def test_a_part_that_raises_did_not_run(capsys):
    def part(report):
        raise RuntimeError("a suite that raised")

    report = Report()
    report.part("fuzz", part)
    assert report.missing == ["fuzz: raised RuntimeError: a suite that raised"]
    assert report.finish() == 1
    assert "DID NOT RUN fuzz: raised" in capsys.readouterr().out


def test_a_part_that_is_not_known_is_refused(monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert run.main(["tests", "nonsense"]) == 2
    assert "unknown parts nonsense" in capsys.readouterr().out


def test_shares_have_every_test_once():
    found: list[str] = []
    for number in (1, 2):
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider",
                   "tests/bench/test_render.py", f"--share={number}/2"]  # fmt: skip
        text = subprocess.run(command, cwd=run.ROOT, capture_output=True, text=True).stdout
        share = [line for line in text.splitlines() if "::" in line]
        assert share
        found += share
    from tests.bench import test_render

    assert len(found) == len(set(found))
    assert len(found) == sum(name.startswith("test_") for name in vars(test_render))


HELPER = """
import pytest
PLACES = ("here", pytest.param("there", marks=pytest.mark.gpu))
BOTH = [*PLACES, "elsewhere"]
def run_on(place): ...
"""


def test_files_are_those_that_mark_tests_themselves_or_by_what_they_import(tmp_path, monkeypatch):
    folder = tmp_path / "tests" / "some"
    folder.mkdir(parents=True)
    texts = {
        "helper": HELPER,
        "test_own": "import pytest\n@pytest.mark.gpu\ndef test(): pass\n",
        "test_given": "from tests.some.helper import BOTH\n",
        "test_other": "from tests.some.helper import run_on\n",
    }
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "TESTS", tmp_path / "tests")
    found = run.marked_files()
    assert {key: [path.stem for path in paths] for key, paths in found.items()} == {
        "tests/some": ["test_given", "test_own"]
    }


def test_what_measures_time_runs_alone_and_last(monkeypatch):
    files = {
        "gpu": {"one": [Path("a"), Path("b")], "two": [Path("c")], "three": [Path("d")]},
        "alone": {"one": [Path("b")], "three": [Path("d")]},
    }
    ran: list[tuple[str, list[str]]] = []

    def pytest_of(report, *, group, arguments, shares):
        ran.append((group, arguments[:-2]))
        assert arguments[-2:] == ["-m", "gpu"]
        return "1 passed"

    monkeypatch.setattr(run, "run_pytest", pytest_of)
    monkeypatch.setattr(run, "marked_files", lambda marker="gpu": files[marker])
    run.run_marked(Report())
    assert sorted(ran[:2]) == [("one", ["a"]), ("two", ["c"])]
    assert ran[2:] == [("one", ["b"]), ("three", ["d"])]


@pytest.mark.slow
def test_nothing_that_needs_a_gpu_needs_more_than_a_bare_machine_has():
    files = [str(path) for group in run.marked_files().values() for path in group]
    assert len(files) >= 5
    code = (
        "import tests.gpu.bare, tests.gpu.run, tests.gpu.cases, tests.gpu.notebooks, tests.gpu.fuzz"
        ", tests.fuzz.run, tests.fuzz.batch, tests.bench.gpu, tests.bench.compare\n"
        "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    )
    collect = ["--collect-only", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(run.ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code, *collect, *files, "tests/language", "tests/files"],
        cwd=run.ROOT, capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
