from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import workbench as wb
from tests.runtime.kernels import add
from workbench import tl
from workbench.runtime import shipping
from workbench.runtime.timing import Effort
from workbench.source import KernelError, LaunchError
from workbench.tuning import racing, resources, search, store, workers
from workbench.tuning.racing import Candidate, Race

QUICK = Effort(warm_up=1, milliseconds=2, runs=10)


def grid(meta):
    return (wb.cdiv(meta["n"], meta["BLOCK"]),)


def sleeping(seconds):
    return Candidate(lambda: time.sleep(seconds))


# -- racing -------------------------------------------------------------------------------------
def test_slow_candidates_are_left_out():
    fast, slow = sleeping(0.0005), sleeping(0.01)
    Race([slow, fast], gpu=False, effort=QUICK).run()
    assert slow.dropped
    assert not fast.dropped
    assert len(slow.timing.samples) < len(fast.timing.samples) + 1


def test_preparing_and_finishing_are_not_timed():
    log = []
    candidate = Candidate(
        lambda: log.append("call"),
        lambda: (log.append("prepare"), time.sleep(0.005)),
        lambda: log.append("finish"),
    )
    Race([candidate], gpu=False, effort=Effort(0, 0, 5)).run()
    assert log[:3] == ["prepare", "call", "finish"]
    assert log.count("call") == log.count("prepare") == log.count("finish")
    assert candidate.timing.median < 1


def test_a_candidate_that_fails_leaves_the_race():
    def fails():
        raise LaunchError("it does not fit")

    bad, good = Candidate(fails), Candidate(lambda: None)
    Race([bad, good], gpu=False, effort=QUICK).run()
    assert bad.error.message == "it does not fit"
    assert good.timing.samples


def test_an_error_of_the_device_ends_the_race():
    def fails():
        raise LaunchError("the device is lost", code="K503")

    with pytest.raises(LaunchError, match="the device is lost"):
        Race([Candidate(fails)], gpu=False, effort=QUICK).run()


def test_a_stopped_race_keeps_its_samples():
    calls = []

    def call():
        calls.append(1)
        if len(calls) == 12:
            raise KeyboardInterrupt

    candidate = Candidate(call)
    race = Race([candidate], gpu=False, effort=Effort(0, 1e6, 1000))
    race.run()
    assert race.stopped
    assert candidate.timing.samples


class Scripted:
    """A clock by which each run of a candidate takes what its script says, the last for ever."""

    def __init__(self, *scripts):
        self.candidates = [Candidate(lambda: None) for _ in scripts]
        self.scripts, self.order = list(scripts), []

    def race(self, monkeypatch, effort):
        monkeypatch.setattr("workbench.tuning.racing._HostClock", lambda: self)
        race = Race(self.candidates, gpu=False, effort=effort)
        race.run()
        return race

    def get_ready(self, candidate):
        pass

    wait = get_ready

    def sample(self, candidate, runs):
        number = next(n for n, c in enumerate(self.candidates) if c is candidate)
        self.order.append(number)
        script = self.scripts[number]
        for _ in range(runs):
            taken = len(candidate.timing.samples)
            candidate.timing.samples.append(script[min(taken, len(script) - 1)])


def test_those_that_are_close_are_decided_by_the_same_rounds(monkeypatch):
    """The second is fast for a while, and one by the effort; the third never close."""
    clock = Scripted([1.0], [0.99] * 20 + [1.02], [1.1])
    race = clock.race(monkeypatch, Effort(0, 30, 10))
    first, second, third = clock.candidates
    assert first.timing.median < second.timing.median
    assert len(first.timing.samples) == len(second.timing.samples) == 60
    assert len(third.timing.samples) == 30
    assert not race.stopped
    turns = [tuple(clock.order[n : n + 3]) for n in range(0, 18, 3)]
    assert {tuple(sorted(turn)) for turn in turns} == {(0, 1, 2)}
    assert len(set(turns)) > 1


def test_one_that_nobody_is_close_to_is_measured_once(monkeypatch):
    clock = Scripted([1.0], [1.1])
    clock.race(monkeypatch, Effort(0, 30, 10))
    assert [len(c.timing.samples) for c in clock.candidates] == [30, 30]


# -- the resource model -------------------------------------------------------------------------
@wb.jit
def product(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, BK: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, BK)
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rows[:, None] * K + k + inner[None, :])
        b = tl.load(b_ptr + (k + inner[:, None]) * N + columns[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], acc)


