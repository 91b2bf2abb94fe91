"""Comparing two trees: who is told what when, and what the verdict is. No time is judged here."""

from __future__ import annotations

import sys
from contextlib import contextmanager

import pytest

from tests.bench import cases as gpu_cases
from tests.bench import compare
from tests.bench.compare import (
    BATCHES,
    Compared,
    EndedError,
    OrderError,
    again,
    compare_case,
    lasting,
    summary,
)
from tests.bench.serving import clock

CASES = gpu_cases.all_cases(small=True)[:3]


def tree(name, times, log, timed="cold"):
    """Return what answers orders like a process whose rounds take these times."""
    left = list(times)

    def order(what, **named):
        log.append((name, what))
        if what == "record":
            left.append(left.pop(0))  # the next round's time is at the end
            return {"timed": timed}
        if what == "sample":
            return {"samples": [left[-1]] * 5}
        return {}

    return order


def test_batches_alternate_and_so_does_who_begins():
    log = []
    compare_case(CASES[0], 0, tree("a", [1, 1], log), tree("b", [1, 1], log))
    assert log[:2] == [("a", "build"), ("b", "build")]
    samples = [name for name, what in log if what == "sample"]
    assert samples == ["a", "b"] * BATCHES + ["b", "a"] * BATCHES
    assert [what for name, what in log if name == "a"].count("record") == 2
    assert log[-2:] == [("a", "drop"), ("b", "drop")]


@pytest.mark.parametrize(
    ("other", "this", "slower", "unsteady"),
    [
        ([20, 20], [20.5, 20.5], False, False),
        ([20, 20], [20.7, 20.7], True, False),
        ([5, 5], [5.25, 5.25], False, False),  # 5 % of less than 10 us
        ([5, 5], [5.35, 5.35], True, False),
        ([20, 20], [20, 21], False, True),
        ([20, 30], [20, 30], False, False),  # both drift
    ],
)
def test_verdicts(other, this, slower, unsteady):
    row = compare_case(CASES[0], 0, tree("a", other, []), tree("b", this, []))
    assert (row.slower, row.unsteady) == (slower, unsteady)


def test_a_tree_that_cannot_build_is_named():
    def broken(what, **named):
        if what == "build":
            raise OrderError("KernelError: no")
        return {}

    row = compare_case(CASES[0], 0, broken, tree("b", [1, 1], []))
    assert row.why == "other tree: KernelError: no"
    words, status = summary([row])
    assert status == 1
    assert "1 of 1 rows missing" in words


def test_a_process_that_a_case_ended_is_started_again():
    started, log = [], []

    @contextmanager
    def start():
        started.append(1)

        def order(what, **named):
            log.append((what, *named.values()))
            if named.get("case") == 1:
                raise EndedError("the process ended")
            return {"bytes": 0}

        yield order

    with lasting(start) as order:
        order("build", case=0)
        with pytest.raises(EndedError):
            order("build", case=1)  # tried twice: the case before could have ended it
        assert order("drop") == {}
        assert order("build", case=2) == {"bytes": 0}
    assert log == [("build", 0), ("build", 1), ("build", 1), ("build", 2)]
    assert len(started) == 3


def test_host_rows_are_in_no_verdict():
    row = compare_case(CASES[0], 0, tree("a", [1, 1], []), tree("b", [9, 9], [], timed="host"))
    assert row.timed == "host"
    assert not row.slower
    assert summary([row])[1] == 0


def row_of(number, other=20.0, this=20.0, **more):
    case = CASES[number]
    return Compared(case.suite, case.name, case.word, other, this, (this / other,) * 2, "cold",
                    **more)  # fmt: skip


def test_what_is_slower_is_measured_again_and_the_second_time_counts():
    asked, told = [], []

    def measure(number, rounds):
        asked.append((number, rounds))
        return row_of(number, this=25.0 if rounds == 2 and number == 1 else 20.0)

    found = list(again(CASES, [0, 1, 2], measure, {}, lambda: False, told.append))
    assert asked == [(0, 2), (1, 2), (2, 2), (1, 4)]
    assert found == told
    assert [row.case for row in found] == [CASES[n].name for n in (0, 2, 1)]
    assert not any(row.slower for row in found)


def test_known_rows_are_kept_and_late_ones_are_missing():
    known = {row.key: row for row in [row_of(0)]}
    found = list(again(CASES, [0, 1], row_of, known, lambda: True, lambda row: None))
    assert found[0] == row_of(0)
    assert found[1].why == "not measured: out of time"


def test_the_table_and_the_verdict_name_what_is_slower():
    rows = [row_of(0), row_of(1, this=30.0)]
    assert "SLOWER" in compare.table(rows).splitlines()[2]
    words, status = summary(rows)
    assert status == 1
    assert "1 of 2 rows slower than allowed" in words
    assert "geometric mean of 2 ratios: 1.2247" in words


def test_the_clock_of_one_tree_stands_beside_the_package_of_another():
    before = {name: sys.modules.get(name) for name in
              ("workbench.runtime.timing", "workbench.runtime.device_clock")}  # fmt: skip
    timing, device_clock = clock(compare.ROOT / "workbench" / "runtime")
    assert timing is not before["workbench.runtime.timing"]
    assert device_clock.Timing is timing.Timing
    assert {name: sys.modules.get(name) for name in before} == before


def test_an_unknown_suite_or_tree_is_refused(tmp_path, capsys):
    assert compare.main([str(compare.ROOT), "nonsense"]) == 2
    assert compare.main([str(tmp_path)]) == 2
    assert "no workbench in" in capsys.readouterr().out


@pytest.mark.slow
def test_a_tree_beside_itself_on_the_cpu(tmp_path, capsys):
    out = tmp_path / "rows.json"
    compare.main([str(compare.ROOT), "relu2", "--cpu", "--out", str(out)])
    said = capsys.readouterr().out
    assert f"other package: {compare.ROOT}" in said
    assert "0 of 1 rows missing" in said
    compare.main([str(compare.ROOT), "relu2", "--cpu", "--out", str(out)])
    said = capsys.readouterr().out
    assert "0 of 1 rows missing" in said  # the row is there already
    assert "package:" not in said  # and no process was started for it
