"""`%whatif`: squares are what the compiler gives, times rank them, a Stop keeps what is there."""

from __future__ import annotations

import itertools
import json
import re
import signal
import sys
import threading
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import torch

import workbench as wb
from tests.bench import whatif as stored
from tests.bench.contests import Tensors
from tests.bench.tuned import problems
from tests.corpus.sample import jitted
from workbench import interrupts, run_cell
from workbench.cli import main
from workbench.compiler import CHIPS
from workbench.ir import parse_module
from workbench.magics import registry, sweeping
from workbench.magics.grammar import parse
from workbench.questions import whatif
from workbench.questions.predicting import (
    BARRIER,
    LATENCY,
    MOVES,
    START,
    TURN,
    Facts,
    _queue,
    predict,
    units_of,
)
from workbench.questions.workload import Products, Work, workload
from workbench.source import OptionError
from workbench.targets.nvidia.chip import chip
from workbench.targets.nvidia.speeds import speeds
from workbench.tuning import workers

ADD = """
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask), mask)
"""
LINE = '--args x,y,out,n --grid "cdiv(n, BLOCK)" --set BLOCK=128 --target cpu'
AXES = "--axis BLOCK=128,1024 --axis warps=1,4"


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    monkeypatch.setenv("WORKBENCH_WORKERS", "0")
    registry.clear()
    whatif.forget()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may ignore it
    yield
    signal.signal(signal.SIGINT, before)
    registry.clear()


@pytest.fixture
def space():
    n = 1 << 16
    names = {"x": torch.ones(n), "y": torch.ones(n), "out": torch.zeros(n), "n": n}
    run_cell(ADD, LINE, names)
    return names


def ask(line, names, progress=None):
    return sweeping.whatif("add", parse("whatif", line, names), names, progress)


