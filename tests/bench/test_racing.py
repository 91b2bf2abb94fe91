"""Contests without a device: what is tuned, tried and said, on the CPU; processes that hang."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from tests.bench import (
    ahead,
    backward,
    contests,
    convolutions,
    experts,
    mixed,
    paged,
    products,
    racing,
    skinny,
    trial,
    versus,
)
from tests.bench.contests import Config, Contest, Prepared, Tensors
from tests.bench.racing import Arena, Log
from tests.corpus.sample import F32, Launch
from tests.kernels import vector_add
from workbench.launch.options import check_options

TRIALS = Path(__file__).parent / "trials"
CONFIGS = tuple(Config((block,), 4, 1) for block in (64, 128, 256, 512))


@pytest.mark.parametrize("path", sorted(TRIALS.iterdir()), ids=lambda path: path.stem)
def test_trials_name_contests_and_options(path):
    for line in path.read_text().splitlines():
        if not line.startswith("#"):
            (contest,) = trial.matching(line)
            for who, config in trial.entries(contest, line.partition(":")[2]):
                assert who in ("ours", "triton")
                assert len(config.blocks) == len(contest.configs[0].blocks)
                check_options(config.options)


def test_an_option_is_switched_off_or_has_a_number():
    (config,) = contests.with_options("tma no persistent most_rounds=8", (64, 4, 2))
    assert config.options == {"num_warps": 4, "num_stages": 2, "tma": True, "persistent": False,
                              "most_rounds": 8}  # fmt: skip
    assert trial.config_of(str(config)) == config


def adding(tensors, spoil=0):
    x, out = tensors.normal(1000, dtype=F32), tensors.empty(1000, dtype=F32)

    def launch(config):
        (block,) = config.blocks
        n = 999 if block == spoil else 1000
        return Launch(vector_add.add, (-(-1000 // block),), (x, x, out, n), {"BLOCK": block})

    return Prepared(launch, out, lambda: x + x, (0.0, 0.0), {"torch": lambda: torch.add(x, x)},
                    {"again": launch})  # fmt: skip


def contest(name="first", **more):
    return Contest("adds", name, F32, 1000, vector_add, adding, CONFIGS, 1000, 12000, "adds",
                   **{"tunes": True, "peer": False, **more})  # fmt: skip


@pytest.fixture
def on_cpu(monkeypatch):
    monkeypatch.setattr(racing, "Tensors", lambda device: Tensors("cpu"))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    real = racing.measure
    monkeypatch.setattr(racing, "measure", lambda calls, gpu, warm, effort: real(
        calls, effort=replace(effort, warm_up=0.0, milliseconds=0.0, runs=1)))  # fmt: skip


def test_a_family_is_tuned_once(tmp_path, on_cpu):
    log = Log(tmp_path / "log")
    arena = Arena(log)
    first, second = contest(), contest("second", tunes=False)
    arena.run(first)
    best = log.tuned["adds"]["ours"]
    assert len(best) == racing.BEST
    assert set(best) <= set(CONFIGS)
    arena.run(second)
    again = Log.read(tmp_path / "log")
    assert again == log
    assert again.ended == {first.title, second.title}
    assert {(r.case, r.baseline) for r in again.rows} == {
        (name, baseline) for name in ("first", "second") for baseline in ("torch", "again")
    }
    assert all(str(best).find(r.config.split()[0]) >= 0 for r in again.rows)
    assert "geometric mean" in racing.summary(again.rows)
    tried = [json.loads(line).get("tries", "") for line in (tmp_path / "log").open()]
    assert sum("second fp32 1000: ours" in what for what in tried) == racing.BEST


@pytest.mark.parametrize(
    ("medians", "taken"),
    [([1.0, 1.2, 1.3, 1.4], 3), ([1.0, 1.01, 1.02, 1.04, 1.06], 4), ([1.0] * 9, 6), ([1.0], 1)],
)
def test_a_race_decides_between_those_that_are_close(medians, taken):
    assert racing.finalists(medians) == taken


def test_what_is_wrong_or_raises_is_not_timed(tmp_path, on_cpu):
    log = Log(tmp_path / "log")
    Arena(log).run(replace(contest(), prepare=partial(adding, spoil=64)))
    assert len(log.missing) == 1
    assert "ours 64 w4 s1: wrong by inf" in log.missing[0]
    assert Config((64,), 4, 1) not in log.tuned["adds"]["ours"]
    bad = replace(contest(), configs=(Config((0,), 4, 1),), family="bad")
    Arena(log).run(bad)
    assert "adds first fp32 1000: ours: " in log.missing[-1]
    assert bad.title in log.ended


def test_what_others_get_wrong_is_said_and_left_out(tmp_path, on_cpu, monkeypatch, capsys):
    """A row is missing only if it has no right result at all."""
    plain = racing.call_of
    monkeypatch.setattr(racing, "call_of", lambda what, one, who: plain(what, one, "ours"))
    monkeypatch.setattr(racing.peers, "triton_installed", lambda: True)
    log = Log(tmp_path / "log")
    peers = replace(contest(peer=True), peer_configs=(Config((64,), 4, 1), Config((128,), 4, 1)),
                    configs=(Config((128,), 4, 1),), prepare=partial(adding, spoil=64))  # fmt: skip
    Arena(log).run(peers)
    assert not log.missing
    assert "triton: 64 w4 s1: wrong by inf" in capsys.readouterr().out
    assert {row.baseline for row in log.rows} == {"triton", "torch", "again"}
    worse = replace(peers, peer_configs=(Config((64,), 4, 1),), name="worse", family="worse")
    Arena(log).run(worse)
    assert [line for line in log.missing if "worse fp32 1000: triton: 64 w4 s1: wrong" in line]


def test_what_a_compiler_says_last_is_kept():
    said = ahead.shortened("at 18:12: " + "quoted " * 99 + "\n cannot cast int32", 60)
    assert len(said) <= 60
    assert said.startswith("at 18:12")
    assert said.endswith("cannot cast int32")
    assert ahead.shortened("short\n one", 60) == "short one"


#: What a child does, without what it imports: one of its configurations does not come back.
PROGRAM = """
import json, sys, time
path = {path!r}
said = [json.loads(line) for line in open(path)]
def add(**words):
    with open(path, "a") as file:
        file.write(json.dumps(words) + chr(10))