def module_of(**sizes):
    from workbench.compiler import lower
    from workbench.launch.facts import Signature, to_specialization
    from workbench.launch.signature import read_signature

    arguments = read_signature(product.kernel_source, "*f16 *f16 *f32 i32", sizes)
    return lower(product.kernel_source, to_specialization(Signature(arguments))).module


def test_an_accumulator_that_fits_no_thread_is_refused():
    module = module_of(M=256, N=256, BK=32)
    assert resources.carried_bytes(module) == 256 * 256 * 4
    reason = resources.refusal(module, "sm_90a", {"num_warps": 4})
    assert reason == "needs 528 registers a thread or more, there are 255"
    assert not resources.refusal(module, "sm_90a", {"num_warps": 16})
    assert resources.refusal(module, "sm_90a", {"num_warps": 16, "maxnreg": 64})


def test_an_operand_that_fits_no_shared_memory_is_refused():
    module = module_of(M=16, N=1024, BK=128)
    assert resources.shared_bytes(module) == 1024 * 128 * 2
    reason = resources.refusal(module, "sm_90a", {"num_warps": 32})
    assert reason == "needs 262,144 bytes of shared memory or more, sm_90a has 232,448"


# -- other processes ----------------------------------------------------------------------------
SCALE = tl.constexpr(3)


@wb.jit
def times(x, FACTOR: tl.constexpr):
    return x * FACTOR + SCALE


def plain_helper(x):
    return x + 1


@wb.jit
def scaled(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, plain_helper(times(x, 2)), mask=offsets < n)


def outcomes(plans, monkeypatch, count=2, **options):
    monkeypatch.setenv("WORKBENCH_WORKERS", str(count))
    found = {}
    workers.compile_all(plans, found.__setitem__, **options)
    return [found[number] for number in sorted(found)]


def test_kernels_compiled_elsewhere_run_here(monkeypatch):
    x, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    plans = [scaled.plan(x, out, 100, BLOCK=size, grid=grid) for size in (8, 16, 32)]
    found = outcomes(plans, monkeypatch)
    assert [outcome.reason for outcome in found] == [""] * 3
    kernel = scaled[grid](x, out, 100, BLOCK=16)
    assert kernel is found[1].kernel
    assert np.array_equal(out, x * 2 + 4)
    assert "tile.load" in kernel.asm["tile"]


def test_closures_and_recursion_travel(monkeypatch):
    factor = tl.constexpr(5)

    @wb.jit
    def power(x, N: tl.constexpr):
        return x if N == 0 else power(x, N - 1) * factor

    @wb.jit
    def kernel(x_ptr, BLOCK: tl.constexpr):
        offsets = tl.arange(0, BLOCK)
        tl.store(x_ptr + offsets, power(tl.load(x_ptr + offsets), 2))

    x = np.ones(8, np.float32)
    (found,) = outcomes([kernel.plan(x, BLOCK=8, grid=(1,))], monkeypatch)
    assert found.kernel is kernel[(1,)](x, BLOCK=8)
    assert x.tolist() == [25] * 8


def test_what_cannot_be_compiled_says_why_in_one_line(monkeypatch):
    @wb.jit
    def kernel(x_ptr, BLOCK: tl.constexpr):
        tl.static_assert(BLOCK < 16, "too large")
        tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)

    x = np.ones(32, np.float32)
    plans = [kernel.plan(x, BLOCK=size, grid=(1,)) for size in (8, 16)]
    good, bad = outcomes(plans, monkeypatch)
    assert good.kernel is not None
    assert bad.reason == "K211: static assertion failed: too large"
    assert isinstance(bad.error, KernelError)


class Unknown:
    """A value of a class that no other process can import."""

    def __reduce__(self):
        raise TypeError("it stays here")


STAYS = Unknown()


@wb.jit
def with_unknown(x_ptr, BLOCK: tl.constexpr):
    if BLOCK == 0:
        STAYS()
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)


def test_what_cannot_travel_is_compiled_here(monkeypatch):
    x = np.zeros(8, np.float32)
    plan = with_unknown.plan(x, BLOCK=8, grid=(1,))
    with pytest.raises(shipping.ShippingError):
        shipping.dumps(plan.source)
    (found,) = outcomes([plan], monkeypatch)
    assert found.kernel is not None