def test_squares_have_what_the_compiler_gives(space):
    found = ask(AXES, space)
    assert [square.values for square in found.squares] == [(128, 1), (128, 4), (1024, 1), (1024, 4)]
    for square in found.squares:
        made = space["add"].warmup(
            space["x"], space["y"], space["out"], space["n"], grid=square.grid, target="sm_90a",
            BLOCK=square.values[0], num_warps=square.values[1],
        ).launch  # fmt: skip
        assert square.facts is not None
        assert square.facts.registers == made.registers
        assert (square.facts.spill_bytes, square.facts.shared_bytes) == (0, made.shared_bytes)
        assert square.grid == (space["n"] // square.values[0], 1, 1)
    # Three arrays of 4-byte elements, each in sectors of 32 bytes; stores are one of them.
    assert found.squares[0].facts.work.sectors == 3 * 128 * 4 / 32
    assert found.squares[3].facts.work.stored_sectors == 1024 * 4 / 32
    assert not torch.any(space["out"] != 2)  # as the cell left it


def test_a_map_is_text_pictures_and_data(space):
    found = ask(AXES, space)
    text = sweeping.text_of(found)
    assert "predicted time (µs)\nBLOCK \\ num_warps" in text
    best = found.best
    assert f"best predicted: BLOCK={best.values[0]} num_warps={best.values[1]} with" in text
    pictures = re.findall(r"<svg.*?</svg>", sweeping.bundle(found)["text/html"], re.DOTALL)
    words = ["".join(ElementTree.fromstring(picture).itertext()) for picture in pictures]
    assert words[0].startswith("add for sm_90a: predicted time (µs)")
    assert "%diff add@sm_90a,BLOCK=128,num_warps=1 add@sm_90a,BLOCK=" in words[0]
    data = json.loads(sweeping.as_json(found))
    assert data["axes"] == {"BLOCK": [128, 1024], "num_warps": [1, 4]}
    assert data["squares"][0]["sectors"] == data["squares"][0]["conflicts"] == 1
    one = ask("--axis warps=1,4", space)
    assert whatif.table(one, whatif.MEASURES[1])[0] == ["num_warps", "1", "4"]


def test_what_a_square_names_is_something_to_compare(space):
    found = ask(AXES, space)
    _, one, other = found.comparison(found.squares[0]).split()
    told = sweeping.kernel_of("add", space)
    assert told[0] is space["add"]
    from workbench.magics.questioning import diff

    assert "registers" in diff(one, other, namespace=space).text
    fixed = ask("--axis BLOCK=128,1024 --set warps=8", space)
    assert fixed.spelled(fixed.squares[1]) == "add@sm_90a,num_warps=8,BLOCK=1024"


def test_squares_that_cannot_be_say_why(space):
    found = ask("--axis BLOCK=128,0 --axis num_warps=4", space)
    assert [square.state for square in found.squares] == ["ok", "failed"]
    assert "✗ BLOCK=0 num_warps=4: " in sweeping.text_of(found)
    assert json.loads(sweeping.as_json(found))["squares"][1]["reason"]


def test_a_stop_keeps_what_was_found(space):
    def stop(found):
        if sum(square.state == "ok" for square in found.squares) == 2 and not found.stopped:
            signal.raise_signal(signal.SIGINT)

    found = ask(AXES, space, stop)
    assert found.stopped
    assert [square.state for square in found.squares] == ["ok", "ok", "skipped", "skipped"]
    assert "2 of 4 squares" in sweeping.text_of(found)
    assert found.best is not None


def test_a_stop_at_any_moment_keeps_the_squares_there_are(space):
    def calls_of(stop_at=None):
        count, done = 0, []

        def look(frame, event, argument):
            nonlocal count
            if event == "call":
                count += 1
                if count == stop_at:
                    done.append(sum(s.state == "ok" for s in current[0].squares) if current else 0)
                    signal.raise_signal(signal.SIGINT)

        whatif.forget()
        current = []
        with interrupts.keeping():
            sys.setprofile(look)
            try:
                found = ask("--axis BLOCK=128,256", space, lambda found: current.append(found))
            finally:
                sys.setprofile(None)
        return found, count, done

    _, total, _ = calls_of()
    for moment in range(8):
        try:
            found, _, done = calls_of((2 * moment + 1) * total // 16)
        except KeyboardInterrupt:
            assert moment == 0, "only before the first square nothing is there to be kept"
            continue
        assert all(square.state != "waiting" for square in found.squares)
        assert sum(square.state == "ok" for square in found.squares) >= sum(done)
        assert sweeping.text_of(found)


def test_a_map_that_was_asked_for_comes_at_once(space, monkeypatch):
    first = ask(AXES, space)
    compiled = []
    monkeypatch.setattr(
        whatif, "compile_all", lambda plans, told, **more: compiled.extend(filter(None, plans))
    )
    again = ask(AXES, space)
    assert not compiled
    assert again.data()["squares"] == first.data()["squares"]


class Unspoken:
    def __repr__(self):
        raise AssertionError("what else a notebook holds is nobody's business here")


def test_a_map_depends_on_what_the_kernel_reaches_and_nothing_else(space, monkeypatch):
    helper = "ONE = tl.constexpr(1)\n\ndef plus(x, y):\n    return x * ONE + y\n\n"
    body = ADD.replace(
        "tl.load(x + offsets, mask=mask) + tl.load(y + offsets, mask=mask)",
        "plus(tl.load(x + offsets, mask=mask), tl.load(y + offsets, mask=mask))",
    )
    space["other"] = Unspoken()
    run_cell(helper + body, LINE, space)
    first = ask(AXES, space)
    asked = []
    monkeypatch.setattr(
        whatif, "compile_all", lambda plans, told, **more: asked.extend(filter(None, plans))
    )
    space["another"] = Unspoken()
    assert ask(AXES, space).data()["squares"] == first.data()["squares"]
    assert not asked
    run_cell(helper.replace("(1)", "(2)") + body, LINE, space)
    ask(AXES, space)
    assert len(asked) == 4


def test_workers_give_the_same_as_this_process(space, monkeypatch):
    here = ask(AXES, space)
    whatif.forget()
    monkeypatch.setenv("WORKBENCH_WORKERS", "1")
    assert ask(AXES, space).data()["squares"] == here.data()["squares"]


def test_without_a_launch_there_are_no_times():
    names = {"tl": wb.tl}
    run_cell(ADD, '--sig "*f32:16 *f32:16 *f32:16 i32:16" --set BLOCK=128 --target sm_80', names)
    found = ask("--axis BLOCK=128,256", names)
    assert found.target == "sm_80"
    assert found.best is None
    assert "no time is predicted without the launch" in sweeping.text_of(found)
    assert [square.facts.registers is not None for square in found.squares] == [True, True]


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("", "K121", "0 axes"),
        ("--axis BLOK=1,2", "K121", "no axis 'BLOK'; did you mean BLOCK?"),
        ("--axis BLOCK=64,128 --axis warps=1 --axis stages=1", "K121", "3 axes"),
        ("--axis BLOCK=1:2000:1", "K121", "2,000 squares"),
        ("--axis BLOCK=1:10**12", "K121", "'1:10**12' has more than 100,000 values"),
        ("--axis BLOCK=range(10**12)", "K121", "has more than 100,000 values"),
        ("--axis BLOCK=64 --check x", "K100", "unknown option '--check'"),
        ("--axis BLOCK=64 --no-cache", "K100", "unknown option '--no-cache'"),
        ("--axis BLOCK", "K121", "--axis takes NAME=VALUES"),
        ("--axis warps=1,2 --target cpu", "K114", "no model of the target cpu"),
    ],
)
def test_lines_that_are_no_map(space, line, code, said):
    with pytest.raises(OptionError, match=re.escape(said)) as caught:
        ask(line, space)
    assert caught.value.code == code