for config in ("a", "b", "c"):
    say = "adds first fp32 1000: ours " + config
    if dict(fatal=say) not in [dict(fatal=one.get("fatal")) for one in said]:
        add(tries=say)
        if config == "b":
            {what}
add(rows=[], of="adds first fp32 1000")
"""


@pytest.mark.parametrize(
    ("what", "word"), [("time.sleep(1000)", "hangs"), ("sys.exit(3)", "ended its process with 3")]
)
def test_a_process_that_hangs_or_ends_is_followed_by_another(tmp_path, monkeypatch, what, word):
    monkeypatch.setattr(contests, "all_contests", lambda: (contest(),))
    path = tmp_path / "log"
    path.touch()
    program = PROGRAM.format(path=str(path), what=what)
    started = []
    real = subprocess.Popen

    def start(command, **more):
        started.append(real([sys.executable, "-c", program], **more))
        return started[-1]

    def wait(process, path, end):  # as long as it takes, and not a moment longer
        while process.poll() is None:
            if word == "hangs" and Log.read(path).tries.endswith("ours b"):
                process.kill()
                process.wait()
                return True
            time.sleep(0.02)
        return False

    monkeypatch.setattr(racing.subprocess, "Popen", start)
    monkeypatch.setattr(racing, "_wait", wait)
    racing.watch("adds", path, [0], {}, time.monotonic() + 100)
    log = Log.read(path)
    assert len(started) == 2
    assert log.missing == [f"adds first fp32 1000: ours b: {word}"]
    assert log.ended == {"adds first fp32 1000"}


def test_a_process_that_says_nothing_is_killed(tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.touch()
    monkeypatch.setattr(racing, "SILENT_SECONDS", 0.2)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    assert racing._wait(process, path, time.monotonic() + 1000)
    assert process.poll() is not None


def test_every_contest_is_unlike_all_others_and_compiles_few_configurations():
    every = contests.all_contests()
    assert len({c.title for c in every}) == len(every)
    tuned = {c.family for c in every if c.tunes}
    assert {c.family for c in every} <= tuned
    for one in every:
        assert 0 < len(one.configs) <= contests.MOST_CONFIGS
        prepared = one.prepare(Tensors("meta"))
        assert all(launch.grid for launch in prepared.launches(one.configs[0]))
    assert ahead.jobs(range(3), ["ours"])


def test_no_contest_of_8_bits_allows_a_lost_block_of_k():
    """A block of k products of normal numbers deviates by the root of k, some elements by four."""
    found = [one for one in contests.all_contests() if one.suite == "fp8"]
    for one in found:
        lost = min(config.blocks[2] for config in one.configs)
        assert one.prepare(Tensors("meta")).allowed[1] < 4 * lost**0.5, one.title
    assert found


def test_products_and_attention_are_what_they_say():
    """The contests' launches, at a small size, on the CPU."""
    for make in (
        partial(products.product, dtype=F32, layout="nt"),
        partial(products.product, dtype=torch.float16, layout="tn", activation="leaky_relu"),
        partial(products.typed_product, dtype=torch.float8_e4m3fn, imprecise=128),
        partial(products.typed_product, dtype=torch.int8),
    ):
        prepared = make(Tensors("cpu"), 48)
        launch = prepared.launch(Config((32, 16, 128), 4, 2))
        racing.jitted(launch.kernel)[launch.grid](*launch.arguments, **launch.named)
        if "int8" not in launch.kernel.__name__ and "fp8" not in launch.kernel.__name__:
            assert racing.error_of(prepared, prepared.reference()) <= 0
    assert set(versus.CASES) == {"matmul", "attention"}


