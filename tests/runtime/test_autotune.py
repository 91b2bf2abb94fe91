from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.runtime.kernels import add
from workbench import tl


def timings(order):
    """Return a stand-in for the clock: each call runs once, and takes what `order` says."""
    times = iter(order)

    def measure(call, quantiles):
        call()
        return [next(times)] * len(quantiles)

    return measure


def tuned(order, **options):
    configs = [wb.Config({"BLOCK": size}, num_warps=None, num_stages=None) for size in (2, 4, 8)]
    return wb.autotune(configs, key=["n"], do_bench=timings(order), **options)(add)


def on_cpu(kernel, *args, **given):
    """Launch on the interpreter through the tuner's own search."""
    kernel.fn = _Interpreting(add)
    return kernel.run(*args, **given)


class _Interpreting:
    """Runs each configuration in the interpreter, which the tuner itself never measures."""

    def __init__(self, kernel):
        self.kernel = kernel
        self.arg_names = kernel.arg_names

    def run(self, *args, **given):
        return self.kernel.run(*args, **given, target="interpreter")


def grid(meta):
    return (wb.cdiv(meta["n"], meta["BLOCK"]),)


def test_the_fastest_configuration_is_launched(seven):
    x, y, out = seven
    kernel = tuned([3.0, 1.0, 2.0])
    on_cpu(kernel, x, y, out, 7, grid=grid)
    assert np.array_equal(out, x + y)
    assert kernel.best_config.kwargs == {"BLOCK": 4}
    assert [time[0] for time in kernel.configs_timings.values()] == [3.0, 1.0, 2.0]


def test_what_was_found_is_used_for_the_same_key(seven):
    x, y, out = seven
    kernel = tuned([3.0, 1.0, 2.0])
    for _ in range(2):
        on_cpu(kernel, x, y, out, 7, grid=grid)
    assert len(kernel.cache) == 1


def test_another_key_is_measured_again(seven):
    x, y, out = seven
    kernel = tuned([3.0, 1.0, 2.0, 1.0, 2.0, 3.0])
    on_cpu(kernel, x, y, out, 7, grid=grid)
    on_cpu(kernel, x, y, out, 6, grid=grid)
    assert kernel.best_config.kwargs == {"BLOCK": 2}
    assert len(kernel.cache) == 2


def test_a_value_given_twice_is_refused(seven):
    with pytest.raises(ValueError, match="BLOCK is given by the caller and by a configuration"):
        tuned([])[(1,)](*seven, 7, BLOCK=2)


def test_values_are_restored_and_zeroed_between_trials(seven):
    x, y, out = seven
    before = x.copy()
    kernel = tuned([1.0, 2.0, 3.0], restore_value=["x_ptr"], reset_to_zero=["out_ptr"])
    seen = []
    kernel.pre_hook = lambda named: (seen.append(named["out_ptr"].any()), named["x_ptr"].fill(5))
    on_cpu(kernel, x, y, out, 7, grid=grid)
    assert seen == [False, False, False]
    assert np.array_equal(x, before)


def test_a_configuration_that_fails_is_infinitely_slow(seven):
    def fails(call, quantiles):
        call()
        return [1.0] * len(quantiles)

    configs = [wb.Config({"BLOCK": size}, num_warps=None) for size in ("bad", 4)]
    kernel = wb.autotune(configs, key=[], do_bench=fails)(add)
    x, y, out = seven
    on_cpu(kernel, x, y, out, 7, grid=(2,))
    assert kernel.best_config.kwargs == {"BLOCK": 4}
    assert kernel.configs_timings[configs[0]][0] == float("inf")


def test_one_configuration_is_not_measured(seven):
    x, y, out = seven
    kernel = wb.autotune([wb.Config({"BLOCK": 4})], key=["n"])(add)
    kernel.interpret[(2,)](x, y, out, 7)
    assert np.array_equal(out, x + y)
    assert not kernel.configs_timings


def test_pruning(seven):
    x, y, out = seven
    prune = {
        "early_config_prune": lambda configs, named, **_: configs[1:],
        "perf_model": lambda BLOCK, **_: -BLOCK,
        "top_k": 1,
    }
    kernel = tuned([1.0], prune_configs_by=prune)
    on_cpu(kernel, x, y, out, 7, grid=grid)
    assert kernel.best_config.kwargs == {"BLOCK": 8}


def test_hooks_of_a_configuration_see_its_values(seven):
    x, y, out = seven
    seen = []
    config = wb.Config({"BLOCK": 4}, pre_hook=lambda named: seen.append(named["BLOCK"]))
    wb.autotune([config], key=[])(add).interpret[(2,)](x, y, out, 7)
    assert seen == [4]


def test_heuristics_compute_arguments_in_order():
    @wb.heuristics({"HALF": lambda named: named["n"] // 2, "WHOLE": lambda n: n["HALF"] * 2})
    @wb.jit
    def store(out_ptr, n, HALF: tl.constexpr, WHOLE: tl.constexpr):
        tl.store(out_ptr + tl.arange(0, 2), HALF * 100 + WHOLE)

    out = np.zeros(2, np.int32)
    store.interpret[(1,)](out, 9)
    assert out.tolist() == [408, 408]


def test_configs_are_values():
    config = wb.Config({"BLOCK": 4}, num_warps=8)
    assert config == wb.Config({"BLOCK": 4}, num_warps=8)
    assert str(config) == "BLOCK: 4, num_warps: 8, num_stages: 3, num_ctas: 1"
    assert len({config, wb.Config({"BLOCK": 4}, num_warps=8)}) == 1