def test_every_option_is_an_axis_and_named_where_another_was_meant(space):
    with pytest.raises(OptionError) as caught:
        ask("--axis tna=True --axis warps=1", space)
    assert str(caught.value.message) == "no axis 'tna'; did you mean tma?"
    assert caught.value.hint.startswith("axes: BLOCK, warps, stages, ctas, maxnreg, ")


def test_one_square_is_compared_with_nothing(space):
    assert "compare" not in sweeping.text_of(ask("--axis BLOCK=128", space))


def test_a_kernel_whose_arguments_nobody_knows(space):
    registry.clear()
    fresh = wb.jit(space["add"].fn)
    with pytest.raises(OptionError) as caught:
        sweeping.whatif(fresh, parse("whatif", "--axis BLOCK=64", {}), {})
    assert caught.value.code == "K110"


def test_the_command_line_draws_a_map(tmp_path, capsys):
    path = tmp_path / "k.py"
    path.write_text(f"from workbench import tl\n{ADD}")
    line = ["whatif", f"{path}::add", "--sig", "*f32 *f32 *f32 i32", "--axis", "BLOCK=64,128"]
    assert main([*line, "--json"]) == 0
    assert [s["values"] for s in json.loads(capsys.readouterr().out)["squares"]] == [
        {"BLOCK": 64}, {"BLOCK": 128},
    ]  # fmt: skip
    path.write_text(path.read_text().replace("tl.load", "tl.laod"))
    assert main([*line, "--json"]) == 3  # nothing came of any square
    assert not json.loads(capsys.readouterr().out)["ok"]


