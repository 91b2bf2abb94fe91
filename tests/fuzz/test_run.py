"""A run of the fuzz outlives its cases and its own end."""

from __future__ import annotations

import json

import pytest

from tests.fuzz import run as fuzz
from tests.fuzz.children import answers
from tests.fuzz.progress import Progress, ranges

CHILD = """
import os, sys, time
sys.path.insert(0, {root!r})
from tests.fuzz.children import serve

def answer(case, report):
    print("what a case prints is no answer")
    if case["seed"] == 2:
        sys.exit("no more")
    if case["seed"] == 3:
        time.sleep(60)
    if case["seed"] == 4:
        for _ in range(4):
            time.sleep(0.5)
            report("still here")
    failure = dict(seed=5, said="wrong", lines=1, kept="") if case["seed"] == 5 else None
    return dict(outcome="", failure=failure, stops=case["seed"] == 5, process=os.getpid())

serve(answer)
"""


@pytest.fixture
def child(tmp_path, monkeypatch):
    """Put a child in the place of the one that runs programs; it is silent for a second at most."""
    from tests.fuzz.children import ROOT

    (tmp_path / "child.py").write_text(CHILD.format(root=str(ROOT)))
    monkeypatch.setattr("tests.fuzz.children.ROOT", tmp_path)
    monkeypatch.setattr("tests.fuzz.children.STARTING", 30.0)
    monkeypatch.setattr(fuzz, "COMMAND", ("child",))
    monkeypatch.setattr(fuzz, "PATIENCE", 1.2)
    monkeypatch.setattr("tests.fuzz.progress.code", lambda: "1234")


def test_what_ends_or_hangs_is_an_answer_and_the_rest_is_run(child):
    said = list(answers(["child"], [{"seed": seed} for seed in (1, 2, 4, 6, 3, 7, 5, 8)], 1.2))
    assert [row["seed"] for row in said] == [1, 2, 4, 6, 3, 7, 5, 8]
    ended = {row["seed"]: row["ended"] for row in said if "ended" in row}
    assert ended == {2: "the process ended with 1: no more", 3: "the process hangs"}
    processes = {row["seed"]: row["process"] for row in said if "process" in row}
    assert processes[4] == processes[6]
    # After an end, a hang and a lost device there is a new process.
    assert len({processes[seed] for seed in (1, 4, 7, 8)}) == 4


def test_a_run_goes_on_where_it_ended(child, tmp_path):
    path = tmp_path / "state.json"

    def run(count: int, **options: object) -> int:
        return fuzz.Run({"programs": count, "sources": 1}, 4, ("cpu",), 2,
                        progress=Progress(path), **options).go()  # fmt: skip

    assert run(4) == 1
    first = {part.kind: part for part in Progress(path)}
    assert first["programs"].seeds == {4, 5, 6, 7}
    assert [failure["seed"] for failure in first["programs"].failures] == [5]
    assert first["sources"].seeds == {4}
    # No seed is run twice, and a limit leaves the rest for the next time.
    assert run(6, seconds=0.0) == 1
    assert Progress(path).parts == Progress(path).parts
    assert next(iter(Progress(path))).seeds == {4, 5, 6, 7}
    assert run(6) == 1
    part = next(iter(Progress(path)))
    assert part.seeds == set(range(4, 10))
    assert json.loads(path.read_text())["parts"][0]["seeds"] == [[4, 9]]
    assert "6 run, 1 failed" in part.line()


def test_other_code_starts_anew(tmp_path, monkeypatch):
    progress = Progress(tmp_path / "state.json")
    answer = {"outcome": "", "failure": None}
    for code, seeds in (("a", (1, 2)), ("b", (2,))):
        monkeypatch.setattr("tests.fuzz.progress.code", lambda code=code: code)
        for seed in seeds:
            progress.part("programs", "cpu", "here").add(seed, answer, 0.5)
    progress.save()
    again = Progress(tmp_path / "state.json")
    assert [(part.code, part.seeds) for part in again] == [("a", {1, 2}), ("b", {2})]
    again.merge(progress)
    assert [(part.seeds, part.seconds) for part in again] == [({1, 2}, 1.0), ({2}, 0.5)]


def test_ranges_are_unbroken_runs():
    assert ranges([5, 1, 2, 3, 9]) == [[1, 3], [5, 5], [9, 9]]
