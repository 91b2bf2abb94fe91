"""Sweeps: points, columns, baselines that cannot run; nothing here judges times."""

from __future__ import annotations

import numpy as np
import pytest

from tests.bench_room.test_check import subject
from workbench.bench.baselines import Competitor, expression_call, is_product, known_call
from workbench.bench.checking import check_launch
from workbench.bench.sweep import Point, counted_work, points_of, time_points
from workbench.runtime.timing import Effort
from workbench.source import OptionError

QUICK = Effort(warm_up=0.0, milliseconds=0.0, runs=3)


def nothing(case):
    return ()


def test_axes_zip_and_cross():
    axes = {"M": [1, 2], "N": [3, 4]}
    assert points_of(axes, crossed=False) == [{"M": 1, "N": 3}, {"M": 2, "N": 4}]
    assert len(points_of(axes, crossed=True)) == 4


def test_axes_of_unequal_length_are_k116():
    with pytest.raises(OptionError, match="--x N: 3 values, --x M: 1 values; axes zip") as caught:
        points_of({"N": [1, 2, 3], "M": [4]}, crossed=False)
    assert caught.value.code == "K116"
    assert caught.value.hint == "add --x-grid to cross them"


def test_every_point_has_a_time_work_and_a_verdict():
    cases = [subject(grid=(3,), n=7), subject(grid=(3,), n=8)]
    points = [Point({"n": case.arguments["n"]}, lambda case=case: case) for case in cases]
    benches, verdicts = time_points(
        points,
        lambda case: [
            expression_call("numpy", "np.add(x, y)", {"np": np}, case),
            Competitor("triton", error="not installed"),
        ],
        lambda case: check_launch(case, lambda names: names["x"] + names["y"], "x + y"),
        lambda case, x: counted_work(case),
        name="add",
        gpu=False,
        effort=QUICK,
    )
    own, peer, missing = benches
    assert (own.name, own.kind, own.axis, own.x) == ("add", "self", "n", (7, 8))
    assert own.ok == (True, True)
    assert own.bytes == (3 * 4 * 7, 3 * 4 * 8)
    assert own.metric == "gbps"
    assert own.timed == peer.timed == ("hot", "hot")  # nothing flushes a CPU's caches
    assert len(own.unsteady) == len(peer.unsteady) == 2
    assert peer.x == (7, 8)
    assert all(times[3] >= 3 for times in peer.milliseconds)
    assert missing.error == "not installed"
    assert missing.x == ()
    assert len(verdicts) == 2


def test_wrong_points_are_timed_and_marked():
    case = subject(grid=(1,))
    benches, verdicts = time_points(
        [Point({"n": 7}, lambda: case)], nothing,
        lambda case: check_launch(case, lambda names: names["x"] + names["y"], "x + y"),
        lambda case, x: (None, None), name="add", gpu=False, effort=QUICK,
    )  # fmt: skip
    assert benches[0].ok == (False,)
    assert not verdicts[0].ok


def test_a_baseline_that_raises_is_skipped_with_its_reason():
    found = expression_call("bad", "x @ nowhere", {}, subject())
    assert found.call is None
    assert found.error == "NameError: name 'nowhere' is not defined"


@pytest.mark.parametrize(
    ("word", "check", "reason"),
    [
        ("torch", None, "--baseline torch needs --check with an expression"),
        ("cublas", "x + y", "the --check expression is no matrix product"),
        ("cublas", "x @ y", "runs on a GPU only"),
        ("self", None, "no earlier result of this kernel"),
    ],
)
def test_known_words_say_why_they_cannot_run(word, check, reason):
    found = known_call(word, check, {}, subject(), lambda case: None)
    assert found.call is None
    assert found.error == reason


@pytest.mark.parametrize(
    ("text", "product"),
    [("a @ b", True), ("torch.mm(a, b)", True), ("leaky_relu(a @ b)", True), ("a + b", False),
     ("a matmul", False)],
)  # fmt: skip
def test_products_are_recognised(text, product):
    assert is_product(text) is product