def test_a_worker_that_ends_is_a_reason(monkeypatch):
    monkeypatch.setattr(workers.Worker, "do", lambda self, job, seconds: None)
    x, out = np.zeros(8, np.float32), np.zeros(8, np.float32)
    (found,) = outcomes([scaled.plan(x, out, 8, BLOCK=64, grid=grid)], monkeypatch, count=1)
    assert found.reason == "K414: the process that compiled it ended"


def test_without_time_nothing_is_begun(monkeypatch):
    x, out = np.zeros(8, np.float32), np.zeros(8, np.float32)
    (found,) = outcomes(
        [scaled.plan(x, out, 8, BLOCK=64, grid=grid)], monkeypatch, count=0, seconds=-1.0
    )
    assert found.reason == "no time left"


SCRIPT = """
import numpy as np
import workbench as wb
from workbench import tl

print("the main module runs")

@wb.autotune([wb.Config({"BLOCK": 1 << n}) for n in range(4, 9)], key=["n"], rep=1, warmup=0)
@wb.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)

x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
double[lambda meta: (wb.cdiv(1000, meta["BLOCK"]),)](x, out, 1000)
assert np.array_equal(out, 2 * x)
print(len(double.configs_timings), double.best_config.kwargs["BLOCK"] in (16, 32, 64, 128, 256))
"""


def test_a_script_without_a_main_guard(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_WORKERS", "2")
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(wb.__path__[0]).parent)},
    )
    assert done.stdout.split("\n")[:2] == ["the main module runs", "5 True"]


# -- searching ----------------------------------------------------------------------------------
CONFIGS = [wb.Config({"BLOCK": size}) for size in (16, 64, 256)]


def tuned(configs=CONFIGS, **options):
    return wb.autotune(configs, key=["n"], rep=1, warmup=0, **options)(add.fn)


def many():
    x = np.arange(1000, dtype=np.float32)
    return x, x + 1, np.zeros_like(x)


def test_a_search_on_the_cpu():
    x, y, out = many()
    kernel = tuned()
    kernel[grid](x, y, out, 1000)
    assert np.array_equal(out, x + y)
    assert set(kernel.configs_timings) == set(CONFIGS)
    assert kernel.best_config == min(CONFIGS, key=lambda c: kernel.configs_timings[c][0])
    assert kernel.bench_time > 0


def test_what_a_search_found_is_found_on_disk(monkeypatch):
    x, y, out = many()
    first = tuned()
    first[grid](x, y, out, 1000)
    monkeypatch.setattr(search.Search, "run", lambda self: pytest.fail("measured again"))
    second = tuned()
    second[grid](x, y, out, 1000)
    assert second.configs_timings == first.configs_timings
    assert second.best_config == first.best_config


def test_what_was_found_belongs_to_kernel_key_and_configs():
    key = store.key_of("kernel", (7,), -1, CONFIGS)
    assert key == store.key_of("kernel", (7,), -1, CONFIGS)
    others = [("other", (7,), CONFIGS), ("kernel", (8,), CONFIGS), ("kernel", (7,), CONFIGS[1:])]
    assert all(key != store.key_of(k, t, -1, c) for k, t, c in others)


@wb.jit
def kernel_with_limit(x_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK <= 64, "a block of at most 64")
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0, mask=tl.arange(0, BLOCK) < n)


def test_a_failing_configuration_has_a_reason():
    made = wb.autotune(CONFIGS, key=["n"], rep=1, warmup=0)(kernel_with_limit)
    made[(1,)](np.zeros(16, np.float32), 16)
    assert made.configs_timings[CONFIGS[2]][0] == float("inf")
    assert made.reasons[CONFIGS[2]] == "K211: static assertion failed: a block of at most 64"


def test_where_all_fail_the_first_error_is_raised():
    made = wb.autotune([wb.Config({"BLOCK": s}) for s in (128, 256)], key=["n"])(kernel_with_limit)
    with pytest.raises(wb.KernelError, match="a block of at most 64"):
        made[(1,)](np.zeros(16, np.float32), 16)


def test_configurations_with_the_same_code_are_timed_once():
    configs = [wb.Config({"BLOCK": 16}, num_stages=n) for n in (2, 3)]
    found = wb.tune(add, many_arguments(), grid=grid, configs=configs, effort=QUICK)
    assert [row.state for row in found.rows] == ["timed", "same"]
    assert found.rows[0].milliseconds == found.rows[1].milliseconds


