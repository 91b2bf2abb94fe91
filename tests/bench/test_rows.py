"""What rows say of two timings, and what a results file keeps."""

from __future__ import annotations

import json

import pytest

from tests.bench.rows import compared, limited, row, save, steady, table
from workbench.runtime.timing import Timed, Timing


def timing(*rounds: float, timed: Timed = "cold") -> Timing:
    found = Timing()
    for milliseconds in rounds:
        found.add_round(Timing([milliseconds], timed=timed))
    return found


def plain(ours, theirs, baseline="triton"):
    return row("sums", "sum 8", "fp32", 8, ours, baseline, theirs)


def test_a_row_keeps_the_ratio_of_each_round():
    ours, theirs = timing(0.02, 0.03), timing(0.04, 0.061)
    found = compared(plain(25, 50.5), ours, theirs)
    assert found.rounds == (2.0, pytest.approx(2.0333, abs=1e-4))
    assert found.timed == "cold"
    assert not found.unsteady
    assert compared(plain(25, 50.5), ours, timing(0.04, 0.063)).unsteady


def test_a_row_is_host_where_either_time_is():
    assert compared(plain(1, 2), timing(1, 1), timing(2, 2, timed="host")).timed == "host"
    assert compared(plain(1, 2), timing(1, 1, timed="host"), timing(2, 2)).timed == "host"


def test_a_limit_is_compared_with_one_time():
    found = limited(plain(25, 20, "roofline"), timing(0.02, 0.03))
    assert found.unsteady
    assert found.rounds == (20.0, 30.0)


def test_numbers_of_rounds_are_timings():
    ours, theirs = steady([(4.0, 8.0), (5.0, 10.0)])
    assert ours.rounds == pytest.approx((0.004, 0.005))
    assert not compared(plain(4.5, 9), ours, theirs).unsteady


def test_suites_that_were_not_run_again_are_kept(tmp_path):
    file = tmp_path / "chip.json"
    old = {"suite": "others", "case": "x", "dtype": "fp32", "size": 1, "ours_us": 1.0,
           "baseline": "torch", "baseline_us": None, "ratio": None}  # fmt: skip
    file.write_text(json.dumps({"machine": "chip", "versions": {}, "date": "", "rows": [old]}))
    save(file, "chip", [compared(plain(1, 2), timing(1, 1), timing(2, 2))])
    kept, new = json.loads(file.read_text())["rows"]
    assert kept == old
    assert (new["timed"], new["unsteady"], new["rounds"]) == ("cold", False, [2.0, 2.0])


def test_the_table_marks_what_is_unsteady_and_how_it_was_timed():
    text = table([compared(plain(1, 2), timing(1, 1), timing(2, 3)), plain(1, None)])
    assert text.splitlines()[1].endswith("2.00~ cold")