# -- the model --------------------------------------------------------------------------------
LOOP = """
kernel @k(%p: ptr<f32>, %n: i32) {num_warps = 4, num_stages = 1} {
  %zero = tile.constant {value = 0, type = i32} : i32
  %one = tile.constant {value = 1, type = i32} : i32
  %pid = tile.program_id {axis = 0, type = i32} : i32
  %end = tile.add [%pid, %n] : i32
  %last = tile.for %zero, BOUND, %one, [%zero] {
  ^(%i: i32, %c: i32):
    %q = tile.add_pointer %p, %i : ptr<f32>
    %v = tile.load %q : f32
    tile.yield [%c]
  } : i32
  tile.return
}
"""


def test_loops_count_as_often_as_the_launch_says():
    def sectors(bound, integers, grid):
        module = parse_module(LOOP.replace("BOUND", bound))
        return workload(module, chip("sm_80"), grid, integers)

    assert sectors("%n", {"n": 7}, (100,)).requests == 7 * 4  # four warps
    assert sectors("%end", {"n": 10}, (4,)).requests == (10 + 11 + 12 + 13) / 4 * 4
    unknown = sectors("%n", {}, (1,))
    assert (unknown.requests, unknown.unknown) == (4, True)


def test_copies_count_the_same_whoever_makes_them():
    """By threads, as boxes of tensor maps, or as boxes by a producer's warps."""
    suite = next(c for c, _ in problems().values() if (c.suite, c.size) == ("matmul_nn", 1024))
    prepared = suite.prepare(Tensors("meta"))
    config = next(c for c in suite.configs if str(c).startswith("128x128"))
    launch = prepared.launch(config)
    types = [a.dtype if isinstance(a, torch.Tensor) else a for a in launch.arguments]
    kernel = jitted(launch.kernel)
    names = [p.name for p in kernel.kernel_source.parameters]
    integers = {n: v for n, v in zip(names, launch.arguments, strict=False) if isinstance(v, int)}
    found = [
        workload(
            kernel.warmup(*types, **launch.named, grid=launch.grid, target="sm_90a", **options)
            .compiled.built.gpu, chip("sm_90a"), launch.grid, integers,
        )
        for options in ({"tma": False}, {}, {"warp_specialize": True})
    ]  # fmt: skip
    threads, boxes, roles = found
    assert boxes.requests < threads.requests / 8  # boxes it is
    for other in (boxes, roles):
        assert other.sectors == pytest.approx(threads.sectors, rel=0.25)
        assert other.tensor == threads.tensor
        assert 0.5 < other.late / threads.late < 2
    # The product of a round is under way while the next one is prepared: only the last is awaited.
    assert all(one.products > 4 * max(1, one.meets) for one in (boxes, roles))


def test_every_chip_has_numbers_and_waves_cost():
    facts = Facts(64, 0, 0, 4, 16, 64, "registers", Work(sectors=1000.0, waits=1))
    for name in CHIPS:
        speed = speeds(name)
        side_by_side = speed.multiprocessors * 4
        one, two = (predict(facts, name, (side_by_side * n,)) for n in (1, 2))
        more = predict(facts, name, (side_by_side + 1,))
        assert one.microseconds < more.microseconds < two.microseconds
        assert one.waves == 1
    slow = predict(facts, "sm_90a", (1,), moved=1e9)
    assert slow.bound == "memory"
    assert predict(facts, "sm_90a", (0,)) is None


def test_what_is_spilled_goes_to_memory():
    told = [
        predict(Facts(255, spilled, 0, 4, 16, 64, "registers", Work(waits=1)), "sm_90a", (4096,))
        for spilled in (0, 2000, 4000)
    ]
    a_byte = 32 * 4 * 4096 / (speeds("sm_90a").memory_gbps * 1e3)  # of each lane of four warps
    assert told[0].microseconds + 500 * a_byte < told[1].microseconds < told[2].microseconds
    assert told[2].bound == "memory"