# -- tune ---------------------------------------------------------------------------------------
def many_arguments():
    return (*many(), 1000)


def test_tune_along_axes():
    arguments = many_arguments()
    phases = []
    found = wb.tune(
        add,
        arguments,
        grid=grid,
        axes={"BLOCK": [16, 64], "warps": [4, 8]},
        effort=QUICK,
        progress=lambda rows, phase, seconds: phases.append(phase),
    )
    assert np.array_equal(arguments[2], arguments[0] + arguments[1])
    assert len(found.rows) == 4
    assert found.line in [f"--set BLOCK={b} --set warps={w}" for b in (16, 64) for w in (4, 8)]
    header, *rows = found.table()
    assert header == ("BLOCK", "warps", "ms", "state")  # the CPU knows no registers of a thread
    assert rows[0][-1] == "best"
    assert "add: 4 of 4 timed" in repr(found)
    assert "<table>" in found._repr_html_()
    assert phases[0] == "compiling"
    assert phases[-1] == "done"


def test_an_unknown_axis():
    with pytest.raises(wb.KernelError, match=r"no axis 'BLK'; axes: BLOCK, warps, stages, ctas"):
        wb.tune(add, many_arguments(), grid=grid, axes={"BLK": [1]})


def test_axes_join_the_configurations_of_autotune():
    kernel = tuned()
    found = wb.tune(kernel, many_arguments(), grid=grid, axes={"warps": [2]}, effort=QUICK)
    assert {row.config.kwargs["BLOCK"] for row in found.rows} == {16, 64, 256}
    assert all(row.config.num_warps == 2 for row in found.rows)
    kernel[grid](*many_arguments())
    assert kernel.best_config == found.config


def test_a_configuration_that_fails_its_check():
    x, y, out = many()

    def check():
        assert out[500] == x[500] + y[500], "element 500 is wrong"
        out[:] = 0

    found = wb.tune(
        add,
        (x, y, out, 1000),
        grid=(4,),  # enough for blocks of 256 alone
        axes={"BLOCK": [16, 256]},
        effort=QUICK,
        check=check,
    )
    assert found.rows[0].reason == "element 500 is wrong"
    assert found.config.kwargs == {"BLOCK": 256}


def test_stopping_keeps_the_best_so_far():
    def progress(rows, phase, seconds):
        if phase == "timing" and rows[0].milliseconds is not None:
            raise KeyboardInterrupt

    found = wb.tune(
        add,
        many_arguments(),
        grid=grid,
        axes={"BLOCK": [16, 32, 64]},
        effort=Effort(0, 1e6, 10**6),
        progress=progress,
    )
    assert found.stopped
    assert found.config is not None
    assert "stopped early" in str(found)


class Clock:
    """Hundredths of a second that pass when somebody looks, however busy the machine is."""

    def __init__(self):
        self.looks = itertools.count()

    def monotonic(self):
        return next(self.looks) / 100

    def __getattr__(self, name):
        return getattr(time, name)


def test_the_end_of_the_time_keeps_the_best_so_far(monkeypatch):
    clock = Clock()
    for module in (search, racing, workers):
        monkeypatch.setattr(module, "time", clock)
    found = wb.tune(
        add,
        many_arguments(),
        grid=grid,
        axes={"BLOCK": [16, 32]},
        effort=Effort(0, 1e6, 10**6),
        seconds=2.0,
    )
    assert found.config is not None
    assert 200 < next(clock.looks) < 400


def test_a_worker_that_retired_is_replaced(monkeypatch):
    x, out = np.zeros(8, np.float32), np.zeros(8, np.float32)
    (first,) = outcomes([scaled.plan(x, out, 8, BLOCK=8, grid=grid)], monkeypatch, count=1)
    (worker,) = workers._idle[-1:]
    worker._process.stdin.close()  # it finds no more jobs, and ends
    monkeypatch.setattr(workers.Worker, "alive", True)
    (second,) = outcomes([scaled.plan(x, out, 8, BLOCK=16, grid=grid)], monkeypatch, count=1)
    assert first.kernel is not None
    assert second.kernel is not None


def test_trials_are_not_observed():
    from workbench.runtime.jit import observing

    x, y, out = many()
    records = []
    with observing(records.append):
        tuned()[grid](x, y, out, 1000)
    assert len(records) == 1