def test_what_stands_on_tensor_cores_is_what_it_says():
    """The contests' launches, at small sizes, on the CPU."""
    shape = convolutions.Shape(1, 16, 5, 8, 3)
    for prepare, config in (
        (partial(backward.backward, size=64, head=16, causal=True), (16, 32, 32, 16)),
        (partial(backward.backward, size=64, head=16, causal=True, fused=True), (16, 32, 32, 16)),
        (partial(paged.decode, batch=2, length=64, page=16), (32, 2)),
        (partial(paged.mixed, sequences=((1, 20), (5, 5)), page=16), (4, 32)),
        (partial(skinny.skinny, m=3, k=96, n=40, how="split"), (16, 32, 32, 2)),
        (partial(skinny.skinny, m=3, k=96, n=40, how="shared"), (16, 32, 32, 1)),
        (partial(mixed.mixed, kind="int4", m=3, k=128, n=40), (16, 32, 64)),
        (partial(mixed.mixed, kind="fp8", m=3, k=128, n=40), (16, 32, 64)),
        (partial(mixed.mixed, kind="e2m1", m=3, k=128, n=40), (16, 32, 64)),
        (partial(experts.group_products, rows=(5, 0, 3), how="tickets", n=40, k=64), (16, 32, 32)),
        (partial(experts.group_products, rows=(5, 0, 3), how="tables", n=40, k=64), (16, 32, 32)),
        (partial(experts.expert_products, tokens=5, n_experts=3, top_k=2, width=32, inner=24),
         (16, 32, 32)),
        (partial(convolutions.convolve, shape=shape, last=True), (16, 16, 16)),
    ):  # fmt: skip
        prepared = prepare(Tensors("cpu"))
        for launch in prepared.launches(Config(config, 4, 2)):
            racing.jitted(launch.kernel)[launch.grid](*launch.arguments, **launch.named)
        assert racing.error_of(prepared, prepared.reference()) <= 0, prepare


@pytest.mark.parametrize("packed", [False, True])
def test_what_was_compiled_ahead_is_found_elsewhere(tmp_path, monkeypatch, packed):
    from workbench.runtime import cache, compiling

    monkeypatch.setattr(cache, "compiler_stamp", cache.compiler_stamp)
    monkeypatch.setattr(compiling, "_same_tools", compiling._same_tools)
    ahead.by_content()
    launch = adding(Tensors("meta")).launch(CONFIGS[0])
    here = tmp_path / "here"
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(here / "more"))
    compiling.forget()
    made = ahead.compile_ours(launch)
    carried = shutil.make_archive(str(here), "gztar", here) if packed else here
    monkeypatch.setenv(ahead.FOLDER, str(carried))
    there = Path(ahead.take_over())
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(there / "more"))
    assert cache.load(made.hash) is not None
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(there))
    assert cache.load(made.hash) is None