def test_blocks_that_stay_begin_once_and_take_their_share_of_programs():
    product = Products("wgmma", "f16")
    work = Work(tensor={product: 4096.0 * 2000}, products=8, rounds=8, late=4.0)
    there = speeds("sm_90a").multiprocessors  # one block on each

    def told(programs, *, stays):
        facts = Facts(168, 0, 0, 8, 12, 64, "shared", work, 4, 32 * stays)
        return predict(facts, "sm_90a", (programs,)).microseconds

    assert told(there, stays=True) == told(there, stays=False)
    for waves in (2, 8):
        saved = told(waves * there, stays=False) - told(waves * there, stays=True)
        cycles = saved * speeds("sm_90a").gigahertz * 1e3
        assert cycles == pytest.approx((waves - 1) * (START + LATENCY - TURN), rel=0.3)
    # So many that blocks do not stay: the launch takes as many blocks as there are programs.
    assert told(40 * there, stays=True) == told(40 * there, stays=False)


def test_groups_that_go_their_own_way_overlap_and_those_in_step_do_not():
    product = Products("wgmma", "f16")
    work = Work(tensor={product: 4096.0 * 50_000}, lanes=128.0 * 45_000, products=64, meets=64)

    def told(barriers):
        facts = Facts(168, 0, 0, 8, 8, 64, "registers", replace(work, barriers=barriers))
        return predict(facts, "sm_90a", (132,)).microseconds - barriers * BARRIER / 1755

    assert told(0) < 0.85 * told(64)
    # A queue with one customer is none; with many the longest demand decides.
    assert _queue(1, 7.0, (3.0, 5.0)) == pytest.approx(15)
    assert _queue(200, 7.0, (3.0, 5.0)) / 200 == pytest.approx(5, rel=0.02)


def test_products_whose_operands_come_slowly_take_as_long_as_those():
    speed = speeds("sm_90a")
    fed, starved = (
        units_of(Facts(0, 0, 0, 4, 4, 64, "", Work(tensor={Products("wgmma", "f16", rows): 1e6})),
                 speed)["tensor cores"]
        for rows in (0.0, 2 / speed.tensor)
    )  # fmt: skip
    assert starved == pytest.approx(2 * fed)


def test_predicted_times_are_near_measured_ones_and_rank_as_they_do():
    for name, told, took in itertools.islice(stored.sizes(), 4, 12):
        assert 0.75 < told / took < 1.25, name
    runs = json.loads(stored.STORED.read_text())["runs"]
    one = next(run for run in runs if (run["suite"], run["size"]) == ("matmul_nn", 1024))
    ((_, rank, best),) = stored.judged([one])
    assert rank >= 0.9
    assert best <= 1.1


def test_half_of_the_workers_begin_where_squares_cost_most(monkeypatch):
    """Else one is left with the largest tiles when the others are done."""
    order: list[int] = []
    both = threading.Barrier(2)

    class Idle:
        alive = False

    def do(self, worker, job):
        order.append(int(job))
        if len(order) <= 2:
            both.wait(10)
        return workers.Answer(pruned="nothing"), worker

    monkeypatch.setattr(workers, "_take", Idle)
    monkeypatch.setattr(workers.Compilation, "_do", do)
    told: list[int] = []
    look = workers.Compilation([None] * 6, lambda n, _: told.append(n), prune=False, seconds=None,
                               look=print)  # fmt: skip
    assert look._in_workers([(n, b"%d" % n) for n in range(6)], 2) == []
    assert sorted(order[:2]) == [0, 5]
    assert sorted(told) == list(range(6))


def test_rounds_with_two_products_under_way_issue_more():
    """What is counted in SASS: one that waits for each product has no copies to make."""
    speed = speeds("sm_90a")
    work = Work(lanes=128.0 * 45_000, products=64, meets=64)
    facts = Facts(168, 0, 0, 8, 8, 64, "registers", work)
    beside = replace(facts, work=replace(work, meets=32.0))
    one, two = (units_of(f, speed)["arithmetic"] for f in (facts, beside))
    assert two - one == pytest.approx(MOVES * 32 * facts.num_warps * 32 / speed.lanes)
